"""Rates and means corrected for the judge's errors, from few human labels."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from judges.offline.statistics.intervals import Figure, LazyModule, clopper_pearson, normal_quantile, share
from judges.offline.statistics.resampling import (
    chosen,
    cluster_rows,
    cluster_se,
    finite,
    floats,
    row_weights,
    same_length,
    whole,
)
from judges.offline.statistics.resampling import verdicts as pass_or_fail

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    _Array = NDArray[np.float64]
else:
    np = LazyModule("numpy")
special = LazyModule("scipy.special")

_Variant = Literal["default", "reference"]

_LEAST_INFORMATION = 0.1
_LEAST_LABELS = 10
_INDICATIVE_BELOW = 30
_FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class CorrectedRate(Figure):
    """A rate or mean as a human would give it, estimated from few labels and many verdicts.

    Args:
        uncorrected: What the judge alone says.
        human: What the labels alone say, with its interval; None where the labels come from other data.
        weight: lambda, how much the judge counts, 0 to 1; None for Rogan-Gladen.
        correlation: Correlation of label and verdict.
        effective: How many labels alone would be as exact.
    """

    uncorrected: float | None = None
    human: Figure | None = None
    weight: float | None = None
    correlation: float | None = None
    effective: float | None = None


def rogan_gladen(  # noqa: PLR0917 - six counts, in the order in which the formula has them
    passes: int, n: int, tn: int, m0: int, tp: int, m1: int, *, level: float = 0.95
) -> CorrectedRate:
    """Return a pass rate corrected by error rates known from other data (Rogan and Gladen 1978).

    The interval is that of Lang and Reiczigel (Preventive Veterinary Medicine 113, 2014). For a random sample of
    labels of the same rows `ppi_rate` is much narrower.

    Args:
        passes: Rows that the judge passes.
        n: Rows judged.
        tn: Known bad answers that the judge refuses.
        m0: Known bad answers.
        tp: Known good answers that the judge passes.
        m1: Known good answers.
        level: Coverage, 0 to 1.

    Returns:
        The rate; undefined as `not_identified` where the judge may carry no information. A note says where the
        error rates cannot be those of these rows.
    """
    level = share(level, "level")
    for hits, total in ((passes, n), (tn, m0), (tp, m1)):
        if not 0 <= whole(hits, "a count") <= whole(total, "a count") or total == 0:
            raise ValueError(f"counts satisfy 0 <= count <= total and total > 0; they are {hits!r} of {total!r}")
    z = normal_quantile(level)
    rate, specificity, sensitivity = passes / n, tn / m0, tp / m1
    smooth_rate = (passes + z * z / 2) / (n + z * z)
    smooth_tn, smooth_tp = (tn + 1) / (m0 + 2), (tp + 1) / (m1 + 2)
    information = smooth_tp + smooth_tn - 1
    least = sum(clopper_pearson(hits, total, level=2 * level - 1)[0] for hits, total in ((tn, m0), (tp, m1))) - 1
    method = "Rogan-Gladen, interval by Lang and Reiczigel"
    if least <= 0 or information <= _LEAST_INFORMATION:
        return CorrectedRate(value=None, n=n, reason="not_identified", method=method, uncorrected=rate)
    estimate = (rate + specificity - 1) / (sensitivity + specificity - 1)
    centre = (smooth_rate + smooth_tn - 1) / information
    bad_part = smooth_tn * (1 - smooth_tn) / (m0 + 2)
    good_part = smooth_tp * (1 - smooth_tp) / (m1 + 2)
    shift = 2 * z * z * (centre * good_part - (1 - centre) * bad_part)
    variance = smooth_rate * (1 - smooth_rate) / (n + z * z) + (1 - centre) ** 2 * bad_part + centre**2 * good_part
    half = z * math.sqrt(variance) / information
    outside = not 1 - specificity <= rate <= sensitivity
    return CorrectedRate(
        value=_clip(estimate),
        n=n,
        low=_clip(centre + shift - half),
        high=_clip(centre + shift + half),
        method=method,
        note="the error rates do not transfer to these rows" if outside else "",
        uncorrected=rate,
    )


def _clip(rate: float) -> float:
    return min(1.0, max(0.0, rate))


def ppi_rate(
    labels: Sequence[bool | int],
    verdicts: Sequence[bool | int],
    unlabelled: Sequence[bool | int],
    *,
    level: float = 0.95,
    variant: _Variant = "default",
    weight: float | None = None,
) -> CorrectedRate:
    """Return the pass rate a human would give, by prediction-powered inference (PPI++, arXiv 2311.01453).

    Args:
        labels: A human's verdict on a random sample of the rows, True or 1 is a pass.
        verdicts: The judge's verdicts on the same rows.
        unlabelled: The judge's verdicts on all other rows.
        level: Coverage, 0 to 1.
        variant: `"default"` adds one half to each cell of labels and verdicts before anything is computed, which
            keeps the coverage for small samples and high rates; `"reference"` is the published estimator.
        weight: lambda; None tunes it. 0 uses the labels alone, 1 trusts the judge fully. `"reference"` alone.

    Returns:
        The rate; undefined as `too_few` below 10 labels, "indicative" below 30.
    """
    names = ("labels", "verdicts", "unlabelled")
    y, f, others = (pass_or_fail(*column) for column in zip((labels, verdicts, unlabelled), names, strict=True))
    level = share(level, "level")
    _check_variant(variant, weight)
    if variant == "reference" or weight is not None:
        return _reference(y, f, others, level=level, weight=weight)
    too_few = _too_few(y, f, others)
    if too_few is not None:
        return too_few
    cells = {(a, b): float(((y == a) & (f == b)).sum()) + 0.5 for a in (0, 1) for b in (0, 1)}
    n, total = sum(cells.values()), len(others)
    human, judged = (cells[1, 0] + cells[1, 1]) / n, (cells[0, 1] + cells[1, 1]) / n
    covariance, rest = cells[1, 1] / n - human * judged, float(others.mean())
    pooled = (judged * n + rest * total) / (n + total)
    tuned = _clip(_divided(covariance, (1 + n / total) * pooled * (1 - pooled)))
    error = human * (1 - human) + tuned**2 * judged * (1 - judged) - 2 * tuned * covariance
    se = math.sqrt(max(0.0, error) / n + tuned**2 * rest * (1 - rest) / total)
    estimate, z = tuned * rest + human - tuned * judged, normal_quantile(level)
    interval, method = (_clip(estimate - z * se), _clip(estimate + z * se)), "PPI++ with added halves"
    return _corrected((y, f, others), _clip(estimate), interval=interval, weight=tuned, method=method)


def ppi_mean(
    labels: Sequence[float],
    scores: Sequence[float],
    unlabelled: Sequence[float],
    *,
    level: float = 0.95,
    variant: _Variant = "default",
    weight: float | None = None,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> CorrectedRate:
    """Return the mean score or rating a human would give; otherwise as `ppi_rate`.

    For the difference of two systems give, question by question, the differences of labels and of scores.

    Args:
        labels: A human's scores of a random sample of the rows.
        scores: The judge's scores of the same rows.
        unlabelled: The judge's scores of all other rows.
        level: Coverage, 0 to 1.
        variant: `"default"` fits lambda on the other four of five folds and uses Student's t, which mends the
            coverage for small and skewed samples; `"reference"` is the published estimator.
        weight: lambda of the reference estimator; None tunes it.
        weights: Design weight of each labelled row; needs `"reference"`.
        clusters: The question of each labelled row; the rows of a question are averaged first.
    """
    names = ("labels", "scores", "unlabelled")
    y, f, others = (finite(*column) for column in zip((labels, scores, unlabelled), names, strict=True))
    same_length("give a label and a score of each labelled row", y, f)
    level = share(level, "level")
    _check_variant(variant, weight)
    if clusters is not None and weights is not None:
        raise ValueError("give either clusters or weights: the rows of a question are averaged first")
    if clusters is not None:
        groups = cluster_rows(len(y), clusters)
        y, f = (np.array([values[rows].mean() for rows in groups]) for values in (y, f))
    if weights is not None and variant != "reference":
        raise ValueError("weights need variant='reference'")
    if variant == "reference" or weight is not None:
        return _reference(
            y,
            f,
            others,
            level=level,
            weight=weight,
            weights=None if weights is None else row_weights(weights, len(y)),
        )
    too_few = _too_few(y, f, others)
    if too_few is not None:
        return too_few
    n, total = len(y), len(others)
    folds = np.arange(n) % _FOLDS
    tuned = np.zeros(n)
    for fold in range(_FOLDS):
        tuned[folds == fold] = _tuned(y[folds != fold], f[folds != fold], others)
    corrected = y - tuned * (f - others.mean())
    mean_weight, estimate = (
        float(np.mean([tuned[folds == k].mean() for k in range(_FOLDS)])),
        float(corrected.mean()),
    )
    spread = float((others if total > 1 else np.concatenate([f, others])).var(ddof=1))
    se = math.sqrt(mean_weight**2 * spread / total + float(corrected.var(ddof=1)) / n)
    half = float(special.stdtrit(n - 1, (1 + level) / 2)) * se
    interval, method = (estimate - half, estimate + half), "PPI++ with cross-fitted weight"
    return _corrected((y, f, others), estimate, interval=interval, weight=mean_weight, method=method)


def _check_variant(variant: str, weight: float | None) -> None:
    chosen(variant, ("default", "reference"), "variant")
    if weight is not None and not 0 <= weight <= 1:
        raise ValueError(f"weight, how much the judge counts, is 0 to 1, or None to tune it; not {weight!r}")


def _tuned(y: _Array, f: _Array, others: _Array) -> float:
    everything = np.concatenate([f, others])
    covariance = float(np.cov(y, f)[0, 1]) if len(y) > 1 else 0.0
    return _clip(_divided(covariance, (1 + len(y) / len(others)) * float(everything.var(ddof=1))))


def _reference(
    y: _Array, f: _Array, others: _Array, *, level: float, weight: float | None, weights: _Array | None = None
) -> CorrectedRate:
    too_few = _too_few(y, f, others)
    if too_few is not None:
        return too_few
    w = np.ones(len(y)) if weights is None else weights / weights.mean()
    n, total = len(y), len(others)
    if weight is None:  # tuned on the gradients at the estimate that trusts the judge fully
        centre = float(others.mean()) + float((w * (y - f)).mean())
        slopes, judged = w * (y - centre), w * (f - centre)
        everything = np.concatenate([judged, others - centre])
        covariance = float(np.mean((slopes - slopes.mean()) * (judged - judged.mean())))
        weight = _clip(_divided(covariance, (1 + n / total) * float(everything.var(ddof=1))))
    rectified = w * (y - weight * f)
    estimate = weight * float(others.mean()) + float(rectified.mean())
    se = math.sqrt(weight**2 * float(others.var()) / total + float(rectified.var()) / n)
    half = normal_quantile(level) * se
    interval = (estimate - half, estimate + half)
    return _corrected((y, f, others), estimate, interval=interval, weight=weight, method="PPI++")


def _too_few(y: _Array, f: _Array, others: _Array) -> CorrectedRate | None:
    if len(y) != len(f):
        raise ValueError(f"give a label and a verdict of each labelled row: {len(y)} and {len(f)}")
    if len(y) >= _LEAST_LABELS and len(others):
        return None
    judged = np.concatenate([f, others])
    uncorrected = float(judged.mean()) if len(judged) else None
    return CorrectedRate(value=None, n=len(y), reason="too_few", method="PPI++", uncorrected=uncorrected)


def _corrected(
    data: tuple[_Array, _Array, _Array],
    estimate: float,
    *,
    interval: tuple[float, float],
    weight: float,
    method: str,
) -> CorrectedRate:
    y, f, others = data
    n, total = len(y), len(others)
    spread = float(y.std()) * float(f.std())
    correlation = float(np.mean((y - y.mean()) * (f - f.mean()))) / spread if spread else None
    gain = 1 - (correlation or 0.0) ** 2 * total / (n + total)
    return CorrectedRate(
        value=estimate,
        n=n,
        low=interval[0],
        high=interval[1],
        method=method,
        note="indicative" if n < _INDICATIVE_BELOW else "",
        uncorrected=float(np.concatenate([f, others]).mean()),
        human=labels_alone(y.tolist()),
        weight=weight,
        correlation=correlation,
        effective=n / gain if gain else None,
    )


def labels_alone(values: Sequence[float]) -> Figure:
    """Return the mean of labels with its 95 % interval: Wilson's for good and bad, else Student's t."""
    y = floats(values)
    n, mean = len(y), float(y.mean())
    if set(values) <= {0.0, 1.0}:
        return Figure.of_share(int(y.sum()), n, method="Wilson, labels alone")
    if n == 1:
        return Figure(value=mean, n=n, method="labels alone")
    half = float(special.stdtrit(n - 1, 0.975)) * float(y.std(ddof=1)) / math.sqrt(n)
    return Figure(value=mean, n=n, low=mean - half, high=mean + half, method="Student's t, labels alone")


def _divided(above: float, below: float) -> float:
    return above / below if below else 0.0


def stratified_rate(
    shares: Sequence[float], rows: int, labelled: Sequence[int], passed: Sequence[int], *, level: float = 0.95
) -> Figure:
    """Return a pass rate from labels drawn by stratum, for instance by the judge's rating.

    Args:
        shares: Share of each stratum in all rows; they sum to 1.
        rows: Number of all rows.
        labelled: Labels in each stratum.
        passed: Those that pass.
        level: Coverage, 0 to 1.
    """
    if min(labelled) < 1 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise ValueError("every stratum needs a label, and the shares of the strata sum to 1")
    rates = [y / m for y, m in zip(passed, labelled, strict=True)]
    smooth = [(y + 0.5) / (m + 1) for y, m in zip(passed, labelled, strict=True)]
    estimate = math.fsum(share * rate for share, rate in zip(shares, rates, strict=True))
    within = math.fsum(w * w * p * (1 - p) / m for w, p, m in zip(shares, smooth, labelled, strict=True))
    between = math.fsum(w * (rate - estimate) ** 2 for w, rate in zip(shares, rates, strict=True)) / rows
    half = normal_quantile(level) * math.sqrt(within + between)
    figure = Figure(value=estimate, n=sum(labelled), method="stratified")
    return figure.between(_clip(estimate - half), _clip(estimate + half), "stratified, normal interval")


def neyman(shares: Sequence[float], labelled: Sequence[int], passed: Sequence[int], budget: int) -> list[float]:
    """Return how to divide further labels among strata so that the rate gets most exact (Neyman 1934).

    Args:
        shares: Share of each stratum in all rows.
        labelled: Labels so far in each stratum, 10 each are a good start.
        passed: Those that pass.
        budget: Labels to divide. The shares are not rounded; label at least 5 of each stratum.
    """
    smooth = [(y + 0.5) / (m + 1) for y, m in zip(passed, labelled, strict=True)]
    products = [share * math.sqrt(p * (1 - p)) for share, p in zip(shares, smooth, strict=True)]
    return [budget * product / math.fsum(products) for product in products]


_UNIFORM = 0.25

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
    values = floats(uncertainty)
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
