"""Checks of settings: a wrong value is reported at once, in one line, with the valid ones."""

from __future__ import annotations

import math
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from judges.errors import ConfigurationError, shortened

C = TypeVar("C")

_MOST_NAMES, _LONGEST_NAME = 24, 80


def suggestion(name: object, names: Collection[str]) -> str:
    """Return a hint for a name that is unknown: the most similar one, or else the names there are."""
    near = get_close_matches(str(name)[:_LONGEST_NAME], names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    known = sorted(names)
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return f"known are {', '.join(known[:_MOST_NAMES])}{more}"


def one_of(words: Any, value: C, *, setting: str) -> C:
    """Return the value of a setting after checking that it is one of the words of a `Literal`.

    Raises:
        ConfigurationError: If it is none of them.
    """
    choices = [repr(word) for word in get_args(words)]
    if shortened(value) not in choices:
        raise ConfigurationError(
            f"{setting} is {', '.join(choices[:-1])} or {choices[-1]}, not {shortened(value)}"
        )
    return value


def whole_number(value: int, *, setting: str, least: int = 1) -> int:
    """Return the value of a setting after checking that it is an integer of at least `least`.

    Raises:
        ConfigurationError: If it is not.
    """
    if type(value) is not int or value < least:
        raise ConfigurationError(f"{setting} is a whole number from {least}, not {shortened(value)}")
    return value


def finite_number(value: object, *, setting: str) -> float:
    """Return the value of a setting after checking that it is a number, and neither infinite nor NaN.

    Raises:
        ConfigurationError: If it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise ConfigurationError(f"{setting} is a finite number, not {shortened(value)}")
    return value


def are_texts(value: object, *, count: int) -> bool:
    """Whether a value is a list or a tuple of exactly so many texts."""
    return isinstance(value, list | tuple) and [type(part) for part in value] == [str] * count


def judge_name(name: object) -> str:
    """Return the name of a judge after checking that it is a text, and not blank.

    Raises:
        ConfigurationError: If it is not.
    """
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"a judge's name is a text such as 'tone', not {shortened(name)}")
    return name
