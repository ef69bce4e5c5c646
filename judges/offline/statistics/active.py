"""Active sampling: labels where the judge is least sure, and a mean that stays unbiased all the same."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from judges.offline.statistics.correction import CorrectedRate
from judges.offline.statistics.resampling import cluster_se
from judges.offline.statistics.sequential import normal_quantile

_UNIFORM = 0.25
_LEAST_LABELS, _INDICATIVE_BELOW = 10, 30
_METHOD = "active sampling"


def active_probabilities(uncertainty: Sequence[float], budget: float, *, uniform: float = _UNIFORM) -> list[float]:
    """Return with which probability to label each row, in proportion to how uncertain it is.

    Draw every row independently with its probability, and keep the probability with the row. A share of the budget
    is spread evenly, so that every row may be drawn (Zrnic and Candès, "Active statistical inference", 2024).

    Args:
        uncertainty: How unsure the judge is of each row, 0 or more; best the root of the expected squared error.
        budget: Expected number of labels.
        uniform: Share of the budget that is spread evenly, above 0 to 1.

    Raises:
        ValueError: If an argument is out of range.
    """
    values = np.asarray(uncertainty, float)
    if not (0 < uniform <= 1 and budget > 0) or (len(values) and not (values >= 0).all()):
        raise ValueError(
            f"uncertainty is 0 or more, budget above 0 and uniform above 0 to 1, not {budget!r} and {uniform!r}"
        )
    n = len(values)
    if budget >= n:
        return [1.0] * n
    even = np.full(n, budget / n)
    probabilities = even if not values.sum() else uniform * even + (1 - uniform) * budget * values / values.sum()
    while (probabilities > 1).any():  # what a row cannot use goes to the others
        free = probabilities < 1
        probabilities = np.where(free, probabilities * ((budget - (~free).sum()) / probabilities[free].sum()), 1.0)
    return [float(probability) for probability in probabilities]


def active_mean(
    scores: Sequence[float],
    labels: Sequence[float | None],
    probabilities: Sequence[float | None],
    *,
    level: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
) -> CorrectedRate:
    """Return the mean label of all rows, from labels that were drawn with known probabilities.

    The mean score, plus the mean of (label - score) / probability over the labelled rows, which counts the others
    as 0 (Zrnic and Candès 2024). The interval is normal, over questions where rows share one (CR1).

    Args:
        scores: The judge's score of every row; 1 and 0 for pass and refuse.
        labels: The human's score; None where a row was not drawn.
        probabilities: Probability with which a row was drawn, above 0 to 1; needed where there is a label.
        level: Coverage, 0 to 1.
        clusters: The question of each row.

    Returns:
        The mean; undefined as `too_few` below 10 labels, "indicative" below 30.

    Raises:
        ValueError: If lengths differ, or a label has no probability.
    """
    terms: list[float] = []
    n = 0
    for score, label, probability in zip(scores, labels, probabilities, strict=True):
        correction = 0.0
        if label is not None:
            if probability is None or not 0 < probability <= 1:
                raise ValueError(
                    f"a labelled row has the probability with which it was drawn, not {probability!r}"
                )
            correction, n = (label - score) / probability, n + 1
        terms.append(score + correction)
    uncorrected = float(np.mean(scores)) if terms else None
    error = cluster_se(terms, clusters)
    if n < _LEAST_LABELS or error is None:
        return CorrectedRate(value=None, n=n, reason="too_few", method=_METHOD, uncorrected=uncorrected)
    mean, half = float(np.mean(terms)), normal_quantile(level) * error
    return CorrectedRate(
        value=mean,
        n=n,
        low=mean - half,
        high=mean + half,
        method=_METHOD,
        note="indicative" if n < _INDICATIVE_BELOW else "",
        uncorrected=uncorrected,
    )
