"""Connections of urllib3 on which a whole exchange is bounded in time, not each of its reads.

A socket's timeout begins anew with every byte, so a server that drips its status line, its headers, the sizes of
chunks or `100 Continue` for ever would never time out. Here the time left shrinks from read to read.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Iterable
from http.client import HTTPResponse
from ipaddress import ip_address
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError

from judges.models.providers.sessions import exchange_end
from judges.runtime.flow import DaemonThreads

_AT_ONCE = 65_536
"""Bytes that a socket takes at once, whether or not they are read at the other end."""


def bounded(pool: HTTPConnectionPool) -> HTTPConnectionPool:
    """Make a pool's connections keep `exchange_end`, and return the pool."""
    pool.ConnectionCls = _BoundedHTTPS if pool.scheme == "https" else _BoundedHTTP
    return pool


class _Socket:
    """A connection's socket as a response reads from it: until the exchange must be over.

    Args:
        inner: The socket.
        end: When the exchange must be over, by the monotonic clock.
    """

    def __init__(self, inner: socket.socket, end: float) -> None:
        self._inner = inner
        self._end = end

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return a file to read the response from."""
        del mode
        return io.BufferedReader(_Reader(self._inner, self._end))


class _Reader(io.RawIOBase):
    """Reads a socket with a timeout that shrinks."""

    def __init__(self, inner: socket.socket, end: float) -> None:
        self._inner = inner
        self._raw = inner.makefile("rb", buffering=0)
        self._end = end
        self._is_fresh = True

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what is there, within the time that is left."""
        if self._is_fresh:
            self._is_fresh = False  # urllib3 has just set the time that is left
            return self._raw.readinto(buffer)
        _limit(self._inner, self._end)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Leave the socket to the connection."""
        self._raw.close()
        super().close()


def _limit(connected: Any, end: float | None) -> None:
    if end is None or connected is None:
        return
    seconds_left = end - time.monotonic()
    if seconds_left <= 0:
        raise TimeoutError("the time for the exchange is over")
    connected.settimeout(seconds_left)


class _BoundedHTTP(HTTPConnection):
    """A connection that keeps `exchange_end`, and sends the headers together with a body that is small."""

    _ends_headers = False
    _headers_held: bytes = b""

    def _new_conn(self) -> socket.socket:
        """Connect to one of the host's addresses; looking them up and trying all of them share the time left."""
        end = exchange_end.get()
        if end is None:
            return super()._new_conn()
        name, longest = self._dns_host, self.timeout
        try:
            return self._connect_to_any(self._addresses(name, end), end)
        finally:
            self.host, self.timeout = name, longest

    def _addresses(self, name: str, end: float) -> list[str]:
        try:
            return _addresses_of(name, self.port, end)
        except TimeoutError as error:
            raise ConnectTimeoutError(self, f"{name} was not looked up in time") from error
        except (OSError, UnicodeError) as error:
            raise NameResolutionError(name, self, socket.gaierror(*error.args[:2])) from error

    def _connect_to_any(self, addresses: Iterable[str], end: float) -> socket.socket:
        failure: Exception = NewConnectionError(self, "the host has no address")
        longest = self.timeout
        for address in addresses:
            seconds_left = end - time.monotonic()
            if seconds_left <= 0:
                raise ConnectTimeoutError(self, "no address answered in time")
            self.host, self.timeout = address, seconds_left if longest is None else min(longest, seconds_left)
            try:
                return super()._new_conn()
            except (ConnectTimeoutError, NewConnectionError) as error:
                failure = error
        raise failure

    def putrequest(self, *target: Any, **options: Any) -> None:
        """Begin a request."""
        self._headers_held = b""
        super().putrequest(*target, **options)

    def endheaders(self, *body: Any, **options: Any) -> None:
        """End the headers, and hold them until there is a body, or none will come."""
        self._ends_headers = True
        super().endheaders(*body, **options)

    def send(self, data: Any) -> None:
        """Send, within the time that is left."""
        if self._ends_headers:
            self._ends_headers, self._headers_held = False, data
            return
        held, self._headers_held = self._headers_held, b""
        if len(held) + len(data) > _AT_ONCE:
            _limit(self.sock, exchange_end.get())
        super().send(held + data)

    def getresponse(self) -> Any:
        """Return the response, all of which is read within the time that is left."""
        if self._headers_held:
            self.send(b"")
        _bound_response(self)
        return super().getresponse()


class _BoundedHTTPS(_BoundedHTTP, HTTPSConnection):
    """A TLS connection that does the same."""


def _bound_response(connection: Any) -> None:
    end = exchange_end.get()
    if end is None:
        return
    connection.timeout = max(0.001, end - time.monotonic())

    def respond(connected: socket.socket, *details: Any, **options: Any) -> HTTPResponse:
        return HTTPResponse(_Socket(connected, end), *details, **options)  # type: ignore[arg-type]  # its file alone

    connection.response_class = respond


def _addresses_of(host: str, port: int, end: float) -> list[str]:
    """Return the numeric addresses of a host, in the order in which they are to be tried.

    Args:
        host: Its name, or an address, IPv6 in brackets or not.
        port: The port.
        end: When they must be known, by the monotonic clock.

    Raises:
        TimeoutError: If they are not known by then.
        OSError: If there are none.
    """
    bare = host.strip("[]")
    if _is_numeric(bare):
        return [bare]
    with DaemonThreads(1) as threads:
        lookup = threads.submit(socket.getaddrinfo, bare, port, 0, socket.SOCK_STREAM)
        infos = lookup.result(timeout=max(0.0, end - time.monotonic()))
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


def _is_numeric(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
