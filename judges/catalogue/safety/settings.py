"""Checks of the settings that judges of safety share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from judges.catalogue.parts.one_question import checked_text
from judges.errors import ConfigurationError, shortened

W = TypeVar("W", bound=str)


def chosen(words: Collection[W] | None, known: Sequence[W], *, setting: str) -> tuple[W, ...]:
    """Return the words of a setting in the order of those known; None stands for all.

    Raises:
        ConfigurationError: If it is no list, an empty one, or one of them is unknown.
    """
    if words is None:
        return tuple(known)
    value: object = words
    if isinstance(value, str) or not isinstance(value, Collection) or not value:
        raise ConfigurationError(f"{setting} is a list of some of {', '.join(known)}, not {shortened(words)}")
    for word in words:
        if word not in known:
            raise ConfigurationError(f"{setting} has {shortened(word)}; known are {', '.join(known)}")
    return tuple(word for word in known if word in words)


def text_or_none(text: str | None, *, setting: str) -> str | None:
    """Return a setting that is a text in words, or None.

    Raises:
        ConfigurationError: If it is neither, or blank.
    """
    return None if text is None else checked_text(text, setting=setting)
