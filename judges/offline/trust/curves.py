"""Attempt by attempt: when loops pass, what an attempt gains, and what keeping the best one is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from judges.offline.statistics import best_and_last, cluster_se, gains, pass_at_attempt, replay_run, wilson
from judges.offline.statistics.replay import AttemptPoint, curve_intervals
from judges.offline.trust.loops import LoopAttempt, LoopPolicy, RecordedLoop, best_of

_Z = NormalDist().inv_cdf(0.975)
_UNDER_PATIENCE = (
    "under this patience, a loop that it stopped never passes; the last column lets such a loop pass at its next "
    "attempt"
)


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One attempt of the pass-at-attempt curve.

    Args:
        attempt: Its number.
        at_risk: Loops that reached it and were judged there.
        passed: Those that passed there.
        cumulative: Probability of a pass by this attempt: 1 less the product of 1 - passed / at risk.
        low: Lower end of its 95 % interval.
        high: Upper end.
        method: How the interval was made.
        if_patience_passed: The same if every loop that patience stopped had passed at its next attempt; None where
            patience stopped none.
    """

    attempt: int
    at_risk: int
    passed: int
    cumulative: float
    low: float
    high: float
    method: str
    if_patience_passed: float | None = None


@dataclass(frozen=True, kw_only=True)
class AttemptGain:
    """How the rating changes after a refused attempt.

    Args:
        attempt: The refused attempt; the change is to the next one.
        n: Loops that have a rating of both.
        raw_change: Mean change, which is above 0 without any improvement: regression to the mean.
        regressions: Loops whose rating fell.
        gain: Mean change from an independent second judgement of the refused attempt; None without any.
        gain_low: Lower end of its 95 % interval.
        gain_high: Upper end.
        rejudged: Loops behind `gain`.
    """

    attempt: int
    n: int
    raw_change: float
    regressions: int
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    rejudged: int = 0


@dataclass(frozen=True, kw_only=True)
class BestVersusLast:
    """How the best attempt of a loop compares with its last one.

    Args:
        n: Loops with a rating.
        mean_difference: Mean of the best rating less the last.
        share: Share of the loops whose best rating is above the last.
        best_rating: Mean rating of the best attempts that were judged again, as it was: optimistic, being the
            highest of several.
        rejudged_rating: Their mean rating by the second judgement: the one to quote. None without any.
        rejudged: Loops behind it.
    """

    n: int
    mean_difference: float | None
    share: float | None
    best_rating: float | None = None
    rejudged_rating: float | None = None
    rejudged: int = 0


def curve(loops: Sequence[RecordedLoop], policy: LoopPolicy, *, seed: int) -> tuple[tuple[CurvePoint, ...], str]:
    """Return the pass-at-attempt curve under the policy in force, and how to read it."""
    waited = any(loop.stop_reason == "no_progress" for loop in loops)
    never = [_ratings(loop, policy, then=None) for loop in loops]
    upper = [_ratings(loop, policy, then=policy.success_rating) for loop in loops] if waited else []
    uppers = [point.cumulative for point in pass_at_attempt(upper, policy.success_rating)]
    points = pass_at_attempt(never, policy.success_rating)
    intervals = _intervals(points, never, policy.success_rating, [loop.question_id for loop in loops], seed)
    curve_points = [
        CurvePoint(
            attempt=point.attempt,
            at_risk=point.at_risk,
            passed=point.passed,
            cumulative=point.cumulative,
            low=low,
            high=high,
            method=method,
            if_patience_passed=uppers[min(point.attempt, len(uppers)) - 1] if uppers else None,
        )
        for point, (low, high, method) in zip(points, intervals, strict=True)
    ]
    return tuple(curve_points), _UNDER_PATIENCE if waited else ""


def _ratings(loop: RecordedLoop, policy: LoopPolicy, *, then: int | None) -> list[int | None]:
    """Return the ratings of a loop; one that patience stopped goes on with `then`, and without a pass."""
    ratings = [attempt.gate_rating for attempt in loop.judged]
    if loop.stop_reason == "no_progress":
        rest = policy.max_attempts - len(ratings)
        ratings += [then if place == 0 else None for place in range(rest)]
    return ratings


def _intervals(
    points: Sequence[AttemptPoint],
    runs: Sequence[Sequence[int | None]],
    threshold: int,
    questions: Sequence[str],
    seed: int,
) -> list[tuple[float, float, str]]:
    """Return the interval at each attempt: over questions where some were asked twice, or else Greenwood's."""
    judged = [(run, question) for run, question in zip(runs, questions, strict=True) if run]
    if len(set(questions)) == len(questions):
        return [_greenwood(point, len(judged)) for point in points]
    ends = [replay_run(run, threshold, len(run)) for run, _ in judged]
    intervals = curve_intervals(
        [end.attempts for end in ends],
        [end.end == "pass" for end in ends],
        clusters=[question for _, question in judged],
        seed=seed,
    )
    return [
        (low, high, f"bootstrap over questions, seed {seed}") if low < high else _greenwood(point, len(judged))
        for point, (low, high) in zip(points, intervals, strict=True)
    ]


def _greenwood(point: AttemptPoint, loops: int) -> tuple[float, float, str]:
    """Return Greenwood's interval; Wilson's at the first attempt, a plain share, and where it has no width."""
    if point.attempt > 1 and point.se:
        low, high = point.cumulative - _Z * point.se, point.cumulative + _Z * point.se
        return max(0.0, low), min(1.0, high), "Greenwood"
    n = loops if point.attempt == 1 or point.cumulative > 0 else point.at_risk
    return *wilson(point.cumulative * n, n), "Wilson"


def gains_of(loops: Sequence[RecordedLoop]) -> tuple[AttemptGain, ...]:
    """Return the change of the rating after each refused attempt; intervals by the standard error CR1."""
    runs = [_until_released(loop) for loop in loops]
    ratings = [[attempt.rating for attempt in run] for run in runs]
    rejudged = [[attempt.rejudged for attempt in run] for run in runs]
    points = []
    for point in gains(ratings, rejudged):
        place = point.attempt - 1
        changes, questions = [], []
        for loop, run in zip(loops, runs, strict=True):
            after = run[place + 1].rating if len(run) > place + 1 else None
            again = run[place].rejudged if len(run) > place + 1 and run[place].rating is not None else None
            if after is not None and again is not None:
                changes.append(float(after - again))
                questions.append(loop.question_id)
        se = cluster_se(changes, questions) if changes else None
        half = None if se is None else _Z * se
        points.append(
            AttemptGain(
                attempt=point.attempt,
                n=point.n,
                raw_change=point.mean,
                regressions=point.regressions,
                gain=point.unbiased,
                gain_low=None if half is None or point.unbiased is None else point.unbiased - half,
                gain_high=None if half is None or point.unbiased is None else point.unbiased + half,
                rejudged=point.rejudged,
            )
        )
    return tuple(points)


def best_versus_last(loops: Sequence[RecordedLoop]) -> BestVersusLast:
    """Return what keeping the best attempt in place of the last one is worth."""
    runs = [_until_released(loop) for loop in loops]
    difference, share = best_and_last([[attempt.rating for attempt in run] for run in runs])
    pairs = [
        (attempt.rating, attempt.rejudged_as_best)
        for loop in loops
        if (attempt := best_of(loop.attempts)) is not None
    ]
    again = [(first, second) for first, second in pairs if first is not None and second is not None]
    return BestVersusLast(
        n=difference.n,
        mean_difference=difference.value,
        share=share.value,
        best_rating=fmean(first for first, _ in again) if again else None,
        rejudged_rating=fmean(second for _, second in again) if again else None,
        rejudged=len(again),
    )


def _until_released(loop: RecordedLoop) -> list[LoopAttempt]:
    return [attempt for attempt in loop.attempts if not attempt.shadow]
