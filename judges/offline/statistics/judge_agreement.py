"""How well a judge agrees with a human: kappa, error rates, reliability, each with its interval."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, get_args

from judges.offline.statistics.intervals import EXACT, Figure, LazyModule, Undefined, clopper_pearson, share
from judges.offline.statistics.resampling import (
    bootstrap_rows,
    chosen,
    cluster_rows,
    finite,
    floats,
    listed,
    row_weights,
    same_length,
    verdicts,
)
from judges.verdict import HIGHEST, LOWEST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from judges.offline.statistics.resampling import Indices

    _Array = NDArray[np.float64]
else:
    np = LazyModule("numpy")

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
    return _measured(y, s, w, resamples=resamples, seed=seed)


def _measured(y: _Array, s: _Array, w: _Array, *, resamples: int = 0, seed: int = 0) -> RankMetrics:
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


_Weighting = Literal["none", "linear", "quadratic"]
LEVELS = tuple(range(LOWEST, HIGHEST + 1))

_RARE_KAPPA = 0.4
_HIGH_BASE_RATE = 0.85
_GOOD = 3


def cohen_kappa(
    human: Sequence[float],
    judge: Sequence[float],
    *,
    weighting: _Weighting = "none",
    weights: Sequence[float] | None = None,
    levels: Sequence[float] = LEVELS,
) -> float | None:
    """Return Cohen's kappa (1960; weighted, 1968); None where chance agreement is certain.

    Args:
        human: The human's label of each row, one of `levels`.
        judge: The judge's.
        weighting: Cost of a disagreement: the same for all, its size, or its square.
        weights: Design weight of each row.
        levels: All levels of the scale, those that do not occur included: kappa must not depend on which do.
    """
    chosen(weighting, get_args(_Weighting), "weighting")
    return _kappa(_table(human, judge, weights, levels), _costs(tuple(levels))[weighting])


def _kappa(table: _Array, costs: _Array) -> float | None:
    """Return 1 less what disagreements cost, divided by what they would cost by chance."""
    total = table.sum()
    if not total:
        return None
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    by_chance = float((costs * expected).sum())
    return None if by_chance == 0 else 1 - float((costs * table).sum()) / by_chance


@lru_cache(maxsize=8)
def _costs(levels: tuple[float, ...]) -> dict[_Weighting, _Array]:
    """Return what each disagreement costs: the same for all, its size, or its square."""
    places = floats(levels)
    gaps = np.abs(places[:, None] - places[None, :])
    return {"none": (gaps > 0).astype(float), "linear": gaps, "quadratic": gaps**2}


def _table(
    human: Sequence[float], judge: Sequence[float], weights: Sequence[float] | None, levels: Sequence[float]
) -> _Array:
    same_length("give a human's and the judge's label of each row", human, judge)
    place = {level: i for i, level in enumerate(levels)}
    table = np.zeros((len(levels), len(levels)))
    for mine, theirs, weight in zip(human, judge, row_weights(weights, len(human)), strict=True):
        if mine not in place or theirs not in place:
            raise ValueError(f"labels are levels of the scale {tuple(levels)}, not {mine!r} and {theirs!r}")
        table[place[mine], place[theirs]] += weight
    return table


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Agreement of a judge with human labels; `str()` gives the short report.

    Args:
        n: Rows with a human label and a verdict.
        labelled: Rows with a human label.
        figures: Every figure by name: `exact`, `within_one`, `mean_difference`, `kappa`, `kappa_linear`,
            `kappa_quadratic`, `base_rate`, `agreement`, `pass_kappa`, `tpr`, `tnr`, `precision`, `npv`, `f1`,
            `balanced_accuracy`, `bad_among_passes`, `ac1`, `mcc` and, with scores, `auc`, `average_precision`,
            `brier`. Positive is "the human says good".
        reliability: Share that the human calls good among the answers of each rating.
        monotone: Whether that share never falls from a rating to the next; None for fewer than two ratings.
        kappa_paradox: Whether kappa is low although nearly all rows are good and agree: see `ac1` then.
    """

    n: int
    labelled: int
    figures: Mapping[str, Figure]
    reliability: Mapping[int, Figure] = field(default_factory=dict)
    monotone: bool | None = None
    kappa_paradox: bool = False

    @property
    def coverage(self) -> float | None:
        """Share of the labelled rows that have a verdict."""
        return self.n / self.labelled if self.labelled else None

    def __getitem__(self, name: str) -> Figure:
        return self.figures[name]

    def __str__(self) -> str:
        coverage = "" if self.coverage is None else f" ({self.coverage:.0%} of {self.labelled} labelled)"
        names = [name for name in _SHORT_REPORT if name in self.figures]
        lines = [
            f"rows {self.n}{coverage}",
            *(f"{name.replace('_', ' '):<18} {self.figures[name]}" for name in names),
        ]
        if self.reliability:
            rates = (f"{rating}: {figure}" for rating, figure in self.reliability.items())
            lines.append(f"good by rating     {'; '.join(rates)}{'' if self.monotone else ' (not monotone)'}")
        if self.kappa_paradox:
            lines.append(f"kappa paradox: nearly all rows are good, see AC1 = {self.figures['ac1']}")
        return "\n".join(lines)


_WITHOUT_SCORES = (
    *("exact", "within_one", "mean_difference", "kappa", "kappa_linear", "kappa_quadratic"),
    *("base_rate", "agreement", "tpr", "tnr", "precision", "npv", "bad_among_passes"),
    *("pass_kappa", "f1", "balanced_accuracy", "ac1", "mcc"),
)
_OF_SCORES = ("auc", "average_precision", "brier")
_SHORT_REPORT = (
    "base_rate",
    "agreement",
    "pass_kappa",
    "tpr",
    "tnr",
    "bad_among_passes",
    "kappa_quadratic",
    "within_one",
    "mean_difference",
    "auc",
    "brier",
)


def agreement(
    human: Sequence[float | None],
    judge: Sequence[float | None],
    *,
    scores: Sequence[float | None] | None = None,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    good: float = _GOOD,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Agreement:
    """Compare a judge's ratings with a human's.

    Args:
        human: The human's rating of each row, 1 to 4 (True and False are read as 4 and 1); None: not labelled.
        judge: The judge's rating; None: unscored. Rows without one of the two count in coverage alone.
        scores: The judge's score of each row, 0 to 1, for AUC, average precision and Brier score.
        weights: Design weight of each row.
        clusters: The question of each row.
        good: Lowest rating that is good, for human and judge.
        level: Coverage of the intervals, 0 to 1.
        resamples: Resamples of the bootstrap over questions.
        seed: Seed of the resamples.

    Returns:
        The figures; proportions have Wilson's interval (exact, Clopper-Pearson, for error rates), all others
        the BCa bootstrap interval over questions.

    Raises:
        ValueError: If a rating, score or weight is out of range, or a column has not a value for each row.
    """
    _check_columns(human, judge, scores, weights, clusters)
    level = share(level, "level")
    if resamples < 1:
        raise ValueError(f"resamples is at least 1, not {resamples!r}")
    rows = [i for i, (mine, theirs) in enumerate(zip(human, judge, strict=True)) if None not in (mine, theirs)]
    labelled = sum(label is not None for label in human)
    h, j = (np.array([_rating(labels[i]) for i in rows]) for labels in (human, judge))
    w = row_weights(None if weights is None else [weights[i] for i in rows], len(rows))
    if not rows:
        names = (*_WITHOUT_SCORES, *(() if scores is None else _OF_SCORES))
        return Agreement(n=0, labelled=labelled, figures={name: Figure.undefined("too_few", 0) for name in names})
    groups = cluster_rows(len(rows), None if clusters is None else [clusters[i] for i in rows])
    interval = partial(bootstrap_rows, groups=groups, resamples=resamples, level=level, seed=seed)
    figures = {
        **_rating_figures(h, j, w, interval),
        **_pass_figures(h >= good, j >= good, w, interval, level, groups=groups),
    }
    if scores is not None:
        figures |= _score_figures(h >= good, [scores[i] for i in rows], w, interval)
    reliability = {
        rating: Figure.of_share(
            int((h[j == rating] >= good).sum()), int((j == rating).sum()), level=level, method=EXACT
        )
        for rating in LEVELS
    }
    rates = [figure.value for figure in reliability.values() if figure.value is not None]
    kappa, base_rate, agreeing = (figures[name].value for name in ("pass_kappa", "base_rate", "agreement"))
    return Agreement(
        n=len(rows),
        labelled=labelled,
        figures=figures,
        reliability=reliability,
        monotone=rates == sorted(rates) if len(rates) > 1 else None,
        kappa_paradox=kappa is not None
        and kappa < _RARE_KAPPA
        and (base_rate or 0) > _HIGH_BASE_RATE
        and (agreeing or 0) > _HIGH_BASE_RATE,
    )


def _check_columns(human: Sequence[object], judge: Sequence[object], *others: Sequence[object] | None) -> None:
    listed(human, "human")
    listed(judge, "judge")
    same_length("give a human's and the judge's label of each row", human, judge)
    for name, values in zip(("scores", "weights", "clusters"), others, strict=True):
        if values is not None:
            same_length(f"{name} has a value for each row, as the labels have", human, values)


def _rating(label: float | bool | None) -> float:  # noqa: FBT001 - a verdict that passes or fails is a rating, too
    if isinstance(label, bool):
        return float(HIGHEST if label else LOWEST)
    if label is None or label not in LEVELS:
        raise ValueError(f"a rating is one of {LEVELS}, True or False; not {label!r}")
    return float(label)


def rating_figures(
    human: Sequence[float],
    judge: Sequence[float],
    *,
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, Figure]:
    """Return the figures of `agreement` that are about ratings and not about good and bad, at 95 %."""
    groups = cluster_rows(len(human), clusters)
    interval = partial(bootstrap_rows, groups=groups, resamples=resamples, level=0.95, seed=seed)
    w = np.ones(len(human)) if weights is None else floats(weights)
    return _rating_figures(floats(human), floats(judge), w, interval)


def _rating_figures(h: _Array, j: _Array, w: _Array, interval: partial[Figure]) -> dict[str, Figure]:
    def kappa(weighting: _Weighting, rows: Indices) -> float | None:
        return _kappa_of(h[rows], j[rows], w[rows], weighting)

    def mean(values: _Array, rows: Indices) -> float | None:
        return _ratio(float(w[rows] @ values[rows]), float(w[rows].sum()))

    names: dict[str, _Weighting] = {"kappa": "none", "kappa_linear": "linear", "kappa_quadratic": "quadratic"}
    means = {"exact": h == j, "within_one": np.abs(h - j) <= 1, "mean_difference": j - h}
    figures = {name: interval(partial(mean, values.astype(float))) for name, values in means.items()}
    questions = len(interval.keywords["groups"])
    for name in ("exact", "within_one"):
        if means[name].all() or not means[name].any():  # resampling rows that are all alike shows no doubt
            wins = questions if means[name].all() else 0
            own = Figure.of_share(wins, questions, level=interval.keywords["level"])
            figures[name] = figures[name].between(own.low, own.high, own.method)
    for name, weighting in names.items():
        undefined = (h == h[:1]).all() or kappa(weighting, np.arange(len(h))) is None
        figures[name] = Figure.undefined("one_class", len(h)) if undefined else interval(partial(kappa, weighting))
    return figures


def _kappa_of(h: _Array, j: _Array, w: _Array, weighting: _Weighting) -> float | None:
    """Return kappa over the ratings 1 to 4, as `cohen_kappa`, fast enough for a bootstrap."""
    size = len(LEVELS)
    cells = ((h - LOWEST) * size + (j - LOWEST)).astype(np.intp)
    counts = np.bincount(cells, weights=w, minlength=size * size).astype(np.float64)
    return _kappa(counts.reshape(size, size), _costs(LEVELS)[weighting])


def _pass_figures(
    h: NDArray[np.bool_],
    j: NDArray[np.bool_],
    w: _Array,
    interval: partial[Figure],
    level: float,
    *,
    groups: Sequence[Indices],
) -> dict[str, Figure]:
    unweighted = bool((w == 1).all())
    question = np.zeros(len(h), np.intp)
    for number, rows in enumerate(groups):
        question[rows] = number
    cells = {(a, b): (h == a) & (j == b) for a in (True, False) for b in (True, False)}

    def share(wins: NDArray[np.bool_], of: NDArray[np.bool_], *, wide: bool = True) -> Figure:
        if not of.any():
            return Figure.undefined("one_class", 0)
        n, k, questions = int(of.sum()), int((wins & of).sum()), len(np.unique(question[of]))
        if (unweighted and questions == n) or k in (0, n):  # resampling rows that are all alike shows no doubt
            counts = (k, n) if unweighted and questions == n else (questions if k else 0, questions)
            return Figure.of_share(*counts, level=level, method=EXACT if wide else "Wilson")
        return interval(lambda rows: _ratio(float(w[rows] @ (wins & of)[rows]), float(w[rows] @ of[rows])))

    everything = np.ones_like(h)
    figures = {
        "base_rate": share(h, everything, wide=False),
        "agreement": share(h == j, everything, wide=False),
        "tpr": share(j, h),
        "tnr": share(~j, ~h),
        "precision": share(h, j),
        "npv": share(~h, ~j),
        "bad_among_passes": _with_upper_bound(share(~h, j), level),
    }
    combined = {"pass_kappa": _pass_kappa, "f1": _f1, "balanced_accuracy": _balanced, "ac1": _ac1, "mcc": _mcc}
    for name, formula in combined.items():

        def statistic(rows: Indices, formula: object = formula) -> float | None:
            counts = {cell: float(w[rows] @ where[rows]) for cell, where in cells.items()}
            return formula(counts[True, True], counts[False, True], counts[True, False], counts[False, False])  # type: ignore[operator, no-any-return]  # one of the formulas below

        # Kappa is 0 in every resample where people call all answers good, or all bad: that is no finding.
        is_flat = name == "pass_kappa" and bool((h == h[0]).all())
        undefined = is_flat or statistic(np.arange(len(h))) is None
        figures[name] = Figure.undefined("one_class", len(h)) if undefined else interval(statistic)
    return figures


def _with_upper_bound(figure: Figure, level: float) -> Figure:
    """Return the share of bad ones with its one-sided exact upper bound, where the rows allow one."""
    if figure.value is None or figure.method != EXACT:
        return figure
    _, upper = clopper_pearson(round(figure.value * figure.n), figure.n, level=2 * level - 1)
    return figure.between(0.0, upper, f"Clopper-Pearson upper bound, one-sided, {level:.0%}")


def _ratio(above: float, below: float) -> float | None:
    return float(above / below) if below else None


def _f1(tp: float, fp: float, fn: float, tn: float) -> float | None:
    del tn
    return _ratio(2 * tp, 2 * tp + fp + fn)


def _balanced(tp: float, fp: float, fn: float, tn: float) -> float | None:
    tpr, tnr = _ratio(tp, tp + fn), _ratio(tn, tn + fp)
    return None if tpr is None or tnr is None else (tpr + tnr) / 2


def _pass_kappa(tp: float, fp: float, fn: float, tn: float) -> float | None:
    return _kappa(np.array([[tp, fn], [fp, tn]], float), _costs((0, 1))["none"])


def _ac1(tp: float, fp: float, fn: float, tn: float) -> float | None:
    n = tp + fp + fn + tn
    if not n:
        return None
    passing = ((tp + fn) + (tp + fp)) / (2 * n)
    by_chance = 2 * passing * (1 - passing)
    return ((tp + tn) / n - by_chance) / (1 - by_chance)


def _mcc(tp: float, fp: float, fn: float, tn: float) -> float | None:
    below = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    return _ratio(tp * tn - fp * fn, below)


def _score_figures(
    good: NDArray[np.bool_],
    scores: Sequence[float | None],
    w: _Array,
    interval: partial[Figure],
) -> dict[str, Figure]:
    if any(score is None for score in scores):
        return {name: Figure.undefined("too_few", len(scores)) for name in _OF_SCORES}
    values = finite(scores, "scores")

    truth = good.astype(float)

    def metric(name: str, rows: Indices) -> float | None:
        return getattr(_measured(truth[rows], values[rows], w[rows]), name)  # type: ignore[no-any-return]  # a field of the record

    figures = {}
    for name in _OF_SCORES:
        undefined = metric(name, np.arange(len(good))) is None
        figures[name] = Figure.undefined("one_class", len(good)) if undefined else interval(partial(metric, name))
    return figures
