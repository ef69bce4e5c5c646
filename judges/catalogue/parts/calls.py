"""Tool calls: expected and actual ones, how their arguments are compared, and their alignment."""

from __future__ import annotations

import json
import math
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import Literal, cast

from pydantic import JsonValue

from judges.catalogue.parts.claims import cut
from judges.catalogue.parts.tables import matching, ordered_matching
from judges.errors import CannotJudge
from judges.messages import ToolCall
from judges.sample import Sample


def actual_calls_in(sample: Sample) -> tuple[ToolCall, ...]:
    """Return the calls of all assistant messages, in order."""
    return tuple(call for message in sample.messages if message.role == "assistant" for call in message.tool_calls)


def parallel_calls_in(sample: Sample) -> tuple[tuple[ToolCall, ...], ...]:
    """Return the calls of each message of the assistant that has some; those of one message have no order."""
    return tuple(
        message.tool_calls for message in sample.messages if message.role == "assistant" and message.tool_calls
    )


def reference_calls_in(sample: Sample) -> tuple[ToolCall, ...]:
    """Return the calls that should have been made; an empty list means that none should.

    Raises:
        CannotJudge: `no_reference`, if the sample has no reference calls.
    """
    if sample.reference_tool_calls is None:
        raise CannotJudge("no_reference", "there are no reference_tool_calls to compare with")
    return sample.reference_tool_calls


def render_call(call: ToolCall) -> str:
    """Return a call in readable form: `name(argument=value, ...)`, the values as JSON."""
    arguments = ", ".join(f"{name}={render_value(value)}" for name, value in call.args.items())
    return cut(f"{call.name}({arguments})")


def render_value(value: JsonValue) -> str:
    """Return a value as JSON, shortened if it is long."""
    return cut(json.dumps(value, ensure_ascii=False), most=100)


def _same_value(a: JsonValue, b: JsonValue, *, lenient: bool = False) -> bool:
    """Return whether two values are equal as JSON: 75 is 75.0; 75 is "75" only if `lenient`; 1 is never `true`."""
    return key_of(a, lenient=lenient) == key_of(b, lenient=lenient)


def key_of(value: JsonValue, *, lenient: bool = False) -> Hashable:
    """Return a hashable key that equal JSON values share, and no others."""
    if isinstance(value, dict):
        return ("object", frozenset((name, key_of(item, lenient=lenient)) for name, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(key_of(item, lenient=lenient) for item in value))
    if lenient and isinstance(value, str):
        value = _parse_literal(value)
    return ("number" if type(value) in (int, float) else type(value).__name__, value)


def _parse_literal(text: str) -> str | float | bool | None:
    """Return the number, truth value or null that a text spells; any other text unchanged."""
    try:
        value = json.loads(text.strip().lower())
    except (ValueError, RecursionError):
        return text
    return value if value is None or isinstance(value, int | float) else text


_Matcher = Callable[[JsonValue, JsonValue], float]
"""Compares an argument's expected and actual value: from 0 for different to 1 for equal."""

Matchers = _Matcher | Mapping[str, _Matcher | Mapping[str, _Matcher]]
"""One matcher for all arguments, or some by tool, by tool and argument, or by argument."""

Extra = Literal["ignore", "strict", "bare"]
"""How unexpected arguments count: not at all; each as a wrong one; or so only where none was expected."""

_Places = Sequence[int]

_ORDERED = 2_000_000
"""Steps that aligning may take: about two seconds."""
_UNORDERED = 20_000_000
"""Steps that matching may take: as long."""


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
class CallAlignment:
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

    def align(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall], *, ordered: bool) -> CallAlignment:
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
        actual = tuple(chain.from_iterable(parallel))
        if all(len(calls) == 1 for calls in parallel):
            return actual
        partner = {pair.actual: pair.expected for pair in self.align(expected, actual, ordered=False).matched}
        ordered: list[ToolCall] = []
        for calls in parallel:
            places = range(len(ordered), len(ordered) + len(calls))
            ordered += [actual[place] for place in sorted(places, key=lambda at: partner.get(at, len(expected)))]
        as_made = self.align(expected, actual, ordered=True).total
        return actual if as_made >= self.align(expected, ordered, ordered=True).total else tuple(ordered)

    def score(self, expected: ToolCall, actual: ToolCall) -> float:
        """Return how far the arguments of two calls agree, 0 to 1, whatever the tools."""
        return Pair(0, 0, self.arguments(_with_keys(expected, self), _with_keys(actual, self))).score

    def arguments(self, expected: _KeyedCall, actual: _KeyedCall) -> dict[str, float]:
        """Return the score of each argument that counts."""
        scores = {name: self._score(expected, actual, name) for name in expected.keys}
        if self.extra == "strict" or (self.extra == "bare" and not scores):
            scores.update({name: 0.0 for name in actual.keys if name not in scores})
        return scores

    def _score(self, expected: _KeyedCall, actual: _KeyedCall, argument: str) -> float:
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

    def _matcher(self, tool: str, argument: str) -> _Matcher | None:
        if not isinstance(self.matchers, Mapping):
            return self.matchers
        matcher = self.matchers.get(tool, self.matchers.get(argument))
        return matcher.get(argument) if isinstance(matcher, Mapping) else matcher


@dataclass(frozen=True)
class _KeyedCall:
    """A call with the comparison keys of its arguments, computed once."""

    call: ToolCall
    keys: Mapping[str, Hashable]
    whole: Hashable


def _with_keys(call: ToolCall, comparison: CallComparison) -> _KeyedCall:
    keys = {name: key_of(value, lenient=comparison.lenient) for name, value in call.args.items()}
    return _KeyedCall(call, keys, (call.name, frozenset(keys.items())))


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

    def scores(self, rows: _Places, columns: _Places) -> list[list[float | None]]:
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


def _in_order(table: _ScoreTable) -> CallAlignment:
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
    return CallAlignment(matched, misordered, tuple(missing), tuple(surplus))


def _in_any_order(table: _ScoreTable, rows: _Places, columns: _Places) -> CallAlignment:
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
    return CallAlignment(tuple(matched), missing=tuple(missing), surplus=tuple(surplus))


def _identical_pairs(table: _ScoreTable, rows: _Places, columns: _Places) -> list[Pair]:
    places: dict[Hashable, deque[int]] = defaultdict(deque)
    for column in columns:
        places[table.actual[column].whole].append(column)
    return [table.pair(row, indices.popleft()) for row in rows if (indices := places[table.expected[row].whole])]


def _pairs_of_tool(table: _ScoreTable, rows: _Places, columns: _Places) -> list[Pair]:
    fewer, more = sorted((len(rows), len(columns)))
    _check_steps(fewer**2 * more, _UNORDERED)
    pairs = matching([[score or 0.0 for score in line] for line in table.scores(rows, columns)])
    return [table.pair(rows[row], columns[column]) for row, column in pairs]


def _unpaired_indices(rows: _Places, columns: _Places, pairs: Sequence[Pair]) -> tuple[list[int], list[int]]:
    expected, actual = {pair.expected for pair in pairs}, {pair.actual for pair in pairs}
    return [row for row in rows if row not in expected], [column for column in columns if column not in actual]


def _check_steps(steps: int, most: int) -> None:
    if steps > most:
        raise CannotJudge("undefined", "there are too many tool calls that differ to be compared")


ArgumentsMode = Literal["exact", "ignore", "subset", "superset"]

_ArgumentsMatch = Callable[[Mapping[str, JsonValue], Mapping[str, JsonValue]], bool]
"""Whether the arguments made, the first, are right where the second were expected."""

ArgumentsRule = ArgumentsMode | Sequence[str] | _ArgumentsMatch
"""How the arguments of a tool are compared: by a mode, by the arguments named alone, or by a function."""

Step = tuple[ToolCall, ...]
"""The calls of one message; they are made at once and have no order."""


@dataclass(frozen=True, kw_only=True)
class ArgumentsComparison(CallComparison):
    """Compares the arguments of calls by a rule, or by a rule of their tool.

    Args:
        rule: How arguments are compared.
        by_tool: Rules of some tools, by their names.
    """

    rule: ArgumentsRule = "exact"
    by_tool: Mapping[str, ArgumentsRule] = field(default_factory=dict)

    def arguments(self, expected: _KeyedCall, actual: _KeyedCall) -> dict[str, float]:
        """Return 1 or 0 for each argument that counts."""
        rule = self.by_tool.get(expected.call.name, self.rule)
        if callable(rule):
            return _by_function(rule, expected, actual)
        if not isinstance(rule, str):
            return _by_paths(rule, expected.call.args, actual.call.args)
        names = {
            "exact": dict.fromkeys((*expected.keys, *actual.keys)),
            "ignore": (),
            "subset": actual.keys,
            "superset": expected.keys,
        }[rule]
        return {name: float(_same(expected, actual, name)) for name in names}


def _same(expected: _KeyedCall, actual: _KeyedCall, name: str) -> bool:
    return name in expected.keys and name in actual.keys and expected.keys[name] == actual.keys[name]


def _by_function(rule: _ArgumentsMatch, expected: _KeyedCall, actual: _KeyedCall) -> dict[str, float]:
    """Return nothing wrong where the function agrees; otherwise the arguments that differ, or all of them."""
    if rule(dict(actual.call.args), dict(expected.call.args)):
        return {}
    names = list(dict.fromkeys((*expected.keys, *actual.keys)))
    return dict.fromkeys([name for name in names if not _same(expected, actual, name)] or names or [""], 0.0)


def _by_paths(
    paths: Sequence[str], expected: Mapping[str, JsonValue], actual: Mapping[str, JsonValue]
) -> dict[str, float]:
    """Compare the values at some paths, such as `"city"` or `"order.id"`; one that neither has is equal."""
    scores: dict[str, float] = {}
    for path in paths:
        (expected_value, is_expected), (actual_value, is_there) = (
            _value_at(expected, path),
            _value_at(actual, path),
        )
        equal = is_expected == is_there and (not is_expected or _same_value(expected_value, actual_value))
        name = path if path in expected or path in actual else path.partition(".")[0]
        scores[name] = min(scores.get(name, 1.0), float(equal))
    return scores


def _value_at(arguments: Mapping[str, JsonValue], path: str) -> tuple[JsonValue, bool]:
    """Return the value at a path of names with dots between them, and whether there is one."""
    if path in arguments:
        return arguments[path], True
    value: object = arguments
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None, False
        value = value[name]
    return cast("JsonValue", value), True
