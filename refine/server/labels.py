"""`POST /v1/labels`: what people say of an answer that went out, into the record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from judges.errors import ConfigurationError
from refine.promise import PromiseWatch
from refine.server.access import Caller
from refine.server.dialects import CHAT
from refine.server.dialects.protocol import GuardReply, Json
from refine.server.errors import ApiError
from refine.server.service import Client, Exchange, PostRoute, Service, report_unexpected, respond

if TYPE_CHECKING:
    from refine.record import DatabaseRecord

PATH = "/v1/labels"
_FIELDS: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "attempt": (int,),
    "by": (str,),
    "rating": (int,),
    "up": (bool,),
    "note": (str,),
}
_WRITING_S = 2.0


class LabelRoute(PostRoute):
    """Takes a label: `{"id": refine.id of the reply, "up": false}`, or `"rating"`, with `"by"` and `"note"`.

    A label that names no attempt is about the answer that went out. Labels can end a promise, so a key must be let
    to give them (`labels = true`); without any keys this machine alone may.

    Args:
        service: What the routes share.
        record: Where labels go; None where there is no database.
        promises: Told at once, by name of the guard.
    """

    def __init__(
        self, service: Service, record: DatabaseRecord | None, promises: Mapping[str, PromiseWatch]
    ) -> None:
        super().__init__(service)
        self._record, self._promises = record, promises

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> GuardReply | None:
        """Save one label; see the base class."""
        if self._record is None:
            raise ApiError(404, "labels go into a record in a database; set `record`", code="no_record")
        is_allowed = caller.may_label if self._service.keys else exchange.incoming.is_local
        if not is_allowed:
            text = "labels are taken from keys with `labels = true`, and without keys from this machine alone"
            raise ApiError(403, text, code="key_wanted")
        _check_fields(body)
        work = asyncio.to_thread(self._save, self._record, body, caller)
        return await respond(work, client, CHAT, keep_alive_s=None, catch=_refuse, running=self._service.running)

    def _save(self, record: DatabaseRecord, body: Json, caller: Caller) -> GuardReply:
        identifier = body["id"]
        outcome = record.outcome(identifier)
        if outcome is None:  # it may wait to be written
            record.flush(_WRITING_S)
            outcome = record.outcome(identifier)
        attempt = body.get("attempt", outcome and outcome["released"])
        if outcome is None or attempt is None:
            raise ApiError(404, "the record holds no such answer, or none that went out", code="unknown_answer")
        by = "/".join(name for name in (caller.name, body.get("by", "").strip() or _anonym(body)) if name)
        said: Json = {name: body[name] for name in ("rating", "up", "note") if name in body}
        record.label(identifier, attempt, by=by, **said)
        reply: Json = {"id": identifier, "attempt": attempt, "by": by, **said}
        watch = self._promises.get(outcome["refiner"] or "")
        standing = None if watch is None else watch.look()
        if standing is not None:
            reply["promise"] = {"state": standing.state, "threshold": standing.threshold, "text": str(standing)}
        return GuardReply(200, reply)


def _anonym(body: Json) -> str:
    """Return a name for whoever gives none; another label has another, as it may be another person's."""
    words = [str(body["rating"])] if "rating" in body else []
    words += ["up" if body["up"] else "down"] if "up" in body else []
    return f"somebody: {', '.join(words)}"


def _check_fields(body: Json) -> None:
    """Check a label's fields.

    Raises:
        ApiError: If one is unknown, missing or of another type.
    """
    wrong = [name for name, value in body.items() if name not in _FIELDS or type(value) not in _FIELDS[name]]
    if wrong or "id" not in body or not {"rating", "up"} & body.keys():
        text = 'a label has "id" (refine.id of a reply) and "up" or "rating"; it may have attempt, by and note'
        raise ApiError(400, text, code="invalid", param=wrong[0] if wrong else None)


def _refuse(error: Exception) -> ApiError:
    if isinstance(error, ConfigurationError):
        return ApiError(400, str(error), code="invalid")
    return report_unexpected(error)
