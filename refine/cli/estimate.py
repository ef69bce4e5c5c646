"""The command `refine estimate`: what judging a dataset will take, before it begins: calls, tokens and cost."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice

from judges import Judge, Price, Sample
from judges.errors import CannotJudge, plural
from judges.model import ModelRequest
from judges.models.prompt_and_reply import dialect_of, fresh_nonce, tokens_of
from judges.offline.run.calls import REPLY_TOKENS
from judges.offline.run.settings import BatchSettings
from judges.requests import Ask, Consult, Request
from judges.runtime.prices import price_of
from judges.verdict import Usage
from refine.cli.judge_specs import by_name, load_judges
from refine.cli.options import EstimateOptions
from refine.cli.runs import check_rows, read_prices, rows_file
from refine.cli.tables import Column, print_json, print_table, print_text, text_console


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
