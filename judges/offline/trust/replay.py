"""`replay`: what recorded loops tell of attempts, and of policies that were not in force."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any, Literal

from judges.compose.panel import as_judge
from judges.errors import ConfigurationError, shortened
from judges.fingerprint import fingerprint
from judges.offline.run.evaluate import evaluate
from judges.offline.statistics import clopper_pearson, replay_run, replay_runs, wilson
from judges.offline.statistics.replay import End, Replay, ReplaySummary, curve_intervals
from judges.offline.trust.benefit_report import (
    AttemptGain,
    BenefitReport,
    BestVersusLast,
    CurvePoint,
    LabelledLoop,
    best_versus_last,
    curve,
    gains_of,
    good_by_people,
    report_benefit,
)
from judges.offline.trust.calibration import RATINGS, SCORES
from judges.offline.trust.loops import (
    LeftOut,
    LoopAttempt,
    LoopPolicy,
    LoopRows,
    Loops,
    RecordedLoop,
    is_score,
    named_threshold,
    read_loops,
)
from judges.offline.trust.rows import GOOD, RowSource, labels_for, naming_labels
from judges.sample import Sample

_ReplayStatus = Literal["exact", "bounds", "estimate"]
"""`exact`: every loop went far enough. `bounds`: some ended first. `estimate`: exploration says how they go on."""

_Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class ReplayedPolicy:
    """What one policy would have come to on the recorded loops.

    Args:
        success_rating: Lowest rating that passes, where no score decides.
        success_score: Lowest score that passes, in place of the rating; None where the rating decides.
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
    status: _ReplayStatus
    loops: int
    ends: Mapping[End, int]
    release_rate: _Interval
    release_interval: _Interval | None
    mean_attempts: _Interval
    mean_cost: float | None
    labelled: int = 0
    released_labelled: int = 0
    bad_rate: _Interval | None = None
    bad_interval: _Interval | None = None
    hajek: float | None = None
    horvitz_thompson: float | None = None
    effective: float | None = None
    success_score: float | None = None

    @property
    def acceptance(self) -> str:
        """What passes at least, as tables name it."""
        return named_threshold(self.success_rating if self.success_score is None else self.success_score)


def _candidates(
    policy: LoopPolicy,
    *,
    thresholds: Sequence[float] | None,
    max_attempts: Sequence[int] | None,
    patience: Sequence[int | None] | None,
) -> list[_Candidate]:
    """Return the policies to replay, the one in force first.

    Without a choice these are: every threshold, of ratings or of scores as in force, with the attempts in force;
    fewer and one more attempt, and every lower patience, with the threshold in force. With a choice, all that it
    combines.
    """
    recorded_policy = (policy.threshold, policy.max_attempts, policy.patience)
    grid = RATINGS if policy.success_score is None else SCORES
    if thresholds is None and max_attempts is None and patience is None:
        most = policy.max_attempts
        waits = range(1, min(most, policy.patience or most))
        others = [
            *((threshold, most, policy.patience) for threshold in grid),
            *((policy.threshold, count, policy.patience) for count in range(1, most + 2)),
            *((policy.threshold, most, wait) for wait in waits),
        ]
    else:
        others = [
            (threshold, count, wait)
            for threshold in thresholds or (policy.threshold,)
            for count in max_attempts or (policy.max_attempts,)
            for wait in patience or (policy.patience,)
        ]
    return list(dict.fromkeys([recorded_policy, *others]))


def _replay_policy(
    loops: Sequence[RecordedLoop],
    policy: LoopPolicy,
    candidate: _Candidate,
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
        success_rating=policy.success_rating if is_score(threshold) else int(threshold),
        success_score=threshold if is_score(threshold) else None,
        max_attempts=most,
        patience=patience,
        in_force=candidate == (policy.threshold, policy.max_attempts, policy.patience),
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


def _replayed(loop: RecordedLoop, candidate: _Candidate) -> Replay:
    threshold, most, patience = candidate
    ratings, scores = _marks_of(loop, threshold)
    return replay_run(ratings, threshold, most, patience, scores=scores)


def _marks_of(loop: RecordedLoop, threshold: float) -> tuple[Sequence[float | None], Sequence[float | None]]:
    """Return what a threshold is compared with, and the scores that patience compares."""
    return loop.compared(threshold), [attempt.score for attempt in loop.judged]


def _summary(loops: Sequence[RecordedLoop], candidate: _Candidate, *, bad: bool = False) -> ReplaySummary:
    marks = [_marks_of(loop, candidate[0]) for loop in loops]
    return replay_runs(
        [ratings for ratings, _ in marks],
        *candidate,
        scores=[scores for _, scores in marks],
        bad=[[attempt.bad for attempt in loop.judged] for loop in loops] if bad else None,
    )


def _labels(loop: RecordedLoop) -> int:
    return sum(attempt.bad is not None for attempt in loop.attempts)


def _explored(
    loops: Sequence[RecordedLoop], policy: LoopPolicy, candidate: _Candidate, least: float
) -> ReplaySummary | None:
    """Return the estimates by exploration, which goes on after a pass and after nothing else; None without any."""
    _, most, patience = candidate
    probabilities = {loop.continuation_probability for loop in loops}
    probability = probabilities.pop() if len(probabilities) == 1 else None
    is_shorter = policy.patience is None or (patience is not None and patience <= policy.patience)
    is_alike = type(candidate[0]) is type(policy.threshold)
    if probability is None or most > policy.max_attempts or not is_shorter or not is_alike:
        return None
    whole = [_marks_of(loop, policy.threshold) for loop in loops if not loop.crashed]
    return replay_runs(
        [ratings for ratings, _ in whole],
        *candidate,
        scores=[scores for _, scores in whole],
        recorded_threshold=policy.threshold,
        exploration=probability,
        least_effective=least,
    )


def _release_interval(loops: Sequence[RecordedLoop], results: Sequence[Replay], seed: int) -> _Interval | None:
    passes = [result.end == "pass" for result in results]
    questions = [loop.question_id for loop in loops]
    if len(set(questions)) == len(questions):
        return wilson(sum(passes), len(passes)) if passes else None
    ((low, high),) = curve_intervals([1] * len(passes), passes, clusters=questions, seed=seed)
    n = len(set(questions))
    return (low, high) if low < high else wilson(n * sum(passes) / len(passes), n)


def _bad_interval(rate: _Interval | None, released: int) -> _Interval | None:
    if rate is None or rate[0] != rate[1] or not released:
        return None
    return clopper_pearson(round(rate[0] * released), released)


def _mean_cost(loops: Sequence[RecordedLoop], results: Sequence[Replay]) -> float | None:
    costs = [
        attempt.cost
        for loop, result in zip(loops, results, strict=True)
        for attempt in loop.attempts[: result.attempts]
    ]
    recorded_costs = [cost for cost in costs if cost is not None]
    return math.fsum(recorded_costs) / len(loops) if loops and len(recorded_costs) == len(costs) else None


_Key = tuple[str, int]
_Candidate = tuple[float, int, int | None]
"""Threshold, attempts and patience of a policy."""


def _rejudged_loops(
    loops: Sequence[RecordedLoop], judge: object, *, fraction: float, seed: int, max_concurrency: int
) -> list[RecordedLoop]:
    """Return the loops with second ratings of some attempts, chosen without regard to how they were rated.

    For the gain these are refused attempts that another one followed; for the best attempt, best attempts of loops
    with several. Both are drawn for themselves: being the best says something about the next rating.

    Args:
        loops: The loops.
        judge: The judge: the one that recorded.
        fraction: Share of each kind that is judged again, above 0 and up to 1.
        seed: Seed of the choice, which is the same for the same attempts in every process.
        max_concurrency: Rows that are judged at once.

    Raises:
        ConfigurationError: If the fraction is out of range, the judge cannot be used, or no attempt has texts.
    """
    if not 0 < fraction <= 1:
        raise ConfigurationError(f"rejudge_fraction is above 0 and at most 1, not {shortened(fraction)}")
    for_gain = {
        (loop.id, attempt.number)
        for loop in loops
        for attempt in _followed(loop)
        if _is_drawn(loop.id, attempt.number, "gain", fraction, seed)
    }
    as_best = {
        (loop.id, best.number)
        for loop in loops
        if len(loop.attempts) > 1 and (best := loop.best) is not None
        if _is_drawn(loop.id, best.number, "best", fraction, seed)
    }
    ratings = _judged(_samples(loops, for_gain | as_best), judge, max_concurrency)
    return [_with_ratings(loop, ratings, for_gain, as_best) for loop in loops]


def _followed(loop: RecordedLoop) -> Iterable[LoopAttempt]:
    """Yield the refused attempts that another one followed, those of shadows excepted."""
    loop_attempts = [attempt for attempt in loop.attempts if not attempt.shadow]
    return (attempt for attempt in loop_attempts[:-1] if attempt.rating is not None)


def _is_drawn(loop: str, number: int, purpose: str, fraction: float, seed: int) -> bool:
    text = f"{seed} {purpose} {number} {loop}"
    draw = int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
    return draw < fraction * 2**64


def _samples(loops: Sequence[RecordedLoop], keys: set[_Key]) -> dict[_Key, Sample]:
    samples = {
        (loop.id, attempt.number): attempt.sample
        for loop in loops
        for attempt in loop.attempts
        if (loop.id, attempt.number) in keys and attempt.sample is not None
    }
    if keys and not samples:
        raise ConfigurationError(
            "the attempts were recorded without texts, so none can be judged again; record with texts=True, or in "
            "a file of JSON lines"
        )
    return samples


def _judged(samples: dict[_Key, Sample], judge: object, max_concurrency: int) -> dict[_Key, int]:
    bare = [sample.model_copy(update={"metadata": {}}) for sample in samples.values()]
    rows = evaluate(bare, as_judge(judge), max_concurrency=max_concurrency).rows
    ratings = (next(iter(row.verdicts.values())).rating for row in rows)
    return {key: rating for key, rating in zip(samples, ratings, strict=True) if rating is not None}


def _with_ratings(
    loop: RecordedLoop, ratings: dict[_Key, int], for_gain: set[_Key], as_best: set[_Key]
) -> RecordedLoop:
    def rated(attempt: LoopAttempt) -> LoopAttempt:
        key = loop.id, attempt.number
        rating = ratings.get(key)
        if rating is None:
            return attempt
        return replace(
            attempt,
            rejudged=rating if key in for_gain else attempt.rejudged,
            rejudged_as_best=rating if key in as_best else attempt.rejudged_as_best,
        )

    return replace(loop, attempts=tuple(map(rated, loop.attempts)))


_ASSUMPTION = (
    "Replay assumes that neither the generator nor its feedback sees the threshold: the attempts of a loop are a "
    "fixed sequence."
)
_RAW_GAIN = "looks better by the raw change; part of that is luck: --rejudge removes it"
_CLEAN_GAIN = "gain per attempt (the earlier attempt judged again, independently)"
_LEAST_EFFECTIVE = 20.0
_IN_PIECES = (
    "these loops were released in pieces, of which a refused one was judged alone: what they show says nothing of "
    "another policy, nor of whole answers"
)
_UNIDENTIFIED = (
    "the rows do not say {missing}, so that nothing below is identified; record loops with this version: "
    "SelfRefine(..., record='attempts.jsonl')"
)


@dataclass(frozen=True, kw_only=True)
class LoopReplay:
    """What recorded loops tell.

    Args:
        loops: Loops that everything below is over.
        questions: Different questions among them.
        attempts: Attempts of those loops.
        left_out: Rows and loops that are left out, by reason.
        policy: The policy in force; None where nothing is identified.
        other_policies: Loops that another policy or judge recorded, by the digest of the policy; left out too.
        benefit: Whether the loop helps, by people's labels, or that none say so; None where nothing is identified.
        curve: Probability of a pass by each attempt, under the policy in force.
        curve_note: How to read it.
        gain_title: What the changes of the rating are.
        gains: Change of the rating after each refused attempt.
        best: What keeping the best attempt in place of the last one is worth.
        policies: What other policies would have come to, the one in force first.
        assumption: What the table of policies rests on.
        notes: What a reader must know besides.
        reason: `"not_identified"` where the record does not say enough.
        detail: What is missing, and what to do.
    """

    loops: int
    questions: int
    attempts: int
    left_out: Mapping[LeftOut, int]
    policy: LoopPolicy | None
    other_policies: Mapping[str, int]
    benefit: BenefitReport | None = None
    curve: tuple[CurvePoint, ...] = ()
    curve_note: str = ""
    gain_title: str = _RAW_GAIN
    gains: tuple[AttemptGain, ...] = ()
    best: BestVersusLast | None = None
    policies: tuple[ReplayedPolicy, ...] = ()
    assumption: str = _ASSUMPTION
    notes: tuple[str, ...] = ()
    reason: Literal["not_identified"] | None = None
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return data

    def __str__(self) -> str:
        if self.reason is not None:
            return f"{self.reason}: {self.detail}"
        lines = [*([] if self.benefit is None else [str(self.benefit)]), f"{self.loops} loops under {self.policy}"]
        lines += [f"  passed by attempt {point.attempt}: {point.cumulative:.1%}" for point in self.curve]
        for policy in self.policies[1:]:
            low, high = policy.release_rate
            rate = f"{low:.1%}" if policy.status == "exact" else f"{low:.1%} to {high:.1%}"
            patience = "" if policy.patience is None else f", patience {policy.patience}"
            lines.append(f"  {policy.acceptance}, {policy.max_attempts} attempts{patience}: releases {rate}")
        return "\n".join([*lines, self.assumption])


def replay(
    rows: LoopRows,
    labels: RowSource | None = None,
    *,
    thresholds: Sequence[float] | None = None,
    max_attempts: Sequence[int] | None = None,
    patience: Sequence[int | None] | None = None,
    policy: str | None = None,
    slices: Sequence[str] = (),
    judge: object = None,
    rejudge_fraction: float = 0.2,
    least_effective: float = _LEAST_EFFECTIVE,
    max_concurrency: int = 8,
    seed: int = 0,
) -> LoopReplay:
    """Return what recorded loops tell: passes by attempt, gain per attempt, and what other policies would do.

    Args:
        rows: A file of attempts, the folder of a run over one, or rows, for instance `DatabaseRecord.attempts()`.
        labels: Labels that are not in the rows: a file that `refine label` wrote; by default that beside them.
        thresholds: Success ratings to replay, or scores, as floats from 0 to 1; by default 4, 3 and 2, or scores
            from 0.5 to 0.95 where the loops accepted by score.
        max_attempts: Numbers of attempts to replay; by default 1 to one more than was allowed.
        patience: Patiences to replay, None for no patience; by default those below the one in force.
        policy: Beginning of the digest of the policy whose loops are read; by default the one with the most loops.
        slices: Columns of the rows, by whose values the benefit is shown, too.
        judge: A judge that judges some refused attempts a second time, so that the gain per attempt is unbiased:
            the one that recorded. The rows must hold texts. None leaves the biased change, which says so.
        rejudge_fraction: Share of the refused attempts, and of the best attempts, that are judged again, 0 to 1.
        least_effective: Effective number of loops below which exploration gives bounds alone.
        max_concurrency: Rows that are judged at once.
        seed: Seed of the choice of those rows, and of resampling.

    Raises:
        ConfigurationError: If the rows cannot be read or hold no attempts, a setting is out of range, or the judge
            cannot be used; if another policy is asked for than that of loops which released pieces.
    """
    _check(thresholds, max_attempts, patience)
    labels, from_where = labels_for(rows, labels)
    with naming_labels(from_where):
        record = read_loops(rows, labels)
    left_out, loops = _identified(record)
    if not loops:
        return _not_identified(record, left_out)
    chosen, others = _of_one_policy(loops, policy)
    in_force = chosen[0].policy
    if in_force is None:  # pragma: no cover - only loops with a policy are identified
        raise AssertionError
    in_pieces = chosen[0].subject is not None and chosen[0].subject.policy.get("release") == "pieces"
    if in_pieces and (thresholds or max_attempts or patience or judge):
        raise ConfigurationError(f"{_IN_PIECES}: leave out thresholds, max_attempts, patience and the judge")
    if judge is not None:
        chosen = _rejudged_loops(
            chosen, judge, fraction=rejudge_fraction, seed=seed, max_concurrency=max_concurrency
        )
    points, note = curve(chosen, in_force, seed=seed)
    gains = () if in_pieces else gains_of(chosen)
    table = _candidates(in_force, thresholds=thresholds, max_attempts=max_attempts, patience=patience)
    return LoopReplay(
        loops=len(chosen),
        questions=len({loop.question_id for loop in chosen}),
        attempts=sum(len(loop.attempts) for loop in chosen),
        left_out=left_out,
        policy=in_force,
        other_policies=others,
        benefit=_benefit(chosen, loops, slices),
        curve=points,
        curve_note=note,
        gain_title=_CLEAN_GAIN if any(gain.gain is not None for gain in gains) else _RAW_GAIN,
        gains=gains,
        best=None if in_pieces else best_versus_last(chosen),
        policies=tuple(
            _replay_policy(chosen, in_force, candidate, least_effective=least_effective, seed=seed)
            for candidate in (table[:1] if in_pieces else table)
        ),
        notes=(*from_where, *([_IN_PIECES] if in_pieces else []), *_notes(chosen), *_other_judge(judge, in_force)),
    )


def benefit_of(rows: LoopRows, labels: RowSource | None = None) -> BenefitReport:
    """Return whether recorded loops of all policies together help, by people's labels.

    Args:
        rows: See `replay`.
        labels: Labels that are not in the rows.

    Raises:
        ConfigurationError: If the rows cannot be read.
    """
    loops = [loop for loop in read_loops(rows, labels).loops if loop.attempts]
    return report_benefit([_labelled_loop(loop, (), is_ambiguous=False) for loop in loops])


def _benefit(
    chosen: Sequence[RecordedLoop], loops: Sequence[RecordedLoop], slices: Sequence[str]
) -> BenefitReport:
    """Return whether the loops of the policy chosen help; those of other judges are in the table by judge.

    Raises:
        ConfigurationError: If no loop has a column.
    """
    for column in slices:
        if not any(column in loop.metadata for loop in chosen):
            raise ConfigurationError(f"no recorded loop has {column!r} in its metadata; name another column")
    digest = None if chosen[0].policy is None else chosen[0].policy.judge_digest
    others = [loop for loop in loops if loop.policy is not None and loop.policy.judge_digest != digest]
    names = {loop.policy.judge_digest: loop.judge for loop in loops if loop.policy is not None}
    is_ambiguous = len(set(names.values())) < len(names)
    return report_benefit(
        [_labelled_loop(loop, slices, is_ambiguous=is_ambiguous) for loop in chosen],
        [_labelled_loop(loop, (), is_ambiguous=is_ambiguous) for loop in others],
    )


def _labelled_loop(loop: RecordedLoop, slices: Sequence[str], *, is_ambiguous: bool) -> LabelledLoop:
    attempts = [attempt for attempt in loop.attempts if not attempt.shadow]
    released = loop.released
    threshold = GOOD if loop.policy is None else loop.policy.threshold
    digest = "" if loop.policy is None or not is_ambiguous else f" {loop.policy.judge_digest[:8]}"
    return LabelledLoop(
        question_id=loop.question_id,
        ratings=tuple(loop.compared(threshold, attempts)),
        good=tuple(good_by_people(attempt.opinions) for attempt in attempts),
        shown=None if released is None or released.shadow else released.number,
        success_rating=threshold,
        judge=f"{loop.judge}{digest}",
        slices={column: str(loop.metadata[column]) for column in slices if column in loop.metadata},
    )


def _check(
    thresholds: Sequence[float] | None, max_attempts: Sequence[int] | None, patience: Sequence[int | None] | None
) -> None:
    for threshold in thresholds or ():
        if not (0 <= threshold <= 1 if is_score(threshold) else threshold in (1, 2, 3, 4)):
            raise ConfigurationError(
                f"a threshold is a rating from 1 to 4, or a score from 0.0 to 1.0, not {shortened(threshold)}"
            )
    for name, values in (("max_attempts", max_attempts), ("patience", patience)):
        for value in values or ():
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigurationError(f"{name} to replay is 1 or more, not {shortened(value)}")


def _identified(record: Loops) -> tuple[Counter[LeftOut], list[RecordedLoop]]:
    """Return the loops of which policy and stop reason are known and that were judged at all."""
    left_out: Counter[LeftOut] = Counter(record.left_out)
    loops = []
    for loop in record.loops:
        reason = _reason_to_leave_out(loop)
        if reason is None:
            loops.append(loop)
        else:
            left_out[reason] += 1
    return left_out, loops


def _reason_to_leave_out(loop: RecordedLoop) -> LeftOut | None:
    if loop.policy is None:
        return "no policy"
    if loop.stop_reason is None:
        return "no stop reason"
    return "not judged" if loop.stop_reason == "skipped" else None


def _not_identified(record: Loops, left_out: Counter[LeftOut]) -> LoopReplay:
    names = {"no policy": "under which policy they were recorded", "no stop reason": "why the loops stopped"}
    missing = " or ".join(text for reason, text in names.items() if reason in left_out)
    detail = _UNIDENTIFIED.format(missing=missing) if missing else "no loop was judged"
    return LoopReplay(
        loops=0,
        questions=0,
        attempts=sum(len(loop.attempts) for loop in record.loops),
        left_out=left_out,
        policy=None,
        other_policies={},
        reason="not_identified",
        detail=detail,
    )


def _of_one_policy(loops: Sequence[RecordedLoop], digest: str | None) -> tuple[list[RecordedLoop], dict[str, int]]:
    """Return the loops of one policy and judge, and how many there are of every other policy."""
    groups: dict[object, list[RecordedLoop]] = {}
    for loop in loops:
        groups.setdefault(loop.policy, []).append(loop)
    matching = [group for group in groups.values() if digest is None or _digest(group[0]).startswith(digest)]
    if not matching:
        digests = ", ".join(sorted({_digest(group[0])[:8] for group in groups.values()}))
        raise ConfigurationError(f"no loop was recorded under a policy {shortened(digest)}; there are {digests}")
    chosen = max(matching, key=len)
    others: Counter[str] = Counter()
    for group in groups.values():
        if group is not chosen:
            others[_digest(group[0])] += len(group)
    return chosen, dict(others)


def _digest(loop: RecordedLoop) -> str:
    return loop.policy.policy_digest if loop.policy is not None else ""


def _notes(loops: Sequence[RecordedLoop]) -> tuple[str, ...]:
    notes = []
    crashed = sum(loop.crashed for loop in loops)
    if crashed:
        notes.append(
            f"{crashed} of the loops ended early, by an error, a budget or a deadline, and are open from there "
            f"on: fair if that did not depend on the ratings"
        )
    tuned = sum(attempt.tuned for loop in loops for attempt in loop.attempts)
    if tuned:
        notes.append(f"tuned_on: the labels of {tuned} attempts tuned the judge, and are not used")
    if len({loop.continuation_probability for loop in loops}) > 1:
        notes.append("the loops were recorded with several probabilities of exploration: bounds alone are shown")
    return tuple(notes)


def _other_judge(judge: object, policy: LoopPolicy) -> tuple[str, ...]:
    """Say where attempts were judged again by another judge than the one that recorded."""
    if judge is None or not policy.judge_digest:
        return ()
    try:
        same = fingerprint(as_judge(judge)) == policy.judge_digest
    except Exception:  # noqa: BLE001 - one of the user's that has no fingerprint is unknown
        same = False
    note = "the judge that judged again is not known to be the one that recorded: the gain is between two scales"
    return () if same else (note,)
