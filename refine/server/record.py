"""The record of the guard: where it is kept, the labels that people give, and the page that shows it."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from starlette.routing import BaseRoute

from judges.catalogue.names import imported, is_reference
from judges.errors import ConfigurationError
from refine.page.access import OneTimeLink
from refine.page.routes import Event, TryQuestion, attempts_of, page_routes
from refine.process import see_modules_here
from refine.promise_watch import PromiseWatch
from refine.record import DatabaseRecord, Recorder, open_record
from refine.record.rows import Redact
from refine.server.access import Caller
from refine.server.assembly import secret_of
from refine.server.config import ServerSettings
from refine.server.dialects import CHAT
from refine.server.dialects.protocol import GuardReply, Json
from refine.server.errors import ApiError
from refine.server.service import Client, Exchange, PostRoute, Service, report_unexpected, respond
from refine.server.upstream import UpstreamGenerator

_DEFAULT_RECORD = "refine-record.db"
"""Where the command records if nothing else is set: a file where it was called."""


def choose_record(settings: ServerSettings) -> tuple[ServerSettings, str]:
    """Return settings with the record that the command keeps if nothing else is set, and a line about it.

    What forbids it is no error, since nobody asked for it: the line says then that there is no record, and why.
    """
    if settings.record is not None:
        return settings, "" if settings.record else "nothing is recorded"
    file = Path(_DEFAULT_RECORD).absolute()
    if find_spec("sqlalchemy") is None:
        return settings, "nothing is recorded, since SQLAlchemy is missing; install the extra: selfrefine[record]"
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        return settings, f"nothing is recorded, since {file.parent} cannot be written to; name a place by --record"
    texts = "with texts" if settings.record_texts else "without texts, which record_texts adds"
    line = f"outcomes are recorded in {file}, {texts}; --record names another place, --no-record keeps none"
    return settings.model_copy(update={"record": str(file)}), line


def open_guard_record(settings: ServerSettings) -> Recorder | None:
    """Return the record that settings name; None where there is to be none.

    Raises:
        ConfigurationError: If it cannot be used.
    """
    special = settings.record_texts or settings.record_keep_days is not None
    if settings.record_redact and not settings.record_texts:
        raise ConfigurationError(
            "record_redact is for recorded texts: set record_texts = true too, or leave it out"
        )
    if not settings.record:
        if special:
            raise ConfigurationError("record_texts and record_keep_days are for a record: set record too")
        return None
    redact = [_redaction(reference) for reference in settings.record_redact]
    try:
        return _check_file(_open(settings, settings.record, redact, special=special))
    except ConfigurationError as error:
        raise ConfigurationError(f"record: {error}") from None


def _open(settings: ServerSettings, place: str, redact: Sequence[Redact], *, special: bool) -> Recorder:
    record = open_record(place)
    if not special:
        return record
    if not isinstance(record, DatabaseRecord):
        raise ConfigurationError(
            "record_texts and record_keep_days are for a database; a file of JSON lines holds the texts always"
        )
    url = place if ":" in place else f"sqlite:///{place}"
    return DatabaseRecord(
        url,
        texts=settings.record_texts,
        redact=redact,
        keep_days=settings.record_keep_days,
    )


def _redaction(reference: str) -> Redact:
    """Return the function that a `record_redact` names."""
    see_modules_here()
    if not is_reference(reference):
        raise ConfigurationError(f"record_redact = {reference!r}: name a function as module:function")
    function = imported(reference)
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise ConfigurationError(f"record_redact = {reference!r} is no function from a text to a text")
    redaction: Redact = function
    return redaction


def _check_file(record: Recorder) -> Recorder:
    """Return a record; one in a file that is there already must be one that this version can go on with."""
    file = record.file if isinstance(record, DatabaseRecord) else None
    if file is not None and file.exists() and file.stat().st_size:
        record.check()  # type: ignore[attr-defined]  # it is a database, as the line above says
    return record


LABELS_PATH = "/v1/labels"
_LABEL_FIELDS: Mapping[str, tuple[type, ...]] = {
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
        _check_label(body)
        work = asyncio.to_thread(self._save, self._record, body, caller)
        return await respond(
            work, client, CHAT, keep_alive_s=None, catch=_refuse_label, running=self._service.running
        )

    def _save(self, record: DatabaseRecord, body: Json, caller: Caller) -> GuardReply:
        identifier = body["id"]
        outcome = record.outcome(identifier)
        if outcome is None:  # it may wait to be written
            record.flush(_WRITING_S)
            outcome = record.outcome(identifier)
        attempt = body.get("attempt", outcome and outcome["released"])
        if outcome is None and record.stats().failing:  # it may still wait to be written
            raise _refuse_for_now()
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


def _check_label(body: Json) -> None:
    """Check a label's fields.

    Raises:
        ApiError: If one is unknown, missing or of another type.
    """
    wrong = [
        name for name, value in body.items() if name not in _LABEL_FIELDS or type(value) not in _LABEL_FIELDS[name]
    ]
    if wrong or "id" not in body or not {"rating", "up"} & body.keys():
        text = 'a label has "id" (refine.id of a reply) and "up" or "rating"; it may have attempt, by and note'
        raise ApiError(400, text, code="invalid", param=wrong[0] if wrong else None)


def _refuse_label(error: Exception) -> ApiError:
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - there is none without a database

    if isinstance(error, SQLAlchemyError) or isinstance(error.__cause__, SQLAlchemyError | OSError):
        return _refuse_for_now()
    if isinstance(error, ConfigurationError):
        return ApiError(400, str(error), code="invalid")
    return report_unexpected(error)


def _refuse_for_now() -> ApiError:
    text = "the record cannot be used now; send the label again"
    return ApiError(503, text, code="record_failed", retry_after_s=_WRITING_S)


def make_page(
    settings: ServerSettings,
    service: Service,
    record: Recorder | None,
    link: OneTimeLink,
    promises: Mapping[str, PromiseWatch],
) -> list[BaseRoute]:
    """Return the routes of the page; none where it is off, or there is no database to show.

    One that shows texts wants its key, or the link, from everybody: a proxy on this machine may not say that it is
    one.

    Raises:
        ConfigurationError: If its key cannot be used.
    """
    if not settings.page or not isinstance(record, DatabaseRecord):
        return []
    key = None if settings.page_key is None else secret_of(settings.page_key, "page_key").get_secret_value()
    try_out = None if all(guard.upstream is None for guard in service.guards) else partial(_try_out, service)
    try:
        wanted = link if key is None and settings.record_texts else None
        return page_routes(
            record,
            status=lambda: _status(service, settings.trace_url, promises),
            try_out=try_out,
            key=key,
            link=wanted,
            on_label=partial(_look_at, promises),
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"page_key: {error}") from None


def _look_at(promises: Mapping[str, PromiseWatch]) -> None:
    for watch in promises.values():
        watch.look()


def _standing_of(watch: PromiseWatch | None) -> Json:
    standing = None if watch is None else watch.standing
    return (
        {}
        if standing is None
        else {"promise": str(standing), "promise_state": standing.state, "uncovered": standing.is_uncovered}
    )


def _status(service: Service, trace_url: str | None, promises: Mapping[str, PromiseWatch]) -> Json:
    guards = [
        {
            "name": guard.name,
            "judge": guard.judge.name,
            "upstream": "" if guard.upstream is None else guard.upstream.origin,
            "success_rating": guard.loop.policy.success_rating,
            "success_score": guard.loop.policy.success_score,
            "max_attempts": guard.loop.policy.max_attempts,
            **_standing_of(promises.get(guard.name)),
        }
        for guard in service.guards
    ]
    return {
        "name": "refine serve",
        "guards": guards,
        "in_flight": service.admission.in_flight,
        "draining": service.draining,
        "trace_url": trace_url,
    }


def _try_out(service: Service, question: TryQuestion) -> AsyncIterator[Event]:
    """Answer a question of the page's try box, with the operator's key."""
    try:
        guard = service.guards.choose(question.guard or None, question.model)
    except ApiError as error:
        raise ConfigurationError(str(error)) from None
    body: dict[str, Any] = {"messages": [{"role": "user", "content": question.question}]}
    if question.model:
        body["model"] = question.model
    upstream = guard.required_upstream
    headers = {"content-type": "application/json", **upstream.credentials({}, CHAT.KEY_HEADER)}
    generator = UpstreamGenerator(
        upstream, CHAT, CHAT.read_request(body), length=1, headers=headers, models=guard.attempt_models
    )
    return attempts_of(guard.loop.with_generator(generator), question.question)
