"""Checks of settings: a wrong value is reported at once, with the valid ones."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

from judges.errors import ConfigurationError

C = TypeVar("C")


def one_of(words: Any, value: C, *, setting: str) -> C:
    """Return the value of a setting after checking that it is one of the words of a `Literal`.

    Raises:
        ConfigurationError: If it is none of them.
    """
    choices = [repr(word) for word in get_args(words)]
    if repr(value) not in choices:
        raise ConfigurationError(f"{setting} is {', '.join(choices[:-1])} or {choices[-1]}, not {value!r}")
    return value


def whole_number(value: int, *, setting: str, least: int = 1) -> int:
    """Return the value of a setting after checking that it is an integer of at least `least`.

    Raises:
        ConfigurationError: If it is not.
    """
    if type(value) is not int or value < least:
        raise ConfigurationError(f"{setting} is a whole number from {least}, not {value!r}")
    return value
