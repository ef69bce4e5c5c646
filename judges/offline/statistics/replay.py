"""What another threshold, number of attempts or patience would have done on recorded runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Literal

from judges.offline.statistics.intervals import Figure, LazyModule
from judges.offline.statistics.resampling import cluster_rows, listed, same_length, whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    _Counts = NDArray[np.float64]
else:
    np = LazyModule("numpy")

Ratings = Sequence[float | None]
End = Literal["pass", "exhausted", "patience", "censored"]

_LEAST_EFFECTIVE = 20
"""Least effective number of runs for a point estimate from exploration."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """How one recorded run would have ended.

    Args:
        end: `"pass"`; `"exhausted"`, all attempts used; `"patience"`, no gain for too long; or `"censored"`: the
            record ends before the policy would have.
        attempts: Attempts the policy would have made; of a censored run those that were recorded.
        released: The attempt whose answer passed, from 1; None if none did.
    """

    end: End
    attempts: int
    released: int | None = None


def replay_run(
    ratings: Ratings,
    threshold: float,
    max_attempts: int,
    patience: int | None = None,
    *,
    scores: Sequence[float | None] | None = None,
) -> Replay:
    """Replay one recorded run under another policy.

    It is assumed that neither the generator nor its feedback saw the threshold: the attempts of a run are a fixed
    sequence.

    Args:
        ratings: The rating of each recorded attempt in order; None is unscored, and counts as no gain.
        threshold: Lowest rating that passes.
        max_attempts: Most attempts.
        patience: Stop after this many attempts since the best rating last rose; None never does.
        scores: What patience compares in place of the ratings, as the loop does where a judge gives scores.

    Raises:
        ValueError: If an argument is out of range or no number, or there is not a score for each rating.
    """
    return replay_each([ratings], threshold, max_attempts, patience, scores=[scores])[0]


def replay_each(
    runs: Sequence[Ratings],
    threshold: float,
    max_attempts: int,
    patience: int | None = None,
    *,
    scores: Sequence[Sequence[float | None] | None] | None = None,
) -> list[Replay]:
    """Replay recorded runs under another policy, each as `replay_run` does.

    Raises:
        ValueError: If an argument is out of range or no number, or there is not a score for each rating.
    """
    _check_policy(threshold, max_attempts, patience)
    marks = [None] * len(runs) if scores is None else scores
    return [
        _replay(run, threshold, max_attempts, patience, scores=mark) for run, mark in zip(runs, marks, strict=True)
    ]


def _replay(
    ratings: Ratings,
    threshold: float,
    max_attempts: int,
    patience: int | None,
    *,
    scores: Sequence[float | None] | None,
) -> Replay:
    if scores is not None and len(scores) != len(ratings):
        same_length("scores has a score or None for each rating", ratings, scores)
    best, since = -1.0, 0
    marks = _numbers(ratings if scores is None else scores)
    for number, (rating, mark) in enumerate(zip(_numbers(ratings), marks, strict=True), 1):
        if rating is not None and rating >= threshold:
            return Replay(end="pass", attempts=number, released=number)
        rose = mark is not None and mark > best
        best, since = (mark if mark is not None and rose else best), 0 if rose else since + 1
        if number == max_attempts:
            return Replay(end="exhausted", attempts=number)
        if patience is not None and since >= patience:
            return Replay(end="patience", attempts=number)
    return Replay(end="censored", attempts=len(ratings))


def _check_policy(threshold: object, max_attempts: object, patience: object) -> None:
    if not _is_number(threshold):
        raise ValueError(f"threshold is a rating, for instance 3; not {threshold!r}")
    for name, value in (("max_attempts", max_attempts), ("patience", 1 if patience is None else patience)):
        if whole(value, name) < 1:
            raise ValueError(f"{name} is at least 1, not {value!r}")


def _numbers(ratings: Sequence[float | None]) -> Sequence[float | None]:
    """Return ratings or scores as they are, once each is a number, or None for an unscored attempt."""
    for rating in ratings if isinstance(ratings, list | tuple) else listed(ratings, "ratings"):
        if rating is not None and not _is_number(rating):
            raise ValueError(f"a rating is a number, or None where it is unscored; not {rating!r}")
    return ratings


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and value == value  # noqa: PLR0124 - NaN alone differs from itself


def breaks_of(bad: Sequence[bool | None], released: int | None) -> tuple[int, int]:
    """Return whether a run's first answer was good, and whether the run made it come out bad, each 0 or 1.

    A later answer without a label counts as bad. Where the first has none, a run that releases a bad later answer
    counts as one that broke a good one, and any other is left out, which errs on the safe side.

    Args:
        bad: Whether people call the answer of each attempt bad; None without a label.
        released: Number of the attempt that is released, from 1; None for none.
    """
    if not bad:
        return 0, 0
    is_late = released is not None and released > 1
    is_bad = is_late and (released > len(bad) or bad[released - 1] is not False)  # type: ignore[operator]
    if bad[0] is None:
        return int(is_bad), int(is_bad)
    return (0, 0) if bad[0] else (1, int(is_bad))


@dataclass(frozen=True, kw_only=True)
class ReplaySummary:
    """What a policy would have done over all runs.

    Args:
        runs: Number of runs.
        ends: How many ended how.
        attempts: Attempts in total; of censored runs those recorded.
        release_rate: Lower and upper bound of the share of runs that release an answer, equal where no run is
            censored.
        bad_rate: Lower and upper bound of the share of bad answers among those released, where labels are there.
        mean_attempts: Lower and upper bound of the mean number of attempts.
        exact: Whether no run is censored.
        horvitz_thompson: Unbiased estimate of the release rate from runs with exploration; may exceed 1.
        hajek: The same, divided by the sum of the weights; None where the effective number of runs is below 20.
        effective: Effective number of runs behind the estimates.
    """

    runs: int
    ends: Mapping[End, int]
    attempts: int
    release_rate: tuple[float, float] | None
    mean_attempts: tuple[float, float] | None
    exact: bool
    bad_rate: tuple[float, float] | None = None
    horvitz_thompson: float | None = None
    hajek: float | None = None
    effective: float | None = None


def replay_runs(
    runs: Sequence[Ratings],
    threshold: float,
    max_attempts: int,
    patience: int | None = None,
    *,
    bad: Sequence[Sequence[bool | None]] | None = None,
    recorded_threshold: float | None = None,
    exploration: float | None = None,
    least_effective: float = _LEAST_EFFECTIVE,
    scores: Sequence[Sequence[float | None]] | None = None,
) -> ReplaySummary:
    """Replay recorded runs under another policy.

    Args:
        runs: The ratings of each run.
        threshold: Lowest rating that passes.
        max_attempts: Most attempts.
        patience: Attempts without a gain after which to stop; None never does.
        bad: Whether each attempt's answer is bad, by a human; a released answer without a label counts as bad.
        recorded_threshold: The success rating under which the runs were recorded; needed with `exploration`.
        exploration: Probability with which a run went on after a pass, as a shadow; gives point estimates.
        least_effective: Effective number of runs below which the ratio estimate is left out.
        scores: The scores of each run, see `replay_run`.
    """
    results = replay_each(runs, threshold, max_attempts, patience, scores=scores)
    ends = Counter(result.end for result in results)
    n, passed, censored = len(runs), ends["pass"], ends["censored"]
    if not n:
        return ReplaySummary(runs=0, ends=ends, attempts=0, release_rate=None, mean_attempts=None, exact=True)
    least = sum(result.attempts + (result.end == "censored") for result in results)
    most = sum(max_attempts if result.end == "censored" else result.attempts for result in results)
    weighted = {}
    if exploration is not None and recorded_threshold is not None:
        weighted = _explored(runs, results, recorded_threshold, exploration, least_effective)
    return ReplaySummary(
        runs=n,
        ends=dict(ends),
        attempts=sum(result.attempts for result in results),
        release_rate=(passed / n, (passed + censored) / n),
        mean_attempts=(least / n, max(least, most) / n),
        exact=not censored,
        bad_rate=None if bad is None else _bad_rate(results, bad, censored),
        **weighted,
    )


def _bad_rate(
    results: Sequence[Replay], bad: Sequence[Sequence[bool | None]], censored: int
) -> tuple[float, float] | None:
    released = [(labels, result.released) for labels, result in zip(bad, results, strict=True) if result.released]
    count = sum(number > len(labels) or labels[number - 1] is not False for labels, number in released)
    total = len(released) + censored
    return (count / total, (count + censored) / total) if total else None


def _explored(
    runs: Sequence[Ratings], results: Sequence[Replay], recorded: float, exploration: float, least: float
) -> dict[str, float | None]:
    """Return the estimates that weigh each run by how rarely it was let go on as far as the policy needs."""
    if not 0 < exploration <= 1:
        raise ValueError(f"exploration is a probability above 0, not {exploration!r}")
    weights, wins = [], []
    for ratings, result in zip(runs, results, strict=True):
        if result.end == "censored":
            continue
        stops = sum(rating is not None and rating >= recorded for rating in ratings[: result.attempts - 1])
        weights.append(exploration**-stops)
        wins.append(result.end == "pass")
    total, squares = sum(weights), sum(weight**2 for weight in weights)
    effective = total**2 / squares if squares else 0.0
    passed = sum(weight for weight, win in zip(weights, wins, strict=True) if win)
    hajek = passed / total if total and effective >= least else None
    return {"horvitz_thompson": passed / len(runs), "hajek": hajek, "effective": effective}


@dataclass(frozen=True, kw_only=True)
class AttemptPoint:
    """One attempt of the pass-at-attempt curve.

    Args:
        attempt: Its number, from 1.
        at_risk: Runs that reached it and were judged there.
        passed: Runs that passed there.
        cumulative: Probability of a pass by this attempt.
        se: Greenwood's standard error of `cumulative`; None where it is undefined.
    """

    attempt: int
    at_risk: int
    passed: int
    cumulative: float
    se: float | None


def pass_at_attempt(runs: Sequence[Ratings], threshold: float) -> list[AttemptPoint]:
    """Return the probability of a pass by each attempt: 1 less the product of 1 - passes / runs at risk.

    Runs whose record ends without a pass leave the risk set after their last attempt, which is unbiased if their
    ending ignores the ratings. Runs that patience stopped do not: their curve is one "under this patience".

    Args:
        runs: The ratings of each run; None is unscored, no pass.
        threshold: Lowest rating that passes.
    """
    firsts = [replay_run(run, threshold, max(1, len(run))) for run in runs if run]
    points: list[AttemptPoint] = []
    survival, variance = 1.0, 0.0
    for attempt in range(1, max((result.attempts for result in firsts), default=0) + 1):
        at_risk = sum(result.attempts >= attempt for result in firsts)
        passed = sum(result.released == attempt for result in firsts)
        survival *= 1 - passed / at_risk
        variance += passed / (at_risk * (at_risk - passed)) if passed < at_risk else float("inf")
        se = survival * variance**0.5 if variance != float("inf") else None
        points.append(
            AttemptPoint(attempt=attempt, at_risk=at_risk, passed=passed, cumulative=1 - survival, se=se)
        )
    return points


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How the rating changes from an attempt to the next.

    Args:
        attempt: The earlier attempt, from 1.
        n: Runs that have a rating of both.
        mean: Mean change.
        regressions: Runs whose rating fell.
        unbiased: Mean change from an independent second judgement of the earlier attempt; None without any. `mean`
            alone includes regression to the mean: without any improvement it is above 0.
        rejudged: Runs behind `unbiased`.
    """

    attempt: int
    n: int
    mean: float
    regressions: int
    unbiased: float | None = None
    rejudged: int = field(default=0)


def gains(runs: Sequence[Ratings], rejudged: Sequence[Ratings] | None = None) -> list[Gain]:
    """Return the change of the rating after each attempt.

    Args:
        runs: The ratings of each run.
        rejudged: A second, independent rating of each attempt where there is one, in the same shape; None
            elsewhere.
    """
    points = []
    for place in range(max(map(len, runs), default=0) - 1):
        changes, clean = [], []
        for number, run in enumerate(runs):
            before, after = (run[i] if i < len(run) else None for i in (place, place + 1))
            if before is None or after is None:
                continue
            changes.append(after - before)
            again = rejudged[number][place] if rejudged is not None and place < len(rejudged[number]) else None
            if again is not None:
                clean.append(after - again)
        if changes:
            unbiased = float(np.mean(clean)) if clean else None
            fell = sum(change < 0 for change in changes)
            mean = float(np.mean(changes))
            points.append(
                Gain(
                    attempt=place + 1,
                    n=len(changes),
                    mean=mean,
                    regressions=fell,
                    unbiased=unbiased,
                    rejudged=len(clean),
                )
            )
    return points


def best_and_last(runs: Sequence[Ratings]) -> tuple[Figure, Figure]:
    """Return how much the best attempt of a run beats its last one: the mean difference, and the share of runs.

    The best rating of several is optimistic: quote the rating of a second judgement of that answer.
    """
    rated = [[rating for rating in run if rating is not None] for run in runs]
    differences = [max(ratings) - ratings[-1] for ratings in rated if ratings]
    n = len(differences)
    if not n:
        return Figure.undefined("too_few", 0), Figure.undefined("too_few", 0)
    share = sum(difference > 0 for difference in differences) / n
    return Figure(value=float(np.mean(differences)), n=n), Figure(value=share, n=n)


def curve_intervals(
    ended_at: Sequence[int],
    passed: Sequence[bool],
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> list[tuple[float, float]]:
    """Return the interval of the probability of a pass by each attempt, resampling whole clusters (percentiles).

    Args:
        ended_at: The last attempt of each run, from 1.
        passed: Whether it passed there.
        clusters: The question of each run; None: each its own.
        resamples: How many resamples are drawn.
        level: Coverage, 0 to 1.
        seed: Seed of the draws.
    """
    last = max(ended_at, default=0)
    groups = cluster_rows(len(ended_at), clusters)
    at_risk, passes = np.zeros((len(groups), last)), np.zeros((len(groups), last))
    for place, group in enumerate(groups):
        for row in group:
            at_risk[place, : ended_at[row]] += 1
            passes[place, ended_at[row] - 1] += passed[row]
    random = np.random.default_rng(seed)
    curves = [
        _curve(random.multinomial(len(groups), [1 / len(groups)] * len(groups)), at_risk, passes)
        for _ in range(resamples if groups else 0)
    ]
    if not curves:
        return []
    low, high = np.quantile(np.array(curves), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def _curve(times: NDArray[np.int64], at_risk: _Counts, passes: _Counts) -> _Counts:
    risk = times @ at_risk
    hazard = np.divide(times @ passes, risk, out=np.zeros_like(risk), where=risk > 0)
    return np.asarray(1 - np.cumprod(1 - hazard))
