"""What the guard needs of uvicorn's insides: slow or large headers, bodies that go on, and an end in two steps."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import re
import signal
import socket
import struct
import sys
from asyncio import TimerHandle, Transport
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from selectors import EVENT_READ, DefaultSelector
from types import FrameType
from typing import Any

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from refine.server.access import request_headers
from refine.server.config import ServerSettings
from refine.server.dialects import form_for
from refine.server.errors import ApiError
from refine.server.service import GuardApp, Service, refuse_at_end

_KEEP_ALIVE_S = 75
"""Seconds that an idle connection is kept: longer than the load balancers in front, which keep theirs 60 s."""


_LINGER_S = 2.0
"""Seconds in which the rest of a body is thrown away after the response, before the connection is closed."""
_LAST_READ_S = 0.1
"""Seconds at the server's end in which begun connections are taken, and then those without a request kept."""
_ATTACH_FILTER = 26
_NO_FIRST_PACKETS = struct.pack("HBBI" * 4, 0x30, 0, 0, 13, 0x45, 0, 1, 2, 6, 0, 0, 0, 6, 0, 0, 0xFFFFFFFF)
"""A filter of Linux: drop what has TCP's flag SYN, the 2 in byte 13, with which a connection begins."""
_log = logging.getLogger("refine.server")


class _Protocol(HttpToolsProtocol):
    """Closes a connection whose headers are too slow or too large, or whose body goes on after the response.

    What is left of a body is thrown away for a while, since closing at once would cost the client the response.
    What is no HTTP, and who asks for a WebSocket, is refused in words; neither makes the log longer. Who offers to
    go on in HTTP/2, as Java's client does, is answered in HTTP/1.1. What follows a body (trailers) is no header: a
    proxy in front sets and removes headers, and would have seen none of it.
    """

    service: Service
    header_s = 10.0
    header_bytes = 32_768

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn itself narrows it
        super().connection_made(transport)
        self._read = self._counted = 0
        self._headers_due: TimerHandle | None = self._deadline()
        self._lingering: TimerHandle | None = None
        self._is_refused = self._is_upgrade = self._has_cycle = False
        self._unanswered = 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        self._body_over()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
            if self._headers_due is not None and self._read:
                self._count_headers()
        except HttpParserUpgrade as upgrade:
            if not self._is_refused:
                self._read_again(data[upgrade.args[0] :])
        except HttpParserError as error:
            _log.debug("a client sent what is no HTTP: %s", type(error).__name__)
            self._refuse(ApiError(400, "this is no HTTP request that can be read", code="invalid_http"))

    def _read_again(self, rest: bytes) -> None:
        """Read a request that asks for another protocol as one that does not; the parser stops before its body.

        Args:
            rest: What came after its headers.
        """
        self._unanswered -= 1
        lines = [self.parser.get_method(), b" ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                lines += [name, b": ", value, b"\r\n"]
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self.data_received(b"".join([*lines, b"\r\n", rest]))

    def let_end(self) -> None:
        """Let the response that is on its way, or else the next, be the last, and let it say so."""
        if self._has_cycle and not self.cycle.response_complete:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close the connection at the server's end; what was sent, and nobody has read yet, is answered."""
        self.let_end()
        self.loop.call_later(_LAST_READ_S, self._close_unused)

    def cut(self) -> None:
        """Refuse a request that has not come as a whole, as there is no more time for it."""
        if not self._has_cycle or not self.cycle.response_started:
            self._refuse(refuse_at_end())

    def _close_unused(self) -> None:
        """Close the connection unless a request has begun, or lies there unread: it would be lost."""
        if self._unanswered or self.transport.is_closing():
            return
        if _is_waiting(self.transport.get_extra_info("socket").fileno()):
            self.loop.call_later(_LAST_READ_S, self._close_unused)
        else:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._unanswered += 1
        self._read = self._counted = 0
        if self._headers_due is None:
            self._headers_due = self._deadline()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_headers_complete(self) -> None:
        self._count_headers()
        self._in_time()
        self._is_upgrade = self.parser.should_upgrade()
        if self._is_upgrade and (self._get_upgrade() == b"websocket" or self.parser.get_method() == b"CONNECT"):
            self._refuse(ApiError(400, "there is nothing but HTTP here; ask without `Upgrade`", code="no_upgrade"))
        named = dict(self.headers)
        if named.get(b"transfer-encoding", b"chunked").strip().lower() != b"chunked":
            text = "of transfer codings there is chunked alone; send the body plain"
            self._refuse(ApiError(501, text, code="unknown_coding"))
        if self.parser.get_http_version() not in ("1.0", "1.1"):
            self._refuse(ApiError(505, "the server speaks HTTP/1.0 and HTTP/1.1", code="unknown_version"))
        if not named.get(b"host") and self.parser.get_http_version() == "1.1":
            self._refuse(ApiError(400, "the request names no host, as HTTP/1.1 wants", code="no_host"))
        if not self.url.startswith(b"/") or b"#" in self.url:
            self._read_target()
        if not self._is_refused and not self._is_upgrade:
            super().on_headers_complete()
            self._has_cycle = True
            if self.service.draining:
                self.let_end()
            self.headers = deque(maxlen=0)  # type: ignore[assignment]  # what comes now are trailers

    def _read_target(self) -> None:
        """Take the host from an address that names one, in place of the header, as RFC 9112 (3.2.2) wants."""
        if self.url == b"*" and self.parser.get_method() == b"OPTIONS":
            return
        scheme = (parse_url(self.url).schema or b"").lower()
        address = self.url[len(scheme) + len(b"://") :]
        authority = re.split(rb"[/?]", address, maxsplit=1)[0]
        if scheme not in (b"http", b"https") or b"@" in authority or b"#" in self.url:
            text = "a request names a path, or an address of http or https without user and fragment"
            self._refuse(ApiError(400, text, code="invalid_target"))
            return
        headers = [(name, authority if name == b"host" else value) for name, value in self.headers]
        self.headers[:] = headers if b"host" in dict(headers) else [*headers, (b"host", authority)]
        self.url = b"/" + address[len(authority) :].removeprefix(b"/")

    def on_body(self, body: bytes) -> None:
        if not self._is_refused and not self._is_upgrade:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_over()
        if not self._is_refused and not self._is_upgrade:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._unanswered -= 1
        if self.cycle.more_body:
            self._lingering = self.loop.call_later(_LINGER_S, self.transport.close)

    def _body_over(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

    def _count_headers(self) -> None:
        """Count the headers that came since the last time."""
        new = self.headers[self._counted :]
        self._counted += len(new)
        self._count(sum(map(len, chain.from_iterable(new))))

    def _count(self, size: int) -> None:
        before, self._read = self._read, self._read + size
        if before <= self.header_bytes < self._read:
            error = ApiError(
                431, f"the headers are larger than {self.header_bytes:,} bytes", code="headers_too_large"
            )
            self._refuse(error)

    def _deadline(self) -> TimerHandle:
        return self.loop.call_later(self.header_s, self._too_slow)

    def _in_time(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _too_slow(self) -> None:
        error = ApiError(408, f"the headers were not complete within {self.header_s:g} s", code="header_timeout")
        self._refuse(error)

    def _refuse(self, error: ApiError) -> None:
        """Answer and close, outside of any request; what is being answered before it still is."""
        if self._is_refused:
            return
        self._is_refused = True
        if self._has_cycle and not self.cycle.response_complete and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        path, headers = (self.url, self.scope["headers"]) if self._read else (b"", [])
        form = form_for(path.decode("latin-1").partition("?")[0], request_headers(headers))
        body = json.dumps(form.error_body(error)).encode()
        head = (
            f"HTTP/1.1 {error.status} Error\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        if not self.transport.is_closing():
            self.transport.write(head.encode() + body)
            self.transport.close()


def _is_waiting(descriptor: int) -> bool:
    """Check whether something waits to be read or to be accepted; a slow event loop may not have come to it."""
    with DefaultSelector() as selector:
        selector.register(descriptor, EVENT_READ)
        return bool(selector.select(0))


class GuardServer(uvicorn.Server):
    """Stops in two steps: `/readyz` says no for a while, then nothing new is taken and what is in flight finishes.

    Args:
        app: The application.
        settings: Settings of the server.
    """

    def __init__(self, app: GuardApp, settings: ServerSettings) -> None:
        of_protocol: dict[str, Any] = {
            "service": app.service,
            "header_s": settings.header_timeout_s,
            "header_bytes": settings.max_header_bytes,
        }
        super().__init__(
            uvicorn.Config(
                app,
                http=type("_Protocol", (_Protocol,), of_protocol),
                ws="none",
                lifespan="on",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                log_config=None,
                log_level="warning",
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, int(settings.drain_s) + 2),
            )
        )
        self._service = app.service
        self._ready_s = settings.ready_s
        self._drain_s = settings.drain_s
        self._is_closing = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; the second signal does not wait for load balancers, the third for nothing."""
        if self._is_closing:
            super().handle_exit(sig, frame)
            return
        self._captured_signals.append(sig)
        self._service.draining = self._is_closing = True
        wait = 0.0 if sig == signal.SIGINT else self._ready_s
        asyncio.get_running_loop().call_soon_threadsafe(self._begin_to_stop, wait)

    def _begin_to_stop(self, wait_s: float) -> None:
        """Let each response from now on be the last of its connection, and stop after a while."""
        for connection in self._connections:
            connection.let_end()
        asyncio.get_running_loop().call_later(wait_s, self._stop_listening)

    def _stop_listening(self) -> None:
        self.should_exit = True

    @property
    def _connections(self) -> list[_Protocol]:
        return [one for one in self.server_state.connections if isinstance(one, _Protocol)]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; requests that are not finished after the drain get an error instead of a broken connection."""
        self._service.draining = True
        await self._take_last(sockets or [])
        ending = asyncio.ensure_future(self._end_connections())
        try:
            await super().shutdown(sockets)
        finally:
            ending.cancel()
            with suppress(asyncio.CancelledError):
                await ending

    async def _take_last(self, sockets: Sequence[socket.socket]) -> None:
        """Take whoever has connected, and let nobody new begin to.

        A connection that is not accepted when its listening socket is closed is reset by the kernel, with all that
        was sent over it. Linux can keep new ones from beginning; their clients ask again, and are refused then.
        """
        instructions = ctypes.create_string_buffer(_NO_FIRST_PACKETS)
        program = struct.pack("HP", len(_NO_FIRST_PACKETS) // 8, ctypes.addressof(instructions))
        for sock in sockets if sys.platform == "linux" else ():
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
        self._shut_down_connections()
        await asyncio.sleep(_LAST_READ_S)
        while any(_is_waiting(sock.fileno()) for sock in sockets):  # noqa: ASYNC110 - the kernel says it to nobody
            await asyncio.sleep(0)

    async def _end_connections(self) -> None:
        """End what was accepted last, and after the drain all that is left."""
        await asyncio.sleep(_LAST_READ_S)
        self._shut_down_connections()
        await asyncio.sleep(self._drain_s)
        for work in list(self._service.running):
            work.cancel()
        await asyncio.sleep(_LAST_READ_S)
        for connection in self._connections:
            connection.cut()

    def _shut_down_connections(self) -> None:
        for connection in self._connections:
            connection.shutdown()
