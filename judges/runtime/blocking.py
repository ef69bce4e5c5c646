"""Calling a user's blocking function from async code, so that neither the loop nor its end waits for ever."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from judges.runtime import budget

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function in a thread, and await its result.

    Where there is a deadline the thread is one of its own that nobody has to join: a call that outlives the
    deadline is left to itself, while a thread of asyncio's pool would hold up the end of the event loop. Without a
    deadline the pool is used, so that many calls at once do not make many threads.
    """
    if budget.seconds_left() is None:
        return await asyncio.to_thread(_called, function, *arguments)
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            value = context.run(_called, function, *arguments)
        except BaseException as error:  # noqa: BLE001 - handed on to whoever awaits
            _hand_on(loop, _settle, future, None, error)
        else:
            _hand_on(loop, _settle, future, value, None)

    threading.Thread(target=run, daemon=True, name="judges-call").start()
    return await future


def _settle(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _hand_on(loop: asyncio.AbstractEventLoop, *call: Any) -> None:
    with suppress(RuntimeError):  # the loop may have ended meanwhile, and nobody waits any more
        loop.call_soon_threadsafe(*call)


def _called(function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except StopIteration as error:
        raise RuntimeError("StopIteration") from error  # a future cannot hold it, and would wait for ever
