"""Checking settings: a wrong one is told at once, with what is known."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

from judges.errors import ConfigurationError

C = TypeVar("C")


def one_of(words: Any, given: C, *, setting: str) -> C:
    """Check that a setting is one of the words of a `Literal`, and give it back.

    Raises:
        ConfigurationError: If it is none of them.
    """
    known = [repr(one) for one in get_args(words)]
    if repr(given) not in known:
        raise ConfigurationError(f"{setting} is {', '.join(known[:-1])} or {known[-1]}, not {given!r}")
    return given


def whole(given: int, *, setting: str, least: int = 1) -> int:
    """Check that a setting is a whole number from `least` on, and give it back.

    Raises:
        ConfigurationError: If it is none.
    """
    if type(given) is not int or given < least:
        raise ConfigurationError(f"{setting} is a whole number from {least}, not {given!r}")
    return given
