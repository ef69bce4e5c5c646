"""The deadline counts the time in which the loop runs, by the monotonic clock."""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt

from graphs import Policy, self_refine
from judges.runtime.flow import DeadlinePassed, acall_within, call_within
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.kit import Clock, Hang

THREAD: Any = {"configurable": {"thread_id": "1"}}


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
@pytest.mark.parametrize("settings", [{}, {"checkpointer": InMemorySaver()}])
def test_a_change_of_the_computers_clock_changes_nothing(
    jump_s: float, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day forth or back in the midst of a question neither ends it nor makes it take a day."""
    real_time, drafts = time.time, iter(["draft", "another"])

    def generate(_: object) -> str:
        monkeypatch.setattr(time, "time", lambda: real_time() + jump_s)
        return next(drafts)

    refiner = SelfRefine(generate, ScriptedJudge([1, 4]), deadline_s=30, **settings)
    outcome = refiner.refine("what?", THREAD)
    assert (outcome.stop_reason, len(outcome.attempts)) == ("accepted", 2)
    assert outcome.latency_s < 20


def test_the_deadline_holds_over_attempts_that_are_checkpointed(clock: Clock) -> None:
    """The time of each step counts, although the record is plain data between them."""

    def generate(_: object) -> str:
        clock.ahead_s += 15_000
        return "draft"

    graph = self_refine(
        generate,
        ScriptedJudge([1], cycle=True),
        policy=Policy(deadline_s=40_000, max_attempts=9),
        checkpointer=InMemorySaver(),
    )
    state = graph.invoke({"messages": [("user", "what?")]}, THREAD)
    assert state["refine"]["stop_reason"] == "deadline"
    assert len(state["refine"]["attempts"]) == 3


def test_a_humans_time_does_not_count(clock: Clock) -> None:
    """An agent that stops for a human has its whole time left when it goes on; nor does a review count."""

    @tool
    def send(to: str) -> str:
        """Send something, if a human agrees."""
        return f"{interrupt(to)} {to}"

    call = {"name": "send", "args": {"to": "Ada"}, "id": "1"}
    agent = create_agent(ScriptedModel([AIMessage("", tool_calls=[call]), "done"]), [send])
    refiner = SelfRefine(
        agent,
        ScriptedJudge([1]),
        deadline_s=1_500,
        max_attempts=1,
        on_exhausted="interrupt",
        checkpointer=InMemorySaver(),
    )
    assert refiner.refine("send it", THREAD).stop_reason == "interrupted"
    clock.ahead_s += 1_600
    waiting = refiner.refine(Command(resume="sent to"), THREAD)
    assert (waiting.stop_reason, waiting.detail) == ("interrupted", "max_attempts")
    assert waiting.usage.calls == 2
    clock.ahead_s += 300
    outcome = refiner.refine(Command(resume="accept"), THREAD)
    assert outcome.answer is not None
    assert outcome.latency_s < 300


def test_over_a_resume_only_running_time_counts(clock: Clock, tmp_path: Path) -> None:
    """A turn that broke off goes on, in another process too, with the time that was left."""
    calls: list[int] = []

    def generate(_: object) -> str:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return f"draft {len(calls)}"

    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        first = SelfRefine(generate, ScriptedJudge([1]), deadline_s=500, checkpointer=saver)
        with pytest.raises(KeyboardInterrupt):
            first.refine("what?", THREAD)
    clock.ahead_s += 600
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        second = SelfRefine(generate, ScriptedJudge([4]), deadline_s=500, checkpointer=saver)
        outcome = second.refine(None, THREAD)
    assert (outcome.stop_reason, len(outcome.attempts)) == ("accepted", 2)


SHORT = 0.02
SOON = 10.0
"""What counts as in time: far below what is hung on, far above what a busy machine takes."""

marker: ContextVar[str] = ContextVar("marker", default="unset")


async def value() -> int:
    """Give a value."""
    return 7


def broken() -> int:
    """Fail."""
    raise LookupError("no")


async def abroken() -> int:
    """Fail."""
    raise LookupError("no")


@pytest.mark.parametrize("seconds", [None, 5, 1e12])
async def test_what_comes_in_time_is_given(seconds: float | None) -> None:
    """Without a limit, or within it, however far off, the value comes back."""
    assert call_within(seconds, lambda: 7) == 7
    assert await acall_within(seconds, value()) == 7


@pytest.mark.parametrize("seconds", [None, 5])
async def test_an_error_comes_back(seconds: float | None) -> None:
    """An error of the call is the caller's."""
    with pytest.raises(LookupError):
        call_within(seconds, broken)
    with pytest.raises(LookupError):
        await acall_within(seconds, abroken())


def test_an_interrupt_comes_back() -> None:
    """What ends the process ends it from the thread, too."""

    def dies() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_within(5, dies)


def test_a_hanging_call_is_left_to_itself(hang: Hang) -> None:
    """A blocking call is abandoned when the time is up."""
    with pytest.raises(DeadlinePassed):
        call_within(SHORT, hang.wait)


@pytest.mark.parametrize("seconds", [0, -1])
def test_without_time_nothing_is_called(seconds: float) -> None:
    """When the time is up beforehand, the call is not made."""
    called: list[int] = []
    with pytest.raises(DeadlinePassed):
        call_within(seconds, lambda: called.append(1))
    assert called == []


@pytest.mark.parametrize("seconds", [0, -1])
async def test_without_time_nothing_is_awaited(seconds: float) -> None:
    """When the time is up beforehand, a call that waits is not waited for."""
    with pytest.raises(DeadlinePassed):
        await acall_within(seconds, asyncio.sleep(30))


async def test_a_hanging_coroutine_is_cancelled() -> None:
    """A coroutine is cancelled when the time is up."""
    cancelled = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(DeadlinePassed):
        await acall_within(SHORT, hangs())
    await asyncio.wait_for(cancelled.wait(), SOON)


async def test_a_coroutine_that_does_not_obey_is_left_to_itself() -> None:
    """One that ignores being cancelled is waited for no longer, and its late error is nobody's."""
    freed, ended = asyncio.Event(), list[str]()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.wait_for(freed.wait(), 30)
            ended.append("late")
            raise LookupError("late") from None

    with pytest.raises(DeadlinePassed):
        await acall_within(SHORT, stubborn())
    assert ended == []
    freed.set()
    await asyncio.sleep(0)


async def test_a_cancelled_caller_cancels_the_call() -> None:
    """When whoever waits is cancelled, so is the call, and no deadline is reported."""
    cancelled = asyncio.Event()
    begun = asyncio.Event()

    async def hangs() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.set()

    waiting = asyncio.create_task(acall_within(30, hangs()))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(cancelled.wait(), SOON)


async def test_a_timeout_of_the_call_is_its_own() -> None:
    """A `TimeoutError` that the call raises is no deadline."""

    async def timed_out() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await acall_within(5, timed_out())


async def test_the_context_is_that_of_the_caller() -> None:
    """Context variables reach the call, in its thread or task."""

    async def look() -> str:
        return marker.get()

    token = marker.set("set")
    try:
        assert call_within(5, marker.get) == "set"
        assert await acall_within(5, look()) == "set"
    finally:
        marker.reset(token)
