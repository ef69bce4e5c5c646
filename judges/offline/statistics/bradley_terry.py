"""Strengths of systems under the model of Bradley and Terry, and games resampled; no more than arithmetic."""

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
    """Find the strengths under which these points are likeliest, with a geometric mean of 1.

    There are such if every system has points against every other, be it by a chain of systems between them
    (Hunter, "MM algorithms for generalized Bradley-Terry models", Annals of Statistics 32, 2004). The step, which
    needs far fewer rounds than Hunter's, is that of Newman, "Efficient computation of rankings from pairwise
    comparisons" (arXiv 2207.00076).

    Args:
        systems: How many there are, numbered from 0.
        points: Who met whom, each pair once.
        start: Where to start from; None starts from equal strengths.
        exact: Largest relative change in a round at which the strengths count as found.
    """
    met: list[list[tuple[int, float, float]]] = [[] for _ in range(systems)]
    for i, j, mine, theirs in points:
        met[i].append((j, mine, theirs))
        met[j].append((i, theirs, mine))
    found = list(start or [1.0] * systems)
    for _ in range(_MOST_ROUNDS):
        if _round(found, met) < exact:
            break
    return found


def _round(found: list[float], met: Sequence[Sequence[tuple[int, float, float]]]) -> float:
    """Improve each strength in turn, and give the largest relative change."""
    change = 0.0
    for system, games in enumerate(met):
        old, above, below = found[system], 0.0, 0.0
        for other, mine, theirs in games:
            both = old + found[other]
            above += mine * found[other] / both
            below += theirs / both
        found[system] = above / below
        change = max(change, abs(found[system] / old - 1))
    mean = math.exp(math.fsum(map(math.log, found)) / len(found))
    found[:] = [one / mean for one in found]
    return change


def resampled(counts: Sequence[int], times: int, random: Random) -> Iterator[list[int]]:
    """Draw as many games with replacement, over and over, and tell how many came from each cell of a table."""
    for _ in range(times):
        left = rest = sum(counts)
        drawn = []
        for count in counts:
            taken = _binomial(left, count / rest, random) if rest else 0
            drawn.append(taken)
            left -= taken
            rest -= count
        yield drawn


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
