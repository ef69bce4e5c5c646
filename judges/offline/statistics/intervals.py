"""Figures over a dataset: the interval of a share, and the correlation of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import NormalDist, StatisticsError, correlation

_ROUNDING = 1e-6
_LEAST = 3
"""Fewest pairs over which a correlation means anything."""


def wilson(wins: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of a proportion, `wins` of `n`, by Wilson's score method (JASA 22, 1927).

    Raises:
        ValueError: If there are no cases, or more wins than cases.
    """
    if n <= 0 or not -_ROUNDING <= wins <= n + _ROUNDING:
        raise ValueError(f"counts satisfy 0 <= wins <= n and n > 0; they are {wins!r} of {n!r}")
    wins = min(max(wins, 0), n)
    share, weight = wins / n, NormalDist().inv_cdf((1 + level) / 2) ** 2 / n
    middle = share + weight / 2
    half = math.sqrt(weight * (share * (1 - share) + weight / 4))
    return max(0.0, (middle - half) / (1 + weight)), min(1.0, (middle + half) / (1 + weight))


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
    from scipy import stats  # noqa: PLC0415 - the other functions of this module need no scipy

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


def clopper_pearson(wins: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a proportion (Clopper and Pearson, Biometrika 26, 1934).

    For a one-sided 95 % bound take one end of the interval of level 0.9.
    """
    from scipy import special  # noqa: PLC0415 - the other functions of this module need no scipy

    if not 0 <= wins <= n or n == 0:
        raise ValueError(f"counts satisfy 0 <= wins <= n and n > 0; they are {wins!r} of {n!r}")
    tail = (1 - level) / 2
    low = special.betaincinv(wins, n - wins + 1, tail) if wins else 0.0
    high = special.betaincinv(wins + 1, n - wins, 1 - tail) if wins < n else 1.0
    return float(low), float(high)
