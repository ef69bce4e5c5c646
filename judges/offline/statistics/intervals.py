"""Figures without numpy: intervals of shares, correlations of ranks, p-values of many tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import accumulate, groupby
from numbers import Real
from statistics import NormalDist, StatisticsError, correlation
from typing import Any, Literal, Self

from judges.errors import ConfigurationError


class LazyModule:
    """A library that is imported when something of it is first used, so that others can be imported without it.

    Args:
        name: The library, by its whole name.

    Raises:
        ConfigurationError: If it is not installed, when it is first used.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            value = self.__dict__[name] = getattr(import_module(self._name), name)
        except ModuleNotFoundError as error:
            raise ConfigurationError(
                f"{error.name} is not installed; install the extra: selfrefine[trust]"
            ) from None
        return value


special, stats = LazyModule("scipy.special"), LazyModule("scipy.stats")
_ROUNDING = 1e-6
_LEAST = 3
"""Fewest pairs over which a correlation means anything."""


def is_number(value: object) -> bool:
    """Return whether a value is a real number, neither infinite nor NaN."""
    return isinstance(value, Real) and math.isfinite(value)


def share(value: object, name: str) -> float:
    """Return a number between 0 and 1, both excluded.

    Raises:
        ValueError: If it is none.
    """
    if not is_number(value) or not 0 < float(value) < 1:  # type: ignore[arg-type]  # a number here
        raise ValueError(f"{name} lies between 0 and 1, for instance 0.05 or 0.95; not {value!r}")
    return float(value)  # type: ignore[arg-type]  # as above


def normal_quantile(level: float) -> float:
    """Return z such that a normal value lies within z standard errors with probability `level`."""
    return NormalDist().inv_cdf((1 + share(level, "level")) / 2)


def wilson(wins: float, n: float, *, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a proportion, `wins` of `n`, by Wilson's score method (JASA 22, 1927).

    Effective counts need not be whole.

    Raises:
        ValueError: If there are no cases, more wins than cases, or a level that is not between 0 and 1.
    """
    if n <= 0 or not -_ROUNDING <= wins <= n + _ROUNDING:
        raise ValueError(f"counts satisfy 0 <= wins <= n and n > 0; they are {wins!r} of {n!r}")
    wins = min(max(wins, 0), n)
    share, weight = wins / n, normal_quantile(level) ** 2 / n
    middle = share + weight / 2
    half = math.sqrt(weight * (share * (1 - share) + weight / 4))
    return max(0.0, (middle - half) / (1 + weight)), min(1.0, (middle + half) / (1 + weight))


_SPREAD = 0.2
"""Weight of values that are 0 or 1 among the squares, so that equal values have a width, too."""

_RARE_SPREAD = 2
"""The same weight where few values speak against the mean: of 50 questions of which 3 % always fail, those drawn
say little of others. Both weights were found by simulation, and no publication has them."""


def bounded_interval(values: Sequence[float], *, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a mean of values from 0 to 1, such as the mean scores of questions.

    It is Wilson's on the effective number of values, n p (1 - p) / variance: for passes and fails just Wilson's,
    narrower where values differ less than those do; never of width 0. Simulated in 207 designs (20, 50 and 200
    questions, asked once and up to 30 times) it covers .92 to .97 at .95 in nine of ten. The others are too wide,
    most at 20 questions with rates over .9, up to .995; but where few questions always fail, samples without
    one look like samples of good questions alone, and it covers .80 to .89 at 50 of which 3 or 4 % are such.

    Raises:
        ValueError: If there are no values.
    """
    n, mean = len(values), math.fsum(values) / max(1, len(values))
    most = mean * (1 - mean)
    if most <= _EPSILON or n == 1:
        return wilson(mean * n, n, level=level)
    squares = math.fsum((value - mean) ** 2 for value in values)
    spread = _SPREAD + _RARE_SPREAD / (n * most) ** 3
    effective = n / min(1.0, (squares / most + spread) / (n - 1 + spread))
    return wilson(mean * effective, effective, level=level)


def paired_interval(differences: Sequence[float], *, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a mean of differences from -1 to 1, such as those of two systems by question.

    Agresti and Min's (Statistics in Medicine 24, 2005) with the quantile of t: two questions more of which half a
    one differs as much as any does, and half a one as much the other way.
    """
    n, size = len(differences), len(differences) + 2
    most = max(map(abs, differences), default=0.0) or 1.0
    centre = math.fsum(differences) / size
    variance = (math.fsum(one * one for one in differences) + most**2) / size - centre**2
    half = _student(max(1, n - 1), (1 + share(level, "level")) / 2) * math.sqrt(variance / size)
    return max(-1.0, centre - half), min(1.0, centre + half)


_EPSILON = 1e-12


def _student(freedom: int, share: float) -> float:
    """Return a quantile of Student's t: exact for 1 and 2 degrees of freedom, else by Cornish and Fisher."""
    if freedom == 1:
        return math.tan(math.pi * (share - 0.5))
    if freedom == 2:  # noqa: PLR2004 - has a closed form
        return (2 * share - 1) / math.sqrt(2 * share * (1 - share))
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + math.fsum(term / float(freedom) ** power for power, term in enumerate(terms, 1))


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Return the correlation of ranks, equal values sharing their mean rank; None where it is undefined."""
    if len(xs) < _LEAST:
        return None
    try:
        return min(1.0, max(-1.0, correlation(_ranks(xs), _ranks(ys))))
    except StatisticsError:
        return None


def pearson(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Return Pearson's correlation; None for fewer than 3 pairs, or where one of the two never varies."""
    if len(xs) < _LEAST:
        return None
    try:
        return min(1.0, max(-1.0, correlation(xs, ys)))
    except StatisticsError:
        return None


def kendall_tau(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Return Kendall's tau-b, which counts ties; None for fewer than 3 pairs, or where one never varies."""
    if len(xs) < _LEAST or len(set(xs)) == 1 or len(set(ys)) == 1:
        return None
    return float(stats.kendalltau(xs, ys).statistic)


def _ranks(values: Sequence[float]) -> list[float]:
    ranks = [0.0] * len(values)
    before = 0
    for _, group in groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        places = list(group)
        for place in places:
            ranks[place] = before + (len(places) + 1) / 2
        before += len(places)
    return ranks


def clopper_pearson(wins: float, n: float, *, level: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a proportion (Clopper and Pearson, Biometrika 26, 1934).

    For a one-sided 95 % bound take one end of the interval of level 0.9. Effective counts need not be whole.
    """
    if not 0 <= wins <= n or n == 0:
        raise ValueError(f"counts satisfy 0 <= wins <= n and n > 0; they are {wins!r} of {n!r}")
    tail = (1 - level) / 2
    if not 0 < tail < 1:
        raise ValueError(f"level lies between 0 and 1, for instance 0.95; not {level!r}")
    low = special.betaincinv(wins, n - wins + 1, tail) if wins else 0.0
    high = special.betaincinv(wins + 1, n - wins, 1 - tail) if wins < n else 1.0
    return float(low), float(high)


EXACT = "Clopper-Pearson"

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

    @classmethod
    def of_share(cls, wins: int, n: int, *, level: float = 0.95, method: str = "Wilson") -> Self:
        """Return a share with its interval: Clopper and Pearson's exact one by that name, else Wilson's."""
        if not n:
            return cls.undefined("too_few", 0)
        low, high = (clopper_pearson if method == EXACT else wilson)(wins, n, level=level)
        return cls(value=wins / n, n=n, low=low, high=high, method=method)

    def between(self, low: float | None, high: float | None, method: str, *, note: str = "") -> Figure:
        """Return the same figure with an interval."""
        return replace(self, low=low, high=high, method=method, note=note or self.note)

    def __str__(self) -> str:
        if self.value is None:
            return f"undefined ({self.reason}, n = {self.n})"
        interval = "" if self.low is None or self.high is None else f" ({self.low:.3f} to {self.high:.3f})"
        return f"{self.value:.3f}{interval}, n = {self.n}"


def p_text(p: float) -> str:
    """Return a p-value as it is printed: a tiny one never reads as if it were 0."""
    return "p < 0.001" if p < _TINY else f"p = {p:.3f}"


_TINY = 0.001


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's step-down method (Scandinavian Journal of Statistics 6, 1979).

    They keep the share of families with any false finding at the level they are compared with.

    Args:
        p_values: The raw p-values, in any order; the adjusted ones are in the same order.
    """
    order, m = _order(p_values), len(p_values)
    raised = accumulate(((m - rank) * p_values[i] for rank, i in enumerate(order)), max)
    return _placed(order, raised)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Benjamini and Hochberg (JRSS B 57, 1995): bounds the share of false findings."""
    order, m = _order(p_values)[::-1], len(p_values)
    lowered = accumulate((p_values[i] * m / (m - step) for step, i in enumerate(order)), min)
    return _placed(order, lowered)


def benjamini_yekutieli(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Benjamini and Yekutieli (Annals of Statistics 29, 2001), for dependent tests."""
    harmonic = sum(1 / i for i in range(1, len(p_values) + 1))
    order, m = _order(p_values)[::-1], len(p_values)
    lowered = accumulate((p_values[i] * m * harmonic / (m - step) for step, i in enumerate(order)), min)
    return _placed(order, lowered)


def _order(p_values: Sequence[float]) -> list[int]:
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value is a number from 0 to 1, not {p!r}")
    return sorted(range(len(p_values)), key=p_values.__getitem__)


def _placed(order: Sequence[int], adjusted: accumulate[float]) -> list[float]:
    placed = [0.0] * len(order)
    for i, p in zip(order, adjusted, strict=True):
        placed[i] = min(1.0, p)
    return placed
