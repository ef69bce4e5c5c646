"""Share work between judges: what several judges need of one sample (its claims, its entities) is fetched once.

A scope opens with the first judge of a sample, that is with a panel or a row of a dataset, and closes with it.
Only questions marked `shared` and texts to embed are stored; a failure is shared like a reply.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

from judges.runtime.context import setting

T = TypeVar("T")


_ABANDONED = object()
"""Marks an answer whose fetch was stopped, so that another caller must fetch it."""


class Shared:
    """Answers by question, each fetched once, by any number of threads and tasks."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[Future[Any], int]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, fetch: Callable[[], T]) -> tuple[T, bool]:
        """Return the answer, and whether it was already present or being fetched.

        An answer that a task of this same thread is fetching is fetched again: waiting would block that task.
        """
        while True:
            answer, owner = self._claim(key)
            if owner is None:
                with self._abandon_on_error(key, answer):
                    answer.set_result(fetch())
                return answer.result(), False
            if owner == threading.get_ident() and not answer.done():
                return fetch(), False
            if (value := answer.result()) is not _ABANDONED:
                return value, True

    async def aget(self, key: Hashable, fetch: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the answer without blocking."""
        while True:
            answer, owner = self._claim(key)
            if owner is None:
                with self._abandon_on_error(key, answer):
                    answer.set_result(await fetch())
                return answer.result(), False
            if (value := await asyncio.shield(asyncio.wrap_future(answer))) is not _ABANDONED:
                return value, True

    def _claim(self, key: Hashable) -> tuple[Future[Any], int | None]:
        """Return the answer and the thread that fetches it; None where the caller must fetch it."""
        with self._lock:
            entry = self._answers.get(key)
            if entry is not None:
                return entry
            answer: Future[Any] = Future()
            self._answers[key] = answer, threading.get_ident()
            return answer, None

    @contextmanager
    def _abandon_on_error(self, key: Hashable, answer: Future[Any]) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with self._lock:
                del self._answers[key]
            answer.set_result(_ABANDONED)
            raise


_scope: ContextVar[Shared | None] = ContextVar("judges.shared", default=None)
_OPEN = nullcontext()


def shared_work() -> AbstractContextManager[None]:
    """Share work in a `with` block, in the scope that is already open or in a new one."""
    return _OPEN if _scope.get() is not None else setting(_scope, Shared())


def sharing(shared: Shared) -> setting[Shared | None]:
    """Share work in a `with` block in a scope of the caller's, for instance one for all judges of a row."""
    return setting(_scope, shared)


def scope() -> Shared | None:
    """Return the open scope, if there is one."""
    return _scope.get()
