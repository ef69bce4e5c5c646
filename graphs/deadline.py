"""Calls that are waited for no longer than a deadline allows."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from judges.runtime.blocking import leave_unjoined, let_calls_be_left

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
