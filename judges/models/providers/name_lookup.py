"""Lookups of host names that nobody waits for longer than an exchange may take.

The system's lookup cannot be given a time limit, so each runs in a daemon thread of its own, which holds up
neither an event loop nor the end of the process. There is one for each new connection, not for each request.
"""

from __future__ import annotations

import asyncio
import socket
import time
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from judges.runtime.blocking import DaemonThreads, in_daemon_thread

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver


def addresses_of(host: str, port: int, end: float) -> list[str]:
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


def resolver() -> AbstractResolver | None:
    """Return what looks host names up for aiohttp; None where aiohttp needs no threads for it."""
    from aiohttp.resolver import DefaultResolver, ThreadedResolver  # noqa: PLC0415 - an extra

    if DefaultResolver is not ThreadedResolver:
        return None
    loop: Any = _Lookups()
    return ThreadedResolver(loop)


class _Lookups:
    """The part of an event loop that a resolver uses."""

    async def getaddrinfo(self, host: str, port: int, **settings: Any) -> list[Any]:
        """Look a name up."""
        return await in_daemon_thread(lambda: socket.getaddrinfo(host, port, **settings))

    async def getnameinfo(self, address: Any, flags: int = 0) -> tuple[str, str]:
        """Return an address as text; nothing is looked up."""
        return await asyncio.get_running_loop().getnameinfo(address, flags)


def _is_numeric(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
