"""The log as JSON lines, each with the id of the request that it is about."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
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
    handler = logging.StreamHandler(stream or sys.stderr)
    render: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.ExceptionRenderer(),
        structlog.processors.JSONRenderer(),
    ]
    handler.setFormatter(_Formatter(processors=render, foreign_pre_chain=shared))
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


_processors: list[Any] = []
"""Those of `log_json_lines`, by which it is known whether the lines are still written as it says."""


class _WholeLine(dict[str, Any]):
    """All fields of a line, to which no processor adds any."""


_ENCODER = json.JSONEncoder(default=repr)


class _Formatter(structlog.stdlib.ProcessorFormatter):
    def format(self, record: logging.LogRecord) -> str:
        if type(record.msg) is _WholeLine:
            return _ENCODER.encode(record.msg)
        return super().format(record)


def log_line(logger: logging.Logger, event: str, fields: Mapping[str, Any]) -> None:
    """Write a line at INFO, as structlog would; whether the logger takes it is known to the caller.

    Where lines are written as `log_json_lines` says, the same line takes a fraction of the time.
    """
    if structlog.get_config()["processors"] is not _processors:
        structlog.get_logger(logger.name).info(event, **fields)
        return
    line = _WholeLine(fields, event=event)
    for field, value in structlog.contextvars.get_contextvars().items():
        line.setdefault(field, value)
    line["level"], line["logger"] = "info", logger.name
    line["timestamp"] = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    _add_trace(None, "", line)
    logger.handle(logging.LogRecord(logger.name, logging.INFO, __file__, 0, line, (), None))


def request_log(request_id: str) -> AbstractContextManager[None]:
    """Give every line that is logged in a `with` block the id of a request."""
    return structlog.contextvars.bound_contextvars(request_id=request_id)


def _add_trace(_: object, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    trace = sys.modules.get("opentelemetry.trace")
    context = None if trace is None else trace.get_current_span().get_span_context()
    if context is not None and context.is_valid:
        line["trace_id"], line["span_id"] = f"{context.trace_id:032x}", f"{context.span_id:016x}"
    return line
