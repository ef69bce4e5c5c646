"""Figures over a dataset: the interval of a share, and the correlation of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import NormalDist, StatisticsError, correlation

_Z = NormalDist().inv_cdf(0.975)
_LEAST = 3
"""Fewest pairs over which a correlation means anything."""


def wilson(wins: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a proportion, `wins` of `n`, by Wilson's score method (JASA 22, 1927)."""
    share, weight = wins / n, _Z * _Z / n
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


def _ranks(values: Sequence[float]) -> list[float]:
    ranks = [0.0] * len(values)
    before = 0
    for _, group in groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        places = list(group)
        for place in places:
            ranks[place] = before + (len(places) + 1) / 2
        before += len(places)
    return ranks
