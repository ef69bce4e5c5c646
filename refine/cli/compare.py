"""The command `refine compare`: two runs over the same questions, by their scores or answer by answer."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import stdev

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from judges import ConfigurationError, known_prices
from judges.errors import shortened
from judges.offline import Evaluation, Row, RunComparison, compare, compare_runs, load_run, paired
from judges.offline.compare import paired_rows
from judges.offline.dataset.reading import RowsFile
from judges.offline.run.estimate import Estimate, Range, estimate
from judges.offline.run.settings import BatchSettings
from judges.offline.statistics import LengthAdjusted, length_adjusted, n_pairs
from refine.cli.judge_specs import by_name, load_judge, load_judges
from refine.cli.runs import JudgeOptions, preflight, read_prices

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


_LEAST_ROWS = 10
"""Fewest scored rows of a pilot from which a spread is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The options of `refine plan`.

    Args:
        runs: Pilots: none, one, or two over the same questions.
        points: The change to be found, in points of 100.
        discordance: Share of questions on which the verdicts of the two systems differ, 0 to 1.
        sd: Standard deviation of the difference of scores on a question.
        power: Probability of finding the change.
        alpha: Two-sided level of the test.
        as_json: Whether to print JSON.
    """

    runs: tuple[Path, ...] = ()
    points: float = 3.0
    discordance: float | None = None
    sd: float | None = None
    power: float = 0.8
    alpha: float = 0.05
    as_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many questions a comparison needs.

    Args:
        judge: The judge whose scores were looked at; empty where the spread was named.
        questions: Questions that both systems answer; None where nothing can be said.
        basis: What that rests on.
    """

    judge: str
    questions: int | None
    basis: str


def run_plan(options: PlanOptions) -> int:
    """Print how many questions show a change, and return the exit code.

    Raises:
        ConfigurationError: If an option is wrong, or a run has not finished.
    """
    _check(options)
    plans = list(_plans(options))
    if options.as_json:
        sys.stdout.write(f"{json.dumps([asdict(plan) for plan in plans], ensure_ascii=False, indent=2)}\n")
        return 0
    sys.stdout.write(
        f"Questions that show a change of {options.points:g} points in {options.power:.0%} of all comparisons, "
        f"at a level of {options.alpha:.0%}:\n"
    )
    for plan in plans:
        questions = "no number" if plan.questions is None else f"{plan.questions:,}"
        sys.stdout.write(f"  {plan.judge + ': ' if plan.judge else ''}{questions} ({plan.basis})\n")
    return 0


def _check(options: PlanOptions) -> None:
    named = [value for value in (options.discordance, options.sd) if value is not None]
    if len(named) + bool(options.runs) != 1:
        raise ConfigurationError(
            "a plan needs to know how much scores differ: give one or two runs, or --discordance SHARE (verdicts "
            "that pass or fail), or --sd NUMBER (scores)"
        )
    if len(options.runs) > 2:  # noqa: PLR2004 - a pair
        raise ConfigurationError(f"a plan reads one run or two, not {len(options.runs)}")
    if not 0 < options.points < 100:  # noqa: PLR2004 - points of 100
        raise ConfigurationError(f"--points is above 0 and below 100, not {options.points:g}")
    if options.sd == 0:
        raise ConfigurationError("--sd is above 0; scores that never differ need no plan")
    for name, share in (("--power", options.power), ("--alpha", options.alpha)):
        if not 0 < share < 1:
            raise ConfigurationError(f"{name} lies between 0 and 1, not {share:g}")


def _plans(options: PlanOptions) -> Iterator[Plan]:
    if options.discordance is not None:
        yield Plan(judge="", questions=_needed(options), basis=f"verdicts differ on {options.discordance:.1%}")
    elif options.sd is not None:
        yield Plan(judge="", questions=_needed(options), basis=f"scores differ by a deviation of {options.sd:g}")
    else:
        pilots = [load_run(run) for run in options.runs]
        for name in pilots[0].summary:
            yield _from_pilots(name, pilots, options)


def _from_pilots(name: str, pilots: list[Evaluation], options: PlanOptions) -> Plan:
    if any(name not in pilot.summary for pilot in pilots):
        return Plan(judge=name, questions=None, basis="one of the runs does not have it")
    if len(pilots) == 1:
        scores = [score for score in pilots[0].scores[name] if score is not None]
        factor, how = math.sqrt(2), "if the two systems agree no more than by chance; fewer with a run of both"
    else:
        pairs = [[row.verdicts[name].score for row in pair] for pair in paired_rows(*pilots)]
        scores = [after - before for before, after in pairs if before is not None and after is not None]
        factor, how = 1.0, "of the two runs"
    if len(scores) < _LEAST_ROWS:
        return Plan(judge=name, questions=None, basis=f"{len(scores)} rows are too few to tell how scores differ")
    sd = stdev(scores) * factor
    if sd == 0:
        return Plan(judge=name, questions=None, basis="its scores never differ")
    questions = math.ceil(n_pairs(options.points / 100, sd=sd, alpha=options.alpha, power=options.power))
    return Plan(judge=name, questions=questions, basis=f"scores differ by {sd:.3f} on {len(scores):,} rows, {how}")


def _needed(options: PlanOptions) -> int:
    try:
        return math.ceil(
            n_pairs(
                options.points / 100,
                discordance=options.discordance,
                sd=options.sd,
                alpha=options.alpha,
                power=options.power,
            )
        )
    except ValueError as error:
        raise ConfigurationError(f"--discordance: {error}") from None
