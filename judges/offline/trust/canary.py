"""A canary: a frozen set of labelled rows, judged again, to see whether the judge is still the one it was."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from judges.compose.panel import as_judge
from judges.errors import ConfigurationError
from judges.offline.run.evaluate import evaluate
from judges.offline.statistics import clopper_pearson, e_cusum, mcnemar
from judges.offline.trust.beside import labels_for
from judges.offline.trust.calibration import with_labels
from judges.offline.trust.labels import is_bad, is_tuned
from judges.offline.trust.rows import JudgedRow, Source, read_judged
from judges.sample import Sample

ALARM_AT = 100.0
"""Value of the alarm statistic from which on it is an alarm: without a change, one in 100 audits or more."""
LEAST_ROWS = 50
_GOOD = 3
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
        statistic: Highest value of the alarm statistic over the errors now; an alarm from 100 on.
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


def judge_canary(
    rows: Source,
    judge: object,
    labels: Source | None = None,
    *,
    success_rating: int = 3,
    max_concurrency: int = 8,
) -> CanaryResult:
    """Judge a canary set again, and compare with its labels and with the verdicts it holds.

    Args:
        rows: A file of rows, or rows, with the earlier `rating` in the metadata, as `refine export` writes them.
        judge: The judge.
        labels: Labels that are not in the rows: a file that `refine label` wrote; by default the one beside them.
        success_rating: Lowest rating that passes.
        max_concurrency: Rows that are judged at once.

    Raises:
        ConfigurationError: If the file cannot be read, or the judge cannot be used.
    """
    read = [_read(row, success_rating) for row in with_labels(read_judged(rows), labels_for(rows, labels)[0])[0]]
    known = [row for row in read if row is not None]
    left_out = len(read) - len(known)
    if len(known) < LEAST_ROWS:
        detail = f"{len(known)} rows have labels and an earlier rating; {LEAST_ROWS} are needed"
        return CanaryResult(rows=len(known), left_out=left_out, reason="too_few", detail=detail)
    bare = [row.sample.model_copy(update={"metadata": {}}) for row in known]
    coerced = as_judge(judge) if isinstance(judge, str) else judge
    evaluation = evaluate(bare, coerced, max_concurrency=max_concurrency)
    if len(evaluation.summary) != 1:
        raise ConfigurationError("a canary is judged by one judge; make a panel of several")
    verdicts = [next(iter(row.verdicts.values())) for row in evaluation.rows]
    pairs = [
        (row.passed == row.good, verdict.reaches(success_rating) == row.good)
        for row, verdict in zip(known, verdicts, strict=True)
        if verdict.unscored is None
    ]
    return _compared(pairs, rows=len(known), left_out=left_out)


def _read(row: JudgedRow, success_rating: int) -> _CanaryRow | None:
    if row.sample is None or len(row.marks) != 1:
        return None
    (mark,) = row.marks.values()
    bad = is_bad([one for one in row.opinions if not is_tuned(one.split)], _GOOD)
    if mark.effective is None or bad is None:
        return None
    return _CanaryRow(row.sample, not bad, mark.effective >= success_rating)


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
    if n < (1 - _MOST_UNSCORED) * rows or n < LEAST_ROWS:
        detail = f"{rows - n} of {rows} rows could not be judged, so nothing can be said"
        return replace(result, reason="not_identified", detail=detail)
    p0 = clopper_pearson(n - before, n, level=0.9)[1]
    p = mcnemar(only_before, only_now)
    statistic = max(e_cusum([not new for _, new in pairs], p0)) if p0 < 1 else None
    is_worse = p <= _LEVEL and only_before > only_now
    alarm = is_worse or (statistic is not None and statistic >= ALARM_AT)
    return replace(result, p=p, statistic=statistic, p0=p0, alarm=alarm)
