"""The observation of a call: what bounds it, who watches it, and how its faults are logged.

It is one immutable value in one context variable, so that concurrent questions never share one, and everything
that runs inside a question always does. Whoever bounds or watches calls sets what concerns it by `observing`;
whoever makes a call reads `current` once, and passes on what it read.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from judges.model import EmbeddingModel, EmbeddingResponse, JudgeModel, ModelRequest, ModelResponse
from judges.requests import BegunAnswer, Deliberates
from judges.runtime.budget import Allowance
from judges.sample import Sample
from judges.verdict import Verdict

T = TypeVar("T")


class setting(Generic[T]):  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Set a context variable in a block, and reset it afterwards; cheaper than a generator-based context manager.

    Args:
        variable: The variable.
        value: Its value in the block.
    """

    __slots__ = ("_token", "_value", "_variable")
    _token: Token[T]

    def __init__(self, variable: ContextVar[T], value: T) -> None:
        self._variable = variable
        self._value = value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


class _CallWatcher(Protocol):
    """Stands between a judge and its model: it sends a request, answers it otherwise, or ends the run."""

    def send(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> ModelResponse:
        """Send a request that judges of one sample share if `shared`."""
        ...

    async def asend(self, model: JudgeModel, request: ModelRequest, *, shared: bool) -> ModelResponse:
        """Send a request without blocking."""
        ...

    def embed(self, model: EmbeddingModel, texts: Sequence[str]) -> EmbeddingResponse:
        """Turn texts into vectors."""
        ...

    async def aembed(self, model: EmbeddingModel, texts: Sequence[str]) -> EmbeddingResponse:
        """Turn texts into vectors without blocking."""
        ...


class Observer(Protocol):
    """Watches judges at work: enters when one starts on a sample, learns the verdict when it is done."""

    def __call__(self, judge: Deliberates, sample: Sample) -> AbstractContextManager[Callable[[Verdict], None]]:
        """Enter as `judge` starts on `sample`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What holds for the calls that are made here.

    Args:
        allowance: What they are claimed from; None where nothing bounds them.
        is_counted: Whether whoever makes them counts them, so that nobody else counts them again.
        shared: The replies that the judges of one sample share; None outside of a judgement.
        call_watcher: Stands between judges and their models.
        observer: Sees each judge, members of a panel included, as a run of its own.
        place: Which of the judges side by side this is, from the outermost panel inwards: threads race, and what a
            human answered one of them is for no other.
        repetition: Which run of a repeated judge this is, so that a cache does not return one reply for all runs.
        longest_shown: Most characters of each of the texts that judges show their models; None shows all.
        raises_faults: Whether errors of a judge's own code are raised; else they become unscored verdicts.
        raised_instead: Returns what to raise for an error that is no fault of a judge, None for one that is.
        log_texts: Whether what errors say, which may quote judged texts, is logged.
        outcome_id: Id of the outcome that lines of the log belong to, as lines of the logger `refine` have it.
        logged_faults: The faults of a run that were logged already: each is warned of once; None logs all.
        begun: The answer of which a piece is judged; None where a whole answer is.
    """

    allowance: Allowance | None = None
    is_counted: bool = False
    shared: Shared | None = None
    call_watcher: _CallWatcher | None = None
    observer: Observer | None = None
    repetition: tuple[int, ...] = ()
    place: tuple[int, ...] = ()
    longest_shown: int | None = None
    raises_faults: bool = False
    raised_instead: Callable[[Exception], Exception | None] | None = None
    log_texts: bool = False
    outcome_id: str = ""
    logged_faults: set[str] | None = None
    begun: BegunAnswer | None = None


current: ContextVar[Observation] = ContextVar("judges.observation", default=Observation())  # noqa: B039 - immutable
"""What holds here; changed by `observing` alone."""


class observing:  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Change fields of the `Observation` for a `with` block; the others stay what they are around it."""

    __slots__ = ("_changes", "_token")
    _token: Token[Observation]

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def __enter__(self) -> None:
        changed = object.__new__(Observation)
        vars(changed).update(vars(current.get()))
        vars(changed).update(self._changes)  # a third of what `dataclasses.replace` takes
        self._token = current.set(changed)

    def __exit__(self, *_: object) -> None:
        current.reset(self._token)


def within(allowance: Allowance | None) -> observing:
    """Run a `with` block under an allowance, inside the outer one; None lifts an outer one."""
    return observing(allowance=None if allowance is None else allowance.inside(current.get().allowance))


def also_within(allowance: Allowance | None) -> observing:
    """Run a `with` block under an allowance, inside the outer one; None leaves the outer one in force."""
    return observing() if allowance is None else within(allowance)


def seconds_left() -> float | None:
    """Return the time left in the current allowance; None where there is no deadline."""
    allowance = current.get().allowance
    return None if allowance is None else allowance.seconds_left


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


def observed(judge: Deliberates, sample: Sample) -> AbstractContextManager[Callable[[Verdict], None]]:
    """Let the observer, if there is one, see a judge at work in a `with` block; it is told the verdict there."""
    observe = current.get().observer
    return nullcontext(_ignore) if observe is None else observe(judge, sample)


def _ignore(verdict: Verdict) -> None:
    del verdict


_OPEN = nullcontext()


def shared_work() -> AbstractContextManager[None]:
    """Share replies in a `with` block with whoever shares some around it, else among those inside alone."""
    return observing(shared=Shared()) if current.get().shared is None else _OPEN
