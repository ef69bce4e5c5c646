"""The model that is guarded: requests go out over connections that stay open, and come back as they are.

Only the configured address is ever called: redirects are not followed, proxy variables are not read, and nothing
in a request chooses a host.
"""

from __future__ import annotations

import asyncio
import io
import math
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import aiohttp
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import SecretStr
from yarl import URL

from graphs import Draft, RefineError
from graphs.answers import CALL_AS_TEXT, CUT_AS_ASKED
from graphs.generators import Delta, DraftRequest, OnDelta
from graphs.structure import misfit_of, schemas_in
from judges.errors import AskFailed, ConfigurationError, one_line
from judges.models.prompt_and_reply import has_failed
from judges.models.providers.direct_post import DirectPost
from judges.models.providers.http import checked_address, with_trace
from judges.models.providers.http_errors import EndpointError, EndpointReplyError
from judges.models.providers.llama import serve_locally
from judges.models.providers.openai_replies import ChunkReader
from judges.models.providers.sessions import LONGEST_HEADER, Sessions
from judges.models.wrappers.breaker import Breaker
from judges.runtime.flow import in_thread
from judges.verdict import Usage
from refine.server.dialects import protocol
from refine.server.errors import ApiError, UpstreamFailed

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


_NOT_SENT = _HOP_BY_HOP | {
    "accept-encoding",
    "api-key",
    "authorization",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "x-api-key",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-request-id",
    "x-rewrite-url",
}
"""Credentials, what belongs to one connection, and what would make another request of it."""


_NOT_RETURNED = _HOP_BY_HOP | {
    "access-control-allow-origin",
    "alt-svc",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "server",
    "set-cookie",
    "strict-transport-security",
    "x-request-id",
}


_OURS = "x-refine-"
_FORWARDED = "x-forwarded-"


def to_client(headers: Iterable[tuple[str, str]]) -> protocol.RawHeaders:
    """Return an upstream's headers to pass on; its request id is kept beside the guard's own."""
    returned: protocol.RawHeaders = []
    for name, value in headers:
        lower = name.lower()
        if lower == "x-request-id":
            lower = "x-refine-upstream-request-id"
        elif lower in _NOT_RETURNED or lower.startswith(_OURS):
            continue
        returned.append((lower.encode("latin-1"), value.encode("utf-8", "surrogateescape")))  # as it came
    return returned


_CONNECTING_S = 10.0
_IDLE_S = 4.0
"""Seconds that a connection is kept unused: below the 5 s after which common servers close theirs."""


_CONNECTIONS = 4_096
_LARGE = 1 << 20
_UNAVAILABLE = frozenset({500, 502, 503, 504})
_STATUSES = range(200, 600)
"""Statuses that end a request, and are HTTP's."""
_REDIRECTS = frozenset({300, 301, 302, 303, 305, 306, 307, 308})
_ENDS = ("/chat/completions", "/responses", "/messages", "/embeddings", "/models")
"""What clients add to a base URL."""
_NEVER_ENDED: BaseException | None = asyncio.CancelledError()
"""How a call ended of which nothing else is known: for the breaker it was never made."""


_MOST_BYTES = 50_000_000
"""Most bytes of a reply that are read."""


def _too_large() -> UpstreamFailed:
    return UpstreamFailed(502, f"the upstream's reply is larger than {_MOST_BYTES:,} bytes", code="upstream_reply")


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
    headers: protocol.RawHeaders = field(repr=False)
    body: bytes = field(repr=False)


class Upstream:
    """An address, its key and the connections to it.

    Args:
        base_url: Address of the API, without `/chat/completions`.
        key: The operator's key; None sends the caller's, an empty one none at all.
        key_header: The header for the operator's key; None takes the usual one of the API.
        timeout_s: Seconds until a reply must be complete.
        breaker_failures: After so many failures in a row calls fail at once; 0 never.
        breaker_cooldown_s: Seconds until one call is let through again.
        name: What it is called in place of its address, where that is another after each start.

    Attributes:
        takes_callers_key: Whether requests go out with the key of whoever asks.

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
        breaker_failures: int = 10,
        breaker_cooldown_s: float = 10.0,
        name: str | None = None,
    ) -> None:
        url = checked_address(base_url)
        self.origin = name or f"{url.scheme}://{url.hostname}{f':{url.port}' if url.port else ''}"
        self._name = name
        self._base = f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"
        self._query = f"?{url.query}" if url.query else ""
        self._key = key
        self.takes_callers_key = key is None
        self._key_header = key_header
        self._timeout_s = timeout_s
        self._breaker = Breaker(breaker_failures, cooldown_s=breaker_cooldown_s) if breaker_failures else None
        self._cooldown_s = breaker_cooldown_s
        self._sessions = Sessions(self._new_session)
        self._posts: dict[str, DirectPost] = {}

    def __repr__(self) -> str:
        return f"Upstream({self.origin!r})"

    @property
    def url(self) -> str:
        """The whole address, which may hold what is not for a log."""
        return self._name or f"{self._base}{self._query}"

    @property
    def is_left_alone(self) -> bool:
        """True if it is not asked now, since too many calls in a row failed."""
        return self._breaker is not None and self._breaker.is_open

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

    def headers(
        self, sent: Mapping[str, str], identifier: str, caller: Mapping[str, str], key_header: str
    ) -> dict[str, str]:
        """Return a request's headers to send on, with no credential but what the setting of the key says.

        Args:
            sent: The client's headers.
            identifier: Id of the request.
            caller: Headers with the caller's key for the upstream.
            key_header: The header for the operator's key, unless a setting names another.
        """
        named = [name.strip().lower() for name in sent["connection"].split(",")] if "connection" in sent else ()
        passed = {
            name: value
            for name, value in sent.items()
            if name not in _NOT_SENT and name not in named and not name.startswith((_OURS, _FORWARDED))
        }
        key = self.credentials(caller, key_header)
        return {**passed, "accept-encoding": "identity", "x-request-id": identifier, **key}

    async def post(self, path: str, payload: protocol.Json, headers: Mapping[str, str]) -> UpstreamReply:
        """Post JSON and return the whole response, whatever its status.

        Raises:
            UpstreamFailed: If there is no response, or it is too large.
            ApiError: If the breaker is open.
        """
        probe, ended = self._admit(), _NEVER_ENDED
        try:
            post = self._posts.get(path) or self._posts.setdefault(path, self._post_to(path))
            body = protocol.write_json(payload)
            session = self._sessions.opened() or await self._sessions.current()
            reply = await post(session, body, with_trace(headers), seconds=self._timeout_s)
            ended = ConnectionError() if reply.status in _UNAVAILABLE else None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            ended = ConnectionError()
            raise self._failure(error) from None
        except EndpointReplyError:
            ended = None
            raise _too_large() from None
        finally:
            self._settle(ended, probe=probe)
        self._check(reply.status, reply.headers.get("location"))
        kind = reply.headers.get("content-type", "application/json")
        return UpstreamReply(reply.status, kind, to_client(reply.headers.items()), reply.body)

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes] | None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open any request, to pass its response on as it comes.

        Raises:
            UpstreamFailed: If there is no response.
            ApiError: If the breaker is open.
        """
        session = await self._sessions.current()
        url = self._target(path, query)
        data = io.BytesIO(body) if isinstance(body, bytes) and len(body) >= _LARGE else body
        probe, ended = self._admit(), _NEVER_ENDED
        try:
            response = await session.request(
                method, url, data=data, headers=with_trace(headers), allow_redirects=False
            )
            ended = ConnectionError() if response.status in _UNAVAILABLE else None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            ended = ConnectionError()
            raise self._failure(error) from None
        finally:
            self._settle(ended, probe=probe)
        async with response:
            self._check(response.status, response.headers.get("location"))
            yield response

    async def post_stream(
        self, path: str, body: bytes, headers: Mapping[str, str], on_part: Callable[[bytes], None]
    ) -> UpstreamReply:
        """Post JSON, hand on the parts of a reply that is no error, and return the whole; otherwise as `post`.

        The connection is closed where this is broken off.
        """
        parts, size = [], 0
        async with self.open("POST", path, "", headers, body) as response:
            kind = response.headers.get("content-type", "application/json")
            try:
                async for part in response.content.iter_any():
                    parts.append(part)
                    size += len(part)
                    if size > _MOST_BYTES:
                        raise _too_large()
                    if response.status in _OK:
                        on_part(part)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise self._failure(error) from None
            return UpstreamReply(response.status, kind, to_client(response.headers.items()), b"".join(parts))

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._sessions.close()

    def _post_to(self, path: str) -> DirectPost:
        return DirectPost(self._target(path, ""), most_bytes=_MOST_BYTES)

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
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
        )

    def _admit(self) -> bool:
        """Let a call through, and return whether it is the one that tries an open circuit; `_settle` must follow.

        Raises:
            ApiError: If the circuit is open.
        """
        if self._breaker is None or not self._breaker.failures:
            return False
        try:
            return self._breaker.admit()
        except AskFailed:
            raise ApiError(
                503,
                f"the upstream does not answer; try again in {math.ceil(self._cooldown_s)} s",
                code="upstream_circuit_open",
                retry_after_s=self._cooldown_s,
            ) from None

    def _settle(self, ended: BaseException | None, *, probe: bool) -> None:
        """Count how a call ended: with an error, or None for a reply; one that was cancelled does not count."""
        if self._breaker is not None and (ended is not None or probe or self._breaker.failures):
            self._breaker.settle(ended, probe=probe)

    def _check(self, status: int, location: str | None) -> None:
        """Refuse a status that no server may pass on, and a redirect, after which a client would not be judged."""
        if status not in _STATUSES:
            raise UpstreamFailed(502, f"the upstream answered with status {status}", code="upstream_reply")
        if status in _REDIRECTS:
            place = "" if location is None else self._redirected(location)
            remedy = f"; if it has moved, set upstream = {place!r}" if place else ""
            raise UpstreamFailed(
                502,
                f"the upstream {self.origin} redirects (status {status}), which is not followed{remedy}",
                code="upstream_redirect",
            )

    def _redirected(self, location: str) -> str:
        """Return the base URL that a redirect leads to, without what may be secret in it; empty if it is none."""
        try:
            target = URL(self._base).join(URL(location))
            path = next((target.path.removesuffix(end) for end in _ENDS if target.path.endswith(end)), target.path)
            return str(target.origin().with_path(path.rstrip("/")))
        except ValueError:
            return ""

    def _failure(self, error: BaseException) -> ApiError:
        if isinstance(error, TimeoutError):
            return UpstreamFailed(504, "the upstream gave no whole reply in time", code="upstream_timeout")
        if isinstance(error, aiohttp.ClientConnectorError):
            return UpstreamFailed(502, "there is no connection to the upstream", code="upstream_unreachable")
        return UpstreamFailed(502, "the connection to the upstream broke", code="upstream_broken")


class LocalUpstream(Upstream):
    """The server of a model on this machine, started with a key of its own, and again where it ended.

    Args:
        name: The model, `local:...`.
        bounds: Settings of `Upstream`.

    Raises:
        judges.ConfigurationError: If there is no such model, or it cannot be served.
    """

    def __init__(self, name: str, **bounds: Any) -> None:
        self._server = server = serve_locally(name)
        super().__init__(
            server.address, key=SecretStr(server.key), key_header="authorization", name=name, **bounds
        )

    async def post(self, path: str, payload: protocol.Json, headers: Mapping[str, str]) -> UpstreamReply:
        """Post JSON; see the base class."""
        await self._revive()
        return await super().post(path, payload, headers)

    async def post_stream(
        self, path: str, body: bytes, headers: Mapping[str, str], on_part: Callable[[bytes], None]
    ) -> UpstreamReply:
        """Post JSON, and hand on the parts of the reply; see the base class."""
        await self._revive()
        return await super().post_stream(path, body, headers, on_part)

    async def _revive(self) -> None:
        """Start the server again if it ended, as another request may have done; its key stays, its address not."""
        if self._server.is_running:
            return
        try:
            server = await in_thread(serve_locally, self.origin)
        except (ConfigurationError, ConnectionError) as error:
            raise UpstreamFailed(502, one_line(error), code="upstream_unreachable") from None
        self._server, self._base = server, server.address
        self._posts.clear()


_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
_OK = range(200, 300)
IDEMPOTENCY = "idempotency-key"


class UpstreamRefused(RefineError):  # noqa: N818 - what the upstream did
    """The upstream answered with an error; `reply` is to be passed on as it is."""

    def __init__(self, reply: UpstreamReply) -> None:
        super().__init__(f"the upstream answered with status {reply.status}")
        self.status_code = reply.status
        self.reply = reply


@dataclass(slots=True)
class RawAnswer:
    """An upstream's reply: its JSON, and the headers to pass on."""

    document: protocol.Json = field(repr=False)
    headers: protocol.RawHeaders = field(repr=False)


class UpstreamGenerator:
    """Generates the drafts of one request, and keeps each reply as it came.

    Args:
        upstream: Where to send it.
        dialect: The protocol of client and upstream.
        request: The request.
        length: How many messages the conversation has; those after it in a prompt were added by the loop.
        headers: Headers of every attempt.
        models: Another model's name from an attempt number on.
    """

    may_interrupt = uses_langchain = False
    writes_in_chunks = True

    def __init__(
        self,
        upstream: Upstream,
        dialect: protocol.ApiDialect,
        request: protocol.JudgedRequest,
        *,
        length: int,
        headers: Mapping[str, str],
        models: Mapping[int, str],
    ) -> None:
        self._upstream = upstream
        self._dialect = dialect
        self._request = request
        self._length = length
        self._headers = headers
        self._models = models
        self._numbers = count(1)
        self.answers: dict[str, RawAnswer] = {}

    async def adraft(self, request: DraftRequest) -> Draft:
        """Return the upstream's answer; its raw reply is in `answers` by the id of the message.

        With `on_delta` it is streamed, and told of while it is written.

        Raises:
            UpstreamRefused: If the upstream answers with an error.
            UpstreamFailed: If it gives no reply that can be used.
        """
        number, prompt = next(self._numbers), request.prompt
        payload = self._payload(prompt, number, request.temperature)
        if request.on_delta is not None:
            return await self._streamed(number, payload, request.on_delta, goes_on=prompt[-1].type == "ai")
        reply = await self._upstream.post(self._dialect.PATH, payload, self._headers_of(number))
        reply = _uncompress(reply)
        return self._draft(number, reply, _document(reply))

    async def _streamed(self, number: int, payload: protocol.Json, on_delta: OnDelta, *, goes_on: bool) -> Draft:
        dialect = self._dialect
        payload = dialect.as_stream(payload)
        if goes_on:
            payload = dialect.going_on(payload)
        reader = ChunkReader(lambda event: on_delta(dialect.delta_in(event)))
        body, headers = protocol.write_json(payload), self._headers_of(number)
        reply = await self._upstream.post_stream(dialect.PATH, body, headers, reader.feed)
        if reply.body.startswith(_GZIP):  # nothing of it was read while it came
            reply = _uncompress(reply)
            reader = ChunkReader(lambda event: on_delta(dialect.delta_in(event)))
            reader.feed(reply.body)
        reader.feed(b"\n\n")  # the end of a last event that came without
        if not reader.has_begun or reply.status not in _OK:
            return self._draft(number, reply, _document(reply))
        try:
            document = dialect.assembled(reply.body)
            protocol.check_depth(document)
        except (AttributeError, EndpointError, KeyError, TypeError, ValueError, RecursionError):
            text = "the stream of the upstream's reply broke off, or holds what is no part of one"
            raise UpstreamFailed(502, text, code="upstream_broken") from None
        if isinstance(document.get("error"), dict):
            raise UpstreamRefused(
                replace(reply, status=_status_in(document["error"]), body=protocol.write_json(document))
            )
        draft = self._draft(number, reply, document)
        if draft.answer.response_metadata.get(CALL_AS_TEXT):  # or nobody would judge what the stream had as a call
            text, said = str(draft.answer.text), str(self._read(document)[0].text)
            on_delta(Delta(text.removeprefix(said) if said.strip() else text))
        return draft

    def _draft(self, number: int, reply: UpstreamReply, document: protocol.Json) -> Draft:
        answer, usage = self._read(document)
        misfit = (
            misfit_of(answer.tool_calls, schemas_in(self._request.payload.get("tools")))
            if answer.tool_calls
            else ""
        )
        if answer.tool_calls:
            is_offered = protocol.offers(self._request.payload, [call["name"] for call in answer.tool_calls])
            if self._request.forces_call or not is_offered:
                answer = _spoken(answer, with_names=not is_offered)
        choices = document.get("choices")
        if isinstance(choices, list) and len(choices) > 1:  # the first alone is read, and judged
            document = {**document, "choices": choices[:1]}
        most = self._request.most_tokens
        if most is not None and (not usage.tokens_known or usage.output_tokens >= most):
            answer.response_metadata[CUT_AS_ASKED] = True
        answer.id = f"attempt-{number}"
        self.answers[answer.id] = RawAnswer(document, reply.headers)
        name = answer.response_metadata.get("model_name") or self._request.model or None
        return Draft(answer=answer, misfit=misfit, calls=((name, usage),))

    def _read(self, document: protocol.Json) -> tuple[AIMessage, Usage]:
        try:
            answer, usage = self._dialect.read_answer(document)
        except (AttributeError, KeyError, TypeError, ValueError):
            text = "the upstream's reply has fields of no known form"
            raise UpstreamFailed(502, text, code="upstream_reply") from None
        if has_failed(answer.response_metadata):
            text = "the upstream failed in the midst of its reply, which says so at its end"
            raise UpstreamFailed(502, text, code="upstream_broken")
        return answer, usage

    def _payload(self, prompt: list[BaseMessage], number: int, temperature: float | None) -> protocol.Json:
        payload, added = self._request.payload, prompt[self._length :]
        if added:
            payload = self._dialect.with_feedback(payload, added)  # type: ignore[arg-type]  # made by the loop
        if temperature is not None:
            payload = {**payload, "temperature": temperature}
        in_force = [first for first in self._models if first <= number]
        return {**payload, "model": self._models[max(in_force)]} if in_force else payload

    def _headers_of(self, number: int) -> Mapping[str, str]:
        """Return the headers of an attempt: a further one is not a repetition of the first."""
        key = self._headers.get(IDEMPOTENCY)
        if number == 1 or key is None:
            return self._headers
        return {**self._headers, IDEMPOTENCY: f"{key}-{number}"}


def _spoken(answer: AIMessage, *, with_names: bool) -> AIMessage:
    """Return an answer that is the call of a tool as a text: what is said beside it, and the arguments as JSON."""
    calls = ({call["name"]: call["args"]} if with_names else call["args"] for call in answer.tool_calls)
    read = (protocol.compact(call) for call in calls)
    unread = (call["args"] or "" for call in answer.invalid_tool_calls)
    text = "\n".join(part for part in (str(answer.text), *read, *unread) if part.strip())
    extra = {name: value for name, value in answer.additional_kwargs.items() if name != "tool_calls"}
    metadata = {**answer.response_metadata, CALL_AS_TEXT: True}
    return AIMessage(text, additional_kwargs=extra, response_metadata=metadata)


def _uncompress(reply: UpstreamReply) -> UpstreamReply:
    """Return a reply whose body is not compressed by gzip; JSON and HTML never begin as such a body does.

    Raises:
        UpstreamFailed: If the body is broken, or too large.
    """
    if not reply.body.startswith(_GZIP):
        return reply
    reader = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = reader.decompress(reply.body, _MOST_BYTES)
    except zlib.error:
        raise UpstreamFailed(502, "the upstream's reply is no whole gzip", code="upstream_reply") from None
    if not reader.eof:
        raise UpstreamFailed(
            502, f"the upstream's reply is cut, or larger than {_MOST_BYTES:,} bytes", code="upstream_reply"
        )
    return replace(reply, body=body)


def _document(reply: UpstreamReply) -> protocol.Json:
    if reply.status not in _OK:
        raise UpstreamRefused(reply)
    try:
        document = protocol.read_json(reply.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise UpstreamFailed(502, "the upstream's reply is not a JSON object", code="upstream_reply")
    if isinstance(document.get("error"), dict) and not document.get("choices") and not document.get("output"):
        raise UpstreamRefused(UpstreamReply(_status_in(document["error"]), reply.kind, reply.headers, reply.body))
    return document


def _status_in(error: protocol.Json) -> int:
    """Return the status that an error names which came with status 200, as some gateways send it."""
    code = error.get("code")
    return code if type(code) is int and 400 <= code < 600 else 502  # noqa: PLR2004 - HTTP's errors
