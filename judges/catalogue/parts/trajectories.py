"""Matching the calls of an agent with those of a reference, all or nothing, in several modes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Literal, cast

from pydantic import JsonValue

from judges.catalogue.parts.alignment import CallComparison, KeyedCall
from judges.catalogue.parts.calls import same_value
from judges.errors import CannotJudge
from judges.messages import ToolCall

TrajectoryMode = Literal["strict", "unordered", "subset", "superset", "in_order", "any_order"]
ArgumentsMode = Literal["exact", "ignore", "subset", "superset"]

ArgumentsMatch = Callable[[Mapping[str, JsonValue], Mapping[str, JsonValue]], bool]
"""Whether the arguments made, the first, are right where the second were expected."""

ArgumentsRule = ArgumentsMode | Sequence[str] | ArgumentsMatch
"""How the arguments of a tool are compared: by a mode, by the arguments named alone, or by a function."""

Step = tuple[ToolCall, ...]
"""The calls of one message; they are made at once and have no order."""

_MOST_PAIRS = 250_000


@dataclass(frozen=True, kw_only=True)
class ArgumentsComparison(CallComparison):
    """Compares the arguments of calls by a rule, or by a rule of their tool.

    Args:
        rule: How arguments are compared.
        by_tool: Rules of some tools, by their names.
    """

    rule: ArgumentsRule = "exact"
    by_tool: Mapping[str, ArgumentsRule] = field(default_factory=dict)

    def arguments(self, expected: KeyedCall, actual: KeyedCall) -> dict[str, float]:
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


@dataclass(frozen=True, kw_only=True)
class Trajectories:
    """Two trajectories to match.

    Args:
        expected: The steps of the reference.
        actual: The steps of the agent.
        comparison: How calls are compared.
        grouped: Whether the reference says which calls belong to one message; otherwise each step is one call.
    """

    expected: Sequence[Step]
    actual: Sequence[Step]
    comparison: CallComparison
    grouped: bool

    def match(self, mode: TrajectoryMode) -> bool:
        """Whether the trajectories match.

        Raises:
            CannotJudge: `undefined`, if there are too many calls to compare within seconds.
        """
        expected, actual = list(chain.from_iterable(self.expected)), list(chain.from_iterable(self.actual))
        if len(expected) * len(actual) > _MOST_PAIRS:
            raise CannotJudge("undefined", "there are too many tool calls to be compared")
        if mode == "strict":
            return len(expected) == len(actual) and self._same_steps(expected)
        if mode == "in_order":
            return self._in_order()
        if mode == "unordered":
            return len(expected) == len(actual) and self._all_paired(expected, actual)
        if mode == "subset":
            return len(actual) <= len(expected) and self._all_paired(expected, actual, of_actual=True)
        return self._all_paired(expected, actual)

    def _same_steps(self, expected: Sequence[ToolCall]) -> bool:
        """Whether each step has the calls expected in it; those of a plain list are dealt out to the steps."""
        steps = self.expected if self.grouped else _dealt_out(expected, map(len, self.actual))
        sizes_agree = [len(step) for step in steps] == [len(step) for step in self.actual]
        return sizes_agree and all(map(self._all_paired, steps, self.actual))

    def _in_order(self) -> bool:
        """Whether the expected steps follow each other among the actual ones, each message taking all it can."""
        left = deque(list(step) for step in self.expected if step)
        for calls in self.actual:
            pairing = _Pairing(self._fits, calls)
            while left:
                left[0] = [call for call in left[0] if not pairing.add(call)]
                if left[0]:
                    break
                left.popleft()
        return not left

    def _all_paired(
        self, expected: Sequence[ToolCall], actual: Sequence[ToolCall], *, of_actual: bool = False
    ) -> bool:
        if of_actual:
            pairing = _Pairing(lambda made, wanted: self._fits(wanted, made), expected)
            return all(map(pairing.add, actual))
        pairing = _Pairing(self._fits, actual)
        return all(map(pairing.add, expected))

    def _fits(self, expected: ToolCall, actual: ToolCall) -> bool:
        return expected.name == actual.name and self.comparison.score(expected, actual) == 1


class _Pairing:
    """One-to-one pairs of calls with some others, grown call by call; earlier pairs move to make room.

    Args:
        fits: Whether a call can be paired with another.
        others: The others, each of which is in one pair at most.
    """

    def __init__(self, fits: Callable[[ToolCall, ToolCall], bool], others: Sequence[ToolCall]) -> None:
        self._fits, self._others = fits, others
        self._calls: list[ToolCall] = []
        self._call_of: dict[int, int] = {}
        self._other_of: dict[int, int] = {}
        self._known: dict[tuple[int, int], bool] = {}

    def add(self, call: ToolCall) -> bool:
        """Pair one more call, along the shortest path of pairs that can move; False where there is none."""
        self._calls.append(call)
        start = len(self._calls) - 1
        reached: dict[int, int] = {}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for other in range(len(self._others)):
                if other in reached or not self._can_pair(here, other):
                    continue
                reached[other] = here
                if other not in self._call_of:
                    self._move(other, reached, start)
                    return True
                queue.append(self._call_of[other])
        return False

    def _move(self, other: int, reached: Mapping[int, int], start: int) -> None:
        """Pair along the path that ends at a free place."""
        while True:
            call = reached[other]
            place = self._other_of.get(call, other)
            self._call_of[other], self._other_of[call] = call, other
            if call == start:
                return
            other = place

    def _can_pair(self, call: int, other: int) -> bool:
        if (call, other) not in self._known:
            self._known[call, other] = self._fits(self._calls[call], self._others[other])
        return self._known[call, other]


def _dealt_out(calls: Sequence[ToolCall], sizes: Iterable[int]) -> list[Step]:
    remaining = iter(calls)
    return [tuple(islice(remaining, size)) for size in sizes]


def _same(expected: KeyedCall, actual: KeyedCall, name: str) -> bool:
    return name in expected.keys and name in actual.keys and expected.keys[name] == actual.keys[name]


def _by_function(rule: ArgumentsMatch, expected: KeyedCall, actual: KeyedCall) -> dict[str, float]:
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
        (expected_value, is_expected), (actual_value, is_there) = value_at(expected, path), value_at(actual, path)
        equal = is_expected == is_there and (not is_expected or same_value(expected_value, actual_value))
        name = path if path in expected or path in actual else path.partition(".")[0]
        scores[name] = min(scores.get(name, 1.0), float(equal))
    return scores


def value_at(arguments: Mapping[str, JsonValue], path: str) -> tuple[JsonValue, bool]:
    """Return the value at a path of names with dots between them, and whether there is one."""
    if path in arguments:
        return arguments[path], True
    value: object = arguments
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None, False
        value = value[name]
    return cast("JsonValue", value), True
