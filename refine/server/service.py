"""What every route of the server shares, and the judged routes themselves."""

from __future__ import annotations

import logging
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from graphs import Outcome, Policy
from refine.server import requests
from refine.server.answering import Answered, Question, answer
from refine.server.dialects.protocol import Dialect, Json, JudgedRequest
from refine.server.errors import ApiError
from refine.server.guards import Guard, Guards
from refine.server.requests import GUARD_HEADER, Caller, Incoming, Keys, to_upstream
from refine.server.responder import (
    Admission,
    Client,
    ClientGone,
    Form,
    Limits,
    Reply,
    Work,
    check_encoding,
    failure,
    read_body,
    respond,
)
from refine.telemetry import continued_trace, is_traced, trace_question

_log = logging.getLogger("refine.server")


@dataclass(slots=True, kw_only=True)
class Served:
    """One request that was served, for whoever observes.

    Args:
        guard: Name of the guard; empty where none was chosen.
        caller: Name of the caller's key; empty where no key is wanted.
        request_id: Id of the request.
        status: HTTP status; None where the client left before there was one.
        seconds: From the first byte to the last.
        outcome: The loop's record, where it ran to its end.
        policy: The policy that was in force for it.
    """

    guard: str
    caller: str
    request_id: str
    status: int | None
    seconds: float
    outcome: Outcome | None = None
    policy: Policy | None = None


_Observer = Callable[[Served], None]
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
        draining: Whether the server is about to stop.
    """

    guards: Guards
    keys: Keys = field(default_factory=Keys)
    limits: Limits = field(default_factory=Limits)
    keep_alive_s: float = 10.0
    observers: tuple[_Observer, ...] = ()
    draining: bool = False

    def __post_init__(self) -> None:
        self.admission = Admission(self.limits)
        self.running: set[Work] = set()

    def observe(self, served: Served) -> None:
        """Tell the observers; one that raises costs nobody an answer."""
        for observer in self.observers:
            try:
                observer(served)
            except Exception as error:  # noqa: BLE001 - the log tells it, without its texts
                _log.error("an observer of the guard failed: %s", type(error).__name__)


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
        self.policy: Policy | None = None

    def choose_guard(self, model: str, caller: Caller, named: str | None = None) -> Guard:
        """Return the guard for a model, or the one that the header, or else `named`, asks for.

        Raises:
            ApiError: If there is no such guard, or the key is not for it.
        """
        header = self.incoming.headers.get(GUARD_HEADER) or named
        guard = self._service.guards.choose(header, model, caller.guards)
        self.guard = guard.name
        return guard

    def upstream_headers(self, guard: Guard, caller: Caller, key_header: str) -> dict[str, str]:
        """Return the headers of a JSON request to a guard's upstream, with the key that its setting says."""
        key = guard.required_upstream.credentials(caller.credentials, key_header)
        sent = to_upstream(self.incoming.headers, self.incoming.id)
        return {**sent, "content-type": "application/json", **key}

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
                policy=self.policy,
            )
        )


class PostRoute(ABC):
    """A route that takes JSON and answers it: an ASGI application.

    Args:
        service: What the routes share.
        form: How it writes events and errors.
    """

    def __init__(self, service: Service, form: Form) -> None:
        self._service = service
        self._form = form

    @abstractmethod
    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> Reply | None:
        """Answer one request, and return the reply that was sent; None where the client left."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        incoming, started = Incoming.of(scope), perf_counter()
        client = Client(receive, send, incoming.id_headers)
        exchange = Exchange(self._service, incoming)
        try:
            reply = await self._serve(scope["method"], exchange, client)
        except ClientGone:
            reply = None
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            reply = failure(error if isinstance(error, ApiError) else unexpected(error), self._form)
            await client.whole(reply)
        exchange.done(None if reply is None else reply.status, perf_counter() - started)

    async def _serve(self, method: str, exchange: Exchange, client: Client) -> Reply | None:
        service, incoming = self._service, exchange.incoming
        if method != "POST":
            raise ApiError(405, "this path takes POST", code="method_not_allowed", allow="POST")
        caller = service.keys.caller(incoming)
        exchange.caller = caller.name
        service.admission.enter(caller.name)
        try:
            body = await read_body(client.receive, incoming.headers, service.limits)
            check_encoding(incoming.headers)
            return await self.serve(exchange, requests.read_object(body), caller, client)
        finally:
            service.admission.leave(caller.name)


class JudgedRoute(PostRoute):
    """A route whose answers are judged.

    Args:
        dialect: The protocol it speaks.
        service: What the routes share.
    """

    def __init__(self, dialect: Dialect, service: Service) -> None:
        super().__init__(service, dialect)
        self._dialect = dialect

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> Reply | None:
        """Answer one request; see the base class."""
        service, request = self._service, self._dialect.read_request(body)
        guard = exchange.choose_guard(request.model, caller)
        return await respond(
            self._answer(exchange, guard, request, caller),
            client,
            self._dialect,
            keep_alive_s=service.keep_alive_s if request.streamed else None,
            catch=unexpected,
            running=service.running,
        )

    async def _answer(self, exchange: Exchange, guard: Guard, request: JudgedRequest, caller: Caller) -> Reply:
        headers = exchange.upstream_headers(guard, caller, self._dialect.KEY_HEADER)
        question = Question(guard, self._dialect, request, headers)
        bind_contextvars(request_id=exchange.incoming.id)  # for the lines of this request, whose task ends with it
        if is_traced():
            answered = await _traced(question, exchange.incoming.headers)
        else:
            answered = await answer(question)
        exchange.outcome, exchange.policy = answered.outcome, answered.policy
        return answered.reply


async def _traced(question: Question, headers: Mapping[str, str]) -> Answered:
    guard = question.guard
    with (
        continued_trace(headers),
        trace_question(guard.name, texts=guard.loop.policy.log_texts) as on_outcome,
    ):
        answered = await answer(question)
        if answered.outcome is not None:
            on_outcome(answered.outcome)
        return answered


def unexpected(error: Exception) -> ApiError:
    """Return the error for what should not happen; the log tells where it happened, the client nothing of it."""
    places = "".join(traceback.format_tb(error.__traceback__))  # its message may quote what was judged
    _log.error("the guard failed: %s\n%s", type(error).__name__, places)
    return ApiError(500, "the guard failed; the server's log says why", code="internal_error")
