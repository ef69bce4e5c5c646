"""Numbers, checked as they come in, and what resampling and clusters say of a figure over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from judges.offline.statistics.intervals import Figure, LazyModule, is_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    _Array = NDArray[np.float64]
    Indices = NDArray[np.intp]
else:
    np = LazyModule("numpy")
special = LazyModule("scipy.special")


def floats(values: Any) -> _Array:
    """Return numbers as an array of floats."""
    return np.asarray(values, float)


def finite(values: object, name: str, *, low: float = -math.inf, high: float = math.inf) -> _Array:
    """Return values as an array.

    Args:
        values: Numbers, or rows of numbers.
        name: What they are, for the error.
        low: The smallest that is allowed.
        high: The largest.

    Raises:
        ValueError: If one is None, not a number, infinite or out of range, or if there is no list.
    """
    entries = listed(values, name)
    try:
        data = floats(entries)  # None becomes NaN, and text that looks like a number one
    except (TypeError, ValueError):
        data = np.full(len(entries), np.nan)
    if any(isinstance(value, str) for value in entries):
        data = np.array([np.nan if isinstance(value, str) else 0.0 for value in entries])
    wrong = ~np.isfinite(data)
    if wrong.any():
        place = int(np.argwhere(wrong)[0][0])
        raise ValueError(f"{name} are finite numbers, but number {place} is {entries[place]!r}; leave it out")
    wrong = (data < low) | (data > high)
    if wrong.any():
        place = int(np.argwhere(wrong)[0][0])
        span = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{name} are numbers {span}, but number {place} is {entries[place]!r}")
    return data


def row_weights(weights: object, rows: int) -> _Array:
    """Return the design weights of rows, 1 each where there are none.

    Raises:
        ValueError: If there is not one for each row, one is negative or no number, or all are 0.
    """
    if weights is None:
        return np.ones(rows)
    data = finite(weights, "weights", low=0)
    if data.shape != (rows,):
        raise ValueError(f"weights has a weight for each row: {rows} rows, {len(data)} weights")
    if rows and not data.any():
        raise ValueError("weights are all 0; a row that counts has a weight above 0")
    return data


def verdicts(values: object, name: str) -> _Array:
    """Return verdicts that pass or fail as 1 and 0.

    Raises:
        ValueError: If one is neither True nor False, 1 nor 0.
    """
    data = finite(values, name)
    if data.ndim != 1:
        raise ValueError(f"{name} is a list with one of True and False for each row, not rows of them")
    wrong = (data != 0) & (data != 1)
    if wrong.any():
        place = int(np.argwhere(wrong)[0][0])
        raise ValueError(f"{name} are True or False, or 1 or 0, but number {place} is {float(data[place])!r}")
    return data


def whole(value: object, name: str) -> int:
    """Return a count.

    Raises:
        ValueError: If it is no whole number; it may be negative.
    """
    if not is_number(value) or float(value) != int(value):  # type: ignore[arg-type,call-overload]  # a number here
        raise ValueError(f"{name} is a whole number, not {value!r}")
    return int(value)  # type: ignore[call-overload,no-any-return]  # as above


def same_length(what: str, *columns: Sized) -> None:
    """Check that columns have a value for each row.

    Raises:
        ValueError: If their lengths differ.
    """
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ValueError(f"{what}: their lengths are {', '.join(map(str, lengths))}")


def recorded_runs(runs: object) -> None:
    """Check that each recorded run is a list of ratings and one of whether each answer is bad.

    Raises:
        ValueError: If one is not.
    """
    for number, run in enumerate(listed(runs, "runs")):
        lists = isinstance(run, Sequence) and not isinstance(run, str) and len(run) == 2  # noqa: PLR2004 - a pair
        if not lists or not all(isinstance(part, Sequence | np.ndarray) for part in run):
            raise ValueError(
                f"a run is (ratings, bad): two lists, an entry for each attempt; run {number} is {run!r}"
            )
        for label in run[1]:
            if label is not None and label not in (True, False):
                raise ValueError(
                    f"bad is True, False, or None without a label, for each attempt; run {number} has {label!r}"
                )


def chosen(value: object, choices: Iterable[str], name: str) -> None:
    """Check that a value is one of the choices.

    Raises:
        ValueError: If it is not.
    """
    names = list(choices)
    if value not in names:
        first = ", ".join(repr(choice) for choice in names[:-1])
        raise ValueError(f"{name} is {first} or {names[-1]!r}, not {value!r}")


def listed(values: object, name: str, *, text: bool = False) -> Sequence[Any]:
    """Return the entries of a list.

    Args:
        values: The list, or an array.
        name: What it is, for the error.
        text: Whether a text, as a list of letters, will do.

    Raises:
        ValueError: If it is none.
    """
    scalar = isinstance(values, np.ndarray) and not values.ndim
    unwanted = isinstance(values, str) and not text
    if scalar or unwanted or isinstance(values, bytes | dict) or not isinstance(values, Iterable):
        raise ValueError(f"{name} is a list, not {values!r}")
    return values if isinstance(values, Sequence | np.ndarray) else list(values)  # type: ignore[return-value]  # an array is as good


_INDICATIVE_BELOW = 30
_MOST_DROPPED = 0.05
_MOST_PARTS = 1_000
"""Most times that the jackknife leaves something out: of more questions it leaves out several at once."""


@dataclass(frozen=True)
class Bca:
    """An interval, and the two corrections it was made with.

    Args:
        low: Lower end.
        high: Upper end.
        bias: z0, the median bias of the replicates in standard errors.
        acceleration: a, how fast the standard error changes with the value.
    """

    low: float
    high: float
    bias: float
    acceleration: float


def bca(
    replicates: Sequence[float], estimate: float, jackknife: Sequence[float], *, level: float = 0.95
) -> Bca | None:
    """Return the bias-corrected and accelerated bootstrap interval (Efron, JASA 82, 1987).

    Args:
        replicates: The statistic of each resample.
        estimate: The statistic of the data.
        jackknife: The statistic without each question in turn.
        level: Coverage, 0 to 1.

    Returns:
        None where the jackknife values do not vary, or the estimate lies outside all replicates.
    """
    values, leave_one_out = floats(replicates), floats(jackknife)
    spread = leave_one_out.mean() - leave_one_out
    squares = float((spread**2).sum())
    below = float((values < estimate).sum() + (values <= estimate).sum()) / (2 * len(values))
    if squares == 0 or not 0 < below < 1:
        return None
    bias = float(special.ndtri(below))
    acceleration = float((spread**3).sum()) / (6 * squares**1.5)
    ends = special.ndtri([(1 - level) / 2, (1 + level) / 2])
    places = special.ndtr(bias + (bias + ends) / (1 - acceleration * (bias + ends)))
    low, high = np.quantile(values, places)
    return Bca(float(low), float(high), bias, acceleration)


def bootstrap(
    values: Sequence[float],
    statistic: Callable[[NDArray[np.float64]], float | None] | None = None,
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Figure:
    """Return a statistic of the values with its BCa interval, resampling whole clusters.

    Args:
        values: The values, a number each, or a row of numbers each.
        statistic: From an array of values to the statistic, or None where it is undefined; the mean by default.
        clusters: The question of each value; values of one question are drawn together. None: each its own.
        resamples: How many resamples are drawn.
        level: Coverage, 0 to 1.
        seed: Seed of the draws.

    Returns:
        The figure; its `n` counts questions. Below 30 questions its note says "indicative". Where more than 5 %
        of the resamples have no value, or BCa is undefined, the interval is the percentile interval and `method`
        says so.

    Raises:
        ValueError: If a value is no finite number.
    """
    data = finite(values, "values")
    groups = cluster_rows(len(data), clusters)
    if statistic is None and data.ndim == 1 and groups:
        sample = _Means(data, groups)
        return _bootstrap(sample.of, sample.without, len(groups), resamples=resamples, level=level, seed=seed)
    compute = statistic or (lambda rows: float(rows.mean()))
    return bootstrap_rows(lambda rows: compute(data[rows]), groups, resamples=resamples, level=level, seed=seed)


class _Means:
    """The mean of drawn questions from the sum of each, which takes a fraction of the time of gathering rows."""

    def __init__(self, data: NDArray[np.float64], groups: Sequence[Indices]) -> None:
        self._sums = np.array([data[rows].sum() for rows in groups])
        self._sizes = floats([len(rows) for rows in groups])

    def of(self, draw: Indices) -> float:
        """Return the mean over the values of the questions drawn."""
        return float(self._sums[draw].sum() / self._sizes[draw].sum())

    def without(self, places: Indices) -> float:
        """Return the mean without some questions."""
        size = self._sizes.sum() - self._sizes[places].sum()
        return float((self._sums.sum() - self._sums[places].sum()) / size)


def cluster_rows(n: int, clusters: Sequence[Hashable] | None) -> list[Indices]:
    """Return the rows of each cluster, in the order in which the clusters first appear."""
    if clusters is None:
        return [np.array([row]) for row in range(n)]
    if len(clusters) != n:
        raise ValueError(f"clusters names the question of each row: {n} rows, {len(clusters)} clusters")
    rows: dict[Hashable, list[int]] = {}
    for row, cluster in enumerate(clusters):
        rows.setdefault(cluster, []).append(row)
    return [np.array(members) for members in rows.values()]


def bootstrap_rows(
    statistic: Callable[[Indices], float | None],
    groups: Sequence[Indices],
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Figure:
    """Return a statistic of row numbers with its interval; otherwise as `bootstrap`."""
    n, rows_of = len(groups), _rows_of(groups)
    return _bootstrap(
        lambda draw: statistic(rows_of(draw)),
        lambda places: statistic(rows_of(np.delete(np.arange(n), places))),
        n,
        resamples=resamples,
        level=level,
        seed=seed,
    )


def _rows_of(groups: Sequence[Indices]) -> Callable[[Indices], Indices]:
    """Return a function from questions drawn to their rows."""
    rows = np.concatenate(groups) if groups else np.array([], np.intp)
    sizes = np.array([len(group) for group in groups], np.intp)
    if (sizes == 1).all():
        return lambda draw: rows[draw]
    starts = np.cumsum(sizes) - sizes

    def rows_of(draw: Indices) -> Indices:
        drawn = sizes[draw]
        before = np.cumsum(drawn) - drawn
        places: Indices = np.repeat(starts[draw] - before, drawn) + np.arange(drawn.sum())
        return rows[places]

    return rows_of


def _bootstrap(
    of: Callable[[Indices], float | None],
    without: Callable[[Indices], float | None],
    n: int,
    *,
    resamples: int,
    level: float,
    seed: int,
) -> Figure:
    """Return a statistic with its interval, from its value for questions drawn and for all but one."""
    estimate = of(np.arange(n)) if n else None
    if estimate is None:
        return Figure.undefined("too_few", n)
    figure = Figure(value=float(estimate), n=n, note="indicative" if n < _INDICATIVE_BELOW else "")
    if n < 2:  # noqa: PLR2004 - one question has no spread
        return replace(figure, note="no interval from a single question")
    random = np.random.default_rng(seed)
    replicates = _defined(of(random.integers(0, n, n)) for _ in range(resamples))
    parts = np.array_split(np.arange(n), min(n, _MOST_PARTS))
    left_out = _defined(without(places) for places in parts)
    dropped = resamples - len(replicates)
    if not replicates:
        return replace(figure, note="no interval: no resample has a value")
    interval = None
    if dropped <= _MOST_DROPPED * resamples and len(left_out) == len(parts):
        interval = bca(replicates, estimate, left_out, level=level)
    if interval is not None:
        return figure.between(interval.low, interval.high, f"BCa bootstrap over questions, seed {seed}")
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    method = f"percentile bootstrap over questions, seed {seed}, {dropped} resamples without a value"
    return figure.between(float(low), float(high), method)


def _defined(values: object) -> list[float]:
    return [float(value) for value in values if value is not None]  # type: ignore[attr-defined]  # any iterable


def cluster_se(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> float | None:
    """Return the standard error of a mean whose values come in clusters (CR1); None for fewer than two clusters.

    The square root of G/(G - 1) times the sum over the G clusters of the squared sums of deviations, divided by
    the number of values. With one value a cluster it is the usual standard error.
    """
    data = finite(values, "values")
    groups = cluster_rows(len(data), clusters)
    if len(groups) < 2:  # noqa: PLR2004 - one cluster has no spread
        return None
    deviations = data - data.mean()
    sums = math.fsum(float(deviations[group].sum()) ** 2 for group in groups)
    return math.sqrt(len(groups) / (len(groups) - 1) * sums) / len(data)
