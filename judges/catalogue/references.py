"""Judges of one's own by reference: `module:object` for a judge, a class or a function."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from judges.catalogue.registry import default_registry
from judges.compose.panel import as_judge
from judges.errors import ConfigurationError, one_line
from judges.judge import Judge

_REFERENCE = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_][\w.]*")
_FIRST = re.compile(rf"({_REFERENCE.pattern})(?::(.*))?", re.DOTALL)
_ALIKE = 0.75


def is_reference(name: str) -> bool:
    """Whether a name is `module:object`."""
    return _REFERENCE.fullmatch(name) is not None


def split_reference(text: str) -> tuple[str, str] | None:
    """Return `module:object` and the settings behind it; None if it is a judge of the catalogue with settings."""
    match = _FIRST.fullmatch(text.strip())
    return None if match is None or match[2] in default_registry() else (match[1], match[3] or "")


def make(reference: str, settings: Mapping[str, Any]) -> Judge:
    """Return the judge that `module:object` names.

    A class is called with the settings, and so is a function where there are any.

    Raises:
        ConfigurationError: If it cannot be imported, cannot be made, or is no judge.
    """
    target = imported(reference)
    if not _is_called(target, settings):
        if settings:
            raise ConfigurationError(f"{reference} is a judge already; leave its settings out")
        return as_judge(target)
    try:
        return as_judge(target(**settings))
    except TypeError as error:
        missing = re.findall(r"'(\w+)'", str(error).partition(" missing ")[2])
        hint = f"; write {reference}:{','.join(f'{name}=...' for name in missing)}" if missing else ""
        hint = hint if isinstance(target, type) else "; if it is a judge already, leave them out"
        raise ConfigurationError(f"{reference} cannot be made of its settings: {one_line(error)}{hint}") from error


def takes(reference: str, setting: str, settings: Mapping[str, object]) -> bool:
    """Whether what is called with the settings has a parameter of this name.

    Raises:
        ConfigurationError: If it cannot be imported.
    """
    target = imported(reference)
    return _is_called(target, settings) and setting in _parameters(target)


def _is_called(target: object, settings: Mapping[str, object]) -> bool:
    return isinstance(target, type) or (bool(settings) and callable(target) and not isinstance(target, Judge))


def _parameters(function: Callable[..., object]) -> set[str]:
    """Return the names of a function's parameters, or of a class's and of the bases that it passes others to."""
    names: set[str] = set()
    for maker in _makers(function):
        parameters = inspect.signature(maker).parameters
        names |= set(parameters)
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values()):
            break
    return names


def _makers(function: Callable[..., object]) -> list[Callable[..., object]]:
    if not isinstance(function, type):
        return [function]
    return [vars(kind)["__init__"] for kind in function.__mro__[:-1] if "__init__" in vars(kind)]


def imported(reference: str) -> Any:
    """Return what `module:object` names.

    Raises:
        ConfigurationError: If it cannot be imported.
    """
    module, _, path = reference.partition(":")
    try:
        target: Any = import_module(module)
        for part in path.split("."):
            target = getattr(target, part)
    except Exception as error:  # whatever a module of one's own raises
        kind = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
        raise ConfigurationError(
            f"{reference} cannot be imported: {kind}{one_line(error)}; write module:object{_likely(module, path)}"
        ) from error
    return target


def _likely(module: str, path: str) -> str:
    """Return what was probably meant by a reference that cannot be imported; empty where nothing is like it."""
    if module.endswith(".py"):
        return f", a module without .py: {module.removesuffix('.py')}:{path}"
    near = get_close_matches(path, dir(sys.modules.get(module)), n=1)
    if module in sys.modules and near:
        return f" (did you mean {module}:{near[0]}?)"
    near = get_close_matches(module, default_registry().entries, n=1, cutoff=_ALIKE)
    return f" (did you mean the judge {near[0]}?)" if near else ""
