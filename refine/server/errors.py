"""Errors that the guard itself answers with, and bodies of requests; an upstream's errors go on as they are.

ApiError               any error with a status, written in the form of the dialect that was asked
└── UpstreamFailed     no reply that can be used came from the upstream
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from starlette.types import Receive

from graphs import RefineError
from refine.server.config import RequestLimits

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    422: "answer_not_accepted",
    429: "rate_limit_error",
    431: "request_too_large",
    502: "upstream_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class ApiError(RefineError):
    """An error that the guard answers with.

    Args:
        status: HTTP status.
        message: One line: what is wrong and what to do; without judged text and without a secret.
        code: What a program can tell the error by, for instance `"body_too_large"`.
        param: The field of the request that is wrong.
        retry_after_s: Seconds after which the same request may succeed.
        allow: The methods that the path takes, for a status 405.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        retry_after_s: float | None = None,
        allow: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s
        self.allow = allow

    @property
    def kind(self) -> str:
        """The type of the error, as OpenAI and Anthropic call it."""
        return _KINDS.get(self.status, "api_error")

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of the response, `retry-after` in whole seconds."""
        headers = [(b"allow", self.allow.encode())] if self.allow else []
        if self.retry_after_s is not None:
            headers.append((b"retry-after", str(max(1, math.ceil(self.retry_after_s))).encode()))
        return headers


class UpstreamFailed(ApiError):  # noqa: N818 - what the upstream did
    """No reply that can be used: no connection, none in time, or no such thing as a reply."""


def openai_error(error: ApiError) -> dict[str, Any]:
    """Return the body of an error as OpenAI writes it."""
    return {"error": {"message": str(error), "type": error.kind, "param": error.param, "code": error.code}}


_DRAINED = 2
"""How many times the limit is read before an error is sent, which many clients read only after their body."""


class ClientGone(Exception):  # noqa: N818 - what happened
    """The client left before its request was complete."""


BUSY = "server_busy"
"""Code of the error for a request that there was no room for."""


class ByteBudget:
    """Counts the bytes of all bodies that are held at once.

    Args:
        most: Most of them.
    """

    def __init__(self, most: int) -> None:
        self.left = most

    @contextmanager
    def request(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of one request, in a `with` block that ends with the request; yields what holds some.

        Raises:
            ApiError: If all requests together would hold too many (503).
        """
        held: list[int] = []

        def take(size: int) -> None:
            if size > self.left:
                text = "the server holds as many bytes as it may; try again"
                raise ApiError(503, text, code=BUSY, retry_after_s=1)
            self.left -= size
            held.append(size)

        try:
            yield take
        finally:
            self.left += sum(held)


async def read_body(
    receive: Receive, headers: Mapping[str, str], limits: RequestLimits, hold: Callable[[int], None]
) -> bytes:
    """Read the body of a request.

    Raises:
        ApiError: If it is too large (413), or not complete in time (408), or there is no room for it (503).
        ClientGone: If the client leaves.
    """
    too_large = _promised(headers) > limits.max_body_bytes
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            return await _read(receive, limits.max_body_bytes, hold, too_large=too_large)
    except TimeoutError:
        raise _too_slow(limits) from None


async def _read(receive: Receive, most: int, hold: Callable[[int], None], *, too_large: bool) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= most * _DRAINED:
        part, more = await _next_part(receive)
        size += len(part)
        too_large = too_large or size > most
        if too_large:
            parts.clear()
        else:
            hold(len(part))
            parts.append(part)
    if too_large:
        raise _too_large(most)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _next_part(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)


def _promised(headers: Mapping[str, str]) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isdigit() else 0


def _too_large(most: int) -> ApiError:
    return ApiError(413, f"the body is larger than {most:,} bytes; send a smaller one", code="body_too_large")


def _too_slow(limits: RequestLimits) -> ApiError:
    text = f"the body was not complete within {limits.body_timeout_s:g} s; send it again"
    return ApiError(408, text, code="body_timeout")


class PassedBody:
    """The body of a request that passes through, handed on part by part.

    Args:
        receive: ASGI's receive.
        headers: Headers of the request.
        limits: Limits of a request; each part must come in time, not the whole.

    Raises:
        ApiError: If it is known to be too large (413).
    """

    def __init__(self, receive: Receive, headers: Mapping[str, str], limits: RequestLimits) -> None:
        if _promised(headers) > limits.max_passed_bytes:
            raise _too_large(limits.max_passed_bytes)
        self._receive = receive
        self._limits = limits
        self._begun: deque[bytes] = deque()
        self._more = True
        self._size = 0
        self.error: Exception | None = None
        """What went wrong while it was handed on, whatever the upstream's client makes of it."""
        self.complete = asyncio.Event()
        """Set once nothing of it is left to receive."""

    async def peek(self, size: int) -> bytes:
        """Return its beginning, of at least so many bytes if there are as many; it is handed on all the same."""
        while self._more and self._size < size:
            self._begun.append(await self._next())
        return b"".join(self._begun)

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield all of it."""
        try:
            while self._begun or self._more:
                part = self._begun.popleft() if self._begun else await self._next()
                if part:
                    yield part
        except (ApiError, ClientGone) as error:
            self.error = error
            raise
        finally:
            self.complete.set()

    async def _next(self) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_timeout_s):
                part, self._more = await _next_part(self._receive)
        except TimeoutError:
            raise _too_slow(self._limits) from None
        self._size += len(part)
        if self._size > self._limits.max_passed_bytes:
            raise _too_large(self._limits.max_passed_bytes)
        return part
