"""The two drivers of a deliberation, one sync and one async.

All I/O of judging happens here: models are asked, functions are called, independent requests run concurrently,
failures become unscored verdicts, usage and time are added up.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Protocol

from judges.errors import AskFailed, CannotJudge, ConfigurationError
from judges.model import EmbeddingResponse, repetition
from judges.models import retry, structured
from judges.models.identity import handle_of
from judges.models.render import render_data
from judges.requests import Apply, Ask, Consult, Deliberates, Deliberation, Embed, Request
from judges.runtime import budget
from judges.runtime.blocking import in_thread
from judges.runtime.sharing import scope, shared_work
from judges.sample import Sample
from judges.verdict import Usage, Verdict

_MOST_THREADS = 16
_AT_ONCE_S = 0.05
"""A request that is settled within this time is settled before the next one begins."""


class Observer(Protocol):
    """Watches judges at work: enters when one starts on a sample, learns the verdict when it is done."""

    def __call__(self, judge: Deliberates, sample: Sample) -> AbstractContextManager[Callable[[Verdict], None]]:
        """Enter as `judge` starts on `sample`."""
        ...


observer: ContextVar[Observer | None] = ContextVar("judges.observer", default=None)
"""Set by a tracer for the time of a call, to see each judge, members of a panel included, as a run of its own."""


@dataclass(frozen=True, slots=True)
class _Result:
    """What a request came to: a value or a failure, and what it cost."""

    value: Any = None
    failure: AskFailed | None = None
    usage: Usage = Usage()
    model: str | None = None


class _Case:
    """One deliberation in progress: hands out requests, takes answers, and ends with a verdict."""

    def __init__(self, judge: Deliberates, sample: Sample) -> None:
        self._judge = judge
        self._started = time.perf_counter()
        self._deliberation = _begun(judge, sample)
        self._answered = False
        self._usage = Usage()
        self._model: str | None = None
        self.verdict: Verdict | None = None
        self.requests: tuple[Request, ...] = ()
        self._together = False
        self._step(lambda: next(self._deliberation))

    def take(self, answers: tuple[_Result, ...]) -> None:
        self._answered = True
        for answer in answers:
            self._usage += answer.usage
            self._model = self._model or answer.model
        if self._together:
            values = tuple(a.failure if a.failure is not None else a.value for a in answers)
            self._step(lambda: self._deliberation.send(values))
        elif answers[0].failure is not None:
            failure = answers[0].failure
            self._step(lambda: self._deliberation.throw(failure))
        else:
            self._step(lambda: self._deliberation.send(answers[0].value))

    def _step(self, proceed: Callable[[], Request | tuple[Request, ...]]) -> None:
        try:
            request = proceed()
            self._together = isinstance(request, tuple)
            self.requests = request if isinstance(request, tuple) else (request,)
            if not all(isinstance(one, Request) for one in self.requests):
                self._deliberation.throw(TypeError("a deliberation yields requests, or a tuple of them"))
        except StopIteration as end:
            self._close(end.value)
        except AskFailed as failure:
            self._close(Verdict.without_score(failure.reason, failure.detail, raw=failure.raw))
        except CannotJudge as lacking:
            self._close(Verdict.without_score(lacking.reason, lacking.detail))
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - a judge's fault is an unscored verdict, not a lost answer
            self._close(Verdict.without_score("judge_failed", f"{type(error).__name__} in {self._judge.name!r}"))

    def _close(self, verdict: object) -> None:
        if not isinstance(verdict, Verdict):
            told = f"{self._judge.name!r} ended with a {type(verdict).__name__}, not a Verdict"
            verdict = Verdict.without_score("judge_failed", told)
        self.verdict = verdict.model_copy(
            update={
                "judge": verdict.judge or self._judge.name,
                "usage": self._usage if self._answered else verdict.usage,
                "latency_s": time.perf_counter() - self._started,
                "model": verdict.model or self._model,
            }
        )


def _begun(judge: Deliberates, sample: Sample) -> Deliberation:
    """Start a deliberation with the first step, so that all of a judge's own code runs in one place."""
    return (yield from judge.deliberate(sample))


def _observed(judge: Deliberates, sample: Sample) -> AbstractContextManager[Callable[[Verdict], None]]:
    watch = observer.get()
    return nullcontext(_ignore) if watch is None else watch(judge, sample)


def _ignore(verdict: Verdict) -> None:
    del verdict


def run(judge: Deliberates, sample: Sample) -> Verdict:
    """Judge a sample, blocking until the verdict is there."""
    with shared_work(), _observed(judge, sample) as told:
        case = _Case(judge, sample)
        while case.verdict is None:
            case.take(_settle_all(case.requests))
        told(case.verdict)
        return case.verdict


async def arun(judge: Deliberates, sample: Sample) -> Verdict:
    """Judge a sample without blocking the event loop."""
    with shared_work(), _observed(judge, sample) as told:
        case = _Case(judge, sample)
        while case.verdict is None:
            case.take(await _asettle_all(case.requests))
        told(case.verdict)
        return case.verdict


def _settle_all(requests: tuple[Request, ...]) -> tuple[_Result, ...]:
    """Settle requests side by side; while each is settled at once, as by a script or a cache, in their order."""
    keys = _keys_of(requests)
    if len(requests) < 2:  # noqa: PLR2004 - one request needs no thread
        return tuple(map(_settle, requests, keys))
    with ThreadPoolExecutor(max_workers=min(len(requests), _MOST_THREADS)) as pool:
        settling: list[Future[_Result]] = []
        at_once = True
        for request, key in zip(requests, keys, strict=True):
            settling.append(pool.submit(contextvars.copy_context().run, _settle, request, key))
            at_once = at_once and bool(wait(settling[-1:], timeout=_AT_ONCE_S).done)
        return tuple(one.result() for one in settling)


async def _asettle_all(requests: tuple[Request, ...]) -> tuple[_Result, ...]:
    keys = _keys_of(requests)
    if len(requests) < 2:  # noqa: PLR2004 - one request needs no task
        return tuple([await _asettle(*one) for one in zip(requests, keys, strict=True)])
    answers = await asyncio.gather(*map(_asettle, requests, keys), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return tuple(answer for answer in answers if isinstance(answer, _Result))


def _keys_of(requests: tuple[Request, ...]) -> list[Hashable | None]:
    """Tell what makes each request the same as another judge's, where it can be shared.

    Equal ones put together (about two contexts of the same text) stay apart, so that a judge makes as many
    calls as it says.
    """
    seen: Counter[Hashable] = Counter()
    keys: list[Hashable | None] = []
    for key in map(_key_of, requests):
        keys.append(None if key is None else (key, seen[key]))
        seen[key] += 1
    return keys


def _settle(request: Request, key: Hashable | None) -> _Result:
    shared = scope()
    if key is None or shared is None:
        return _fetched(request)
    answer, known = shared.get(key, lambda: _fetched(request))
    return _free(answer) if known else answer


async def _asettle(request: Request, key: Hashable | None) -> _Result:
    shared = scope()
    if key is None or shared is None:
        return await _afetched(request)
    answer, known = await shared.aget(key, lambda: _afetched(request))
    return _free(answer) if known else answer


def _key_of(request: Request) -> Hashable | None:
    """Tell what makes a request the same as another, where sharing it changes nothing but the bill."""
    match request:
        case Ask(shared=True):
            asked = (request.task, render_data(request.data), request.reminder, request.schema, request.examples)
            is_checked = request.check is not None  # a reply that was not is none for a judge that checks
            return (handle_of(request.model), repetition.get(), is_checked, *asked)
        case Embed():
            who = getattr(request.model, "embeddings", request.model)
            return (id(who), repetition.get(), request.texts)
        case _:
            return None


def _free(answer: _Result) -> _Result:
    """Give an answer that somebody else paid for."""
    return replace(answer, usage=Usage(cached=1) if answer.usage.calls else Usage())


def _fetched(request: Request) -> _Result:
    try:
        match request:
            case Ask():
                return _told(structured.complete(request))
            case Embed(model=model, texts=texts):
                budget.take()
                return _embedded(model.embed(texts), model.name)
            case Consult(judge=judge, sample=sample):
                with _numbered(request):
                    return _consulted(run(judge, sample))
            case Apply(function=function, sample=sample):
                return _returned(waited_for(function(sample)))
    except Exception as error:  # noqa: BLE001 - sorted in one place
        return _failed(error, request)


async def _afetched(request: Request) -> _Result:
    try:
        match request:
            case Ask():
                return _told(await structured.acomplete(request))
            case Embed(model=model, texts=texts):
                budget.take()
                return _embedded(await model.aembed(texts), model.name)
            case Consult(judge=judge, sample=sample):
                with _numbered(request):
                    return _consulted(await arun(judge, sample))
            case Apply(sample=sample):
                return _returned(await _applied(request.afunction or request.function, sample))
    except Exception as error:  # noqa: BLE001 - sorted in one place
        return _failed(error, request)


@contextmanager
def _numbered(request: Consult) -> Iterator[None]:
    """Let whoever is asked inside know which run of a repeated judge this is."""
    if request.repetition is None:
        yield
        return
    token = repetition.set((*repetition.get(), request.repetition))
    try:
        yield
    finally:
        repetition.reset(token)


def _told(reply: structured.Completion) -> _Result:
    return _Result(reply.value, usage=reply.usage, model=reply.model)


def _embedded(told: EmbeddingResponse, name: str) -> _Result:
    """Take vectors; what they cost counts, but calls are those of models that speak."""
    usage = budget.add(told.usage, told.model or name)
    return _Result(told.vectors, usage=usage.model_copy(update={"calls": 0}))


def _consulted(verdict: Verdict) -> _Result:
    return _Result(verdict, usage=verdict.usage, model=verdict.model)


def _returned(value: object) -> _Result:
    """Take what a function returned; a verdict comes with what it cost."""
    return _consulted(value) if isinstance(value, Verdict) else _Result(value)


def _failed(error: Exception, request: Request) -> _Result:
    if isinstance(error, ConfigurationError):
        raise error
    if isinstance(error, AskFailed):
        return _Result(failure=error, usage=error.usage)
    where = getattr(getattr(request, "function", None), "__name__", type(request).__name__)
    told = f"{retry.kind_of(error)} from {request.model.name}" if isinstance(request, Embed) else ""
    failure = AskFailed("judge_failed", told or f"{type(error).__name__} in {where}")
    failure.__cause__ = error
    return _Result(failure=failure)


def waited_for(value: object) -> object:
    """Finish a coroutine from sync code, in a thread of its own because a loop may be running in this one."""
    if not inspect.isawaitable(value):
        return value
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(contextvars.copy_context().run, asyncio.run, _awaited(value)).result()


async def _awaited(value: Awaitable[object]) -> object:
    return await value


async def _applied(function: Callable[[Sample], object], sample: Sample) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(sample)
    value = await in_thread(function, sample)
    return await value if inspect.isawaitable(value) else value
