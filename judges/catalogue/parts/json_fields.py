"""Two JSON values compared field by field, with lists matched place by place or by the best pairing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from pydantic import JsonValue

from judges.catalogue.parts.calls import key_of
from judges.catalogue.parts.tables import matching
from judges.errors import CannotJudge

ListMode = Literal["ordered", "same_elements", "subset", "superset"]
FieldState = Literal["same", "different", "missing", "extra", "to_judge"]

ROOT = "$"
"""The path of a whole JSON value."""

_MOST_PAIRS = 20_000
"""Most pairs of items of two lists that are compared."""
_MOST_STEPS = 8_000_000
"""Most steps of matching them."""


class JsonField(NamedTuple):
    """One field of two JSON values.

    Args:
        path: Where it stands: `items[0].name`.
        pattern: The same without the indices, as settings name it: `items[].name`.
        state: How the two agree; `to_judge` where both are there and a judge is to compare them.
        expected: The value expected; None where there is none.
        actual: The value that is there; None where there is none.
    """

    path: str
    pattern: str
    state: FieldState
    expected: JsonValue = None
    actual: JsonValue = None


class _Place(NamedTuple):
    path: str
    pattern: str

    def inside(self, name: str) -> _Place:
        return _Place(_joined(self.path, name), _joined(self.pattern, name))

    def element(self, index: int) -> _Place:
        root = self.path == ROOT
        return _Place(f"{'' if root else self.path}[{index}]", f"{'' if root else self.pattern}[]")


_START = _Place(ROOT, ROOT)


@dataclass(frozen=True, kw_only=True)
class JsonComparison:
    """How two JSON values are compared.

    Args:
        judged: Patterns of the fields that a judge compares, whole.
        ignored: Patterns of the fields that do not count.
        lists: How the elements of lists are matched.
        allow_extra: Whether fields that are not expected do not count.
    """

    judged: Collection[str] = ()
    ignored: Collection[str] = ()
    lists: ListMode = "ordered"
    allow_extra: bool = False

    def fields(self, expected: JsonValue, actual: JsonValue) -> list[JsonField]:
        """Return the fields of both values, those of the expected one first.

        Raises:
            CannotJudge: `undefined`, if lists that differ are too long to be paired within seconds, or the values
                are nested too deep.
        """
        try:
            return list(self._fields(expected, actual, _START))
        except RecursionError:
            raise CannotJudge("undefined", "the JSON is nested too deep to be compared") from None

    def _fields(self, expected: JsonValue, actual: JsonValue, place: _Place) -> Iterator[JsonField]:
        if place.pattern in self.ignored:
            return
        if place.pattern in self.judged:
            yield JsonField(*place, "to_judge", expected, actual)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            yield from self._of_objects(expected, actual, place)
        elif isinstance(expected, list) and isinstance(actual, list):
            yield from self._of_lists(expected, actual, place)
        else:
            same = key_of(expected) == key_of(actual)
            yield JsonField(*place, "same" if same else "different", expected, actual)

    def _of_objects(
        self, expected: Mapping[str, JsonValue], actual: Mapping[str, JsonValue], place: _Place
    ) -> Iterator[JsonField]:
        if not expected and not actual:
            yield JsonField(*place, "same", {}, {})
        for name, value in expected.items():
            if name in actual:
                yield from self._fields(value, actual[name], place.inside(name))
            else:
                yield from self._alone(value, place.inside(name), "missing")
        if not self.allow_extra:
            for name in [name for name in actual if name not in expected]:
                yield from self._alone(actual[name], place.inside(name), "extra")

    def _of_lists(
        self, expected: Sequence[JsonValue], actual: Sequence[JsonValue], place: _Place
    ) -> Iterator[JsonField]:
        if not expected and not actual:
            yield JsonField(*place, "same", [], [])
        pairs = dict(self._pairs(expected, actual, place))
        for row, value in enumerate(expected):
            if row in pairs:
                yield from self._fields(value, actual[pairs[row]], place.element(row))
            elif self.lists != "subset":
                yield from self._alone(value, place.element(row), "missing")
        if self.lists != "superset":
            for column in sorted(set(range(len(actual))) - set(pairs.values())):
                yield from self._alone(actual[column], place.element(column), "extra")

    def _alone(self, value: JsonValue, place: _Place, state: FieldState) -> Iterator[JsonField]:
        """Yield a value that only one side has, as one field."""
        if place.pattern not in self.ignored:
            both = (value, None) if state == "missing" else (None, value)
            yield JsonField(*place, state, *both)

    def _pairs(
        self, expected: Sequence[JsonValue], actual: Sequence[JsonValue], place: _Place
    ) -> Iterator[tuple[int, int]]:
        """Pair elements: place by place, or equal ones first and the others so that most fields agree."""
        if self.lists == "ordered":
            yield from zip(range(len(expected)), range(len(actual)), strict=False)
            return
        equal = _equal_pairs(expected, actual)
        yield from equal
        used = {column for _, column in equal}
        rows = [row for row in range(len(expected)) if row not in dict(equal)]
        columns = [column for column in range(len(actual)) if column not in used]
        fewer, more = sorted((len(rows), len(columns)))
        if fewer * more > _MOST_PAIRS or fewer**2 * more > _MOST_STEPS:
            raise CannotJudge("undefined", f"the lists at {place.path} differ in too many elements to be paired")
        weights = [[self._likeness(expected[row], actual[column], place) for column in columns] for row in rows]
        yield from ((rows[row], columns[column]) for row, column in matching(weights))

    def _likeness(self, expected: JsonValue, actual: JsonValue, place: _Place) -> float:
        """Return the share of fields that agree, before any judge is asked; lists inside are taken in order."""
        fields = list(replace(self, lists="ordered")._fields(expected, actual, place.element(0)))
        return sum(map(_agrees, fields)) / len(fields) if fields else 1.0


def _equal_pairs(expected: Sequence[JsonValue], actual: Sequence[JsonValue]) -> list[tuple[int, int]]:
    free: dict[Hashable, list[int]] = defaultdict(list)
    for column in reversed(range(len(actual))):
        free[_unordered_key(actual[column])].append(column)
    return [(row, free[key].pop()) for row, value in enumerate(expected) if free[key := _unordered_key(value)]]


def _unordered_key(value: JsonValue) -> Hashable:
    """Return a key that values share which are equal but for the order of lists in them."""
    if isinstance(value, dict):
        return ("object", frozenset((name, _unordered_key(part)) for name, part in value.items()))
    if isinstance(value, list):
        return ("list", frozenset(Counter(map(_unordered_key, value)).items()))
    return key_of(value)


def _agrees(field: JsonField) -> bool:
    if field.state == "to_judge":
        return key_of(field.expected) == key_of(field.actual)
    return field.state == "same"


def _joined(path: str, name: str) -> str:
    return name if path == ROOT else f"{path}.{name}"
