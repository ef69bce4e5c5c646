"""The command `refine evaluate`: look the rows over, judge them into a run's folder, sum up."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from judges import BadSample, ConfigurationError, Judge
from judges.offline import Evaluation, Row, aevaluate, read_rows
from refine.cli.judge_specs import judges_named
from refine.cli.summary_table import Faults, show

_WIDTH = 100
"""Columns of the table where there is no terminal to fit it to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """What was asked for on the command line."""

    rows: Path
    judges: tuple[str, ...]
    out: Path
    model: str | None
    base_url: str | None
    language: str | None
    max_concurrency: int
    limit: int | None
    keep_unreadable: bool
    as_json: bool


def run_evaluate(order: EvaluateOptions) -> int:
    """Evaluate as ordered, and return the exit code: 0, or 1 where no cell got a score.

    Raises:
        ConfigurationError: If an option is wrong, or the folder already holds a run.
        BadSample: If a row cannot be read, before any is judged, unless such rows are to be kept.
    """
    judges = judges_named(order.judges, model=order.model, base_url=order.base_url, language=order.language)
    faults = Faults()
    started = time.monotonic()
    with _results_file(order.out) as file, _progress(_preflight(order)) as advance:

        def on_result(row: Row) -> None:
            faults.note(row)
            advance()

        evaluation = asyncio.run(_evaluated(order, judges, file, on_result))
    seconds = time.monotonic() - started
    report = _report(order, evaluation, seconds)
    (order.out / "summary.json").write_text(f"{report}\n", encoding="utf-8")
    _print(order, evaluation, faults, report, seconds=seconds)
    return 0 if any(one.scored for one in evaluation.summary.values()) else 1


async def _evaluated(
    order: EvaluateOptions, judges: list[Judge], file: TextIO, on_result: Callable[[Row], object]
) -> Evaluation:
    return await aevaluate(
        islice(read_rows(order.rows, errors="keep"), order.limit),
        judges,
        max_concurrency=order.max_concurrency,
        out=file,
        on_result=on_result,
        keep_rows=False,
    )


def _preflight(order: EvaluateOptions) -> int:
    """Read the file once before anything is spent on it, and count its rows."""
    total = 0
    for row in islice(read_rows(order.rows, errors="keep"), order.limit):
        total += 1
        if isinstance(row, BadSample) and not order.keep_unreadable:
            raise BadSample(f"{row}; mend the row, or keep such rows as unscored with --keep-unreadable")
    if total == 0:
        raise ConfigurationError(f"{order.rows} holds no rows; write one JSON object or CSV record per row")
    return total


@contextmanager
def _results_file(folder: Path) -> Iterator[TextIO]:
    """Open the results of a new run; where nothing could be judged, leave nothing behind."""
    results = folder / "results.jsonl"
    if folder.is_file() or results.exists() or (folder / "summary.json").exists():
        what = "is a file" if folder.is_file() else "already holds a run"
        raise ConfigurationError(f"{folder} {what}; choose another --out, or delete it first")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    file = results.open("x", encoding="utf-8", newline="\n")
    try:
        with file:
            yield file
    except BaseException:
        if results.stat().st_size == 0:
            results.unlink()
            if made:
                folder.rmdir()
        raise


@contextmanager
def _progress(total: int) -> Iterator[Callable[[], None]]:
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("judging"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    with bar:
        task = bar.add_task("judging", total=total)
        yield lambda: bar.advance(task)


def _report(order: EvaluateOptions, evaluation: Evaluation, seconds: float) -> str:
    judges = {name: one.model_dump(mode="json") for name, one in evaluation.summary.items()}
    told = {
        "rows": next(iter(evaluation.summary.values())).n,
        "source": str(order.rows),
        "model": order.model,
        "seconds": round(seconds, 3),
        "judges": judges,
    }
    return json.dumps(told, ensure_ascii=False, indent=2)


def _print(order: EvaluateOptions, evaluation: Evaluation, faults: Faults, report: str, *, seconds: float) -> None:
    if order.as_json:
        sys.stdout.write(f"{report}\n")
        return
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    show(console, evaluation.summary, faults, place=order.out, seconds=seconds)
