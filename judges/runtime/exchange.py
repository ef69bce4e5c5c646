"""When an HTTP exchange must be over."""

from __future__ import annotations

from contextvars import ContextVar

exchange_end: ContextVar[float | None] = ContextVar("judges.exchange_end", default=None)
"""When the exchange that is being made must be over, by the monotonic clock; None leaves it unbounded."""
