"""Figures that stay valid however often one looks: live monitoring, and labelling until certified."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

from scipy import optimize, special

from judges.offline.statistics.checks import share, whole

_LARGEST_LOGARITHM = 700.0
_TINY = 1e-200


def confidence_sequence(successes: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Return an interval for a rate that covers it at all times at once, with probability `level`.

    The beta mixture of Robbins (Annals of Mathematical Statistics 41, 1970); see Howard et al., Annals of
    Statistics 49, 2021. An interval made for one look, Wilson's for instance, misses in half of 2,000 looks.

    Args:
        successes: How many of the `n` passed.
        n: How many were seen, 0 or more.
        level: Probability, 0 to 1, that every interval of the sequence holds the rate.
    """
    successes, n = _checked_counts(successes, n)
    level = share(level, "level")
    failures = n - successes
    mixture = special.betaln(0.5 + successes, 0.5 + failures) - special.betaln(0.5, 0.5)
    threshold = -math.log1p(-level)

    def surplus(rate: float) -> float:
        return float(mixture - special.xlogy(successes, rate) - special.xlog1py(failures, -rate) - threshold)

    centre = successes / n if n else 0.5
    low = _root(surplus, 0.0, centre) if successes else 0.0
    high = _root(surplus, 1.0, centre) if failures else 1.0
    return low, high


def _root(function: Callable[[float], float], edge: float, centre: float) -> float:
    tiny = 1e-300 if edge == 0 else 0.0
    outer = edge + tiny if edge == 0 else math.nextafter(1.0, 0.0)
    if function(outer) <= 0:  # closer to the edge than a float can tell
        return edge
    return float(optimize.brentq(function, outer, centre, xtol=1e-14, rtol=1e-14))


def e_value(bad: int, n: int, alpha: float) -> float:
    """Return the evidence against "more than a share `alpha` is bad" after `n` labels, `bad` of them bad.

    Whenever it reaches 1/delta, at any look, the share is at most `alpha` with confidence 1 - delta (Ville's
    inequality); the mixture is uniform over 0 to `alpha`. Larger evidence than e^700 is returned as that.

    Raises:
        ValueError: If a count is negative or not whole, `bad` exceeds `n`, or `alpha` is not between 0 and 1.
    """
    bad, n = _checked_counts(bad, n)
    alpha = share(alpha, "alpha")
    good = n - bad
    below = float(special.betainc(bad + 1, good + 1, alpha))
    if below < _TINY:
        return _far_above(bad, n, alpha)
    logarithm = special.betaln(bad + 1, good + 1) - (bad + 1) * math.log(alpha) - good * math.log1p(-alpha)
    return math.exp(min(_LARGEST_LOGARITHM, float(logarithm) + math.log(below)))


def _far_above(bad: int, n: int, alpha: float) -> float:
    """Return the evidence where far more than `alpha` are bad, by the series of the incomplete beta function."""
    term = total = (1 - alpha) / (bad + 1)
    step = 0
    while term > total * 1e-16:
        term *= alpha * (n + 2 + step) / (bad + 2 + step)
        total += term
        step += 1
    return total


def e_cusum(outcomes: Sequence[bool | int], p0: float, p1: float | None = None) -> list[float]:
    """Return the alarm statistic after each audited release: an alarm is due where it reaches 100.

    M = max(M before, 1) x L, with L = p1/p0 for a bad release and (1 - p1)/(1 - p0) for a good one. Without a
    change the mean run to an alarm at 100 is at least 100 audits.

    Args:
        outcomes: True or 1 for a bad release, in the order of the audits.
        p0: The share of bad releases that was certified, above 0 and below 1.
        p1: The share worth an alarm; None takes twice `p0`.
    """
    raised = min(2 * p0, (1 + p0) / 2) if p1 is None else p1
    if not 0 < p0 < raised < 1:
        raise ValueError(f"p0 and p1 satisfy 0 < p0 < p1 < 1; they are {p0!r} and {raised!r}")
    statistic, path = 1.0, []
    for outcome in outcomes:
        statistic = max(statistic, 1.0) * (raised / p0 if outcome else (1 - raised) / (1 - p0))
        path.append(statistic)
    return path


def normal_quantile(level: float) -> float:
    """Return z such that a normal value lies within z standard errors with probability `level`."""
    return NormalDist().inv_cdf((1 + share(level, "level")) / 2)


def _checked_counts(successes: object, n: object) -> tuple[int, int]:
    count, total = whole(successes, "a count"), whole(n, "a count")
    if not 0 <= count <= total:
        raise ValueError(f"counts satisfy 0 <= count <= n; they are {successes!r} of {n!r}")
    return count, total
