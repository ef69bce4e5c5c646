"""Judges by their names, wherever a judge is taken: loaded from the catalogue, a module or a file of judges."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

from judges.catalogue.registry import default_registry, registry_for
from judges.compose import FileJudges
from judges.compose.panel import as_judge
from judges.errors import ConfigurationError, one_line, shortened, unfit
from judges.judge import Judge
from judges.runtime.validation import naming_settings, suggestion
from judges.settings import (
    NamedJudgeError,
    check_settings,
    missing_settings,
    needs_setting,
    settings_of,
    translate_settings,
)

_REFERENCE = re.compile(r"([A-Za-z_][\w.]*):[A-Za-z_][\w.]*")
_FIRST = re.compile(rf"({_REFERENCE.pattern})(?::(.*))?", re.DOTALL)
_OTHER_TEXT = re.compile(r":|\.toml$", re.IGNORECASE)
"""What texts have that name a judge by more than its name in the catalogue."""

_ALIKE = 0.75


def is_reference(name: str) -> bool:
    """Return whether a name is `module:object`."""
    return _REFERENCE.fullmatch(name) is not None


def _split_reference(text: str) -> tuple[str, str] | None:
    """Return `module:object` and the settings behind it; None if it is a judge of the catalogue with settings."""
    match = _FIRST.fullmatch(text.strip())
    return None if match is None or match[2] in default_registry() else (match[1], match[3] or "")


def _make_judge(reference: str, settings: Mapping[str, Any]) -> Judge:
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
    missing = missing_settings(target, settings)
    if missing and isinstance(target, type):
        line = f"{reference}:{','.join(f'{name}=...' for name in missing)}"
        raise NamedJudgeError(f"{reference} cannot be made of its settings: it needs more; write {line}")
    try:
        return as_judge(target(**settings))
    except TypeError as error:
        hint = "" if isinstance(target, type) else "; if it is a judge already, leave them out"
        raise NamedJudgeError(f"{reference} cannot be made of its settings: {one_line(error)}{hint}") from error


def _is_called(target: object, settings: Mapping[str, object]) -> bool:
    return isinstance(target, type) or (bool(settings) and callable(target) and not isinstance(target, Judge))


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


_NEXT_SETTING = re.compile(r",(?=\s*\w+=)")
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
        name, rest = _split_reference(text) or text.partition(":")[::2]
        settings: dict[str, Any] = {}
        for setting in _NEXT_SETTING.split(rest) if rest.strip() else []:
            key, equals, value = setting.partition("=")
            if not equals or not key.strip().isidentifier():
                line = f"write {name.strip()}:key=value,key=value, or module:object"
                if name.strip() in _PROVIDERS:
                    line = f"a model is asked by a judge: load('helpfulness', model={shortened(text)})"
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
            raise unfit("`use` names the kind of judge, such as length", kind)
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
        """True if it asks a model, and its settings have none.

        Raises:
            ConfigurationError: If it can be made in no way.
        """
        return self._model_use == "required"

    @property
    def takes_model(self) -> bool:
        """True if it can ask a model, and its settings have none.

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
            raise NamedJudgeError(f"the judge {self.name!r} asks a model; {remedy or self._model_remedy()}")
        shared = {"model": chosen}
        if language is not None and self._maker and needs_setting(self._maker, "language", {}) is not None:
            shared["language"] = language
        return self._make(**{**shared, **self.settings})

    @cached_property
    def _maker(self) -> Callable[..., object] | None:
        """The class or function that is called with the settings; None for a judge that is there already."""
        if not is_reference(self.name):
            return registry_for(self.name).maker(self.name)
        target = imported(self.name)
        return target if _is_called(target, self.settings) else None

    @cached_property
    def _model_use(self) -> _ModelUse:
        if self._maker is None:
            return "none"
        setting_names = [setting.name for setting in settings_of(self._maker)]
        settings = self.settings
        if not is_reference(self.name):
            settings = translate_settings(_with_whole_levels(settings), setting_names)
            if isinstance(self._maker, type):
                check_settings(self._maker, (), settings)
        if "model" in settings:
            return "own"
        needed = needs_setting(self._maker, "model", settings)
        return "none" if needed is None else "required" if needed else "optional"

    def _model_remedy(self) -> str:
        return f"give judges.load({self.name!r}, model=...), or name one: '{self.name}:model=openai:gpt-5-mini'"

    def _make(self, **more: Any) -> Judge:
        settings = {**_with_whole_levels(self.settings), **more}
        return (
            _make_judge(self.name, settings)
            if is_reference(self.name)
            else registry_for(self.name).load(self.name, **settings)
        )


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


_PATH = re.compile(r"(?P<path>.+\.toml)(?::(?P<name>[^:=]+))?", re.IGNORECASE | re.DOTALL)
_EXAMPLE = "write [judges.helpfulness] for each, with its settings below"
_MODEL_REMEDY = 'write model = "openai:gpt-5-mini" in its table, or at the top of the file for all'


@dataclass(frozen=True, kw_only=True)
class JudgesFile:
    """What a file of judges says.

    Args:
        path: The file.
        specs: The judges by name.
        model: The model of those that ask one; None where the file names none.
    """

    path: Path
    specs: Mapping[str, JudgeSpec]
    model: str | None = None

    @classmethod
    def read(cls, path: str | Path) -> JudgesFile:
        """Read a file of judges, without making them; `judges.toml:NAME` is one judge of it.

        Raises:
            ConfigurationError: If it is no such file, or has no judge of this name.
        """
        match = _PATH.fullmatch(str(path))
        file = Path(path if match is None else match["path"])
        model, tables = _tables(file)
        specs = {name: _spec(file, name, table) for name, table in tables.items()}
        name = None if match is None else match["name"]
        if name is not None and name not in specs:
            raise ConfigurationError(f"{file} has no judge {shortened(name)}; {suggestion(name, tuple(specs))}")
        return cls(path=file, specs=specs if name is None else {name: specs[name]}, model=model)

    def load(self, *, model: object = None, default: object = None) -> dict[str, Judge]:
        """Return the judges by name; `model` and `default` are those of `JudgeSpec.load`.

        Raises:
            ConfigurationError: If a judge is set up wrongly.
        """
        shared = self.model if model is None else model
        judges = {}
        for name, spec in self.specs.items():
            with self.within(name):
                judges[name] = spec.load(model=shared, default=default, remedy=_MODEL_REMEDY)
        return judges

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """Name the file and the table in errors."""
        try:
            yield
        except ConfigurationError as error:
            raise ConfigurationError(f"{self.path}: judges.{name}: {error}") from error


def is_judges_file(text: str) -> bool:
    """True if a text is the path of a file of judges, `judges.toml`, or one judge of it, `judges.toml:NAME`."""
    return not text.lstrip().startswith("{") and _PATH.fullmatch(text) is not None


def load_file(path: str | Path, *, model: object = None) -> dict[str, Judge]:
    """Return the judges of a TOML file by name.

    ```toml
    model = "openai:gpt-5-mini"

    [judges.helpfulness]
    success_rating = 4

    [judges.short]
    use = "length"
    at_most = 80
    unit = "words"
    ```

    Each table is named after the judge it makes; `use` names its kind, or `module:object`, where that is another.
    A table may have a `model` of its own.

    Args:
        path: The file; `judges.toml:short` is this judge alone.
        model: The model of the judges that can ask one; None takes the file's `model`.

    Raises:
        ConfigurationError: If the file cannot be read, or a judge in it is set up wrongly.
    """
    return JudgesFile.read(path).load(model=model)


def _tables(path: Path) -> tuple[str | None, Mapping[str, Any]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(
            f"the judges file {path} cannot be read: {error.strerror}; "
            "give the path of a TOML file, or a judge's name"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {one_line(error)}") from None
    model, tables = document.pop("model", None), document.pop("judges", None)
    if document:
        raise ConfigurationError(f"{path}: {shortened(next(iter(document)))} is not known; {_EXAMPLE}")
    if not isinstance(tables, dict) or not tables:
        raise ConfigurationError(f"{path} names no judge; {_EXAMPLE}")
    if not isinstance(model, str | None):
        raise unfit(f'{path}: model is a text such as "openai:gpt-5-mini"', model)
    return model, tables


_FILES = ("prompts", "file")
"""Settings that name what may lie beside a file of judges."""


def _is_beside(path: Path, value: object) -> bool:
    """Return whether a relative path leads nowhere from here, but to a file beside that of judges."""
    if not isinstance(value, str) or Path(value).is_absolute() or Path(value).exists():
        return False
    return (path.parent / value).exists()


def _spec(path: Path, name: str, table: object) -> JudgeSpec:
    if not isinstance(table, dict):
        raise ConfigurationError(
            f"{path}: judges.{name} is a table of settings, not {shortened(table)}; {_EXAMPLE}"
        )
    beside = {key: str(path.parent / table[key]) for key in _FILES if _is_beside(path, table.get(key))}
    try:
        return JudgeSpec.of_table({**table, **beside}, name=name)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: judges.{name}: {error}") from error


def named(candidate: object, *, model: object = None, default: object = None, remedy: str = "") -> object:
    """Return what was given as a judge with its names loaded.

    A text becomes a judge; the path of a file, and a list that holds one, a mapping of names to judges. What is no
    name is left as it is.

    Args:
        candidate: A judge, its name, the path of a file of judges, or a list or a mapping of these.
        model: The model of those that can ask one; a file's own `model` is for where this is None.
        default: The model of those that need one, where there is no other.
        remedy: What to do where a model is missing.

    Raises:
        ConfigurationError: If a name is unknown, a judge is set up wrongly, or it needs a model and there is none.
    """
    if isinstance(candidate, Path) or (isinstance(candidate, str) and is_judges_file(candidate)):
        return FileJudges(JudgesFile.read(candidate).load(model=model, default=default))
    if isinstance(candidate, str):
        return _loaded(candidate, model=model, default=default, remedy=remedy)
    if isinstance(candidate, list | tuple):
        return _listed([named(member, model=model, default=default, remedy=remedy) for member in candidate])
    if isinstance(candidate, Mapping):
        return {
            name: one_judge(member, name=str(name), model=model, default=default, remedy=remedy)
            for name, member in candidate.items()
        }
    return candidate


def one_judge(
    candidate: object, *, name: str | None = None, model: object = None, default: object = None, remedy: str = ""
) -> Judge:
    """Return one judge; of several, as a file or a list names them, a panel as strict as its strictest member.

    Raises:
        ConfigurationError: As `named` and `judges.as_judge`.
    """
    return as_judge(candidate, name=name, resolve=partial(named, model=model, default=default, remedy=remedy))


_PROVIDERS = frozenset(
    (
        *("anthropic", "azure_openai", "bedrock", "cohere", "deepseek", "google_genai", "google_vertexai", "groq"),
        *("local", "mistralai", "ollama", "openai", "openai-compatible", "together", "xai"),
    )
)
"""How names of models begin, which are no names of judges."""


@naming_settings("load('helpfulness', model=...); judges.catalogue() lists the names")
def load(name: str, model: object = None, /, **settings: Any) -> Judge:
    """Return a new judge by its name: `load("ragas.faithfulness", model="openai:gpt-5-mini")`.

    Args:
        name: A name of the catalogue, or an alias: see `catalogue`; or whatever else names a judge where one is
            taken, `"length:at_most=80"`, `"module:object"` or `"judges.toml:short"`: see `as_judge`.
        model: The judge's model, or embeddings where it compares vectors; it may be given by name as well.
        settings: Settings of the judge's class, as `refine judges NAME` lists them; names that other libraries
            give them, such as `llm`, are known, too.

    Raises:
        ConfigurationError: If the name is unknown, or a setting is missing, unknown or out of range.
    """
    registry = registry_for(name)
    if name not in registry and _is_other_text(name):
        return _load_text(name, model, settings)
    return registry.load(name, model, **settings)


def _is_other_text(name: object) -> bool:
    return isinstance(name, str) and _OTHER_TEXT.search(name) is not None


def _load_text(text: str, model: object, settings: Mapping[str, Any]) -> Judge:
    """Return the judge that a text names, with more settings than it has."""
    if is_judges_file(text):
        if settings:
            raise ConfigurationError(f"the settings of {shortened(text)} stand in the file; write them there")
        return one_judge(text, model=model)
    spec = JudgeSpec.parse(text)
    return replace(spec, settings={**spec.settings, **settings}).load(model=model)


def _loaded(text: str, *, model: object, default: object, remedy: str) -> Judge:
    try:
        return JudgeSpec.parse(text).load(model=model, default=default, remedy=remedy)
    except NamedJudgeError:
        raise
    except ConfigurationError as error:
        raise ConfigurationError(f"the judge {shortened(text)}: {error}") from error


def _listed(members: Sequence[object]) -> object:
    """Return a list as it is, or, where members of it are files, a mapping of names to judges."""
    if not any(isinstance(member, FileJudges) for member in members):
        return list(members)
    pairs: list[tuple[str, Judge]] = []
    for member in members:
        if isinstance(member, FileJudges):
            pairs += member.items()
        else:
            judge = as_judge(member)
            pairs.append((judge.name, judge))
    shared = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    if shared:
        names = ", ".join(map(repr, shared))
        raise ConfigurationError(f"several judges are called {names}; rename a table, or give another name=...")
    return FileJudges(pairs)
