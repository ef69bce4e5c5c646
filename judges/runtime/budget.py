"""One budget over many model calls, shared by everything that runs inside it.

The loop sets an allowance around a generator or a judge. Every call is claimed from it: by the driver for a
judge's own model, by `judges.models.providers.llm_runs` for models that a chain or a function calls. It is part of
the observation, so concurrent requests never share one, and the members of a panel always do. An allowance inside
another one claims from both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Mapping
from typing import Literal

from judges.errors import AskFailed, shortened
from judges.runtime.prices import Price, with_cost
from judges.verdict import Usage

EARLY_S = 0.01
"""How long before a deadline a timer may go off that was set to it."""

_NOTHING = Usage()


class Refused(AskFailed):
    """A call that the allowance has no room for; it was not made."""


class CallStopped(BaseException):
    """Raised inside somebody's code in place of a call that was refused.

    It is no `Exception`, so that no retry, no fallback and no error handler of a tool goes on in spite of it.
    """


class Allowance:
    """The budget that is left, the prices to charge, and what was spent.

    Args:
        calls: Model calls left, or None for any number.
        tokens: Tokens left, or None.
        cost: US dollars left, or None.
        seconds: Time left from now, or None.
        retries: Repeats of calls whose transport failed that are left, or None for any number.
        prices: Price by model name; a call to any other model has no known cost.
        spent: What was consumed before; a budget that can no longer be kept allows no call.
        unpriced: Name of a model that was asked before and has no price, for the message.
        purpose: What the calls are for, to complete "the budget was spent before ...".
        may_be_left: Whether calls may be left before they end, as they are at a deadline.
    """

    def __init__(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        cost: float | None = None,
        seconds: float | None = None,
        retries: int | None = None,
        prices: Mapping[str, Price] | None = None,
        spent: Usage | None = None,
        unpriced: str | None = None,
        purpose: str = "the judge was asked",
        may_be_left: bool = False,
    ) -> None:
        self._may_be_left = may_be_left or seconds is not None
        self.prices = prices or {}
        self._purpose = purpose
        self._calls, self._tokens, self._cost, self._retries = calls, tokens, cost, retries
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._before = _NOTHING if spent is None else spent
        self._spent = _NOTHING
        self._in_flight = 0
        self._unpriced = unpriced
        self._refusal: Refused | None = None
        self._outer: Allowance | None = None
        self._state: Literal["open", "released", "closed"] = "open"
        self._keys: set[Hashable] = set()
        self._lock = threading.Lock()

    @property
    def seconds_left(self) -> float | None:
        """Time left, here and outside, or None where there is no deadline."""
        outer = None if self._outer is None else self._outer.seconds_left
        if self._deadline is None:
            return outer
        own = self._deadline - time.monotonic()
        return own if outer is None else min(own, outer)

    @property
    def spent(self) -> Usage:
        """What the calls inside consumed so far; the tokens of calls in flight are not known."""
        if self._in_flight <= 0:
            return self._spent
        return self._spent + _IN_FLIGHT.model_copy(update={"calls": self._in_flight})

    @property
    def may_be_left(self) -> bool:
        """True if calls inside may be left before they end, here or outside."""
        return self._may_be_left or (self._outer is not None and self._outer.may_be_left)

    @property
    def is_closed(self) -> bool:
        """True if every further call is refused."""
        return self._state == "closed"

    @property
    def refusal(self) -> Refused | None:
        """The first call that was refused, if any was."""
        return self._refusal

    def inside(self, outer: Allowance | None) -> Allowance:
        """Claim from `outer` too, from now on, and return this."""
        if outer is not self and self._outer is None:
            self._outer = outer
        return self

    def take(self, key: Hashable = None, *, as_call: bool = True) -> None:
        """Claim one call.

        Args:
            key: Identifies a call that several observers may claim; it is counted once.
            as_call: Whether it counts as a call; if not, it needs room in the other budgets only.

        Raises:
            Refused: If nothing is left; do not make the call then.
        """
        if self._state == "released" or not self._is_new(key):
            return
        try:
            self._check()
            self._claim(as_call=as_call)
            self._take_outside(key, as_call=as_call)
        except Refused as refusal:
            self._refusal = self._refusal or refusal
            raise

    def check(self) -> None:
        """Check that there is time left, and that nothing inside was stopped.

        Raises:
            Refused: If there is not; nothing may be begun then.
        """
        try:
            self._check()
        except Refused as refusal:  # by the first of them, who calls tells why it was stopped
            self._refusal = self._refusal or refusal
            raise

    def _check(self) -> None:
        if self._state == "closed":
            raise Refused("deadline", "nobody waits for an answer any more")
        seconds_left = None if self._state == "released" else self.seconds_left
        if seconds_left is not None and seconds_left <= 0:
            raise Refused("deadline", f"the deadline passed before {self._purpose}")
        if self._outer is not None:
            self._outer.check()

    def add(
        self,
        usage: Usage,
        model: str | None,
        key: Hashable = None,
        *,
        requested: str | None = None,
        as_call: bool = True,
    ) -> Usage:
        """Subtract the usage of a call to `model`, and return it with its cost.

        Args:
            usage: What the call consumed.
            model: Name of the model as the provider reported it, for its price.
            key: Identifies the call, as for `take`.
            requested: The name that was asked for, whose price counts where `model` has none.
            as_call: Whether it counts as a call, as for `take`.
        """
        is_priced = self.prices or usage.cost is not None or not usage.calls
        whole = with_cost(usage, model, self.prices, requested=requested) if is_priced else usage
        usage = whole if as_call else _not_a_call(whole)
        if usage.cost is None and usage.tokens_known:
            self._unpriced = self._unpriced or requested or model
        if self._state == "released" or not self._is_new(None if key is None else (key, "usage")):
            return usage
        if self._outer is not None:
            self._outer.add(whole, model, key, requested=requested, as_call=as_call)
        with self._lock:
            self._spent += usage
            self._in_flight -= as_call
            if self._calls is not None:
                self._calls += as_call - usage.calls  # a reply from a cache returns its claim
            if self._tokens is not None:
                self._tokens -= usage.tokens
            if self._cost is not None:
                self._cost -= usage.cost or 0.0
        return usage

    def fail(self, key: Hashable = None) -> None:
        """Record that a claimed call failed: it counts, and consumed nothing that is known.

        Args:
            key: Identifies the call, as for `take`.
        """
        if self._state == "released" or not self._is_new(None if key is None else (key, "usage")):
            return
        if self._outer is not None:
            self._outer.fail(key)
        with self._lock:
            self._spent += Usage(calls=1)
            self._in_flight -= 1

    def retries_left(self) -> bool:
        """Return whether a call whose transport failed may be repeated once more."""
        return (self._retries is None or self._retries > 0) and (self._outer is None or self._outer.retries_left())

    def retry(self) -> None:
        """Claim one repeat of a call whose transport failed."""
        with self._lock:
            if self._retries is not None:
                self._retries -= 1
        if self._outer is not None:
            self._outer.retry()

    def release(self) -> None:
        """Count and refuse nothing any more: what was asked is answered."""
        if self._state == "open":
            self._state = "released"

    def close(self) -> None:
        """Refuse every further call: nobody waits for an answer any more."""
        if self._state == "open":
            self._state = "closed"

    def _take_outside(self, key: Hashable, *, as_call: bool) -> None:
        """Claim the call outside too; if it is refused there, it is not made, and the claim here is undone."""
        try:
            if self._outer is not None:
                self._outer.take(key, as_call=as_call)
        except Refused:
            with self._lock:
                self._in_flight -= as_call
                if self._calls is not None:
                    self._calls += as_call
            raise

    def _is_new(self, key: Hashable) -> bool:
        if key is None:
            return True
        with self._lock:
            is_new = key not in self._keys
            self._keys.add(key)
        return is_new

    def _claim(self, *, as_call: bool) -> None:
        limits = {"calls": self._calls if as_call else None, "tokens": self._tokens, "cost": self._cost}
        with self._lock:
            fault = unkept_budget(self._before + self._spent, **limits, unpriced=self._unpriced)
            if fault is not None:
                raise Refused("budget", fault)
            for limit, remaining in limits.items():
                if remaining is not None and remaining <= 0:
                    raise Refused("budget", f"the budget of {limit} was spent before {self._purpose}")
            self._in_flight += as_call
            if self._calls is not None:
                self._calls -= as_call


def unkept_budget(
    spent: Usage,
    *,
    calls: float | None = None,
    tokens: float | None = None,
    cost: float | None = None,
    unpriced: str | None = None,
) -> str | None:
    """Return why a budget cannot be kept after what was spent, in a line; None if it can.

    Args:
        spent: What was consumed.
        calls: The budget of calls; None is no budget.
        tokens: The budget of tokens.
        cost: The budget of cost.
        unpriced: Name of a model without a price, where it is known.
    """
    if tokens is not None and not spent.tokens_known:
        return f"{_UNREPORTED}, so max_tokens cannot be kept"
    if cost is not None and spent.cost is None:
        if not spent.tokens_known:
            return f"{_UNREPORTED}, so max_cost cannot be kept"
        whose = "a model's price" if unpriced is None else f"the price of {shortened(unpriced)}"
        return f"{whose} is unknown, so max_cost cannot be kept; add it to prices"
    if calls is not None and not spent.calls_known:
        return (
            "how many calls the generator made is unknown, so max_calls cannot be kept; call models through "
            "LangChain, or return an AIMessage with usage_metadata"
        )
    return None


_IN_FLIGHT = Usage(calls=1, cost=None, tokens_known=False)
_UNREPORTED = "the tokens of a call were not reported"


def charge(
    allowance: Allowance | None,
    usage: Usage,
    model: str | None,
    *,
    requested: str | None = None,
    as_call: bool = True,
) -> Usage:
    """Subtract a call's usage from an allowance, if there is one, and return it with its cost."""
    if allowance is None:
        priced = with_cost(usage, None, {})
        return priced if as_call else _not_a_call(priced)
    return allowance.add(usage, model, requested=requested, as_call=as_call)


def _not_a_call(usage: Usage) -> Usage:
    return usage.model_copy(update={"calls": 0})
