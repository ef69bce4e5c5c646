"""A time limit around awaited calls, as `asyncio.timeout` is, at a quarter of its cost: it cannot be moved."""

from __future__ import annotations

import asyncio
from typing import Any, Self


class time_limit:  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Cancel what the current task awaits in a `with` block when the time is up.

    Args:
        seconds: Seconds from now; None is no limit.

    Raises:
        TimeoutError: From the block, when the time is up.
    """

    __slots__ = ("_cancellations", "_is_over", "_seconds", "_task", "_timer")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> Self:
        if self._seconds is not None:
            self._task = asyncio.current_task()
            assert self._task is not None  # noqa: S101 - a coroutine runs in one
            self._cancellations = self._task.cancelling()
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end)
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, trace: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._is_over and self._task is not None:
            is_own = self._task.uncancel() <= self._cancellations
            if is_own and kind is not None and issubclass(kind, asyncio.CancelledError):
                raise TimeoutError from raised

    def _end(self) -> None:
        self._is_over = True
        if self._task is not None:
            self._task.cancel()
