"""Requests of aiohttp that are on their way before the event loop turns to anything else.

aiohttp writes a body in a task, which Python 3.11 begins a turn of the event loop later, after all that became
ready meanwhile. Replies that arrive together would thus send the next requests together, in bursts, and leave the
server idle between them.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Coroutine, Generator
from typing import Any

from aiohttp import ClientRequest


class EagerRequest(ClientRequest):
    """A request that is written at once, as far as its connection takes it."""

    def write_bytes(self, *args: Any, **settings: Any) -> Coroutine[Any, Any, None]:
        """Begin to write the body, and return what is left of that for aiohttp's task."""
        writing = super().write_bytes(*args, **settings)
        try:
            awaited = writing.send(None)
        except StopIteration:
            return _nothing()
        return _rest(writing, awaited)


async def _nothing() -> None:
    """Do nothing: all is written."""


async def _rest(writing: Coroutine[Any, Any, None], awaited: Any) -> None:
    await _resumed(writing, awaited)


@types.coroutine
def _resumed(writing: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Await a coroutine that has begun already and waits for `awaited`."""
    try:
        while True:
            try:
                outcome = yield awaited
            except BaseException as error:  # noqa: BLE001 - the coroutine decides what becomes of it
                awaited = writing.throw(error)
            else:
                awaited = writing.send(outcome)
    except StopIteration:
        return


REQUEST_CLASS = EagerRequest if sys.version_info < (3, 12) else ClientRequest
"""What sends requests at once: from Python 3.12 on, aiohttp's own class does."""
