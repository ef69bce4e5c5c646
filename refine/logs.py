"""The log as JSON lines, each with the id of the request that it is about."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TextIO

import structlog

_LOGGERS = ("refine", "judges")


def log_json_lines(stream: TextIO | None = None, *, level: int = logging.INFO) -> None:
    """Write the log of this library as JSON lines, for an application that has no logging of its own yet.

    A line has `event`, `level`, `logger`, `timestamp`, what was bound by `request_log` and, while OpenTelemetry
    traces, `trace_id` and `span_id`.

    Args:
        stream: Where to write; standard error by default.
        level: Least level to write.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_trace,
    ]
    _processors[:] = [
        structlog.stdlib.filter_by_level,
        *shared,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ]
    structlog.configure(
        processors=_processors,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = _LineHandler(stream or sys.stderr)
    render: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.ExceptionRenderer(),
        structlog.processors.JSONRenderer(),
    ]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=render, foreign_pre_chain=shared))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


_processors: list[Any] = []
"""Those of `log_json_lines`, by which it is known whether the lines are still written as it says."""


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes records as any handler of a stream does, and lines that are made already."""

    def write_line(self, line: str) -> None:
        with self.lock or nullcontext():
            self.stream.write(f"{line}\n")
            self.stream.flush()


def _handler_alone(logger: logging.Logger) -> _LineHandler | None:
    """Return the handler of `log_json_lines` where it alone gets all of the logger's records, else None."""
    parent = logger.parent
    if logger.handlers or logger.filters or parent is None or parent.propagate or len(parent.handlers) != 1:
        return None
    handler = parent.handlers[0]
    is_plain = type(handler) is _LineHandler and not handler.filters and handler.level <= logging.INFO
    return handler if is_plain else None  # type: ignore[return-value]  # its type was looked at


_JSON = json.JSONEncoder(default=repr)


@lru_cache(maxsize=2)
def _written(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def log_line(logger: logging.Logger, event: str, fields: Mapping[str, Any]) -> None:
    """Write a line at INFO, as structlog would; whether the logger takes it is known to the caller.

    Where lines are written as `log_json_lines` says, the same line takes a fraction of the time.
    """
    is_ours = structlog.get_config()["processors"] is _processors
    handler = _handler_alone(logger) if is_ours else None
    if handler is None:
        structlog.get_logger(logger.name).info(event, **fields)
        return
    line = {**fields, "event": event}
    for field, value in structlog.contextvars.get_contextvars().items():
        line.setdefault(field, value)
    line["level"], line["logger"] = "info", logger.name
    second, part = divmod(time.time_ns() // 1_000, 1_000_000)
    line["timestamp"] = f"{_written(second)}.{part:06d}Z"
    handler.write_line(_JSON.encode(_add_trace(None, "", line)))


def request_log(request_id: str) -> AbstractContextManager[None]:
    """Give every line that is logged in a `with` block the id of a request."""
    return structlog.contextvars.bound_contextvars(request_id=request_id)


def _add_trace(_: object, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    trace = sys.modules.get("opentelemetry.trace")
    context = None if trace is None else trace.get_current_span().get_span_context()
    if context is not None and context.is_valid:
        line["trace_id"], line["span_id"] = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    return line
