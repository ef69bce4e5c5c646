"""The judge: an immutable object that turns a sample into a verdict, called sync or async."""

from __future__ import annotations

import asyncio
import inspect
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Never

from judges.entry import Entry, Explanation
from judges.errors import AskFailed, BadSample, CannotJudge, ConfigurationError
from judges.first_guesses import HintsAtGuesses, MiddlewareHook, guesses
from judges.model import EmbeddingModel, EmbeddingResponse, JudgeModel
from judges.models import retry, structured
from judges.models.identity import handle_of
from judges.models.prompt_and_reply import render_data
from judges.models.providers.llm_runs import metered
from judges.requests import Apply, Ask, Completion, Consult, Deliberates, Deliberation, Embed, Request
from judges.runtime import budget, faults, flow
from judges.runtime.budget import Allowance
from judges.runtime.flow import (
    LAST_WORDS_S,
    CallInTask,
    DaemonThreads,
    DeadlinePassed,
    acall_within,
    call_within,
    in_daemon_thread,
    in_thread,
)
from judges.runtime.observation import Observation, Shared, current, observed, observing, shared_work, within
from judges.sample import Sample, copy_sample, excerpt_of, is_long
from judges.settings import MADE_WITH, checking_settings, setting_called, settings_of
from judges.verdict import Usage, Verdict

_MOST_THREADS = 16
_TOO_LONG = "the judge took too long"
_AT_ONCE_S = 0.05
"""A request that is settled within this time is settled before the next one begins."""


_Requested = Request | tuple[Request, ...]
"""What a deliberation yields: one request, or several that are independent."""


def run(judge: Deliberates, sample: Sample) -> Verdict:
    """Judge a sample, blocking until the verdict is there."""
    case = _Case(judge, sample)
    with shared_work(), observed(judge, sample) as on_verdict:
        here = current.get()

        def perform(requested: _Requested) -> Any:
            return case.answer(requested, _settle_all(_requests_in(requested), here))

        verdict = flow.run(case.judging(), perform)
        on_verdict(verdict)
        return verdict


async def arun(judge: Deliberates, sample: Sample) -> Verdict:
    """Judge a sample without blocking the event loop."""
    case = _Case(judge, sample)
    with shared_work(), observed(judge, sample) as on_verdict:
        here = current.get()

        async def perform(requested: _Requested) -> Any:
            return case.answer(requested, await _asettle_all(_requests_in(requested), here))

        verdict = await flow.arun(case.judging(), perform)
        on_verdict(verdict)
        return verdict


async def ajudge_within(seconds: float | None, judge: Judge, sample: Sample) -> Verdict:
    """Judge a sample without blocking, within so many seconds; None sets no limit."""
    longest = None if seconds is None else seconds + LAST_WORDS_S
    with within(None if seconds is None else Allowance(seconds=seconds)):
        try:
            return await acall_within(longest, arun(judge, sample))
        except DeadlinePassed:
            return Verdict.without_score("deadline", _TOO_LONG, judge=judge.name)


class _Case:
    """One sample before one judge: the verdict, whatever happens, and what it cost."""

    def __init__(self, judge: Deliberates, sample: Sample) -> None:
        self._judge = judge
        self._sample = sample
        self._started = time.perf_counter()
        self._usage: Usage | None = None
        self._model: str | None = None

    def judging(self) -> Deliberation:
        """Deliberate, and return the verdict with what it cost; a failure becomes an unscored verdict."""
        try:
            verdict = yield from self._deliberation()
        except CannotJudge as reason:
            raw = reason.raw if isinstance(reason, AskFailed) else ""
            verdict = Verdict.without_score(reason.reason, reason.detail, raw=raw)
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - a judge's fault is an unscored verdict, not a lost answer
            verdict = Verdict.without_score("judge_failed", faults.report(error, repr(self._judge.name)))
        return verdict.model_copy(
            update={
                "judge": verdict.judge or self._judge.name,
                "usage": verdict.usage if self._usage is None else self._usage,
                "latency_s": time.perf_counter() - self._started,
                "model": verdict.model or self._model,
            }
        )

    def _deliberation(self) -> Deliberation:
        name = self._judge.name
        sample = _as_seen(self._judge, self._sample)
        if isinstance(self._judge, Judge):
            refusal = self._judge.refuse_unasked(sample)
            if refusal is not None:
                return refusal
            deliberation = self._judge.deliberation(sample)
        else:
            deliberation = self._judge.deliberate(sample)
        if not isinstance(deliberation, Generator):
            raise ConfigurationError(
                f"{name!r}.deliberate returned a {type(deliberation).__name__}: it must be a generator, which "
                f"yields requests and returns a Verdict; make a judge of a plain function by as_judge"
            )
        verdict = yield from deliberation
        if not isinstance(verdict, Verdict):
            raise CannotJudge("judge_failed", f"{name!r} ended with a {type(verdict).__name__}, not a Verdict")
        return verdict

    def answer(self, requested: _Requested, completions: tuple[Completion, ...]) -> Any:
        """Count what requests cost, and return their answers; a single one that failed is raised."""
        usages = [completion.usage for completion in completions]
        usage = usages[0] if len(usages) == 1 else Usage.total(usages)
        self._usage = usage if self._usage is None else self._usage + usage
        for completion in completions:
            self._model = self._model or completion.model or None
        if isinstance(requested, tuple):
            return tuple(one.value if one.failure is None else one.failure for one in completions)
        if completions[0].failure is not None:
            raise completions[0].failure
        return completions[0].value


def _as_seen(judge: Deliberates, sample: Sample) -> Sample:
    """Return the sample as a judge gets it: as it is for one of this package, which only reads it, else a copy.

    One that itself asks a model gets the excerpt that its model is shown; the members of a panel are told apart.
    """
    limit = current.get().longest_shown
    if limit is not None and getattr(judge, "models", None) and is_long(sample, limit) and not _takes_whole(judge):
        sample = excerpt_of(sample, limit)
    return sample if getattr(judge, "is_of_this_package", False) else copy_sample(sample)


def _takes_whole(judge: Deliberates) -> bool:
    return hasattr(judge, "judges") or hasattr(judge, "judge") or getattr(judge, "reads_whole_sample", False)


def _requests_in(requested: object) -> tuple[Request, ...]:
    if isinstance(requested, Request):
        return (requested,)
    requests = requested if isinstance(requested, tuple) else (requested,)
    if not all(isinstance(request, Request) for request in requests):
        raise TypeError("a deliberation yields requests, or a tuple of them")
    return requests


def _settle_all(requests: tuple[Request, ...], here: Observation) -> tuple[Completion, ...]:
    """Settle requests side by side; while each is settled at once, as by a script or a cache, in their order."""
    if len(requests) == 1:
        return (_settle(requests[0], _keys_of(requests, here)[0], here),)
    with DaemonThreads(min(len(requests), _MOST_THREADS)) as threads:
        settling: list[Future[Completion]] = []
        at_once = True
        for request, key in zip(requests, _keys_of(requests, here), strict=True):
            with _placed(request, len(settling), here):
                settling.append(threads.submit(_settle, request, key, here))
            longest_s = None if _replies_in_turn(request) else _AT_ONCE_S
            at_once = at_once and bool(wait(settling[-1:], timeout=longest_s).done)
        return tuple(future.result() for future in settling)


def _placed(request: Request, number: int, here: Observation) -> AbstractContextManager[None]:
    """Let a judge know which of those side by side it is, for what it may ask a human."""
    return observing(place=(*here.place, number)) if isinstance(request, Consult | Apply) else nullcontext()


def _replies_in_turn(request: Request) -> bool:
    """Check whether a script replies, whose next line is for whoever asks next: then the order counts."""
    match request:
        case Ask(model=model):
            return getattr(model, "replies_in_turn", False)
        case Consult(judge=Judge(models=models)):
            return bool(models) and all(getattr(model, "replies_in_turn", False) for model in models)
        case _:
            return False


async def _asettle_all(requests: tuple[Request, ...], here: Observation) -> tuple[Completion, ...]:
    if len(requests) == 1:  # needs no task
        return (await _asettle(requests[0], _keys_of(requests, here)[0], here),)
    settling: list[CallInTask[Completion]] = []
    for request, key in zip(requests, _keys_of(requests, here), strict=True):
        with _placed(request, len(settling), here):
            settling.append(CallInTask(_asettle(request, key, here)))
    completions = await asyncio.gather(*settling, return_exceptions=True)
    for completion in completions:
        if isinstance(completion, BaseException):
            raise completion
    return tuple(completion for completion in completions if isinstance(completion, Completion))


def _keys_of(requests: tuple[Request, ...], here: Observation) -> list[Hashable | None]:
    """Return what makes each request the same as another judge's; None where it cannot be shared.

    Equal requests of one tuple (two contexts of the same text) get different keys, so that a judge makes as many
    calls as it says.
    """
    occurrences: Counter[Hashable] = Counter()
    keys: list[Hashable | None] = []
    for key in [_key_of(request, here) for request in requests]:
        keys.append(None if key is None else (key, occurrences[key]))
        occurrences[key] += 1
    return keys


def _key_of(request: Request, here: Observation) -> Hashable | None:
    match request:
        case Ask(shared=True):
            question = (
                request.task,
                render_data(request.data),
                request.reminder,
                request.schema,
                request.examples,
                request.media,
            )
            is_checked = request.check is not None  # an unchecked reply must not serve a judge that checks its own
            return (handle_of(request.model), here.repetition, is_checked, *question)
        case Embed():
            embeddings = getattr(request.model, "embeddings", request.model)
            return (id(embeddings), here.repetition, request.texts)
        case _:
            return None


def _settle(request: Request, key: Hashable | None, here: Observation) -> Completion:
    if key is None or here.shared is None:
        return _complete(request, here)
    completion, was_there = here.shared.get(key, lambda: _complete(request, here))
    return _paid_by_another(completion) if was_there else completion


def _asettle(request: Request, key: Hashable | None, here: Observation) -> Coroutine[Any, Any, Completion]:
    return (
        _acomplete(request, here)
        if key is None or here.shared is None
        else _ashare(request, key, here.shared, here)
    )


async def _ashare(request: Request, key: Hashable, shared: Shared, here: Observation) -> Completion:
    completion, was_there = await shared.aget(key, lambda: _acomplete(request, here))
    return _paid_by_another(completion) if was_there else completion


def _paid_by_another(completion: Completion) -> Completion:
    return replace(completion, usage=Usage(cached=1) if completion.usage.calls else Usage())


def _complete(request: Request, here: Observation) -> Completion:
    try:
        match request:
            case Ask():
                return structured.complete(request, here)
            case Embed(model=model, texts=texts):
                _claim_embedding(here)
                watcher = here.call_watcher
                return _embedded(
                    model.embed(texts) if watcher is None else watcher.embed(model, texts), model, here
                )
            case Consult(judge=judge, sample=sample):
                with _numbered(request, here):
                    return _judged(run(judge, sample))
            case Apply(function=function, sample=sample):
                with _counting(request, here) as call_allowance:
                    value = call_within(_seconds_left(here.allowance), partial(_call, function, sample))
                return _applied(value, call_allowance.spent)
    except Exception as error:  # noqa: BLE001 - sorted in one place
        return _failed(error, request)


async def _acomplete(request: Request, here: Observation) -> Completion:
    try:
        match request:
            case Ask():
                return await structured.acomplete(request, here)
            case Embed(model=model, texts=texts):
                _claim_embedding(here)
                watcher = here.call_watcher
                embedding = model.aembed(texts) if watcher is None else watcher.aembed(model, texts)
                return _embedded(await embedding, model, here)
            case Consult(judge=judge, sample=sample):
                with _numbered(request, here):
                    return _judged(await arun(judge, sample))
            case Apply(sample=sample):
                with _counting(request, here) as call_allowance:
                    value = await _await_call(request.afunction or request.function, sample, here.allowance)
                return _applied(value, call_allowance.spent)
    except Exception as error:  # noqa: BLE001 - sorted in one place
        return _failed(error, request)


def _call(function: Callable[[Sample], object], sample: Sample) -> object:
    return waited_for(function(sample))


def _seconds_left(allowance: Allowance | None) -> float | None:
    return None if allowance is None else allowance.seconds_left


def _numbered(request: Consult, here: Observation) -> AbstractContextManager[None]:
    """Let models asked inside know which run of a repeated judge this is."""
    if request.repetition is None:
        return nullcontext()
    return observing(repetition=(*here.repetition, request.repetition))


def _claim_embedding(here: Observation) -> None:
    """Claim a request for vectors: it needs room in the budgets, but only requests to chat models are calls."""
    if here.allowance is not None:
        here.allowance.take(as_call=False)


def _embedded(embedded: EmbeddingResponse, model: EmbeddingModel, here: Observation) -> Completion:
    usage = budget.charge(here.allowance, embedded.usage, embedded.model, requested=model.name, as_call=False)
    return Completion(embedded.vectors, usage=usage)


def _judged(verdict: Verdict) -> Completion:
    return Completion(verdict, usage=verdict.usage, model=verdict.model)


@contextmanager
def _counting(request: Apply, here: Observation) -> Iterator[Allowance]:
    """Count what a function consumes, and make its fault an `AskFailed` with that usage."""
    if here.allowance is not None:
        here.allowance.check()
    own = None
    try:
        with metered() as own:
            yield own
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - sorted in one place
        failure = _failure(error, request)
        failure.usage = (own and own.spent) or failure.usage
        raise failure from failure.__cause__


def _applied(value: object, spent: Usage) -> Completion:
    """Return what a function returned and consumed; a verdict of a judge elsewhere says itself what it cost."""
    if isinstance(value, Verdict):
        return Completion(value, usage=spent or value.usage, model=value.model)
    return Completion(value, usage=spent)


def _failed(error: Exception, request: Request) -> Completion:
    if isinstance(error, ConfigurationError):
        raise error
    failure = _failure(error, request)
    return Completion(failure=failure, usage=failure.usage)


def _failure(error: Exception, request: Request) -> AskFailed:
    if isinstance(error, AskFailed):
        return error
    if isinstance(error, DeadlinePassed):
        return AskFailed("deadline", _TOO_LONG)
    if isinstance(request, Embed):
        detail = f"{retry.kind_of(error)} from {request.model.name}{retry.place_of(error)}"
    else:
        function = getattr(request, "function", None)
        detail = faults.report(error, getattr(function, "__name__", type(request).__name__))
    failure = AskFailed("judge_failed", detail)
    failure.__cause__ = error
    return failure


def waited_for(value: object) -> object:
    """Finish a coroutine from sync code, in a thread of its own because a loop may be running in this one."""
    if not inspect.isawaitable(value):
        return value
    with DaemonThreads(1) as threads:
        return threads.submit(asyncio.run, _awaited(value)).result()


async def _awaited(value: Awaitable[object]) -> object:
    return await value


async def _await_call(function: Callable[[Sample], object], sample: Sample, allowance: Allowance | None) -> object:
    seconds = _seconds_left(allowance)
    if inspect.iscoroutinefunction(function):
        return await acall_within(seconds, function(sample))
    may_be_left = allowance is not None and allowance.may_be_left
    value = await acall_within(seconds, (in_daemon_thread if may_be_left else in_thread)(function, sample))
    return await acall_within(_seconds_left(allowance), value) if inspect.isawaitable(value) else value


class Judge(HintsAtGuesses, ABC):
    """Turns a sample into a verdict.

    A judge implements its algorithm once, in `deliberate`, and stores nothing on itself while it works, so that
    one object can be used by any number of threads and tasks at once.

    Attributes:
        name: The judge's name in verdicts, panels and traces.
        is_of_this_package: Whether its class is; such a judge only reads its sample, and its settings are known.
    """

    name: str
    is_of_this_package: ClassVar[bool] = True
    _guesses_at = "a judge"

    def __init_subclass__(cls, **options: object) -> None:
        """Let what the class is made with be checked against its annotated signature."""
        super().__init_subclass__(**options)
        cls.is_of_this_package = cls.__module__.startswith("judges.")
        if "__init__" in vars(cls):
            cls.__init__ = checking_settings(cls.__init__)  # type: ignore[method-assign]  # the same, checked

    if not TYPE_CHECKING:  # for type checkers a judge has no attribute to set, and is no middleware
        wrap_tool_call = MiddlewareHook()

        def __and__(self, other: object) -> Any:
            """Say how judges are combined.

            Raises:
                TypeError: If the other one is a judge.
            """
            if isinstance(other, Judge):
                raise TypeError(f"judges have no operators; {guesses(self._guesses_at)['and']}")
            return NotImplemented

        __or__ = __add__ = __and__

        def __setattr__(self, name: str, value: object) -> None:
            """Set a setting of a judge of this package, which is made anew, as code for other libraries does.

            Any other name would never be read, and is refused.
            """
            made_with = vars(self).get(MADE_WITH)
            if made_with is None or name.startswith("_") or not self.is_of_this_package:
                object.__setattr__(self, name, value)
            else:
                settings = {**made_with, setting_called(type(self), name): value}
                object.__setattr__(self, "__dict__", vars(type(self)(**settings)))

    def __repr__(self) -> str:
        models = ", ".join(model.name for model in self.models)
        return f"{type(self).__name__}({self.name!r}{f', model={models!r}' if models else ''})"

    @abstractmethod
    def deliberate(self, sample: Sample) -> Deliberation:
        """Yield the requests needed to judge the sample, and return the verdict. Does no I/O."""

    def deliberation(self, sample: Sample) -> Deliberation:
        """Return the deliberation that is carried out: `deliberate`, as the judge's settings have it."""
        return self.deliberate(sample)

    def refuse_unasked(self, sample: Sample) -> Verdict | None:
        """Return the verdict on what needs no deliberation, an answer that says nothing; None for all else."""
        del sample
        return None

    def before_answer(self) -> Judge | None:
        """Return a judge of the question that looks for the same before there is an answer; None if none can."""
        return None

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The models that this judge, and any judge inside it, asks."""
        return ()

    @property
    def judges_parts(self) -> bool:
        """True if the judge holds for a part of an answer as for the whole; not unless its entry says so."""
        entry = getattr(self, "entry", None)
        return isinstance(entry, Entry) and bool(entry.judges_parts)

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """Keys of a sample's metadata that the judge reads, so that they may be given as keywords, too."""
        return ()

    def explain(self) -> Explanation:
        """Describe what the judge needs, asks and costs, before anything is spent."""
        model_names = tuple(model.name for model in self.models)
        entry = getattr(self, "entry", None)
        facts: dict[str, Any] = {"reads": tuple(Sample.model_fields), "calls": "0"}
        if isinstance(entry, Entry):
            names = ("asks", "needs", "reads", "calls", "scale", "better", "parts_reason")
            facts = {name: getattr(entry, name) for name in names}
        if model_names and facts["calls"] == "0":
            facts["calls"] = "not told"
        settings = settings_of(type(self))
        return Explanation(
            judge=self.name, models=model_names, settings=settings, judges_parts=self.judges_parts, **facts
        )

    def __call__(self, sample: object = None, /, *more: Never, **fields: object) -> Verdict:
        """Judge a sample, a mapping, or keyword fields such as `user_input=..., response=...`.

        If judging is not possible, the verdict is unscored and has a reason.

        Raises:
            BadSample: If the arguments cannot be read as a sample.
            ConfigurationError: If the judge or its model is set up wrongly.
        """
        return run(self, self.read(sample, *more, **fields))

    async def acall(self, sample: object = None, /, *more: Never, **fields: object) -> Verdict:
        """Judge without blocking; otherwise the same as calling the judge."""
        return await arun(self, self.read(sample, *more, **fields))

    def read(self, source: object = None, /, *more: Never, **fields: object) -> Sample:
        """Return the sample that the judge is called with: keywords are its fields, or metadata the judge reads.

        Raises:
            BadSample: If the arguments cannot be read as a sample; the message names the field.
        """
        if more:
            raise BadSample("a judge takes one sample, or fields by name: judge(question=..., answer=...)")
        if isinstance(source, Sample) and not fields:
            return source
        metadata = {name: fields.pop(name) for name in self.metadata_keys if name in fields}
        if metadata and source is None and not fields:
            return Sample.model_validate({"metadata": metadata})
        sample = Sample.read(source, **fields)
        return Sample.read(sample, metadata={**sample.metadata, **metadata}) if metadata else sample
