"""Retrying a call whose transport failed: which failures are transient, how long to wait, when to stop."""

from __future__ import annotations

import asyncio
import errno
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, TypeVar

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

from judges.entry import own_tables
from judges.errors import CannotJudge, ConfigurationError
from judges.runtime.observation import current

T = TypeVar("T")

LONGEST_WAIT_S = 60.0
"""Longest wait that a provider's `Retry-After` can cause."""

pause: ContextVar[Callable[[float], None] | None] = ContextVar("judges.pause", default=None)
"""Set by tests to record the waits between retries instead of sleeping."""

_TRANSIENT_STATUS = {408, 409, 425, 429, 500, 502, 503, 504, 529}
_FAULTS = own_tables(__file__, "failures.toml")
"""Read at once: the failure that asks for it may be that no file can be opened any more."""

_TRANSIENT_ERRNOS = {errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ENETUNREACH}
_MOST_MEMBERS = 3
"""How many members of a group an error's description names."""

_DEEPEST = 20
"""How many causes of an error are looked at."""

_OWN_PACE = wait_random_exponential(multiplier=0.5, max=8)


def carry_out(call: Callable[[], T], retries: int) -> T:
    """Make a call, and repeat it as `persist` does where it fails."""
    try:
        return call()
    except Exception as first:  # noqa: BLE001 - raised again unless transient
        return persist(call, first, retries)


async def acarry_out(call: Callable[[], Awaitable[T]], retries: int) -> T:
    """Make a call without blocking; otherwise as `carry_out`."""
    try:
        return await call()
    except Exception as first:  # noqa: BLE001 - raised again unless transient
        return await apersist(call, first, retries)


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
        _claim_retry()
        claim()
        return call()

    return Retrying(**_policy(retries, _wait))(attempt)


async def apersist(
    call: Callable[[], Awaitable[T]], first: Exception, retries: int, claim: Callable[[], None] = lambda: None
) -> T:
    """Repeat a call without blocking; otherwise as `persist`."""
    failed = [first]

    async def attempt() -> T:
        if failed:
            raise failed.pop()
        _claim_retry()
        claim()
        return await call()

    return await AsyncRetrying(**_policy(retries, _asleep))(attempt)


def _claim_retry() -> None:
    allowance = current.get().allowance
    if allowance is not None:
        allowance.retry()


def _policy(retries: int, sleep: Callable[[float], Any]) -> dict[str, Any]:
    stop: stop_base = stop_after_attempt(retries + 1)
    return {
        "retry": retry_if_exception(is_transient),
        "stop": _stop_at_limits(stop),
        "wait": _wait_retry_after(_OWN_PACE),
        "sleep": sleep,
        "reraise": True,
    }


def _wait(seconds: float) -> None:
    """Wait between two tries."""
    (pause.get() or time.sleep)(seconds)


async def _asleep(seconds: float) -> None:
    """Wait between two tries without blocking."""
    record = pause.get()
    if record is None:
        await asyncio.sleep(seconds)
    else:
        record(seconds)


def is_transient(error: BaseException) -> bool:
    """Check whether the same call may succeed later.

    The error itself decides if it has a status or a known class; otherwise its cause does, and for a group every
    member: one that will not pass makes the whole call fail again.
    """
    return all(map(_may_pass, _decisive(error)))


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, ConfigurationError | CannotJudge) or means(error, "lasting"):
        return False
    status = _own_status(error)
    if status is not None:
        return status in _TRANSIENT_STATUS
    return means(error, "transient") or getattr(error, "errno", None) in _TRANSIENT_ERRNOS


def _decisive(error: BaseException, depth: int = 0) -> list[BaseException]:
    """Return the errors that decide how a call failed: the outermost of a chain that is known, per group member.

    A failed transport yields to a lasting cause, such as a certificate, which its client only wraps.
    """
    if isinstance(error, BaseExceptionGroup) and depth < _DEEPEST:
        return [inner_error for member in error.exceptions for inner_error in _decisive(member, depth + 1)]
    if isinstance(error, ConfigurationError | CannotJudge) or _own_status(error) is not None:
        return [error]
    chain = list(_chain(error))
    lasting = [cause for cause in chain if means(cause, "lasting")]
    if lasting or _may_pass(error):
        return lasting or [error]
    cause = next(iter(chain[1:]), None)
    return [error] if cause is None or depth >= _DEEPEST else _decisive(cause, depth + 1)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause (or what was handled as it was raised), the cause of that, and so on."""
    current: BaseException | None = error
    for _ in range(_DEEPEST):
        if current is None:
            return
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def means(error: BaseException, fault: Literal["transient", "lasting", "unreadable"]) -> bool:
    """Check whether `failures.toml` names an error's class, or one it derives from, under a fault."""
    return _is_named(error, _FAULTS[fault])


def _is_named(error: BaseException, names: Collection[str]) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of a provider's error, or of the error behind it; None if there is none."""
    return next((status for status in map(_own_status, _decisive(error)) if status is not None), None)


def _own_status(error: BaseException) -> int | None:
    """Return the status from the attribute that the provider's client uses."""
    if _is_named(error, {"PayloadEncodingError"}):
        return None  # its code 400 is aiohttp's own, not the server's
    response = getattr(error, "response", None)
    if isinstance(response, Mapping) and isinstance(response.get("ResponseMetadata"), Mapping):  # botocore
        return _valid_status(response["ResponseMetadata"].get("HTTPStatusCode"))
    places = ((error, "status_code"), (response, "status_code"), (error, "status"), (error, "code"))
    statuses = (_valid_status(getattr(place, name, None)) for place, name in places)
    return next((status for status in statuses if status is not None), None)


def _valid_status(value: object) -> int | None:
    return int(value) if isinstance(value, int) and 100 <= value < 600 else None  # noqa: PLR2004 - HTTP's range


_ADDRESS = re.compile(r"https?://(?:[^\s/@]*@)?([^\s/?#@]+)")


def place_of(error: BaseException) -> str:
    """Return `" at http://host:port"`, where an error is about a request and tells where it went; or nothing."""
    for decisive_error in _decisive(error):
        with suppress(Exception):  # httpx raises where an error has no request
            address = _ADDRESS.match(str(decisive_error.request.url))  # type: ignore[attr-defined]  # of httpx and openai
            if address is not None:
                return f" at {address[0].partition(':')[0]}://{address[1]}"
        if (
            _is_named(decisive_error, {"EndpointError"})
            and (address := _ADDRESS.search(str(decisive_error))) is not None
        ):
            return f" at {address[0].partition(':')[0]}://{address[1]}"
    return ""


def kind_of(error: BaseException) -> str:
    """Return an error's class and status, of a group those inside; never a message, which may hold a prompt."""
    if isinstance(error, BaseExceptionGroup):
        members = list(dict.fromkeys(map(kind_of, _decisive(error))))
        return f"{type(error).__name__} of {', '.join(members[:_MOST_MEMBERS])}"
    status = status_of(error)
    return type(error).__name__ if status is None else f"{type(error).__name__} (status {status})"


class _wait_retry_after(wait_base):  # noqa: N801 - tenacity's strategies are named like functions
    """Wait as long as the provider's `Retry-After` header, at most `LONGEST_WAIT_S`; without one, as `other`."""

    def __init__(self, other: wait_base) -> None:
        self._other = other

    def __call__(self, retry_state: RetryCallState) -> float:
        """Return the seconds to wait."""
        error = retry_state.outcome.exception() if retry_state.outcome else None
        waits = (
            []
            if error is None
            else [_retry_after(_headers_of(decisive_error)) for decisive_error in _decisive(error)]
        )
        seconds = max((wait for wait in waits if wait is not None), default=None)
        return min(seconds, LONGEST_WAIT_S) if seconds is not None and seconds > 0 else self._other(retry_state)


def _headers_of(error: BaseException) -> Mapping[str, str]:
    return getattr(getattr(error, "response", None), "headers", None) or {}


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
        return (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):  # an offset of years is too large for a date
        return None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


class _stop_at_limits(stop_base):  # noqa: N801 - tenacity's strategies are named like functions
    """Stop retrying when `other` says so, no repeat is left, or the next wait would pass the deadline."""

    def __init__(self, other: stop_base) -> None:
        self._other = other

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Check whether to stop."""
        allowance = current.get().allowance
        seconds_left = None if allowance is None else allowance.seconds_left
        late = seconds_left is not None and retry_state.upcoming_sleep >= seconds_left
        return self._other(retry_state) or late or not (allowance is None or allowance.retries_left())
