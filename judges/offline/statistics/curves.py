"""The interval of a pass-at-attempt curve whose runs come in clusters: questions that were asked several times."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from judges.offline.statistics.resampling import cluster_rows

Counts = NDArray[np.float64]


def curve_intervals(
    ended_at: Sequence[int],
    passed: Sequence[bool],
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> list[tuple[float, float]]:
    """Return the interval of the probability of a pass by each attempt, resampling whole clusters (percentiles).

    Args:
        ended_at: The last attempt of each run, from 1.
        passed: Whether it passed there.
        clusters: The question of each run; None: each its own.
        resamples: How many resamples are drawn.
        level: Coverage, 0 to 1.
        seed: Seed of the draws.
    """
    last = max(ended_at, default=0)
    groups = cluster_rows(len(ended_at), clusters)
    at_risk, passes = np.zeros((len(groups), last)), np.zeros((len(groups), last))
    for place, group in enumerate(groups):
        for row in group:
            at_risk[place, : ended_at[row]] += 1
            passes[place, ended_at[row] - 1] += passed[row]
    random = np.random.default_rng(seed)
    curves = [
        _curve(random.multinomial(len(groups), [1 / len(groups)] * len(groups)), at_risk, passes)
        for _ in range(resamples if groups else 0)
    ]
    if not curves:
        return []
    low, high = np.quantile(np.array(curves), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _curve(times: NDArray[np.int64], at_risk: Counts, passes: Counts) -> Counts:
    risk = times @ at_risk
    hazard = np.divide(times @ passes, risk, out=np.zeros_like(risk), where=risk > 0)
    return np.asarray(1 - np.cumprod(1 - hazard))
