"""A server that sends its reply byte by byte, or never ends it, is waited for no longer than the timeout."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from judges import Helpfulness, OpenAICompatible
from judges.runtime.budget import Allowance
from judges.runtime.observation import within

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
    "flood": drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
}
MOST_DROPS = 400
"""How many drops there are: they take twenty seconds, at the least."""

MOST_AT_ONCE = 10_000
"""How many there are without a pause: more than a connection holds, and than is read in seconds."""


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


def breach_of(where: str, *, timeout_s: float = 0.3, deadline_s: float | None = None) -> str | None:
    """Ask once, and return what was said if it was no timeout, or came only when the script was over."""
    over: list[str] = []
    most, pause_s = (MOST_AT_ONCE, 0.0) if where == "flood" else (MOST_DROPS, 0.05)

    def script() -> Iterator[bytes]:
        yield from itertools.islice(SCRIPTS[where](), most)
        over.append(where)

    with (
        dripping(script, pause_s) as url,
        OpenAICompatible(url, model="m", timeout_s=timeout_s, retries=0) as model,
        within(None if deadline_s is None else Allowance(seconds=deadline_s)),
    ):
        verdict = Helpfulness(model)(question="q", answer="an answer that is long enough")
        in_time = verdict.unscored == "deadline" or (
            verdict.unscored == "judge_failed" and "Timeout" in verdict.detail
        )
        return None if in_time and not over else f"{where}: {verdict.unscored} {verdict.detail} {over}"


def test_a_dripping_reply_ends_with_the_timeout() -> None:
    """Wherever it drips, and without a pause too, the whole exchange takes no longer than `timeout_s`."""
    with ThreadPoolExecutor(len(SCRIPTS)) as threads:
        assert [breach for breach in threads.map(breach_of, SCRIPTS) if breach] == []


def test_a_dripping_reply_ends_with_the_deadline() -> None:
    """A deadline that is nearer than the timeout counts."""
    assert breach_of("header", timeout_s=60, deadline_s=0.3) is None
