"""Retrying a call whose transport failed: which failures are transient, how long to wait, when to stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from judges.runtime import budget

T = TypeVar("T")

LONGEST_WAIT_S = 60.0
"""Longest wait that a provider's `Retry-After` can cause."""

pause: ContextVar[Callable[[float], None] | None] = ContextVar("judges.pause", default=None)
"""Set by tests to record the waits between retries instead of sleeping."""

_TRANSIENT_STATUS = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_TRANSIENT_NAMES = {
    "APIConnectionError",
    "ClientConnectionError",
    "ConnectionError",
    "Timeout",
    "TimeoutError",
    "TransportError",
}
_OWN_PACE = wait_random_exponential(multiplier=0.5, max=8)


def persist(call: Callable[[], T], first: Exception, retries: int, claim: Callable[[], None] = lambda: None) -> T:
    """Repeat a call that has failed once, as long as its failures are transient.

    The first try is the caller's own, so that a call which succeeds costs nothing here.

    Args:
        call: The call to repeat.
        first: Error of the first try.
        retries: Most repetitions.
        claim: Called before each repetition.

    Raises:
        Exception: The last failure.
    """
    failed = [first]

    def attempt() -> T:
        if failed:
            raise failed.pop()
        budget.retry()
        claim()
        return call()

    return Retrying(**_policy(retries, sleep))(attempt)


async def apersist(
    call: Callable[[], Awaitable[T]], first: Exception, retries: int, claim: Callable[[], None] = lambda: None
) -> T:
    """Repeat a call without blocking; otherwise as `persist`."""
    failed = [first]

    async def attempt() -> T:
        if failed:
            raise failed.pop()
        budget.retry()
        claim()
        return await call()

    return await AsyncRetrying(**_policy(retries, asleep))(attempt)


def _policy(retries: int, sleep: Callable[[float], Any]) -> dict[str, Any]:
    stop: stop_base = stop_after_attempt(retries + 1)
    return {
        "retry": retry_if_exception(is_transient),
        "stop": budget.stop_at_limits(stop),
        "wait": wait_retry_after(_OWN_PACE),
        "sleep": sleep,
        "reraise": True,
    }


def sleep(seconds: float) -> None:
    """Wait between two tries."""
    (pause.get() or time.sleep)(seconds)


async def asleep(seconds: float) -> None:
    """Wait between two tries without blocking."""
    record = pause.get()
    if record is None:
        await asyncio.sleep(seconds)
    else:
        record(seconds)


def is_transient(error: BaseException) -> bool:
    """Check whether the same call may succeed later."""
    status = status_of(error)
    if status is not None:
        return status in _TRANSIENT_STATUS
    return any(kind.__name__ in _TRANSIENT_NAMES for kind in type(error).__mro__)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of a provider's error, from the attribute its client uses; None if it has none."""
    response = getattr(error, "response", None)
    places = ((error, "status_code"), (response, "status_code"), (error, "code"))
    statuses = (getattr(place, name, None) for place, name in places)
    return next((int(status) for status in statuses if isinstance(status, int)), None)


def kind_of(error: BaseException) -> str:
    """Return an error's class and status; never its message, which may hold a key or a prompt."""
    status = status_of(error)
    return type(error).__name__ if status is None else f"{type(error).__name__} (status {status})"


class wait_retry_after(wait_base):  # noqa: N801 - tenacity's strategies are named like functions
    """Wait as long as the provider's `Retry-After` header, at most `LONGEST_WAIT_S`; without one, as `other`."""

    def __init__(self, other: wait_base) -> None:
        self._other = other

    def __call__(self, retry_state: RetryCallState) -> float:
        """Return the seconds to wait."""
        error = retry_state.outcome.exception() if retry_state.outcome else None
        seconds = _retry_after(getattr(getattr(error, "response", None), "headers", None) or {})
        return min(seconds, LONGEST_WAIT_S) if seconds is not None and seconds > 0 else self._other(retry_state)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Parse the header in its three forms: milliseconds, seconds, a date (RFC 9110, section 10.2.3)."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    seconds = _number(header)
    if header is None or seconds is not None:
        return seconds
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return None
    return (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
