"""Attempts that were paid for are released, or in the outcome of the error that ended the turn, and on record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from graphs import DraftError, Outcome, Policy, Refinement, outcome_of, self_refine
from judges import ConfigurationError, Helpfulness
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware

ODD: dict[str, Any] = {
    "nothing": None,
    "no messages": {"messages": []},
    "no answer": [HumanMessage("what?")],
    "a number": 7,
    "no field of an answer": {"reply": "text"},
}


def judge() -> ScriptedJudge:
    """Return a judge that is content with nothing."""
    return ScriptedJudge(lambda _: 2)


def after_a_draft(then: object) -> Callable[[object], object]:
    """Return a generator whose first draft is one, and whose second is not."""
    made: list[object] = []

    def generate(_: object) -> object:
        made.append(None)
        return "a draft" if len(made) == 1 else then

    return generate


def raising(_: object) -> Any:
    """Be a function of a user's that fails."""
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("odd", "way"),
    [*((odd, "refine") for odd in ODD), *(("nothing", way) for way in ("arefine", "graph", "checkpointer"))],
)
def test_a_judged_draft_is_released_where_a_later_one_is_odd(odd: str, way: str) -> None:
    """As where the generator fails: the best of what was judged goes out, and the outcome says why it ended."""
    generate = after_a_draft(ODD[odd])
    if way == "graph":
        message = self_refine(generate, judge()).invoke({"messages": [("user", "what?")]})["messages"][-1]
        summary = message.response_metadata["refine"]
        assert (message.text, summary["stop_reason"]) == ("a draft", "generator_failed")
        return
    refiner = SelfRefine(generate, judge(), checkpointer=InMemorySaver() if way == "checkpointer" else None)
    thread: Any = {"configurable": {"thread_id": "1"}} if way == "checkpointer" else None
    outcome = asyncio.run(refiner.arefine("what?")) if way == "arefine" else refiner.refine("what?", thread)
    assert outcome.answer is not None
    assert (outcome.answer.text, outcome.stop_reason, outcome.passed) == ("a draft", "generator_failed", False)
    assert outcome.detail == "DraftError from the generator on attempt 2"


@pytest.mark.parametrize("candidates", [1, 3])
def test_an_odd_first_draft_is_an_error_with_its_outcome(candidates: int) -> None:
    """There is no attempt to release, and the error says how the turn ended."""
    refiner = SelfRefine(lambda _: None, judge(), candidates=candidates, max_calls=9)
    with pytest.raises(DraftError, match="is no answer") as raised:
        refiner.refine("what?")
    outcome = outcome_of(raised.value)
    assert outcome is not None
    assert (outcome.stop_reason, outcome.attempts, outcome.answer) == ("generator_failed", (), None)


ASKED: Any = {"messages": [("user", "what?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}

WAYS: dict[str, Callable[[SelfRefine], object]] = {
    "refine": lambda refiner: refiner.refine("what?", THREAD),
    "arefine": lambda refiner: asyncio.run(refiner.arefine("what?", THREAD)),
    "stream": lambda refiner: list(refiner.stream("what?", THREAD)),
    "checkpointer": lambda refiner: refiner.refine("what?", THREAD),
}

FUNCTIONS: dict[str, dict[str, Any]] = {
    "augment raises": {"augment": raising},
    "augment returns no messages": {"augment": lambda _: "again"},
    "skip raises": {"skip": raising},
}


@pytest.mark.parametrize(
    ("kind", "way"),
    [*((kind, "refine") for kind in FUNCTIONS), *(("augment raises", way) for way in WAYS if way != "refine")],
)
def test_what_ends_a_turn_has_the_record_of_it(kind: str, way: str, tmp_path: Path) -> None:
    """A function of the policy that raises comes through as it is, with the attempts, which are on record, too."""
    file = tmp_path / "attempts.jsonl"
    saver = InMemorySaver() if way == "checkpointer" else None
    generate = after_a_draft("a second draft")
    refiner = SelfRefine(generate, judge(), record=file, checkpointer=saver, **FUNCTIONS[kind])
    with pytest.raises((ZeroDivisionError, ConfigurationError)) as raised:
        WAYS[way](refiner)
    outcome = outcome_of(raised.value)
    assert outcome is not None
    assert [attempt.text for attempt in outcome.attempts] == ["a draft"]
    assert [attempt.rating for attempt in outcome.attempts] == [None if kind == "skip raises" else 2]
    assert outcome.answer is None
    assert len(file.read_text().splitlines()) == 1


def test_a_graph_raises_the_error_with_the_record() -> None:
    """The same holds for whoever runs the graph itself."""
    graph = self_refine(after_a_draft(""), judge(), augment=raising)
    with pytest.raises(ZeroDivisionError) as raised:
        graph.invoke({"messages": [("user", "what?")]})
    outcome = outcome_of(raised.value)
    assert outcome is not None
    assert [attempt.text for attempt in outcome.attempts] == ["a draft"]


class Awaiting(AgentMiddleware[Any, Any, Any]):
    """Awaits a function before each model call."""

    def __init__(self, function: Callable[[object], Awaitable[object]]) -> None:
        super().__init__()
        self.function = function

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Await the function, and call the model."""
        await self.function(request)
        return await handler(request)


class Returning(AgentMiddleware[Any, Any, Any]):
    """Returns no message of the model from the second call on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model, and lose its answer."""
        self.calls += 1
        return handler(request) if self.calls == 1 else ModelResponse([])


def test_an_agents_judged_draft_is_released_where_a_later_call_returns_nothing() -> None:
    """A middleware inside that loses a message costs that attempt alone."""
    outcomes: list[Outcome] = []
    middleware = SelfRefineMiddleware(judge(), on_outcome=outcomes.append)
    agent = create_agent(ScriptedModel(lambda _: "a draft"), [], middleware=[middleware, Returning()])
    state = agent.invoke(ASKED)
    assert (state["messages"][-1].text, [one.stop_reason for one in outcomes]) == ("a draft", ["generator_failed"])


def test_an_agents_turn_that_a_function_ends_is_told() -> None:
    """`on_outcome` gets the attempts of a turn that ended in an error of the policy's function."""
    outcomes: list[Outcome] = []
    middleware = SelfRefineMiddleware(judge(), on_outcome=outcomes.append, augment=raising)
    agent = create_agent(ScriptedModel(lambda _: "a draft"), [], middleware=[middleware])
    with pytest.raises(ZeroDivisionError):
        agent.invoke(ASKED)
    assert [[attempt.text for attempt in one.attempts] for one in outcomes] == [["a draft"]]


def test_a_function_that_is_fit_sees_the_attempts_as_before() -> None:
    """Nothing is added where nothing fails."""
    seen: list[int] = []

    def augment(record: Refinement) -> list[Any]:
        seen.append(len(record.attempts))
        return [HumanMessage("again")]

    outcome = SelfRefine(lambda _: AIMessage("x"), judge(), policy=Policy(augment=augment)).refine("what?")
    assert (seen, outcome.stop_reason) == ([1, 2], "max_attempts")


def interrupted_later(_: object) -> str:
    """Make drafts; in the midst of the second one the process is interrupted."""
    CALLS.append(1)
    if len(CALLS) > 1:
        raise KeyboardInterrupt
    return "a draft"


def in_tasks(file: Path, **settings: Any) -> object:
    """Ask without blocking; the process is interrupted in a call that is made in a task of asyncio."""
    judges = [judge(), ScriptedJudge([2, 2, KeyboardInterrupt], name="interrupting")]
    return asyncio.run(SelfRefine(ScriptedModel(list("abcd")), judges, record=file, **settings).arefine("what?"))


def interrupting_later(*_: object) -> Any:
    """Be a function of a user's in which the process is interrupted, on its second call."""
    CALLS.append(1)
    if len(CALLS) > 1:
        raise KeyboardInterrupt


def interrupting_at_once(_: object) -> Any:
    """Be a function of a user's in which the process is interrupted."""
    raise KeyboardInterrupt


CALLS: list[int] = []
INTERRUPTED: dict[str, Callable[[Path], object]] = {
    "generator": lambda file: SelfRefine(interrupted_later, judge(), record=file).refine("what?"),
    "judge": lambda file: SelfRefine(
        ScriptedModel(["a", "b"]), ScriptedJudge([2, KeyboardInterrupt]), record=file
    ).refine("what?"),
    "deadline": lambda file: SelfRefine(interrupted_later, judge(), record=file, deadline_s=60).refine("what?"),
    "stream": lambda file: list(SelfRefine(interrupted_later, judge(), record=file).stream("what?")),
    "checkpointer": lambda file: SelfRefine(
        interrupted_later, judge(), record=file, checkpointer=InMemorySaver()
    ).refine("what?", THREAD),
    "middleware": lambda file: create_agent(
        ScriptedModel(["a draft", KeyboardInterrupt]), middleware=[SelfRefineMiddleware(judge(), record=file)]
    ).invoke(ASKED),
    "candidates": lambda file: SelfRefine(
        ScriptedModel(list("abcd")), ScriptedJudge([2, 2, 2, KeyboardInterrupt]), record=file, candidates=2
    ).refine("what?"),
    "skip": lambda file: SelfRefine(
        ScriptedModel(["a", "b"]), judge(), record=file, skip=interrupting_later
    ).refine("what?"),
    "augment": lambda file: SelfRefine(
        ScriptedModel(["a", "b"]), judge(), record=file, augment=interrupting_at_once
    ).refine("what?"),
    "tasks: panel": in_tasks,
    "tasks: deadline": lambda file: in_tasks(file, deadline_s=60),
    "tasks: candidates": lambda file: in_tasks(file, candidates=2),
}


@pytest.mark.parametrize("way", INTERRUPTED)
def test_an_interrupted_process_leaves_the_record_of_its_attempts(way: str, tmp_path: Path) -> None:
    """A KeyboardInterrupt comes through as it is, with the attempts that were paid for, which are on record."""
    CALLS.clear()
    file = tmp_path / "attempts.jsonl"
    with pytest.raises(KeyboardInterrupt) as raised:
        INTERRUPTED[way](file)
    outcome = outcome_of(raised.value)
    assert outcome is not None
    reason = "skipped" if way == "skip" else "broken_off"
    assert (outcome.stop_reason, outcome.answer, outcome.passed) == (reason, None, False)
    drafts = [draft for attempt in outcome.attempts for draft in attempt.drafts]
    least = {"judge": 2, "skip": 2, "candidates": 3}.get(way, 1)
    assert len(drafts) == len(file.read_text().splitlines()) >= least
    assert drafts[0].rating == 2


@pytest.mark.parametrize("way", ["refine", "checkpointer", "exit", "graph", "middleware", "candidates"])
async def test_a_cancelled_question_leaves_the_record_of_its_attempts(way: str, tmp_path: Path) -> None:
    """So does one whose task is cancelled in the midst of a later attempt, as where a client leaves."""
    waiting, made, file = asyncio.Event(), [0], tmp_path / "attempts.jsonl"
    outcomes: list[Outcome] = []

    async def generate(_: object) -> str:
        made[0] += 1
        if made[0] > (2 if way == "candidates" else 1):
            waiting.set()
            await asyncio.Event().wait()
        return "a draft"

    async def ask() -> object:
        saver = InMemorySaver() if way in ("checkpointer", "exit") else None
        if way == "graph":
            return await self_refine(generate, judge()).ainvoke(ASKED)
        if way == "middleware":
            middleware = SelfRefineMiddleware(judge(), record=file, on_outcome=outcomes.append)
            model = ScriptedModel(["a draft"], cycle=True)
            return await create_agent(model, middleware=[middleware, Awaiting(generate)]).ainvoke(ASKED)
        settings: Any = {"durability": "exit"} if way == "exit" else {}
        settings |= {"candidates": 2} if way == "candidates" else {}
        refiner = SelfRefine(generate, judge(), record=file, checkpointer=saver, **settings)
        return await refiner.ainvoke("what?", THREAD)

    task = asyncio.create_task(ask())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    outcome = outcome_of(raised.value)
    if way == "middleware":
        (outcome,) = outcomes
    assert outcome is not None
    assert outcome.stop_reason == "broken_off"
    assert [attempt.rating for attempt in outcome.attempts] == [2]
    if way != "graph":
        assert len(file.read_text().splitlines()) == len(outcome.attempts[0].drafts)


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "settings",
    [{}, {"candidates": 2}, {"input_judge": lambda _: True}, {"deadline_s": 60}],
    ids=["no limits", "candidates", "input judge", "deadline"],
)
def test_what_was_paid_for_is_counted_wherever_a_turn_is_cancelled(settings: dict[str, Any], call: int) -> None:
    """In the midst of a call of the generator or of the judge, the call that nobody waits for included."""
    outcomes: list[Outcome] = []
    sent = count(1)

    async def turn() -> None:
        def reply(text: str) -> ScriptedModel:
            def say(_: object) -> object:
                if next(sent) == call:
                    asking.cancel()
                return text

            return ScriptedModel(say)

        strict = Helpfulness(reply('{"rationale": "r", "rating": 1, "feedback": "f"}'))
        refiner = SelfRefine(reply("a draft"), strict, max_attempts=4, on_outcome=outcomes.append, **settings)
        asking = asyncio.ensure_future(refiner.arefine("what?"))
        await asyncio.wait([asking])
        assert asking.cancelled()

    asyncio.run(turn())
    ((outcome, paid),) = [(outcome, next(sent) - 1) for outcome in outcomes]
    assert (outcome.stop_reason, outcome.usage.calls) == ("broken_off", paid)


async def test_a_draft_that_a_refused_question_cancelled_is_counted() -> None:
    """A chat model says what it consumed by its answer, for which nobody waits here."""
    is_asked = asyncio.Event()

    def say(_: object) -> str:
        is_asked.set()
        raise asyncio.CancelledError

    async def refuse(_: str) -> bool:
        await is_asked.wait()
        return False

    outcome = await SelfRefine(ScriptedModel(say), judge(), input_judge=refuse).arefine("what?")
    assert (outcome.stop_reason, outcome.usage.calls) == ("question_refused", 1)
