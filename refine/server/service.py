"""What every route of the server shares, and the judged routes themselves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

from starlette.types import Receive, Scope, Send

from graphs import Outcome
from refine.server import json_text
from refine.server.answering import Question, answer
from refine.server.dialects.protocol import Dialect, JudgedRequest
from refine.server.errors import ApiError
from refine.server.guards import Guard, Guards
from refine.server.headers import to_upstream
from refine.server.incoming import GUARD_HEADER, Incoming
from refine.server.keys import Caller, Keys
from refine.server.limits import Admission, ClientGone, Limits, read_body
from refine.server.responder import Client, Reply, failure, respond

_log = logging.getLogger("refine.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One request that was served, for whoever observes.

    Args:
        guard: Name of the guard; empty where none was chosen.
        caller: Name of the caller's key; empty where no key is wanted.
        request_id: Id of the request.
        status: HTTP status; None where the client left before there was one.
        seconds: From the first byte to the last.
        outcome: The loop's record, where it ran to its end.
    """

    guard: str
    caller: str
    request_id: str
    status: int | None
    seconds: float
    outcome: Outcome | None = None


Observer = Callable[[Served], None]
"""Told of every request served; must not block, and must not raise."""


@dataclass(kw_only=True)
class Service:
    """What the routes share.

    Args:
        guards: The guards.
        keys: The keys that are let in.
        limits: Limits of a request.
        keep_alive_s: Seconds between comments to a waiting client that streams.
        observers: Told of every request served.
    """

    guards: Guards
    keys: Keys = field(default_factory=Keys)
    limits: Limits = field(default_factory=Limits)
    keep_alive_s: float = 10.0
    observers: tuple[Observer, ...] = ()
    draining: bool = False

    def __post_init__(self) -> None:
        self.admission = Admission(self.limits)
        self.running: set[asyncio.Future[Reply]] = set()

    def observe(self, served: Served) -> None:
        """Tell the observers; one that raises costs nobody an answer."""
        for observer in self.observers:
            try:
                observer(served)
            except Exception:  # noqa: BLE001 - told once in the log
                _log.exception("an observer of the guard failed")


class JudgedRoute:
    """A route whose answers are judged: an ASGI application.

    Args:
        dialect: The protocol it speaks.
        service: What the routes share.
    """

    def __init__(self, dialect: Dialect, service: Service) -> None:
        self._dialect = dialect
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        incoming, started = Incoming.of(scope), perf_counter()
        client = Client(receive, send, incoming.id_headers)
        exchange = Exchange(self._service, incoming)
        try:
            caller = self._service.keys.caller(incoming)
            with self._service.admission.place(caller.name):
                reply = await self._serve(exchange, client, caller)
        except ClientGone:
            reply = None
        except ApiError as error:
            reply = failure(error, self._dialect)
            await client.whole(reply)
        exchange.done(None if reply is None else reply.status, perf_counter() - started)

    async def _serve(self, exchange: Exchange, client: Client, caller: Caller) -> Reply | None:
        service, incoming = self._service, exchange.incoming
        body = await read_body(client.receive, incoming.headers, service.limits)
        request = self._dialect.read_request(json_text.read_object(body))
        guard = service.guards.choose(incoming.headers.get(GUARD_HEADER), request.model, caller.guards)
        exchange.guard, exchange.caller = guard.name, caller.name
        return await respond(
            self._answer(exchange, guard, request, caller),
            client,
            self._dialect,
            keep_alive_s=service.keep_alive_s if request.streamed else None,
            catch=unexpected,
        )

    async def _answer(self, exchange: Exchange, guard: Guard, request: JudgedRequest, caller: Caller) -> Reply:
        incoming = exchange.incoming
        key = guard.required_upstream.credentials(caller.upstream_key, self._dialect.KEY_HEADER)
        headers = {**to_upstream(incoming.headers, incoming.id), "content-type": "application/json", **key}
        reply, exchange.outcome = await answer(Question(guard, self._dialect, request, headers))
        return reply


class Exchange:
    """What becomes known of a request while it is served.

    Args:
        service: Whose observers are told.
        incoming: The request.
    """

    def __init__(self, service: Service, incoming: Incoming) -> None:
        self._service = service
        self.incoming = incoming
        self.guard = ""
        self.caller = ""
        self.outcome: Outcome | None = None

    def done(self, status: int | None, seconds: float) -> None:
        """Tell the observers how it ended."""
        self._service.observe(
            Served(
                guard=self.guard,
                caller=self.caller,
                request_id=self.incoming.id,
                status=status,
                seconds=seconds,
                outcome=self.outcome,
            )
        )


def unexpected(error: Exception) -> ApiError:
    """Return the error for what should not happen; the log tells where it happened, the client nothing of it."""
    _log.error("the guard failed: %s", type(error).__name__, exc_info=error)
    return ApiError(500, "the guard failed; the server's log says why", code="internal_error")


