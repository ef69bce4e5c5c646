"""`replay`: what recorded loops tell of attempts, and of policies that were not in force."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from judges.compose.panel import as_judge
from judges.errors import ConfigurationError, shortened
from judges.fingerprint import fingerprint
from judges.offline.trust.beside import labels_for, naming
from judges.offline.trust.curves import AttemptGain, BestVersusLast, CurvePoint, best_versus_last, curve, gains_of
from judges.offline.trust.loop_reading import LoopRows, read_loops
from judges.offline.trust.loops import LeftOut, LoopPolicy, Loops, RecordedLoop
from judges.offline.trust.policies import ReplayedPolicy, candidates, replay_policy
from judges.offline.trust.rejudging import rejudged_loops
from judges.offline.trust.rows import Source

ASSUMPTION = (
    "Replay assumes that neither the generator nor its feedback sees the threshold: the attempts of a loop are a "
    "fixed sequence."
)
RAW_GAIN = "raw change (includes regression to the mean)"
CLEAN_GAIN = "gain per attempt (the earlier attempt judged again, independently)"
_LEAST_EFFECTIVE = 20.0
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
    curve: tuple[CurvePoint, ...] = ()
    curve_note: str = ""
    gain_title: str = RAW_GAIN
    gains: tuple[AttemptGain, ...] = ()
    best: BestVersusLast | None = None
    policies: tuple[ReplayedPolicy, ...] = ()
    assumption: str = ASSUMPTION
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
        lines = [f"{self.loops} loops under {self.policy}"]
        lines += [f"  passed by attempt {point.attempt}: {point.cumulative:.1%}" for point in self.curve]
        for policy in self.policies[1:]:
            low, high = policy.release_rate
            rate = f"{low:.1%}" if policy.status == "exact" else f"{low:.1%} to {high:.1%}"
            patience = "" if policy.patience is None else f", patience {policy.patience}"
            lines.append(
                f"  rating {policy.success_rating}, {policy.max_attempts} attempts{patience}: releases {rate}"
            )
        return "\n".join([*lines, self.assumption])


def replay(
    rows: LoopRows,
    labels: Source | None = None,
    *,
    thresholds: Sequence[int] | None = None,
    max_attempts: Sequence[int] | None = None,
    patience: Sequence[int | None] | None = None,
    policy: str | None = None,
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
        thresholds: Success ratings to replay; by default 4, 3 and 2.
        max_attempts: Numbers of attempts to replay; by default 1 to one more than was allowed.
        patience: Patiences to replay, None for no patience; by default those below the one in force.
        policy: Beginning of the digest of the policy whose loops are read; by default the one with the most loops.
        judge: A judge that judges some refused attempts a second time, so that the gain per attempt is unbiased:
            the one that recorded. The rows must hold texts. None leaves the biased change, which says so.
        rejudge_fraction: Share of the refused attempts, and of the best attempts, that are judged again, 0 to 1.
        least_effective: Effective number of loops below which exploration gives bounds alone.
        max_concurrency: Rows that are judged at once.
        seed: Seed of the choice of those rows, and of resampling.

    Raises:
        ConfigurationError: If the rows cannot be read or hold no attempts, a setting is out of range, or the judge
            cannot be used.
    """
    _check(thresholds, max_attempts, patience)
    labels, from_where = labels_for(rows, labels)
    with naming(from_where):
        record = read_loops(rows, labels)
    left_out, loops = _identified(record)
    if not loops:
        return _not_identified(record, left_out)
    chosen, others = _of_one_policy(loops, policy)
    in_force = chosen[0].policy
    if in_force is None:  # pragma: no cover - only loops with a policy are identified
        raise AssertionError
    if judge is not None:
        chosen = rejudged_loops(
            chosen, judge, fraction=rejudge_fraction, seed=seed, max_concurrency=max_concurrency
        )
    points, note = curve(chosen, in_force, seed=seed)
    gains = gains_of(chosen)
    table = candidates(in_force, thresholds=thresholds, max_attempts=max_attempts, patience=patience)
    return LoopReplay(
        loops=len(chosen),
        questions=len({loop.question_id for loop in chosen}),
        attempts=sum(len(loop.attempts) for loop in chosen),
        left_out=left_out,
        policy=in_force,
        other_policies=others,
        curve=points,
        curve_note=note,
        gain_title=CLEAN_GAIN if any(gain.gain is not None for gain in gains) else RAW_GAIN,
        gains=gains,
        best=best_versus_last(chosen),
        policies=tuple(
            replay_policy(chosen, in_force, candidate, least_effective=least_effective, seed=seed)
            for candidate in table
        ),
        notes=(*from_where, *_notes(chosen), *_other_judge(judge, in_force)),
    )


def _check(
    thresholds: Sequence[int] | None, max_attempts: Sequence[int] | None, patience: Sequence[int | None] | None
) -> None:
    for threshold in thresholds or ():
        if threshold not in (1, 2, 3, 4):
            raise ConfigurationError(f"a threshold is a rating from 1 to 4, not {shortened(threshold)}")
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
        known = ", ".join(sorted({_digest(group[0])[:8] for group in groups.values()}))
        raise ConfigurationError(f"no loop was recorded under a policy {shortened(digest)}; there are {known}")
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
    tuned = sum(
        any(one.split == "tune" for one in attempt.opinions) for loop in loops for attempt in loop.attempts
    )
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
