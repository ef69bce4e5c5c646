"""Checking numbers before anything is computed from them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence, Sized
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def finite(values: object, name: str, *, low: float = -math.inf, high: float = math.inf) -> Array:
    """Return values as an array.

    Args:
        values: Numbers, or rows of numbers.
        name: What they are, for the error.
        low: The smallest that is allowed.
        high: The largest.

    Raises:
        ValueError: If one is None, not a number, infinite or out of range, or if there is no list.
    """
    entries = listed(values, name)
    try:
        data = np.asarray(entries, float)  # None becomes NaN, and text that looks like a number one
    except (TypeError, ValueError):
        data = np.full(len(entries), np.nan)
    if any(isinstance(value, str) for value in entries):
        data = np.array([np.nan if isinstance(value, str) else 0.0 for value in entries])
    wrong = ~np.isfinite(data)
    if wrong.any():
        place = int(np.argwhere(wrong)[0][0])
        raise ValueError(f"{name} are finite numbers, but number {place} is {entries[place]!r}; leave it out")
    wrong = (data < low) | (data > high)
    if wrong.any():
        place = int(np.argwhere(wrong)[0][0])
        span = f"at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{name} are numbers {span}, but number {place} is {entries[place]!r}")
    return data


def rows_of_numbers(rows: Sequence[Any], columns: int, name: str) -> Array:
    """Return rows of numbers as an array.

    Args:
        rows: The rows.
        columns: How many numbers each has.
        name: What they are, for the error.

    Raises:
        ValueError: If a row has more or fewer, or one is no finite number.
    """
    for row in listed(rows, name):
        if isinstance(row, str) or not isinstance(row, Sequence | np.ndarray) or len(row) != columns:
            raise ValueError(f"{name} are rows of {columns} numbers, not {row!r}")
        if not all(_is_number(value) for value in row):
            raise ValueError(f"{name} are finite numbers, but a row is {row!r}; leave it out")
    return np.array(rows, float).reshape(len(rows), columns)


def row_weights(weights: object, rows: int) -> Array:
    """Return the design weights of rows, 1 each where there are none.

    Raises:
        ValueError: If there is not one for each row, one is negative or no number, or all are 0.
    """
    if weights is None:
        return np.ones(rows)
    data = finite(weights, "weights", low=0)
    if data.shape != (rows,):
        raise ValueError(f"weights has a weight for each row: {rows} rows, {len(data)} weights")
    if rows and not data.any():
        raise ValueError("weights are all 0; a row that counts has a weight above 0")
    return data


def verdicts(values: object, name: str) -> Array:
    """Return verdicts that pass or fail as 1 and 0.

    Raises:
        ValueError: If one is neither True nor False, 1 nor 0.
    """
    data = finite(values, name)
    if data.ndim != 1:
        raise ValueError(f"{name} is a list with one of True and False for each row, not rows of them")
    wrong = (data != 0) & (data != 1)
    if wrong.any():
        place = int(np.argwhere(wrong)[0][0])
        raise ValueError(f"{name} are True or False, or 1 or 0, but number {place} is {float(data[place])!r}")
    return data


def whole(value: object, name: str) -> int:
    """Return a count.

    Raises:
        ValueError: If it is no whole number; it may be negative.
    """
    if not _is_number(value) or float(value) != int(value):  # type: ignore[arg-type,call-overload]  # a number here
        raise ValueError(f"{name} is a whole number, not {value!r}")
    return int(value)  # type: ignore[call-overload,no-any-return]  # as above


def share(value: object, name: str) -> float:
    """Return a number between 0 and 1, both excluded.

    Raises:
        ValueError: If it is none.
    """
    if not _is_number(value) or not 0 < float(value) < 1:  # type: ignore[arg-type]  # a number here
        raise ValueError(f"{name} lies between 0 and 1, for instance 0.05 or 0.95; not {value!r}")
    return float(value)  # type: ignore[arg-type]  # as above


def same_length(what: str, *columns: Sized) -> None:
    """Check that columns have a value for each row.

    Raises:
        ValueError: If their lengths differ.
    """
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ValueError(f"{what}: their lengths are {', '.join(map(str, lengths))}")


def on_scale(values: Iterable[Any], levels: Sequence[Hashable], name: str) -> None:
    """Check that ratings are levels of a scale; None is a missing one.

    Raises:
        ValueError: If one is not.
    """
    for value in values:
        if value is not None and value not in levels:
            raise ValueError(
                f"{name} are levels of the scale {tuple(levels)}, or None where missing; not {value!r}"
            )


def recorded_runs(runs: object) -> None:
    """Check that each recorded run is a list of ratings and one of whether each answer is bad.

    Raises:
        ValueError: If one is not.
    """
    for number, run in enumerate(listed(runs, "runs")):
        lists = isinstance(run, Sequence) and not isinstance(run, str) and len(run) == 2  # noqa: PLR2004 - a pair
        if not lists or not all(isinstance(part, Sequence | np.ndarray) for part in run):
            raise ValueError(
                f"a run is (ratings, bad): two lists, an entry for each attempt; run {number} is {run!r}"
            )
        for label in run[1]:
            if label is not None and label not in (True, False):
                raise ValueError(
                    f"bad is True, False, or None without a label, for each attempt; run {number} has {label!r}"
                )


def chosen(value: object, choices: Iterable[str], name: str) -> None:
    """Check that a value is one of the choices.

    Raises:
        ValueError: If it is not.
    """
    names = list(choices)
    if value not in names:
        first = ", ".join(repr(choice) for choice in names[:-1])
        raise ValueError(f"{name} is {first} or {names[-1]!r}, not {value!r}")


def listed(values: object, name: str, *, text: bool = False) -> Sequence[Any]:
    """Return the entries of a list.

    Args:
        values: The list, or an array.
        name: What it is, for the error.
        text: Whether a text, as a list of letters, will do.

    Raises:
        ValueError: If it is none.
    """
    scalar = isinstance(values, np.ndarray) and not values.ndim
    unwanted = isinstance(values, str) and not text
    if scalar or unwanted or isinstance(values, bytes | dict) or not isinstance(values, Iterable):
        raise ValueError(f"{name} is a list, not {values!r}")
    return values if isinstance(values, Sequence | np.ndarray) else list(values)  # type: ignore[return-value]  # an array is as good


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
