"""Fingerprints: a short text that changes whenever something that a verdict depends on does."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel

from judges.model import JudgeModel
from judges.models.identity import identity_of
from judges.settings import MADE_WITH

_PACKAGES = (
    "selfrefine",
    "pydantic",
    "langchain-core",
    "langchain-openai",
    "langchain-anthropic",
    "langchain-ollama",
)
"""Packages that verdicts come from; those of providers count where they are in use."""

_LENGTH = 32
_DEEPEST = 24
_ENGINE_ROOM = frozenset({"_thread", "threading", "weakref", "_weakref", "_contextvars", "asyncio", "logging"})
"""Modules of what an object works with, which says nothing about what it does."""


def fingerprint(*parts: object) -> str:
    """Return 32 hexadecimal digits for judges, policies or generators, the same in every process.

    They change with the class of an object, its settings, the text of its prompts and worked examples, and the
    models it asks (see `judges.models.identity`). A function counts with its name, code, defaults and the values
    it has bound; keys of models do not count. What a function calls elsewhere is not seen. An object whose class
    has `fingerprint_parts()` counts with what that returns, for instance because it keeps what it was asked.
    """
    canonical = json.dumps([_canonical(part, ()) for part in parts], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:_LENGTH]


def package_version(name: str = "selfrefine") -> str:
    """Return the version of an installed package; "unknown" where it runs from its source alone."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def versions_in_use() -> dict[str, str]:
    """Return the versions of Python and of the packages that verdicts come from."""
    used = [name for name in _PACKAGES if name == "selfrefine" or name.replace("-", "_") in sys.modules]
    return {"Python": sys.version.split()[0], **{name: package_version(name) for name in used}}


def _canonical(value: object, around: tuple[int, ...]) -> Any:
    """Return a value as JSON; `around` are the objects it is part of, so that circles end."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return repr(value)
    if id(value) in around or len(around) > _DEEPEST:
        return "..."
    inside = (*around, id(value))
    if isinstance(value, Mapping):
        pairs = [[_canonical(name, inside), _canonical(part, inside)] for name, part in value.items()]
        return {"mapping": sorted(pairs, key=json.dumps)}
    if isinstance(value, list | tuple):
        return [_canonical(part, inside) for part in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted((_canonical(part, inside) for part in value), key=json.dumps)}
    return _object(value, inside)


def _object(value: object, inside: tuple[int, ...]) -> Any:
    if isinstance(value, type):
        return _class(value, inside)
    if isinstance(value, types.MethodType):
        return {"method": value.__func__.__qualname__, "of": _canonical(value.__self__, inside)}
    if isinstance(value, functools.partial):
        return {"partial": _canonical([value.func, value.args, value.keywords], inside)}
    if isinstance(value, types.FunctionType):
        return _function(value, inside)
    if isinstance(value, bytes | bytearray):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if isinstance(value, re.Pattern):
        return {"pattern": [value.pattern, value.flags]}
    if isinstance(value, PurePath):
        return {"path": str(value)}
    if isinstance(value, Enum):
        return [_name(type(value)), value.name]
    if isinstance(value, JudgeModel):
        return {"model": identity_of(value)}
    return {"class": _name(type(value)), "state": _canonical(_state(value), inside)}


def _class(value: type, inside: tuple[int, ...]) -> Any:
    """Return a class by its name; a schema of replies also by its fields, which a model is shown."""
    if issubclass(value, BaseModel):
        return {"schema": _name(value), "fields": _canonical(value.model_json_schema(), inside)}
    return {"type": _name(value)}


def _function(function: types.FunctionType, inside: tuple[int, ...]) -> Any:
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    bound = [function.__defaults__, function.__kwdefaults__, cells]
    return {
        "function": f"{function.__module__}.{function.__qualname__}",
        "code": _code(function.__code__),
        "bound": _canonical(bound, inside),
    }


def _is_filled(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _code(code: types.CodeType) -> list[Any]:
    """Return what a function does; where it stands in its file does not count."""
    constants = [_code(part) if isinstance(part, types.CodeType) else repr(part) for part in code.co_consts]
    constants = (
        [part for part in constants if part != repr(code.co_consts[0])] if _has_docstring(code) else constants
    )
    return [code.co_code.hex(), list(code.co_names), constants]


def _has_docstring(code: types.CodeType) -> bool:
    return bool(code.co_consts) and isinstance(code.co_consts[0], str)


def _state(value: object) -> Any:
    """Return the attributes of an object, without its tools and what it computed and kept; or what it says."""
    parts = getattr(type(value), "fingerprint_parts", None)
    if callable(parts):
        return parts(value)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if hasattr(value, field.name)}
    if isinstance(value, BaseModel):
        return dict(value)
    attributes = getattr(value, "__dict__", {})
    slots = [slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ())]
    state = {**{slot: getattr(value, slot) for slot in slots if hasattr(value, slot)}, **attributes}
    plain_attributes = (
        item for item in state.items() if item[0] != MADE_WITH
    )  # attributes tell what became of it
    places = getattr(type(value), "own_places", ())
    return {
        name: "own" if name in places and part is not None else part
        for name, part in plain_attributes
        if not _is_engine(type(value), name, part)
    }


def _is_engine(owner: type, name: str, part: object) -> bool:
    computed = isinstance(getattr(owner, name, None), functools.cached_property)
    return computed or type(part).__module__.partition(".")[0] in _ENGINE_ROOM


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
