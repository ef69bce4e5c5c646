"""The command `refine evaluate`: check the rows, judge them into the folder of a run, print a summary."""

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
from refine.cli.judge_specs import load_judges
from refine.cli.summary_table import Faults, show

_WIDTH = 100
"""Columns of the table if stdout is not a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """The options of the command line."""

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


def run_evaluate(options: EvaluateOptions) -> int:
    """Run the evaluation, and return the exit code: 0, or 1 if there is no score at all.

    Raises:
        ConfigurationError: If an option is wrong, or the folder already holds a run.
        BadSample: If a row cannot be read, before any is judged, unless `keep_unreadable` is set.
    """
    judges = load_judges(options.judges, model=options.model, base_url=options.base_url, language=options.language)
    faults = Faults()
    started = time.monotonic()
    with _results_file(options.out) as file, _progress(_preflight(options)) as advance:

        def on_result(row: Row) -> None:
            faults.note(row)
            advance()

        evaluation = asyncio.run(_evaluate(options, judges, file, on_result))
    seconds = time.monotonic() - started
    report = _report(options, evaluation, seconds)
    (options.out / "summary.json").write_text(f"{report}\n", encoding="utf-8")
    _print(options, evaluation, faults, report, seconds=seconds)
    return 0 if any(figures.scored for figures in evaluation.summary.values()) else 1


async def _evaluate(
    options: EvaluateOptions, judges: list[Judge], file: TextIO, on_result: Callable[[Row], object]
) -> Evaluation:
    return await aevaluate(
        islice(read_rows(options.rows, errors="keep"), options.limit),
        judges,
        max_concurrency=options.max_concurrency,
        out=file,
        on_result=on_result,
        keep_rows=False,
    )


def _preflight(options: EvaluateOptions) -> int:
    """Read the whole file before any model is asked, and return the number of its rows."""
    total = 0
    for row in islice(read_rows(options.rows, errors="keep"), options.limit):
        total += 1
        if isinstance(row, BadSample) and not options.keep_unreadable:
            raise BadSample(f"{row}; mend the row, or keep such rows as unscored with --keep-unreadable")
    if total == 0:
        raise ConfigurationError(f"{options.rows} holds no rows; write one JSON object or CSV record per row")
    return total


@contextmanager
def _results_file(folder: Path) -> Iterator[TextIO]:
    """Open the results file of a new run; remove it again if nothing was written and an error ends the run."""
    results = folder / "results.jsonl"
    if folder.is_file() or results.exists() or (folder / "summary.json").exists():
        conflict = "is a file" if folder.is_file() else "already holds a run"
        raise ConfigurationError(f"{folder} {conflict}; choose another --out, or delete it first")
    created = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = results.open("x", encoding="utf-8", newline="\n")
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be written ({error.strerror}); choose another --out") from error
    try:
        with file:
            yield file
    except BaseException:
        if results.stat().st_size == 0:
            results.unlink()
            if created:
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


def _report(options: EvaluateOptions, evaluation: Evaluation, seconds: float) -> str:
    judges = {name: figures.model_dump(mode="json") for name, figures in evaluation.summary.items()}
    report = {
        "rows": next(iter(evaluation.summary.values())).n,
        "source": str(options.rows),
        "model": options.model,
        "seconds": round(seconds, 3),
        "judges": judges,
    }
    return json.dumps(report, ensure_ascii=False, indent=2)


def _print(
    options: EvaluateOptions, evaluation: Evaluation, faults: Faults, report: str, *, seconds: float
) -> None:
    if options.as_json:
        sys.stdout.write(f"{report}\n")
        return
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    show(console, evaluation.summary, faults, place=options.out, seconds=seconds)
