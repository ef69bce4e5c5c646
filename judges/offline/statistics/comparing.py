"""Two systems on the same questions: tests of their difference."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from judges.offline.statistics import resampling
from judges.offline.statistics.benefit import LoopBenefit, judged_together, loop_benefit
from judges.offline.statistics.intervals import Figure, LazyModule, Undefined, holm, normal_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    _Array = NDArray[np.float64]
else:
    np = LazyModule("numpy")
special = LazyModule("scipy.special")

_EXACT_UP_TO = 16
"""Most differences other than 0 for which all sign patterns are enumerated."""

_MOST_SIGNS = 1_000_000
"""Most signs held in memory at once."""

_EPSILON = 1e-9


def mcnemar(
    b: int | np.integer[Any] | Sequence[bool | int],
    c: int | np.integer[Any] | Sequence[bool | int],
    *,
    mid_p: bool = False,
) -> float:
    """Return the exact two-sided p-value of McNemar's test (Psychometrika 12, 1947).

    Args:
        b: How often only the first system passed; or whether the first passed, question by question.
        c: How often only the second passed; or whether the second passed, in the same order.
        mid_p: Count the observed table half: less conservative, no longer exact.

    Returns:
        min(1, 2 P(Bin(b + c, 1/2) <= min(b, c))); 1 where the two never differ.
    """
    if not isinstance(b, int | np.integer) or not isinstance(c, int | np.integer):
        if isinstance(b, int | np.integer) or isinstance(c, int | np.integer) or len(b) != len(c):
            raise ValueError("give two counts, or two lists of verdicts of the same length")
        pairs = [(bool(first), bool(second)) for first, second in zip(b, c, strict=True)]
        b, c = pairs.count((True, False)), pairs.count((False, True))
    b, c = int(b), int(c)
    if b < 0 or c < 0:
        raise ValueError(f"counts are 0 or more, not {b!r} and {c!r}")
    n, least = b + c, min(b, c)
    if n == 0:
        return 1.0
    tail = float(special.bdtr(least, n, 0.5))
    if mid_p:  # of a beta function, since among 1,030 questions that differ a count of orders is no float any more
        tail -= math.exp(-n * math.log(2) - math.log(n + 1) - float(special.betaln(least + 1, n - least + 1))) / 2
    return min(1.0, 2 * tail)


@dataclass(frozen=True, kw_only=True)
class _SampleDifference:
    """Where drawn cases differ the most from those that were not drawn.

    Args:
        name: The property.
        value: Its value that is too frequent or too rare.
        drawn_with: Drawn cases that have it.
        drawn: Drawn cases.
        others_with: Other cases that have it.
        others: Other cases.
        p: Two-sided p-value of "a random sample", by Fisher's exact test, after Holm over all values of all
            properties.
    """

    name: str
    value: object
    drawn_with: int
    drawn: int
    others_with: int
    others: int
    p: float


def sample_test(cases: Sequence[Mapping[str, object]], is_drawn: Sequence[bool]) -> _SampleDifference | None:
    """Test whether drawn cases are a random sample of all, by each value of each of their properties.

    Args:
        cases: The properties of each case.
        is_drawn: Whether it was drawn, in the same order.

    Returns:
        The largest difference; None where there is nothing to compare.
    """
    drawn = sum(is_drawn)
    others = len(cases) - drawn
    counts = Counter(
        (name, value, was) for case, was in zip(cases, is_drawn, strict=True) for name, value in case.items()
    )
    kinds = list(dict.fromkeys((name, value) for name, value, _ in counts))
    if not (drawn and others and kinds):
        return None
    tables = [(counts[(*kind, True)], counts[(*kind, False)]) for kind in kinds]
    ps = holm([_fisher(inside, drawn, outside, others) for inside, outside in tables])
    place = min(range(len(ps)), key=ps.__getitem__)
    (name, value), (inside, outside) = kinds[place], tables[place]
    return _SampleDifference(
        name=name, value=value, drawn_with=inside, drawn=drawn, others_with=outside, others=others, p=ps[place]
    )


def _fisher(inside: int, drawn: int, outside: int, others: int) -> float:
    """Return the two-sided p-value of Fisher's exact test of two shares."""
    having = inside + outside
    k = np.arange(max(0, having - others), min(having, drawn) + 1)
    weights = _log_choices(drawn, k) + _log_choices(others, having - k)
    probabilities = np.exp(weights - special.logsumexp(weights))
    observed = probabilities[inside - k[0]]
    return float(min(1.0, probabilities[probabilities <= observed * (1 + _FISHER_TIES)].sum()))


_FISHER_TIES = 1e-7


def _log_choices(n: int, k: NDArray[np.int_]) -> NDArray[np.float64]:
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))


def sign_flip(
    differences: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    flips: int = 9999,
    seed: int = 0,
) -> float | None:
    """Return the two-sided p-value of "the mean difference is 0" by flipping signs.

    Exact, over all sign patterns, for up to 16 differences other than 0; else by `flips` random patterns, as
    (1 + hits) / (1 + flips).

    Args:
        differences: One per row, or per question.
        clusters: The question of each row; the rows of a question are averaged first, and flipped together.
        flips: How many random patterns are drawn.
        seed: Seed of the draws.

    Returns:
        The p-value; None without differences.

    Raises:
        ValueError: If a difference is no finite number.
    """
    data = resampling.finite(differences, "differences")
    if not len(data):
        return None
    means = np.array([data[rows].mean() for rows in resampling.cluster_rows(len(data), clusters)])
    sizes = np.abs(means[means != 0])
    observed = abs(float(means.sum())) - _EPSILON * max(1.0, float(sizes.sum()))
    if len(sizes) <= _EXACT_UP_TO:
        patterns = np.array(list(product((-1, 1), repeat=len(sizes))))
        return float((np.abs(patterns @ sizes) >= observed).mean())
    random, hits, at_once = np.random.default_rng(seed), 0, max(1, _MOST_SIGNS // len(sizes))
    for start in range(0, flips, at_once):
        signs = random.choice((-1.0, 1.0), size=(min(at_once, flips - start), len(sizes)))
        hits += int((np.abs(signs @ sizes) >= observed).sum())
    return (1 + hits) / (1 + flips)


_POINTS = {"A": 1.0, "T": 0.5, "B": 0.0}
_LEAST_SHARE = 0.2
"""Least share of items on each side of equal length for which an adjustment is shown."""

_ANCHOR_WEIGHT = 0.1


@dataclass(frozen=True, kw_only=True)
class WinRate(Figure):
    """How often the first system wins, every pair judged in both orders.

    Args:
        se: Standard error of the win rate; None for fewer than two questions.
        flips: Share of the pairs judged in both orders whose orders disagree.
        single: Pairs scored in one order only, which count with that order.
        excluded: Pairs scored in no order.
        lowest: Win rate if the system had lost every excluded pair.
        highest: Win rate if it had won them.
        p: Two-sided p-value of "both win equally often", by sign flips.
    """

    se: float | None = None
    flips: float | None = None
    single: int = 0
    excluded: int = 0
    lowest: float | None = None
    highest: float | None = None
    p: float | None = None


def win_rate(
    orders: Sequence[str | Sequence[float | None]],
    *,
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> WinRate:
    """Return how often the first system, A, wins.

    Args:
        orders: Per pair the results of the two orders: two letters, A, B or T for a tie, `.` for none; or two
            numbers, 1 where A won, 0 where B won, 0.5 for a tie, None for none.
        clusters: The question of each pair.
        level: Coverage of the interval, 0 to 1.
        seed: Seed of the sign flips.
    """
    pairs = [_points(order) for order in orders]
    scored = [i for i, pair in enumerate(pairs) if pair]
    excluded = len(pairs) - len(scored)
    values = [sum(pairs[i]) / len(pairs[i]) for i in scored]
    if not values:
        return WinRate(value=None, n=0, reason="too_few", excluded=excluded)
    questions = None if clusters is None else [clusters[i] for i in scored]
    groups = resampling.cluster_rows(len(values), questions)
    data = np.array(values)
    means = np.array([data[rows].mean() for rows in groups])
    rate, se = float(means.mean()), resampling.cluster_se(means.tolist())
    both = [pairs[i] for i in scored if len(pairs[i]) > 1]
    spread = None if se is None else normal_quantile(level) * se
    return WinRate(
        value=rate,
        n=len(groups),
        low=None if spread is None else max(0.0, rate - spread),
        high=None if spread is None else min(1.0, rate + spread),
        method="mean of both orders, normal interval over questions",
        se=se,
        flips=sum(first != second for first, second in both) / len(both) if both else None,
        single=len(scored) - len(both),
        excluded=excluded,
        lowest=_over_questions(pairs, clusters, unjudged=0.0),
        highest=_over_questions(pairs, clusters, unjudged=1.0),
        p=sign_flip((means - 0.5).tolist(), seed=seed),
    )


def _over_questions(
    pairs: Sequence[Sequence[float]], clusters: Sequence[Hashable] | None, *, unjudged: float
) -> float:
    """Return the win rate if every pair that was scored in no order had these points."""
    values = np.array([sum(pair) / len(pair) if pair else unjudged for pair in pairs])
    return float(np.mean([values[rows].mean() for rows in resampling.cluster_rows(len(pairs), clusters)]))


def _points(order: str | Sequence[float | None]) -> list[float]:
    if len(order) != 2:  # noqa: PLR2004 - two orders
        raise ValueError(f"a pair has the results of two orders, for instance 'AB' or (1, 0); not {order!r}")
    results = [_POINTS.get(result) if isinstance(result, str) else result for result in order]
    for result, points in zip(order, results, strict=True):
        if (points is None and result not in (None, ".")) or (points is not None and not 0 <= points <= 1):
            raise ValueError(f"a result is A, B, T or '.', or a number from 0 to 1; not {result!r}")
    return [points for points in results if points is not None]


@dataclass(frozen=True, kw_only=True)
class LengthAdjusted(Figure):
    """How often the second system would win if both wrote answers of the same length.

    Args:
        raw: Its mean preference as it is.
        slope: beta, the weight of the length difference (in standard deviations, through tanh) on the log odds.
        intercept: theta, the log odds at equal length.
        sd: Standard deviation of the length differences, in characters.
        mean_lengths: Mean length of the answers of the first and of the second system.
    """

    raw: float | None = None
    slope: float | None = None
    intercept: float | None = None
    sd: float | None = None
    mean_lengths: tuple[float, float] | None = None


def length_adjusted(
    preferences: Sequence[float],
    lengths_1: Sequence[float],
    lengths_2: Sequence[float],
    *,
    difficulty: Sequence[float] | None = None,
    anchors: Sequence[tuple[float, float, float]] = (),
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 500,
    level: float = 0.95,
    seed: int = 0,
) -> LengthAdjusted:
    """Return the win rate of the second system, adjusted for the lengths of the answers.

    A fractional logistic regression of the preference on tanh of the standardised length difference (Dubois et
    al., "Length-Controlled AlpacaEval", arXiv 2404.04475): without difficulties the two-parameter form, whose
    value is the logistic of the intercept; with them the mean over items of the predictions at equal length.

    Args:
        preferences: Preference for the second system, 0 to 1, per item.
        lengths_1: Length of the first system's answer, in characters, per item.
        lengths_2: Length of the second's.
        difficulty: Known difficulty of each item (gamma), joined by item.
        anchors: Rows (x, gamma, preference) of deliberately gamed baselines, each of weight 0.1; they have no
            intercept, which is the quality of the second system.
        clusters: The question of each item.
        resamples: Resamples of the bootstrap over questions, which fits the model anew each time.
        level: Coverage of the interval, 0 to 1.
        seed: Seed of the resamples.

    Returns:
        The figure; without difficulties undefined as `no_overlap` unless at least 20 % of the items lie on each
        side of equal length, as it would be an extrapolation.
    """
    wins, first, second = (
        resampling.finite(values, name)
        for name, values in (("preferences", preferences), ("lengths", lengths_1), ("lengths", lengths_2))
    )
    if not len(wins) == len(first) == len(second):
        raise ValueError(f"give a preference and two lengths per item: {len(wins)}, {len(first)}, {len(second)}")
    gamma = None if difficulty is None else resampling.floats(difficulty)
    gaps = first - second
    n = len(wins)
    reason = _no_adjustment(gaps, extrapolates=gamma is None)
    raw = float(wins.mean()) if n else None
    if reason is not None:
        return LengthAdjusted(value=None, n=n, reason=reason, raw=raw)
    sd = float(gaps.std(ddof=1))
    x = np.tanh(gaps / sd)

    def adjusted(rows: resampling.Indices) -> float | None:
        weights = _fit(x[rows], None if gamma is None else gamma[rows], wins[rows], anchors)
        return None if weights is None else _at_equal_length(weights, None if gamma is None else gamma[rows])

    figure = resampling.bootstrap_rows(
        adjusted, resampling.cluster_rows(n, clusters), resamples=resamples, level=level, seed=seed
    )
    fitted = _fit(x, gamma, wins, anchors)
    if figure.value is None or fitted is None:
        return LengthAdjusted(value=None, n=n, reason="no_overlap" if gamma is None else "not_identified", raw=raw)
    return LengthAdjusted(
        value=figure.value,
        n=figure.n,
        low=figure.low,
        high=figure.high,
        method=f"length-adjusted logistic regression, {figure.method}",
        note=figure.note,
        raw=raw,
        slope=float(fitted[0]),
        intercept=float(fitted[-1]),
        sd=sd,
        mean_lengths=(float(first.mean()), float(second.mean())),
    )


_CONVERGED = 1e-12


def _no_adjustment(gaps: _Array, *, extrapolates: bool) -> Undefined | None:
    """Return why there is no adjustment; `extrapolates` says that only length tells the two systems apart."""
    if len(gaps) < 2:  # noqa: PLR2004 - one item has no spread
        return "too_few"
    if not gaps.std():
        return "zero_variance"
    return "no_overlap" if extrapolates and min((gaps > 0).mean(), (gaps < 0).mean()) < _LEAST_SHARE else None


def _fit(
    x: _Array, gamma: _Array | None, wins: _Array, anchors: Sequence[tuple[float, float, float]]
) -> _Array | None:
    """Return (beta, theta) or (beta, phi, theta) of highest likelihood by Newton's method; None if none is."""
    columns = [x, np.ones_like(x)] if gamma is None else [x, gamma, np.ones_like(x)]
    design, target, weight = np.column_stack(columns), wins, np.ones_like(x)
    if anchors:
        rows = resampling.floats(anchors)
        no_intercept = np.zeros(len(rows))  # it is the quality of the second system, and these are not its answers
        extra = [rows[:, 0], no_intercept] if gamma is None else [rows[:, 0], rows[:, 1], no_intercept]
        design = np.vstack([design, np.column_stack(extra)])
        target = np.concatenate([target, rows[:, 2]])
        weight = np.concatenate([weight, np.full(len(rows), _ANCHOR_WEIGHT)])
    beta = np.zeros(design.shape[1])
    for _ in range(100):
        means = 1 / (1 + np.exp(-np.clip(design @ beta, -500, 500)))
        curvature = design.T @ (design * (weight * means * (1 - means))[:, None])
        try:
            step = np.linalg.solve(curvature, design.T @ (weight * (target - means)))
        except np.linalg.LinAlgError:
            return None
        beta = beta + step
        if np.abs(step).max() < _CONVERGED * (1 + np.abs(beta).max()):
            return beta
    return None


def _at_equal_length(weights: _Array, gamma: _Array | None) -> float:
    odds = weights[-1] if gamma is None else weights[1] * gamma + weights[-1]
    return float(np.mean(1 / (1 + np.exp(-odds))))


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


Good = Sequence[bool | None]
"""Whether each answer is good; None where that is unknown."""


@dataclass(frozen=True, kw_only=True)
class ArmEffect:
    """What became of the first answers in one arm, and how its answers differ from those of the baseline.

    Args:
        own: What it mended and broke of the answers that all arms began with.
        beside: The same where the answers of the baseline stand in place of the first ones: how many of its bad
            ones are good here, and the reverse. Its p-value and its effect are adjusted by Holm's method for all
            arms that are compared. None for the baseline.
        p: The p-value of that comparison alone.
    """

    own: LoopBenefit
    beside: LoopBenefit | None = None
    p: float | None = None


def arm_effects(
    first: Good, arms: Mapping[str, Good], *, baseline: str, clusters: Sequence[Hashable] | None = None
) -> dict[str, ArmEffect]:
    """Return the effect of each arm, over the rows of which enough is known.

    Args:
        first: Of each row, whether the answer that all arms began with is good.
        arms: By arm, whether the answer it came to is good, row by row.
        baseline: The arm that the others are compared with.
        clusters: The question of each row, whose draws are no independent observations; None: each its own.

    Raises:
        ValueError: If there is no such baseline, or an arm has another number of rows.
    """
    if baseline not in arms:
        raise ValueError(f"the baseline {baseline!r} is none of the arms {', '.join(arms)}")
    beside = {name: _between(arms[baseline], good, clusters) for name, good in arms.items() if name != baseline}
    together = dict(zip(beside, judged_together(list(beside.values())), strict=True))
    return {
        name: ArmEffect(
            own=_between(first, good, clusters),
            beside=together.get(name),
            p=beside[name].p if name in beside else None,
        )
        for name, good in arms.items()
    }


def _between(before: Good, after: Good, clusters: Sequence[Hashable] | None) -> LoopBenefit:
    if len(before) != len(after):
        raise ValueError(f"an arm has {len(after)} rows, and another one {len(before)}; give one a row")
    known = [
        (a, b, row if clusters is None else clusters[row])
        for row, (a, b) in enumerate(zip(before, after, strict=True))
        if a is not None and b is not None
    ]
    return loop_benefit([a for a, _, _ in known], [b for _, b, _ in known], clusters=[key for _, _, key in known])
