"""The commands `refine compare`, which sets two runs side by side, `estimate` and `plan`, which go before one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from statistics import stdev

from judges import ConfigurationError, Judge, Price, Sample
from judges.errors import CannotJudge, plural, shortened
from judges.model import ModelRequest
from judges.models.prompt_and_reply import dialect_of, fresh_nonce, tokens_of
from judges.offline import Evaluation, Row, RunComparison, compare, compare_runs, load_run, paired
from judges.offline.run.calls import REPLY_TOKENS
from judges.offline.run.settings import BatchSettings
from judges.offline.run_comparison import paired_rows
from judges.offline.statistics import LengthAdjusted, length_adjusted, n_pairs
from judges.requests import Ask, Consult, Request
from judges.runtime.prices import price_of
from judges.verdict import Usage
from refine.cli.judge_specs import by_name, load_judge, load_judges
from refine.cli.options import CompareOptions, EstimateOptions, PlanOptions
from refine.cli.runs import check_rows, read_prices, rows_file
from refine.cli.tables import Column, print_json, print_result, print_table, print_text, text_console

_MOST_REGRESSIONS = 10
_LONGEST_QUESTION = 50


def run_compare(options: CompareOptions) -> int:
    """Print how the later run compares with the earlier one, and return the exit code.

    Raises:
        ConfigurationError: If a run has not finished, they have nothing in common, or the judge compares nothing.
    """
    if options.judge is not None:
        return _compare_answers(options, options.judge)
    if any((options.asks.model, options.asks.base_url, options.asks.language)):
        raise ConfigurationError("--model, --base-url and --language are of a judge: add --judge pairwise")
    before, after = load_run(options.before), load_run(options.after)
    names = (str(options.before), str(options.after))
    comparison = compare_runs(before, after, names=names, seed=options.seed)
    text = f"{comparison}\n{_regressions(comparison, before, after)}".rstrip("\n")
    print_result(text, asdict(comparison), as_json=options.as_json)
    return 0


def _compare_answers(options: CompareOptions, spec: str) -> int:
    """Have a judge compare the answers of two runs, each pair in both orders, and return the exit code."""
    judge = load_judge(spec, options.asks)
    before, after = load_run(options.before), load_run(options.after)
    names = (str(options.after), str(options.before))
    result = compare(paired(after, before), judge, names=names, max_concurrency=options.max_concurrency)
    adjusted = _at_equal_length(result.rows, judge.name, options.seed)
    document = {**result.model_dump(mode="json", exclude={"rows"}), "length_adjusted": asdict(adjusted)}
    print_result(f"{result}\n  at equal length     {adjusted}", document, as_json=options.as_json)
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
        lines.append(f"\n{judge}: {plural(len(change.regressions), 'row')} fell, the largest fall first")
        for index in change.regressions[:_MOST_REGRESSIONS]:
            scores = [row.verdicts[judge].score or 0.0 for row in pairs[index]]
            sample = pairs[index][1].sample
            question = shortened("" if sample is None else sample.question, longest=_LONGEST_QUESTION)
            lines.append(f"  row {index}: {scores[0]:.3f} to {scores[1]:.3f}  {question}")
        if len(change.regressions) > _MOST_REGRESSIONS:
            lines.append(f"  and {len(change.regressions) - _MOST_REGRESSIONS} more; all of them with --json")
    return "".join(f"{line}\n" for line in lines)


def run_estimate(options: EstimateOptions) -> int:
    """Print what judging would take, and return the exit code.

    Raises:
        ConfigurationError: If an option is wrong.
        BadSample: If a row cannot be read, unless such rows are kept.
    """
    judges = by_name(load_judges(options.judges.judges, options.judges.asks))
    file = rows_file(options.rows)
    check_rows(file, options.rows.limit, keep_unreadable=options.rows.keep_unreadable)
    rows = islice(file.rows(), options.rows.limit)
    result = _estimate(
        rows, judges, read_prices(options.prices), price=BatchSettings().price if options.batch else 1.0
    )
    if options.as_json:
        totals = {"calls": result.calls, "tokens": result.tokens, "cost": result.cost}
        print_json({**asdict(result), **totals})
    else:
        _print_estimate(result)
    return 0


_DEEPEST = 6
_ASSUMED = 3
"""What a part of a formula counts as where the sample does not tell it, for instance topics."""

_TERM = re.compile(r"(\d*)\s*([a-z]?)")

_Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class _JudgeEstimate:
    """What one judge will take over all rows; each range goes from few to many.

    Args:
        judge: The judge.
        models: The models it asks.
        formula: Its calls for one sample, as it explains them.
        calls: Model calls.
        input_tokens: Tokens of the prompts, from those rendered for the first step of each row.
        output_tokens: Tokens of the replies, `REPLY_TOKENS` a call.
        cost: US dollars; None where a price is unknown.
    """

    judge: str
    models: tuple[str, ...]
    formula: str
    calls: _Range
    input_tokens: _Range
    output_tokens: _Range
    cost: _Range | None

    def at(self, price: float) -> _JudgeEstimate:
        """Return the same with calls at a share of their price."""
        return self if self.cost is None else replace(self, cost=(self.cost[0] * price, self.cost[1] * price))


@dataclass(frozen=True, kw_only=True)
class _Estimate:
    """What judging a dataset will take.

    Args:
        rows: Rows that can be read.
        judges: What each judge will take.
        unpriced: Models whose price is unknown.
    """

    rows: int
    judges: tuple[_JudgeEstimate, ...]
    unpriced: tuple[str, ...]

    @property
    def calls(self) -> _Range:
        """Model calls of all judges."""
        return _sum_of(part.calls for part in self.judges)

    @property
    def tokens(self) -> _Range:
        """Input and output tokens of all judges."""
        return _sum_of(counts for part in self.judges for counts in (part.input_tokens, part.output_tokens))

    @property
    def cost(self) -> _Range | None:
        """US dollars of all judges; None where a price is unknown."""
        costs = [part.cost for part in self.judges if part.cost is not None]
        return _sum_of(costs) if len(costs) == len(self.judges) else None


def _estimate(
    rows: Iterable[object], judges: Mapping[str, Judge], prices: Mapping[str, Price], *, price: float
) -> _Estimate:
    """Estimate what judging rows will take; no model is asked.

    A prompt is rendered for the first step of each judge on each row; later steps count as that long. Repeats of a
    failed call, and of a reply that could not be read, are not included.

    Args:
        rows: Samples; anything else is a row that cannot be read, and costs nothing.
        judges: The judges by name.
        prices: Price by model name.
        price: What a call costs, as a share of that; `BatchSettings.price` for calls in batches.
    """
    totals = {name: _Total() for name in judges}
    number = 0
    for row in rows:
        if isinstance(row, Sample):
            number += 1
            for name, judge in judges.items():
                totals[name].add(judge, row)
    parts = tuple(_judge_estimate(name, judge, totals[name], prices).at(price) for name, judge in judges.items())
    unpriced = {
        model for part in parts if part.cost is None for model in part.models if not price_of(model, prices)
    }
    return _Estimate(rows=number, judges=parts, unpriced=tuple(sorted(unpriced)))


@dataclass
class _Total:
    calls: list[float] = field(default_factory=lambda: [0.0, 0.0])
    tokens: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def add(self, judge: Judge, sample: Sample) -> None:
        """Add what a judge takes on one sample."""
        requests = list(_first_requests(judge, sample, _DEEPEST))
        if not requests:
            return
        formula = _calls_of(judge.explain().calls, sample)
        for side in (0, 1):
            calls = max(formula[side], len(requests))
            self.calls[side] += calls
            self.tokens[side] += calls * sum(tokens_of(request)[side] for request in requests) / len(requests)


def _calls_of(formula: str, sample: Sample) -> _Range:
    """Return the fewest and the most calls that a judge's formula comes to on a sample; (0, 0) where it has none.

    Of a formula such as `"3 + n; compat 3 + 2n"` the part before the semicolon counts; `"1, or 2 by claims"` is 1
    to 2.
    """
    counts = {
        "n": len(sample.retrieved_contexts or ()) or 1,
        "s": max(1, len(re.findall(r"[.!?。！？]+(?=\s|$)", sample.answer or ""))),
        "t": len(sample.reference_topics or ()) or _ASSUMED,
        "k": _ASSUMED,
    }
    options = [_value(option, counts) for option in re.split(r",? or (?![^(]*\))", formula.partition(";")[0])]
    call_counts = [value for value in options if value is not None]
    return (min(call_counts), max(call_counts)) if call_counts else (0.0, 0.0)


def _value(formula: str, counts: Mapping[str, int]) -> float | None:
    """Return the value of a sum of products; None where it says something else."""
    total = 0.0
    for term in re.split(r"\+(?![^(]*\))", formula):
        repeats = re.match(r"\s*(\d+) x \((.*)\)\s*$", term)
        if repeats:
            inner = _value(repeats[2].partition(", or")[0], counts)
            if inner is None:
                return None
            total += int(repeats[1]) * inner
            continue
        match = _TERM.match(term.strip())
        if match is None or not (match[1] or match[2] in counts):
            return None
        total += int(match[1] or 1) * counts.get(match[2] if not term.strip()[match.end() :].strip() else "", 1)
    return total


def _first_requests(judge: Judge, sample: Sample, depth: int) -> Iterator[ModelRequest]:
    """Yield the requests that a judge begins with on a sample; none where it needs no model to judge it."""
    deliberation = judge.deliberate(sample)
    try:
        step = next(deliberation)
    except (StopIteration, CannotJudge):
        return
    finally:
        deliberation.close()
    for request in step if isinstance(step, tuple) else (step,):
        yield from _requests(request, depth)


def _requests(request: Request, depth: int) -> Iterator[ModelRequest]:
    match request:
        case Ask():
            yield dialect_of(request.model).compose(request, fresh_nonce())
        case Consult(judge=judge, sample=sample) if depth and isinstance(judge, Judge):
            yield from _first_requests(judge, sample, depth - 1)
        case _:
            return


def _judge_estimate(name: str, judge: Judge, total: _Total, prices: Mapping[str, Price]) -> _JudgeEstimate:
    explanation = judge.explain()
    calls = (total.calls[0], total.calls[1])
    tokens = (math.ceil(total.tokens[0]), math.ceil(total.tokens[1]))
    replies = (calls[0] * REPLY_TOKENS[0], calls[1] * REPLY_TOKENS[1])
    models = explanation.models
    return _JudgeEstimate(
        judge=name,
        models=models,
        formula=explanation.calls,
        calls=calls,
        input_tokens=tokens,
        output_tokens=replies,
        cost=_cost_of(calls, tokens, replies, [price_of(model, prices) for model in models]),
    )


def _cost_of(calls: _Range, tokens: _Range, replies: _Range, prices: list[Price | None]) -> _Range | None:
    """Return the cost with the cheapest and with the dearest model of a judge."""
    if not calls[1]:
        return (0.0, 0.0)
    listed_prices = [price for price in prices if price is not None]
    if not listed_prices or len(listed_prices) < len(prices):
        return None
    return (
        min(_priced(price, calls[0], tokens[0], replies[0]) for price in listed_prices),
        max(_priced(price, calls[1], tokens[1], replies[1]) for price in listed_prices),
    )


def _priced(price: Price, calls: float, tokens: float, replies: float) -> float:
    """Return the cost of calls that are all alike, as a price may depend on the length of a prompt."""
    if not calls:
        return 0.0
    usage = Usage(calls=1, input_tokens=round(tokens / calls), output_tokens=round(replies / calls))
    return price.of(usage) * calls


def _sum_of(ranges: Iterable[_Range]) -> _Range:
    pairs = list(ranges)
    return sum(low for low, _ in pairs), sum(high for _, high in pairs)


def _print_estimate(result: _Estimate) -> None:
    numbers = ("calls", "input tokens", "output tokens", "US dollars")
    columns = (Column("judge"), Column("calls a row"), *(Column(name, is_number=True) for name in numbers))
    rows = [
        (one.judge, one.formula, *map(_range, (one.calls, one.input_tokens, one.output_tokens)), _cost(one.cost))
        for one in result.judges
    ]
    print_table(text_console(), columns, rows)
    total = f" {plural(result.rows, 'row')}: {_range(result.calls)} calls, {_range(result.tokens)} tokens"
    print_text(f"{total}, {_cost(result.cost)} US dollars", style="bold")
    for model in result.unpriced:
        print_text(f" ! the price of {model} is unknown; give it by --prices FILE", style="yellow")
    note = " Not included: repeats of failed calls and of replies that cannot be read, cached prompts, discounts."
    print_text(note, style="dim")


def _range(counts: _Range) -> str:
    low, high = (f"{round(count):,}" for count in counts)
    return low if low == high else f"{low} to {high}"


def _cost(cost: _Range | None) -> str:
    if cost is None:
        return "unknown"
    low, high = (f"{dollars:,.4f}" if dollars < 1 else f"{dollars:,.2f}" for dollars in cost)
    return low if low == high else f"{low} to {high}"


_LEAST_ROWS = 10
"""Fewest scored rows of a pilot from which a spread is read."""


@dataclass(frozen=True, slots=True)
class _Sizing:
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
        print_json([asdict(plan) for plan in plans])
        return 0
    print_text(
        f"Questions that show a change of {options.points:g} points in {options.power:.0%} of all comparisons, "
        f"at a level of {options.alpha:.0%}:"
    )
    for plan in plans:
        questions = "no number" if plan.questions is None else f"{plan.questions:,}"
        print_text(f"  {plan.judge + ': ' if plan.judge else ''}{questions} ({plan.basis})")
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


def _plans(options: PlanOptions) -> Iterator[_Sizing]:
    if options.discordance is not None:
        yield _Sizing("", _count_questions(options), f"verdicts differ on {options.discordance:.1%}")
    elif options.sd is not None:
        yield _Sizing("", _count_questions(options), f"scores differ by a deviation of {options.sd:g}")
    else:
        pilots = [load_run(run) for run in options.runs]
        for name in pilots[0].summary:
            yield _from_pilots(name, pilots, options)


def _from_pilots(name: str, pilots: list[Evaluation], options: PlanOptions) -> _Sizing:
    if any(name not in pilot.summary for pilot in pilots):
        return _Sizing(name, None, "one of the runs does not have it")
    if len(pilots) == 1:
        scores = [score for score in pilots[0].scores[name] if score is not None]
        factor, how = math.sqrt(2), "if the two systems agree no more than by chance; fewer with a run of both"
    else:
        pairs = [[row.verdicts[name].score for row in pair] for pair in paired_rows(*pilots)]
        scores = [after - before for before, after in pairs if before is not None and after is not None]
        factor, how = 1.0, "of the two runs"
    if len(scores) < _LEAST_ROWS:
        return _Sizing(name, None, f"{len(scores)} rows are too few to tell how scores differ")
    sd = stdev(scores) * factor
    if sd == 0:
        return _Sizing(name, None, "its scores never differ")
    basis = f"scores differ by {sd:.3f} on {plural(len(scores), 'row')}, {how}"
    return _Sizing(name, _count_questions(options, sd), basis)


def _count_questions(options: PlanOptions, sd: float | None = None) -> int:
    """Return how many questions show the change; `sd` is the deviation that pilots have."""
    spread = {"discordance": options.discordance, "sd": options.sd if sd is None else sd}
    try:
        return math.ceil(n_pairs(options.points / 100, alpha=options.alpha, power=options.power, **spread))
    except ValueError as error:
        raise ConfigurationError(f"--discordance: {error}") from None
