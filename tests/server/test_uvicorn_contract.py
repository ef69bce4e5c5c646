"""What uvicorn does that `refine.server.uvicorn_private` relies on, one fact a test.

The application here is the smallest that shows the fact. Where a test fails after an upgrade, its name says what
uvicorn no longer does.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import signal
import socket
import threading
from asyncio import Transport
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvicorn
from httptools import HttpParserUpgrade
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tests.guarding import wait_until

ROOT = Path(__file__).parents[2]


async def answer_at_once(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer before the body was read."""
    del scope, receive
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class _Observed(HttpToolsProtocol):
    """Writes down what uvicorn calls, and what there is then."""

    calls: ClassVar[list[tuple[str, Any]]] = []

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        super().connection_made(transport)
        self.calls.append(("connection_made", self.transport is transport))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.calls.append(("connection_lost", None))

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self.calls.append(("upgrade", (self._get_upgrade(), data[upgrade.args[0] :])))
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.calls.append(("on_message_begin", (self.url, list(self.headers))))

    def on_headers_complete(self) -> None:
        self.calls.append(("on_headers_complete", (self.url, list(self.headers), self.parser.should_upgrade())))
        if not self.parser.should_upgrade():
            super().on_headers_complete()
            is_known = self in self.server_state.connections
            self.calls.append(("cycle", (self.cycle.response_started, self.cycle.keep_alive, is_known)))
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.calls.append(("on_response_complete", (self.cycle.response_complete, self.cycle.more_body)))


Exchange = Callable[[bytes], tuple[bytes, dict[str, Any]]]


@pytest.fixture(scope="module")
def exchange() -> Iterator[Exchange]:
    """Serve in a thread, and give what sends bytes, and returns what comes of them, and what uvicorn called."""
    sock = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(answer_at_once, http=_Observed, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([sock])))
    thread.start()

    def send(sent: bytes) -> tuple[bytes, dict[str, Any]]:
        _Observed.calls = []
        with socket.create_connection(sock.getsockname(), timeout=10) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: connection.recv(4_096), b""))
        wait_until(lambda: _Observed.calls[-1][0] == "connection_lost")
        return received, dict(_Observed.calls)

    yield send
    server.should_exit = True
    thread.join()


def test_one_module_alone_names_the_insides_of_uvicorn() -> None:
    """An upgrade of uvicorn can break one module, and these tests say how."""
    naming = {
        file.name
        for file in (ROOT / "refine").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("uvicorn.", "httptools"))
    }
    assert naming == {"uvicorn_private.py"}


def test_headers_are_in_lower_case_and_whole_before_they_are_complete(exchange: Exchange) -> None:
    """A request begins empty, and its address and headers stand in `url` and `headers` when they are complete."""
    _, calls = exchange(b"GET /a?b HTTP/1.1\r\nHost: x\r\nX-One: 1\r\nconnection: close\r\n\r\n")
    assert calls["connection_made"] is True
    assert calls["on_message_begin"] == (b"", [])
    headers = [(b"host", b"x"), (b"x-one", b"1"), (b"connection", b"close")]
    assert calls["on_headers_complete"] == (b"/a?b", headers, False)


def test_a_response_before_the_end_of_the_body_says_that_more_comes(exchange: Exchange) -> None:
    """`cycle.more_body` is true then, so that what is left can be thrown away for a while."""
    _, calls = exchange(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n123")
    assert calls["on_response_complete"] == (True, True)


def test_a_cycle_says_how_far_it_is_and_whether_the_connection_stays(exchange: Exchange) -> None:
    """`keep_alive = False` ends the connection, which stands in `connections` of the server's state until then."""
    reply, calls = exchange(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert calls["cycle"] == (False, True, True)
    assert b"connection: close" in reply.lower()


def test_a_request_for_another_protocol_stops_the_parser_after_the_headers(exchange: Exchange) -> None:
    """The parser raises with the place where the rest begins, and `_get_upgrade` names the protocol."""
    _, calls = exchange(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\nrest")
    assert calls["upgrade"] == (b"h2c", b"rest")
    assert calls["on_headers_complete"][2] is True


def test_a_server_ends_by_a_flag_and_keeps_the_signals_for_later() -> None:
    """`handle_exit` only sets the flag, and the signals in `_captured_signals` are raised again at the end."""
    server = uvicorn.Server(uvicorn.Config(answer_at_once))
    assert (server.started, server.should_exit, server._captured_signals) == (False, False, [])
    server.handle_exit(signal.SIGTERM, None)
    assert server.should_exit
    assert server._captured_signals == [signal.SIGTERM]
    assert list(inspect.signature(uvicorn.Server.shutdown).parameters) == ["self", "sockets"]
