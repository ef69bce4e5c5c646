"""Aligning tool calls: those that were wanted with those that were made, call by call, argument by argument."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from pydantic import JsonValue

from judges.catalogue.parts.calls import key_of
from judges.catalogue.parts.pairing import common, matching
from judges.errors import CannotJudge
from judges.messages import ToolCall

Matcher = Callable[[JsonValue, JsonValue], float]
"""Compares an argument's wanted and given value: 0 for different to 1 for the same."""

Matchers = Matcher | Mapping[str, Matcher | Mapping[str, Matcher]]
"""One matcher for all arguments, or some by tool, by tool and argument, or by argument."""

Extra = Literal["ignore", "strict", "bare"]
"""What arguments cost that were not wanted: nothing; each as much as a wrong one; or that only where none was."""

Places = Sequence[int]

_ORDERED, _UNORDERED = 2_000_000, 20_000_000
"""Steps that aligning and matching may take: about two seconds."""


@dataclass(frozen=True)
class Pair:
    """A wanted call and the one made for it, by their places, with the score of each argument that counts."""

    wanted: int
    made: int
    arguments: Mapping[str, float]

    @property
    def score(self) -> float:
        """The mean of the arguments' scores; 1 where none counts."""
        return math.fsum(self.arguments.values()) / len(self.arguments) if self.arguments else 1.0


@dataclass(frozen=True)
class Alignment:
    """How the calls made fit those wanted.

    Args:
        matched: Pairs of the same tool, in order where order counts; their arguments may differ.
        misordered: Pairs of the same call, but in another order than wanted.
        missing: Places of wanted calls that were not made.
        surplus: Places of calls made that nobody wanted.
    """

    matched: tuple[Pair, ...]
    misordered: tuple[Pair, ...] = ()
    missing: tuple[int, ...] = ()
    surplus: tuple[int, ...] = ()

    @property
    def wrong(self) -> tuple[Pair, ...]:
        """Matched pairs whose arguments differ."""
        return tuple(one for one in self.matched if one.score < 1)

    @property
    def total(self) -> float:
        """The sum of the matched pairs' scores."""
        return math.fsum(one.score for one in self.matched)


@dataclass(frozen=True, kw_only=True)
class CallComparison:
    """How calls are compared.

    Args:
        matchers: Compare arguments; without one, values are equal as JSON.
        extra: What arguments cost that were not wanted.
        lenient: Whether a number, `true`, `false` or `null` is the same as the text that spells it.
    """

    matchers: Matchers | None = None
    extra: Extra = "ignore"
    lenient: bool = False

    def aligned(self, wanted: Sequence[ToolCall], made: Sequence[ToolCall], *, ordered: bool) -> Alignment:
        """Align the calls: by the best common subsequence where order counts, else by the best matching.

        Raises:
            CannotJudge: `undefined`, if there are too many to compare within seconds.
        """
        table = _ScoreTable(wanted, made, self)
        return _in_order(table) if ordered else _in_any_order(table, range(len(wanted)), range(len(made)))

    def score(self, wanted: ToolCall, made: ToolCall) -> float:
        """Give how far the arguments of one call are those of another, 0 to 1; the tool is not looked at."""
        return Pair(0, 0, self.arguments(_keyed(wanted, self), _keyed(made, self))).score

    def arguments(self, wanted: _Keyed, made: _Keyed) -> dict[str, float]:
        """Give the score of each argument that counts."""
        scores = {name: self._score(wanted, made, name) for name in wanted.keys}
        if self.extra == "strict" or (self.extra == "bare" and not scores):
            scores.update({name: 0.0 for name in made.keys if name not in scores})
        return scores

    def _score(self, wanted: _Keyed, made: _Keyed, argument: str) -> float:
        if argument not in made.keys:
            return 0.0
        tool = wanted.call.name
        matcher = self._matcher(tool, argument)
        if matcher is None:
            return float(wanted.keys[argument] == made.keys[argument])
        score: object = matcher(wanted.call.args[argument], made.call.args[argument])
        if isinstance(score, int | float) and 0 <= score <= 1:
            return float(score)
        told = repr(score) if isinstance(score, int | float) else f"a {type(score).__name__}"
        raise CannotJudge("judge_failed", f"a comparison of arguments gave {told}, not a number from 0 to 1")

    def _matcher(self, tool: str, argument: str) -> Matcher | None:
        if not isinstance(self.matchers, Mapping):
            return self.matchers
        found = self.matchers.get(tool, self.matchers.get(argument))
        return found.get(argument) if isinstance(found, Mapping) else found


@dataclass(frozen=True)
class _Keyed:
    """A call with the keys of its arguments, made once."""

    call: ToolCall
    keys: Mapping[str, Hashable]
    whole: Hashable


def _keyed(call: ToolCall, comparison: CallComparison) -> _Keyed:
    keys = {name: key_of(value, lenient=comparison.lenient) for name, value in call.args.items()}
    return _Keyed(call, keys, (call.name, frozenset(keys.items())))


class _ScoreTable:
    """All calls, to be paired by their places."""

    def __init__(self, wanted: Sequence[ToolCall], made: Sequence[ToolCall], comparison: CallComparison) -> None:
        self.wanted = [_keyed(one, comparison) for one in wanted]
        self.made = [_keyed(one, comparison) for one in made]
        self.comparison = comparison

    def pair(self, wanted: int, made: int) -> Pair:
        return Pair(wanted, made, self.comparison.arguments(self.wanted[wanted], self.made[made]))

    def scores(self, rows: Places, columns: Places) -> list[list[float | None]]:
        """Score every call with every other of the same tool."""
        return [
            [
                self.pair(row, column).score if self.wanted[row].call.name == self.made[column].call.name else None
                for column in columns
            ]
            for row in rows
        ]

    def alike(self, places: Iterable[tuple[int, int]]) -> list[Pair]:
        """Pair calls place by place for as long as they are identical."""
        same_call = takewhile(lambda both: self.wanted[both[0]].whole == self.made[both[1]].whole, places)
        return [self.pair(*both) for both in same_call]


def _in_order(table: _ScoreTable) -> Alignment:
    """Align what differs between the identical calls at both ends; what is left may stand in another order."""
    rows, columns = range(len(table.wanted)), range(len(table.made))
    head = table.alike(zip(rows, columns, strict=False))
    rows, columns = rows[len(head) :], columns[len(head) :]
    tail = table.alike(zip(reversed(rows), reversed(columns), strict=False))
    rows, columns = rows[: len(rows) - len(tail)], columns[: len(columns) - len(tail)]
    _allowed(len(rows) * len(columns), _ORDERED)
    inner = [table.pair(rows[row], columns[column]) for row, column in common(table.scores(rows, columns))]
    matched = (*head, *inner, *reversed(tail))
    not_made, not_wanted = _unpaired(rows, columns, matched)
    elsewhere = tuple(one for one in _in_any_order(table, not_made, not_wanted).matched if one.score == 1)
    missing, surplus = _unpaired(not_made, not_wanted, elsewhere)
    return Alignment(matched, elsewhere, tuple(missing), tuple(surplus))


def _in_any_order(table: _ScoreTable, rows: Places, columns: Places) -> Alignment:
    """Match identical calls, then calls of the same tool so that as many arguments as can be are right."""
    matched = _identical(table, rows, columns)
    rows, columns = _unpaired(rows, columns, matched)
    for tool in dict.fromkeys(table.wanted[row].call.name for row in rows):
        matched += _of_tool(
            table,
            [row for row in rows if table.wanted[row].call.name == tool],
            [column for column in columns if table.made[column].call.name == tool],
        )
    missing, surplus = _unpaired(rows, columns, matched)
    matched.sort(key=lambda one: one.wanted)
    return Alignment(tuple(matched), missing=tuple(missing), surplus=tuple(surplus))


def _identical(table: _ScoreTable, rows: Places, columns: Places) -> list[Pair]:
    places: dict[Hashable, deque[int]] = defaultdict(deque)
    for column in columns:
        places[table.made[column].whole].append(column)
    return [table.pair(row, there.popleft()) for row in rows if (there := places[table.wanted[row].whole])]


def _of_tool(table: _ScoreTable, rows: Places, columns: Places) -> list[Pair]:
    fewer, more = sorted((len(rows), len(columns)))
    _allowed(fewer**2 * more, _UNORDERED)
    found = matching([[one or 0.0 for one in line] for line in table.scores(rows, columns)])
    return [table.pair(rows[row], columns[column]) for row, column in found]


def _unpaired(rows: Places, columns: Places, pairs: Sequence[Pair]) -> tuple[list[int], list[int]]:
    wanted, made = {one.wanted for one in pairs}, {one.made for one in pairs}
    return [one for one in rows if one not in wanted], [one for one in columns if one not in made]


def _allowed(steps: int, most: int) -> None:
    if steps > most:
        raise CannotJudge("undefined", "there are too many tool calls that differ to be compared")
