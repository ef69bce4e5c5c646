"""`monitor`: whether a loop still does what it was certified to do."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from judges.certificate import IssuedCertificate
from judges.compose.panel import as_judge
from judges.errors import ConfigurationError, plural, shortened
from judges.offline.run.evaluate import evaluate
from judges.offline.statistics import clopper_pearson, confidence_sequence, e_cusum, mcnemar
from judges.offline.trust.loops import (
    LoopAttempt,
    LoopRows,
    RecordedLoop,
    is_score,
    read_labelled,
    read_loops,
    seconds_of,
)
from judges.offline.trust.rows import (
    GOOD,
    JudgedAnswer,
    RowSource,
    is_bad,
    is_tuned,
    labels_for,
    naming_labels,
)
from judges.promise import Audit, Standing, follow
from judges.sample import Sample
from judges.verdict import Verdict

_ALARM_AT = 100.0
"""Value of the alarm statistic from which on it is an alarm: without a change, one in 100 audits or more."""
_LEAST_ROWS = 50
_LEVEL = 0.01
_MOST_UNSCORED = 0.1


@dataclass(frozen=True, kw_only=True)
class CanaryResult:
    """How a judge does on rows whose right verdict is known, now and then.

    Args:
        rows: Rows with labels and an earlier verdict.
        left_out: Rows without one of these.
        scored: Rows with a verdict now.
        right_before: Verdicts that agreed with people then, of those.
        right_now: Verdicts that agree now.
        only_before: Rows judged rightly then, and wrongly now.
        only_now: Rows judged rightly now, and wrongly then.
        p: Exact p-value of McNemar's test of "nothing changed".
        statistic: Highest value of the alarm statistic over the errors now, in an order drawn once; an alarm from
            100 on.
        p0: Share of errors that counts as no change: the 95 % upper bound of that then.
        alarm: Whether the judge got worse.
        reason: Why nothing can be said.
        detail: What is missing.
    """

    rows: int
    left_out: int
    scored: int = 0
    right_before: int = 0
    right_now: int = 0
    only_before: int = 0
    only_now: int = 0
    p: float | None = None
    statistic: float | None = None
    p0: float | None = None
    alarm: bool = False
    reason: Literal["too_few", "not_identified"] | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class _CanaryRow:
    sample: Sample
    good: bool
    passed: bool


def _judge_canary(
    rows: RowSource,
    judge: object,
    labels: RowSource | None = None,
    *,
    threshold: float = GOOD,
    max_concurrency: int = 8,
) -> CanaryResult:
    """Judge a canary set again, and compare with its labels and with the verdicts it holds.

    Args:
        rows: A file of rows, or rows, with the earlier `rating`, or `score`, in the metadata, as `refine export`
            writes them.
        judge: The judge.
        labels: Labels that are not in the rows: a file that `refine label` wrote; by default the one beside them.
        threshold: Lowest rating that passes; a float is one of scores.
        max_concurrency: Rows that are judged at once.

    Raises:
        ConfigurationError: If the file cannot be read, or the judge cannot be used.
    """
    read = [_read(row, threshold) for row in read_labelled(rows, labels).rows]
    readings = [row for row in read if row is not None]
    left_out = len(read) - len(readings)
    if len(readings) < _LEAST_ROWS:
        earlier = "score" if is_score(threshold) else "rating"
        detail = f"{len(readings)} rows have labels and an earlier {earlier}; {_LEAST_ROWS} are needed"
        return CanaryResult(rows=len(readings), left_out=left_out, reason="too_few", detail=detail)
    bare = [row.sample.model_copy(update={"metadata": {}}) for row in readings]
    coerced = as_judge(judge) if isinstance(judge, str) else judge
    evaluation = evaluate(bare, coerced, max_concurrency=max_concurrency)
    if len(evaluation.summary) != 1:
        raise ConfigurationError("a canary is judged by one judge; make a panel of several")
    verdicts = [next(iter(row.verdicts.values())) for row in evaluation.rows]
    pairs = [
        (row.passed == row.good, _reaches(verdict, threshold) == row.good)
        for row, verdict in zip(readings, verdicts, strict=True)
        if verdict.unscored is None
    ]
    return _compared(pairs, rows=len(readings), left_out=left_out)


def _reaches(verdict: Verdict, threshold: float) -> bool:
    if is_score(threshold):
        return verdict.score is not None and verdict.score >= threshold
    return verdict.reaches(int(threshold))


def _read(row: JudgedAnswer, threshold: float) -> _CanaryRow | None:
    if row.sample is None or len(row.marks) != 1:
        return None
    (mark,) = row.marks.values()
    bad = is_bad([one for one in row.opinions if not is_tuned(one.split)], GOOD)
    value = mark.score if is_score(threshold) else mark.effective
    if value is None or bad is None:
        return None
    return _CanaryRow(row.sample, not bad, value >= threshold)


def _compared(pairs: list[tuple[bool, bool]], *, rows: int, left_out: int) -> CanaryResult:
    n = len(pairs)
    before, now = sum(old for old, _ in pairs), sum(new for _, new in pairs)
    only_before, only_now = pairs.count((True, False)), pairs.count((False, True))
    result = CanaryResult(
        rows=rows,
        left_out=left_out,
        scored=n,
        right_before=before,
        right_now=now,
        only_before=only_before,
        only_now=only_now,
    )
    if n < (1 - _MOST_UNSCORED) * rows or n < _LEAST_ROWS:
        detail = f"{rows - n} of {plural(rows, 'row')} could not be judged, so nothing can be said"
        return replace(result, reason="not_identified", detail=detail)
    p0 = clopper_pearson(n - before, n, level=0.9)[1]
    p = mcnemar(only_before, only_now)
    errors = [not new for _, new in pairs]
    random.Random(0).shuffle(errors)  # noqa: S311 - in a file the hard rows may stand together, which is no change
    statistic = max(e_cusum(errors, p0)) if p0 < 1 else None
    is_worse = p <= _LEVEL and only_before > only_now
    alarm = is_worse or (statistic is not None and statistic >= _ALARM_AT)
    return replace(result, p=p, statistic=statistic, p0=p0, alarm=alarm)


_LATEST = 50
"""Latest loops by which the policy in force is told: single requests may override it."""

_REFUSED = frozenset({"max_attempts", "no_progress"})


@dataclass(frozen=True, kw_only=True)
class LiveRate:
    """The share of the loops that pass, with an interval that holds however often one looks.

    Args:
        passed: Loops that passed.
        judged: Loops that passed or were refused.
        unjudged: Loops that ended without either: an error, a budget, a deadline.
        rate: passed / judged; None where there is none.
        low: Lower end of the 95 % confidence sequence.
        high: Upper end.
        low_if_refused: Lower end if every unjudged loop had been refused.
        high_if_passed: Upper end if every unjudged loop had passed.
    """

    passed: int
    judged: int
    unjudged: int
    rate: float | None
    low: float
    high: float
    low_if_refused: float
    high_if_passed: float


@dataclass(frozen=True, kw_only=True)
class Audits:
    """Released answers that people looked at, in the order in which they did.

    Args:
        audits: How many.
        bad: How many of them are bad; a tie counts as bad.
        p0: Share of bad answers that is tolerated; None where nobody says.
        p1: Share that is worth an alarm: twice that.
        statistic: The alarm statistic now.
        highest: Its highest value; an alarm from 100 on, which stays.
        alarm: Whether more than that is bad.
        reason: Why nothing can be said.
        detail: What is missing.
    """

    audits: int
    bad: int
    p0: float | None = None
    p1: float | None = None
    statistic: float | None = None
    highest: float | None = None
    alarm: bool = False
    reason: Literal["too_few", "not_identified"] | None = None
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class MonitorReport:
    """Whether a loop still does what it was certified to do.

    Args:
        loops: Loops under the policy and judge of most of the latest ones, which are looked at.
        other_loops: Loops under others.
        pass_rate: How many pass.
        audits: The alarm on released answers.
        canary: The alarm on the judge; None where no canary was given.
        certificate: Id of the certificate; empty without one.
        changes: What differs from the loop of the certificate, which voids it.
        standing: Where the promise stands by the labels of the answers that it covers, as a running loop sees it;
            None where none is promised, or the audits are of other answers.
        alarm: Whether anything is an alarm.
        silent: Whether nothing can raise an alarm.
        notes: What a reader must know besides.
    """

    loops: int
    other_loops: int
    pass_rate: LiveRate
    audits: Audits
    canary: CanaryResult | None
    certificate: str
    changes: tuple[str, ...]
    standing: Standing | None
    alarm: bool
    silent: bool
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return data


def monitor(
    rows: LoopRows,
    labels: RowSource | None = None,
    *,
    certificate: object = None,
    alpha: float | None = None,
    canary: RowSource | None = None,
    canary_labels: RowSource | None = None,
    judge: object = None,
    success_rating: int | None = None,
    max_concurrency: int = 8,
) -> MonitorReport:
    """Look whether a loop still does what it was certified to do.

    Args:
        rows: A file of attempts, or rows, for instance `DatabaseRecord.attempts()`; labels in their metadata are
            audits.
        labels: Audits that are not in the rows: a file that `refine label` wrote; by default the one beside them.
        certificate: A certificate, or its file. An alarm, or a change of what it depends on, voids it.
        alpha: Share of bad answers among those released that is tolerated; by default that of the certificate.
        canary: A labelled set to judge again, see `_judge_canary`; needs a judge.
        canary_labels: Its labels, where they are neither in its rows nor beside them.
        judge: The judge in force, for the canary.
        success_rating: Lowest rating that passes on the canary; by default the rating, or the score, of the loops.
        max_concurrency: Rows of the canary that are judged at once.

    Raises:
        ConfigurationError: If something cannot be read, or a setting is out of range.
    """
    issued = None if certificate is None else IssuedCertificate.read(certificate)
    if alpha is not None and not 0 < alpha < 1:
        raise ConfigurationError(f"alpha is a share between 0 and 1, not {shortened(alpha)}")
    if (canary is None) is not (judge is None):
        raise ConfigurationError("a canary needs a judge to judge it again, and a judge a canary: give both")
    labels, from_where = labels_for(rows, labels)
    with naming_labels(from_where):
        every = read_loops(rows, labels).loops
        loops, others, notes = _current(every)
    standing = _standing(every, issued)
    audits, audit_notes = _audited(loops, issued, alpha)
    changes = _changes(loops, issued)
    recorded_threshold = loops[-1].policy.threshold if loops and loops[-1].policy else GOOD
    result = None
    if canary is not None:
        passing = success_rating or recorded_threshold
        result = _judge_canary(canary, judge, canary_labels, threshold=passing, max_concurrency=max_concurrency)
    can_alarm = standing is not None or audits.reason is None or (result is not None and result.reason is None)
    return MonitorReport(
        loops=len(loops),
        other_loops=others,
        pass_rate=_pass_rate(loops),
        audits=audits,
        canary=result,
        certificate="" if issued is None else issued.id,
        changes=changes,
        standing=standing,
        alarm=audits.alarm
        or bool(standing and standing.moves)
        or bool(changes)
        or (result is not None and result.alarm),
        silent=not can_alarm and not changes,
        notes=(*from_where, *notes, *audit_notes, *_drift(loops, issued)),
    )


def _standing(loops: Sequence[RecordedLoop], issued: IssuedCertificate | None) -> Standing | None:
    """Return where the promise stands by the labelled answers that bear the certificate's id."""
    if issued is None or not issued.certified or not issued.promises_share:
        return None
    audits = []
    for loop in loops:
        answer = loop.released
        if answer is None or answer.bad is None or loop.metadata.get("certificate") != issued.id:
            continue
        audits.append(
            (_audited_at(loop, answer)[0], Audit.of(issued, answer.rating, answer.score, bad=answer.bad))
        )
    ordered = [audit for _, audit in sorted(audits, key=lambda one: one[0])]
    return follow(issued, ordered) if ordered else None


def _current(loops: Sequence[RecordedLoop]) -> tuple[list[RecordedLoop], int, list[str]]:
    """Return the loops under the policy and judge of most of the latest ones, in the order of their ends."""
    judged = [loop for loop in loops if loop.stop_reason is not None and loop.stop_reason != "skipped"]
    ordered = sorted(judged, key=lambda loop: loop.at or 0.0)
    latest = Counter(loop.policy for loop in reversed(ordered[-_LATEST:])).most_common(1)
    current = [loop for loop in ordered if loop.policy == latest[0][0]]
    notes = []
    if len(judged) < len(loops):
        notes.append(f"{len(loops) - len(judged)} loops were not judged, or do not say why they stopped")
    if len(current) < len(judged):
        notes.append(f"{len(judged) - len(current)} loops ran under another policy or judge, and are left out")
    return current, len(judged) - len(current), notes


def _pass_rate(loops: Sequence[RecordedLoop]) -> LiveRate:
    passed = sum(loop.stop_reason == "accepted" for loop in loops)
    judged = passed + sum(loop.stop_reason in _REFUSED for loop in loops)
    unjudged = len(loops) - judged
    low, high = confidence_sequence(passed, judged)
    return LiveRate(
        passed=passed,
        judged=judged,
        unjudged=unjudged,
        rate=passed / judged if judged else None,
        low=low,
        high=high,
        low_if_refused=confidence_sequence(passed, len(loops))[0],
        high_if_passed=confidence_sequence(passed + unjudged, len(loops))[1],
    )


def _audited(
    loops: Sequence[RecordedLoop], issued: IssuedCertificate | None, alpha: float | None
) -> tuple[Audits, list[str]]:
    since = None if issued is None else seconds_of(issued.recorded_until)
    labelled, notes, calibration, tuned = [], [], 0, 0
    for loop in loops:
        answer = loop.released
        if answer is None or loop.stop_reason != "accepted" or not answer.opinions:
            continue
        tuned += answer.tuned
        if answer.bad is None:
            continue
        if since is not None and loop.at is not None and loop.at <= since:
            calibration += 1
        else:
            labelled.append((_audited_at(loop, answer)[1], answer.bad))
    if calibration:
        notes.append(
            f"{calibration} labelled answers are those of the certificate, or older; audits are labels of answers "
            f"that were given after it"
        )
    if tuned:
        notes.append(f"tuned_on: the labels of {tuned} answers tuned the judge, and are not used")
    bads = [bad for _, bad in sorted(labelled, key=lambda audit: audit[0])]
    is_about_share = issued is not None and issued.certified and issued.promises_share
    p0 = alpha if alpha is not None else issued.alpha if issued is not None and is_about_share else None
    return _alarm(bads, p0), notes


def _audited_at(loop: RecordedLoop, answer: LoopAttempt) -> tuple[float, float]:
    """Return when an answer got its first and its last label; where nobody says, when it was released."""
    times = [time for opinion in answer.opinions if (time := seconds_of(opinion.at)) is not None]
    return min(times or [loop.at or 0.0]), max(times or [loop.at or 0.0])


def _alarm(bads: Sequence[bool], p0: float | None) -> Audits:
    audits, bad = len(bads), sum(bads)
    if p0 is None:
        detail = (
            "nobody says which share of the released answers may be bad; give a certificate that does, or alpha "
            "(--alpha)"
        )
        return Audits(audits=audits, bad=bad, reason="not_identified", detail=detail)
    if not audits:
        detail = "no released answer is labelled; audit some with `refine label RECORD --audit 20`"
        return Audits(audits=0, bad=0, p0=p0, reason="too_few", detail=detail)
    p1 = min(2 * p0, (1 + p0) / 2)
    path = e_cusum(bads, p0, p1)
    highest = max(path)
    return Audits(
        audits=audits, bad=bad, p0=p0, p1=p1, statistic=path[-1], highest=highest, alarm=highest >= _ALARM_AT
    )


def _changes(loops: Sequence[RecordedLoop], issued: IssuedCertificate | None) -> tuple[str, ...]:
    subject = loops[-1].subject if loops else None
    return () if issued is None or subject is None else tuple(issued.subject.changes(subject))


def _drift(loops: Sequence[RecordedLoop], issued: IssuedCertificate | None) -> list[str]:
    """Say where fewer or more loops pass than in the calibration of the certificate.

    Both rates are of all loops, those without a verdict among them, and neither is known but for an interval.
    """
    if issued is None or issued.kind != "rating":
        return []
    policy = loops[-1].policy if loops else None
    if issued.certified and policy is not None and policy.threshold != issued.threshold:
        note = f"these loops ran with {policy.threshold:g}, and the certificate is for {issued.threshold:g}"
        return [f"{note}: whether as many pass as then is not compared"]
    row = next((row for row in issued.rows if row.policy == issued.threshold), None)
    live = _pass_rate(loops)
    if row is None or row.release_rate is None:
        return []
    low, high = row.release_interval or (row.release_rate, row.release_rate)
    if low <= live.high_if_passed and high >= live.low_if_refused:
        return []
    note = f"{row.release_rate:.1%} of the loops passed when it was certified, and now more or fewer do"
    return [f"{note}: the questions, or the answers, are not those of then"]
