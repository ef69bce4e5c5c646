"""An agent's refused drafts are told and recorded, whatever ended its turn, and are held no longer than that."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime

from graphs import Outcome, Policy, outcome_of, self_refine
from judges import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine, SelfRefineMiddleware
from tests.refine.agent_models import QUESTION, THREAD, both


def measure() -> str:
    """Measure, which fails."""
    raise ZeroDivisionError


class Ending(AgentMiddleware[Any, Any, Any]):
    """Ends a turn before its second model call, by an answer of its own or by an error."""

    def __init__(self, error: type[Exception] | None = None) -> None:
        super().__init__()
        self.error = error

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """End it."""
        del runtime
        if state["messages"][-1].type != "tool":
            return None
        if self.error is not None:
            raise self.error
        return {"jump_to": "end", "messages": [AIMessage("That is enough.")]}


def refusing(outcomes: list[Outcome], **settings: Any) -> SelfRefineMiddleware:
    """Make a middleware that refuses every draft, and tells of each turn."""
    return SelfRefineMiddleware(
        ScriptedJudge([2], cycle=True), max_attempts=3, on_outcome=outcomes.append, **settings
    )


def drafting() -> ScriptedModel:
    """Make a model that drafts, and calls a tool when it is refused."""
    return ScriptedModel(["a draft", ToolCall(name="measure", args={})], cycle=True)


@pytest.mark.parametrize("saver", [None, InMemorySaver()])
@both
def test_a_tool_that_raises_ends_the_turn_on_record(ask: Callable[..., Any], saver: Any, tmp_path: Path) -> None:
    """At once: the error has the refused draft, `on_outcome` is told of it, and it is a row."""
    outcomes: list[Outcome] = []
    file = tmp_path / "attempts.jsonl"
    agent = create_agent(drafting(), [measure], middleware=[refusing(outcomes, record=file)], checkpointer=saver)
    with pytest.raises(ZeroDivisionError) as raised:
        ask(agent, QUESTION, THREAD)
    (outcome,) = outcomes
    assert outcome_of(raised.value) is outcome
    assert (outcome.stop_reason, [attempt.text for attempt in outcome.attempts]) == ("broken_off", ["a draft"])
    assert [json.loads(line)["response"] for line in file.read_text().splitlines()] == ["a draft"]


@both
def test_a_middleware_that_answers_instead_ends_the_turn_on_record(ask: Callable[..., Any]) -> None:
    """The outcome has the refused draft, and the answer that nobody judged."""
    outcomes: list[Outcome] = []
    agent = create_agent(drafting(), [lenient], middleware=[refusing(outcomes), Ending()])
    state = ask(agent)
    (outcome,) = outcomes
    assert (outcome.stop_reason, outcome.passed, len(outcome.attempts)) == ("skipped", False, 1)
    assert outcome.answer is not None
    assert outcome.answer.text == state["messages"][-1].text == "That is enough."


def lenient() -> str:
    """Measure."""
    return "15"


lenient.__name__ = "measure"


def test_what_nobody_tells_of_is_seen_with_a_later_turn() -> None:
    """A middleware that raises between two calls leaves no trace but that the run is gone."""
    outcomes: list[Outcome] = []
    agent = create_agent(drafting(), [lenient], middleware=[refusing(outcomes), Ending(ZeroDivisionError)])
    for number in range(3):
        with pytest.raises(ZeroDivisionError):
            agent.invoke(QUESTION)
        gc.collect()
        assert len(outcomes) == number
    assert {(outcome.stop_reason, len(outcome.attempts)) for outcome in outcomes} == {("broken_off", 1)}


def test_a_question_on_the_same_thread_ends_the_turn_before_it() -> None:
    """With a checkpointer another run might have gone on with it: a new question says that none will."""
    outcomes: list[Outcome] = []
    middleware = [refusing(outcomes), Ending(ZeroDivisionError)]
    agent = create_agent(drafting(), [lenient], middleware=middleware, checkpointer=InMemorySaver())
    for number in range(3):
        with pytest.raises(ZeroDivisionError):
            agent.invoke(QUESTION, THREAD)
        assert len(outcomes) == number


_ENDS = """
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from tests.refine.test_middleware_ended import QUESTION, Ending, THREAD, drafting, lenient, refusing
middleware = [refusing([], record={file!r}), Ending(ZeroDivisionError)]
agent = create_agent(drafting(), [lenient], middleware=middleware, checkpointer=InMemorySaver())
agent.invoke(QUESTION, THREAD)
"""


def test_the_end_of_the_process_records_what_it_loses(tmp_path: Path) -> None:
    """Drafts live in the process: what waits there for another run is a row when it ends."""
    file = tmp_path / "attempts.jsonl"
    ended = subprocess.run([sys.executable, "-c", _ENDS.format(file=str(file))], capture_output=True, check=False)
    assert b"ZeroDivisionError" in ended.stderr
    assert [json.loads(line)["response"] for line in file.read_text().splitlines()] == ["a draft"]


Play = Callable[[int], Awaitable[object]]


def is_empty(response: str) -> bool:
    """Refuse whatever says anything."""
    return not response


async def write(_: list[Any]) -> str:
    """Write a draft, with a pause in which it may be cancelled."""
    await asyncio.sleep(0)
    return "a draft"


def write_one(messages: list[Any]) -> str | None:
    """Write a draft, and nothing after it."""
    return "a draft" if len(messages) == 1 else None


def agent_turns(*neighbours: Any, tool: Any = lenient, is_fresh: bool = False, **settings: Any) -> Play:
    """Return what plays a turn of an agent, with one middleware for all of them or one for each."""

    def refining() -> SelfRefineMiddleware:
        return SelfRefineMiddleware(is_empty, max_turns=5, max_outcomes=5, **{"on_outcome": str, **settings})

    shared = refining()

    async def play(number: int) -> object:
        middleware = [refining() if is_fresh else shared, *neighbours]
        return await create_agent(drafting(), [tool], middleware=middleware).ainvoke(long_question(number))

    return play


def loop_turns(generator: Any = write, **settings: Any) -> Play:
    """Return what plays a turn of a loop."""
    refiner = SelfRefine(generator, is_empty, **settings)
    return lambda number: refiner.ainvoke(long_question(number))


def left_streams(**settings: Any) -> Play:
    """Return what reads a stream of a loop to its first event."""
    graph = self_refine(write, is_empty, policy=Policy(**settings))

    async def play(number: int) -> None:
        async for _ in graph.astream(long_question(number), stream_mode="custom"):
            break

    return play


def long_question(number: int) -> Any:
    """Return a question as long as a document."""
    return {"messages": [HumanMessage(f"{number} " + "x" * 20_000)]}


def cancelled(play: Play) -> Play:
    """Return what cancels a turn, each at another of its steps."""

    async def play_in_part(number: int) -> None:
        running = asyncio.ensure_future(play(number))
        for _ in range(1 + number % 40):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()

    return play_in_part


ENDED: dict[str, Callable[[], Play]] = {
    "loop: a limit": lambda: loop_turns(max_attempts=9, max_calls=3, on_exhausted="raise"),
    "loop: cancelled": lambda: cancelled(loop_turns(max_attempts=9, deadline_s=60)),
    "loop: candidates, cancelled": lambda: cancelled(loop_turns(candidates=3)),
    "loop: no draft": lambda: loop_turns(write_one, on_exhausted="raise"),
    "loop: its stream is left": left_streams,
    "agent: a limit": lambda: agent_turns(max_calls=2, on_exhausted="raise", on_outcome=None),
    "agent: a tool raises": lambda: agent_turns(tool=measure, on_outcome=None),
    "agent: cancelled": lambda: cancelled(agent_turns()),
    "agent: a neighbour raises": lambda: agent_turns(Ending(ZeroDivisionError)),
    "agent: a neighbour answers": lambda: agent_turns(Ending()),
    "agent: a fresh middleware": lambda: agent_turns(Ending(ZeroDivisionError), is_fresh=True),
}


@pytest.mark.parametrize("ended", ENDED)
async def test_memory_is_flat_however_turns_end(ended: str) -> None:
    """Turns that break off leave no objects behind, whatever ended them: a leak grows with every round."""
    play, alive = ENDED[ended](), list[int]()
    for turns in (25, 80, 80):
        for number in range(turns):
            with suppress(Exception):
                await play(number)
        gc.collect()
        alive.append(len(gc.get_objects()))
    growth = min(later - earlier for earlier, later in pairwise(alive))  # what others left grows once
    assert growth < 240  # three a turn, which one object that is held has at least
