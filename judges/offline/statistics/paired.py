"""Two systems on the same questions: tests of their difference."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import product
from typing import Any

import numpy as np
from scipy import special

from judges.offline.statistics.checks import finite
from judges.offline.statistics.resampling import cluster_rows

_EXACT_UP_TO = 16
"""Most differences other than 0 for which all sign patterns are enumerated."""

_MOST_SIGNS = 1_000_000
"""Most signs held in memory at once."""

_EPSILON = 1e-9


def mcnemar(
    b: int | np.integer[Any] | Sequence[bool | int],
    c: int | np.integer[Any] | Sequence[bool | int],
    *,
    mid_p: bool = False,
) -> float:
    """Return the exact two-sided p-value of McNemar's test (Psychometrika 12, 1947).

    Args:
        b: How often only the first system passed; or whether the first passed, question by question.
        c: How often only the second passed; or whether the second passed, in the same order.
        mid_p: Count the observed table half: less conservative, no longer exact.

    Returns:
        min(1, 2 P(Bin(b + c, 1/2) <= min(b, c))); 1 where the two never differ.
    """
    if not isinstance(b, int | np.integer) or not isinstance(c, int | np.integer):
        if isinstance(b, int | np.integer) or isinstance(c, int | np.integer) or len(b) != len(c):
            raise ValueError("give two counts, or two lists of verdicts of the same length")
        pairs = [(bool(first), bool(second)) for first, second in zip(b, c, strict=True)]
        b, c = pairs.count((True, False)), pairs.count((False, True))
    b, c = int(b), int(c)
    if b < 0 or c < 0:
        raise ValueError(f"counts are 0 or more, not {b!r} and {c!r}")
    n, least = b + c, min(b, c)
    if n == 0:
        return 1.0
    tail = float(special.bdtr(least, n, 0.5))
    if mid_p:
        tail -= float(special.binom(n, least)) * 0.5**n / 2
    return min(1.0, 2 * tail)


def sign_flip(
    differences: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    flips: int = 9999,
    seed: int = 0,
) -> float | None:
    """Return the two-sided p-value of "the mean difference is 0" by flipping signs.

    Exact, over all sign patterns, for up to 16 differences other than 0; else by `flips` random patterns, as
    (1 + hits) / (1 + flips).

    Args:
        differences: One per row, or per question.
        clusters: The question of each row; the rows of a question are averaged first, and flipped together.
        flips: How many random patterns are drawn.
        seed: Seed of the draws.

    Returns:
        The p-value; None without differences.

    Raises:
        ValueError: If a difference is no finite number.
    """
    data = finite(differences, "differences")
    if not len(data):
        return None
    means = np.array([data[rows].mean() for rows in cluster_rows(len(data), clusters)])
    sizes = np.abs(means[means != 0])
    observed = abs(float(means.sum())) - _EPSILON * max(1.0, float(sizes.sum()))
    if len(sizes) <= _EXACT_UP_TO:
        patterns = np.array(list(product((-1, 1), repeat=len(sizes))))
        return float((np.abs(patterns @ sizes) >= observed).mean())
    random, hits, at_once = np.random.default_rng(seed), 0, max(1, _MOST_SIGNS // len(sizes))
    for start in range(0, flips, at_once):
        signs = random.choice((-1.0, 1.0), size=(min(at_once, flips - start), len(sizes)))
        hits += int((np.abs(signs @ sizes) >= observed).sum())
    return (1 + hits) / (1 + flips)
