"""POST over the connections of an aiohttp session, at a third of the CPU of the session's own `post`.

`post` makes a request and a response of many parts, for redirects, cookies, proxies, traces and a task that writes
the body; nothing of it is needed for JSON in one piece. The pool, TLS, and the reading of the response remain
aiohttp's. The request is on its way before the event loop turns to anything else: requests that wait for a task
would leave together, in bursts. A session to which somebody listens, as instrumentation does, is asked itself.
Parts of aiohttp that are not public are used in this module alone, and a contract test says how.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Mapping
from functools import cached_property

from aiohttp import ClientRequest, ClientResponseError, ClientSession, StreamReader
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from judges.models.providers.http_errors import EndpointReplyError, EndpointResponse
from judges.models.providers.sessions import LONGEST_HEADER

_LARGE = 1 << 20
"""Bytes from which a body is not copied to join it to the headers; aiohttp itself warns of more in one piece."""
_SWITCHING = 101


class DirectPost:
    """Posts to one address.

    Args:
        url: The address; a user and password in it are sent.
        most_bytes: Most bytes of a reply that are read.
    """

    def __init__(self, url: URL, *, most_bytes: int) -> None:
        self._url = url
        self._most_bytes = most_bytes
        self._origin = str(url.origin())
        self._prepared: _Prepared | None = None

    async def __call__(
        self, session: ClientSession, body: bytes, headers: Mapping[str, str] | None, *, seconds: float | None
    ) -> EndpointResponse:
        """Post a body, and return the whole response, whatever its status.

        Args:
            session: Whose connections and headers are used; its own timeout holds for connecting alone.
            body: The body.
            headers: Headers of this request, names in lower case; they go before the session's.
            seconds: Until the reply must be complete; None waits for ever.

        Raises:
            EndpointReplyError: If it has more bytes than are read.
            aiohttp.ClientError: If there is no response.
            TimeoutError: If it is not complete in time.
            ValueError: If a header holds a line break.
        """
        prepared = self._prepared
        if prepared is None or prepared.session is not session:
            prepared = self._prepared = _Prepared(session, self._url)
        async with asyncio.timeout(seconds):
            if session.trace_configs:
                return await self._through(session, body, headers)
            return await self._straight(prepared, body, prepared.head(headers, len(body)))

    async def _straight(self, prepared: _Prepared, body: bytes, head: bytes) -> EndpointResponse:
        connector = prepared.session.connector
        if connector is None:
            raise RuntimeError("Session is closed")  # in the words of aiohttp
        connection = await connector.connect(prepared.request, [], prepared.session.timeout)
        protocol, transport = connection.protocol, connection.transport
        assert protocol is not None  # noqa: S101 - it is new, or fresh from the pool
        assert transport is not None  # noqa: S101 - as above
        try:
            protocol.set_response_params(
                read_until_eof=True,
                auto_decompress=False,
                max_line_size=LONGEST_HEADER,
                max_field_size=LONGEST_HEADER,
            )
            if len(body) < _LARGE:
                transport.write(head + body)
            else:
                transport.writelines((head, body))
            message, payload = await _response(protocol, prepared.request)
            read = await self._body(payload, message.headers)
        except BaseException:
            transport.abort()  # what is not sent yet is not wanted any more
            connection.close()
            raise
        if transport.get_write_buffer_size():  # it answered before it had read the request
            transport.abort()
            connection.close()
        else:
            connection.release()
        return EndpointResponse(message.code, message.headers, read)

    async def _through(
        self, session: ClientSession, body: bytes, headers: Mapping[str, str] | None
    ) -> EndpointResponse:
        """Post by the session itself, which tells those who listen."""
        data = body if len(body) < _LARGE else io.BytesIO(body)
        async with session.post(self._url, data=data, headers=headers, allow_redirects=False) as response:
            read = await self._body(response.content, response.headers)
            return EndpointResponse(response.status, response.headers, read)

    def _body(self, payload: StreamReader, headers: Mapping[str, str]) -> Awaitable[bytes]:
        return whole_body(payload, headers, most_bytes=self._most_bytes, origin=self._origin)


class _Template(ClientRequest):
    """The request that connections are taken for, again and again: its key is computed once."""

    @cached_property
    def connection_key(self) -> ConnectionKey:
        return super().connection_key


class _Prepared:
    """What is the same in all requests of a session to one address.

    Args:
        session: The session, with the headers that all its requests have.
        url: The address.
    """

    def __init__(self, session: ClientSession, url: URL) -> None:
        self.session = session
        self.request = _Template(
            "POST",
            url,
            headers=session.headers,
            skip_auto_headers=session.skip_auto_headers,
            loop=asyncio.get_running_loop(),
            session=session,
        )
        sent = {name.lower(): text for name, text in self.request.headers.items()}
        self._own = {name: text for name, text in sent.items() if name != "content-length"}
        self._line = f"POST {self.request.url.raw_path_qs} HTTP/1.1\r\n".encode("ascii")
        self._fixed = self._line + _block(self._own)

    def head(self, headers: Mapping[str, str] | None, length: int) -> bytes:
        """Return the request up to its body."""
        block = self._fixed if headers is None else self._line + _block({**self._own, **headers})
        return b"%bcontent-length: %d\r\n\r\n" % (block, length)


def _block(headers: Mapping[str, str]) -> bytes:
    """Return headers as they are sent.

    Raises:
        ValueError: If one holds what would begin another.
    """
    block = "".join([f"{name}: {text}\r\n" for name, text in headers.items()])
    if not block.count("\n") == block.count("\r") == len(headers) or "\0" in block:
        raise ValueError("a header holds a line break or a null byte")
    return block.encode()


async def _response(protocol: ResponseHandler, request: ClientRequest) -> tuple[RawResponseMessage, StreamReader]:
    """Wait for the response that is no interim one."""
    try:
        message, payload = await protocol.read()
        while 100 <= message.code < 200 and message.code != _SWITCHING:  # noqa: PLR2004 - HTTP's interim responses
            message, payload = await protocol.read()
    except HttpProcessingError as error:
        raise ClientResponseError(
            request.request_info, (), status=error.code, message=error.message, headers=error.headers
        ) from error
    return message, payload


async def whole_body(payload: StreamReader, headers: Mapping[str, str], *, most_bytes: int, origin: str) -> bytes:
    """Return the body of a response.

    Raises:
        EndpointReplyError: If it has more than so many bytes.
    """
    promised = headers.get("content-length", "")
    is_known = promised.isdigit()
    parts, size = [], int(promised) if is_known else 0
    if is_known and size <= most_bytes:
        return payload.read_nowait() if payload.is_eof() else await payload.read()
    if size <= most_bytes:
        async for part in payload.iter_any():
            parts.append(part)
            size += len(part)
            if size > most_bytes:
                break
    if size > most_bytes:
        raise EndpointReplyError(f"the reply of {origin} is larger than {most_bytes:,} bytes")
    return b"".join(parts)
