"""Sessions of aiohttp, one for each event loop: a session created in one loop does not work in another."""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from judges.runtime.flow import in_daemon_thread

if TYPE_CHECKING:
    from aiohttp import ClientSession
    from aiohttp.abc import AbstractResolver


exchange_end: ContextVar[float | None] = ContextVar("judges.exchange_end", default=None)
"""When the exchange that is being made must be over, by the monotonic clock; None leaves it unbounded."""


LONGEST_HEADER = 65_536
"""Longest header of a reply that is read, in bytes, blocking or not: as long as Python's own client takes."""


class Sessions:
    """Open a session in each event loop that needs one, and close it with the loop.

    A session whose owner is gone is closed in its own loop, so that aiohttp has nothing to warn of. If a loop
    is closed by hand, without shutting down its async generators, the garbage collector closes the connections.

    Args:
        make: Creates a session in the running loop.
    """

    def __init__(self, make: Callable[[], ClientSession]) -> None:
        self._make = make
        self._open: dict[asyncio.AbstractEventLoop, _Session] = {}
        weakref.finalize(self, _close_all, self._open).atexit = False

    def __len__(self) -> int:
        return len(self._open)

    def opened(self) -> ClientSession | None:
        """Return the session of the running loop if there is one that is open."""
        opened = self._open.get(asyncio.get_running_loop())
        return None if opened is None or opened.session.closed else opened.session

    async def current(self) -> ClientSession:
        """Return the session of the running loop."""
        loop = asyncio.get_running_loop()
        opened = self._open.get(loop)
        if opened is not None and not opened.session.closed:
            return opened.session
        for other in list(self._open):
            dead = self._open.pop(other, None) if other is loop or other.is_closed() else None
            if dead is not None:
                dead.session.detach()
        opened = self._open[loop] = _Session(self._make())
        await anext(opened.holder)
        return opened.session

    async def close(self) -> None:
        """Close the session of the running loop."""
        opened = self._open.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.close()


class _Session:
    """A session of one event loop. It closes with the loop, or when its owner is gone."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.holder = _hold_open(self)
        self._closing: asyncio.Task[None] | None = None

    def begin_to_close(self) -> None:
        """Schedule closing; call it in the session's own loop."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self.close())

    async def close(self) -> None:
        """Close; concurrent calls wait for the first."""
        closing = self._closing
        if closing is not None and closing is not asyncio.current_task():
            await asyncio.wait([closing])
        await self.session.close()  # does nothing the second time; the first may have been cancelled with the loop


async def _hold_open(session: _Session) -> AsyncGenerator[None]:
    """Hold a session open: every loop closes its async generators as it ends, and this one closes the session."""
    try:
        yield
    finally:
        await session.close()


def _close_all(sessions: dict[asyncio.AbstractEventLoop, _Session]) -> None:
    """Close the sessions of an owner that is gone, each in its own loop."""
    for loop, opened in sessions.items():
        if loop.is_closed():
            opened.session.detach()
        else:
            loop.call_soon_threadsafe(opened.begin_to_close)


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
