"""One number of a report, with what a reader needs to believe it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

Undefined = Literal["too_few", "one_class", "zero_variance", "no_overlap", "not_identified"]
"""Why a figure has no value."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure over n rows.

    Args:
        value: The figure; None where it is undefined, and then `reason` says why.
        n: How many rows, or questions where the figure is over questions, it is made of.
        low: Lower end of its interval, where one was computed.
        high: Upper end.
        method: How value and interval were computed.
        reason: Why there is no value.
        note: What a reader must know besides, for instance that the figure is only indicative.
    """

    value: float | None
    n: int
    low: float | None = None
    high: float | None = None
    method: str = ""
    reason: Undefined | None = None
    note: str = ""

    @classmethod
    def undefined(cls, reason: Undefined, n: int, *, method: str = "") -> Self:
        """Return a figure without a value."""
        return cls(value=None, n=n, method=method, reason=reason)

    def between(self, low: float | None, high: float | None, method: str, *, note: str = "") -> Figure:
        """Return the same figure with an interval."""
        return replace(self, low=low, high=high, method=method, note=note or self.note)

    def __str__(self) -> str:
        if self.value is None:
            return f"undefined ({self.reason}, n = {self.n})"
        interval = "" if self.low is None or self.high is None else f" ({self.low:.3f} to {self.high:.3f})"
        return f"{self.value:.3f}{interval}, n = {self.n}"
