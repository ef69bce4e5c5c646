"""The command `refine compare`: two runs over the same questions, by their scores or answer by answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from judges.errors import shortened
from judges.offline import Evaluation, Row, RunComparison, compare, compare_runs, load_run, paired
from judges.offline.run_comparison import paired_rows
from judges.offline.statistics import LengthAdjusted, length_adjusted
from refine.cli.judge_specs import load_judge

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    """How answers are compared with each other: by which judge, and what it asks."""

    judge: str
    model: str | None = None
    base_url: str | None = None
    language: str | None = None
    max_concurrency: int = 8
    as_json: bool = False
    seed: int = 0


def run_compare_answers(a: Path, b: Path, options: PairOptions) -> int:
    """Have a judge compare the answers of two runs, each pair in both orders, and return the exit code.

    Raises:
        ConfigurationError: If a run has not finished, or the judge compares nothing or is set up wrongly.
    """
    judge = load_judge(options.judge, model=options.model, base_url=options.base_url, language=options.language)
    before, after = load_run(a), load_run(b)
    names = (str(b), str(a))
    result = compare(paired(after, before), judge, names=names, max_concurrency=options.max_concurrency)
    adjusted = _at_equal_length(result.rows, judge.name, options.seed)
    if options.as_json:
        figures = result.model_dump(mode="json", exclude={"rows"})
        document = {**figures, "length_adjusted": asdict(adjusted)}
        sys.stdout.write(f"{json.dumps(document, ensure_ascii=False, indent=2)}\n")
    else:
        sys.stdout.write(f"{result}\n  at equal length     {adjusted}\n")
    return 0 if result.n else 1


def _at_equal_length(rows: Sequence[Row], judge: str, seed: int) -> LengthAdjusted:
    """Return how often the first answer would win if both were as long."""
    scored = [(row.sample, row.verdicts[judge].score) for row in rows]
    pairs = [(sample, score) for sample, score in scored if sample is not None and score is not None]
    return length_adjusted(
        [score for _, score in pairs],
        [len(str(sample.metadata["rival"])) for sample, _ in pairs],
        [len(sample.answer or "") for sample, _ in pairs],
        clusters=[sample.question for sample, _ in pairs],
        seed=seed,
    )


def _regressions(comparison: RunComparison, before: Evaluation, after: Evaluation) -> str:
    """Return the rows that fell the most, judge by judge, with what was asked."""
    pairs = {new.index: (old, new) for old, new in paired_rows(before, after)}
    lines: list[str] = []
    for judge, change in comparison.changes.items():
        if not change.regressions:
            continue
        lines.append(f"\n{judge}: {len(change.regressions)} rows score lower, the largest fall first")
        for index in change.regressions[:_MOST_REGRESSIONS]:
            scores = [row.verdicts[judge].score or 0.0 for row in pairs[index]]
            lines.append(f"  row {index}: {scores[0]:.3f} to {scores[1]:.3f}  {_question(pairs[index][1])}")
        if len(change.regressions) > _MOST_REGRESSIONS:
            lines.append(f"  and {len(change.regressions) - _MOST_REGRESSIONS} more; all of them with --json")
    return "".join(f"{line}\n" for line in lines)


def _question(row: Row) -> str:
    questions = (
        [message.content for message in row.sample.conversation if message.role == "user"] if row.sample else []
    )
    return shortened(questions[-1] if questions else "", longest=_LONGEST_QUESTION)
