"""Identity of models: everything that may change a model's replies, as one string."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Collection, Hashable, Iterator, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel, SecretStr

from judges.model import JudgeModel
from judges.models.providers.langchain import LangChainModel, NamedModel

_SECRET = re.compile(r"(^|_)(key|secret|password|token|authorization|credentials?)$")
_SETTINGS_WITHOUT_EFFECT = {"identity", "max_retries", "name", "retries", "timeout", "timeout_s"}
_DEEPEST = 6
_MISSING = object()


def _constructor_settings(model: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the settings of a model that can be read, as JSON values, and the names of those that cannot.

    A parameter of the constructor is read from the attribute of its name, with or without an underscore before it.
    Keys, and settings that change no reply, are neither. What a model gathers while it works is no setting.
    """
    read: dict[str, Any] = {}
    unread: list[str] = []
    for name in _parameters_of(type(model)):
        if name in _SETTINGS_WITHOUT_EFFECT or _SECRET.search(name):
            continue
        value = getattr(model, name, getattr(model, f"_{name}", _MISSING))
        if isinstance(value, Collection) and not value:
            continue
        try:
            read[name] = _setting_as_json(value, _DEEPEST)
        except TypeError:
            unread.append(name)
    return read, tuple(unread)


def _parameters_of(kind: type) -> list[str]:
    try:
        return list(inspect.signature(kind).parameters)
    except (TypeError, ValueError):  # written in C
        return []


def _setting_as_json(value: object, depth: int) -> Any:
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
                str(name): None if _SECRET.search(str(name).lower()) else _setting_as_json(part, depth - 1)
                for name, part in value.items()
            }
        case list() | tuple():
            return [_setting_as_json(part, depth - 1) for part in value]
        case set() | frozenset():
            return sorted((_setting_as_json(part, depth - 1) for part in value), key=repr)
        case type():
            return f"{value.__module__}.{value.__qualname__}"
        case _:
            raise TypeError


_WITHOUT_EFFECT = {"callbacks", "max_retries", "metadata", "profile", "tags", "verbose"}


def identity_of(model: JudgeModel) -> str:
    """Return a text that differs between models whose replies may differ.

    A model may define it by an attribute `identity`, a text, or `settings`, a mapping, with endpoint, model and
    parameters. For a LangChain model it covers the class, the endpoint and all settings that are plain values,
    those of a binding included; keys are left out. For any other model it covers its class, its name and what its
    constructor was given, as far as that can be read; see `unread_settings`.
    """
    identity = getattr(model, "identity", None)
    if isinstance(identity, str) and identity:
        return identity
    kind = f"{type(model).__module__}.{type(model).__qualname__}:{model.name}"
    settings = _settings(model)
    if settings is None:
        settings, _ = _constructor_settings(model)
    if not settings:
        return kind
    return f"{kind}:{hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()}"


def unread_settings(model: JudgeModel) -> tuple[str, ...]:
    """Return which settings of a model its identity does not cover, so that two may be taken for one."""
    declared = getattr(model, "unread_settings", None)
    if isinstance(declared, tuple):
        return declared
    identity = getattr(model, "identity", None)
    if (isinstance(identity, str) and identity) or _settings(model) is not None:
        return ()
    return _constructor_settings(model)[1]


def handle_of(model: JudgeModel) -> Hashable:
    """Return a key that, within one process, is equal for the very same model with the same settings."""
    if isinstance(model, NamedModel):
        return identity_of(model)
    if isinstance(model, LangChainModel):
        return id(model.chat), model._temperature, model._method  # noqa: SLF001 - of this package
    return id(model)


def _settings(model: JudgeModel) -> Any:
    settings = getattr(model, "settings", None)
    if isinstance(settings, Mapping):
        return _as_json(settings, _DEEPEST)
    chat = model._model if isinstance(model, NamedModel) else model  # noqa: SLF001 - created by the first request
    if not isinstance(chat, LangChainModel):
        return None
    requested = [chat._temperature, chat._method]  # noqa: SLF001 - of this package
    return {"asked": requested, "chat": _as_json(chat.chat, _DEEPEST)}


def _as_json(value: Any, depth: int) -> Any:
    """Return the parts of a runnable as JSON values, as far as they are plain values."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth == 0:
        return None
    if isinstance(value, Mapping):
        return {str(name): _as_json(part, depth - 1) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_as_json(part, depth - 1) for part in value]
        return sorted(parts, key=repr) if isinstance(value, set | frozenset) else parts
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, BaseModel):
        return {"class": _as_json(type(value), depth), **dict(_fields(value, depth - 1))}
    return _address(value)


def _fields(settings: BaseModel, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the fields of settings, and the addresses of clients in private attributes."""
    for name, value in settings:
        if name not in _WITHOUT_EFFECT:
            yield name, _as_json(value, depth)
    for name, value in (settings.__pydantic_private__ or {}).items():
        yield name, _address(value)


def _address(client: Any) -> str | None:
    """Return the address of a client's endpoint, which may come from the environment."""
    url = getattr(client, "base_url", None) or getattr(getattr(client, "_client", None), "base_url", None)
    return None if url is None else str(url)
