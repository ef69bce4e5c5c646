"""Call a user's blocking function from async code without ever blocking the loop or its shutdown."""

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

    With a deadline the call gets a daemon thread that nobody has to join: a call that outlives the deadline is
    abandoned, while a thread of asyncio's pool would delay the end of the event loop. Without a deadline the pool
    is used, so that many concurrent calls do not start many threads.
    """
    if budget.seconds_left() is None:
        return await asyncio.to_thread(_call, function, *arguments)
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            value = context.run(_call, function, *arguments)
        except BaseException as error:  # noqa: BLE001 - passed on to the awaiting task
            _schedule(loop, _settle, future, None, error)
        else:
            _schedule(loop, _settle, future, value, None)

    threading.Thread(target=run, daemon=True, name="judges-call").start()
    return await future


def _settle(future: asyncio.Future[Any], value: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _schedule(loop: asyncio.AbstractEventLoop, *call: Any) -> None:
    with suppress(RuntimeError):  # the loop may be closed by now, and nobody is waiting
        loop.call_soon_threadsafe(*call)


def _call(function: Callable[..., T], *arguments: Any) -> T:
    try:
        return function(*arguments)
    except StopIteration as error:
        raise RuntimeError("StopIteration") from error  # a future cannot hold it and would never finish
