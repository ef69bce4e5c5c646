"""Responding while an answer is being worked on: keep-alive comments, clients that leave, errors in mid-stream.

A streaming client gets nothing before the first interval has passed, so that an error that comes at once has its
own status. The work ends with the client, however it leaves: nothing goes on in the background.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from starlette.types import Receive, Send

from judges.runtime.flow import time_limit
from refine.server import requests
from refine.server.errors import ApiError
from refine.server.requests import RawHeaders

_DRAINED = 2
"""How many times the limit is read before an error is sent, which many clients read only after their body."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of the server.

    Args:
        body_bytes: Most bytes of a body.
        body_s: Seconds in which a body must be complete.
        in_flight: Most requests answered at once.
        in_flight_per_key: Most of them for one key.
    """

    body_bytes: int = 10_000_000
    body_s: float = 30.0
    in_flight: int = 1_000
    in_flight_per_key: int = 1_000


class ClientGone(Exception):  # noqa: N818 - what happened
    """The client left before its request was complete."""


async def read_body(receive: Receive, headers: Mapping[str, str], limits: Limits) -> bytes:
    """Read the body of a request.

    Raises:
        ApiError: If it is too large (413), or not complete in time (408).
        ClientGone: If the client leaves.
    """
    promised = headers.get("content-length", "")
    too_large = promised.isdigit() and int(promised) > limits.body_bytes
    try:
        with time_limit(limits.body_s):
            return await _read(receive, limits.body_bytes, too_large=too_large)
    except TimeoutError:
        raise ApiError(
            408, f"the body was not complete within {limits.body_s:g} s; send it again", code="body_timeout"
        ) from None


async def _read(receive: Receive, most: int, *, too_large: bool) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= most * _DRAINED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        too_large = too_large or size > most
        if too_large:
            parts.clear()
        else:
            parts.append(part)
        more = message.get("more_body", False)
    if too_large:
        raise ApiError(413, f"the body is larger than {most:,} bytes; send a smaller one", code="body_too_large")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def check_encoding(headers: Mapping[str, str]) -> None:
    """Refuse a body that is compressed, whose size nobody knows before it is read.

    Raises:
        ApiError: If it is (415).
    """
    encoding = headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):
        raise ApiError(415, "the body is compressed; send it as plain JSON", code="compressed_body")


class Admission:
    """Counts the requests in flight, and refuses those beyond a limit.

    Args:
        limits: The limits.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._by_key: Counter[str] = Counter()
        self.in_flight = 0

    def enter(self, key: str) -> None:
        """Take a place for one request of a key; `leave` must follow.

        Raises:
            ApiError: If there is none: 429 where the key has too many, 503 where the server has.
        """
        limits = self._limits
        if self._by_key[key] >= limits.in_flight_per_key:
            raise ApiError(
                429,
                f"{limits.in_flight_per_key} requests of this key are being answered; wait for one of them",
                code="too_many_requests",
                retry_after_s=1,
            )
        if self.in_flight >= limits.in_flight:
            raise ApiError(503, "the server is busy; try again", code="server_busy", retry_after_s=1)
        self.in_flight += 1
        self._by_key[key] += 1

    def leave(self, key: str) -> None:
        """Give the place of one request of a key back."""
        self.in_flight -= 1
        if self._by_key[key] > 1:
            self._by_key[key] -= 1
        else:
            del self._by_key[key]

    @contextmanager
    def place(self, key: str) -> Iterator[None]:
        """Hold a place for one request of a key in a `with` block; otherwise as `enter`."""
        self.enter(key)
        try:
            yield
        finally:
            self.leave(key)


_EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
_UNBUFFERED = (b"x-accel-buffering", b"no")
_JSON = b"application/json"
_OK = 200
R = TypeVar("R")


@dataclass(slots=True)
class Reply:
    """What the work came to.

    Args:
        status: HTTP status.
        document: The JSON to send.
        headers: Further headers.
        body: The bytes to send instead of the document, as an upstream sent them.
        kind: Their content type.
    """

    status: int
    document: dict[str, Any] = field(repr=False)
    headers: RawHeaders = field(default_factory=list, repr=False)
    body: bytes | None = field(default=None, repr=False)
    kind: bytes = _JSON


class Form(Protocol):
    """How a dialect writes events and errors; see `refine.server.dialects.protocol.Dialect`."""

    KEEP_ALIVE: bytes

    def events(self, reply: dict[str, Any]) -> list[bytes]:
        """Return a reply as events."""
        ...

    def error_body(self, error: ApiError) -> dict[str, Any]:
        """Return the body of an error."""
        ...

    def error_events(self, body: dict[str, Any]) -> list[bytes]:
        """Return an error as events."""
        ...


@dataclass(slots=True)
class Client:
    """The client's side of a request.

    Args:
        receive: ASGI's receive, after the body was read.
        send: ASGI's send.
        headers: Headers of every response: the request's id.
    """

    receive: Receive
    send: Send
    headers: RawHeaders

    async def left(self) -> None:
        """Wait until the client has left."""
        while (await self.receive())["type"] != "http.disconnect":
            """A client sends nothing more after its body."""

    async def whole(self, reply: Reply) -> None:
        """Send a response in one piece."""
        body = requests.write(reply.document) if reply.body is None else reply.body
        length = (b"content-length", str(len(body)).encode())
        await self.start(reply.status, [(b"content-type", reply.kind), length, *reply.headers])
        await self.send({"type": "http.response.body", "body": body})

    async def start_events(self, headers: RawHeaders) -> None:
        """Send the head of a stream of events."""
        await self.start(200, [*_EVENTS, _UNBUFFERED, *headers])

    async def some(self, part: bytes, *, last: bool = False) -> None:
        """Send a part of a stream."""
        await self.send({"type": "http.response.body", "body": part, "more_body": not last})

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send the head of a response."""
        await self.send({"type": "http.response.start", "status": status, "headers": [*headers, *self.headers]})


def shutting_down() -> ApiError:
    """Return the error for a request that was cut off by the server's end."""
    return ApiError(503, "the server shuts down; ask again", code="shutting_down", retry_after_s=1)


def failure(error: ApiError, form: Form) -> Reply:
    """Return the reply for an error of the guard's own."""
    return Reply(error.status, form.error_body(error), error.headers)


class CutOff(Exception):  # noqa: N818 - what happened
    """The server ends, and waits no longer for this request."""


class Work:
    """What is done for one request, in the request's own task: it is cancelled if the client leaves.

    Args:
        client: The client.
        running: Where the work is kept while it goes on; whoever calls `cancel` of it there cuts it off.
        keep_alive: A comment for a streaming client.
        keep_alive_s: Seconds between comments; None sends none.
    """

    def __init__(
        self, client: Client, running: set[Work], *, keep_alive: bytes = b"", keep_alive_s: float | None = None
    ) -> None:
        self._client = client
        self._running = running
        self._keep_alive = keep_alive
        self._keep_alive_s = keep_alive_s
        self._task: asyncio.Task[Any] | None = None
        self._ended_by: type[Exception] | None = None
        self.started = False
        """Whether the head of a stream of events was sent."""

    async def done(self, work: Coroutine[Any, Any, R]) -> R:
        """Do the work, and return what it returns.

        Raises:
            ClientGone: If the client leaves before it is done.
            CutOff: If the server waits no longer.
        """
        task = self._task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in one
        cancellations = task.cancelling()
        self._running.add(self)
        watching = asyncio.ensure_future(self._watch())
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
        self._end(CutOff)

    def _end(self, reason: type[Exception]) -> None:
        if self._ended_by is None and self._task is not None:
            self._ended_by = reason
            self._task.cancel()

    async def _watch(self) -> None:
        """Send comments until the client leaves."""
        while self._keep_alive_s is not None and not await self._left_within(self._keep_alive_s):
            if not self.started:
                await self._client.start_events([])
                self.started = True
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
    work: Coroutine[Any, Any, Reply],
    client: Client,
    form: Form,
    *,
    keep_alive_s: float | None,
    catch: Callable[[Exception], ApiError],
    running: set[Work],
) -> Reply | None:
    """Do the work and send what it came to; return that, or None where the client left.

    Args:
        work: Makes the reply. It is cancelled if the client leaves.
        client: Where to send it.
        form: How events and errors are written.
        keep_alive_s: Seconds between comments to a streaming client; None sends one whole response.
        catch: Turns an error of the work into one to send.
        running: Where the work is kept while it goes on; whoever cancels it there ends the request with an error.
    """
    under_way = Work(client, running, keep_alive=form.KEEP_ALIVE, keep_alive_s=keep_alive_s)
    try:
        reply = await under_way.done(work)
    except ClientGone:
        return None
    except CutOff:
        reply = failure(shutting_down(), form)
    except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
        reply = failure(error if isinstance(error, ApiError) else catch(error), form)
    if keep_alive_s is None:
        await client.whole(reply)
    else:
        await _stream(reply, client, form, started=under_way.started)
    return reply


async def racing(work: Coroutine[Any, Any, None], client: Client, running: set[Work]) -> bool:
    """Do work that sends its response itself, and return whether it ended so; cancel it if the client leaves.

    Args:
        work: Sends the response.
        client: Where it goes.
        running: Where the work is kept while it goes on, for whoever cancels it.
    """
    try:
        await Work(client, running).done(work)
    except ClientGone:
        """Nobody is left to be told."""
    except CutOff:
        return False
    return True


async def _stream(reply: Reply, client: Client, form: Form, *, started: bool) -> None:
    """Send a reply to a client that streams: as events, or an error with its status if that is not out yet."""
    is_answer = reply.status == _OK and reply.body is None
    if not is_answer and not started:
        await client.whole(reply)
        return
    events = b"".join(form.events(reply.document) if is_answer else form.error_events(reply.document))
    if not started:
        await client.start_events(reply.headers)
    await client.some(events, last=True)
