"""A judge written as text: `length:at_most=80`, or `module:object` for one of your own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

from judges.catalogue.references import is_reference, make, split_reference, takes
from judges.catalogue.registry import load
from judges.errors import ConfigurationError, one_line, shortened
from judges.judge import Judge

_NEXT_SETTING = re.compile(r",(?=\s*\w+=)")
_NO_MODEL = re.compile(r"unexpected keyword argument 'model'")
_ANY_MODEL = "any:model"
"""Placeholder for a model, to find out whether a judge of the catalogue accepts one; it is never asked."""

_ModelUse = Literal["none", "own", "optional", "required"]


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
        """Read `name:key=value,key=value`, `module:object`, or a table of a judges file as a JSON object.

        A value is JSON where it is JSON, and else text. Settings may be left out, and may follow a `module:Class`.

        Raises:
            ConfigurationError: If a setting cannot be read.
        """
        if text.lstrip().startswith("{"):
            return cls.of_table(_object_in(text))
        name, rest = split_reference(text) or text.partition(":")[::2]
        settings: dict[str, Any] = {}
        for setting in _NEXT_SETTING.split(rest) if rest.strip() else []:
            key, equals, value = setting.partition("=")
            if not equals or not key.strip().isidentifier():
                line = f"write {name.strip()}:key=value,key=value, or module:object"
                raise ConfigurationError(f"{shortened(setting)} is no setting; {line}")
            if key.strip() in settings:
                raise ConfigurationError(f"{key.strip()} is set twice; leave one out")
            settings[key.strip()] = _value(value)
        return cls(name=name.strip(), settings=settings)

    @classmethod
    def of_table(cls, table: Mapping[str, Any], *, name: str | None = None) -> Self:
        """Return what a table of settings says; `use` names the kind of judge, where `name` does not.

        Raises:
            ConfigurationError: If it names none.
        """
        settings = dict(table)
        kind = settings.pop("use", name)
        if not isinstance(kind, str):
            raise ConfigurationError(f"`use` names the kind of judge, such as length, not {shortened(kind)}")
        if name is not None and kind != name and not is_reference(kind):
            settings.setdefault("name", name)
        return cls(name=kind, settings=settings)

    @property
    def text(self) -> str:
        """The judge as a text that `parse` reads.

        Raises:
            ConfigurationError: If a setting cannot be written, as a date.
        """
        try:
            settings = {key: json.dumps(value, ensure_ascii=False) for key, value in self.settings.items()}
        except TypeError as error:
            raise ConfigurationError(f"a setting of {self.name} cannot be written: {one_line(error)}") from error
        plain = ",".join(f"{key}={value}" for key, value in settings.items())
        text = f"{self.name}:{plain}" if plain else self.name
        if all(key.isidentifier() for key in settings) and type(self).parse(text) == self:
            return text
        return json.dumps({"use": self.name, **self.settings}, ensure_ascii=False)

    @property
    def needs_model(self) -> bool:
        """Whether it asks a model, and its settings have none.

        Raises:
            ConfigurationError: If it can be made in no way.
        """
        return self._model_use == "required"

    @property
    def takes_model(self) -> bool:
        """Whether it can ask a model, and its settings have none.

        Raises:
            ConfigurationError: If it can be made in no way.
        """
        return self._model_use in ("required", "optional")

    def load(
        self, *, model: object = None, default: object = None, language: str | None = None, remedy: str = ""
    ) -> Judge:
        """Return the judge.

        Args:
            model: The model of a judge that can ask one, unless its settings have their own.
            default: The model of a judge that needs one, where there is no other.
            language: The language of the prompts of a judge that asks a model.
            remedy: What to do where a model is missing.

        Raises:
            ConfigurationError: If a name or a setting is wrong, or it needs a model and there is none.
        """
        use = self._model_use
        chosen = default if model is None and use == "required" else model
        if use == "none" or (chosen is None and use == "optional"):
            return self._make()
        if chosen is None and use == "required":
            raise ConfigurationError(f"the judge {self.name!r} asks a model; {remedy or self._model_remedy()}")
        shared = {"model": chosen}
        if language is not None and (not is_reference(self.name) or takes(self.name, "language", self.settings)):
            shared["language"] = language
        return self._make(**{**shared, **self.settings})

    @cached_property
    def _model_use(self) -> _ModelUse:
        if "model" in self.settings:
            return "own"
        if is_reference(self.name):
            if not takes(self.name, "model", self.settings):
                return "none"
            return "required" if self._error() else "optional"
        without, with_model = self._error(), self._error(model=_ANY_MODEL)
        if without is None:
            return "none" if with_model else "optional"
        if with_model is None:
            return "required"
        raise without if _NO_MODEL.search(str(with_model)) else with_model

    def _model_remedy(self) -> str:
        return f"give judges.load({self.name!r}, model=...), or name one: '{self.name}:model=openai:gpt-5-mini'"

    def _error(self, **more: Any) -> ConfigurationError | None:
        """Return why it cannot be made so; None if it can."""
        try:
            self._make(**more)
        except ConfigurationError as error:
            return error
        return None

    def _make(self, **more: Any) -> Judge:
        settings = {**_with_whole_levels(self.settings), **more}
        return make(self.name, settings) if is_reference(self.name) else load(self.name, **settings)


def _object_in(text: str) -> Mapping[str, Any]:
    try:
        table: Mapping[str, Any] = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(
            f'{shortened(text)} is not valid JSON: {one_line(error)}; write {{"use": "length", "at_most": 80}}'
        ) from None
    return table


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
