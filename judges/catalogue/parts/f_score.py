"""The F-score: precision and recall in one number (van Rijsbergen, Information Retrieval, 1979)."""

from __future__ import annotations

import math

from judges.errors import ConfigurationError, shortened


def f_score(precision: float, recall: float, beta: float = 1.0) -> float:
    """Return F = (1 + b^2) P R / (b^2 P + R); 0 where either is 0."""
    if not precision or not recall:
        return 0.0
    weight = beta**2
    return (1 + weight) * precision * recall / (weight * precision + recall)


def f_of_counts(right: int, wrong: int, left_out: int, beta: float = 1.0) -> float:
    """Return F from counts of right, wrong and left-out items: (1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP)."""
    weight = beta**2
    return (1 + weight) * right / ((1 + weight) * right + weight * left_out + wrong) if right else 0.0


def checked_beta(beta: float) -> float:
    """Return beta, the weight of recall over precision, as a float.

    Raises:
        ConfigurationError: If it is not a finite number above 0.
    """
    if type(beta) not in (int, float) or not 0 < beta < math.inf:
        raise ConfigurationError(f"beta is a number above 0, not {shortened(beta)}")
    return float(beta)
