"""The wire to an OpenAI-compatible endpoint: JSON is posted over connections that stay open.

Async calls go through aiohttp, sync calls through urllib3: the cheapest well-kept client of each kind. Each is
imported with its first request. Redirects are not followed, so the key never goes to another host than the one
named; proxy variables of the environment are not read; replies are asked for uncompressed, so none can swell.

EndpointError               a request to an endpoint came to nothing
├── EndpointStatusError     it was refused; carries the status
├── EndpointConnectionError no connection, or it broke: the same request may succeed later
├── EndpointTimeoutError    no whole reply in time: likewise
└── EndpointReplyError      the reply is not what such an endpoint sends
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from textwrap import shorten
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from judges import allowance
from judges.errors import ConfigurationError, JudgesError

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from urllib3 import BaseHTTPResponse, HTTPConnectionPool

LARGEST_REPLY = 10_000_000
"""Bytes of a reply that are read at most."""

CONNECTIONS = 1_000
"""Most connections at once of one event loop; of the threads of a process, most that are kept open."""

_CONNECTING_S = 10.0
_SHORTEST_S = 0.001
_CHUNK = 65_536
_LONGEST_DETAIL = 200
_KEPT_HEADERS = ("retry-after", "x-ratelimit-", "x-request-id", "x-should-retry")
_OWN_HEADERS = {"content-type": "application/json", "user-agent": "selfrefine"}
_AS_IT_IS = {"accept-encoding": "identity"}
_ADMISSION = {"api-key", "authorization", "x-api-key"}
_INSTALL = "install selfrefine[http]"


class EndpointError(JudgesError):
    """A request to an endpoint came to nothing. The message holds no key, no header and nothing of the prompt."""


class EndpointConnectionError(EndpointError, ConnectionError):
    """There is no connection, or it broke before the reply was whole."""


class EndpointTimeoutError(EndpointError, TimeoutError):
    """The reply was not there in time."""


class EndpointReplyError(EndpointError):
    """The reply is too large, or not what an OpenAI-compatible endpoint sends."""


@dataclass(frozen=True, slots=True)
class Told:
    """What an endpoint told beside its body: the status, and those headers that say when to come back."""

    status_code: int
    headers: dict[str, str]


class EndpointStatusError(EndpointError):
    """The endpoint answered with another status than 200.

    Args:
        message: What happened.
        status_code: The status.
        headers: Headers of the answer; those about waiting and limits are kept, in lower case.
    """

    def __init__(self, message: str, *, status_code: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status_code = status_code
        kept = {name.lower(): text for name, text in (headers or {}).items()}
        self.response = Told(status_code, {k: text for k, text in kept.items() if k.startswith(_KEPT_HEADERS)})


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP response; only its status is shown, for a body may quote the key or the prompt."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class _Session:
    """A session of one event loop. It closes with the loop, or when nobody has its endpoint any more."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.holder = _held(self)
        self._closing: asyncio.Task[None] | None = None

    def begin_to_close(self) -> None:
        """Close soon; to be called in the session's own loop."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self.close())

    async def close(self) -> None:
        """Close, once for all who ask."""
        begun = self._closing
        if begun is not None and begun is not asyncio.current_task():
            await asyncio.wait([begun])
        await self.session.close()  # does nothing the second time; the first may have been cancelled with the loop


async def _held(session: _Session) -> AsyncGenerator[None]:
    """Hold a session open: every loop closes its async generators as it ends, and this one closes the session."""
    try:
        yield
    finally:
        await session.close()


class Endpoint:
    """An address, what admits us there, and the connections to it; serves any number of threads and event loops.

    Args:
        base_url: Address under which `/chat/completions` lies; a query (Azure's `?api-version=...`) is kept.
        api_key: The key; None takes the environment's `OPENAI_API_KEY`, unless a header admits; empty: none.
        headers: Headers to send besides.
        timeout_s: Seconds until a reply must be there.

    Raises:
        ConfigurationError: If the address or a header cannot be used.
    """

    def __init__(
        self, base_url: str, *, api_key: str | None, headers: Mapping[str, str] | None, timeout_s: float
    ) -> None:
        self._url = _checked_url(base_url)
        self._origin = f"{self._url.scheme}://{self._url.netloc}"
        self._query = f"?{self._url.query}" if self._url.query else ""
        self._timeout_s = _checked_timeout(timeout_s)
        self._headers, portable = _secret_headers(api_key, headers or {})
        self._pickled = (self._url.geturl(), api_key, self._timeout_s) if portable else None
        self._sessions: dict[asyncio.AbstractEventLoop, _Session] = {}
        weakref.finalize(self, _leave, self._sessions).atexit = False
        self._pool: tuple[int, HTTPConnectionPool] | None = None
        self._lock = threading.Lock()

    @property
    def base_url(self) -> str:
        """The address, without its query."""
        return f"{self._origin}{self._url.path}"

    @property
    def timeout_s(self) -> float:
        """Seconds until a reply must be there."""
        return self._timeout_s

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pickled is None:
            raise ConfigurationError(
                "a model that holds a key or headers is not pickled, so that they are written nowhere; leave the "
                "key to the environment variable OPENAI_API_KEY of each process"
            )
        return _unpickled, self._pickled

    def post(self, path: str, body: bytes) -> Answer:
        """Post JSON and wait for the answer.

        Raises:
            EndpointError: If there is no answer, or it is too large.
            ConfigurationError: If urllib3 is missing.
        """
        pool = self._connections()
        try:
            return self._exchange(pool, self._target(path), body)
        except EndpointError:
            raise
        except Exception as error:  # noqa: BLE001 - sorted in one place
            failure = self._failure(error)
        raise failure  # outside the handler: a client's own error holds the headers sent

    async def apost(self, path: str, body: bytes) -> Answer:
        """Post JSON without blocking; otherwise as `post`, with aiohttp."""
        loop = asyncio.get_running_loop()
        opened = self._sessions.get(loop)
        session = await self._open(loop) if opened is None or opened.session.closed else opened.session
        url, limits = self._origin + self._target(path), self._limits(session)
        try:
            async with session.post(url, data=body, allow_redirects=False, **limits) as response:
                return Answer(response.status, response.headers, await self._body_of(response))
        except EndpointError:
            raise
        except Exception as error:  # noqa: BLE001 - sorted in one place
            failure = self._failure(error)
        raise failure

    def close(self) -> None:
        """Close the connections of sync calls. A later call opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and pool[0] == os.getpid():
            pool[1].close()

    async def aclose(self) -> None:
        """Close the connections of this event loop. A later call opens new ones."""
        opened = self._sessions.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.close()

    def _seconds(self) -> float:
        """Give the time a reply may take, which ends with the current allowance."""
        left = allowance.seconds_left()
        return self._timeout_s if left is None else max(_SHORTEST_S, min(left, self._timeout_s))

    def _limits(self, session: ClientSession) -> dict[str, Any]:
        """Give the limits of a request that must be over sooner than the session's own timeout."""
        seconds = self._seconds()
        if seconds == self._timeout_s:
            return {}
        return {"timeout": type(session.timeout)(total=seconds, sock_connect=min(_CONNECTING_S, seconds))}

    def _target(self, path: str) -> str:
        return f"{self._url.path}{path}{self._query}"

    def _connections(self) -> HTTPConnectionPool:
        """Give the pool of this process: connections inherited through a fork belong to the parent."""
        pool, process = self._pool, os.getpid()
        if pool is not None and pool[0] == process:
            return pool[1]
        with self._lock:
            if self._pool is None or self._pool[0] != process:
                self._pool = process, self._new_pool()
            return self._pool[1]

    def _new_pool(self) -> HTTPConnectionPool:
        try:
            import urllib3  # noqa: PLC0415 - an extra, opened with the first sync request
        except ImportError as error:
            raise ConfigurationError(f"to ask a model at {self._origin} from sync code, {_INSTALL}") from error
        return urllib3.connection_from_url(
            self._origin,
            headers=_plain(self._headers),
            timeout=urllib3.Timeout(connect=min(_CONNECTING_S, self._timeout_s), read=self._timeout_s),
            retries=False,
            maxsize=CONNECTIONS,
        )

    def _exchange(self, pool: HTTPConnectionPool, target: str, body: bytes) -> Answer:
        seconds = self._seconds()
        until = time.monotonic() + seconds
        timeout = pool.timeout if seconds == self._timeout_s else seconds
        response = pool.urlopen(
            "POST", target, body, timeout=timeout, redirect=False, preload_content=False, decode_content=False
        )
        try:
            return Answer(response.status, response.headers, self._read(response, until))
        except BaseException:
            response.close()
            raise

    def _read(self, response: BaseHTTPResponse, until: float) -> bytes:
        parts, size = [], 0
        while part := response.read1(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > LARGEST_REPLY:
                raise self._too_large()
            if time.monotonic() > until:
                raise TimeoutError
        response.release_conn()
        return b"".join(parts)

    async def _body_of(self, response: ClientResponse) -> bytes:
        promised = response.content_length
        if promised is not None and promised <= LARGEST_REPLY:
            return await response.read()
        if promised is not None:
            raise self._too_large()
        parts, size = [], 0
        async for part in response.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > LARGEST_REPLY:
                raise self._too_large()
        return b"".join(parts)

    def _too_large(self) -> EndpointReplyError:
        return EndpointReplyError(f"the reply of {self._origin} is larger than {LARGEST_REPLY:,} bytes")

    async def _open(self, loop: asyncio.AbstractEventLoop) -> ClientSession:
        """Open the session of an event loop: one made in another loop does not work in this one."""
        for other in [other for other in self._sessions if other is loop or other.is_closed()]:
            self._sessions.pop(other).session.detach()
        try:
            opened = _Session(_new_session({**_plain(self._headers), **_AS_IT_IS}, self._timeout_s))
        except ImportError as error:
            raise ConfigurationError(f"to ask a model at {self._origin} from async code, {_INSTALL}") from error
        await anext(opened.holder)
        self._sessions[loop] = opened
        return opened.session

    def _failure(self, error: Exception) -> Exception:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        name = type(error).__name__
        if "TimeoutError" in kinds and "NewConnectionError" not in kinds:
            return EndpointTimeoutError(f"no whole reply from {self._origin} in time")
        if kinds & {"ClientSSLError", "SSLError"}:
            return EndpointError(f"no secure connection to {self._origin} ({name})")
        if kinds & {"ClientError", "HTTPError", "OSError"}:
            return EndpointConnectionError(f"the connection to {self._origin} failed ({name})")
        return EndpointError(f"the request to {self._origin} failed ({name})")

    def refused(self, answer: Answer, hidden: Iterable[str]) -> EndpointStatusError:
        """Make the error of an answer that is no 200.

        Args:
            answer: The answer.
            hidden: Texts of which the message must show nothing, however the endpoint quotes them.
        """
        detail = error_in(answer.body)
        secrets = [text for name, text in _plain(self._headers).items() if name not in _OWN_HEADERS]
        shown = _without_words(shorten(detail, _LONGEST_DETAIL, placeholder=" ..."), [*secrets, *hidden])
        if 300 <= answer.status < 400:  # noqa: PLR2004 - HTTP's redirects
            shown = "redirects are not followed; give the address itself"
        message = f"{self._origin} answered with status {answer.status}{f': {shown}' if shown else ''}"
        return EndpointStatusError(message, status_code=answer.status, headers=answer.headers)


def error_in(body: bytes) -> str:
    """Read what an endpoint says is wrong, in OpenAI's, FastAPI's or Ollama's form; empty where it is silent."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = told.get("error", told.get("detail", told)) if isinstance(told, dict) else None
    if isinstance(error, list):
        error = next(iter(error), None)
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    place = error.get("loc")
    parts = [error.get(name) for name in ("message", "msg", "code", "param")]
    parts += place if isinstance(place, list) else []
    return " ".join(part for part in parts if isinstance(part, str))


def _new_session(headers: dict[str, str], timeout_s: float) -> ClientSession:
    import aiohttp  # noqa: PLC0415 - an extra, opened with the first async request

    return aiohttp.ClientSession(
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(_CONNECTING_S, timeout_s)),
        connector=aiohttp.TCPConnector(limit=CONNECTIONS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )


def _leave(sessions: dict[asyncio.AbstractEventLoop, _Session]) -> None:
    """Close the sessions of an endpoint that is gone, each in its own loop."""
    for loop, opened in sessions.items():
        if loop.is_closed():
            opened.session.detach()
        else:
            loop.call_soon_threadsafe(opened.begin_to_close)


def _unpickled(base_url: str, no_key: str | None, timeout_s: float) -> Endpoint:
    return Endpoint(base_url, api_key=no_key, headers=None, timeout_s=timeout_s)


def _checked_url(given: object) -> SplitResult:
    wanted = "base_url is the http or https address of the API, for instance 'https://api.openai.com/v1'"
    try:
        url = urlsplit(given.strip() if isinstance(given, str) else "")
        port = url.port
    except ValueError:
        raise ConfigurationError(f"{wanted}; what was given is none") from None
    if url.scheme not in ("http", "https") or not url.hostname or port == 0:
        raise ConfigurationError(f"{wanted}; what was given is none")
    if "@" in url.netloc:
        raise ConfigurationError(f"{wanted}; user and password are given as a header, not in the address")
    return url._replace(path=url.path.rstrip("/"), fragment="")


def _checked_timeout(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise ConfigurationError(f"timeout_s is a number of seconds above 0, not {given!r}")
    return float(given)


def _secret_headers(key: str | None, given: Mapping[str, str]) -> tuple[dict[str, SecretStr], bool]:
    """Give all headers, and whether they can be made again in another process."""
    headers = {**_OWN_HEADERS, **{name.lower(): text for name, text in given.items()}}
    portable = not given and not key
    if key is None and not headers.keys() & _ADMISSION:
        key = os.environ.get("OPENAI_API_KEY")
    if key and key.strip():
        headers.setdefault("authorization", f"Bearer {key.strip()}")
    for name, text in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^`|~\w-]+", name, re.ASCII) or not re.fullmatch(
            r"[\t -~\x80-\xff]*", text
        ):
            raise ConfigurationError("the key or a header holds a character that no header can hold")
    return {name: SecretStr(text) for name, text in headers.items()}, portable


def _plain(headers: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: text.get_secret_value() for name, text in headers.items()}


def _without_words(text: str, hidden: Iterable[str]) -> str:
    """Take out each word that stands in a hidden text too: endpoints quote keys and prompts in their errors."""
    quoted = "\n".join(hidden)
    return re.sub(r"\w{4,}", lambda word: "..." if word.group() in quoted else word.group(), text)
