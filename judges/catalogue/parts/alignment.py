"""Aligning actual tool calls with expected ones, call by call, argument by argument."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Literal

from pydantic import JsonValue

from judges.catalogue.parts.calls import key_of
from judges.catalogue.parts.pairing import matching, ordered_matching
from judges.errors import CannotJudge
from judges.messages import ToolCall

Matcher = Callable[[JsonValue, JsonValue], float]
"""Compares an argument's expected and actual value: from 0 for different to 1 for equal."""

Matchers = Matcher | Mapping[str, Matcher | Mapping[str, Matcher]]
"""One matcher for all arguments, or some by tool, by tool and argument, or by argument."""

Extra = Literal["ignore", "strict", "bare"]
"""How unexpected arguments count: not at all; each as a wrong one; or so only where none was expected."""

Places = Sequence[int]

_ORDERED, _UNORDERED = 2_000_000, 20_000_000
"""Steps that aligning and matching may take: about two seconds."""


@dataclass(frozen=True)
class Pair:
    """An expected and an actual call, by index, with the score of each argument that counts."""

    expected: int
    actual: int
    arguments: Mapping[str, float]

    @property
    def score(self) -> float:
        """The mean of the arguments' scores; 1 where none counts."""
        return math.fsum(self.arguments.values()) / len(self.arguments) if self.arguments else 1.0


@dataclass(frozen=True)
class Alignment:
    """How actual calls fit the expected ones.

    Args:
        matched: Pairs of the same tool, in order where order counts; their arguments may differ.
        misordered: Pairs of the same call, but in another order than expected.
        missing: Indices of expected calls that were not made.
        surplus: Indices of actual calls that were not expected.
    """

    matched: tuple[Pair, ...]
    misordered: tuple[Pair, ...] = ()
    missing: tuple[int, ...] = ()
    surplus: tuple[int, ...] = ()

    @property
    def wrong(self) -> tuple[Pair, ...]:
        """Matched pairs whose arguments differ."""
        return tuple(pair for pair in self.matched if pair.score < 1)

    @property
    def total(self) -> float:
        """The sum of the matched pairs' scores."""
        return math.fsum(pair.score for pair in self.matched)


@dataclass(frozen=True, kw_only=True)
class CallComparison:
    """How calls are compared.

    Args:
        matchers: Compare arguments; without one, values are equal as JSON.
        extra: How unexpected arguments count.
        lenient: Whether a number, `true`, `false` or `null` is the same as the text that spells it.
    """

    matchers: Matchers | None = None
    extra: Extra = "ignore"
    lenient: bool = False

    def align(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall], *, ordered: bool) -> Alignment:
        """Align the calls: by the best common subsequence where order counts, else by the best matching.

        Raises:
            CannotJudge: `undefined`, if there are too many to compare within seconds.
        """
        table = _ScoreTable(expected, actual, self)
        return _in_order(table) if ordered else _in_any_order(table, range(len(expected)), range(len(actual)))

    def in_expected_order(
        self, expected: Sequence[ToolCall], parallel: Sequence[Sequence[ToolCall]]
    ) -> tuple[ToolCall, ...]:
        """Return the calls made in the order of messages, and those of one message in the order expected.

        Args:
            expected: The expected calls, in order.
            parallel: The calls of each message, which were made at once.
        """
        made = tuple(chain.from_iterable(parallel))
        if all(len(calls) == 1 for calls in parallel):
            return made
        partner = {pair.actual: pair.expected for pair in self.align(expected, made, ordered=False).matched}
        ordered: list[ToolCall] = []
        for calls in parallel:
            places = range(len(ordered), len(ordered) + len(calls))
            ordered += [made[place] for place in sorted(places, key=lambda at: partner.get(at, len(expected)))]
        as_made = self.align(expected, made, ordered=True).total
        return made if as_made >= self.align(expected, ordered, ordered=True).total else tuple(ordered)

    def score(self, expected: ToolCall, actual: ToolCall) -> float:
        """Return how far the arguments of two calls agree, 0 to 1, whatever the tools."""
        return Pair(0, 0, self.arguments(_with_keys(expected, self), _with_keys(actual, self))).score

    def arguments(self, expected: KeyedCall, actual: KeyedCall) -> dict[str, float]:
        """Return the score of each argument that counts."""
        scores = {name: self._score(expected, actual, name) for name in expected.keys}
        if self.extra == "strict" or (self.extra == "bare" and not scores):
            scores.update({name: 0.0 for name in actual.keys if name not in scores})
        return scores

    def _score(self, expected: KeyedCall, actual: KeyedCall, argument: str) -> float:
        if argument not in actual.keys:
            return 0.0
        tool = expected.call.name
        matcher = self._matcher(tool, argument)
        if matcher is None:
            return float(expected.keys[argument] == actual.keys[argument])
        score: object = matcher(expected.call.args[argument], actual.call.args[argument])
        if isinstance(score, int | float) and 0 <= score <= 1:
            return float(score)
        result = repr(score) if isinstance(score, int | float) else f"a {type(score).__name__}"
        raise CannotJudge("judge_failed", f"a comparison of arguments gave {result}, not a number from 0 to 1")

    def _matcher(self, tool: str, argument: str) -> Matcher | None:
        if not isinstance(self.matchers, Mapping):
            return self.matchers
        matcher = self.matchers.get(tool, self.matchers.get(argument))
        return matcher.get(argument) if isinstance(matcher, Mapping) else matcher


@dataclass(frozen=True)
class KeyedCall:
    """A call with the comparison keys of its arguments, computed once."""

    call: ToolCall
    keys: Mapping[str, Hashable]
    whole: Hashable


def _with_keys(call: ToolCall, comparison: CallComparison) -> KeyedCall:
    keys = {name: key_of(value, lenient=comparison.lenient) for name, value in call.args.items()}
    return KeyedCall(call, keys, (call.name, frozenset(keys.items())))


class _ScoreTable:
    """All calls, to be paired by their indices."""

    def __init__(
        self, expected: Sequence[ToolCall], actual: Sequence[ToolCall], comparison: CallComparison
    ) -> None:
        self.expected = [_with_keys(call, comparison) for call in expected]
        self.actual = [_with_keys(call, comparison) for call in actual]
        self.comparison = comparison

    def pair(self, expected: int, actual: int) -> Pair:
        return Pair(expected, actual, self.comparison.arguments(self.expected[expected], self.actual[actual]))

    def scores(self, rows: Places, columns: Places) -> list[list[float | None]]:
        """Score every call with every other of the same tool."""
        return [
            [
                self.pair(row, column).score
                if self.expected[row].call.name == self.actual[column].call.name
                else None
                for column in columns
            ]
            for row in rows
        ]

    def identical_run(self, places: Iterable[tuple[int, int]]) -> list[Pair]:
        """Pair calls place by place for as long as they are identical."""
        run = takewhile(lambda place: self.expected[place[0]].whole == self.actual[place[1]].whole, places)
        return [self.pair(*place) for place in run]


def _in_order(table: _ScoreTable) -> Alignment:
    """Align the calls between the identical runs at both ends; the remaining ones may be misordered."""
    rows, columns = range(len(table.expected)), range(len(table.actual))
    head = table.identical_run(zip(rows, columns, strict=False))
    rows, columns = rows[len(head) :], columns[len(head) :]
    tail = table.identical_run(zip(reversed(rows), reversed(columns), strict=False))
    rows, columns = rows[: len(rows) - len(tail)], columns[: len(columns) - len(tail)]
    _check_steps(len(rows) * len(columns), _ORDERED)
    inner = [
        table.pair(rows[row], columns[column]) for row, column in ordered_matching(table.scores(rows, columns))
    ]
    matched = (*head, *inner, *reversed(tail))
    left_rows, left_columns = _unpaired_indices(rows, columns, matched)
    anywhere = _in_any_order(table, left_rows, left_columns).matched
    misordered = tuple(pair for pair in anywhere if pair.score == 1)
    missing, surplus = _unpaired_indices(left_rows, left_columns, misordered)
    return Alignment(matched, misordered, tuple(missing), tuple(surplus))


def _in_any_order(table: _ScoreTable, rows: Places, columns: Places) -> Alignment:
    """Match identical calls, then calls of the same tool so that as many arguments as possible are right."""
    matched = _identical_pairs(table, rows, columns)
    rows, columns = _unpaired_indices(rows, columns, matched)
    for tool in dict.fromkeys(table.expected[row].call.name for row in rows):
        matched += _pairs_of_tool(
            table,
            [row for row in rows if table.expected[row].call.name == tool],
            [column for column in columns if table.actual[column].call.name == tool],
        )
    missing, surplus = _unpaired_indices(rows, columns, matched)
    matched.sort(key=lambda pair: pair.expected)
    return Alignment(tuple(matched), missing=tuple(missing), surplus=tuple(surplus))


def _identical_pairs(table: _ScoreTable, rows: Places, columns: Places) -> list[Pair]:
    places: dict[Hashable, deque[int]] = defaultdict(deque)
    for column in columns:
        places[table.actual[column].whole].append(column)
    return [table.pair(row, indices.popleft()) for row in rows if (indices := places[table.expected[row].whole])]


def _pairs_of_tool(table: _ScoreTable, rows: Places, columns: Places) -> list[Pair]:
    fewer, more = sorted((len(rows), len(columns)))
    _check_steps(fewer**2 * more, _UNORDERED)
    pairs = matching([[score or 0.0 for score in line] for line in table.scores(rows, columns)])
    return [table.pair(rows[row], columns[column]) for row, column in pairs]


def _unpaired_indices(rows: Places, columns: Places, pairs: Sequence[Pair]) -> tuple[list[int], list[int]]:
    expected, actual = {pair.expected for pair in pairs}, {pair.actual for pair in pairs}
    return [row for row in rows if row not in expected], [column for column in columns if column not in actual]


def _check_steps(steps: int, most: int) -> None:
    if steps > most:
        raise CannotJudge("undefined", "there are too many tool calls that differ to be compared")
