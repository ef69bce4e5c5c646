"""Several raters: chance-corrected agreement, and whether a judge may stand in for one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from judges.offline.statistics.intervals import LazyModule, benjamini_yekutieli
from judges.offline.statistics.judge_agreement import LEVELS, cohen_kappa
from judges.offline.statistics.resampling import chosen, finite, floats, listed, same_length

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    _Array = NDArray[np.float64]
else:
    np = LazyModule("numpy")
special = LazyModule("scipy.special")

_Unit = Sequence[float | None]

_LEAST_ROWS = 30
_LEAST_RATERS = 3
_LEAST_RATINGS = 2
_HALF = 0.5


def krippendorff_alpha(
    units: Sequence[_Unit], *, metric: Literal["nominal", "ordinal", "interval"] = "ordinal"
) -> float | None:
    """Return Krippendorff's alpha (2011): 1 is perfect agreement, 0 chance; None where all ratings are equal.

    Args:
        units: The ratings of each row, in any order; None is missing. Rows with a single rating do not count.
        metric: Distance of two ratings: the same for all, by how many ratings lie between, or squared.
    """
    chosen(metric, ("nominal", "ordinal", "interval"), "metric")
    pairable = [_known(unit) for unit in listed(units, "units")]
    pairable = [values for values in pairable if len(values) >= _LEAST_RATINGS]
    levels = sorted({value for values in pairable for value in values})
    place = {value: i for i, value in enumerate(levels)}
    coincidences = np.zeros((len(levels), len(levels)))
    for values in pairable:
        for i, a in enumerate(values):
            for k, b in enumerate(values):
                if i != k:
                    coincidences[place[a], place[b]] += 1 / (len(values) - 1)
    counts = coincidences.sum(axis=1)
    n = counts.sum()
    costs = _distances(floats(levels), counts, metric)
    expected = float((costs * np.outer(counts, counts)).sum())
    return None if expected == 0 else 1 - float((n - 1) * (costs * coincidences).sum()) / expected


def _known(unit: _Unit) -> list[float]:
    """Return the ratings of a row that are not missing."""
    known = [value for value in listed(unit, "the ratings of a unit") if value is not None]
    finite(known, "ratings")
    return known


def _distances(levels: _Array, counts: _Array, metric: str) -> _Array:
    if metric == "nominal":
        return np.not_equal.outer(levels, levels).astype(np.float64)
    if metric == "interval":
        return np.square(levels[:, None] - levels[None, :])
    middles = np.cumsum(counts) - counts / 2
    return np.square(middles[:, None] - middles[None, :])


def gwet_ac(
    units: Sequence[_Unit],
    *,
    weighting: Literal["none", "linear", "quadratic"] = "none",
    levels: Sequence[float] = LEVELS,
) -> float | None:
    """Return Gwet's AC1, or AC2 with a weighting (Handbook of Inter-Rater Reliability, 2014).

    Defined for rows that all have the same rating too, where kappa is not.

    Args:
        units: The ratings of each row; None is missing.
        weighting: How much a near miss counts as agreement.
        levels: All levels of the scale, those that do not occur included.
    """
    chosen(weighting, ("none", "linear", "quadratic"), "weighting")
    places = finite(levels, "levels")
    gaps = np.abs(places[:, None] - places[None, :])
    largest = gaps.max() or 1.0
    credit = {
        "none": (gaps == 0).astype(float),
        "linear": 1 - gaps / largest,
        "quadratic": 1 - (gaps / largest) ** 2,
    }
    weights, place = credit[weighting], {level: i for i, level in enumerate(levels)}
    counts = np.zeros((len(listed(units, "units")), len(levels)))
    for row, unit in enumerate(units):
        for value in _known(unit):
            if value not in place:
                scale = tuple(levels)
                raise ValueError(f"ratings are levels of the scale {scale}, or None where missing; not {value!r}")
            counts[row, place[value]] += 1
    counts = counts[counts.sum(axis=1) > 0]
    totals = counts.sum(axis=1)
    several = totals >= _LEAST_RATINGS
    if not several.any() or len(levels) < _LEAST_RATINGS:
        return None
    weighted = counts @ weights
    shares = (counts * (weighted - 1)).sum(axis=1)[several] / (totals * (totals - 1))[several]
    prevalence = (counts / totals[:, None]).mean(axis=0)
    q = len(levels)
    by_chance = weights.sum() / (q * (q - 1)) * float((prevalence * (1 - prevalence)).sum())
    return float((shares.mean() - by_chance) / (1 - by_chance))


@dataclass(frozen=True, kw_only=True)
class AltTest:
    """Whether a judge may replace human raters (Calderon et al., "The Alternative Annotator Test", ACL 2025).

    Args:
        passed: Whether the winning rate is at least one half; None where the test cannot be done.
        winning_rate: omega, share of the raters whom the judge matches at least as well, less epsilon.
        advantage: rho, mean over raters of the share of rows on which the judge is as close to the others as they.
        epsilon: What a rater's effort is worth: 0.2 for experts, 0.15 skilled people, 0.1 a crowd.
        raters: How many raters were tested.
        rows: Rows of each rater tested.
        p_values: Per rater, before correction by Benjamini and Yekutieli at 0.05.
        skipped: Raters with too few rows.
        reason: Why there is no result.
    """

    passed: bool | None
    winning_rate: float | None
    advantage: float | None
    epsilon: float
    raters: int
    rows: Mapping[int, int] = field(default_factory=dict)
    p_values: Mapping[int, float] = field(default_factory=dict)
    skipped: tuple[int, ...] = ()
    reason: Literal["too_few"] | None = None


def alt_test(
    raters: Sequence[_Unit],
    judge: _Unit,
    *,
    epsilon: float = 0.2,
    scoring: Literal["accuracy", "rmse"] = "accuracy",
    least_rows: int = _LEAST_ROWS,
) -> AltTest:
    """Test whether the judge agrees with the other raters as well as each rater does.

    Args:
        raters: The labels of each rater, row by row; None is missing. At least three raters.
        judge: The judge's labels of the same rows.
        epsilon: How much worse the judge may be, since it costs less, 0 to 1.
        scoring: `"accuracy"` for verdicts that pass or fail, `"rmse"` (its negative) for ratings.
        least_rows: Fewest rows for a rater to be tested, at least 2; the test advises 50 to 100.

    Raises:
        ValueError: If an argument is out of range, or raters and judge do not have the same rows.
    """
    _check_test(raters, judge, epsilon, scoring, least_rows)
    shares, p_values, rows, skipped = {}, {}, {}, []
    for number, rater in enumerate(raters):
        others = [labels for other, labels in enumerate(raters) if other != number]
        judged, human = _wins(rater, others, judge, scoring)
        if len(judged) < least_rows:
            skipped.append(number)
            continue
        rows[number], shares[number] = len(judged), float(np.mean(judged))
        p_values[number] = _p_less(floats(human) - floats(judged), epsilon)
    if len(raters) < _LEAST_RATERS or not p_values:
        return AltTest(
            passed=None,
            winning_rate=None,
            advantage=None,
            epsilon=epsilon,
            raters=len(p_values),
            rows=rows,
            skipped=tuple(skipped),
            reason="too_few",
        )
    rejected = [p <= 0.05 for p in benjamini_yekutieli(list(p_values.values()))]  # noqa: PLR2004 - the test's level
    rate = sum(rejected) / len(rejected)
    return AltTest(
        passed=rate >= _HALF,
        winning_rate=rate,
        advantage=float(np.mean(list(shares.values()))),
        epsilon=epsilon,
        raters=len(p_values),
        rows=rows,
        p_values=p_values,
        skipped=tuple(skipped),
    )


def _check_test(raters: Sequence[_Unit], judge: _Unit, epsilon: float, scoring: str, least_rows: int) -> None:
    chosen(scoring, ("accuracy", "rmse"), "scoring")
    if finite([epsilon], "epsilon") < 0 or epsilon >= 1:
        raise ValueError(f"epsilon is 0 or more and below 1, for instance 0.2; not {epsilon!r}")
    if least_rows < 2:  # noqa: PLR2004 - one row has no spread
        raise ValueError(f"least_rows is at least 2, not {least_rows!r}")
    same_length("give the labels of each rater and of the judge, row by row, None where missing", judge, *raters)
    for labels in (*raters, judge):
        _known(labels)


def _wins(rater: _Unit, others: Sequence[_Unit], judge: _Unit, scoring: str) -> tuple[list[bool], list[bool]]:
    """Return per row whether the judge, and whether the rater, is at least as close to the others."""
    judged, human = [], []
    for row, (mine, theirs) in enumerate(zip(rater, judge, strict=True)):
        rest = [label for label in (other[row] for other in others) if label is not None]
        if mine is None or theirs is None or not rest:
            continue
        by_judge, by_rater = _closeness(theirs, rest, scoring), _closeness(mine, rest, scoring)
        judged.append(by_judge >= by_rater)
        human.append(by_rater >= by_judge)
    return judged, human


def _closeness(label: float, others: Sequence[float], scoring: str) -> float:
    if scoring == "accuracy":
        return sum(label == other for other in others) / len(others)
    return -float(np.sqrt(np.mean([(label - other) ** 2 for other in others])))


def _p_less(differences: _Array, epsilon: float) -> float:
    """Return the one-sided p-value of a t-test that the mean difference is below epsilon."""
    mean, sd, n = float(differences.mean()), float(differences.std(ddof=1)), len(differences)
    if sd == 0:
        return 0.0 if mean < epsilon else 1.0
    return float(special.stdtr(n - 1, (mean - epsilon) / (sd / n**0.5)))


def human_likeness(raters: Sequence[_Unit], judge: _Unit) -> float | None:
    """Return how many standard deviations the judge's mean kappa with the humans lies from that among them.

    Quadratic kappa ("Judge's Verdict", 2025). None for fewer than three raters, or where the kappas among them do
    not vary. From three raters it is mostly noise; four are needed to mean much.
    """
    among = [_kappa(one, other) for one, other in combinations(raters, 2)]
    with_judge = [_kappa(rater, judge) for rater in raters]
    if len(raters) < _LEAST_RATERS or None in among or None in with_judge:
        return None
    humans = floats(among)
    sd = float(humans.std(ddof=1))
    return None if sd == 0 else float((np.mean(floats(with_judge)) - humans.mean()) / sd)


def _kappa(one: _Unit, other: _Unit) -> float | None:
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    return cohen_kappa([a for a, _ in pairs], [b for _, b in pairs], weighting="quadratic") if pairs else None
