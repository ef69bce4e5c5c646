"""The live list: outcomes as they reach the database, whichever process wrote them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from typing import Any

from judges import ConfigurationError
from refine.record import DatabaseRecord, OutcomeFilter
from refine.record.rows import now_ms

_EVERY_S = 1.0
_OVERLAP_MS = 60_000
"""An outcome may be written this long after it ended, and is found all the same."""
_REMEMBERED = 5_000
_MOST_AT_ONCE = 200

Status = Callable[[], Mapping[str, Any]]
"""Returns what the page's status line shows of the server: guards, upstream, requests in flight."""


def status_of(record: DatabaseRecord, status: Status) -> dict[str, Any]:
    """Return the status line: the server's own, and what became of the outcomes."""
    return {**status(), "record": {**asdict(record.stats()), "texts": record.texts, "name": record.name}}


async def updates(record: DatabaseRecord, where: OutcomeFilter, status: Status) -> AsyncIterator[dict[str, Any]]:
    """Yield, once a second while somebody looks, the status and the outcomes that were not there before."""
    begun = now_ms()
    known: deque[str] = deque(maxlen=_REMEMBERED)
    while True:
        since = max(now_ms() - _OVERLAP_MS, begun - _OVERLAP_MS, where.since or 0)
        recent = where.model_copy(update={"since": since})
        update: dict[str, Any] = {"status": status_of(record, status)}
        try:
            rows = await asyncio.to_thread(record.outcomes, recent, limit=_MOST_AT_ONCE)
        except ConfigurationError as error:
            update["error"] = str(error)
        else:
            seen = set(known)
            update["outcomes"] = [row for row in rows if row["id"] not in seen]
            known.extend(row["id"] for row in update["outcomes"])
        yield update
        await asyncio.sleep(_EVERY_S)
