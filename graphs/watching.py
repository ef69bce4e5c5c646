"""A seam for telemetry: whoever watches a question enters as each attempt begins, and learns its draft."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar

Watcher = Callable[[int], AbstractContextManager[Callable[[object], None]]]
"""Enters as the attempt of a number is generated; what it yields is called with the draft."""

watcher: ContextVar[Watcher | None] = ContextVar("graphs.watcher", default=None)
"""Set for the time of a question, by whoever watches it."""


def _ignore(draft: object) -> None:
    del draft


_UNWATCHED = nullcontext(_ignore)


def watched(number: int | None) -> AbstractContextManager[Callable[[object], None]]:
    """Enter as attempt `number` is generated; nothing happens if it is None, or nobody watches."""
    watch = None if number is None else watcher.get()
    return _UNWATCHED if watch is None or number is None else watch(number)
