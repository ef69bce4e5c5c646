"""The command `refine estimate`: what judging a dataset will take, before anything is spent."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from judges import ConfigurationError, known_prices
from judges.offline.dataset.reading import RowsFile
from judges.offline.run.batch.settings import BatchSettings
from judges.offline.run.estimate import Estimate, Range, estimate
from refine.cli.evaluation import JudgeOptions, preflight
from refine.cli.judge_specs import by_name, load_judges
from refine.cli.prices_file import read_prices

_WIDTH = 110
"""Columns of the table if stdout is not a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateOptions:
    """The options of `refine estimate`."""

    rows: RowsFile
    judges: JudgeOptions
    limit: int | None = None
    prices: Path | None = None
    batch: bool = False
    keep_unreadable: bool = False
    as_json: bool = False


def run_estimate(options: EstimateOptions) -> int:
    """Print what judging would take, and return the exit code.

    Raises:
        ConfigurationError: If an option is wrong.
        BadSample: If a row cannot be read, unless such rows are kept.
    """
    named = options.judges
    loaded = load_judges(named.judges, model=named.model, base_url=named.base_url, language=named.language)
    judges = by_name(loaded)
    preflight(options.rows, limit=options.limit, keep_unreadable=options.keep_unreadable)
    try:
        prices = known_prices() if options.prices is None else read_prices(options.prices)
    except ConfigurationError:  # the list of public prices is not installed
        prices = {}
    rows = islice(options.rows.rows(), options.limit)
    result = estimate(rows, judges, prices, price=BatchSettings().price if options.batch else 1.0)
    if options.as_json:
        totals = {"calls": result.calls, "tokens": result.tokens, "cost": result.cost}
        sys.stdout.write(f"{json.dumps({**asdict(result), **totals}, ensure_ascii=False, indent=2)}\n")
        return 0
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    _show(console, result)
    return 0


def _show(console: Console, result: Estimate) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    for name in ("judge", "calls a row"):
        table.add_column(name, overflow="fold")
    for name in ("calls", "input tokens", "output tokens", "US dollars"):
        table.add_column(name, justify="right")
    for part in result.judges:
        counts = [_range(part.calls), _range(part.input_tokens), _range(part.output_tokens)]
        table.add_row(part.judge, part.formula, *counts, _cost(part.cost))
    console.print(table)
    total = f" {result.rows:,} rows: {_range(result.calls)} calls, {_range(result.tokens)} tokens"
    console.print(Text(f"{total}, {_cost(result.cost)} US dollars", style="bold"), soft_wrap=True)
    for model in result.unpriced:
        line = f" ! the price of {model} is unknown; give it by --prices FILE"
        console.print(Text(line, style="yellow"), soft_wrap=True)
    note = " Not included: repeats of failed calls and of replies that cannot be read, cached prompts, discounts."
    console.print(Text(note, style="dim"), soft_wrap=True)


def _range(counts: Range) -> str:
    low, high = (f"{round(count):,}" for count in counts)
    return low if low == high else f"{low} to {high}"


def _cost(cost: Range | None) -> str:
    if cost is None:
        return "unknown"
    low, high = (f"{dollars:,.4f}" if dollars < 1 else f"{dollars:,.2f}" for dollars in cost)
    return low if low == high else f"{low} to {high}"
