"""What each key may consume in a day: requests, tokens, dollars; counted in this process, from midnight UTC on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from judges.verdict import Usage
from refine.server.config import ServerKey
from refine.server.errors import ApiError

_DAY_S = 86_400


@dataclass(slots=True)
class _DaySpending:
    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0


class Budgets:
    """Counts what each key consumes, and refuses what would go beyond its budget of the day.

    A request that is let in is answered to its end, so that a budget may be exceeded by what is in flight.

    Args:
        keys: The keys with their budgets.
        clock: Seconds since the epoch, for tests.
    """

    def __init__(self, keys: Iterable[ServerKey] = (), *, clock: Callable[[], float] = time.time) -> None:
        self._keys = {key.name: key for key in keys if key.has_budget}
        self._clock = clock
        self._day = 0
        self._spent: dict[str, _DaySpending] = {}

    def enter(self, name: str) -> None:
        """Count a request of a key.

        Raises:
            ApiError: If its budget of the day is spent (429); it says when the next day begins.
        """
        key = self._keys.get(name)
        if key is None:
            return
        spent = self._of_today(name)
        for what, limit in (
            ("requests", key.requests_per_day),
            ("tokens", key.tokens_per_day),
            ("dollars", key.dollars_per_day),
        ):
            used = getattr(spent, what)
            if limit is not None and used >= limit:
                raise ApiError(
                    429,
                    f"this key has used {used:g} of its {limit:g} {what} of the day, which ends at midnight UTC",
                    code="budget_spent",
                    retry_after_s=_DAY_S - self._clock() % _DAY_S,
                )
        spent.requests += 1

    def add(self, name: str, usage: Usage) -> None:
        """Count what a request of a key consumed."""
        if name in self._keys:
            spent = self._of_today(name)
            spent.tokens += usage.tokens
            spent.dollars += usage.cost or 0.0

    def _of_today(self, name: str) -> _DaySpending:
        day = int(self._clock() // _DAY_S)
        if day != self._day:
            self._day, self._spent = day, {}
        return self._spent.setdefault(name, _DaySpending())
