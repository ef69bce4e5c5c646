"""The headers by which a trace goes on in the service that is called."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def with_trace(headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return the headers of a request with those of the current trace.

    They come back as they are where the application has not loaded OpenTelemetry, or there is no trace.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return headers
    span = trace.get_current_span()
    if span is trace.INVALID_SPAN or not span.get_span_context().is_valid:
        return headers
    from opentelemetry import propagate  # noqa: PLC0415 - loaded already, by the application

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {**{name: text for name, text in (headers or {}).items() if name.lower() not in carrier}, **carrier}
