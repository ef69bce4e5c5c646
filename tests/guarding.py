"""A guard for tests: the real server on loopback, in a thread of its own, in front of a scripted upstream."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import httpx2

from refine.server import RunningGuard
from refine.server.service import Service

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def rates(answer: str) -> dict[str, Any]:
    """Rate an answer by what it says of itself: `good` is a 4, `fair` a 3, anything else a 1."""
    rating = 4 if "good" in answer else 3 if "fair" in answer else 1
    return {"rating": rating, "feedback": "Be good, SECRET-FEEDBACK.", "rationale": "SECRET-RATIONALE"}


def accepts(answer: str) -> dict[str, Any]:
    """Accept anything."""
    return {"rating": 4, "feedback": answer[:0]}


def breaks(answer: str) -> int:
    """Fail to judge."""
    raise RuntimeError("the judge is down")


@dataclass(frozen=True)
class Guarded:
    """A guard that runs.

    Args:
        url: Its base URL.
        service: What its routes share.
        client: Asks it.
        page_url: Where its page is, if it has one.
    """

    url: str
    service: Service
    client: httpx2.Client
    page_url: str | None = None

    @property
    def root(self) -> str:
        """The address without `/v1`."""
        return self.url.removesuffix("/v1")

    def post(self, path: str, body: object = None, **settings: Any) -> httpx2.Response:
        """Post JSON to a path below the root."""
        return self.client.post(f"{self.root}{path}", content=json.dumps(body), **settings)

    def get(self, path: str, **settings: Any) -> httpx2.Response:
        """Get a path below the root."""
        return self.client.get(f"{self.root}{path}", **settings)

    def connect(self, *, seconds: float = 10.0) -> socket.socket:
        """Open a connection, for bytes that no client would send."""
        host, _, port = self.root.removeprefix("http://").partition(":")
        return socket.create_connection((host, int(port)), timeout=seconds)

    def exchange(self, *parts: bytes, pause_s: float = 0.0, end: bytes | None = None) -> bytes:
        """Send bytes piece by piece, and return what comes until `end`, or until the connection is closed.

        With an `end`, what came within the time is returned where it does not come.
        """
        received, may_be_late = b"", () if end is None else (TimeoutError,)
        with self.connect(seconds=5.0) as connection:
            with suppress(ConnectionError):
                for part in parts:
                    connection.sendall(part)
                    time.sleep(pause_s)
            with suppress(ConnectionError, *may_be_late):
                while (end is None or not received.endswith(end)) and (data := connection.recv(65_536)):
                    received += data
        return received

    def chat(self, **fields: Any) -> httpx2.Response:
        """Ask a question as chat completions."""
        headers = fields.pop("headers", None)
        return self.post("/v1/chat/completions", {"model": "m", "messages": QUESTION, **fields}, headers=headers)


_BESIDE: list[ThreadPoolExecutor] = []
_AWAITED = frozenset({"drain_s", "record", "webhooks"})
"""Settings of a guard whose end does something that a test looks at."""


@contextmanager
def ending_beside_tests() -> Iterator[None]:
    """End guards beside the tests that follow while the block runs, at whose end they have ended."""
    with ThreadPoolExecutor(4) as pool:
        _BESIDE.append(pool)
        yield
        _BESIDE.clear()


@contextmanager
def guarding(upstream: str | None, **settings: Any) -> Iterator[Guarded]:
    """Run a guard while the block runs; settings are those of the configuration's top.

    Its end, which takes 0.3 s, is waited for where there is something to see; see `ending_beside_tests`.
    """
    common = {"upstream": upstream, "judge": "tests.guarding:rates", "drain_s": 0.0}
    end = ExitStack()
    guard = end.enter_context(RunningGuard({**common, **settings}))
    try:
        with httpx2.Client(timeout=60, trust_env=False, verify=False) as client:
            yield Guarded(guard.url, guard.service, client, guard.page_url)
    finally:
        if _BESIDE and _AWAITED.isdisjoint(settings):
            _BESIDE[0].submit(end.close)
        else:
            end.close()


def wait_until(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """Wait until something holds, or fail."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about in time"
        time.sleep(0.005)


def events_of(text: str) -> list[str]:
    """List the data of the events in a stream."""
    return [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
