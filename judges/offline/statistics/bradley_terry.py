"""Strengths of systems under the model of Bradley and Terry, and bootstrap samples of games; pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from random import Random

Points = tuple[int, int, float, float]
"""Two systems by their numbers, and the points each won against the other."""

_MOST_ROUNDS = 100_000


def strengths(
    systems: int, points: Iterable[Points], *, start: Sequence[float] | None = None, exact: float = 1e-12
) -> list[float]:
    """Return the strengths of highest likelihood for these points, scaled to a geometric mean of 1.

    They exist if every system has points against every other, if only through a chain of other systems
    (Hunter, "MM algorithms for generalized Bradley-Terry models", Annals of Statistics 32, 2004). The step, which
    needs far fewer rounds than Hunter's, is that of Newman, "Efficient computation of rankings from pairwise
    comparisons" (arXiv 2207.00076).

    Args:
        systems: Number of systems; they are numbered from 0.
        points: The points of every pair that met, each pair once.
        start: Strengths to start from; None starts from equal ones.
        exact: Largest relative change in a round at which the strengths count as converged.
    """
    opponents: list[list[tuple[int, float, float]]] = [[] for _ in range(systems)]
    for i, j, mine, theirs in points:
        opponents[i].append((j, mine, theirs))
        opponents[j].append((i, theirs, mine))
    estimates = list(start or [1.0] * systems)
    for _ in range(_MOST_ROUNDS):
        if _round(estimates, opponents) < exact:
            break
    return estimates


def _round(estimates: list[float], opponents: Sequence[Sequence[tuple[int, float, float]]]) -> float:
    """Improve each strength in turn, and return the largest relative change."""
    change = 0.0
    for system, games in enumerate(opponents):
        old, above, below = estimates[system], 0.0, 0.0
        for other, mine, theirs in games:
            both = old + estimates[other]
            above += mine * estimates[other] / both
            below += theirs / both
        estimates[system] = above / below
        change = max(change, abs(estimates[system] / old - 1))
    mean = math.exp(math.fsum(map(math.log, estimates)) / len(estimates))
    estimates[:] = [strength / mean for strength in estimates]
    return change


def resample(counts: Sequence[int], times: int, random: Random) -> Iterator[list[int]]:
    """Yield `times` bootstrap samples of games, drawn with replacement, each as counts per cell of the table."""
    for _ in range(times):
        left = rest = sum(counts)
        sample = []
        for count in counts:
            drawn = _binomial(left, count / rest, random) if rest else 0
            sample.append(drawn)
            left -= drawn
            rest -= count
        yield sample


def _binomial(n: int, p: float, random: Random) -> int:
    """Count the successes of n trials of probability p, all trials at once.

    A trial succeeds if a random number from 0 to 1 is below p. Their binary digits are compared one by one: after
    each, only the trials whose digit equals that of p are still open, so half of them.
    """
    successes = 0
    while n and p:
        p *= 2
        ones = random.getrandbits(n).bit_count()
        if p >= 1:
            p -= 1
            successes += n - ones
            n = ones
        else:
            n -= ones
    return successes
