"""The model that is guarded: requests go out over connections that stay open, and come back as they are.

Only the configured address is ever called: redirects are not followed, proxy variables are not read, and nothing
in a request chooses a host.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn, Self

import aiohttp
from pydantic import SecretStr
from yarl import URL

from judges.errors import AskFailed
from judges.models.providers.direct_post import DirectPost
from judges.models.providers.http import checked_address, with_trace
from judges.models.providers.http_errors import EndpointReplyError
from judges.models.providers.sessions import Sessions
from judges.models.wrappers.breaker import Breaker
from refine.server.errors import ApiError, UpstreamFailed
from refine.server.requests import RawHeaders, to_client


class _CallResult:
    """How one call ended; set `failed` where the upstream did not answer, or answered that it cannot.

    Args:
        breaker: What counts it; None where nothing does.
        probe: Whether it is the one call that tries an open circuit.
    """

    __slots__ = ("_breaker", "_probe", "failed")

    def __init__(self, breaker: Breaker | None = None, *, probe: bool = False) -> None:
        self.failed = False
        self._breaker = breaker
        self._probe = probe

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, raised: BaseException | None, trace: object) -> None:
        if self._breaker is not None:
            ended = ConnectionError() if raised is None and self.failed else raised
            self._breaker.settle(ended, probe=self._probe)


class UpstreamBreaker:
    """Opens after some failures in a row; after a cooldown one call is let through to try.

    Args:
        failures: How many failures in a row open the circuit; 0 never does.
        cooldown_s: Seconds until one call is let through again.
        clock: Monotonic clock in seconds, for tests.
    """

    def __init__(
        self, failures: int = 10, *, cooldown_s: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cooldown_s = cooldown_s
        self._breaker = Breaker(failures, cooldown_s=cooldown_s, clock=clock) if failures else None

    def call(self) -> _CallResult:
        """Let a call through in a `with` block, and count how it ended; one that is cancelled does not count.

        Raises:
            ApiError: If the circuit is open.
        """
        if self._breaker is None:
            return _CallResult()
        try:
            return _CallResult(self._breaker, probe=self._breaker.admit())
        except AskFailed:
            raise ApiError(
                503,
                f"the upstream does not answer; try again in {math.ceil(self._cooldown_s)} s",
                code="upstream_circuit_open",
                retry_after_s=self._cooldown_s,
            ) from None


_CONNECTING_S = 10.0
_IDLE_S = 4.0
"""Seconds that a connection is kept unused: below the 5 s after which common servers close theirs."""
_CONNECTIONS = 4_096
_LARGE = 1 << 20
_UNAVAILABLE = frozenset({500, 502, 503, 504})
_STATUSES = range(200, 600)


@dataclass(slots=True)
class UpstreamReply:
    """A whole response; its repr shows only the status, since a body may quote the key or the prompt.

    Args:
        status: HTTP status.
        kind: The content type.
        headers: The headers to pass on.
        body: The body, not compressed.
    """

    status: int
    kind: str = field(repr=False)
    headers: RawHeaders = field(repr=False)
    body: bytes = field(repr=False)


class Upstream:
    """An address, its key and the connections to it.

    Args:
        base_url: Address of the API, without `/chat/completions`.
        key: The operator's key; None sends the caller's, an empty one none at all.
        key_header: The header for the operator's key; None takes the usual one of the API.
        timeout_s: Seconds until a reply must be complete.
        max_reply_bytes: Most bytes of a reply that are read.
        breaker: Refuses calls while the upstream does not answer.

    Raises:
        judges.ConfigurationError: If the address is none.
    """

    def __init__(
        self,
        base_url: str,
        *,
        key: SecretStr | None,
        key_header: str | None = None,
        timeout_s: float = 600.0,
        max_reply_bytes: int = 50_000_000,
        breaker: UpstreamBreaker | None = None,
    ) -> None:
        url = checked_address(base_url)
        self.origin = f"{url.scheme}://{url.hostname}{f':{url.port}' if url.port else ''}"
        self._base = f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"
        self._query = f"?{url.query}" if url.query else ""
        self._key = key
        self._key_header = key_header
        self._timeout_s = timeout_s
        self._max_reply_bytes = max_reply_bytes
        self._breaker = breaker or UpstreamBreaker()
        self._sessions = Sessions(self._new_session)
        self._posts: dict[str, DirectPost] = {}

    def __repr__(self) -> str:
        return f"Upstream({self.origin!r})"

    @property
    def url(self) -> str:
        """The whole address, which may hold what is not for a log."""
        return f"{self._base}{self._query}"

    def credentials(self, caller: Mapping[str, str], header: str) -> Mapping[str, str]:
        """Return the headers that authenticate: the operator's key, or else the caller's own, as they came.

        Args:
            caller: Headers with the caller's key for the upstream.
            header: The header for the operator's key, unless a setting names another.
        """
        if self._key is None:
            return caller
        name, key = self._key_header or header, self._key.get_secret_value()
        if not key:
            return {}
        return {name: f"Bearer {key}" if name == "authorization" else key}

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> UpstreamReply:
        """Post JSON and return the whole response, whatever its status.

        Raises:
            UpstreamFailed: If there is no response, or it is too large.
            ApiError: If the breaker is open.
        """
        post = self._posts.get(path) or self._posts.setdefault(path, self._post_to(path))
        session = self._sessions.opened() or await self._sessions.current()
        with self._breaker.call() as outcome:
            try:
                reply = await post(session, body, with_trace(headers), seconds=self._timeout_s)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                outcome.failed = True
                failure = self._failure(error)
            except EndpointReplyError:
                failure = UpstreamFailed(
                    502,
                    f"the upstream's reply is larger than {self._max_reply_bytes:,} bytes",
                    code="upstream_reply",
                )
            else:
                outcome.failed = reply.status in _UNAVAILABLE
                _check_status(reply.status)
                kind = reply.headers.get("content-type", "application/json")
                return UpstreamReply(reply.status, kind, to_client(reply.headers.items()), reply.body)
        raise failure

    @asynccontextmanager
    async def opened(
        self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open any request, to pass its response on as it comes.

        Raises:
            UpstreamFailed: If there is no response.
            ApiError: If the breaker is open.
        """
        session = await self._sessions.current()
        url = self._target(path, query)
        data = body if body is None or len(body) < _LARGE else io.BytesIO(body)
        with self._breaker.call() as outcome:
            try:
                response = await session.request(
                    method, url, data=data, headers=with_trace(headers), allow_redirects=False
                )
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                outcome.failed = True
                self._fail(error)
            outcome.failed = response.status in _UNAVAILABLE
        async with response:
            _check_status(response.status)
            yield response

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._sessions.close()

    def _post_to(self, path: str) -> DirectPost:
        return DirectPost(self._target(path, ""), most_bytes=self._max_reply_bytes)

    def _target(self, path: str, query: str) -> URL:
        joined = "&".join(part for part in (self._query.removeprefix("?"), query) if part)
        return URL(f"{self._base}{path}{f'?{joined}' if joined else ''}", encoded=True)

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=_CONNECTING_S),
            connector=aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=_IDLE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("user-agent",),
        )

    def _fail(self, error: BaseException) -> NoReturn:
        raise self._failure(error) from None

    def _failure(self, error: BaseException) -> ApiError:
        if isinstance(error, TimeoutError):
            return UpstreamFailed(504, "the upstream gave no whole reply in time", code="upstream_timeout")
        if isinstance(error, aiohttp.ClientConnectorError):
            return UpstreamFailed(502, "there is no connection to the upstream", code="upstream_unreachable")
        return UpstreamFailed(502, "the connection to the upstream broke", code="upstream_broken")


def _check_status(status: int) -> None:
    """Refuse a status that no server may pass on: one that ends no request, or none of HTTP's."""
    if status not in _STATUSES:
        raise UpstreamFailed(502, f"the upstream answered with status {status}", code="upstream_reply")
