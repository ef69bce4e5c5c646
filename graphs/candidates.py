"""Several drafts an attempt: generated and judged side by side, and the best one goes on.

Each candidate runs the steps of the ordinary loop, on a record of its own and within one budget for all. Together
they come to one attempt: the chosen draft, and the others beside it, which are rejected drafts like any other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from langgraph.errors import GraphBubbleUp, ParentCommand

from graphs.drivers import Effect, Messages, RunContext, Transition, aperform, perform
from graphs.events import CANDIDATE_FAILED, Event, Needs, candidate_events, candidates_events, started_events
from graphs.generators import as_generator
from graphs.loop import Loop, RunningClock
from graphs.outcome import DraftError, add_outcome
from graphs.overrides import Bounds
from graphs.policy import Policy
from graphs.questions import InputJudging
from graphs.refinement import Refinement, evolve
from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.models.providers.llm_runs import metered
from judges.models.retry import kind_of
from judges.runtime import flow
from judges.runtime.budget import Allowance, Refused
from judges.runtime.flow import CallInTask, DaemonThreads, leave_unjoined, let_calls_be_left
from judges.runtime.observation import also_within
from judges.verdict import Usage, Verdict

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class _Call(Generic[T]):
    """One of the calls.

    Args:
        run: Makes the call, blocking.
        arun: Makes it without blocking.
        allowance: What its model calls are claimed from.
    """

    run: Callable[[], T]
    arun: Callable[[], Awaitable[T]]
    allowance: Allowance = field(default_factory=Allowance)


class _Race(Generic[T]):
    """Calls side by side, each known by its number; those that are stopped ask no model and use no tool any more.

    Args:
        calls: The calls by number.
    """

    def __init__(self, calls: Mapping[int, _Call[T]]) -> None:
        self._calls = calls
        self._running: set[int] = set()
        self._ended: SimpleQueue[tuple[int, Future[T]]] = SimpleQueue()
        self._tasks: dict[int, asyncio.Future[T]] = {}
        self._open = ExitStack()

    @property
    def is_running(self) -> bool:
        """True if results are still to come."""
        return bool(self._running)

    def start(self) -> None:
        """Begin all calls, each in a thread."""
        threads = self._open.enter_context(DaemonThreads(len(self._calls)))
        self._running = set(self._calls)
        for number, call in self._calls.items():
            threads.submit(call.run).add_done_callback(partial(self._end, number))

    async def astart(self) -> None:
        """Begin all calls, each as a task."""
        let_calls_be_left()
        self._running = set(self._calls)
        self._tasks = {number: CallInTask(call.arun()) for number, call in self._calls.items()}

    def next(self) -> tuple[int, T]:
        """Wait for the next result, and return its number and it; what the call raised is raised."""
        number, future = self._ended.get()
        self._running.discard(number)
        return number, future.result()

    async def anext(self) -> tuple[int, T]:
        """Wait without blocking; otherwise as `next`."""
        tasks = {self._tasks[number]: number for number in sorted(self._running)}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        task, number = next((task, number) for task, number in tasks.items() if task.done())
        self._running.discard(number)
        return number, task.result()

    def stop(self) -> None:
        """Stop the calls that are still running, without waiting for them."""
        self._open.close()
        if not self._running:
            return
        for number in self._running:
            self._calls[number].allowance.close()
            if number in self._tasks:
                self._tasks[number].cancel()
        self._running = set()
        leave_unjoined()

    def _end(self, number: int, future: Future[T]) -> None:
        self._ended.put((number, future))


_Events = Callable[[], tuple[Event, ...]]


_HANDED_ON = frozenset({"tool_call", "invalid_tool_call", "text", "cut", "empty"})
"""Kinds of answer that are no worse for having been handed on unjudged."""


class _CandidateStanding(IntEnum):
    """How far a candidate came; of two, the higher one goes on.

    A turn that calls a tool goes before answers that were not accepted, since it is on its way to a better one. A
    refusal, an answer without text, and one unfit to be released go on only where there is nothing else.
    """

    UNFIT = 0
    UNJUDGED = 1
    RATED = 2
    HANDED_ON = 3
    ACCEPTED = 4


def _standing_of(candidate: Refinement) -> _CandidateStanding:
    """Return how far a candidate came that has drafted.

    Args:
        candidate: The record as the candidate has continued it.
    """
    attempt = candidate.attempts[-1]
    if candidate.stop_reason == "skipped":
        return _CandidateStanding.HANDED_ON if attempt.kind in _HANDED_ON else _CandidateStanding.UNFIT
    verdict = attempt.verdict
    if attempt.is_unfit or attempt.kind in ("empty", "invalid_tool_call"):
        return _CandidateStanding.UNFIT
    if verdict is None or verdict.rating is None:
        return _CandidateStanding.UNJUDGED
    is_accepted = candidate.policy.accepts(verdict) and attempt.kind != "cut"
    return _CandidateStanding.ACCEPTED if is_accepted else _CandidateStanding.RATED


def _best_candidate(candidates: Mapping[int, Refinement]) -> int:
    """Return the number of the candidate that goes on: the one that came farthest, with the highest score.

    Args:
        candidates: The record as each has continued it, by number; at least one. On a tie a whole answer wins over
            one that was cut off, then the first one.
    """

    def rank(number: int) -> tuple[_CandidateStanding, float, int, int]:
        attempt = candidates[number].attempts[-1]
        return _standing_of(candidates[number]), attempt.score, attempt.wholeness, -number

    return max(candidates, key=rank)


@dataclass
class _AttemptResults:
    """What the candidates of an attempt have come to so far.

    Args:
        calls: Their calls, by number.
        ended: What those that are done have ended in.
        unjudged: The record as continued by each candidate that has drafted, before its judge was asked.
    """

    calls: dict[int, _Call[Transition]] = field(default_factory=dict)
    ended: dict[int, Transition] = field(default_factory=dict)
    unjudged: dict[int, Refinement] = field(default_factory=dict)

    @property
    def drafted(self) -> dict[int, Refinement]:
        """The record as continued by each candidate that came to a draft."""
        return {number: end.refinement for number, end in sorted(self.ended.items()) if end.goto is not None}

    @property
    def errors(self) -> dict[int, Exception]:
        """What was raised instead of a draft; to hand over to another node is no error."""
        raised = {number: end.error for number, end in sorted(self.ended.items()) if end.error is not None}
        return {number: error for number, error in raised.items() if not isinstance(error, ParentCommand)}

    @property
    def failed(self) -> dict[int, str]:
        """Why each candidate without a draft has none."""
        return {number: _failure(self.ended.get(number)) for number in self.calls if number not in self.drafted}

    @property
    def lost(self) -> Usage:
        """What candidates consumed that came to no draft."""
        return sum((self.calls[number].allowance.spent for number in self.failed), Usage())

    @property
    def warnings(self) -> tuple[Event, ...]:
        """Warnings that came up meanwhile."""
        return tuple(warning for end in self.ended.values() for warning in end.warnings)


class CandidatesLoop(Loop):
    """The steps of a loop with several candidates an attempt; its step `generate` drafts and judges them."""

    def __init__(
        self,
        generator: object,
        judge: Judge,
        policy: Policy,
        *,
        name: str = "self_refine",
        bounds: Bounds | None = None,
        questions: InputJudging | None = None,
    ) -> None:
        questions = None if questions is None else replace(questions, mode="before")
        super().__init__(generator, judge, policy, name=name, bounds=bounds, questions=questions)
        numbers = range(1, policy.candidates + 1)
        self._candidates = tuple(_Candidate(self._generator, judge, policy, self, number) for number in numbers)

    def with_generator(self, generator: object) -> Loop:
        """Return the same loop around another generator, for all candidates."""
        drafter = as_generator(generator)
        candidates = tuple(candidate.with_generator(drafter) for candidate in self._candidates)
        return evolve(super().with_generator(drafter), _candidates=candidates)

    @property
    def may_interrupt(self) -> bool:
        """True if a generator may stop for a human in the midst of an attempt of a single draft."""
        return super().may_interrupt or any(candidate.may_interrupt for candidate in self._candidates)

    def generate(
        self, refinement: Refinement, messages: Messages, context: RunContext
    ) -> Generator[Effect, Any, Transition]:
        """Draft and judge the candidates of an attempt, and record the best one with the others beside it."""
        if self._questions is not None:
            refinement = yield from self._questions.ask_first(
                refinement, messages, context, RunningClock(refinement)
            )
        if refinement.done:
            return self._to_finish(refinement)
        count = self._count(refinement)
        clock = RunningClock(refinement)
        if count == 0:
            calls_left = (refinement.policy.max_calls or 0) - refinement.usage.calls
            detail = (
                f"{calls_left} model calls left, and an attempt takes {self._calls_of_a_candidate(refinement)}"
            )
            return self._to_finish(refinement.stop("budget", detail, now=clock()))
        if count == 1 or refinement.limit_reached(clock()) is not None:
            return (yield from super().generate(refinement, messages, context))
        results = _AttemptResults()
        for number, candidate in enumerate(self._candidates[:count], 1):
            results.calls[number] = candidate.call(refinement, messages, context, results.unjudged)
        race = _Race(results.calls)
        try:
            events = yield from self._run(race, results, refinement, context, clock())
        except BaseException as error:
            self._keep_drafts(error, results, refinement, messages, clock())
            raise
        end = self._conclude(results, refinement, messages, clock())
        return replace(end, events=_join(events, end.events), warnings=(*end.warnings, *results.warnings))

    def _count(self, refinement: Refinement) -> int:
        """Return how many candidates the next attempt has: one where none is judged, else as calls allow.

        Each needs room for its judge, too: a draft that nobody can judge is paid for nothing. The first attempt
        has one all the same, without which there would be no answer.
        """
        limit, candidates = refinement.policy.max_calls, self.policy.candidates
        if not refinement.is_judged:
            return 1
        if limit is None:
            return candidates
        room = max(0, limit - refinement.usage.calls) // self._calls_of_a_candidate(refinement)
        return max(0 if refinement.attempts else 1, min(candidates, room))

    def _calls_of_a_candidate(self, refinement: Refinement) -> int:
        """Return how many calls a draft and its judge take: as the judge says, or more where they took more."""
        drafts = [draft for attempt in refinement.attempts for draft in attempt.drafts]
        contexts = refinement.evidence.get("retrieved_contexts")
        judging = self._judge.explain().most_calls(len(contexts) if isinstance(contexts, list) else 1)
        judged = [draft.verdict.usage.calls for draft in drafts if draft.verdict is not None]
        return max([1, *(draft.usage.calls for draft in drafts)]) + max([judging, *judged])

    def _run(
        self,
        race: _Race[Transition],
        results: _AttemptResults,
        refinement: Refinement,
        context: RunContext,
        now: float,
    ) -> Generator[Effect, Any, _Events]:
        """Run the candidates until all are done, or one is accepted; return what is still to be published."""
        limits = refinement.allowance(now, purpose="the candidates were done", bounds_retries=False)
        shared = limits or Allowance()
        events: _Events = partial(started_events, refinement, len(results.calls))
        effect = partial(Effect, config=context.config, refinement=refinement, allowance=shared)
        start, astart = _within(shared, race.start), _awithin(shared, race.astart)
        try:
            yield effect(run=start, arun=astart, events=events)
            events = tuple
            while race.is_running and not (self.policy.first_accepted and _is_accepted(results)):
                number, end = yield effect(run=race.next, arun=race.anext, events=events)
                results.ended[number] = end
                events = partial(candidate_events, end.refinement) if number in results.drafted else tuple
        finally:
            race.stop()
        return events

    def _conclude(
        self, results: _AttemptResults, refinement: Refinement, messages: Messages, now: float
    ) -> Transition:
        """Return what the attempt comes to, with the rejected drafts and all that was consumed on record."""
        drafted, handoff = results.drafted, _handoff(results)
        number = _best_candidate(drafted) if drafted else 0
        if handoff is not None and not (drafted and _standing_of(drafted[number]) is _CandidateStanding.ACCEPTED):
            return replace(handoff, refinement=refinement, warnings=())
        if not drafted:
            return self._without_draft(results, refinement, messages, now)
        chosen = drafted[number]
        drafts = [candidate.attempts[-1] for candidate in drafted.values()]
        attempt = chosen.attempts[-1]
        recorded = refinement.add_candidates(drafts, attempt, usage=results.lost, now=now)
        if attempt.verdict is None:
            stopped = recorded.stop(chosen.stop_reason or "deadline", chosen.detail, now=now)
            end = self._to_finish(stopped)
        else:
            end = self._record_verdict(recorded, messages, attempt.verdict, now)
        events = partial(candidates_events, end.refinement, results.failed)
        return replace(end, events=events, warnings=self._warnings(results, refinement))

    def _keep_drafts(
        self,
        error: BaseException,
        results: _AttemptResults,
        refinement: Refinement,
        messages: Messages,
        now: float,
    ) -> None:
        """Give what ends the attempt the record of the drafts that candidates have come to by then."""
        if isinstance(error, GraphBubbleUp):
            return
        drafted, lost = {**results.unjudged, **results.drafted}, Usage()
        if not drafted:
            self._break_off(error, refinement, messages, results.lost, now)
            return
        drafts = {number: candidate.attempts[-1] for number, candidate in drafted.items()}
        for number in results.failed:
            spent = results.calls[number].allowance.spent
            if number in drafts:  # its judge was still asked: what both consumed stands with the draft
                drafts[number] = drafts[number].model_copy(update={"usage": spent})
            else:
                lost += spent
        attempt = drafts[_best_candidate(drafted)]
        recorded = refinement.add_candidates(list(drafts.values()), attempt, usage=lost, now=now)
        judged = recorded if attempt.verdict is None else recorded.add_verdict(attempt.verdict, now=now)
        add_outcome(error, judged, messages, now=now)

    def _without_draft(
        self, results: _AttemptResults, refinement: Refinement, messages: Messages, now: float
    ) -> Transition:
        """Return what becomes of an attempt of which no candidate came to a draft."""
        errors = list(results.errors.values())
        if errors:
            faults = [error for error in errors if not isinstance(error, DraftError)] or errors
            return self._fail(faults[0], refinement, messages, results.lost, now)
        stopped = results.ended[min(results.ended)].refinement
        reason = stopped.stop_reason or "deadline"
        return self._to_finish(refinement.stop(reason, stopped.detail, now=now, usage=results.lost))

    def _warnings(self, results: _AttemptResults, refinement: Refinement) -> tuple[Event, ...]:
        """Return the warnings about candidates that failed while others did not."""
        warnings = []
        for number, error in results.errors.items():
            if self._throttle.should_warn((CANDIDATE_FAILED, number, type(error))):
                figures = {"attempt": refinement.number, "candidate": number, "error": kind_of(error)}
                warnings.append(Event(CANDIDATE_FAILED, figures, streamed=False, level=logging.WARNING))
        return tuple(warnings)


class _Candidate(Loop):
    """The steps of one candidate, which decide nothing beyond its draft and its verdict.

    Args:
        generator: The loop's generator.
        judge: The loop's judge.
        policy: The loop's policy.
        loop: The loop.
        number: The candidate's number, from 1.
    """

    def __init__(self, generator: object, judge: Judge, policy: Policy, loop: Loop, number: int) -> None:
        super().__init__(generator, judge, policy, name=loop.name, candidate=number)
        self._throttle = loop._throttle  # noqa: SLF001 - one warning for all candidates
        self._loop = loop
        self._number = number

    @property
    def _needs(self) -> Needs:
        return self._loop._needs  # noqa: SLF001 - of its own class

    def with_generator(self, generator: object) -> _Candidate:
        """Return the same candidate with another generator."""
        return _Candidate(generator, self._judge, self.policy, self._loop, self._number)

    def call(
        self,
        refinement: Refinement,
        messages: Messages,
        context: RunContext,
        unjudged: dict[int, Refinement],
    ) -> _Call[Transition]:
        """Return the call that drafts and judges, by itself.

        Args:
            refinement: The record.
            messages: The conversation.
            context: The context of the run.
            unjudged: Gets the record with the draft, by the candidate's number, before the judge is asked.
        """
        candidate_context = context.beside_others()
        allowance = Allowance(prices=self.policy.prices, may_be_left=self.policy.first_accepted)

        def proceed(effect: Effect) -> Any:
            _check_open(allowance)
            return perform(effect)

        async def aproceed(effect: Effect) -> Any:
            _check_open(allowance)
            return await aperform(effect)

        def run() -> Transition:
            with metered(allowance):
                return flow.run(self._pursue(refinement, messages, candidate_context, unjudged), proceed)

        async def arun() -> Transition:
            with metered(allowance):
                return await flow.arun(self._pursue(refinement, messages, candidate_context, unjudged), aproceed)

        return _Call(run=run, arun=arun, allowance=allowance)

    def _pursue(
        self,
        refinement: Refinement,
        messages: Messages,
        context: RunContext,
        unjudged: dict[int, Refinement],
    ) -> Generator[Effect, Any, Transition]:
        """Draft and judge; a transition that leads nowhere says that there is no draft, and why."""
        try:
            end = yield from self.generate(refinement, messages, context)
            if end.goto == "judge":
                drafted = unjudged[self._number] = self._numbered(end.refinement)
                end = yield from self.judge(drafted, messages, context)
        except DraftError as error:
            return Transition(refinement=refinement, error=error)
        except GraphBubbleUp as stop:
            raise ConfigurationError(
                f"the generator or the judge stopped to ask a human, which it cannot do as one of "
                f"{self.policy.candidates} candidates side by side; set candidates=1"
            ) from stop
        if len(end.refinement.attempts) == len(refinement.attempts):
            if end.error is None and not end.refinement.done:
                raise ConfigurationError(
                    f"the generator goes on outside of the loop before it answers, which {self.policy.candidates} "
                    f"candidates side by side cannot; set candidates=1"
                )
            return replace(end, goto=None)
        return replace(end, refinement=self._numbered(end.refinement))

    def _numbered(self, refinement: Refinement) -> Refinement:
        *before, last = refinement.attempts
        return replace(refinement, attempts=(*before, last.model_copy(update={"candidate": self._number})))

    def _record_verdict(
        self,
        refinement: Refinement,
        messages: Messages,
        verdict: Verdict,
        now: float,
        *,
        warnings: tuple[Event, ...] = (),
    ) -> Transition:
        """Record the verdict; what follows is decided once, for all candidates."""
        del messages
        return Transition(refinement=refinement.add_verdict(verdict, now=now), goto="finish", warnings=warnings)

    def _fail(
        self, error: Exception, refinement: Refinement, messages: Messages, spent: Usage, now: float
    ) -> Transition:
        del messages, spent, now
        return Transition(refinement=refinement, error=error)

    def _break_off(
        self, error: BaseException, refinement: Refinement, messages: Messages, spent: Usage, now: float
    ) -> None:
        """Leave the record to the loop, which knows of all candidates."""


def _is_accepted(results: _AttemptResults) -> bool:
    return any(_standing_of(record) is _CandidateStanding.ACCEPTED for record in results.drafted.values())


def _handoff(results: _AttemptResults) -> Transition | None:
    """Return the end of the first candidate that goes to another node of the graph around."""
    ends = (end for _, end in sorted(results.ended.items()))
    return next((end for end in ends if isinstance(end.error, ParentCommand)), None)


def _failure(end: Transition | None) -> str:
    """Return in a word why a candidate came to no draft; None is one that was still at it."""
    if end is None:
        return "stopped"
    if isinstance(end.error, ParentCommand):
        return "handover"
    return "generator_failed" if end.error is not None else end.refinement.stop_reason or "stopped"


def _check_open(allowance: Allowance) -> None:
    if allowance.is_closed:
        raise Refused("deadline", "another candidate was accepted")


def _within(allowance: Allowance, function: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        with also_within(allowance):
            function()

    return run


def _awithin(allowance: Allowance, function: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        with also_within(allowance):
            await function()

    return run


def _join(*parts: _Events) -> _Events:
    return lambda: tuple(event for part in parts for event in part())
