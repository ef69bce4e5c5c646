"""Pairing the rows of two runs: those that ask the same."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable

from judges.offline.results import Row


def pair_rows(before: Iterable[Row], after: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of two runs that ask the same, in the order of the first.

    A row is paired with the one at the same place if that asks the same, else with the next one that does and has
    no partner yet, so that runs over other parts or another order of a dataset are compared, too. Rows without a
    question have their place alone.

    Args:
        before: Rows of the one run.
        after: Rows of the other.
    """
    first, second = ({row.index: row for row in rows} for rows in (before, after))
    in_place = {i for i, row in first.items() if i in second and question_of(row) == question_of(second[i])}
    moved: defaultdict[Hashable, deque[Row]] = defaultdict(deque)
    for i, row in second.items():
        if i not in in_place and question_of(row):
            moved[question_of(row)].append(row)
    pairs = []
    for i, row in first.items():
        if i in in_place:
            pairs.append((row, second[i]))
        elif moved.get(question_of(row)):
            pairs.append((row, moved[question_of(row)].popleft()))
    return pairs


def question_of(row: Row) -> tuple[str, ...]:
    """Return what the user said in a row."""
    if row.sample is None:
        return ()
    return tuple(message.content for message in row.sample.conversation if message.role == "user")
