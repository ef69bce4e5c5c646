"""Paths that are not judged: they pass through as they are, and the response says that nothing judged it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from fnmatch import fnmatchcase
from time import perf_counter
from urllib.parse import unquote

import aiohttp
from starlette.types import Receive, Scope, Send

from refine.server.dialects.protocol import Dialect
from refine.server.errors import ApiError
from refine.server.forms import form_for
from refine.server.guards import Guard
from refine.server.headers import RawHeaders, to_client, to_upstream
from refine.server.incoming import Incoming
from refine.server.keys import Caller
from refine.server.limits import ClientGone, read_body
from refine.server.responder import Client, failure, racing, shutting_down
from refine.server.service import Exchange, Service, unexpected

PREFIX = "/v1"
_UNJUDGED: RawHeaders = [
    (b"x-refine-passed", b"false"),
    (b"x-refine-attempts", b"0"),
    (b"x-refine-stop-reason", b"skipped"),
]
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_JUDGED = frozenset({"chat/completions", "responses", "messages", "judge"})
"""Paths that some server may take for a judged one, however they are written."""
_FORBIDDEN = ("\\", "//", "/../", "/./", "%")
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""Methods that pass; TRACE, for one, would send the operator's key back."""
_PARAMETERS = re.compile(r";[^/]*")


class PassThrough:
    """Passes requests below `/v1` on to the upstream of a guard: an ASGI application.

    Args:
        service: What the routes share.
        allowed: Patterns of the paths below `/v1`, for instance `embeddings` or `audio/*`; the list of
            models passes always.
    """

    def __init__(self, service: Service, allowed: Sequence[str]) -> None:
        self._service = service
        self._allowed = tuple(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        incoming, started = Incoming.of(scope), perf_counter()
        client = Client(receive, send, incoming.id_headers)
        exchange = Exchange(self._service, incoming)
        form = form_for(scope["path"], incoming.headers)
        status: int | None = None
        try:
            caller = self._service.keys.caller(incoming)
            exchange.caller = caller.name
            with self._service.admission.place(caller.name):
                status = await self._pass(scope, exchange, client, caller, form)
        except ClientGone:
            """Nobody is left to be told."""
        except ApiError as error:
            status = error.status
            await client.whole(failure(error, form))
        exchange.done(status, perf_counter() - started)

    async def _pass(
        self, scope: Scope, exchange: Exchange, client: Client, caller: Caller, form: Dialect
    ) -> int | None:
        incoming = exchange.incoming
        path = self._path(scope)
        guard = exchange.choose_guard("", caller)
        body = b""
        if scope["method"] not in _BODILESS or "content-length" in incoming.headers:
            body = await read_body(client.receive, incoming.headers, self._service.limits)
        headers = {
            **to_upstream(incoming.headers, incoming.id),
            **guard.required_upstream.credentials(caller.credentials, form.KEY_HEADER),
        }
        passing = _Passing(guard, client, headers, form)
        query = scope.get("query_string", b"").decode("latin-1")
        work = passing.run(scope["method"], path, query, body)
        if not await racing(work, client, self._service.running) and passing.status is None:
            raise shutting_down()
        return passing.status

    def _path(self, scope: Scope) -> str:
        """Return the path below the base URL as it came, if it is allowed."""
        raw: str = scope.get("raw_path", b"").decode("latin-1").partition("?")[0].removeprefix(PREFIX)
        if scope["method"] not in _METHODS:
            raise ApiError(
                405, "this method does not pass", code="method_not_allowed", allow=", ".join(sorted(_METHODS))
            )
        plain = _PARAMETERS.sub("", unquote(unquote(raw)))
        if re.split(r"[?#]", plain)[0].strip("/ ").casefold() in _JUDGED:
            raise ApiError(404, "there is no such path", code="unknown_path")
        if any(part in f"{plain}/" for part in _FORBIDDEN) or not raw.startswith("/") or not plain.isprintable():
            raise ApiError(404, "there is no such path", code="unknown_path")
        if scope["method"] == "GET" and plain.strip("/").partition("/")[0] == "models":
            return raw
        if not any(fnmatchcase(plain.strip("/"), pattern.strip("/")) for pattern in self._allowed):
            raise ApiError(404, "this path is not served here", code="unknown_path")
        return raw


class _Passing:
    """One request on its way through."""

    def __init__(self, guard: Guard, client: Client, headers: dict[str, str], form: Dialect) -> None:
        self._guard = guard
        self._client = client
        self._headers = headers
        self._form = form
        self.status: int | None = None

    async def run(self, method: str, path: str, query: str, body: bytes) -> None:
        """Send it on, and the response back as it comes."""
        upstream = self._guard.required_upstream
        async with AsyncExitStack() as stack:
            try:
                opened = upstream.opened(method, path, query, self._headers, body or None)
                response = await stack.enter_async_context(opened)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
                failed = error if isinstance(error, ApiError) else unexpected(error)
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
