"""The command `refine compare`: two runs over the same questions, judge by judge."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from judges.errors import shortened
from judges.offline import Evaluation, Row, RunComparison, compare_runs, load_run

_MOST_REGRESSIONS = 10
_LONGEST_QUESTION = 60


def run_compare(a: Path, b: Path, *, as_json: bool, seed: int) -> int:
    """Print how run B compares with run A, and return the exit code.

    Raises:
        ConfigurationError: If a run has not finished, or the two have nothing in common.
    """
    before, after = load_run(a), load_run(b)
    comparison = compare_runs(before, after, names=(str(a), str(b)), seed=seed)
    if as_json:
        sys.stdout.write(f"{json.dumps(asdict(comparison), ensure_ascii=False, indent=2)}\n")
    else:
        sys.stdout.write(f"{comparison}\n{_regressions(comparison, before, after)}")
    return 0


def _regressions(comparison: RunComparison, before: Evaluation, after: Evaluation) -> str:
    """Return the rows that fell the most, judge by judge, with what was asked."""
    old, new = ({row.index: row for row in evaluation.rows} for evaluation in (before, after))
    lines: list[str] = []
    for judge, change in comparison.changes.items():
        if not change.regressions:
            continue
        lines.append(f"\n{judge}: {len(change.regressions)} rows score lower, the largest fall first")
        for index in change.regressions[:_MOST_REGRESSIONS]:
            scores = [rows[index].verdicts[judge].score or 0.0 for rows in (old, new)]
            lines.append(f"  row {index}: {scores[0]:.3f} to {scores[1]:.3f}  {_question(new[index])}")
        if len(change.regressions) > _MOST_REGRESSIONS:
            lines.append(f"  and {len(change.regressions) - _MOST_REGRESSIONS} more; all of them with --json")
    return "".join(f"{line}\n" for line in lines)


def _question(row: Row) -> str:
    questions = (
        [message.content for message in row.sample.conversation if message.role == "user"] if row.sample else []
    )
    return shortened(questions[-1] if questions else "", longest=_LONGEST_QUESTION)
