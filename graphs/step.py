"""What a step of the loop is: a generator that yields an `Effect` to run, and returns a `Transition`."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig

from graphs.errors import Unanswered
from graphs.events import Event
from graphs.outcome import Outcome
from graphs.refinement import Refinement
from judges.runtime.budget import Allowance
from judges.runtime.flow import leave_unjoined, let_calls_be_left
from judges.verdict import Usage

Messages = Sequence[AnyMessage]
Node = Literal["generate", "judge", "finish"]


@dataclass(slots=True, kw_only=True)
class Transition:
    """What a step ends in.

    Args:
        refinement: The record from now on.
        goto: The next node; None ends.
        update: What to put into the graph's visible state.
        events: Makes the events to publish, where anybody listens.
        outcome: The whole record, once there is an answer.
        alarms: Warnings for the log.
        error: Raised once the events are published; nothing is recorded then.
        refusal: Raised once the transition is recorded: there is no answer.
    """

    refinement: Refinement
    goto: Node | None = None
    update: Mapping[str, Any] | None = None
    events: Callable[[], tuple[Event, ...]] = tuple
    outcome: Outcome | None = None
    alarms: tuple[Event, ...] = ()
    error: Exception | None = None
    refusal: Unanswered | None = None


@dataclass(slots=True, kw_only=True)
class Effect:
    """A call that a step needs: to the generator, the judge or a reviewer.

    Args:
        run: Makes the call, blocking.
        arun: Makes it without blocking.
        config: What the call inherits.
        seconds: Longest wait, or None.
        allowance: What its model calls are claimed from, or None.
        attempt: Number of the attempt that it generates; None where it does something else.
        events: Makes the events to publish before the call, where anybody listens.
    """

    run: Callable[[], Any]
    arun: Callable[[], Awaitable[Any]]
    config: RunnableConfig
    seconds: float | None = None
    events: Callable[[], tuple[Event, ...]] = tuple
    allowance: Allowance | None = None
    attempt: int | None = None

    @property
    def spent(self) -> Usage:
        """What was claimed so far."""
        return Usage() if self.allowance is None else self.allowance.spent

    def abandon(self) -> None:
        """Let the call, which nobody waits for any more, ask no model and use no tool from now on."""
        if self.allowance is not None:
            self.allowance.close()


Step = Callable[[Refinement, Messages, RunnableConfig], Generator[Effect, Any, Transition]]
"""What a step is: record, conversation and config in; a generator of effects out, which returns a transition."""


T = TypeVar("T")


class DeadlinePassed(Exception):  # noqa: N818 - the name describes the event
    """The call did not finish in time."""


def call_within(seconds: float | None, function: Callable[[], T]) -> T:
    """Call a function and wait for its result at most `seconds`; None waits without a limit.

    A blocking call cannot be stopped from outside, so with a limit it runs in its own thread, which is abandoned
    when the time is up.

    Raises:
        DeadlinePassed: If the time is up.
    """
    if seconds is None:
        return function()
    if seconds <= 0:
        raise DeadlinePassed
    results: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            results.put((context.run(function), None))
        except BaseException as error:  # noqa: BLE001 - re-raised in the waiting thread
            results.put((None, error))

    context = contextvars.copy_context()
    threading.Thread(target=run, daemon=True, name="refine-call").start()
    try:
        value, error = results.get(timeout=min(seconds, threading.TIMEOUT_MAX))
    except queue.Empty:
        leave_unjoined()
        raise DeadlinePassed from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # without an error there is a value


async def acall_within(seconds: float | None, call: Awaitable[T]) -> T:
    """Await a call for at most `seconds`; None waits without a limit.

    When the time is up the call is cancelled and abandoned, even if it is slow to clean up or ignores the
    cancellation.

    Raises:
        DeadlinePassed: If the time is up.
    """
    if seconds is None:
        return await call
    let_calls_be_left()
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task}, timeout=max(0.0, seconds))
    except asyncio.CancelledError:
        task.add_done_callback(_retrieve_exception)
        task.cancel()
        raise
    if task.done():
        return task.result()
    task.add_done_callback(_retrieve_exception)
    task.cancel()
    leave_unjoined()
    raise DeadlinePassed


def _retrieve_exception(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception of an abandoned task, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()


Watcher = Callable[[int], AbstractContextManager[Callable[[object], None]]]
"""Enters as the attempt of a number is generated; what it yields is called with the draft."""

watcher: ContextVar[Watcher | None] = ContextVar("graphs.watcher", default=None)
"""Set for the time of a question, by whoever watches it."""


def _ignore(draft: object) -> None:
    del draft


_UNWATCHED = nullcontext(_ignore)


def watched(number: int | None) -> AbstractContextManager[Callable[[object], None]]:
    """Enter as attempt `number` is generated; nothing happens if it is None, or nobody watches."""
    watch = None if number is None else watcher.get()
    return _UNWATCHED if watch is None or number is None else watch(number)
