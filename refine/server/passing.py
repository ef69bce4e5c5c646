"""What passes through unjudged: which paths may, and how requests and replies go through."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from fnmatch import fnmatchcase
from time import perf_counter
from typing import Any
from urllib.parse import unquote

import aiohttp
from starlette.types import Receive, Scope, Send

from refine.server.access import GUARD_HEADER, Caller, Guards, Incoming, ServedGuard
from refine.server.dialects import DIALECTS, form_for
from refine.server.dialects.protocol import (
    ApiDialect,
    GuardReply,
    RawHeaders,
    failure,
    objects,
    read_json,
    string,
)
from refine.server.errors import ApiError, ClientGone, PassedBody, read_body
from refine.server.service import (
    PREFIX,
    Client,
    Exchange,
    Service,
    race,
    refuse_at_end,
    report_unexpected,
    respond,
)
from refine.server.upstream import to_client
from refine.telemetry import trace_request

_UNJUDGED: RawHeaders = [
    (b"x-refine-passed", b"false"),
    (b"x-refine-attempts", b"0"),
    (b"x-refine-stop-reason", b"skipped"),
]


_OK = 200
_MOST_BYTES = 10_000_000
_JUDGED = (*(tuple(dialect.PATH.strip("/").split("/")) for dialect in DIALECTS), ("judge",))
"""Ends of paths that some server may take for a judged one, whatever stands before them."""


_FORBIDDEN = re.compile(r"[\\%\ufffd]|//|/[.\s]+/")
"""What no path has, and what some server may take for a way up: dots in bad UTF-8 or beside blanks included."""
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""Methods that pass; TRACE, for one, would send the operator's key back."""


_PARAMETERS = re.compile(r";[^/]*")
_WORD = re.compile(r"\w+(?:-\w+)*")


_WRITES = re.compile(
    r"(?:\b(?:raw|stream))?(?:complet|convers|generat|messag|respon)|\bchat|chat\b|"
    r"\b(?:raw|stream)?(?:answer|assist|infer|invo[ck]|predict|realtime|threads?\b|runs?\b)"
)
"""What stands in the paths of routes that write text, as in `audio/completions`."""


def _plain_form(path: str) -> str:
    return unicodedata.normalize("NFKC", re.split(r"[?#]", path)[0]).casefold().strip("/")


def _ends_as_judged(path: str) -> bool:
    """Check whether a path ends like that of a judged route, in any case, dots or a format at its parts or not."""
    known = _plain_form(path)
    parts = tuple(word[0] for part in known.split("/") if (word := _WORD.search(part)))
    return any(parts[-len(judged) :] == judged for judged in _JUDGED)


def _is_named(path: str, pattern: str) -> bool:
    """Check whether a pattern names a path; a `*` for a part of it names nothing that writes text."""
    plain = _plain_form(path).replace("_", "-")
    is_whole = pattern.strip("/") == "*" or _WRITES.search(pattern) is not None
    return fnmatchcase(path.strip("/"), pattern.strip("/")) and (is_whole or _WRITES.search(plain) is None)


def _is_model(path: str) -> bool:
    """Check for the list of models or the name of one; what follows a name, as in `x:predict`, may write text."""
    first, *parts = re.split(r"[/:]", _plain_form(path))
    return first == "models" and (len(parts) < 2 or _WRITES.match(parts[-1]) is None)  # noqa: PLR2004 - a name, a verb


class PassThroughRoute:
    """Passes requests below `/v1` on to the upstream of a guard: an ASGI application.

    Args:
        service: What the routes share.
        allowed: Patterns of the paths below `/v1`, for instance `embeddings` or `audio/*`, which is not
            `audio/completions`: what writes text is named itself, or by `*` alone. Models are listed always.
    """

    def __init__(self, service: Service, allowed: Sequence[str]) -> None:
        self._service = service
        self._allowed = tuple(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        incoming, started = Incoming.of(scope), perf_counter()
        client = Client(receive, send, incoming.id_headers)
        exchange, code = Exchange(self._service, incoming, scope), ""
        form = form_for(scope["path"], incoming.headers)
        status: int | None = None
        route = f"{PREFIX}/*"  # paths have ids in them
        with trace_request(scope["method"], scope["path"], incoming.headers, route=route) as exchange.span:
            try:
                caller = self._service.keys.caller(incoming)
                exchange.caller = caller.name
                await self._service.budgets.make_room(caller.name)
                with self._service.admission.place(caller.name):
                    status = await self._pass(scope, exchange, client, caller, form)
            except ClientGone:
                """Nobody is left to be told."""
            except ApiError as error:
                status, code = error.status, error.code or ""
                await client.whole(failure(error, form))
            exchange.span.answer(status)
        exchange.done(status, perf_counter() - started, code=code)

    async def _pass(
        self, scope: Scope, exchange: Exchange, client: Client, caller: Caller, form: ApiDialect
    ) -> int | None:
        method, headers = scope["method"], exchange.incoming.headers
        path, query = self._path(scope), scope.get("query_string", b"").decode("latin-1")
        is_choice = len(self._service.guards.upstreams) > 1 and GUARD_HEADER not in headers
        if is_choice and method == "GET" and path.rstrip("/") == "/models":
            listing = _list_models(self._service.guards, exchange, caller, form, query)
            reply = await respond(listing, client, form, keep_alive_s=None, running=self._service.running)
            return None if reply is None else reply.status
        with self._service.bytes_held.request() as hold:
            body: bytes | PassedBody | None = None
            has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
            if has_body and method == "GET":
                raise ApiError(400, "a GET that passes has no body; send none", code="invalid")
            if has_body:
                body = client.body = PassedBody(client.receive, headers, self._service.limits)
            model = path.removeprefix("/models/") if path.startswith("/models/") else ""
            if is_choice and isinstance(body, PassedBody) and _is_json(headers):
                body = client.body = None
                body = await read_body(client.receive, headers, self._service.limits, hold)
                model = _model_in(body)
            elif is_choice and isinstance(body, PassedBody):
                model = _model_in_form(await body.peek(_BEGINNING))
            guard = exchange.choose_guard(model, caller, api=form.API)
            sent = exchange.upstream_headers(guard, caller, form)
            if isinstance(body, PassedBody) and "content-length" in headers:
                sent["content-length"] = headers["content-length"]
            passing = _PassedRequest(guard, client, sent, form)
            work = passing.run(method, path, query, body)
            if not await race(work, client, self._service.running) and passing.status is None:
                raise refuse_at_end()
        return passing.status

    def _path(self, scope: Scope) -> str:
        """Return the path below the base URL as it came, if it is allowed."""
        raw: str = scope.get("raw_path", b"").decode("latin-1").partition("?")[0].removeprefix(PREFIX)
        if scope["method"] not in _METHODS:
            raise ApiError(
                405, "this method does not pass", code="method_not_allowed", allow=", ".join(sorted(_METHODS))
            )
        plain = _PARAMETERS.sub("", unquote(unquote(raw)))
        if _ends_as_judged(plain):
            raise ApiError(404, "there is no such path", code="unknown_path")
        is_odd = _FORBIDDEN.search(unicodedata.normalize("NFKC", f"{plain}/")) or not plain.isprintable()
        if is_odd or not raw.startswith("/"):
            raise ApiError(404, "there is no such path", code="unknown_path")
        if scope["method"] == "GET" and _is_model(plain):
            return raw
        if not any(_is_named(plain, pattern) for pattern in self._allowed):
            raise ApiError(404, "this path is not served here", code="unknown_path")
        return raw


_BEGINNING = 65_536
"""Bytes of a form in which the name of its model is looked for."""

_FORM_MODEL = re.compile(rb'name="model"\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]{1,200})\r\n')


def _is_json(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "application/json").partition(";")[0].strip().endswith("json")


def _model_in(body: bytes) -> str:
    """Return the model that a body asks for; empty where it names none."""
    try:
        document = read_json(body)
    except (ValueError, RecursionError):
        return ""
    return string(document.get("model")) if isinstance(document, dict) else ""


def _model_in_form(beginning: bytes) -> str:
    match = _FORM_MODEL.search(beginning)
    return "" if match is None else match[1].decode("utf-8", "replace")


async def _list_models(
    guards: Guards, exchange: Exchange, caller: Caller, form: ApiDialect, query: str
) -> GuardReply:
    """Return the models of all upstreams that the caller may ask, as the first of them lists its own.

    Raises:
        ApiError: If none of them lists any.
    """
    allowed = [one for one in guards.upstreams if caller.guards is None or one.name in caller.guards]
    listings = (_models_of(guard, exchange, caller, form, query) for guard in allowed)
    lists = await asyncio.gather(*listings, return_exceptions=True)
    failures = [one for one in lists if isinstance(one, BaseException)]
    known = [one for one in lists if not isinstance(one, BaseException)]
    if not known:
        raise failures[0] if failures else ApiError(403, "this key is for no upstream", code="guard_not_allowed")
    by_id = {string(model.get("id")): model for one in reversed(known) for model in objects(one.get("data"))}
    missing = [guard.name for guard, one in zip(allowed, lists, strict=True) if isinstance(one, BaseException)]
    headers = [(b"x-refine-unlisted", ", ".join(missing).encode())] if missing else []
    return GuardReply(200, {**known[0], "data": list(by_id.values())}, [*headers, *_UNJUDGED])


async def _models_of(
    guard: ServedGuard, exchange: Exchange, caller: Caller, form: ApiDialect, query: str
) -> dict[str, Any]:
    headers = exchange.upstream_headers(guard, caller, form)
    async with guard.required_upstream.open("GET", "/models", query, headers, None) as response:
        body = bytearray()
        async for part in response.content.iter_any():
            body += part
            if len(body) > _MOST_BYTES:
                break
        document = read_json(bytes(body)) if response.status == _OK else None
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise ApiError(502, f"the upstream of the guard {guard.name!r} lists no models", code="upstream_reply")
    return document


class _PassedRequest:
    """One request on its way through."""

    def __init__(self, guard: ServedGuard, client: Client, headers: dict[str, str], form: ApiDialect) -> None:
        self._guard = guard
        self._client = client
        self._headers = headers
        self._form = form
        self.status: int | None = None

    async def run(self, method: str, path: str, query: str, body: bytes | PassedBody | None) -> None:
        """Send it on, and the response back as it comes."""
        upstream = self._guard.required_upstream
        async with AsyncExitStack() as stack:
            try:
                data = body.parts() if isinstance(body, PassedBody) else body
                opened = upstream.open(method, path, query, self._headers, data)
                response = await stack.enter_async_context(opened)
            except Exception as raised:  # noqa: BLE001 - whatever it is, the client gets an answer
                error = (body.error if isinstance(body, PassedBody) else None) or raised
                if isinstance(error, ClientGone):
                    raise error from None
                failed = error if isinstance(error, ApiError) else report_unexpected(error)
                self.status = failed.status
                await self._client.whole(failure(failed, self._form))
                return
            self.status = response.status
            await self._copy(response)

    async def _copy(self, response: aiohttp.ClientResponse) -> None:
        headers = to_client(response.headers.items())
        for name in ("content-type", "content-encoding", "content-length"):
            if name in response.headers:
                headers.append((name.encode(), response.headers[name].encode("latin-1", "replace")))
        named = (b"x-refine-guard", self._guard.name.encode())
        await self._client.start(response.status, [*headers, *_UNJUDGED, named])
        with suppress(aiohttp.ClientError, TimeoutError):  # the server then breaks off, as the upstream did
            async for part in response.content.iter_any():
                await self._client.some(part)
            await self._client.some(b"", last=True)
