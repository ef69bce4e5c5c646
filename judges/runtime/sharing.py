"""Paying shared work once: judges that need the same of one sample (its claims, its entities) fetch it once.

A scope opens with the first judge of a sample, so with a panel or with a row of a dataset, and closes with it.
Only questions marked `shared`, and texts to embed, are kept; a failure is shared like a reply.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


_ABANDONED = object()
"""Stands for an answer whose fetcher was stopped, so that somebody else must fetch it."""


class Shared:
    """Answers by question, each fetched once, by any number of threads and tasks."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[Future[Any], int]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, fetch: Callable[[], T]) -> tuple[T, bool]:
        """Give the answer, and whether it was there already or on its way.

        What a task of this very thread has on its way is fetched again: waiting would keep the task from ending.
        """
        while True:
            answer, owner = self._claim(key)
            if owner is None:
                with self._delivering(key, answer):
                    answer.set_result(fetch())
                return answer.result(), False
            if owner == threading.get_ident() and not answer.done():
                return fetch(), False
            if (there := answer.result()) is not _ABANDONED:
                return there, True

    async def aget(self, key: Hashable, fetch: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Give the answer without blocking."""
        while True:
            answer, owner = self._claim(key)
            if owner is None:
                with self._delivering(key, answer):
                    answer.set_result(await fetch())
                return answer.result(), False
            if (there := await asyncio.shield(asyncio.wrap_future(answer))) is not _ABANDONED:
                return there, True

    def _claim(self, key: Hashable) -> tuple[Future[Any], int | None]:
        """Give the answer and the thread that fetches it; None where that is now the caller's to do."""
        with self._lock:
            there = self._answers.get(key)
            if there is not None:
                return there
            mine: Future[Any] = Future()
            self._answers[key] = mine, threading.get_ident()
            return mine, None

    @contextmanager
    def _delivering(self, key: Hashable, answer: Future[Any]) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with self._lock:
                del self._answers[key]
            answer.set_result(_ABANDONED)
            raise


_scope: ContextVar[Shared | None] = ContextVar("judges.shared", default=None)


@contextmanager
def shared_work() -> Iterator[None]:
    """Share work in this block, with a scope that is open already or a new one."""
    if _scope.get() is not None:
        yield
        return
    token = _scope.set(Shared())
    try:
        yield
    finally:
        _scope.reset(token)


def scope() -> Shared | None:
    """Give the scope that is open, if there is one."""
    return _scope.get()
