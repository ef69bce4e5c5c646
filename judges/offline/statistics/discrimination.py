"""How well scores tell good from bad: AUC, average precision, Brier score, calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judges.offline.statistics.checks import finite, row_weights, same_length, verdicts
from judges.offline.statistics.figure import Undefined

Array = NDArray[np.float64]

_BINS = 10


@dataclass(frozen=True, kw_only=True)
class RankMetrics:
    """How well scores separate good rows from bad ones.

    Args:
        n: Rows.
        auc: Probability that a good row scores above a bad one, ties counting half; None for a single class.
        average_precision: Area under the precision-recall steps, from the highest score down; None without good
            rows.
        brier: Mean squared distance of the score, read as a probability, from 1 (good) or 0 (Brier 1950).
        ece: Expected calibration error over 10 bins of equal width. It is biased upwards: see `ece_null`.
        ece_null: What 95 % of perfectly calibrated judges with these scores stay below (Broecker and Smith 2007),
            if it was asked for: call a judge miscalibrated only above it.
        reason: Why there is no AUC. Brier score and calibration error are None where a score is no probability.
    """

    n: int
    auc: float | None
    average_precision: float | None
    brier: float | None
    ece: float | None
    ece_null: float | None = None
    reason: Undefined | None = None


def rank_metrics(
    good: ArrayLike,
    scores: ArrayLike,
    *,
    weights: Sequence[float] | ArrayLike | None = None,
    resamples: int = 0,
    seed: int = 0,
) -> RankMetrics:
    """Return how well scores separate good rows from bad ones.

    Args:
        good: True or 1 for each good row.
        scores: The score of each row; for Brier score and calibration error a probability, 0 to 1.
        weights: Design weight of each row.
        resamples: Resamples for `ece_null`; 0 leaves it out. 500 are usual.
        seed: Seed of the resamples.

    Raises:
        ValueError: If a label is not True or False, a score or a weight no finite number, or lengths differ.
    """
    y, s = verdicts(good, "labels"), finite(scores, "scores").ravel()
    same_length("give a label and a score of each row", y, s)
    w = row_weights(weights, len(y))
    if resamples < 0:
        raise ValueError(f"resamples is 0 or more, not {resamples!r}")
    if not len(y):
        return RankMetrics(n=0, auc=None, average_precision=None, brier=None, ece=None, reason="too_few")
    return measured(y, s, w, resamples=resamples, seed=seed)


def measured(y: Array, s: Array, w: Array, *, resamples: int = 0, seed: int = 0) -> RankMetrics:
    """Return what `rank_metrics` does, of rows that were checked: a bootstrap calls it for each resample."""
    counts = w > 0
    if not counts.any():
        return RankMetrics(n=len(y), auc=None, average_precision=None, brier=None, ece=None, reason="too_few")
    auc, average_precision = _areas(y[counts], s[counts], w[counts])
    is_probability = bool(((s >= 0) & (s <= 1)).all())
    return RankMetrics(
        n=len(y),
        auc=auc,
        average_precision=average_precision,
        brier=float(np.average((s - y) ** 2, weights=w)) if is_probability else None,
        ece=_ece(y, s, w) if is_probability else None,
        ece_null=_ece_null(s, w, resamples, seed) if is_probability and resamples else None,
        reason="one_class" if auc is None else None,
    )


def _areas(y: np.ndarray, s: np.ndarray, w: np.ndarray) -> tuple[float | None, float | None]:
    order = np.argsort(-s, kind="stable")
    distinct = np.append(np.nonzero(np.diff(s[order]))[0], len(s) - 1)
    hits, alarms = np.cumsum((w * y)[order])[distinct], np.cumsum((w * (1 - y))[order])[distinct]
    if hits[-1] == 0:
        return None, None
    recall = np.concatenate([[0.0], hits / hits[-1]])
    average_precision = float((np.diff(recall) * hits / (hits + alarms)).sum())
    if alarms[-1] == 0:
        return None, average_precision
    fallout = np.concatenate([[0.0], alarms / alarms[-1]])
    return float((np.diff(fallout) * (recall[1:] + recall[:-1]) / 2).sum()), average_precision


def _ece(y: np.ndarray, s: np.ndarray, w: np.ndarray) -> float:
    bins = np.minimum((s * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, weights=w * (y - s), minlength=_BINS)
    return float(np.abs(gaps).sum() / w.sum())


def _ece_null(s: np.ndarray, w: np.ndarray, resamples: int, seed: int) -> float:
    random = np.random.default_rng(seed)
    draws = [_ece((random.random(len(s)) < s).astype(float), s, w) for _ in range(resamples)]
    return float(np.quantile(draws, 0.95))
