"""Members without a verdict: no answer passes that one could have refused, and whoever is missing is named."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_core.messages import BaseMessage

from graphs import Outcome, Policy, Unanswered
from judges import Cascade, Escalation, Helpfulness, Judge, Panel, Quick, Repeat, Verdict, as_judge
from judges.offline import Evaluation, Row, evaluate
from judges.offline.results import summarise_rows
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.report.contents import RunData, build_report
from refine.report.file import markdown
from refine.report.page import page
from tests.kit import Hang
from tests.runs.commands import refine

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
async def test_no_answer_passes_that_a_missing_member_could_have_refused(
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


def test_a_repeat_names_the_judge_whose_runs_failed() -> None:
    """Its runs bear the name of the judge."""
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


def test_members_that_ask_one_judge_are_named_as_their_panel_names_them() -> None:
    """Those that ask one judge, once quickly and once repeatedly, are two, whatever the judge inside is called."""

    def fail(_: Sequence[BaseMessage]) -> str:
        raise RuntimeError

    inside = Helpfulness(ScriptedModel(fail))
    judge = Panel({"safety": Quick(inside), "tone": Repeat(inside), "cascade": Cascade({"brief": Repeat(inside)})})
    outcome = SelfRefine(lambda _: "a draft", judge, max_attempts=1).refine("q")
    missing = dict.fromkeys(("safety", "tone", "brief"), "judge_failed")
    assert outcome.summary()["attempts"][0]["missing"] == missing
