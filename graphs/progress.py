"""Progress of the loop: each event goes to the custom stream, to callback handlers and to the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables import RunnableConfig

from graphs import langgraph_private
from graphs.refinement import Refinement
from judges.runtime import losses

_LOGGER = "refine"
_STANDARD_LOGGER = logging.getLogger(_LOGGER)


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the loop.

    Args:
        name: `start`, `attempt`, `draft`, `verdict`, `failed`, `discard`, `handover` or `finish`; of a warning,
            what happened.
        figures: Numbers and codes, without any judged text.
        texts: Judged text, sent only on request.
        streamed: Whether the event goes to the client's stream.
        logged: Whether the event goes to the log.
        show: Whether the texts go to the stream too.
        level: Level of the line in the log.
    """

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, Any] = field(default_factory=dict)
    streamed: bool = True
    logged: bool = True
    show: bool = False
    level: int = logging.INFO

    def payload(self, labels: Mapping[str, Any]) -> dict[str, Any]:
        """Return the event as sent to the stream, with the labels of its run."""
        texts = self.texts if self.show else {}
        return {"type": "refine", "event": self.name, **self.figures, **texts, **labels}


def publish(events: Callable[[], Sequence[Event]], config: RunnableConfig, refinement: Refinement) -> None:
    """Send events to the graph's custom stream, to callback handlers, and to the log.

    Args:
        events: Makes the events, or `tuple` for none; not called where nobody listens.
        config: The config of the run.
        refinement: The record they are about.
    """
    if events is tuple or _nobody_listens(config):
        return
    send, log, targets = langgraph_private.writer(config), _log(), langgraph_private.progress_configs(config)
    if send is None and log is None and not targets:
        return
    labels = _labels(refinement, config)
    for event in _visible(events(), config):
        _write(event, labels, send, log, log_texts=refinement.policy.log_texts)
        for target in targets if event.streamed else ():
            dispatch_custom_event(f"refine.{event.name}", event.payload(labels), config=target)


async def apublish(events: Callable[[], Sequence[Event]], config: RunnableConfig, refinement: Refinement) -> None:
    """Send events without blocking; otherwise like `publish`."""
    if events is tuple or _nobody_listens(config):
        return
    send, log, targets = langgraph_private.writer(config), _log(), langgraph_private.progress_configs(config)
    if send is None and log is None and not targets:
        return
    labels = _labels(refinement, config)
    for event in _visible(events(), config):
        _write(event, labels, send, log, log_texts=refinement.policy.log_texts)
        for target in targets if event.streamed else ():
            await adispatch_custom_event(f"refine.{event.name}", event.payload(labels), config=target)


def _nobody_listens(config: RunnableConfig) -> bool:
    """Whether that is known at once, as it is of a loop without a graph or callbacks whose log is off."""
    return not (config or structlog.is_configured() or _STANDARD_LOGGER.isEnabledFor(logging.INFO))


def _visible(events: Sequence[Event], config: RunnableConfig) -> Sequence[Event]:
    """Return the events as they may be sent: without texts inside of a loop that hides its drafts."""
    return [replace(event, show=False) for event in events] if langgraph_private.silenced(config) else events


def warn(alarms: Sequence[Event], config: RunnableConfig, refinement: Refinement) -> None:
    """Write warnings to the log, which shows them unless it is told not to."""
    log = _log(logging.WARNING) if alarms else None
    for alarm in alarms:
        _write(alarm, _labels(refinement, config), None, log, log_texts=refinement.policy.log_texts)


def _labels(refinement: Refinement, config: RunnableConfig) -> dict[str, Any]:
    """Return what tells the lines of one run from those of others."""
    thread = (config.get("configurable") or {}).get("thread_id")
    return {"outcome_id": refinement.id, "refiner": refinement.refiner, "thread_id": thread}


def _write(
    event: Event, labels: dict[str, Any], send: Callable[[Any], None] | None, log: Any, *, log_texts: bool
) -> None:
    if send is not None and event.streamed:
        send(event.payload(labels))
    if log is not None and event.logged:
        with losses.logging_safely():
            write = log.warning if event.level >= logging.WARNING else log.info
            write(event.name, **{**event.figures, **(event.texts if log_texts else {}), **labels})


def _log(level: int = logging.INFO) -> Any:
    """Return the logger: the user's structlog, otherwise the standard logger `refine`; None where it is disabled.

    An unconfigured structlog would print to standard output, which a library must not do.
    """
    if structlog.is_configured():
        return structlog.get_logger(_LOGGER)
    if not _STANDARD_LOGGER.isEnabledFor(level):
        return None
    return structlog.wrap_logger(
        _STANDARD_LOGGER,
        processors=[structlog.processors.KeyValueRenderer(key_order=["event"])],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
