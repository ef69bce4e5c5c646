"""Run an algorithm that is written once, as a generator that yields what it needs, blocking or not.

A flow decides and does no I/O: it yields effects, receives what they came to (a failure is raised at the `yield`),
and returns its result. `run` and `arun` perform the effects.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

from judges.runtime.context import setting

Effect = TypeVar("Effect")
Outcome = TypeVar("Outcome")
Result = TypeVar("Result")


def run(flow: Generator[Effect, Outcome, Result], perform: Callable[[Effect], Outcome]) -> Result:
    """Run a flow to its result, performing one effect after the other."""
    try:
        effect = next(flow)
        while True:
            try:
                outcome = perform(effect)
            except Exception as error:  # noqa: BLE001 - the flow decides what becomes of it
                effect = flow.throw(error)
            else:
                effect = flow.send(outcome)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the flow returned
    finally:
        flow.close()  # whatever ended it, so that what it has opened is closed now


async def arun(
    flow: Generator[Effect, Outcome, Result], perform: Callable[[Effect], Awaitable[Outcome]]
) -> Result:
    """Run a flow without blocking; otherwise as `run`."""
    try:
        effect = next(flow)
        while True:
            try:
                outcome = await perform(effect)
            except Exception as error:  # noqa: BLE001 - the flow decides what becomes of it
                effect = flow.throw(error)
            else:
                effect = flow.send(outcome)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the flow returned
    finally:
        flow.close()  # as above


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
