"""How many questions a comparison needs."""

from __future__ import annotations

import math
from statistics import NormalDist


def n_pairs(
    gain: float,
    *,
    discordance: float | None = None,
    sd: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """Return how many questions, both systems answering each, show a gain; round up for a plan.

    For verdicts that pass or fail, Connor's formula (Biometrics 43, 1987); for scores, that of the paired z-test.

    Args:
        gain: The difference to be found: of pass rates, 0 to 1, or of mean scores.
        discordance: Share of questions on which the two verdicts differ, from `gain` to 1; from a pilot.
        sd: Standard deviation of the difference of scores on a question, instead of `discordance`.
        alpha: Two-sided level of the test.
        power: Probability of finding the gain.

    Raises:
        ValueError: If not exactly one of `discordance` and `sd` is given, or a number is out of range.
    """
    if gain == 0 or (discordance is None) == (sd is None):
        raise ValueError("give a gain other than 0, and either discordance=... (verdicts) or sd=... (scores)")
    z_alpha, z_power = _quantiles(alpha, power)
    if sd is not None:
        return ((z_alpha + z_power) * sd / gain) ** 2
    assert discordance is not None  # noqa: S101 - checked above
    if not abs(gain) <= discordance <= 1:
        raise ValueError(f"discordance is at least the gain, {abs(gain)}, and at most 1; not {discordance!r}")
    return (z_alpha * math.sqrt(discordance) + z_power * math.sqrt(discordance - gain**2)) ** 2 / gain**2


def n_per_arm(rate: float, other_rate: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """Return how many questions each of two systems needs if they answer different questions."""
    z_alpha, z_power = _quantiles(alpha, power)
    if rate == other_rate or not (0 <= rate <= 1 and 0 <= other_rate <= 1):
        raise ValueError(f"give two different pass rates from 0 to 1, not {rate!r} and {other_rate!r}")
    variance = rate * (1 - rate) + other_rate * (1 - other_rate)
    return (z_alpha + z_power) ** 2 * variance / (rate - other_rate) ** 2


def _quantiles(alpha: float, power: float) -> tuple[float, float]:
    if not (0 < alpha < 1 and 0 < power < 1):
        raise ValueError(f"alpha and power lie between 0 and 1, not {alpha!r} and {power!r}")
    return NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
