"""Limits of what a client may take: bytes and seconds of a body, and requests at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import Receive

from judges.runtime.time_limit import time_limit
from refine.server.errors import ApiError

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
