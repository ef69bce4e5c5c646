"""What every route of the server shares: reading a request, waiting with its client, replying, observing.

A streaming client gets nothing before the first interval has passed, so that an error that comes at once has its
own status. The work ends with the client, however it leaves: nothing goes on in the background.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from judges.verdict import Usage, Verdict
from refine.server.access import GUARD_HEADER, Budgets, Caller, Incoming, Keys, Requester
from refine.server.answers import GuardedRequest, OutcomeRecord, answer
from refine.server.config import RequestLimits
from refine.server.dialects import CHAT
from refine.server.dialects.protocol import (
    ApiDialect,
    GuardReply,
    Json,
    JudgedRequest,
    PieceEvents,
    RawHeaders,
    failure,
    read_object,
    write_json,
)
from refine.server.errors import BUSY, ApiError, ByteBudget, ClientGone, PassedBody, read_body
from refine.server.guards import Guards, ServedGuard
from refine.telemetry import UNTRACED, trace_request


class _Admission:
    """Counts the requests in flight and those of a day, and refuses what is beyond a limit.

    Args:
        limits: The limits.
        budgets: What keys may consume in a day; a request that finds no place spends none of it.
    """

    def __init__(self, limits: RequestLimits, budgets: Budgets) -> None:
        self._limits = limits
        self._budgets = budgets
        self._by_key: Counter[str] = Counter()
        self.in_flight = 0

    @contextmanager
    def place(self, key: str) -> Iterator[None]:
        """Hold a place for one request of a key in a `with` block.

        Raises:
            ApiError: If there is none: 429 where the key has too many, or has spent its budget, 503 where the
                server has too many.
        """
        limits = self._limits
        if self._by_key[key] >= limits.max_in_flight_per_key:
            raise ApiError(
                429,
                f"{limits.max_in_flight_per_key} requests of this key are being answered; wait for one of them",
                code="too_many_requests",
                retry_after_s=1,
            )
        if self.in_flight >= limits.max_in_flight:
            raise ApiError(503, "the server is busy; try again", code=BUSY, retry_after_s=1)
        self._budgets.enter(key)
        self.in_flight += 1
        self._by_key[key] += 1
        try:
            yield
        except ApiError as error:
            if error.code == BUSY:
                self._budgets.give_back(key)
            raise
        finally:
            self.in_flight -= 1
            self._by_key[key] -= 1
            if not self._by_key[key]:
                del self._by_key[key]


_EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
_UNBUFFERED = (b"x-accel-buffering", b"no")
_OK = 200
_ERROR = 400
_LONGEST_PATH = 200
R = TypeVar("R")


@dataclass(slots=True)
class Client:
    """The client's side of a request.

    Args:
        receive: ASGI's receive, after the body was read.
        send: ASGI's send.
        headers: Headers of every response: the request's id.
        body: What is received before anything else can be, where the body is still handed on.
        is_streaming: Whether the head of a stream of events was sent.
        first_text_at: When the first of an answer was sent, by `perf_counter`; None before.
    """

    receive: Receive
    send: Send
    headers: RawHeaders
    body: PassedBody | None = None
    is_streaming: bool = False
    first_text_at: float | None = None

    async def left(self) -> None:
        """Wait until the client has left."""
        if self.body is not None:
            await self.body.complete.wait()
        while (await self.receive())["type"] != "http.disconnect":
            """A client sends nothing more after its body."""

    async def whole(self, reply: GuardReply) -> None:
        """Send a response in one piece."""
        body = write_json(reply.document) if reply.body is None else reply.body
        length = (b"content-length", str(len(body)).encode())
        await self.start(reply.status, [(b"content-type", reply.kind), length, *reply.headers])
        await self.send({"type": "http.response.body", "body": body})

    async def start_events(self, headers: RawHeaders) -> None:
        """Send the head of a stream of events."""
        self.is_streaming = True
        await self.start(200, [*_EVENTS, _UNBUFFERED, *headers])

    async def some(self, part: bytes, *, last: bool = False) -> None:
        """Send a part of a stream."""
        await self.send({"type": "http.response.body", "body": part, "more_body": not last})

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send the head of a response."""
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, *self.headers]})


def refuse_at_end() -> ApiError:
    """Return the error for a request that was cut off by the server's end."""
    return ApiError(503, "the server shuts down; ask again", code="shutting_down", retry_after_s=1)


class _CutOff(Exception):  # noqa: N818 - what happened
    """The server ends, and waits no longer for this request."""


class _RequestTask:
    """What is done for one request, in the request's own task: it is cancelled if the client leaves.

    Args:
        client: The client.
        running: Where the work is kept while it goes on; whoever calls `cancel` of it there cuts it off.
        keep_alive: A comment for a streaming client.
        keep_alive_s: Seconds between comments; None sends none.
    """

    def __init__(
        self,
        client: Client,
        running: set[_RequestTask],
        *,
        keep_alive: bytes = b"",
        keep_alive_s: float | None = None,
    ) -> None:
        self._client = client
        self._running = running
        self._keep_alive = keep_alive
        self._keep_alive_s = keep_alive_s
        self._task: asyncio.Task[Any] | None = None
        self._ended_by: type[Exception] | None = None

    async def done(self, work: Coroutine[Any, Any, R]) -> R:
        """Do the work, and return what it returns.

        Raises:
            ClientGone: If the client leaves before it is done.
            _CutOff: If the server waits no longer.
        """
        task = self._task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in one
        cancellations = task.cancelling()
        self._running.add(self)
        watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            try:
                return await work
            finally:
                watching.cancel()
                self._running.discard(self)
                if self._ended_by is not None:
                    await asyncio.sleep(0)  # a cancellation that has not come yet comes here
        except asyncio.CancelledError:
            if self._ended_by is None or task.uncancel() > cancellations:
                raise
            raise self._ended_by from None

    def cancel(self) -> None:
        """Cut it off."""
        self._end(_CutOff)

    def _end(self, reason: type[Exception]) -> None:
        if self._ended_by is None and self._task is not None:
            self._ended_by = reason
            self._task.cancel()

    async def _watch(self) -> None:
        """Send comments until the client leaves."""
        while self._keep_alive_s is not None and not await self._left_within(self._keep_alive_s):
            if not self._client.is_streaming:
                await self._client.start_events([])
            await self._client.some(self._keep_alive)
        if self._keep_alive_s is None:
            await self._client.left()
        self._end(ClientGone)

    async def _left_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._client.left()
                return True
        return False


async def respond(
    work: Coroutine[Any, Any, GuardReply],
    client: Client,
    form: ApiDialect,
    *,
    keep_alive_s: float | None,
    running: set[_RequestTask],
    catch: Callable[[Exception], ApiError] | None = None,
    pieces: _PieceOutlet | None = None,
) -> GuardReply | None:
    """Do the work and send what it came to; return that, or None where the client left.

    Args:
        work: Makes the reply. It is cancelled if the client leaves.
        client: Where to send it.
        form: How events and errors are written.
        keep_alive_s: Seconds between comments to a streaming client; None sends one whole response.
        running: Where the work is kept while it goes on; whoever cancels it there ends the request with an error.
        catch: Turns an error of the work into one to send; None sends a 500, and logs where it happened.
        pieces: What of the answer went out already, where it goes out in pieces.
    """
    under_way = _RequestTask(client, running, keep_alive=form.KEEP_ALIVE, keep_alive_s=keep_alive_s)
    try:
        reply = await under_way.done(work)
    except ClientGone:
        return None
    except _CutOff:
        reply = failure(refuse_at_end(), form)
    except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
        reply = failure(error if isinstance(error, ApiError) else (catch or report_unexpected)(error), form)
    if keep_alive_s is None:
        await client.whole(reply)
    else:
        await _stream(reply, client, form, pieces)
    if reply.status == _OK and client.first_text_at is None:
        client.first_text_at = perf_counter()
    return reply


async def race(work: Coroutine[Any, Any, None], client: Client, running: set[_RequestTask]) -> bool:
    """Do work that sends its response itself, and return whether it ended so; cancel it if the client leaves.

    Args:
        work: Sends the response.
        client: Where it goes.
        running: Where the work is kept while it goes on, for whoever cancels it.
    """
    try:
        await _RequestTask(client, running).done(work)
    except ClientGone:
        """Nobody is left to be told."""
    except _CutOff:
        return False
    return True


async def _stream(reply: GuardReply, client: Client, form: ApiDialect, pieces: _PieceOutlet | None) -> None:
    """Send a reply to a client that streams: as events, or an error with its status if that is not out yet."""
    is_answer = reply.status == _OK and reply.body is None
    if not is_answer and not client.is_streaming:
        await client.whole(reply)
        return
    if pieces is not None and pieces.writer is not None:
        events = pieces.writer.end(reply.document) if is_answer else pieces.writer.fail(reply.document)
    else:
        events = b"".join(form.events(reply.document) if is_answer else form.error_events(reply.document))
    if not client.is_streaming:
        await client.start_events(reply.headers)
    await client.some(events, last=True)


class _PieceOutlet:
    """Sends the pieces of an answer to a client as they are released.

    Args:
        client: The client.
        form: How events are written.
        model: Name of the model asked for.

    Attributes:
        writer: What wrote the events that went out; None where none did.
    """

    def __init__(self, client: Client, form: ApiDialect, model: str) -> None:
        self._client = client
        self._form = form
        self._model = model
        self.writer: PieceEvents | None = None

    def send(self, text: str, message_id: str) -> None:
        """Refuse: the guard never blocks."""
        raise NotImplementedError

    async def asend(self, text: str, message_id: str) -> None:
        """Send a piece."""
        if self.writer is None:
            self.writer = self._form.piece_writer(message_id.removeprefix("answer-"), self._model)
        events = self.writer.piece(text)
        if not self._client.is_streaming:
            await self._client.start_events([])
        await self._client.some(events)
        if self._client.first_text_at is None:
            self._client.first_text_at = perf_counter()

    def when_closed(self, leave: Callable[[], None]) -> None:
        """Do nothing: the request's task is cancelled where the client leaves."""
        del leave


_log = logging.getLogger("refine.server")


@dataclass(slots=True, kw_only=True)
class ServedRequest:
    """One request that was served, for whoever observes.

    Args:
        guard: Name of the guard; empty where none was chosen.
        caller: Name of the caller's key; empty where no key is wanted.
        request_id: Id of the request.
        status: HTTP status; None where the client left before there was one.
        seconds: From the first byte to the last.
        records: What the loop did, one for each answer, also where the client left.
        verdicts: What judges said outside of the loop.
        method: HTTP method.
        path: Path, without what follows it.
        model: The model that was asked for; empty where none was read.
        code: Code of the error that was the answer; empty for none.
        trace_id: Id of the trace that it was served in; empty where nothing is traced.
        requester: Who asked.
        first_text_s: Seconds until the first of the answer was sent: the whole, or its first piece; None where
            there was none.
    """

    guard: str
    caller: str
    request_id: str
    status: int | None
    seconds: float
    method: str
    path: str
    model: str
    code: str
    trace_id: str
    records: tuple[OutcomeRecord, ...]
    verdicts: tuple[Verdict, ...]
    requester: Requester
    first_text_s: float | None

    @property
    def ended(self) -> str:
        """How a request without an answer of the loop ended: `passed_through`, `error_502`, `left`."""
        if self.status is None:
            return "left"
        if self.status >= _ERROR:
            return f"error_{self.status}"
        return "judged" if self.verdicts else "passed_through"

    @property
    def usage(self) -> Usage:
        """What it consumed, upstream and judges together."""
        return Usage.total(
            [*(record.outcome.usage for record in self.records), *(verdict.usage for verdict in self.verdicts)]
        )


_Observer = Callable[[ServedRequest], None]
"""Told of every request served; must not block, and must not raise."""


@dataclass(kw_only=True)
class Service:
    """What the routes share.

    Args:
        guards: The guards.
        keys: The keys that are let in.
        limits: RequestLimits of a request.
        budgets: What keys may consume in a day.
        keep_alive_s: Seconds between comments to a waiting client that streams.
        observers: Told of every request served.
        draining: Whether the server is about to stop.
    """

    guards: Guards
    keys: Keys
    limits: RequestLimits
    budgets: Budgets
    keep_alive_s: float
    observers: tuple[_Observer, ...] = ()
    draining: bool = False

    def __post_init__(self) -> None:
        self.admission = _Admission(self.limits, self.budgets)
        self.bytes_held = ByteBudget(self.limits.max_bytes_in_flight)
        self.running: set[_RequestTask] = set()

    def observe(self, served: ServedRequest) -> None:
        """Count what was consumed, and tell the observers; one that raises costs nobody an answer."""
        if served.caller and (served.records or served.verdicts):
            self.budgets.add(served.caller, served.usage)
        for observer in self.observers:
            try:
                observer(served)
            except Exception as error:  # noqa: BLE001 - the log tells it, without its texts
                _log.error("an observer of the guard failed: %s", type(error).__name__)


class Exchange:
    """What is known of a request while it is served.

    Args:
        service: Whose observers are told.
        incoming: The request.
        scope: Its scope, for method and path.
    """

    def __init__(self, service: Service, incoming: Incoming, scope: Scope) -> None:
        self._service = service
        self._method, self._path = scope["method"], scope["path"][:_LONGEST_PATH]
        self.incoming = incoming
        self.model = ""
        self.span = UNTRACED
        self.guard = ""
        self.caller = ""
        self.requester = Requester()
        self.records: list[OutcomeRecord] = []
        self.verdicts: list[Verdict] = []

    def choose_guard(self, model: str, caller: Caller, named: str | None = None, *, api: str = "") -> ServedGuard:
        """Return the guard for a model and an API, or the one that the header, or else `named`, asks for.

        Raises:
            ApiError: If there is no such guard, or the key is not for it.
        """
        header = self.incoming.headers.get(GUARD_HEADER) or named
        guard = self._service.guards.choose(header, model, caller.guards, api=api)
        self.guard, self.model = guard.name, model
        return guard

    def upstream_headers(self, guard: ServedGuard, caller: Caller, dialect: ApiDialect) -> dict[str, str]:
        """Return the headers of a request to a guard's upstream, with the key that its setting says.

        Raises:
            ApiError: If the guard has no upstream, or the caller's key is another provider's.
        """
        self._service.guards.check_key(guard, caller.credentials)
        incoming = self.incoming
        return guard.required_upstream.headers(
            incoming.headers, incoming.id, caller.credentials, dialect.KEY_HEADER
        )

    def done(
        self, status: int | None, seconds: float, *, code: str = "", first_text_s: float | None = None
    ) -> None:
        """Tell the observers how it ended, with the code of an error, and when the answer began."""
        self._service.observe(
            ServedRequest(
                guard=self.guard,
                caller=self.caller,
                request_id=self.incoming.id,
                status=status,
                seconds=seconds,
                method=self._method,
                path=self._path,
                model=self.model,
                code=code,
                trace_id=self.span.trace_id,
                records=tuple(self.records),
                verdicts=tuple(self.verdicts),
                requester=self.requester,
                first_text_s=first_text_s,
            )
        )


class PostRoute(ABC):
    """A route that takes JSON and answers it: an ASGI application.

    Args:
        service: What the routes share.
        form: How it writes events and errors.
    """

    def __init__(self, service: Service, form: ApiDialect = CHAT) -> None:
        self._service = service
        self._form = form

    @abstractmethod
    def serve(
        self, exchange: Exchange, body: Json, caller: Caller, client: Client
    ) -> Awaitable[GuardReply | None]:
        """Answer one request, and return the reply that was sent; None where the client left."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        incoming, started = Incoming.of(scope), perf_counter()
        client = Client(receive, send, incoming.id_headers)
        exchange = Exchange(self._service, incoming, scope)
        with trace_request(scope["method"], scope["path"], incoming.headers) as exchange.span:
            try:
                reply = await self._serve(scope["method"], exchange, client)
            except ClientGone:
                reply = None
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
                reply = failure(error if isinstance(error, ApiError) else report_unexpected(error), self._form)
                await client.whole(reply)
            status, code = (None, "") if reply is None else (reply.status, _code_of(reply))
            exchange.span.answer(status)
        first_at = client.first_text_at
        first_text_s = None if first_at is None else first_at - started
        exchange.done(status, perf_counter() - started, code=code, first_text_s=first_text_s)

    async def _serve(self, method: str, exchange: Exchange, client: Client) -> GuardReply | None:
        service, incoming = self._service, exchange.incoming
        if method != "POST":
            raise ApiError(405, "this path takes POST", code="method_not_allowed", allow="POST")
        caller = service.keys.caller(incoming)
        exchange.caller = caller.name
        await service.budgets.make_room(caller.name)
        with service.admission.place(caller.name), service.bytes_held.request() as hold:
            body = await read_body(client.receive, incoming.headers, service.limits, hold)
            if incoming.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
                raise ApiError(415, "the body is compressed; send it as plain JSON", code="compressed_body")
            read = partial(read_object, body, service.limits.max_messages)
            document = read() if len(body) < _LARGE else await asyncio.to_thread(read)
            exchange.requester = Requester.of(caller, incoming.headers, document)
            return await self.serve(exchange, document, caller, client)


def _code_of(reply: GuardReply) -> str:
    """Return the code of an error of the guard's own; an upstream's error is passed on unread."""
    error = reply.document.get("error") if reply.status >= _ERROR and reply.body is None else None
    code = error.get("code") if isinstance(error, dict) else None
    return code[:_LONGEST_PATH] if isinstance(code, str) else ""


_LARGE = 1 << 18
"""Bytes from which on a body is read in a thread, since that takes as long as many other requests do."""


class JudgedRoute(PostRoute):
    """A route whose answers are judged.

    Args:
        dialect: The protocol it speaks.
        service: What the routes share.
    """

    def __init__(self, dialect: ApiDialect, service: Service) -> None:
        super().__init__(service, dialect)
        self._dialect = dialect

    def serve(
        self, exchange: Exchange, body: Json, caller: Caller, client: Client
    ) -> Awaitable[GuardReply | None]:
        """Answer one request; see the base class."""
        service, request = self._service, self._dialect.read_request(body)
        guard = exchange.choose_guard(request.model, caller, api=self._dialect.API)
        pieces = (
            _PieceOutlet(client, self._dialect, request.model)
            if request.streamed and guard.loop.releases_pieces
            else None
        )
        return respond(
            self._answer(exchange, guard, request, caller, pieces),
            client,
            self._dialect,
            keep_alive_s=service.keep_alive_s if request.streamed else None,
            running=service.running,
            pieces=pieces,
        )

    async def _answer(
        self,
        exchange: Exchange,
        guard: ServedGuard,
        request: JudgedRequest,
        caller: Caller,
        pieces: _PieceOutlet | None,
    ) -> GuardReply:
        who = exchange.requester
        asking = {"key": who.key, "user": who.user, "session": who.session, "thread": who.thread}
        said = {name: text for name, text in asking.items() if text}
        bind_contextvars(request_id=exchange.incoming.id, **said)  # for the log, until this request's task ends
        headers = {**exchange.upstream_headers(guard, caller, self._dialect), "content-type": "application/json"}
        assert guard.upstream is not None  # noqa: S101 - there are no headers without one
        question = GuardedRequest(guard, guard.upstream, self._dialect, request, headers, pieces)
        try:
            exchange.span.ask(model=request.model, provider=guard.provider)
            return await answer(question)
        finally:  # whatever came of it, also that the client left
            exchange.records = question.records


def report_unexpected(error: Exception) -> ApiError:
    """Return the error for what should not happen; the log tells where it happened, the client nothing of it."""
    places = "".join(traceback.format_tb(error.__traceback__))  # its message may quote what was judged
    _log.error("the guard failed: %s\n%s", type(error).__name__, places)
    return ApiError(500, "the guard failed; the server's log says why", code="internal_error")


PREFIX = "/v1"


class GuardApp:
    """The ASGI application of the guard: paths of its own first, then what passes through, then everything else.

    Args:
        service: What the routes share.
        exact: What serves a path, a slash at its end or not.
        below_prefix: What serves the other paths below `/v1`.
        others: What serves all other paths, and the lifespan.
        page: What follows the address of the page, which is among those; None where it is not.
    """

    def __init__(
        self,
        service: Service,
        *,
        exact: Mapping[str, ASGIApp],
        below_prefix: ASGIApp,
        others: ASGIApp,
        page: str | None = None,
    ) -> None:
        self.service = service
        self.page = page
        self._exact = exact
        self._below_prefix = below_prefix
        self._others = others

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        serve = self._others
        if scope["type"] == "http":
            path: str = scope["path"]
            own = self._exact.get(path) or self._exact.get(path.rstrip("/"))
            if own is not None:
                serve = own
            elif path.startswith(f"{PREFIX}/"):
                serve = self._below_prefix
        await serve(scope, receive, send)
