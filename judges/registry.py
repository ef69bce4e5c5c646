"""Judges by name, for command lines and configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from judges.checks import JsonValid, Length, NumericRange, Pattern
from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.rubric import Helpfulness, Rubric

_CATALOGUE: dict[str, Callable[..., Judge]] = {
    "helpfulness": Helpfulness,
    "json": JsonValid,
    "length": Length,
    "numeric_range": NumericRange,
    "pattern": Pattern,
    "rubric": Rubric,
}


def load(name: str, /, **settings: Any) -> Judge:
    """Make the judge that a name stands for: `load("helpfulness", model="openai:gpt-5-mini")`.

    Args:
        name: A name of the catalogue.
        settings: What the judge's class takes.

    Raises:
        ConfigurationError: If the name is unknown, or a setting is missing, unknown or out of range.
    """
    make = _CATALOGUE.get(name)
    if make is None:
        raise ConfigurationError(f"there is no judge {name!r}; known are {', '.join(sorted(_CATALOGUE))}")
    try:
        return make(**settings)
    except TypeError as error:
        told = str(error).replace(f"{getattr(make, '__name__', name)}.__init__()", f"the judge {name!r}")
        raise ConfigurationError(told) from error
