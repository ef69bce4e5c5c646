"""A panel asks several judges at once; no answer passes that a missing member could have refused."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage

from graphs import Outcome, Policy, Unanswered
from judges import (
    AskFailed,
    Cascade,
    ConfigurationError,
    Escalation,
    Helpfulness,
    Judge,
    Length,
    Panel,
    Quick,
    Repeat,
    Usage,
    Verdict,
    as_judge,
    load,
)
from judges.compose.panel import RULES
from judges.offline import Evaluation, Row, evaluate
from judges.offline.results import summarise_rows
from judges.testing import ScriptedJudge, ScriptedModel
from judges.verdict import NOTHING_TO_JUDGE, Unscored
from refine import SelfRefine
from refine.report.contents import RunData, build_report
from refine.report.markdown import markdown
from refine.report.page import page
from tests.kit import Hang
from tests.runs.commands import refine

ROW = {"question": "Why?", "answer": "Because."}
UNKNOWN = Verdict.without_score("no_contexts")
TIED = "the stricter side counts"


def says(line: object, name: str = "scripted") -> ScriptedJudge:
    """Return a judge that always gives the same verdict."""
    return ScriptedJudge([line], cycle=True, name=name)


def members(*lines: object) -> dict[str, ScriptedJudge]:
    """Return judges named a, b, c, ..., one for each verdict."""
    return {chr(ord("a") + index): says(line) for index, line in enumerate(lines)}


@pytest.mark.parametrize(
    ("settings", "ratings", "rating", "detail"),
    [
        ({}, (4, 3, 2), 2, ""),
        ({"rule": "min"}, (4, 4, 4), 4, ""),
        ({"rule": "mean"}, (4, 3, 3), 3, "mean 3.33"),
        ({"rule": "mean"}, (4, 4, 3), 4, "mean 3.67"),
        ({"rule": "mean"}, (4, 3), 3, f"mean 3.50, tied: {TIED}"),
        ({"rule": "mean"}, (1, 2), 1, f"mean 1.50, tied: {TIED}"),
        ({"rule": "weighted", "weights": [3, 1]}, (4, 2), 3, f"mean 3.50, tied: {TIED}"),
        ({"rule": "weighted", "weights": {"a": 4, "b": 1}}, (4, 2), 4, "mean 3.60"),
        ({"rule": "weighted", "weights": [0.1, 0.2, 0.3]}, (3, 3, 2), 2, f"mean 2.50, tied: {TIED}"),
        ({"rule": "weighted", "weights": [1, 0]}, (3, 1), 3, "mean 3.00"),
        ({"rule": "weighted", "weights": [0, 1], "quorum": 1}, (3, UNKNOWN), 3, "no weight among the members"),
        ({"rule": "majority"}, (4, 3, 1), 3, ""),
        ({"rule": "majority"}, (4, 4, 1, 1), 1, f"tied: {TIED}"),
        ({"rule": "majority"}, (4, 3, 3, 1), 3, ""),
        ({"rule": "majority"}, (3, 3, 3, 1), 3, ""),
        ({"rule": "veto"}, (4, 4, 3), 4, "mean 3.67"),
        ({"rule": "veto"}, (4, 4, 2), 2, "vetoed by c"),
        ({"rule": "veto", "veto": ["a"]}, (4, 4, 1), 3, "mean 3.00"),
        ({"rule": "veto", "veto": ["c", "b"]}, (4, 2, 1), 1, "vetoed by b, c"),
        ({"rule": "veto", "veto": ["a"]}, (2, 1, 1), 2, "vetoed by a"),
    ],
)
def test_each_rule_combines_ratings(
    settings: dict[str, Any], ratings: Sequence[object], rating: int, detail: str
) -> None:
    """Worked numbers of every rule; a tie goes to the stricter side and is reported."""
    verdict = Panel(members(*ratings), **settings)(ROW)
    assert (verdict.rating, verdict.passed) == (rating, rating >= 3)
    assert verdict.detail.startswith(detail)
    assert ("tied" in verdict.detail) == ("tied" in detail)
    assert verdict.rated_natively


RATINGS = st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=5)


@given(RATINGS, st.sampled_from([1, 2, 3, 4]), st.sampled_from(["min", "mean", "majority", "veto"]))
def test_a_panel_stays_within_its_members(ratings: list[int], mark: int, rule: Any) -> None:
    """No rule goes below the strictest member or above the most lenient; a majority is more than half of them."""
    rating = Panel(members(*ratings), rule=rule)(ROW).rating
    assert rating is not None
    assert min(ratings) <= rating <= max(ratings)
    verdict = Panel(members(*ratings), rule="majority")(ROW)
    assert verdict.reaches(mark) is (sum(rating >= mark for rating in ratings) * 2 > len(ratings))


def test_a_member_that_cannot_judge_is_skipped_where_a_quorum_is_given() -> None:
    """Unscored is no low rating: the others decide, and the detail names the skipped; half is not enough."""
    verdict = Panel(members(4, UNKNOWN, 3, ValueError, 4), quorum=3)(ROW)
    assert verdict.rating == 3
    assert verdict.detail == "skipped 2: b (no_contexts), d (judge_failed)"
    panel = members(4, ValueError)
    verdict = Panel(panel)(ROW)
    assert verdict.unscored == "too_few_votes"
    assert verdict.detail == "1 of 2 rated, 2 needed; skipped 1: b (judge_failed)"
    assert len(verdict.items) == 2
    assert Panel(panel, quorum=1)(ROW).rating == 4


@pytest.mark.parametrize("failed", [ValueError, Verdict.without_score("invalid_output")])
@pytest.mark.parametrize(
    ("settings", "lines", "passes"),
    [
        ({}, (4, 4, "x"), False),
        ({"rule": "veto"}, (4, 4, "x"), False),
        ({"rule": "veto", "veto": ["c"]}, (4, 4, "x"), False),
        ({"rule": "veto", "veto": ["a"]}, (4, 4, 4, "x"), False),
        ({"rule": "veto", "veto": ["a"]}, (3, 3, "x"), False),
        ({"rule": "majority"}, (4, 4, "x"), True),
        ({"rule": "majority"}, (4, 3, 1, "x"), False),
        ({"rule": "mean"}, (4, 4, "x"), False),
        ({"rule": "mean"}, (3, 3, "x"), False),
        ({"rule": "weighted", "weights": [1, 1, 0]}, (3, 3, "x"), True),
        ({"rule": "weighted", "weights": [1, 1, 9]}, (4, 4, "x"), False),
        ({"success_rating": 2}, (2, 2, "x"), False),
    ],
)
def test_no_answer_passes_that_a_missing_member_could_have_refused(
    settings: dict[str, Any], lines: Sequence[object], failed: object, *, passes: bool
) -> None:
    """The panel is unscored and names the member, unless a quorum is asked for by name; a refusal stays one."""
    voting = members(*(failed if line == "x" else line for line in lines))
    last = list(voting)[-1]
    verdict = Panel(voting, **settings)(ROW)
    assert (bool(verdict.passed), verdict.unscored) == ((True, None) if passes else (False, "too_few_votes"))
    assert last in verdict.detail
    assert [item.judge for item in verdict.items] == list(voting)
    assert Panel(voting, quorum=2, **settings)(ROW).unscored is None


def test_an_unscored_member_is_for_the_policy_of_the_loop() -> None:
    """Nothing is accepted of which nobody knows whether it is safe; the outcome names the member."""

    def safety(answer: str) -> bool:
        raise ValueError(answer)

    judges = [says(4, "helpful"), says(4, "polite"), as_judge(safety)]
    for on_judge_error in ("raise", "reject"):
        policy = Policy(on_judge_error=on_judge_error, max_attempts=1)
        with pytest.raises(Unanswered, match=r"safety \(judge_failed\) gave no verdict"):
            SelfRefine(ScriptedModel(["A draft."]), Panel(judges), policy=policy).invoke("Why?")
    outcome = SelfRefine(ScriptedModel(["A draft."]), judges, policy=Policy(max_attempts=1)).refine("Why?")
    assert not outcome.passed
    assert "safety (judge_failed) gave no verdict" in outcome.detail


IDLE = [Verdict.without_score(reason) for reason in get_args(Unscored) if reason in NOTHING_TO_JUDGE]
FAILED = [Verdict.without_score(reason) for reason in get_args(Unscored) if reason not in NOTHING_TO_JUDGE]


@pytest.mark.parametrize("rule", RULES)
def test_members_with_nothing_to_judge_do_not_count_towards_the_quorum(rule: Any) -> None:
    """Those who have something to judge decide, also by a quorum of their own; a failure still counts."""
    verdict = Panel(members(4, *IDLE), rule=rule, weights=[1] * (1 + len(IDLE)) if rule == "weighted" else None)(
        ROW
    )
    assert (verdict.rating, f"skipped {len(IDLE)}" in verdict.detail) == (4, True)
    settings: dict[str, Any] = {"rule": rule, "weights": [1] * 4 if rule == "weighted" else None}
    assert Panel(members(3, *IDLE[:3]), quorum=3, **settings)(ROW).rating == 3
    for failed in FAILED:
        assert Panel(members(4, failed, *IDLE[:2]), **settings)(ROW).rating is None
        assert Panel(members(4, failed, *IDLE[:2]), quorum=2, **settings)(ROW).rating is None


def test_a_panel_with_nothing_to_judge_says_so() -> None:
    """The reason is the members', so that a panel around it does not wait for its vote; Repeat does the same."""
    idle = Panel(members(UNKNOWN, Verdict.without_score("no_reference")), name="idle")
    assert (idle(ROW).unscored, len(idle(ROW).items)) == ("no_contexts", 2)
    assert idle(ROW).detail == "there was nothing to judge for any; skipped 2: a (no_contexts), b (no_reference)"
    repeated = Repeat(says(UNKNOWN, "repeated"), 3)
    assert repeated(ROW).unscored == "no_contexts"
    assert Panel([idle, repeated, says(4)])(ROW).rating == 4


@pytest.mark.parametrize(
    ("settings", "lines", "rating"),
    [
        ({}, (2, ValueError, ValueError), 2),
        ({}, (ValueError, 1, 4, ValueError, ValueError, ValueError), 1),
        ({"quorum": 3}, (2, 4, ValueError), 2),
        ({"success_rating": 4}, (3, ValueError), 3),
        ({}, (Verdict.scored(0.9, threshold=0.95), ValueError), 2),
        ({}, (4, ValueError, ValueError), None),
        ({"rule": "veto"}, (1, ValueError, ValueError), 1),
        ({"rule": "veto", "veto": ["a"]}, (1, 4, ValueError, ValueError), 1),
        ({"rule": "veto", "veto": ["c"]}, (1, 4, ValueError, ValueError), None),
        ({"rule": "mean"}, (1, ValueError), None),
        ({"rule": "majority"}, (1, ValueError), None),
    ],
)
def test_a_failing_member_decides_before_the_quorum(
    settings: dict[str, Any], lines: Sequence[object], rating: int | None
) -> None:
    """Where no other vote could save the answer, the failing one counts; under other rules it takes a quorum."""
    verdict = Panel(members(*lines), **settings)(ROW)
    assert verdict.rating == rating
    assert (verdict.unscored == "too_few_votes") is (rating is None)
    assert not verdict.passed


@pytest.mark.parametrize("reason", ["budget", "deadline"])
def test_a_spent_limit_keeps_its_reason(reason: Any) -> None:
    """If too few rated because of a budget or deadline, that is the panel's reason and the loop can stop."""
    verdict = Panel(members(4, Verdict.without_score(reason), UNKNOWN))(ROW)
    assert verdict.unscored == reason
    assert Panel(members(1, Verdict.without_score(reason), ValueError))(ROW).rating == 1


def test_a_member_below_its_own_pass_mark_counts_as_failing() -> None:
    """A score that rounds to 4 counts as 2, or below what a lenient panel passes; a failed check still as 1."""
    missed = Verdict.scored(0.9, threshold=0.95)
    verdict = Panel(members(4, missed), rule="mean")(ROW)
    assert (verdict.rating, verdict.detail) == (3, "mean 3.00")
    assert verdict.items[1].rating == 4
    verdict = Panel(members(4, missed), success_rating=2)(ROW)
    assert (verdict.rating, verdict.passed) == (1, False)
    assert Panel(members(4, Verdict.checked(passed=False)))(ROW).rating == 1


def test_what_the_members_say_is_merged() -> None:
    """Feedback of those that fail, lowest first, or of all that pass; reasons and items by a member's name."""
    verdict = Panel(members((2, "Name the year."), (4, "Fine."), (1, "Cite a source."), 3), name="board")(ROW)
    assert verdict.feedback == "- Cite a source.\n- Name the year."
    assert Panel(members((3, "Shorter."), 4))(ROW).feedback == "- Shorter."
    lines = ({"rating": 2, "rationale": "Vague."}, UNKNOWN, {"rating": 4, "rationale": "Kind."})
    verdict = Panel(members(*lines), name="board")(ROW)
    assert (verdict.judge, verdict.rationale) == ("board", "a: Vague.\nc: Kind.")
    assert [(item.judge, item.rating) for item in verdict.items] == [("a", 2), ("b", None), ("c", 4)]


def test_panels_nest() -> None:
    """A panel is a judge, so it can be a member."""
    inner = Panel(members((2, "Mend it."), (1, "And this."), 4), rule="mean", name="inner")
    verdict = Panel([inner, says(4, "outer")], rule="mean")(ROW)
    assert verdict.rating == 3
    assert verdict.feedback.splitlines() == ["- And this.", "- Mend it."]
    assert [(item.judge, len(item.items)) for item in verdict.items] == [("inner", 3), ("outer", 0)]


def reply(rating: int) -> dict[str, object]:
    """Return a judge model's structured reply."""
    return {"rationale": "r", "rating": rating, "feedback": "f"}


def test_usage_and_models_are_summed() -> None:
    """A panel costs what its members cost, and asks the models they ask."""
    models = [ScriptedModel([reply(4)]), ScriptedModel([reply(3)])]
    panel = Panel(
        [Helpfulness(models[0], name="a"), Panel([Helpfulness(models[1], name="b")]), Length(at_most=99)]
    )
    verdict = panel(ROW)
    assert verdict.usage.calls == 2
    assert verdict.usage == sum((item.usage for item in verdict.items), Usage())
    assert len(panel.models) == 2


def waiting(parties: int) -> Callable[..., Any]:
    """Return an async judge that continues once `parties` of its calls are running."""
    running: list[object] = []
    all_running = asyncio.Event()

    async def judge(sample: object) -> bool:
        running.append(sample)
        if len(running) == parties:
            all_running.set()
        await asyncio.wait_for(all_running.wait(), timeout=5)
        return True

    return judge


async def test_members_run_at_once_in_the_event_loop() -> None:
    """Members, and the runs of a repeated judge, that wait for each other finish, as tasks."""
    judge = waiting(3)
    assert (await Panel({"a": judge, "b": judge, "c": judge}).acall(ROW)).rating == 4
    assert (await Repeat(waiting(4), 4).acall(ROW)).rating == 4


async def test_sync_and_async_say_the_same() -> None:
    """Both drivers return the same verdict except for its latency."""
    panel = Panel(members((2, "x"), UNKNOWN, 4, AskFailed("invalid_output", "bad")), quorum=2)
    verdict, async_verdict = panel(ROW), await panel.acall(ROW)
    timeless = {"items": (), "latency_s": 0.0}
    assert verdict.model_copy(update=timeless) == async_verdict.model_copy(update=timeless)


@pytest.mark.parametrize(
    ("names", "unique"),
    [
        (["x", "x", "x"], ["x", "x-2", "x-3"]),
        (["x-2", "x", "x"], ["x-2", "x", "x-3"]),
        (["length-words", "length"], ["length-words", "length"]),
    ],
)
def test_members_of_a_list_get_names_of_their_own(names: list[str], unique: list[str]) -> None:
    """No member of a list replaces another of the same name."""
    verdict = Panel([says(4, name) for name in names])(ROW)
    assert [item.judge for item in verdict.items] == unique


def test_an_error_of_set_up_is_raised() -> None:
    """A member that is set up wrongly is neither a low vote nor skipped."""
    with pytest.raises(ConfigurationError, match="run out"):
        Panel([ScriptedJudge([], name="empty"), says(4)])(ROW)


@pytest.mark.parametrize(
    ("judges", "settings", "message"),
    [
        ([], {}, "at least one judge is needed"),
        ({}, {}, "at least one judge is needed"),
        (Length(at_most=99), {}, "give a list of judges"),
        ([3], {}, "cannot make a judge of 3"),
        (["length"], {}, "the judge 'length': any length would pass"),
        (members(4), {"rule": "max"}, "rule is one of min, mean, weighted, majority, veto, not 'max'"),
        (members(4, 4), {"rule": "weighted"}, "weights gives each of a, b a weight"),
        (members(4, 4), {"rule": "weighted", "weights": [1]}, "weights gives each of a, b a weight"),
        (members(4, 4), {"rule": "weighted", "weights": [1, 2, 3]}, "weights gives each"),
        (members(4, 4), {"rule": "weighted", "weights": {"a": 1, "c": 1}}, "weights gives each"),
        (members(4, 4), {"rule": "weighted", "weights": [1, -1]}, "weights gives each"),
        (members(4, 4), {"rule": "weighted", "weights": [0, 0]}, "weights gives each"),
        (members(4, 4), {"rule": "weighted", "weights": [1, float("nan")]}, "weights gives each"),
        (members(4, 4), {"rule": "weighted", "weights": [1, float("inf")]}, "weights gives each"),
        (members(4, 4), {"weights": [1, 1]}, "weights are for rule='weighted', not 'min'"),
        (members(4, 4), {"veto": ["a"]}, "veto names members for rule='veto'"),
        (members(4, 4), {"rule": "veto", "veto": ["z"]}, "the members are a, b"),
        (members(4, 4), {"quorum": 0}, "quorum is a whole number from 1 to 2, not 0"),
        (members(4, 4), {"quorum": 3}, "quorum is a whole number from 1 to 2, not 3"),
        (members(4, 4), {"quorum": True}, "quorum is a whole number"),
        (members(4, 4), {"success_rating": 5}, "success_rating is a whole number from 1 to 4, not 5"),
        (members(4, 4), {"success_rating": 0}, "success_rating is a whole number"),
    ],
)
def test_a_panel_set_up_wrongly_is_refused(
    judges: Sequence[object] | Mapping[str, object], settings: dict[str, Any], message: str
) -> None:
    """A setting that cannot work is an error at once, showing it and what is expected."""
    with pytest.raises(ConfigurationError, match=message):
        Panel(judges, **settings)


def test_a_panel_explains_what_its_members_need_and_cost() -> None:
    """The needs of all, the sum of the calls, and each member by itself; runs of a judge are multiplied."""
    model = ScriptedModel([])
    faithful = load("faithfulness", model=model)
    explanation = Panel([faithful, Length(at_most=9), Repeat(Helpfulness(model), 3)]).explain()

    assert explanation.needs == ("response", "retrieved_contexts", "user_input")
    assert (explanation.calls, explanation.models) == ("2 + 3 x (1)", ("scripted",))
    assert [part.judge for part in explanation.parts] == ["ragas.faithfulness", "length", "helpfulness"]
    assert "prompt 'claims':\n      | You break a text into claims." in str(explanation)
    assert Cascade([Length(at_most=9)]).explain().calls == "0"


Line = int | Literal["down"]
Members = list[Judge]

KINDS: dict[str, Callable[[Members], Any]] = {
    "list": list,
    **{
        rule: lambda members, rule=rule: Panel(members, rule=rule)  # type: ignore[misc]  # mypy infers no default
        for rule in ("min", "mean", "majority", "veto")
    },
    "weighted": lambda members: Panel(members, rule="weighted", weights=[1, 2, 5]),
    "veto of one": lambda members: Panel(members, rule="veto", veto=["a"]),
    "strict panel": lambda members: Panel(members, rule="mean", success_rating=4),
    "cascade": Cascade,
    "escalation": Escalation,
    "escalation that refuses": lambda members: Escalation(members, sure_bad=2),
    "panel in a panel": lambda members: Panel([Panel(members[:2], rule="mean", name="two"), members[2]]),
    "panel in a cascade": lambda members: Cascade([members[0], Panel(members[1:], name="two")]),
    "panel in a mean": lambda members: Panel([Panel(members[:2], name="two"), members[2]], rule="mean"),
    "panel in an escalation": lambda members: Escalation([members[0], Panel(members[1:], name="two")]),
    "panel that refuses": lambda members: Escalation([Panel(members[:2], name="two"), members[2]], sure_bad=1),
    "repeated panel": lambda members: Repeat(Panel(members, rule="majority"), 2),
}


def member(name: str, place: int, asked: set[str]) -> Judge:
    """Return a judge that rates as the answer says at its place, and notes where it was down."""

    async def judge(answer: str) -> int:
        line = answer.split()[place]
        if line == "down":
            asked.add(name)
            raise ValueError(name)
        return int(line)

    return as_judge(judge, name=name, returns="rating")


async def repeat_question(messages: Sequence[BaseMessage]) -> str:
    """Answer with what was asked, so that a question says what the members say."""
    return str(messages[0].text)


async def outcome_of(refiner: SelfRefine, lines: Sequence[Line]) -> Outcome:
    """Return the outcome of one attempt on which the members say what the lines say."""
    try:
        return await refiner.arefine(" ".join(map(str, lines)))
    except Unanswered as error:
        return error.outcome


@pytest.mark.parametrize(("on_judge_error", "success_rating"), [("accept", 3), ("reject", 2), ("raise", 4)])
async def test_no_answer_passes_whoever_is_missing(
    on_judge_error: Literal["accept", "reject", "raise"], success_rating: Literal[2, 3, 4]
) -> None:
    """Whatever passes would have passed against the worst verdict of all that are missing, and they are named."""
    wrong, asked = [], set[str]()
    ways: tuple[Line, ...] = (4, 2, "down")
    some_down = [lines for lines in itertools.product(ways, repeat=3) if "down" in lines]
    for kind, compose in KINDS.items():
        judge = compose([member(name, place, asked) for place, name in enumerate("abc")])
        policy = Policy(on_judge_error=on_judge_error, success_rating=success_rating, max_attempts=1)
        refiner = SelfRefine(repeat_question, judge, policy=policy)
        for lines in some_down:
            asked.clear()
            outcome = await outcome_of(refiner, lines)
            if set(outcome.missing) != asked or set(outcome.summary().get("missing", ())) != asked:
                wrong.append(f"{kind} {lines}: {asked} could not answer, and {outcome.missing} are named")
            worst: list[Line] = [1 if line == "down" else line for line in lines]
            if outcome.passed and not (await outcome_of(refiner, worst)).passed:
                wrong.append(f"{kind} {lines}: passed")
    assert wrong == []


@pytest.mark.parametrize("way", ["refine", "arefine"])
@pytest.mark.parametrize("kind", ["function", "coroutine", "model"])
async def test_a_member_that_hangs_is_named_and_what_the_others_said_counts(
    kind: str, way: str, hang: Hang
) -> None:
    """At the deadline the panel says so itself: a refusal of another member was lost, and the answer unjudged."""

    def wait(_: object) -> str:
        hang.wait()
        return "late"

    class Slow(ScriptedModel):
        async def ainvoke(self, *_: Any, **__: Any) -> Any:
            await hang.await_()

    async def await_(answer: str) -> bool:
        await hang.await_()
        return bool(answer)

    make_model: Any = Slow
    ways: list[Callable[[Members], Any]] = [Panel, Cascade, lambda both: Panel([Panel(both), both[0]])]
    hanging = {"function": as_judge(lambda answer: wait(answer) == answer), "coroutine": as_judge(await_)}
    slow = hanging.get(kind) or Helpfulness(make_model(wait))
    wrong = []
    for rating, compose in itertools.product((2, 4), ways):
        judge: Judge = compose([ScriptedJudge([rating], cycle=True, name="fast"), slow])
        refiner = SelfRefine(ScriptedModel(["an answer"]), judge, deadline_s=0.1, max_attempts=1)
        outcome: Any = refiner.refine("what?") if way == "refine" else await refiner.arefine("what?")
        is_asked = rating == 4 or compose is not Cascade
        verdict = outcome.attempts[0].verdict
        missing = {slow.name: "deadline"} if is_asked else {}
        if outcome.missing != missing or verdict.passed is not (False if rating == 2 else None):
            wrong.append((judge, outcome.missing, verdict))
    assert wrong == []


def test_members_that_ask_one_judge_are_named_as_their_panel_names_them() -> None:
    """Those that ask one judge, once quickly and once repeatedly, are two; runs alone bear the judge's name."""

    def fail(_: Sequence[BaseMessage]) -> str:
        raise RuntimeError

    inside = Helpfulness(ScriptedModel(fail))
    judge = Panel({"safety": Quick(inside), "tone": Repeat(inside), "cascade": Cascade({"brief": Repeat(inside)})})
    outcome = SelfRefine(lambda _: "a draft", judge, max_attempts=1).refine("q")
    missing = dict.fromkeys(("safety", "tone", "brief"), "judge_failed")
    assert outcome.summary()["attempts"][0]["missing"] == missing
    lines = [ValueError("down"), 4, 4]
    verdict = Repeat(ScriptedJudge(lines, name="safety"), 3, quorum=2)(question="what?", answer="an answer")
    assert (verdict.passed, verdict.missing) == (True, {"safety": "judge_failed"})


def test_an_evaluation_counts_the_members_that_are_missing() -> None:
    """Where the others decide, too, the summary says who did not."""

    def safety(answer: str) -> bool:
        raise ConnectionError(answer)

    panel = Panel([ScriptedJudge([4], cycle=True, name="polite"), safety], quorum=1)
    evaluation = evaluate([{"question": "what?", "answer": "this"}] * 2, panel)
    assert evaluation["panel"].passed == 1
    assert evaluation["panel"].missing == {"safety (judge_failed)": 2}
    for text in reports_of(evaluation):
        assert "2 without safety (judge failed)" in text


def reports_of(evaluation: Evaluation) -> tuple[str, str]:
    """Return the report as a page and as Markdown."""
    document = build_report([RunData(name="run", evaluation=evaluation)])
    return page(document), markdown(document)


def grounded(*claims: tuple[str, str]) -> Verdict:
    """Return the verdict of a judge of groundedness."""
    items = tuple(
        Verdict.checked(standing == "supported", value=standing, subject=claim) for claim, standing in claims
    )
    return Verdict.scored(0.9, judge="faithfulness", items=items)


def test_the_report_names_the_rows_with_contradicted_claims() -> None:
    """A high share of supported claims hides none of them."""
    verdicts = [
        grounded(("It is tall.", "supported")),
        grounded(("It is tall.", "supported"), ("It is in Rome.", "contradicted")),
        grounded(("It is blue.", "absent")),
        Verdict.rated(4, judge="faithfulness", items=(grounded(("It is old.", "contradicted")),)),
    ]
    rows = [
        Row(index=index, sample={"response": "It."}, verdicts={"faithfulness": verdict})  # type: ignore[arg-type]  # read by pydantic
        for index, verdict in enumerate(verdicts)
    ]
    evaluation = Evaluation(rows=tuple(rows), summary=summarise_rows(rows))
    assert evaluation["faithfulness"].contradicted == 2
    for text in reports_of(evaluation):
        assert "2 rows have claims that their evidence contradicts, by faithfulness" in text
        assert "It is in Rome." in text
        assert "It is old." in text


JUDGES = """
from judges import Panel, Verdict, as_judge

@as_judge
def grounded(answer):
    claim = Verdict.checked(False, value="contradicted", subject=answer)
    return Verdict.scored(0.9, items=(claim,))

@as_judge
def safety(answer):
    raise ConnectionError

@as_judge
def polite(answer):
    return True

panel = Panel([polite, safety], quorum=1)
"""


def test_the_terminal_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`evaluate` and `show` say who gave no verdict, and which rows have contradicted claims."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("judges_of_a_file.py").write_text(JUDGES)
    Path("rows.jsonl").write_text('{"question": "what?", "answer": "It."}\n' * 2)
    judges = ("--judge", "judges_of_a_file:grounded", "--judge", "judges_of_a_file:panel")
    judged = refine("evaluate", "rows.jsonl", *judges, "--out", "run")
    for result in (judged, refine("show", "run")):
        lines = " ".join(result.output.split())
        assert "2 rows have claims that their evidence contradicts (grounded), at index 0, 1" in lines
        assert "2 x panel without safety (judge_failed), first at index 0" in lines
