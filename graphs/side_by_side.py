"""Calls that run side by side: in threads, or as tasks of an event loop. Their results come as they are ready."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Generic, TypeVar

from judges.runtime.blocking import DaemonThreads, leave_unjoined, let_calls_be_left
from judges.runtime.budget import Allowance

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Entry(Generic[T]):
    """One of the calls.

    Args:
        run: Makes the call, blocking.
        arun: Makes it without blocking.
        allowance: What its model calls are claimed from.
    """

    run: Callable[[], T]
    arun: Callable[[], Awaitable[T]]
    allowance: Allowance = field(default_factory=Allowance)


class Race(Generic[T]):
    """Calls side by side, each known by its number; those that are stopped ask no model and use no tool any more.

    Args:
        entries: The calls by number.
    """

    def __init__(self, entries: Mapping[int, Entry[T]]) -> None:
        self._entries = entries
        self._running: set[int] = set()
        self._ended: SimpleQueue[tuple[int, Future[T]]] = SimpleQueue()
        self._tasks: dict[int, asyncio.Future[T]] = {}
        self._open = ExitStack()

    @property
    def is_running(self) -> bool:
        """Whether results are still to come."""
        return bool(self._running)

    def start(self) -> None:
        """Begin all calls, each in a thread."""
        threads = self._open.enter_context(DaemonThreads(len(self._entries)))
        self._running = set(self._entries)
        for number, entry in self._entries.items():
            threads.submit(entry.run).add_done_callback(partial(self._end, number))

    async def astart(self) -> None:
        """Begin all calls, each as a task."""
        let_calls_be_left()
        self._running = set(self._entries)
        self._tasks = {number: asyncio.ensure_future(entry.arun()) for number, entry in self._entries.items()}

    def next(self) -> tuple[int, T]:
        """Wait for the next result, and return its number and it; what the call raised is raised."""
        number, future = self._ended.get()
        self._running.discard(number)
        return number, future.result()

    async def anext(self) -> tuple[int, T]:
        """Wait without blocking; otherwise as `next`."""
        tasks = {self._tasks[number]: number for number in sorted(self._running)}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        task, number = next((task, number) for task, number in tasks.items() if task.done())
        self._running.discard(number)
        return number, task.result()

    def stop(self) -> None:
        """Stop the calls that are still running, without waiting for them."""
        self._open.close()
        if not self._running:
            return
        for number in self._running:
            self._entries[number].allowance.close()
            if number in self._tasks:  # one that has ended by now may have failed
                self._tasks[number].add_done_callback(_retrieve_exception)
                self._tasks[number].cancel()
        self._running = set()
        leave_unjoined()

    def _end(self, number: int, future: Future[T]) -> None:
        self._ended.put((number, future))


def _retrieve_exception(task: asyncio.Future[T]) -> None:
    """Retrieve the exception of a task that was stopped, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()
