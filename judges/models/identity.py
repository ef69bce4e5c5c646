"""Telling models apart: everything that may change what a model replies, as one string."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from judges.model import JudgeModel
from judges.models.providers.langchain import LangChainModel, NamedModel

_WITHOUT_EFFECT = {"callbacks", "max_retries", "metadata", "profile", "tags", "verbose"}
_DEEPEST = 6


def identity_of(model: JudgeModel) -> str:
    """Tell a model from every other whose replies may differ from its own.

    A model with an attribute `identity`, a text, or `settings`, a mapping, says itself what decides its replies:
    endpoint, model and parameters. Of a LangChain model it is made of the class, the endpoint and all settings
    that are plain values, those of a binding included; keys are left out. Of any other model all that is known is
    its class and its name.
    """
    told = getattr(model, "identity", None)
    if isinstance(told, str) and told:
        return told
    kind = f"{type(model).__module__}.{type(model).__qualname__}:{model.name}"
    said = _said(model)
    return (
        kind if said is None else f"{kind}:{hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()}"
    )


def handle_of(model: JudgeModel) -> Hashable:
    """Tell whether two judges of one process ask the very same model, in the same way."""
    if isinstance(model, NamedModel):
        return identity_of(model)
    if isinstance(model, LangChainModel):
        return id(model.chat), model._temperature, model._method  # noqa: SLF001 - of this package
    return id(model)


def _said(model: JudgeModel) -> Any:
    settings = getattr(model, "settings", None)
    if isinstance(settings, Mapping):
        return _described(settings, _DEEPEST)
    chat = model._model if isinstance(model, NamedModel) else model  # noqa: SLF001 - made with the first request
    if not isinstance(chat, LangChainModel):
        return None
    asked = [chat._temperature, chat._method]  # noqa: SLF001 - of this package
    return {"asked": asked, "chat": _described(chat.chat, _DEEPEST)}


def _described(thing: Any, depth: int) -> Any:
    """Write as JSON what a runnable is made of, as far as it consists of plain values."""
    if thing is None or isinstance(thing, bool | int | float | str):
        return thing
    if depth == 0:
        return None
    if isinstance(thing, Mapping):
        return {str(name): _described(one, depth - 1) for name, one in thing.items()}
    if isinstance(thing, list | tuple | set | frozenset):
        told = [_described(one, depth - 1) for one in thing]
        return sorted(told, key=repr) if isinstance(thing, set | frozenset) else told
    if isinstance(thing, type):
        return f"{thing.__module__}.{thing.__qualname__}"
    if isinstance(thing, BaseModel):
        return {"class": _described(type(thing), depth), **dict(_fields(thing, depth - 1))}
    return _address(thing)


def _fields(thing: BaseModel, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield what settings say, and the address that a client kept in a private attribute goes to."""
    for name, value in thing:
        if name not in _WITHOUT_EFFECT:
            yield name, _described(value, depth)
    for name, value in (thing.__pydantic_private__ or {}).items():
        yield name, _address(value)


def _address(client: Any) -> str | None:
    """Read the endpoint off a client, which may have taken it from the environment."""
    told = getattr(client, "base_url", None) or getattr(getattr(client, "_client", None), "base_url", None)
    return None if told is None else str(told)
