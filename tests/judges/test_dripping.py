"""A server that sends its reply byte by byte, or never ends it, is waited for no longer than the timeout."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest

from judges import Helpfulness, OpenAICompatible
from judges.runtime.budget import Allowance, within

Script = Callable[[], Iterable[bytes]]

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def drips(before: bytes, drop: bytes) -> Script:
    """Send something at once, and then a drop again and again."""
    return lambda: itertools.chain([before], itertools.repeat(drop))


SCRIPTS: dict[str, Script] = {
    "status line": drips(b"HTTP/1.1 200 ", b"O"),
    "header": drips(OK, b"x"),
    "headers": drips(OK, b"a: b\r\n"),
    "body": drips(OK + b"Content-Length: 5000\r\n\r\n", b"x"),
    "body to the end": drips(OK + b"Connection: close\r\n\r\n", b"x"),
    "size of a chunk": drips(CHUNKED, b"0"),
    "extension of a chunk": drips(CHUNKED + b"5;", b"x"),
    "chunks": drips(CHUNKED, b"1\r\nx\r\n"),
    "trailer": drips(CHUNKED + b"0\r\n", b"x"),
    "trailers": drips(CHUNKED + b"0\r\n", b"x: y\r\n"),
    "100 Continue": drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "nothing": drips(b"", b""),
}


@contextmanager
def dripping(script: Script, pause_s: float = 0.05) -> Iterator[str]:
    """Serve a script to each connection, and yield the address."""
    over = threading.Event()

    def reply(connection: socket.socket) -> None:
        with connection:
            connection.recv(65_536)
            try:
                for part in script():
                    connection.sendall(part)
                    if over.wait(pause_s):
                        return
            except OSError:
                return

    def accept() -> None:
        with listener:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                threading.Thread(target=reply, args=[connection], daemon=True).start()

    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    port = listener.getsockname()[1]
    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        over.set()
        accepting.join()


def seconds_until_failure(url: str, *, timeout_s: float, deadline_s: float | None = None) -> float:
    """Ask once, check that it is reported as a timeout, and return how long it took."""
    with OpenAICompatible(url, model="m", timeout_s=timeout_s, retries=0) as model:
        started = time.monotonic()
        with within(None if deadline_s is None else Allowance(seconds=deadline_s)):
            verdict = Helpfulness(model)(question="q", answer="an answer that is long enough")
    assert verdict.unscored in ("judge_failed", "deadline")
    assert "Timeout" in verdict.detail or verdict.unscored == "deadline"
    return time.monotonic() - started


@pytest.mark.parametrize("where", SCRIPTS)
def test_a_dripping_reply_ends_with_the_timeout(where: str) -> None:
    """Wherever it drips, the whole exchange takes no longer than `timeout_s`."""
    with dripping(SCRIPTS[where]) as url:
        assert seconds_until_failure(url, timeout_s=0.3) < 1.5


def test_a_flood_ends_with_the_timeout_too() -> None:
    """Interim replies without end and without a pause are not read for longer."""
    with dripping(drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50), pause_s=0) as url:
        assert seconds_until_failure(url, timeout_s=0.3) < 1.5


def test_a_dripping_reply_ends_with_the_deadline() -> None:
    """A deadline that is nearer than the timeout counts."""
    with dripping(SCRIPTS["header"]) as url:
        assert seconds_until_failure(url, timeout_s=30, deadline_s=0.3) < 1.5
