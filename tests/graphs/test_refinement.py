"""The pure core: what a refinement decides, whatever generator and judge do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from graphs import Attempt, Policy, Refinement
from graphs.augment import added_messages
from graphs.policy import AugmenterName
from graphs.refinement import StopReason
from judges import Usage, Verdict
from judges.verdict import Unscored
from tests.laws import for_every

CONVERSATION: list[BaseMessage] = [SystemMessage("be kind"), HumanMessage("what?")]
UNHURRIED = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault."""

NOW = 100.0

REASONS: tuple[Unscored, ...] = get_args(Unscored)

verdicts = st.one_of(
    st.builds(Verdict.rated, st.integers(1, 4), feedback=st.text(max_size=8)),
    st.builds(Verdict.scored, st.floats(0, 1), threshold=st.floats(0, 1), feedback=st.text(max_size=8)),
    st.builds(Verdict.without_score, st.sampled_from(REASONS), st.text(max_size=8)),
)
rated = st.builds(Verdict.rated, st.integers(1, 4))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Draw a policy; budgets are tested elsewhere."""
    on_exhausted: Any = draw(st.sampled_from(["best", "last", "raise", "fallback", "interrupt"]))
    rating: Any = draw(st.integers(1, 4))
    return Policy(
        success_rating=rating,
        max_attempts=draw(st.integers(1, 5)),
        on_exhausted=on_exhausted,
        fallback="sorry" if on_exhausted == "fallback" else None,
        on_judge_error=draw(st.sampled_from(["accept", "reject", "raise"])),
        patience=draw(st.none() | st.integers(1, 3)),
        augment=draw(st.sampled_from(get_args(AugmenterName))),
        shadow=draw(st.booleans()),
    )


def stages(policy: Policy, said: Sequence[Verdict], **fields: Any) -> list[Refinement]:
    """Refine a question with one verdict after the other until it is done, and give every stage on the way."""
    refinements = [Refinement(policy=policy, question="what?", **fields)]
    for number, verdict in enumerate(said, 1):
        refinements.append(
            refinements[-1].add_draft(AIMessage(f"draft {number}"), usage=Usage(calls=1), latency_s=0.5)
        )
        refinements.append(refinements[-1].add_verdict(verdict, now=NOW))
        if refinements[-1].done:
            break
        refinements.append(refinements[-1].add_messages(added_messages(refinements[-1])))
    return refinements


def of(ratings: Sequence[int | None], reason: StopReason | None = None, **settings: Any) -> Refinement:
    """Make a refinement with these ratings, None for a draft that was not judged, stopped for a reason."""
    attempts = [
        Attempt(number=n, answer=AIMessage(f"draft {n}"), verdict=None if one is None else Verdict.rated(one))
        for n, one in enumerate(ratings, 1)
    ]
    if settings.get("on_exhausted") == "fallback":
        settings["fallback"] = "sorry"
    return Refinement(policy=Policy(**settings), attempts=tuple(attempts), stop_reason=reason)


def it_ends_by_itself(made: Sequence[Refinement]) -> None:
    """Whatever the verdicts, after at most `max_attempts` drafts; no stage before the last one is done."""
    assert [one.done for one in made] == [False] * (len(made) - 1) + [True]
    assert [len(one.attempts) for one in made] == sorted(len(one.attempts) for one in made)
    assert 1 <= len(made[-1].attempts) <= made[-1].policy.max_attempts


def done_is_final(made: Sequence[Refinement]) -> None:
    """A refinement that is done takes no further event, of any kind."""
    last = made[-1]
    events: list[Callable[[], Refinement]] = [
        lambda: last.add_draft(AIMessage("one more")),
        lambda: last.add_verdict(Verdict.rated(4), now=NOW),
        lambda: last.add_messages(()),
        lambda: last.stop("accepted"),
    ]
    for event in events:
        with pytest.raises(ValueError, match="is done"):
            event()


def best_is_one_of_those_rated(made: Sequence[Refinement]) -> None:
    """Best is never unscored, nobody's score is above it among those that pass as it does, or there is none."""
    last = made[-1]
    scored = [one for one in last.attempts if one.rating is not None]
    if last.best is None:
        assert not scored
        return
    assert last.best in scored
    assert last.best.verdict is not None
    if not last.best.verdict.reaches(last.policy.success_rating):
        assert (last.best.verdict.score or 0) == max(
            (one.verdict.score or 0) for one in scored if one.verdict is not None
        )


def prompts_begin_with_the_conversation(made: Sequence[Refinement]) -> None:
    """The first prompt is the very messages of the conversation, and each later one begins with them."""
    assert len(made[0].prompt(CONVERSATION)) == len(CONVERSATION)
    for one in made:
        prompt = one.prompt(CONVERSATION)
        assert all(mine is given for mine, given in zip(CONVERSATION, prompt, strict=False))
        assert len(prompt) >= len(CONVERSATION)


def a_state_is_plain_and_read_back_the_same(made: Sequence[Refinement]) -> None:
    """A state holds JSON and LangChain messages, so that a checkpoint needs no class of ours; nothing is lost."""
    for one in (*made, made[-1].release(1, detail="released by a reviewer")):
        state = one.to_state()
        json.dumps(state, default=lambda value: isinstance(value, BaseMessage) or 1 / 0)
        assert Refinement.read(state, one.policy) == one


def what_no_judge_rated_is_released_only_on_trust(made: Sequence[Refinement]) -> None:
    """An attempt without a rating is the answer only under `on_judge_error="accept"`, or in shadow."""
    last = made[-1]
    if last.ending in ("answer", "interrupt") and last.chosen is not None and last.chosen.rating is None:
        assert last.policy.on_judge_error == "accept" or last.policy.shadow


def only_an_accepted_attempt_has_passed(made: Sequence[Refinement]) -> None:
    """`passed` is true exactly where the last verdict opened the gate, and that attempt is then the answer."""
    last = made[-1]
    verdict = last.attempts[-1].verdict
    assert verdict is not None
    assert last.passed == (last.stop_reason == "accepted") == verdict.reaches(last.policy.success_rating)
    if last.passed:
        assert (last.chosen, last.ending) == (last.attempts[-1], "answer")


LAWS = (
    it_ends_by_itself,
    done_is_final,
    best_is_one_of_those_rated,
    prompts_begin_with_the_conversation,
    a_state_is_plain_and_read_back_the_same,
    what_no_judge_rated_is_released_only_on_trust,
    only_an_accepted_attempt_has_passed,
)


@given(policies(), st.lists(verdicts, min_size=8, max_size=8), st.booleans())
@UNHURRIED
def test_whatever_generator_and_judge_do(policy: Policy, said: list[Verdict], plain: bool) -> None:  # noqa: FBT001
    """Each law holds of every refinement, with evidence and without."""
    evidence: dict[str, Any] = {} if plain else {"reference": "truth", "retrieved_contexts": ["a"]}
    made = stages(policy, said, evidence=evidence, started_at=1.5)
    for law in LAWS:
        law(made)


def test_a_question_that_is_not_sampled_is_read_back_so() -> None:
    """What a checkpoint says of it is not the default."""
    one = Refinement(policy=Policy(), is_judged=False)
    assert Refinement.read(one.to_state(), one.policy) == one


@given(st.lists(rated, min_size=1, max_size=6))
@UNHURRIED
def test_best_is_the_maximum_and_the_latest_on_a_tie(said: list[Verdict]) -> None:
    """The best attempt has the highest rating, and is the latest that has it."""
    ratings = [one.rating or 0 for one in said]
    best = of(ratings).best
    assert best is not None
    assert best.number == max(range(1, len(ratings) + 1), key=lambda number: (ratings[number - 1], number))


def test_an_accepted_attempt_is_best_whatever_scored_higher() -> None:
    """A score above that missed its judge's own mark is not better than an attempt that was accepted."""
    high = Verdict.scored(0.9, threshold=0.95)
    last = stages(Policy(success_rating=3), [high, Verdict.rated(3)])[-1]
    assert last.best is not None
    assert (last.stop_reason, last.best.number) == ("accepted", 2)


def test_a_prompt_is_a_list_of_its_own() -> None:
    """Who changes a prompt changes neither the conversation nor the next prompt."""
    refinement = Refinement(policy=Policy())
    refinement.prompt(CONVERSATION).clear()
    assert refinement.prompt(CONVERSATION) == CONVERSATION
    assert len(CONVERSATION) == 2


def test_the_state_survives_a_strict_checkpoint() -> None:
    """What LangGraph's serializer writes, and reads with no class of ours allowed, is the same state."""
    steps: list[AnyMessage] = [
        AIMessage("", tool_calls=[{"name": "t", "args": {"a": 1}, "id": "1"}]),
        ToolMessage("b", tool_call_id="1"),
    ]
    begun = Refinement(policy=Policy(), question="what?", evidence={"reference": "truth"}, started_at=2.0)
    one = begun.add_draft(AIMessage("draft"), steps=steps, evidence={"retrieved_contexts": ["c"]})
    one = one.add_verdict(Verdict.rated(2, feedback="more"), now=NOW)
    one = one.add_messages(added_messages(one))
    serializer = JsonPlusSerializer(allowed_msgpack_modules=None)
    assert Refinement.read(serializer.loads_typed(serializer.dumps_typed(one.to_state())), one.policy) == one


def test_a_record_that_is_one_already_is_read_as_it_is() -> None:
    """Where nothing is checkpointed the record itself is handed on."""
    one = of([2])
    assert Refinement.read(one, one.policy) is one


def test_an_attempt_goes_through_json() -> None:
    """An attempt is read back from its JSON."""
    one = stages(Policy(), [Verdict.rated(2, feedback="more")])[-1].attempts[0]
    assert Attempt.model_validate_json(one.model_dump_json()) == one


def test_drafts_and_verdicts_take_turns() -> None:
    """A second draft before a verdict, a verdict without a draft, and going on without either are refused."""
    begun = Refinement(policy=Policy())
    drafted = begun.add_draft(AIMessage("draft"))
    with pytest.raises(ValueError, match="no draft is wanted"):
        drafted.add_draft(AIMessage("another"))
    with pytest.raises(ValueError, match="no draft that awaits a verdict"):
        begun.add_verdict(Verdict.rated(4), now=NOW)
    with pytest.raises(ValueError, match="no draft that awaits a verdict"):
        drafted.add_verdict(Verdict.rated(1), now=NOW).add_verdict(Verdict.rated(4), now=NOW)
    for one in (begun, drafted):
        with pytest.raises(ValueError, match="no judged draft"):
            one.add_messages(())


ENDINGS = """
accepted      24   any       any             answer 2
skipped       2-   any       any             answer 2
skipped       -    any       any             answer 1

max_attempts  21   best      any             answer 1
max_attempts  21   last      any             answer 2
max_attempts  21   raise     any             raise
max_attempts  21   fallback  any             fallback
max_attempts  21   interrupt any             interrupt 1
max_attempts  22   best      any             answer 2
blocked       21   best      any             raise
blocked       21   last      any             raise
blocked       21   raise     any             raise
blocked       21   fallback  any             fallback
blocked       21   interrupt any             raise
no_progress   21   best      any             answer 1
no_progress   21   last      any             answer 2
no_progress   21   raise     any             raise
no_progress   21   fallback  any             fallback
no_progress   21   interrupt any             interrupt 1

judge_failed  2-   any       accept          answer 2
judge_failed  2-   any       raise           raise
judge_failed  2-   best      reject          answer 1
judge_failed  2-   last      reject          answer 1
judge_failed  2-   raise     reject          raise
judge_failed  2-   fallback  reject          fallback
judge_failed  2-   interrupt reject          interrupt 1
judge_failed  -    any       accept          answer 1
judge_failed  -    any       raise           raise
judge_failed  -    best      reject          nothing
judge_failed  -    last      reject          nothing
judge_failed  -    raise     reject          raise
judge_failed  -    fallback  reject          fallback
judge_failed  -    interrupt reject          nothing

budget        21   best      any             answer 1
budget        21   last      any             answer 2
budget        21   raise     any             raise
budget        21   fallback  any             fallback
budget        21   interrupt any             interrupt 1
budget        2-   best      any             answer 1
budget        2-   last      accept          answer 2
budget        2-   last      reject          answer 1
budget        2-   last      raise           answer 1
budget        2-   raise     any             raise
budget        2-   fallback  any             fallback
budget        2-   interrupt any             interrupt 1
budget        -    best      accept          answer 1
budget        -    last      accept          answer 1
budget        -    raise     accept          raise
budget        -    fallback  accept          fallback
budget        -    interrupt accept          interrupt 1
budget        -    best      reject          nothing
budget        -    last      reject          nothing
budget        -    raise     reject          raise
budget        -    fallback  reject          fallback
budget        -    interrupt reject          nothing
budget        -    any       raise           raise

question_refused .   best      any           raise
question_refused .   last      any           raise
question_refused .   raise     any           raise
question_refused .   fallback  any           fallback
question_refused .   interrupt any           raise
withdrawn        .   best      any           raise
withdrawn        .   last      any           raise
withdrawn        .   raise     any           raise
withdrawn        .   fallback  any           fallback
withdrawn        .   interrupt any           raise

generator_failed 21  best      any           answer 1
generator_failed 21  last      any           answer 2
generator_failed 21  raise     any           raise
generator_failed 21  fallback  any           fallback
generator_failed 21  interrupt any           interrupt 1
generator_failed .   best      any           nothing
generator_failed .   last      any           nothing
generator_failed .   raise     any           raise
generator_failed .   fallback  any           fallback
generator_failed .   interrupt any           nothing
"""
"""Why it stopped, the ratings ("-" not judged, "." no attempt), on_exhausted, on_judge_error, what comes of it."""

EVERY = {"on_exhausted": ("best", "last", "raise", "fallback", "interrupt"), "any": ("accept", "reject", "raise")}


def endings() -> list[tuple[str, str, str, str, str]]:
    """Write the table out; the deadline ends like a budget."""
    rows = [tuple(line.split(maxsplit=4)) for line in ENDINGS.splitlines() if line]
    rows += [("deadline", *row[1:]) for row in rows if row[0] == "budget"]
    return [
        (reason, ratings, exhausted, failed, ending)
        for reason, ratings, on_exhausted, on_judge_error, ending in rows
        for exhausted in (EVERY["on_exhausted"] if on_exhausted == "any" else (on_exhausted,))
        for failed in (EVERY["any"] if on_judge_error == "any" else (on_judge_error,))
    ]


def test_the_table_of_endings_is_complete() -> None:
    """Every reason meets every pair of settings in the table, once for each history.

    Nothing comes of a turn that waits, nor of one that is broken off: its error is raised, with the record.
    """
    rows = [row[:4] for row in endings()]
    assert len(set(rows)) == len(rows)
    for reason in set(get_args(StopReason)) - {"interrupted", "broken_off", "late_refusal"}:
        met = {(row[2], row[3]) for row in rows if row[0] == reason}
        assert len(met) == 15, reason


@for_every("reason, ratings, on_exhausted, on_judge_error, ending", endings())
def test_what_comes_of_a_refinement(
    reason: StopReason, ratings: str, on_exhausted: str, on_judge_error: str, ending: str
) -> None:
    """Reason, history and policy decide what is released; in shadow the last draft is, whatever else."""
    history = [None if one == "-" else int(one) for one in ratings if one != "."]
    settings: dict[str, Any] = {
        "on_exhausted": on_exhausted,
        "on_judge_error": on_judge_error,
        "success_rating": 4,
    }
    done = of(history, reason, **settings)
    number = f" {done.chosen.number}" if done.chosen is not None and done.ending in ("answer", "interrupt") else ""
    assert f"{done.ending}{number}" == ending
    shadow = of(history, reason, **settings, shadow=True)
    assert (shadow.ending, shadow.chosen) == (("answer", shadow.attempts[-1]) if history else ("nothing", None))


@pytest.mark.parametrize(
    ("patience", "ratings", "attempts"),
    [
        (1, [2, 2], 2),
        (1, [2, 1], 2),
        (1, [1, 2, 2], 3),
        (2, [2, 1, 2], 3),
        (2, [2, 1, 3, 1, 3], 5),
        (2, [1, 2, 1, 2], 4),
        (3, [1, 1, 1, 1], 4),
        (None, [1, 1, 1, 1, 1, 1], 6),
    ],
)
def test_patience_ends_what_does_not_improve(patience: int | None, ratings: list[int], attempts: int) -> None:
    """After so many attempts in a row that were no better than the best before, it stops."""
    policy = Policy(patience=patience, max_attempts=6, success_rating=4)
    last = stages(policy, [Verdict.rated(one) for one in [*ratings, *[1] * 6]])[-1]
    assert len(last.attempts) == attempts
    assert last.stop_reason == ("no_progress" if patience else "max_attempts")


def test_patience_sees_improvement_within_a_rating() -> None:
    """A better score is better, also where the rating is the same."""
    policy = Policy(patience=1, max_attempts=3, success_rating=4)
    last = stages(policy, [Verdict.scored(score) for score in (0.4, 0.45, 0.5)])[-1]
    assert last.stop_reason == "max_attempts"


def test_exhaustion_comes_before_patience() -> None:
    """Where the last attempt is both, the reason is that the attempts are used up."""
    last = stages(Policy(patience=1, max_attempts=2, success_rating=4), [Verdict.rated(1)] * 2)[-1]
    assert last.stop_reason == "max_attempts"


@pytest.mark.parametrize("reason", REASONS)
def test_an_unscored_verdict_stops_at_once(reason: Unscored) -> None:
    """A judge that does not judge never costs another generation; a spent budget keeps its own reason."""
    last = stages(Policy(max_attempts=5), [Verdict.without_score(reason, "detail")])[-1]
    own = reason if reason in ("budget", "deadline") else "judge_failed"
    assert (last.stop_reason, len(last.attempts)) == (own, 1)
    assert last.detail == (f"{reason}: detail" if own == "judge_failed" else "detail")


def test_the_detail_of_a_stop_holds_no_reference() -> None:
    """What went wrong may quote the reference; the detail, which goes into the answer's metadata, does not."""
    verdict = Verdict.without_score("invalid_output", "rating: a whole number is wanted, not 'The sky is blue'")
    last = stages(Policy(), [verdict], evidence={"reference": "The sky is blue."})[-1]
    assert last.detail == "invalid_output: rating: a whole number is wanted, not '[...]'"


def test_usage_is_that_of_generator_and_judge() -> None:
    """What all attempts consumed adds up, judging included."""
    verdict = Verdict.rated(1, usage=Usage(calls=2, input_tokens=5, cost=0.5))
    last = stages(Policy(max_attempts=2), [verdict, verdict])[-1]
    assert (last.usage.calls, last.usage.tokens, last.usage.cost) == (6, 10, 1.0)


def test_nothing_limited_means_no_allowance() -> None:
    """Where the policy limits and prices nothing, judges run without an allowance."""
    assert Refinement(policy=Policy()).allowance(NOW) is None
    assert Refinement(policy=Policy()).limit_reached(NOW) is None
    assert Refinement(policy=Policy()).seconds_left(NOW) is None


def test_time_left_is_reported() -> None:
    """The deadline counts from when the question came."""
    begun = Refinement(policy=Policy(deadline_s=10), started_at=NOW)
    assert begun.seconds_left(NOW + 4) == 6
    assert begun.limit_reached(NOW + 9.99) is None
    assert begun.limit_reached(NOW + 10) == ("deadline", "10 s passed")


def test_an_attempt_lists_its_tools() -> None:
    """Tool calls are reported in order, each with its result, or None where none came back."""
    calls = [{"name": name, "args": {"x": name}, "id": name} for name in ("a", "b")]
    steps = (AIMessage("", tool_calls=calls), ToolMessage("done", tool_call_id="a"))
    attempt = Attempt(number=1, answer=AIMessage("yes"), steps=steps)
    assert attempt.tools == [
        {"name": "a", "args": {"x": "a"}, "result": "done"},
        {"name": "b", "args": {"x": "b"}, "result": None},
    ]
