"""Progress of the loop: each event goes to the custom stream, to callback handlers and to the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from langchain_core.callbacks import adispatch_custom_event, dispatch_custom_event
from langchain_core.runnables import RunnableConfig

from graphs import langgraph_private

_LOGGER = "refine"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the loop.

    Args:
        name: `attempt`, `draft`, `verdict`, `discard` or `finish`.
        figures: Numbers and codes, without any judged text.
        texts: Judged text, sent only on request.
        streamed: Whether the event goes to the client's stream.
        logged: Whether the event goes to the log.
        show: Whether the texts go to the stream too.
    """

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, Any] = field(default_factory=dict)
    streamed: bool = True
    logged: bool = True
    show: bool = False

    def payload(self) -> dict[str, Any]:
        """Return the event as sent to the stream."""
        return {"type": "refine", "event": self.name, **self.figures, **(self.texts if self.show else {})}


def publish(events: Callable[[], Sequence[Event]], config: RunnableConfig, *, log_texts: bool) -> None:
    """Send events to the graph's custom stream, to callback handlers, and to the log."""
    send, log, targets = langgraph_private.writer(config), _log(), langgraph_private.progress_configs(config)
    if send is None and log is None and not targets:
        return
    for event in events():
        _write(event, send, log, log_texts=log_texts)
        for target in targets if event.streamed else ():
            dispatch_custom_event(f"refine.{event.name}", event.payload(), config=target)


async def apublish(events: Callable[[], Sequence[Event]], config: RunnableConfig, *, log_texts: bool) -> None:
    """Send events without blocking; otherwise like `publish`."""
    send, log, targets = langgraph_private.writer(config), _log(), langgraph_private.progress_configs(config)
    if send is None and log is None and not targets:
        return
    for event in events():
        _write(event, send, log, log_texts=log_texts)
        for target in targets if event.streamed else ():
            await adispatch_custom_event(f"refine.{event.name}", event.payload(), config=target)


def _write(event: Event, send: Callable[[Any], None] | None, log: Any, *, log_texts: bool) -> None:
    if send is not None and event.streamed:
        send(event.payload())
    if log is not None and event.logged:
        log.info(event.name, **event.figures, **(event.texts if log_texts else {}))


def _log() -> Any:
    """Return the logger: the user's structlog, otherwise the standard logger `refine`; None where it is disabled.

    An unconfigured structlog would print to standard output, which a library must not do.
    """
    if structlog.is_configured():
        return structlog.get_logger(_LOGGER)
    logger = logging.getLogger(_LOGGER)
    if not logger.isEnabledFor(logging.INFO):
        return None
    return structlog.wrap_logger(
        logger,
        processors=[structlog.processors.KeyValueRenderer(key_order=["event"])],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
