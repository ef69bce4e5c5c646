"""Telling the world how far the loop is: custom stream events, callback events and the log, from one event."""

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
    """Something that happened in the loop.

    Args:
        name: `attempt`, `draft`, `verdict`, `discard` or `finish`.
        figures: Numbers and codes; never judged text.
        texts: Judged text, for those who asked for it.
        streamed: Whether the client's stream hears of it.
        logged: Whether the log does.
        show: Whether the stream gets the texts too.
    """

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, Any] = field(default_factory=dict)
    streamed: bool = True
    logged: bool = True
    show: bool = False

    def payload(self) -> dict[str, Any]:
        """Give the event as the stream sends it."""
        return {"type": "refine", "event": self.name, **self.figures, **(self.texts if self.show else {})}


def tell(events: Callable[[], Sequence[Event]], config: RunnableConfig, *, log_texts: bool) -> None:
    """Send events to the graph's custom stream, to callback handlers, and to the log."""
    send, log, audience = langgraph_private.writer(config), _log(), langgraph_private.progress_configs(config)
    if send is None and log is None and not audience:
        return
    for event in events():
        _write(event, send, log, log_texts=log_texts)
        for heard in audience if event.streamed else ():
            dispatch_custom_event(f"refine.{event.name}", event.payload(), config=heard)


async def atell(events: Callable[[], Sequence[Event]], config: RunnableConfig, *, log_texts: bool) -> None:
    """Send events without blocking; otherwise as `tell`."""
    send, log, audience = langgraph_private.writer(config), _log(), langgraph_private.progress_configs(config)
    if send is None and log is None and not audience:
        return
    for event in events():
        _write(event, send, log, log_texts=log_texts)
        for heard in audience if event.streamed else ():
            await adispatch_custom_event(f"refine.{event.name}", event.payload(), config=heard)


def _write(event: Event, send: Callable[[Any], None] | None, log: Any, *, log_texts: bool) -> None:
    if send is not None and event.streamed:
        send(event.payload())
    if log is not None and event.logged:
        log.info(event.name, **event.figures, **(event.texts if log_texts else {}))


def _log() -> Any:
    """Find where to log: the user's structlog, else the standard logger `refine`; None where nobody listens.

    An unconfigured structlog would print to standard output, which is not a library's to write on.
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
