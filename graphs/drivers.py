"""Running the loop's steps, blocking or not: what a step is, what it asks for, and who hears of it.

A step is pure: a generator that yields an `Effect` to run, receives its result, and returns a `Transition`. Flows
are made of steps, and yield their transitions too, to be announced. `drive` and `adrive` run flows of any length:
one step in a node of a graph, a whole turn without one. A graph is needed where a checkpoint, an interrupt or a
picture is wanted; where none is, a plain flow saves what LangGraph costs per node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Generic, Literal, TypeVar

import structlog
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from graphs import langchain_private, langgraph_private
from graphs.answers import Draft
from graphs.events import Event
from graphs.generators import AsyncGenerator, DraftRequest, OnDelta
from graphs.generators import Generator as BlockingGenerator
from graphs.outcome import Outcome, Unanswered
from graphs.overrides import Overrides, overrides_in
from graphs.refinement import Refinement
from judges.errors import ConfigurationError
from judges.models.providers.llm_runs import metered
from judges.runtime import flow as running
from judges.runtime.budget import Allowance
from judges.runtime.faults import logging_safely
from judges.runtime.flow import DeadlinePassed, acall_within, call_within
from judges.verdict import Usage

T = TypeVar("T")

Messages = Sequence[AnyMessage]
Node = Literal["generate", "judge", "finish"]


@dataclass(slots=True, kw_only=True)
class Transition:
    """What a step ends in.

    Args:
        refinement: The record from now on.
        goto: The next node; None ends.
        update: What to put into the graph's visible state.
        events: Makes the events to publish, where anybody listens.
        outcome: The whole record, once there is an answer.
        warnings: Warnings for the log.
        error: Raised once the events are published; nothing is recorded then.
        refusal: Raised once the transition is recorded: there is no answer.
    """

    refinement: Refinement
    goto: Node | None = None
    update: Mapping[str, Any] | None = None
    events: Callable[[], tuple[Event, ...]] = tuple
    outcome: Outcome | None = None
    warnings: tuple[Event, ...] = ()
    error: Exception | None = None
    refusal: Unanswered | None = None


@dataclass(slots=True, kw_only=True)
class Effect:
    """A call that a step needs: to the generator, the judge or a reviewer.

    Args:
        run: Makes the call, blocking.
        arun: Makes it without blocking.
        config: What calls inside inherit; None where none is made through LangChain.
        seconds: Longest wait, or None.
        allowance: What its model calls are claimed from, or None.
        attempt: Number of the attempt that it generates; None where it does something else.
        events: Makes the events to publish before the call, where anybody listens.
        refinement: The record that the events are about; None where there are none.
        is_ours: Whether it runs code of this package alone, which ends as soon as it is cancelled.
    """

    run: Callable[[], Any]
    arun: Callable[[], Awaitable[Any]]
    config: RunnableConfig | None
    seconds: float | None = None
    events: Callable[[], tuple[Event, ...]] = tuple
    allowance: Allowance | None = None
    attempt: int | None = None
    refinement: Refinement | None = None
    is_ours: bool = False

    @property
    def spent(self) -> Usage:
        """What was claimed so far; of a generator whose call nothing counts, that it was made."""
        if self.allowance is not None:
            return self.allowance.spent
        return Usage() if self.attempt is None else Usage.of_call(None, None)

    def abandon(self) -> None:
        """Let the call, which nobody waits for any more, ask no model and use no tool from now on."""
        if self.allowance is not None:
            self.allowance.close()


Step = Callable[[Refinement, Messages, "RunContext"], Generator[Effect, Any, Transition]]
"""What a step is: record, conversation and context in; a generator of effects out, which returns a transition."""

Flow = Generator[Effect | Transition, Any, T]
"""Steps one after the other: yields their effects, and each transition to be announced; returns a result."""


class RunContext:
    """What a run's config says, read once: who listens, what a call inside inherits, what its request overrides.

    Args:
        config: The config of the run, or of a node of a graph.

    Attributes:
        config: The same.
        is_heard: Whether callback handlers listen to the run.
        publishes: Whether anybody reads events.
        overrides: What the request of the run overrides, if anything.

    Raises:
        InputError: If the overrides cannot be read.
    """

    __slots__ = (
        "_answers",
        "_inherited",
        "_is_part",
        "_log",
        "_send",
        "_targets",
        "config",
        "is_heard",
        "overrides",
        "publishes",
    )

    def __init__(self, config: RunnableConfig) -> None:
        self.config = config
        callbacks = config.get("callbacks")
        self.is_heard = bool(getattr(callbacks, "handlers", callbacks))
        self._is_part = False
        self.overrides: Overrides | None = None
        self._send: Callable[[Any], None] | None = None
        self._targets: Sequence[RunnableConfig] = (config,) if self.is_heard else ()
        if config.get("configurable"):
            self._is_part = langgraph_private.is_node(config)
            overrides = langgraph_private.carried(config, langgraph_private.OVERRIDES)
            self.overrides = overrides or overrides_in(langgraph_private.context_of(config))
            self._send = langgraph_private.writer(config)
            self._targets = langgraph_private.progress_configs(config)
        self._log = _logger()
        self.publishes = bool(self._targets) or self._send is not None or self._log is not None
        self._inherited: dict[tuple[bool, bool], RunnableConfig] = {}
        self._answers: langgraph_private.ResumeAnswers | None = None

    def beside_others(self) -> RunContext:
        """Return the context of one of several flows side by side, which no checkpointer saves."""
        config = langgraph_private.unsaved_config(self.config)
        return self if config is self.config else RunContext(config)

    def for_generator(
        self, name: str, subject: Callable[[], str], *, may_interrupt: bool, silent: bool
    ) -> RunnableConfig:
        """Return the config that a generator inherits: muted, and part of the graph only if it may interrupt.

        Args:
            name: Name of the run.
            subject: Returns what a human would be asked about, the prompt of an attempt.
            may_interrupt: Whether a step inside may interrupt for a human.
            silent: Whether what it writes to LangGraph's stream writer is dropped.
        """
        config = self._config_inside(part=may_interrupt, silent=silent)
        config["run_name"] = name
        if not may_interrupt or not self._is_part:
            return config
        return self._asking_about(subject, config, heard=langchain_private.HeardReplies())

    def for_judge(self, subject: Callable[[], str]) -> RunnableConfig:
        """Return the config that a judge inherits: muted; in a graph a part of it, so that it can ask a human.

        Args:
            subject: Returns what a human would be asked about, the draft of an attempt.
        """
        config = self._config_inside(part=self._is_part, silent=True)
        return self._asking_about(subject, config) if self._is_part else config

    def for_review(self, subject: Callable[[], str]) -> RunnableConfig:
        """Return the config in which a human reviews one draft.

        Args:
            subject: Returns what the human is asked about, the draft of an attempt.
        """
        return self._asking_about(subject, self.config)

    def _asking_about(
        self,
        subject: Callable[[], str],
        config: RunnableConfig,
        *,
        heard: langchain_private.HeardReplies | None = None,
    ) -> RunnableConfig:
        """Return a config in which a decision counts only for the subject that a human was shown."""
        self._answers = self._answers or langgraph_private.ResumeAnswers.of(self.config)
        return config if self._answers is None else self._answers.about(subject(), config, heard=heard)

    def _config_inside(self, *, part: bool, silent: bool) -> RunnableConfig:
        base = self._inherited.get((part, silent))
        if base is None:
            muted = langgraph_private.muted_config(self.config, silent=silent) if part else None
            base = self._inherited[part, silent] = muted or langgraph_private.detached_config(self.config)
        callbacks = base["callbacks"]
        inherited_callbacks = callbacks.copy() if callbacks else []
        return {**base, "callbacks": inherited_callbacks, "configurable": {**base["configurable"]}}

    def announce(self, events: Sequence[Event], refinement: Refinement) -> None:
        """Send events about a record to the graph's custom stream, to callback handlers, and to the log."""
        for event, payload in self._written(events, refinement):
            for target in self._targets if event.streamed else ():
                dispatch_custom_event(f"refine.{event.name}", payload, config=target)

    async def aannounce(self, events: Sequence[Event], refinement: Refinement) -> None:
        """Send events without blocking; otherwise as `announce`."""
        for event, payload in self._written(events, refinement):
            for target in self._targets if event.streamed else ():
                await adispatch_custom_event(f"refine.{event.name}", payload, config=target)

    def warn(self, warnings: Sequence[Event], refinement: Refinement) -> None:
        """Write warnings to the log, which shows them unless it is told not to."""
        log = _logger(logging.WARNING)
        for warning in warnings if log is not None else ():
            _log_event(warning, self._labels(refinement), log, log_texts=refinement.policy.log_texts)

    def _written(self, events: Sequence[Event], refinement: Refinement) -> Iterator[tuple[Event, dict[str, Any]]]:
        """Write events to stream and log, and yield each with its payload; without texts in a silenced run."""
        labels, is_silenced = self._labels(refinement), langgraph_private.is_silenced(self.config)
        for event in events:
            payload = replace(event, show=event.show and not is_silenced).payload(labels)
            if self._send is not None and event.streamed:
                self._send(payload)
            if self._log is not None and event.logged:
                _log_event(event, labels, self._log, log_texts=refinement.policy.log_texts)
            yield event, payload

    def _labels(self, refinement: Refinement) -> dict[str, Any]:
        """Return what tells the lines of one run from those of others."""
        thread = (self.config.get("configurable") or {}).get("thread_id")
        return {"outcome_id": refinement.id, "refiner": refinement.refiner, "thread_id": thread}


def _log_event(event: Event, labels: Mapping[str, Any], log: Any, *, log_texts: bool) -> None:
    with logging_safely():
        write = log.warning if event.level >= logging.WARNING else log.info
        texts = event.texts if log_texts else {}
        write(event.name, **{**event.figures, **texts, **labels})


_LOGGER = "refine"
_STANDARD_LOGGER = logging.getLogger(_LOGGER)


def _logger(level: int = logging.INFO) -> Any:
    """Return the user's structlog, otherwise the standard logger `refine`; None where it is disabled.

    An unconfigured structlog would print to standard output, which a library must not do.
    """
    if structlog.is_configured():
        first = structlog.get_config()["processors"][:1]
        is_filtered = first == [structlog.stdlib.filter_by_level] and not _STANDARD_LOGGER.isEnabledFor(level)
        return None if is_filtered else structlog.get_logger(_LOGGER)  # no line is made that would be dropped
    if not _STANDARD_LOGGER.isEnabledFor(level):
        return None
    return structlog.wrap_logger(
        _STANDARD_LOGGER,
        processors=[structlog.processors.KeyValueRenderer(key_order=["event"])],
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def drive(flow: Flow[T], context: RunContext) -> T:
    """Run a flow to its result, blocking: make its calls, and announce its transitions.

    Raises:
        Exception: The error of a transition, or what the flow raised.
    """

    def proceed(request: Effect | Transition) -> Any:
        if context.publishes and request.refinement is not None:
            context.announce(request.events(), request.refinement)
        if isinstance(request, Effect):
            return perform(request)
        if request.warnings:
            context.warn(request.warnings, request.refinement)
        if request.error is not None:
            raise request.error
        return None

    with langgraph_private.inside_of(context.config):
        return running.run(flow, proceed)


def adrive(flow: Flow[T], context: RunContext) -> Coroutine[Any, Any, T]:
    """Run a flow without blocking the event loop; otherwise as `drive`."""

    async def proceed(request: Effect | Transition) -> Any:
        if context.publishes and request.refinement is not None:
            await context.aannounce(request.events(), request.refinement)
        if isinstance(request, Effect):
            return await aperform(request)
        if request.warnings:
            context.warn(request.warnings, request.refinement)
        if request.error is not None:
            raise request.error
        return None

    driven = running.arun(flow, proceed)
    return _adrive_inside(context.config, driven) if context.config.get("configurable") else driven


async def _adrive_inside(config: RunnableConfig, driven: Coroutine[Any, Any, T]) -> T:
    with langgraph_private.inside_of(config):
        return await driven


def perform(effect: Effect) -> Any:
    """Make the call of an effect, blocking; where it fails, or takes too long, it calls nothing any more."""
    number, watch = effect.attempt, watcher.get()
    try:
        with nullcontext() if effect.config is None else langchain_private.use_config(effect.config):
            if watch is None or number is None:
                return effect.run() if effect.seconds is None else call_within(effect.seconds, effect.run)
            with watch(number) as on_result:
                result = call_within(effect.seconds, effect.run)
                on_result(result)
                return result
    except BaseException:
        effect.abandon()
        raise


async def aperform(effect: Effect) -> Any:
    """Make the call of an effect without blocking the event loop; otherwise as `perform`."""
    number, watch = effect.attempt, watcher.get()
    within = _acall_own if effect.is_ours else acall_within
    try:
        with nullcontext() if effect.config is None else langchain_private.use_config(effect.config):
            if watch is None or number is None:
                return await within(effect.seconds, effect.arun())
            with watch(number) as on_result:
                result = await within(effect.seconds, effect.arun())
                on_result(result)
                return result
    except BaseException:
        effect.abandon()
        raise


Watcher = Callable[[int], AbstractContextManager[Callable[[object], None]]]
"""Enters as the attempt of a number is generated; what it yields is called with the draft."""

watcher: ContextVar[Watcher | None] = ContextVar("graphs.watcher", default=None)
"""Set for the time of a question, by whoever watches it."""


async def _acall_own(seconds: float | None, call: Awaitable[T]) -> T:
    """Await a call of our own, which needs no task to be left behind in.

    Raises:
        DeadlinePassed: If the time is up.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            return await call
    except TimeoutError:
        if limit.expired():
            raise DeadlinePassed from None
        raise


def subject_of(kind: str, number: int, messages: Sequence[BaseMessage]) -> str:
    """Return what tells a draft, or a prompt, from every other one that a human may be asked about in a turn."""
    digest = sha256()
    for message in messages:
        calls = message.tool_calls if isinstance(message, AIMessage) else ()
        calls_made = [[call["name"], call["args"]] for call in calls]
        digest.update(repr((message.type, message.content, calls_made)).encode(errors="surrogatepass"))
    return f"{kind} {number} {digest.hexdigest()}"


@dataclass(frozen=True, slots=True)
class GeneratorCall:
    """The call of a generator in one attempt.

    Args:
        generator: The generator.
        request: What it is asked for.
        allowance: What its model calls are counted by; None where the draft says enough.
    """

    generator: AsyncGenerator
    request: DraftRequest
    allowance: Allowance | None

    def run(self) -> Draft:
        """Return the draft, blocking.

        Raises:
            ConfigurationError: If the generator has no such form.
        """
        if not isinstance(self.generator, BlockingGenerator):
            raise ConfigurationError("this generator answers without blocking only; use arun, or ainvoke")
        with nullcontext() if self.allowance is None else metered(self.allowance):
            return self.generator.draft(self.request)

    async def arun(self) -> Draft:
        """Return the draft without blocking."""
        with nullcontext() if self.allowance is None else metered(self.allowance):
            return await self.generator.adraft(self.request)

    def telling(self, on_delta: OnDelta) -> GeneratorCall:
        """Return the call that tells of the draft, where the generator writes in chunks."""
        if not getattr(self.generator, "writes_in_chunks", False):
            return self
        return replace(self, request=replace(self.request, on_delta=on_delta))


class Records(Generic[T]):
    """The record that a run wrote last, and the plain data it wrote, which the next step need not read then.

    Attributes:
        broken_off: The outcome of the turn, where a step was cancelled: LangGraph then raises another error.
    """

    def __init__(self) -> None:
        self._last: tuple[object, T] | None = None
        self.broken_off: object = None

    def keep(self, data: object, record: T) -> None:
        """Keep the record that was written as `data`."""
        self._last = data, record

    def written_as(self, data: object) -> T | None:
        """Return the record that was written as `data`, this very object; None for what came from a checkpoint."""
        return self._last[1] if self._last is not None and self._last[0] is data else None


def records_of(config: RunnableConfig) -> Records[Any]:
    """Return the records of a run; empty ones where it hands none on."""
    records: Records[Any] | None = langgraph_private.carried(config, langgraph_private.RECORDS)
    return Records() if records is None else records


def handing_on(config: RunnableConfig | None) -> RunnableConfig:
    """Return the config of a run whose steps hand the record on within this process."""
    is_set = langgraph_private.carried(config or {}, langgraph_private.RECORDS) is not None
    return langgraph_private.carry(config, langgraph_private.RECORDS, None if is_set else Records())
