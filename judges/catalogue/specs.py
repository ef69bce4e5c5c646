"""Judges written as text: `length:at_most=80`, or `module:object` for one of your own."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Self

from judges.catalogue.registry import default_registry, load
from judges.compose.panel import as_judge
from judges.errors import ConfigurationError, one_line, shortened
from judges.judge import Judge

_NEXT_SETTING = re.compile(r",(?=\s*\w+=)")
_OBJECT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_ANY_MODEL = "any:model"
"""Placeholder for a model, to find out whether a judge accepts one; it is never asked."""


@dataclass(frozen=True, kw_only=True)
class JudgeSpec:
    """A judge that is loaded later.

    Args:
        name: Its name in the catalogue, or `module:object` for a judge, a class or a function of your own.
        settings: Settings of its class.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `name`, `name:key=value,key=value`, `module:object`, or what `text` writes.

        A value is JSON where it is JSON, and else text.

        Raises:
            ConfigurationError: If it, or a setting, cannot be read.
        """
        if text.startswith("{"):
            return cls(**_fields(text))
        name, _, rest = text.partition(":")
        if _OBJECT.fullmatch(text.strip()) and name.strip() not in default_registry():
            return cls(name=text.strip())
        settings: dict[str, Any] = {}
        for setting in _NEXT_SETTING.split(rest) if rest.strip() else []:
            key, equals, value = setting.partition("=")
            if not equals or not key.strip().isidentifier():
                raise ConfigurationError(
                    f"{shortened(setting)} is no setting; write {name}:key=value,key=value, or module:object"
                )
            if key.strip() in settings:
                raise ConfigurationError(f"{key.strip()} is set twice; leave one out")
            settings[key.strip()] = _value(value)
        return cls(name=name.strip(), settings=settings)

    @property
    def text(self) -> str:
        """The judge as a text that `parse` reads."""
        return json.dumps({"name": self.name, "settings": self.settings}, ensure_ascii=False, default=str)

    @property
    def asks_a_model(self) -> bool:
        """Whether it needs a model: it can be made with one, and not without.

        Raises:
            ConfigurationError: If it can be made in neither way.
        """
        try:
            self._make()
        except ConfigurationError as error:
            try:
                self._make(model=_ANY_MODEL)
            except ConfigurationError as with_model:
                raise (error if "'model'" in str(with_model) else with_model) from error
            return True
        return False

    def load(self, *, model: object = None, language: str | None = None) -> Judge:
        """Return the judge; it has the model and the language where it asks a model.

        Raises:
            ConfigurationError: If a name or a setting is wrong, or it needs a model and there is none.
        """
        if not self.asks_a_model:
            return self._make()
        if model is None:
            raise ConfigurationError(
                f"the judge {self.name!r} asks a model; give judges.load({self.name!r}, model=...)"
            )
        shared = {"model": model} if language is None else {"model": model, "language": language}
        return self._make(**{**shared, **self.settings})

    def _make(self, **more: Any) -> Judge:
        settings = {**_with_whole_levels(self.settings), **more}
        if not _OBJECT.fullmatch(self.name):
            return load(self.name, **settings)
        target = _imported(self.name)
        if isinstance(target, type) or (settings and callable(target) and not isinstance(target, Judge)):
            try:
                return as_judge(target(**settings))
            except TypeError as error:
                raise ConfigurationError(f"{self.name} cannot be made: {one_line(error)}") from error
        if settings:
            raise ConfigurationError(f"{self.name} is a judge already, which takes no settings; leave them out")
        return as_judge(target)


def judge_named(text: str) -> Judge:
    """Return the judge that a text names, for whoever takes a judge; it must need no model.

    Raises:
        ConfigurationError: If there is none of this name, or it asks a model.
    """
    return _loaded(text, None)


def with_model(judge: object, model: object) -> object:
    """Return what was named as a judge with its names loaded; those that ask a model ask this one.

    Args:
        judge: A judge, its name, or a list or a mapping of these.
        model: The model; None where there is none.
    """
    if isinstance(judge, str):
        return _loaded(judge, model)
    if isinstance(judge, list | tuple):
        return [with_model(member, model) for member in judge]
    if isinstance(judge, Mapping):
        return {name: with_model(member, model) for name, member in judge.items()}
    return judge


def _loaded(text: str, model: object) -> Judge:
    try:
        return JudgeSpec.parse(text).load(model=model)
    except ConfigurationError as error:
        line = str(error) if repr(text) in str(error) else f"the judge {shortened(text)}: {error}"
        raise ConfigurationError(line) from error


def _imported(reference: str) -> Any:
    module_name, _, path = reference.partition(":")
    if os.getcwd() not in sys.path:  # noqa: PTH109 - what is compared with are texts
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as above
    try:
        target: Any = import_module(module_name)
        for part in path.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"it cannot be imported: {one_line(error)}; write module:object") from error
    return target


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of a judge that is written as a JSON object."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = {}
    types = {"name": str, "settings": dict}
    if "name" not in fields or not all(isinstance(value, types.get(key, ())) for key, value in fields.items()):
        raise ConfigurationError(
            f"{shortened(text)} is no judge; write length:at_most=80, or "
            f'{{"name": "length", "settings": {{"at_most": 80}}}}'
        )
    return dict(fields)


def _value(text: str) -> Any:
    """Return the value of JSON or of Python's True, False and None, or else the text itself."""
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text.strip(), text))
    except ValueError:
        return text


def _with_whole_levels(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the levels of a rubric keyed by numbers, as they are texts in JSON and TOML."""
    levels = settings.get("levels")
    if not isinstance(levels, Mapping):
        return dict(settings)
    return {**settings, "levels": {int(key) if str(key).isdigit() else key: text for key, text in levels.items()}}
