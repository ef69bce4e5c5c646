"""Errors, judges, models and refiners go through copies and pickles unchanged, and a key never does."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import graphs
import judges
import refine
from graphs import GeneratorFailed, JudgeFailed, NotAccepted, Unanswered
from judges import ConfigurationError, Usage
from judges.errors import AskFailed, CannotJudge
from judges.models.providers.endpoint_errors import EndpointStatusError
from refine import SelfRefine

WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {number}": lambda value, number=number: pickle.loads(pickle.dumps(value, number)) for number in (2, 5)},
}


def modules(package: ModuleType) -> Iterator[ModuleType]:
    """Import every module of a package."""
    yield package
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def error_types() -> dict[str, type[Exception]]:
    """List the exceptions that our modules define, by their qualified names."""
    return {
        f"{module.__name__}.{name}": value
        for package in (judges, graphs, refine)
        for module in modules(package)
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == module.__name__
    }


def made(kind: type[Exception]) -> Exception:
    """Make an error with a value for each parameter."""
    outcome = SelfRefine(lambda _: "yes", lambda response: 4).refine("what?")
    values: dict[str, Any] = {
        "reason": "judge_failed",
        "detail": "the detail",
        "usage": Usage(calls=3, input_tokens=7),
        "raw": "raw reply",
        "message": "the message",
        "outcome": outcome,
        "status_code": 429,
        "headers": {"Retry-After": "7"},
        "fault": "the fault",
        "mendable": False,
    }
    if not inspect.isfunction(kind.__init__):
        return kind("the message")
    _, *parameters = inspect.signature(kind.__init__).parameters.values()
    positional = [values[one.name] for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    return kind(*positional, **{one.name: values[one.name] for one in parameters if one.kind is one.KEYWORD_ONLY})


def test_every_error_goes_through_copies_and_pickles() -> None:
    """Each error that we define keeps its type, its message and its attributes."""
    faults = []
    kinds = error_types()
    for name, kind in kinds.items():
        error = made(kind)
        error.__notes__ = ["a note"]
        for way, through in WAYS.items():
            try:
                twin = through(error)
            except Exception as fault:  # noqa: BLE001 - listed
                faults.append(f"{name}, {way}: {fault!r}")
                continue
            if (type(twin), str(twin), twin.args, vars(twin)) != (kind, str(error), error.args, vars(error)):
                faults.append(f"{name}, {way}: {twin!r} {vars(twin)}")
    assert faults == []
    assert {GeneratorFailed, JudgeFailed, NotAccepted, Unanswered, AskFailed, CannotJudge, EndpointStatusError} <= set(
        kinds.values()
    )
