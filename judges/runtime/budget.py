"""One budget over many model calls, shared by everything that runs inside it.

The loop sets an allowance around a judge; the driver claims every call from it. It is stored in a context
variable, so concurrent requests never share one, and the members of a panel always do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar

from tenacity import RetryCallState
from tenacity.stop import stop_base

from judges.errors import AskFailed
from judges.runtime.context import setting
from judges.runtime.prices import Price, with_cost
from judges.verdict import Usage


class Allowance:
    """The budget that is left, and the prices to charge.

    Args:
        calls: Model calls left, or None for any number.
        tokens: Tokens left, or None.
        cost: US dollars left, or None.
        seconds: Time left from now, or None.
        prices: Price by model name; a call to any other model has no known cost.
        unpriced: Whether a call of unknown cost was made already; a budget of cost then allows no call.
    """

    def __init__(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        cost: float | None = None,
        seconds: float | None = None,
        prices: Mapping[str, Price] | None = None,
        unpriced: bool = False,
    ) -> None:
        self._prices = prices or {}
        self._unpriced = unpriced
        self._calls = calls
        self._tokens = tokens
        self._cost = cost
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._lock = threading.Lock()

    @property
    def seconds_left(self) -> float | None:
        """Time left, or None where there is no deadline."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def take(self) -> None:
        """Claim one call.

        Raises:
            AskFailed: If nothing is left; do not make the call then.
        """
        left = self.seconds_left
        if left is not None and left <= 0:
            raise AskFailed("deadline", "the deadline passed before the judge was asked")
        with self._lock:
            if self._cost is not None and self._unpriced:
                raise AskFailed("budget", "a model's price is unknown, so the budget of cost cannot be kept")
            for limit, remaining in (("calls", self._calls), ("tokens", self._tokens), ("cost", self._cost)):
                if remaining is not None and remaining <= 0:
                    raise AskFailed("budget", f"the budget of {limit} was spent before the judge was asked")
            if self._calls is not None:
                self._calls -= 1

    def add(self, usage: Usage, model: str | None) -> Usage:
        """Subtract the usage of a call to `model`, and return it with its cost."""
        usage = with_cost(usage, model, self._prices)
        with self._lock:
            if self._calls is not None:
                self._calls += 1 - usage.calls  # a reply from a cache returns its claim
            self._unpriced = self._unpriced or usage.cost is None
            if self._tokens is not None:
                self._tokens -= usage.tokens
            if self._cost is not None:
                self._cost -= usage.cost or 0.0
        return usage


_current: ContextVar[Allowance | None] = ContextVar("judges.runtime.budget", default=None)


def within(allowance: Allowance | None) -> setting[Allowance | None]:
    """Run a `with` block under an allowance; None lifts an outer one."""
    return setting(_current, allowance)


def take() -> None:
    """Claim one call of the current allowance, if there is one."""
    current = _current.get()
    if current is not None:
        current.take()


def add(usage: Usage, model: str | None) -> Usage:
    """Subtract a call's usage from the current allowance, if there is one, and return it with its cost."""
    current = _current.get()
    return with_cost(usage, model, {}) if current is None else current.add(usage, model)


def seconds_left() -> float | None:
    """Return the time left in the current allowance; None where there is no deadline."""
    current = _current.get()
    return None if current is None else current.seconds_left


class stop_at_deadline(stop_base):  # noqa: N801 - tenacity's strategies are named like functions
    """Stop retrying when `other` says so, or when the next wait would pass the deadline."""

    def __init__(self, other: stop_base) -> None:
        self._other = other

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Check whether to stop."""
        left = seconds_left()
        return self._other(retry_state) or (left is not None and retry_state.upcoming_sleep >= left)
