"""Several candidates an attempt: the best goes on, and everything that holds for a draft holds for all of them."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store, get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt

from graphs import Attempt, GeneratorFailed, JudgeFailed, Outcome, Policy, Refinement, build_loop, run, self_refine
from graphs.candidates import _best_candidate, _CandidateStanding, _standing_of
from judges import ConfigurationError, Helpfulness, Repeat, Sample, Verdict
from judges.messages import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware
from tests.graphs.test_streams import ASKED, DOORS, GOOD, MARK, older, opened, strict
from tests.kit import Hang
from tests.laws import for_every

THREAD: Any = {"configurable": {"thread_id": "1"}}


class Killed(BaseException):
    """Stands for the end of the process."""


def speakers(*scripts: Sequence[object]) -> tuple[list[ScriptedModel], dict[int, Any]]:
    """Make a model for each candidate, and the overrides that hand them out."""
    models = [ScriptedModel(list(script), name=f"speaker-{number}") for number, script in enumerate(scripts, 1)]
    return models, {1: [{"model": model} for model in models]}


def by_text() -> ScriptedJudge:
    """Make a judge that reads the rating from the last character of an answer."""
    return ScriptedJudge(lambda sample: (int(str(sample.response)[-1]), f"not {sample.response}"))


def by_refine(generator: Any, judge: Any, policy: Policy) -> Outcome:
    """Through `SelfRefine.refine`."""
    return SelfRefine(generator, judge, policy=policy).refine("what?")


def by_arefine(generator: Any, judge: Any, policy: Policy) -> Outcome:
    """Through `SelfRefine.arefine`."""
    return asyncio.run(SelfRefine(generator, judge, policy=policy).arefine("what?"))


def by_saved(generator: Any, judge: Any, policy: Policy) -> Outcome:
    """Through a checkpointed graph, with the record read back from its checkpoint."""
    return SelfRefine(generator, judge, policy=policy, checkpointer=InMemorySaver()).refine("what?", THREAD)


def by_asaved(generator: Any, judge: Any, policy: Policy) -> Outcome:
    """Through a checkpointed graph, without blocking."""
    refiner = SelfRefine(generator, judge, policy=policy, checkpointer=InMemorySaver())
    return asyncio.run(refiner.arefine("what?", THREAD))


Entrance = Callable[[object, object, Policy], Outcome]
everywhere = pytest.mark.parametrize("entrance", [by_refine, by_arefine, by_saved, by_asaved])


@everywhere
@pytest.mark.parametrize(
    ("drafts", "chosen", "reason"),
    [
        ([("a4", "b1")], ["a4"], "accepted"),
        ([("a3", "b4")], ["b4"], "accepted"),
        ([("a3", "b3")], ["a3"], "accepted"),
        ([("a1", "b2"), ("a2", "b3")], ["b2", "b3"], "accepted"),
        ([("a2", "b1"), ("c1", "d1"), ("e1", "b2")], ["a2", "c1", "b2"], "max_attempts"),
        ([("a1", "b1", "c2"), ("a4", "b3", "c3")], ["c2", "a4"], "accepted"),
    ],
)
def test_the_vectors(entrance: Entrance, drafts: list[tuple[str, ...]], chosen: list[str], reason: str) -> None:
    """In each attempt the best draft goes on; the others are on record beside it, and every draft is counted."""
    models, overrides = speakers(*zip(*drafts, strict=True))
    judge = by_text()
    policy = Policy(candidates=len(models), overrides=overrides, max_attempts=len(drafts))
    outcome = entrance("none:such", judge, policy)
    assert outcome.stop_reason == reason
    assert [attempt.text for attempt in outcome.attempts] == chosen
    assert [tuple(draft.text for draft in attempt.drafts) for attempt in outcome.attempts] == drafts
    assert [draft.candidate for draft in outcome.attempts[0].drafts] == list(range(1, len(models) + 1))
    count = len(drafts) * len(models)
    assert (len(judge.samples), sum(len(model.prompts) for model in models), outcome.usage.calls) == (count,) * 3
    assert outcome.usage.tokens == sum(draft.usage.tokens for each in outcome.attempts for draft in each.drafts)
    assert outcome.answer is not None
    assert outcome.answer.text == (outcome.best.text if outcome.best else None)
    for retry, before in zip(range(1, len(drafts)), chosen, strict=False):
        for model in models:
            shown = " ".join(str(message.text) for message in model.prompts[retry])
            assert before in shown
            assert not any(draft in shown for draft in set(drafts[retry - 1]) - {before})


def test_rows_summary_and_state_tell_candidates_apart() -> None:
    """Each draft is a row, the summary holds figures alone, a checkpoint reads back; a single draft is none."""
    _, overrides = speakers(["a2", "a1"], ["b1", "b4"])
    outcome = by_saved("none:such", by_text(), Policy(candidates=2, overrides=overrides))
    rows = [(sample.response, sample.metadata) for sample in outcome.samples()]
    assert rows == [
        ("a2", {"attempt": 1, "candidate": 1, "chosen": True, "rating": 2}),
        ("b1", {"attempt": 1, "candidate": 2, "chosen": False, "rating": 1}),
        ("a1", {"attempt": 2, "candidate": 1, "chosen": False, "rating": 1}),
        ("b4", {"attempt": 2, "candidate": 2, "chosen": True, "rating": 4, "stop_reason": "accepted"}),
    ]
    first = outcome.summary()["attempts"][0]
    assert (first["candidate"], first["rating"]) == (1, 2)
    assert [(other["candidate"], other["rating"]) for other in first["unchosen"]] == [(2, 1)]
    assert not any(text in json.dumps(outcome.summary()["attempts"]) for text in ("a2", "b1", "a1", "b4"))
    assert Outcome.model_validate_json(outcome.model_dump_json()).attempts[0].unchosen[0].text == "b1"
    single = SelfRefine(ScriptedModel(["a4"]), by_text()).refine("what?")
    assert not {"candidate", "unchosen", "chosen"} & {
        *single.attempts[0].to_state(),
        *single.summary()["attempts"][0],
        *single.samples()[0].metadata,
    }


def attempt_of(rating: int | None, **fields: Any) -> Attempt:
    """Make a draft with a verdict; rating None is a judge that failed."""
    verdict = Verdict.without_score("judge_failed") if rating is None else Verdict.rated(rating)
    return Attempt(number=1, answer=AIMessage("text"), verdict=verdict, **fields)


@given(ratings=st.lists(st.sampled_from([None, 1, 2, 3, 4]), min_size=1, max_size=16))
def test_the_best_is_the_first_with_the_highest_rating(ratings: list[int | None]) -> None:
    """A draft without a verdict goes on only where none has one."""
    candidates = {
        number: Refinement(policy=Policy(), attempts=(attempt_of(rating, candidate=number),))
        for number, rating in enumerate(ratings, 1)
    }
    ranks = [0 if rating is None else rating for rating in ratings]
    assert _best_candidate(candidates) == ranks.index(max(ranks)) + 1


def test_kinds_of_answer_among_candidates() -> None:
    """Accepted before a call of a tool, before rated, before unjudged, before a refusal or a picture."""
    call: Any = [{"name": "t", "args": {}, "id": "1"}]
    refusal = AIMessage("", additional_kwargs={"refusal": "No."})
    refused, calls, rated = (
        Refinement(policy=Policy()).add_draft(answer)
        for answer in (refusal, AIMessage("", tool_calls=call), AIMessage("text"))
    )
    expected = [
        (Refinement(policy=Policy(), attempts=(attempt_of(3),)), _CandidateStanding.ACCEPTED),
        (calls, _CandidateStanding.HANDED_ON),
        (rated.add_verdict(Verdict.rated(2), now=0), _CandidateStanding.RATED),
        (rated, _CandidateStanding.UNJUDGED),
        (refused, _CandidateStanding.UNFIT),
    ]
    assert [_standing_of(record) for record, _ in expected] == [standing for _, standing in expected]
    for script, ratings, stop_reason, text in (
        ([[refusal], ["b4"]], 1, "accepted", "b4"),
        ([[refusal], ["b1"]], 1, "max_attempts", "b1"),
        ([[refusal], [refusal]], 0, "skipped", ""),
        ([["a1"], [AIMessage("", tool_calls=call)]], 1, "skipped", ""),
        ([["a4"], [AIMessage("", tool_calls=call)]], 1, "accepted", "a4"),
    ):
        _, overrides = speakers(*script)
        judge = by_text()
        outcome = by_refine("none:such", judge, Policy(candidates=2, overrides=overrides, max_attempts=1))
        assert (outcome.stop_reason, len(judge.samples)) == (stop_reason, ratings)
        assert outcome.answer is not None
        assert outcome.answer.text == text


@everywhere
def test_a_candidate_that_fails_costs_the_others_nothing(
    entrance: Entrance, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest goes on, with a warning; the next attempt has all candidates again."""
    models, overrides = speakers(["a1", "a4"], [ValueError("Xq7Zsecret"), "b2"], [ValueError(), ValueError()])
    outcome = entrance("none:such", by_text(), Policy(candidates=3, overrides=overrides))
    assert (outcome.stop_reason, outcome.released) == ("accepted", 2)
    assert [[draft.candidate for draft in attempt.drafts] for attempt in outcome.attempts] == [[1], [1, 2]]
    assert (outcome.usage.calls, [len(model.prompts) for model in models]) == (6, [2, 2, 2])
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert sum("candidate failed" in warning for warning in warnings) == 2
    assert not any("Xq7Zsecret" in warning for warning in warnings)


@everywhere
def test_all_failing_is_the_generator_failing(entrance: Entrance) -> None:
    """Before anything is drafted it is an error; afterwards the best draft so far is the answer."""
    _, overrides = speakers([ValueError()], [KeyError()])
    failed = entrance("none:such", by_text(), Policy(candidates=2, overrides=overrides))
    assert (failed.answer, failed.stop_reason, failed.usage.calls) == (None, "generator_failed", 2)
    assert failed.detail == "ValueError from the generator on attempt 1"
    _, overrides = speakers([KeyError()], [ValueError()])
    with pytest.raises(GeneratorFailed, match="KeyError"):
        SelfRefine("none:such", by_text(), candidates=2, overrides=overrides).invoke("what?")
    _, overrides = speakers(["a1", ValueError()], ["b2", ValueError()])
    outcome = entrance("none:such", by_text(), Policy(candidates=2, overrides=overrides))
    assert (outcome.stop_reason, outcome.answer and outcome.answer.text) == ("generator_failed", "b2")


@everywhere
def test_a_failing_judge_counts_only_where_it_fails_for_all(entrance: Entrance) -> None:
    """One verdict is enough to go on; without any, `on_judge_error` decides."""

    def judge_failing_on(letters: str) -> ScriptedJudge:
        def line(sample: Sample) -> object:
            text = str(sample.response)
            return RuntimeError() if text[0] in letters else int(text[-1])

        return ScriptedJudge(line)

    def run(letters: str, **settings: Any) -> Outcome:
        _, overrides = speakers(["a4", "a4"], ["b2", "b4"])
        policy = Policy(candidates=2, overrides=overrides, **settings)
        return entrance("none:such", judge_failing_on(letters), policy)

    assert [attempt.text for attempt in run("a").attempts] == ["b2", "b4"]
    accepted = run("ab")
    assert (accepted.stop_reason, accepted.answer and accepted.answer.text) == ("judge_failed", "a4")
    with pytest.raises(JudgeFailed):
        run("ab", on_judge_error="raise")
    assert run("ab", on_judge_error="reject").answer is None


def test_temperatures_and_models_differ_by_candidate() -> None:
    """A list of overrides is dealt out in order, from its attempt on; one override is for all."""
    model, strong = ScriptedModel(lambda _: "a1"), ScriptedModel(lambda _: "b4")
    policy = Policy(
        candidates=2,
        overrides={
            1: [{"temperature": 0.1}, {"temperature": 0.9}],
            2: [{}, {"model": strong}],
            3: {"temperature": 0.5},
        },
    )
    outcome = SelfRefine(model, by_text(), policy=policy).refine("what?")
    assert sorted(str(each.get("temperature")) for each in model.settings) == ["0.1", "0.9", "None"]
    assert (outcome.released, outcome.attempts[1].candidate, len(strong.prompts)) == (2, 2, 1)
    assert policy.override(4, 2) == policy.override(3, 1)


def test_unusable_settings_say_what_to_do() -> None:
    """Wrong counts, lists of the wrong length and settings without effect are refused in one line."""
    for wrong, remedy in (
        ({"candidates": 0}, "greater than or equal to 1"),
        ({"candidates": 17}, "less than or equal to 16"),
        ({"candidates": True}, "valid integer"),
        ({"candidates": 3, "overrides": {1: [{"temperature": 1}] * 2}}, "list as many as there are candidates"),
        ({"overrides": {2: [{"temperature": 1}, {}]}}, "list as many as there are candidates"),
        ({"candidates": 2, "overrides": {1: [{"temprature": 1}, {}]}}, "temprature"),
        ({"first_accepted": True}, "set candidates=2 or more"),
        ({"candidates": 2, "shadow": True}, "leave one of the two out"),
    ):
        with pytest.raises(ConfigurationError, match=remedy) as raised:
            Policy(**wrong)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("how", [by_refine, by_arefine])
def test_candidates_run_at_the_same_time(how: Entrance) -> None:
    """Four drafts, each judged as soon as it is there, take about as long as one."""
    everyone = threading.Barrier(4, timeout=10)

    def generate(messages: list[BaseMessage]) -> str:
        del messages
        everyone.wait()  # passes only if four are in here at once
        return "a4"

    outcome = how(generate, by_text(), Policy(candidates=4))
    assert len(outcome.attempts[0].drafts) == 4


@tool
def look_up(subject: str) -> str:
    """Look a subject up."""
    return subject


@pytest.mark.parametrize("how", [by_refine, by_arefine])
def test_the_first_that_is_accepted_ends_the_attempt(how: Entrance) -> None:
    """The others are not waited for, and make no further call of a model or a tool; what they spent is counted."""
    release, held, calls = threading.Event(), threading.Event(), itertools.count(1)

    def slow_agent(messages: list[BaseMessage]) -> object:
        next(calls)
        held.set()
        assert release.wait(10)
        return [ToolCall(name="look_up", args={"subject": "x"})]

    tools: list[str] = []

    @tool
    def look(subject: str) -> str:
        """Look."""
        tools.append(subject)
        return subject

    def fast(messages: list[BaseMessage]) -> str:
        assert held.wait(10)
        return "b4"

    slow = ScriptedModel(slow_agent)
    overrides: Any = {1: [{"model": _blocking(create_agent(slow, [look_up, look]))}, {"model": fast}]}
    outcome = how("none:such", by_text(), Policy(candidates=2, overrides=overrides, first_accepted=True))
    assert (outcome.stop_reason, [draft.text for draft in outcome.attempts[0].drafts]) == ("accepted", ["b4"])
    assert outcome.usage.calls == 2
    release.set()
    for _ in range(100):
        if not any(thread.name == "judges-call" for thread in threading.enumerate()):
            break
        time.sleep(0.01)
    assert (next(calls), len(slow.prompts), tools) == (2, 1, [])


def _blocking(agent: Any) -> Callable[[list[BaseMessage]], object]:
    """Call an agent without its async twin, so that a task cannot simply be cancelled."""
    return lambda messages: agent.invoke({"messages": messages})


async def test_tasks_of_other_candidates_are_cancelled() -> None:
    """In an event loop the slow candidate is cancelled, and a cancelled caller takes all candidates along."""
    cancelled: list[str] = []

    def sleeper(name: str) -> Callable[[list[BaseMessage]], Awaitable[str]]:
        async def generate(messages: list[BaseMessage]) -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(name)
                raise
            return "never"

        return generate

    async def quick(messages: list[BaseMessage]) -> str:
        await asyncio.sleep(0.01)
        return "b4"

    overrides: Any = {1: [{"model": sleeper("a")}, {"model": quick}]}
    refiner = SelfRefine("none:such", by_text(), candidates=2, first_accepted=True, overrides=overrides)
    assert (await refiner.arefine("what?")).stop_reason == "accepted"
    await asyncio.sleep(0.01)
    assert cancelled == ["a"]
    both: Any = {1: [{"model": sleeper("b")}, {"model": sleeper("c")}]}
    task = asyncio.ensure_future(SelfRefine("none:such", by_text(), candidates=2, overrides=both).arefine("what?"))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.01)
    assert sorted(cancelled) == ["a", "b", "c"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    candidates=st.integers(2, 5),
    limit=st.integers(1, 14),
    ratings=st.lists(st.integers(1, 3), min_size=1, max_size=6),
    how=st.sampled_from([by_refine, by_arefine]),
    kind=st.sampled_from(["chat model", "agent"]),
)
def test_calls_in_flight_never_exceed_the_budget(
    candidates: int, limit: int, ratings: list[int], how: Entrance, kind: str
) -> None:
    """Generator and judge together make at most `max_calls` calls, and all of them are counted."""
    left = itertools.cycle(ratings)
    writer = ScriptedModel(lambda _: "a draft")
    critic = ScriptedModel(lambda _: {"rationale": "r", "rating": next(left), "feedback": "f"}, name="critic")
    generator: Any = create_agent(writer, []) if kind == "agent" else writer
    policy = Policy(candidates=candidates, max_calls=limit, success_rating=4, max_attempts=4)
    outcome = how(generator, Helpfulness(critic), policy)
    made = len(writer.prompts) + len(critic.prompts)
    assert made <= limit
    assert outcome.usage.calls == made
    assert all(len(attempt.drafts) <= candidates for attempt in outcome.attempts)
    if limit >= 2:
        assert outcome.attempts[0].verdict is not None
        assert outcome.attempts[0].rating is not None


@pytest.mark.parametrize(("limit", "drafts"), [(2, 1), (5, 1), (6, 2), (8, 2), (9, 3), (12, 4), (15, 5)])
def test_no_draft_is_bought_that_the_judge_has_no_calls_for(limit: int, drafts: int) -> None:
    """Of a judge that takes two calls a draft, as it says itself; more attempts only as far as there is room."""
    score = {"rationale": "r", "rating": 2, "feedback": "f"}
    critic = ScriptedModel(lambda _: score, name="critic")
    judge = Repeat(Helpfulness(critic), 2)
    writer = ScriptedModel([f"draft {number}" for number in range(9)])
    outcome = SelfRefine(writer, judge, candidates=3, max_calls=limit, max_attempts=9).refine("what?")
    assert len(writer.prompts) == sum(len(attempt.drafts) for attempt in outcome.attempts) == drafts
    assert outcome.stop_reason == "budget"
    judged = [draft.rating for attempt in outcome.attempts for draft in attempt.drafts]
    assert judged == [None if limit == 2 else 2] * drafts


def test_tokens_and_cost_hold_over_all_candidates() -> None:
    """A token budget that one attempt uses up ends the loop; a candidate that came too late is not drafted."""
    model = ScriptedModel(lambda _: "one two three a1")
    outcome = SelfRefine(model, by_text(), candidates=3, max_tokens=12, max_attempts=5).refine("what?")
    assert outcome.stop_reason == "budget"
    assert outcome.usage.tokens == 5 * len(model.prompts)
    assert len(outcome.attempts) == 1
    priced = {"scripted": {"input": 1.0, "output": 1.0}}
    spent = SelfRefine(model, by_text(), candidates=2, prices=priced, max_attempts=2).refine("what?").usage
    drafts = 4
    assert spent.calls == drafts
    assert spent.cost == pytest.approx(spent.tokens / 1e6)


@pytest.mark.parametrize("how", [by_refine, by_arefine])
def test_the_deadline_holds_over_all_candidates(how: Entrance, hang: Hang) -> None:
    """What is judged by then is the answer; nobody waits for the rest."""

    def generate(messages: list[BaseMessage]) -> str:
        hang.wait()
        return "a4"

    overrides: Any = {1: [{"model": generate}, {"model": ScriptedModel(["b2"])}]}
    outcome = how("none:such", by_text(), Policy(candidates=2, overrides=overrides, deadline_s=0.3))
    assert (outcome.stop_reason, outcome.answer and outcome.answer.text) == ("deadline", "b2")


def numbered(refusals: int) -> ScriptedModel:
    """Make a model whose first drafts carry the mark, whoever asks."""
    count = itertools.count(1)
    lock = threading.Lock()

    def line(messages: list[BaseMessage]) -> str:
        with lock:
            number = next(count)
        return f"wrong {MARK} {number}" if number <= refusals else GOOD

    return ScriptedModel(line)


def searching(refusals: int) -> Any:
    """Make an agent whose tool calls carry the mark too."""
    model = numbered(refusals)

    def line(messages: list[BaseMessage]) -> object:
        if isinstance(messages[-1], ToolMessage):
            return model.invoke(messages)
        return ToolCall(name="look_up", args={"subject": MARK})

    return create_agent(ScriptedModel(line), [look_up])


GENERATORS: dict[str, Callable[[int], Any]] = {"chat model": numbered, "agent": searching}


@older
@pytest.mark.parametrize("kind", GENERATORS)
@for_every("door", DOORS)
async def test_nothing_of_a_draft_that_was_not_chosen_is_seen(door: str, kind: str) -> None:
    """Five marked drafts, some of them beside the accepted one, leave the graph by no door."""
    policy = Policy(candidates=3, max_attempts=2)
    seen = repr(await opened(door, self_refine(GENERATORS[kind](5), strict(), policy=policy)))
    assert MARK not in seen
    assert GOOD in seen or door.endswith(("checkpoints", "custom", "tools"))


def test_states_and_histories_show_no_draft() -> None:
    """A checkpointer stores the drafts, and shows none of them."""
    policy = Policy(candidates=3, max_attempts=2)
    graph = self_refine(numbered(5), strict(), policy=policy, checkpointer=InMemorySaver())
    seen = [*graph.stream(ASKED, THREAD, stream_mode=["values", "updates", "tasks", "debug"])]
    state = graph.get_state(THREAD, subgraphs=True)
    assert GOOD in repr(state)
    assert MARK not in repr((seen, state, list(graph.get_state_history(THREAD))))


@pytest.mark.parametrize("how", ["stream", "astream"])
def test_events_tell_candidates_apart(how: str) -> None:
    """Figures of every draft, with its number; texts only on request, with a discard unless released."""
    for shown in (False, True):
        _, overrides = speakers(["a1", "a4"], ["b2", "b3"])
        policy = Policy(candidates=2, overrides=overrides, show_drafts=shown)
        graph = self_refine("none:such", by_text(), policy=policy)
        events = (
            asyncio.run(_acustom(graph)) if how == "astream" else list(graph.stream(ASKED, stream_mode="custom"))
        )
        figures = [(event["event"], event.get("attempt"), event.get("candidate")) for event in events]
        for number in (1, 2):
            assert [event["candidates"] for event in events if event["event"] == "start"] == [2, 2]
            for name in ("attempt", "verdict", *(["draft"] if shown else [])):
                assert {(name, number, 1), (name, number, 2)} <= set(figures)
        discarded = [figure[1:] for figure in figures if figure[0] == "discard"]
        assert discarded == ([(1, 1), (1, 2), (2, 2)] if shown else [])
        assert any("a1" in str(event.get("text")) for event in events) is shown


async def _acustom(graph: Any) -> list[Any]:
    return [event async for event in graph.astream(ASKED, stream_mode="custom")]


def test_failed_candidates_are_reported() -> None:
    """An event says which candidate came to no draft, and why."""
    _, overrides = speakers([ValueError("Xq7Z")], ["b4"])
    graph = self_refine("none:such", by_text(), policy=Policy(candidates=2, overrides=overrides))
    events = [event for event in graph.stream(ASKED, stream_mode="custom") if event["event"] == "failed"]
    assert [(event["candidate"], event["reason"]) for event in events] == [(1, "generator_failed")]


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
def test_after_a_crash_at_most_the_calls_of_one_attempt_are_repeated(how: str) -> None:
    """Whichever call of the second attempt dies, the first attempt is not made again."""
    for victim in ("a", "b"):
        count = {"a": 0, "b": 0}

        def speaker(letter: str) -> Callable[[list[BaseMessage]], str]:
            def generate(messages: list[BaseMessage]) -> str:
                count[letter] += 1  # noqa: B023 - used within the iteration
                if count[letter] == 2 and letter == victim:  # noqa: B023 - as above
                    raise Killed
                return f"{letter}{1 if count[letter] == 1 else 4}"  # noqa: B023 - as above

            return generate

        overrides: Any = {1: [{"model": speaker("a")}, {"model": speaker("b")}]}
        policy = Policy(candidates=2, overrides=overrides)
        graph = self_refine("none:such", judge := by_text(), policy=policy, checkpointer=InMemorySaver())

        def call(given: Any) -> Any:
            if how == "ainvoke":
                return asyncio.run(graph.ainvoke(given, THREAD, durability="sync"))  # noqa: B023 - as above
            return graph.invoke(given, THREAD, durability="sync")  # noqa: B023 - as above

        with pytest.raises(Killed):
            call(ASKED)
        state = call(None)
        assert state["refine"]["stop_reason"] == "accepted"
        assert [message.type for message in state["messages"]] == ["human", "ai"]
        assert max(count.values()) <= 3
        assert len(judge.samples) <= 2 + 2 + 2


def test_a_review_is_of_the_best_candidate() -> None:
    """A human who reviews sees the chosen draft alone."""
    _, overrides = speakers(["a1"], ["b2"])
    policy = Policy(candidates=2, overrides=overrides, max_attempts=1, on_exhausted="interrupt")
    graph = self_refine("none:such", by_text(), policy=policy, checkpointer=InMemorySaver())
    review = graph.invoke(ASKED, THREAD)["__interrupt__"][0].value
    assert (review["answer"], "a1" in repr(review)) == ("b2", False)
    assert graph.invoke(Command(resume="accept"), THREAD)["messages"][-1].text == "b2"


def test_asking_a_human_in_the_midst_of_a_candidate_is_refused() -> None:
    """Agent and judge alike: which of several stopped could not be told on resume."""

    @tool
    def ask() -> str:
        """Ask a human."""
        return str(interrupt("may I?"))

    def asking(sample: Sample) -> int:
        return int(interrupt("what do you think?"))

    agent = create_agent(ScriptedModel(lambda _: [ToolCall(name="ask")]), [ask])
    for generator, judge in ((agent, by_text()), (ScriptedModel(lambda _: "a4"), asking)):
        graph = self_refine(generator, judge, policy=Policy(candidates=2), checkpointer=InMemorySaver())
        with pytest.raises(ConfigurationError, match="candidates=1"):
            graph.invoke(ASKED, THREAD)


def test_a_candidate_that_hands_over_leaves_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    """The graph around goes where it points, unless another candidate was accepted; that is no failure."""

    @tool
    def transfer() -> Command[Any]:
        """Hand over."""
        return Command(goto="expert", graph=Command.PARENT, update={"messages": [AIMessage("over to you")]})

    handing = create_agent(ScriptedModel(lambda _: [ToolCall(name="transfer")]), [transfer])
    for saver in (None, InMemorySaver()):
        for rating, last in (("b2", "the expert"), ("b4", "b4")):
            overrides: Any = {1: [{"model": handing}, {"model": ScriptedModel([rating])}]}
            loop = self_refine("none:such", by_text(), policy=Policy(candidates=2, overrides=overrides))
            around = StateGraph(MessagesState)
            around.add_node("chat", loop)
            around.add_node("expert", lambda state: {"messages": [AIMessage("the expert")]})
            around.add_edge(START, "chat")
            around.add_edge("chat", END)
            config: Any = {"configurable": {"thread_id": rating}}
            compiled: Any = around.compile(checkpointer=saver)
            state = compiled.invoke(ASKED, config)
            assert state["messages"][-1].text == last
    assert not any("candidate failed" in record.getMessage() for record in caplog.records)


def test_candidates_keep_their_place_in_the_graph() -> None:
    """The store of the graph reaches their generators, and what they write to its stream is dropped."""

    def generate(messages: list[BaseMessage]) -> str:
        del messages
        get_stream_writer()(MARK)
        return "a4" if get_store() is not None else "a1"

    graph = self_refine(generate, by_text(), policy=Policy(candidates=2), store=InMemoryStore())
    seen = list(graph.stream(ASKED, stream_mode=["custom", "values"]))
    assert ("a4" in repr(seen), MARK in repr(seen)) == (True, False)


def test_the_middleware_of_an_agent_refuses_candidates() -> None:
    """An agent asks its model one question at a time; the error says where the setting belongs."""
    with pytest.raises(ConfigurationError, match=r"SelfRefine\(agent, judge, candidates=2\)"):
        SelfRefineMiddleware(by_text(), candidates=2)


def test_a_question_that_is_not_sampled_is_drafted_once() -> None:
    """There is nothing to choose by without a judge."""
    model = ScriptedModel(["hi"])
    outcome = SelfRefine(model, by_text(), candidates=4, sample_rate=0).refine("what?")
    assert (outcome.stop_reason, len(model.prompts)) == ("skipped", 1)


def test_patience_counts_attempts_not_candidates() -> None:
    """Three drafts that are no better are one attempt without progress."""
    _, overrides = speakers(["a2", "a1", "a2"], ["b1", "b2", "b2"])
    policy = Policy(candidates=2, overrides=overrides, max_attempts=9, patience=2)
    outcome = by_refine("none:such", by_text(), policy)
    assert (outcome.stop_reason, len(outcome.attempts)) == ("no_progress", 3)


def test_a_loop_around_another_generator_keeps_its_candidates() -> None:
    """`with_generator`, as for a single request, changes the generator of every candidate."""
    loop = build_loop(ScriptedModel([]), by_text(), Policy(candidates=3), name="n").with_generator(
        ScriptedModel(lambda _: "a4")
    )
    ended = run(loop, {"messages": [HumanMessage("what?")]})
    assert (ended.stop_reason, len(ended.attempts[0].drafts)) == ("accepted", 3)


def test_functions_of_the_policy_see_what_was_chosen() -> None:
    """`augment` is called once for an attempt, with the other drafts beside the chosen one, all of them copies."""
    seen: list[list[str]] = []

    def augment(record: Refinement) -> list[Any]:
        seen.append([draft.text for draft in record.attempts[-1].drafts])
        record.attempts[-1].unchosen[0].answer.content = "spoiled"
        return [HumanMessage("again")]

    _, overrides = speakers(["a2", "a4"], ["b1", "b4"])
    outcome = by_refine("none:such", by_text(), Policy(candidates=2, overrides=overrides, augment=augment))
    assert (seen, _texts(outcome.attempts)) == ([["a2", "b1"]], [["a2", "b1"], ["a4", "b4"]])


def _texts(attempts: Iterable[Attempt]) -> list[list[str]]:
    return [[draft.text for draft in attempt.drafts] for attempt in attempts]
