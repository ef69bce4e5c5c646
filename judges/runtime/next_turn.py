"""Calling functions in the next turn of the event loop, any number for little more than one costs."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Callable


class NextTurn:
    """Calls functions in the next turn of the event loop that runs, all that came until then together."""

    def __init__(self) -> None:
        self._due: dict[AbstractEventLoop, list[Callable[[], None]]] = {}

    def call(self, function: Callable[[], None]) -> None:
        """Call a function, which raises nothing, in the next turn."""
        loop = asyncio.get_running_loop()
        due = self._due.get(loop)
        if due is None:
            self._due[loop] = [function]
            loop.call_soon(self._run, loop)
        else:
            due.append(function)

    def _run(self, loop: AbstractEventLoop) -> None:
        for function in self._due.pop(loop):
            function()
