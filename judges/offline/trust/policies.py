"""What another policy would have done on recorded loops: exact, in bounds, or estimated from exploration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judges.offline.statistics import clopper_pearson, replay_run, replay_runs, wilson
from judges.offline.statistics.curves import curve_intervals
from judges.offline.statistics.replay import End, Replay, ReplaySummary
from judges.offline.trust.loops import LoopPolicy, RecordedLoop

ReplayStatus = Literal["exact", "bounds", "estimate"]
"""`exact`: every loop went far enough. `bounds`: some ended first. `estimate`: exploration says how they go on."""

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class ReplayedPolicy:
    """What one policy would have come to on the recorded loops.

    Args:
        success_rating: Lowest rating that passes.
        max_attempts: Most attempts.
        patience: Attempts without a gain after which it stops; None never does.
        in_force: Whether it is the policy under which the loops were recorded.
        status: How much the record says about it.
        loops: Number of loops.
        ends: How many loops end how: `pass`, `exhausted`, `patience`, or `censored`, the record ends first.
        release_rate: Lower and upper bound of the share of loops that release an answer; equal where exact.
        release_interval: 95 % interval of that share, where exact.
        mean_attempts: Lower and upper bound of the mean number of attempts.
        mean_cost: Mean US dollars a loop, where exact and all costs are known.
        labelled: Loops with a label, over which `bad_rate` is.
        released_labelled: Answers released among those.
        bad_rate: Lower and upper bound of the share of bad answers among those released; None without labels.
        bad_interval: Its 95 % interval, where exact.
        hajek: Release rate estimated from exploration, as a ratio; where the effective number of loops suffices.
        horvitz_thompson: The unbiased estimate beside it, which may exceed 1.
        effective: Effective number of loops behind both; None without exploration.
    """

    success_rating: int
    max_attempts: int
    patience: int | None
    in_force: bool
    status: ReplayStatus
    loops: int
    ends: Mapping[End, int]
    release_rate: Interval
    release_interval: Interval | None
    mean_attempts: Interval
    mean_cost: float | None
    labelled: int = 0
    released_labelled: int = 0
    bad_rate: Interval | None = None
    bad_interval: Interval | None = None
    hajek: float | None = None
    horvitz_thompson: float | None = None
    effective: float | None = None


def candidates(
    policy: LoopPolicy,
    *,
    thresholds: Sequence[int] | None,
    max_attempts: Sequence[int] | None,
    patience: Sequence[int | None] | None,
) -> list[tuple[int, int, int | None]]:
    """Return the policies to replay, the one in force first.

    Without a choice these are: every threshold with the attempts in force; fewer and one more attempt, and every
    lower patience, with the threshold in force. With a choice, all that it combines.
    """
    own = (policy.success_rating, policy.max_attempts, policy.patience)
    if thresholds is None and max_attempts is None and patience is None:
        most = policy.max_attempts
        waits = range(1, min(most, policy.patience or most))
        others = [
            *((threshold, most, policy.patience) for threshold in (4, 3, 2)),
            *((policy.success_rating, count, policy.patience) for count in range(1, most + 2)),
            *((policy.success_rating, most, wait) for wait in waits),
        ]
    else:
        others = [
            (threshold, count, wait)
            for threshold in thresholds or (policy.success_rating,)
            for count in max_attempts or (policy.max_attempts,)
            for wait in patience or (policy.patience,)
        ]
    return list(dict.fromkeys([own, *others]))


def replay_policy(
    loops: Sequence[RecordedLoop],
    policy: LoopPolicy,
    candidate: tuple[int, int, int | None],
    *,
    least_effective: float,
    seed: int,
) -> ReplayedPolicy:
    """Replay the loops, all recorded under `policy`, under another one."""
    threshold, most, patience = candidate
    results = [_replayed(loop, candidate) for loop in loops]
    summary = _summary(loops, candidate)
    release_rate, mean_attempts = summary.release_rate or (0.0, 1.0), summary.mean_attempts or (0.0, 0.0)
    explored = _explored(loops, policy, candidate, least_effective)
    labelled = [loop for loop in loops if _labels(loop)]
    released = sum(
        result.end == "pass" and bool(_labels(loop)) for loop, result in zip(loops, results, strict=True)
    )
    bad_rate = _summary(labelled, candidate, bad=True).bad_rate if labelled else None
    is_estimate = not summary.exact and explored is not None and explored.hajek is not None
    return ReplayedPolicy(
        success_rating=threshold,
        max_attempts=most,
        patience=patience,
        in_force=candidate == (policy.success_rating, policy.max_attempts, policy.patience),
        status="exact" if summary.exact else "estimate" if is_estimate else "bounds",
        loops=len(loops),
        ends=summary.ends,
        release_rate=release_rate,
        release_interval=_release_interval(loops, results, seed) if summary.exact else None,
        mean_attempts=mean_attempts,
        mean_cost=_mean_cost(loops, results) if summary.exact else None,
        labelled=len(labelled),
        released_labelled=released,
        bad_rate=bad_rate,
        bad_interval=_bad_interval(bad_rate, released),
        hajek=explored.hajek if explored is not None and is_estimate else None,
        horvitz_thompson=explored.horvitz_thompson if explored is not None and is_estimate else None,
        effective=None if explored is None else explored.effective,
    )


def _replayed(loop: RecordedLoop, candidate: tuple[int, int, int | None]) -> Replay:
    threshold, most, patience = candidate
    ratings, scores = marks_of(loop)
    return replay_run(ratings, threshold, most, patience, scores=scores)


def marks_of(loop: RecordedLoop) -> tuple[list[int | None], list[float | None]]:
    """Return the ratings of a loop as a gate counts them, and the scores that patience compares."""
    judged = loop.judged
    return [attempt.gate_rating for attempt in judged], [attempt.score for attempt in judged]


def _summary(
    loops: Sequence[RecordedLoop], candidate: tuple[int, int, int | None], *, bad: bool = False
) -> ReplaySummary:
    marks = [marks_of(loop) for loop in loops]
    return replay_runs(
        [ratings for ratings, _ in marks],
        *candidate,
        scores=[scores for _, scores in marks],
        bad=[[attempt.bad for attempt in loop.judged] for loop in loops] if bad else None,
    )


def _labels(loop: RecordedLoop) -> int:
    return sum(attempt.bad is not None for attempt in loop.attempts)


def _explored(
    loops: Sequence[RecordedLoop], policy: LoopPolicy, candidate: tuple[int, int, int | None], least: float
) -> ReplaySummary | None:
    """Return the estimates by exploration, which goes on after a pass and after nothing else; None without any."""
    _, most, patience = candidate
    probabilities = {loop.continuation_probability for loop in loops}
    probability = probabilities.pop() if len(probabilities) == 1 else None
    is_shorter = policy.patience is None or (patience is not None and patience <= policy.patience)
    if probability is None or most > policy.max_attempts or not is_shorter:
        return None
    whole = [marks_of(loop) for loop in loops if not loop.crashed]
    return replay_runs(
        [ratings for ratings, _ in whole],
        *candidate,
        scores=[scores for _, scores in whole],
        recorded_threshold=policy.success_rating,
        exploration=probability,
        least_effective=least,
    )


def _release_interval(loops: Sequence[RecordedLoop], results: Sequence[Replay], seed: int) -> Interval | None:
    passes = [result.end == "pass" for result in results]
    questions = [loop.question_id for loop in loops]
    if len(set(questions)) == len(questions):
        return wilson(sum(passes), len(passes)) if passes else None
    ((low, high),) = curve_intervals([1] * len(passes), passes, clusters=questions, seed=seed)
    n = len(set(questions))
    return (low, high) if low < high else wilson(n * sum(passes) / len(passes), n)


def _bad_interval(rate: Interval | None, released: int) -> Interval | None:
    if rate is None or rate[0] != rate[1] or not released:
        return None
    return clopper_pearson(round(rate[0] * released), released)


def _mean_cost(loops: Sequence[RecordedLoop], results: Sequence[Replay]) -> float | None:
    costs = [
        attempt.cost
        for loop, result in zip(loops, results, strict=True)
        for attempt in loop.attempts[: result.attempts]
    ]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) / len(loops) if loops and len(known) == len(costs) else None
