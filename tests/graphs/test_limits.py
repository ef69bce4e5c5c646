"""Waiting no longer than a deadline allows."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from graphs.drivers import DeadlinePassed, acall_within, call_within
from tests.kit import Hang

SHORT = 0.02
SOON = 10.0
"""What counts as in time: far below what is hung on, far above what a busy machine takes."""

marker: ContextVar[str] = ContextVar("marker", default="unset")


async def value() -> int:
    """Give a value."""
    return 7


def broken() -> int:
    """Fail."""
    raise LookupError("no")


async def abroken() -> int:
    """Fail."""
    raise LookupError("no")


@pytest.mark.parametrize("seconds", [None, 5, 1e12])
async def test_what_comes_in_time_is_given(seconds: float | None) -> None:
    """Without a limit, or within it, however far off, the value comes back."""
    assert call_within(seconds, lambda: 7) == 7
    assert await acall_within(seconds, value()) == 7


@pytest.mark.parametrize("seconds", [None, 5])
async def test_an_error_comes_back(seconds: float | None) -> None:
    """An error of the call is the caller's."""
    with pytest.raises(LookupError):
        call_within(seconds, broken)
    with pytest.raises(LookupError):
        await acall_within(seconds, abroken())


def test_an_interrupt_comes_back() -> None:
    """What ends the process ends it from the thread, too."""

    def dies() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call_within(5, dies)


def test_a_hanging_call_is_left_to_itself(hang: Hang) -> None:
    """A blocking call is abandoned when the time is up."""
    with pytest.raises(DeadlinePassed):
        call_within(SHORT, hang.wait)


@pytest.mark.parametrize("seconds", [0, -1])
def test_without_time_nothing_is_called(seconds: float) -> None:
    """When the time is up beforehand, the call is not made."""
    called: list[int] = []
    with pytest.raises(DeadlinePassed):
        call_within(seconds, lambda: called.append(1))
    assert called == []


@pytest.mark.parametrize("seconds", [0, -1])
async def test_without_time_nothing_is_awaited(seconds: float) -> None:
    """When the time is up beforehand, a call that waits is not waited for."""
    with pytest.raises(DeadlinePassed):
        await acall_within(seconds, asyncio.sleep(30))


async def test_a_hanging_coroutine_is_cancelled() -> None:
    """A coroutine is cancelled when the time is up."""
    cancelled = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(DeadlinePassed):
        await acall_within(SHORT, hangs())
    await asyncio.wait_for(cancelled.wait(), SOON)


async def test_a_coroutine_that_does_not_obey_is_left_to_itself() -> None:
    """One that ignores being cancelled is waited for no longer, and its late error is nobody's."""
    freed, ended = asyncio.Event(), list[str]()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            await asyncio.wait_for(freed.wait(), 30)
            ended.append("late")
            raise LookupError("late") from None

    with pytest.raises(DeadlinePassed):
        await acall_within(SHORT, stubborn())
    assert ended == []
    freed.set()
    await asyncio.sleep(0)


async def test_a_cancelled_caller_cancels_the_call() -> None:
    """When whoever waits is cancelled, so is the call, and no deadline is reported."""
    cancelled = asyncio.Event()
    begun = asyncio.Event()

    async def hangs() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.set()

    waiting = asyncio.create_task(acall_within(30, hangs()))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(cancelled.wait(), SOON)


async def test_a_timeout_of_the_call_is_its_own() -> None:
    """A `TimeoutError` that the call raises is no deadline."""

    async def timed_out() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await acall_within(5, timed_out())


async def test_the_context_is_that_of_the_caller() -> None:
    """Context variables reach the call, in its thread or task."""

    async def look() -> str:
        return marker.get()

    token = marker.set("set")
    try:
        assert call_within(5, marker.get) == "set"
        assert await acall_within(5, look()) == "set"
    finally:
        marker.reset(token)
