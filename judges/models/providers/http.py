"""HTTP transport to an OpenAI-compatible endpoint: JSON is posted over connections that stay open.

Async calls go through aiohttp, sync calls through urllib3: the cheapest maintained client of each kind. Each is
imported with its first request. Redirects are not followed, so the key never goes to another host than that
of the address; proxy variables of the environment are not read; replies are requested uncompressed, so that no
decompression can exceed the size limit.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from judges.errors import ConfigurationError, unfit
from judges.models.providers.http_errors import (
    EndpointConnectionError,
    EndpointError,
    EndpointReplyError,
    EndpointResponse,
    EndpointStatusError,
    EndpointTimeoutError,
    error_in,
)
from judges.models.providers.sessions import LONGEST_HEADER, Sessions, exchange_end, resolver
from judges.runtime.observation import current, setting
from judges.runtime.validation import SharedByCopies

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from urllib3 import BaseHTTPResponse, HTTPConnectionPool

    from judges.models.providers.direct_post import DirectPost

_OWN_HEADERS = {"content-type": "application/json", "user-agent": "selfrefine"}
"""Headers of every request, which hold no secret."""

_AUTHENTICATING = {"authorization", "api-key", "x-api-key"}
_NAME = re.compile(r"[!#$%&'*+.^`|~\w-]+", re.ASCII)
_VALUE = re.compile(r"[\t -~\x80-\xff]*")


def _secret_headers(key: object, given_headers: object) -> tuple[dict[str, SecretStr], bool]:
    """Return all headers, and whether another process can rebuild them without a secret of this one.

    Args:
        key: The key as a text or a `SecretStr`; None takes the environment's `OPENAI_API_KEY` unless a header
            authenticates; an empty text sends none.
        given_headers: The user's headers, a mapping from names to texts, or None.

    Raises:
        ConfigurationError: If the key or a header cannot be sent; no message repeats their values.
    """
    key_text = _checked_key(key)
    further = _checked_headers(given_headers)
    headers = {**_OWN_HEADERS, **{name.lower(): text for name, text in further.items()}}
    portable = not further and not key_text
    if key_text is None and not headers.keys() & _AUTHENTICATING:
        key_text = os.environ.get("OPENAI_API_KEY")
    if key_text and key_text.strip():
        headers.setdefault("authorization", f"Bearer {key_text.strip()}")
    if not all(_NAME.fullmatch(name) and _VALUE.fullmatch(text) for name, text in headers.items()):
        raise ConfigurationError("the key or a header holds a character that no header can hold")
    return {name: SecretStr(text) for name, text in headers.items()}, portable


def _plain(headers: Mapping[str, SecretStr]) -> dict[str, str]:
    """Return headers as they are sent."""
    return {name: text.get_secret_value() for name, text in headers.items()}


def _checked_key(key: object) -> str | None:
    text = key.get_secret_value() if isinstance(key, SecretStr) else key
    if text is not None and not isinstance(text, str):
        raise ConfigurationError(
            f"api_key is a text, a SecretStr, or None for the environment's OPENAI_API_KEY, not of type "
            f"{type(key).__name__}"
        )
    return text


def _checked_headers(headers: object) -> dict[str, str]:
    expected = "headers is a mapping from names to texts, for instance {'api-key': '...'}"
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise ConfigurationError(f"{expected}, not of type {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str):
            raise ConfigurationError(f"{expected}; one of the names is of type {type(name).__name__}")
        if not isinstance(value, str):
            raise ConfigurationError(f"{expected}; the value of {name!r} is of type {type(value).__name__}")
    return dict(headers)


LARGEST_REPLY = 10_000_000
"""Most bytes of a reply that are read."""

_CONNECTIONS = 1_000
"""Most connections of one event loop at once; for threads, most that a process keeps open."""

_CONNECTING_S = 10.0
_SHORTEST_S = 0.001
_CHUNK = 65_536
_LONGEST_DETAIL = 200
_OK = 200
OnPart = Callable[[bytes], None]
"""Takes a part of a body."""

_PAGES = ("/chat/completions", "/embeddings")
"""What providers' examples have behind the address of the API."""

_UNCOMPRESSED = {"accept-encoding": "identity"}
_INSTALL = "install selfrefine[http]"


class Endpoint(SharedByCopies):
    """An address, its credentials and the connections to it; serves any number of threads and event loops.

    Args:
        base_url: Address of the API, without `/chat/completions`; a query (Azure's `?api-version=...`) is sent.
        api_key: The key; None takes the environment's `OPENAI_API_KEY` unless a header authenticates; empty: none.
        headers: Further headers to send.
        timeout_s: Seconds until a reply must be complete.

    Raises:
        ConfigurationError: If the address or a header cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | SecretStr | None,
        headers: Mapping[str, str] | None,
        timeout_s: float,
    ) -> None:
        self._url = _checked_url(base_url)
        self._origin = f"{self._url.scheme}://{self._url.netloc}"
        self._query = f"?{self._url.query}" if self._url.query else ""
        self._timeout_s = _checked_timeout(timeout_s)
        self._headers, portable = _secret_headers(api_key, headers)
        self._pickled = (self._url.geturl(), api_key, self._timeout_s) if portable else None
        self._sessions = Sessions(partial(_new_session, self._origin, self._headers, self._timeout_s))
        self._posts: dict[str, DirectPost] = {}
        self._pool: tuple[int, HTTPConnectionPool] | None = None
        self._lock = threading.Lock()

    @property
    def base_url(self) -> str:
        """The address, without its query."""
        return f"{self._origin}{self._url.path}"

    @property
    def origin(self) -> str:
        """Scheme, host and port of the address; the rest may hold a secret."""
        return self._origin

    @property
    def timeout_s(self) -> float:
        """Seconds until a reply must be complete."""
        return self._timeout_s

    def __repr__(self) -> str:
        return f"Endpoint({self.origin!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._pickled is None:
            raise ConfigurationError(
                "a model that holds a key or headers is not pickled, so that they are written nowhere; leave the "
                "key to the environment variable OPENAI_API_KEY of each process"
            )
        return _unpickle, self._pickled

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str] | None = None, on_part: OnPart | None = None
    ) -> EndpointResponse:
        """Post JSON and wait for the response.

        Args:
            path: Path below the address.
            body: The JSON.
            headers: Headers of this request alone, for instance a caller's own key; they go before the endpoint's.
            on_part: Called with each part of the body of a response that is no error, as it comes.

        Raises:
            EndpointError: If there is no response, or it is too large.
            ConfigurationError: If urllib3 is missing.
        """
        pool, target = self._connections(), self._target(path)
        try:
            with _hidden_target(target):
                return self._exchange(pool, target, body, with_trace(headers), on_part)
        except EndpointError:
            raise
        except Exception as error:  # noqa: BLE001 - classified in one place
            failure = self.failure(error)
        raise failure  # outside the handler: a client's own error holds the headers sent

    async def apost(
        self, path: str, body: bytes, headers: Mapping[str, str] | None = None, on_part: OnPart | None = None
    ) -> EndpointResponse:
        """Post JSON without blocking; otherwise as `post`, with aiohttp."""
        session = self._sessions.opened() or await self._sessions.current()
        request_headers = with_trace(headers)
        if request_headers:
            request_headers = {name.lower(): text for name, text in request_headers.items()}
        post = self._posts.get(path) or self._posts.setdefault(path, self._post_to(path))
        try:
            if on_part is not None:
                return await self._aread_parts(session, path, body, request_headers, on_part)
            return await post(session, body, request_headers, seconds=self._seconds())
        except EndpointError:
            raise
        except Exception as error:  # noqa: BLE001 - classified in one place
            failure = self.failure(error)
        raise failure

    async def _aread_parts(
        self,
        session: ClientSession,
        path: str,
        body: bytes,
        request_headers: Mapping[str, str] | None,
        on_part: OnPart,
    ) -> EndpointResponse:
        """Post JSON, and hand on the body as it comes; the connection is closed where that is broken off."""
        from aiohttp import ClientTimeout  # noqa: PLC0415 - an extra, loaded with the session

        timeout = ClientTimeout(total=self._seconds(), sock_connect=min(_CONNECTING_S, self._timeout_s))
        request = session.post(
            self.url(path), data=body, headers=request_headers, timeout=timeout, allow_redirects=False
        )
        parts, size = [], 0
        async with request as response:
            async for part in response.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > LARGEST_REPLY:
                    raise self._too_large()
                if response.status == _OK:
                    on_part(part)
            return EndpointResponse(response.status, response.headers, b"".join(parts))

    async def session(self) -> ClientSession:
        """Return the connections of the running event loop."""
        return await self._sessions.current()

    def url(self, path: str) -> str:
        """Return the whole address of a path, which may have a query."""
        path, _, query = path.partition("?")
        target = self._origin + self._target(path)
        return f"{target}{'&' if self._query else '?'}{query}" if query else target

    def close(self) -> None:
        """Close the connections of sync calls. A later call opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and pool[0] == os.getpid():
            pool[1].close()

    async def aclose(self) -> None:
        """Close the connections of this event loop. A later call opens new ones."""
        await self._sessions.close()

    def _seconds(self) -> float:
        """Return the seconds a reply may take: the timeout, or what the current allowance leaves."""
        allowance = current.get().allowance
        seconds_left = None if allowance is None else allowance.seconds_left
        return self._timeout_s if seconds_left is None else max(_SHORTEST_S, min(seconds_left, self._timeout_s))

    def _post_to(self, path: str) -> DirectPost:
        from yarl import URL  # noqa: PLC0415 - loaded by aiohttp

        from judges.models.providers.direct_post import DirectPost  # noqa: PLC0415 - imports aiohttp

        return DirectPost(URL(self._origin + self._target(path)), most_bytes=LARGEST_REPLY)

    def _target(self, path: str) -> str:
        return f"{self._url.path}{path}{self._query}"

    def _connections(self) -> HTTPConnectionPool:
        """Return the pool of this process: connections inherited through a fork belong to the parent."""
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
        from judges.models.providers.bounded_http import bounded  # noqa: PLC0415 - imports urllib3

        _hide_targets()
        pool = urllib3.connection_from_url(
            self._origin,
            headers=_plain(self._headers),
            timeout=urllib3.Timeout(connect=min(_CONNECTING_S, self._timeout_s), read=self._timeout_s),
            retries=False,
            maxsize=_CONNECTIONS,
        )
        return bounded(pool)

    def _exchange(
        self,
        pool: HTTPConnectionPool,
        target: str,
        body: bytes,
        request_headers: Mapping[str, str] | None,
        on_part: OnPart | None,
    ) -> EndpointResponse:
        headers = (
            {**pool.headers, **{name.lower(): text for name, text in request_headers.items()}}
            if request_headers
            else None
        )
        seconds = self._seconds()
        until = time.monotonic() + seconds
        timeout = pool.timeout if seconds == self._timeout_s else seconds
        token = exchange_end.set(until)
        try:
            response = pool.urlopen(
                "POST",
                target,
                body,
                headers,
                timeout=timeout,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            try:
                on_part = on_part if response.status == _OK else None
                return EndpointResponse(response.status, response.headers, self._read(response, until, on_part))
            except BaseException:
                response.close()
                raise
        finally:
            exchange_end.reset(token)

    def _read(self, response: BaseHTTPResponse, until: float, on_part: OnPart | None) -> bytes:
        promised = response.length_remaining
        if promised is not None and promised <= LARGEST_REPLY and on_part is None:
            return response.read(decode_content=False)
        parts, size = [], 0
        while part := response.read1(_CHUNK):
            parts.append(part)
            size += len(part)
            if on_part is not None:
                on_part(part)
            if size > LARGEST_REPLY:
                raise self._too_large()
            if time.monotonic() > until:
                raise TimeoutError
        response.release_conn()
        return b"".join(parts)

    async def body_of(self, response: ClientResponse) -> bytes:
        """Return the body of a response.

        Raises:
            EndpointReplyError: If it is too large.
        """
        from judges.models.providers.direct_post import whole_body  # noqa: PLC0415 - imports aiohttp

        return await whole_body(response.content, response.headers, most_bytes=LARGEST_REPLY, origin=self._origin)

    def _too_large(self) -> EndpointReplyError:
        return EndpointReplyError(f"the reply of {self._origin} is larger than {LARGEST_REPLY:,} bytes")

    def failure(self, error: Exception) -> Exception:
        """Return the error for one of an HTTP client, without the headers that such an error holds."""
        error = next((cause for cause in error.args if isinstance(cause, TimeoutError)), error)
        kinds = {kind.__name__ for kind in type(error).__mro__}
        name = type(error).__name__
        if "TimeoutError" in kinds and "NewConnectionError" not in kinds:
            return EndpointTimeoutError(f"no whole reply from {self._origin} in time")
        if kinds & {"ClientSSLError", "SSLError"}:
            return EndpointError(f"no secure connection to {self._origin} ({name})")
        if kinds & {"ClientError", "HTTPError", "OSError"}:
            return EndpointConnectionError(f"the connection to {self._origin} failed ({name})")
        return EndpointError(f"the request to {self._origin} failed ({name})")

    def status_error(self, response: EndpointResponse, hidden: Iterable[str]) -> EndpointStatusError:
        """Return the error for a response whose status is not 200.

        Args:
            response: The response.
            hidden: Texts of which the message must show nothing, however the endpoint quotes them.
        """
        detail = error_in(response.body)
        secrets = [text for name, text in _plain(self._headers).items() if name not in _OWN_HEADERS]
        masked = _mask_words(
            shorten(detail, _LONGEST_DETAIL, placeholder=" ..."),
            [*secrets, self._url.path, self._url.query, *hidden],
        )
        if 300 <= response.status < 400:  # noqa: PLR2004 - HTTP's redirects
            masked = "redirects are not followed; give the address itself"
        message = f"{self._origin} answered with status {response.status}{f': {masked}' if masked else ''}"
        return EndpointStatusError(message, status_code=response.status, headers=response.headers).of(response)


class Connected:
    """Base of clients that hold an endpoint: closes the connections, also as a `with` or `async with` block."""

    _endpoint: Endpoint

    @property
    def is_direct(self) -> bool:
        """True if calls run code of this package alone."""
        return type(self).__module__.startswith("judges.")

    def close(self) -> None:
        """Close the connections of sync calls. A later call opens new ones."""
        self._endpoint.close()

    async def aclose(self) -> None:
        """Close the connections of this event loop and of sync calls. A later call opens new ones."""
        self._endpoint.close()
        await self._endpoint.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()


def _new_session(origin: str, headers: Mapping[str, SecretStr], timeout_s: float) -> ClientSession:
    try:
        import aiohttp  # noqa: PLC0415 - an extra, opened with the first async request
    except ImportError as error:
        raise ConfigurationError(f"to ask a model at {origin} from async code, {_INSTALL}") from error
    return aiohttp.ClientSession(
        headers={**_plain(headers), **_UNCOMPRESSED},
        timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(_CONNECTING_S, timeout_s)),
        connector=aiohttp.TCPConnector(limit=_CONNECTIONS, resolver=resolver()),
        cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=LONGEST_HEADER,
        max_field_size=LONGEST_HEADER,
        auto_decompress=False,
    )


def _unpickle(base_url: str, no_key: str | None, timeout_s: float) -> Endpoint:
    return Endpoint(base_url, api_key=no_key, headers=None, timeout_s=timeout_s)


def with_trace(headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return the headers of a request with those of the current trace.

    They come back as they are where the application has not loaded OpenTelemetry, or there is no trace.
    """
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return headers
    span = trace.get_current_span()
    if span is trace.INVALID_SPAN or not span.get_span_context().is_valid:
        return headers
    from opentelemetry import propagate  # noqa: PLC0415 - loaded already, by the application

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {**{name: text for name, text in (headers or {}).items() if name.lower() not in carrier}, **carrier}


def checked_address(url_text: object) -> SplitResult:
    """Return the parts of an API's address.

    Raises:
        ConfigurationError: If it is none; the message does not repeat it, as it may hold a password.
    """
    expected = "base_url is the http or https address of the API, for instance 'https://api.openai.com/v1'"
    if isinstance(url_text, str) and url_text.strip() and "://" not in url_text:
        raise ConfigurationError(f"{expected}; what was given does not begin with http:// or https://")
    try:
        url = urlsplit(url_text.strip() if isinstance(url_text, str) else "")
        port = url.port
    except ValueError:
        raise ConfigurationError(f"{expected}; what was given is none") from None
    if url.scheme not in ("http", "https") or not url.hostname or port == 0 or " " in url.netloc:
        raise ConfigurationError(f"{expected}; what was given is none")
    page = next((page for page in _PAGES if url.path.rstrip("/").endswith(page)), None)
    if page is not None:
        raise ConfigurationError(f"{expected}; leave out {page}, which is added to it")
    return url


def _checked_url(url_text: object) -> SplitResult:
    url = checked_address(url_text)
    if "@" in url.netloc:
        raise ConfigurationError("user and password are given as a header, not in the address base_url")
    return url._replace(path=url.path.rstrip("/"), fragment="")


def _checked_timeout(timeout_s: object) -> float:
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 < timeout_s < float("inf"):
        raise unfit("timeout_s is a number of seconds above 0", timeout_s)
    return float(timeout_s)


def _mask_words(text: str, hidden: Iterable[str]) -> str:
    """Mask each word of `text` that also occurs in a hidden text: endpoints quote keys and prompts in errors."""
    quoted = "\n".join(hidden)
    return re.sub(r"\w{4,}", lambda word: "..." if word.group() in quoted else word.group(), text)


_LOGGERS = ("urllib3.connectionpool", "urllib3.connection", "urllib3.util.retry")
_HIDDEN = "/..."
_target: ContextVar[str | None] = ContextVar("target", default=None)


def _hide_targets() -> None:
    """Let urllib3's loggers hide the targets of `_hidden_target`; other requests are logged as ever."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_hide)


def _hidden_target(target: str) -> setting[str | None]:
    """Hide a request's path and query in what is logged within a `with` block."""
    return setting(_target, target)


def _hide(record: logging.LogRecord) -> bool:
    """Replace the current target in a record's arguments; keep the record."""
    target = _target.get()
    if target is not None and isinstance(record.args, tuple):
        record.args = tuple(_without(argument, target) for argument in record.args)
    return True


def _without(argument: object, target: str) -> object:
    if isinstance(argument, int | float | None):
        return argument
    text = str(argument)
    return text.replace(target, _HIDDEN) if target in text else argument
