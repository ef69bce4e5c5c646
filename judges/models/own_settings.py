"""The settings of a model of a user's own class: what its constructor was given, read from its attributes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from pydantic import SecretStr

_SECRET = re.compile(r"(^|_)(key|secret|password|token|authorization|credentials?)$")
_WITHOUT_EFFECT = {"identity", "max_retries", "name", "retries", "timeout", "timeout_s"}
_DEEPEST = 6
_MISSING = object()


def constructor_settings(model: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings of a model that can be read, as JSON values, and the names of those that cannot.

    A parameter of the constructor is read from the attribute of its name, with or without an underscore before it.
    Keys, and settings that change no reply, are neither. What a model gathers while it works is no setting.
    """
    read: dict[str, Any] = {}
    unread: list[str] = []
    for name in _parameters_of(type(model)):
        if name in _WITHOUT_EFFECT or _SECRET.search(name):
            continue
        value = getattr(model, name, getattr(model, f"_{name}", _MISSING))
        if isinstance(value, Collection) and not value:
            continue
        try:
            read[name] = _as_json(value, _DEEPEST)
        except TypeError:
            unread.append(name)
    return read, tuple(unread)


def _parameters_of(kind: type) -> list[str]:
    try:
        return list(inspect.signature(kind).parameters)
    except (TypeError, ValueError):  # written in C
        return []


def _as_json(value: object, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth == 0 or value is _MISSING:
        raise TypeError
    match value:
        case SecretStr():
            return None
        case Enum() | PurePath():
            return str(value)
        case Mapping():
            return {
                str(name): None if _SECRET.search(str(name).lower()) else _as_json(part, depth - 1)
                for name, part in value.items()
            }
        case list() | tuple():
            return [_as_json(part, depth - 1) for part in value]
        case set() | frozenset():
            return sorted((_as_json(part, depth - 1) for part in value), key=repr)
        case type():
            return f"{value.__module__}.{value.__qualname__}"
        case _:
            raise TypeError
