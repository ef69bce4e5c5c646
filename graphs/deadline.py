"""Waiting no longer than a deadline allows."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlinePassed(Exception):  # noqa: N818 - the phrase says what happened
    """What was waited for did not come in time."""


def call_within(seconds: float | None, function: Callable[[], T]) -> T:
    """Call a function and wait for it at most so long; None waits for ever.

    A blocking call cannot be stopped from outside, so with a limit it runs in a thread of its own, which is
    left to itself when the time is up.

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
        except BaseException as error:  # noqa: BLE001 - handed on to the waiting thread
            results.put((None, error))

    context = contextvars.copy_context()
    threading.Thread(target=run, daemon=True, name="refine-call").start()
    try:
        value, error = results.get(timeout=min(seconds, threading.TIMEOUT_MAX))
    except queue.Empty:
        raise DeadlinePassed from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # there is a value where there is no error


async def acall_within(seconds: float | None, call: Awaitable[T]) -> T:
    """Await a call at most so long; None waits for ever.

    When the time is up the call is cancelled and left to itself: one that is slow to clean up, or does not obey,
    is waited for no longer.

    Raises:
        DeadlinePassed: If the time is up.
    """
    if seconds is None:
        return await call
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait({task}, timeout=max(0.0, seconds))
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.done():
        return task.result()
    task.add_done_callback(_dismissed)
    task.cancel()
    raise DeadlinePassed


def _dismissed(task: asyncio.Future[Any]) -> None:
    """Take note of an error nobody waits for any more, so that asyncio does not complain of it."""
    if not task.cancelled():
        task.exception()
