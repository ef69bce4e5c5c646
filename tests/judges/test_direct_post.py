"""POST over the connections of an aiohttp session: what a server may do, and what a session's listeners hear."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import signature

import aiohttp
import pytest
from aiohttp import ClientRequest
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from yarl import URL

from judges.models.providers.direct_post import DirectPost
from judges.models.providers.http_errors import EndpointReplyError, EndpointResponse
from tests.model_server import Wire, in_turn, serving

BODY = b'{"messages": []}'
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@asynccontextmanager
async def session(**settings: object) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session with a header of its own."""
    async with aiohttp.ClientSession(headers={"X-Own": "own", "X-Both": "session"}, **settings) as opened:  # type: ignore[arg-type]  # settings of a session
        yield opened


async def posted(
    opened: aiohttp.ClientSession, url: str, *, headers: dict[str, str] | None = None, seconds: float | None = 20
) -> EndpointResponse:
    """Post a body to a server that may send 100 bytes."""
    post = DirectPost(URL(f"{url}/chat/completions"), most_bytes=100)
    return await post(opened, BODY, headers, seconds=seconds)


async def test_interim_and_chunked_and_endless_responses_are_read_to_their_end() -> None:
    """Interim responses are passed over; a body has its length, comes in chunks, or ends with the connection."""
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
    replies = in_turn(
        Wire((b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n", OK)),
        Wire((chunked,)),
        Wire((b"HTTP/1.1 200 OK\r\n\r\no", b"k"), then="close"),
        Wire((b"HTTP/1.1 204 No Content\r\n\r\n",)),
    )
    with serving(replies) as server:
        async with session() as opened:
            received = [await posted(opened, server.url) for _ in range(4)]
    assert [(reply.status, reply.body) for reply in received] == [(200, b"ok")] * 3 + [(204, b"")]
    assert server.connections == 2, "connections that can be used again were not"


async def test_a_request_has_its_own_headers_before_those_of_the_session() -> None:
    """A header of a request stands in the place of the session's; no header can begin another one."""
    with serving(lambda _: Wire((OK,))) as server:
        async with session() as opened:
            await posted(opened, server.url, headers={"x-both": "request"})
            for broken in ("a\r\nx-forged: 1", "a\nb", "a\rb", "a\0"):
                with pytest.raises(ValueError, match="a line break or a null byte"):
                    await posted(opened, server.url, headers={"x-both": broken})
    assert len(server.requests) == 1, "a request with a forged header was sent"
    headers = server.requests[0]["headers"]
    assert (headers["x-own"], headers["x-both"], headers["content-length"]) == ("own", "request", str(len(BODY)))


async def test_what_is_no_response_is_an_error_and_closes_the_connection() -> None:
    """A reply that is too large, none in time, no HTTP, and a connection that breaks are distinguished."""
    large = b"HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n" + b"x" * 101
    swelling = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"64\r\n" + b"x" * 100 + b"\r\n"
    cases: list[tuple[Wire, type[Exception]]] = [
        (Wire((large,)), EndpointReplyError),
        (Wire((swelling, b"1\r\nx\r\n0\r\n\r\n")), EndpointReplyError),
        (Wire((), then="hang"), TimeoutError),
        (Wire((b"SMTP ready\r\n\r\n",)), aiohttp.ClientResponseError),
        (Wire((b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",), then="close"), aiohttp.ClientPayloadError),
        (Wire((), then="close"), aiohttp.ServerDisconnectedError),
    ]
    with serving(in_turn(*(wire for wire, _ in cases))) as server:
        async with session() as opened:
            for wire, error in cases:
                with pytest.raises(error):
                    await posted(opened, server.url, seconds=0.3 if wire.then == "hang" else 20)
            assert server.connections == len(cases)


async def test_whoever_listens_to_a_session_hears_of_its_posts() -> None:
    """A session with trace configs, as instrumentation makes it, tells them of each request."""
    heard: list[str] = []

    async def started(_: object, __: object, params: aiohttp.TraceRequestStartParams) -> None:
        heard.append(params.method)

    tracing = aiohttp.TraceConfig()
    tracing.on_request_start.append(started)

    with serving(lambda _: Wire((OK,))) as server:
        async with session(trace_configs=[tracing]) as opened:
            assert (await posted(opened, server.url)).body == b"ok"
    assert heard == ["POST"]


def test_what_is_not_public_of_aiohttp_is_as_it_is_used() -> None:
    """A new version of aiohttp that calls its parts otherwise fails here, and not first in a post."""
    used: dict[Callable[..., object], set[str]] = {
        ResponseHandler.set_response_params: {"read_until_eof", "auto_decompress"},
        ClientRequest.__init__: {"method", "url", "headers", "skip_auto_headers", "loop", "session"},
        aiohttp.BaseConnector.connect: {"req", "traces", "timeout"},
    }
    for part, names in used.items():
        assert names <= signature(part).parameters.keys(), part
    assert list(signature(ResponseHandler.read).parameters) == ["self"]
    assert "connection_key" in dir(ClientRequest)
    assert {"code", "headers"} <= set(dir(RawResponseMessage))
    assert {"protocol", "transport", "release", "close"} <= set(dir(Connection))
