"""Settings of judges: one model per judge, built once from the annotated signature of its class.

A setting is a parameter of `__init__`. What it means, its range and an example stand in `settings.toml`, under the
name of the class, or beside its type in a judge of your own, as pydantic has them:
`threshold: Annotated[float, means("Lowest score that passes.", 0.8, ge=0, le=1)]`.
The check of values, `Judge.explain`, `refine judges NAME`, the reference page and the JSON schema all read that.
"""

from __future__ import annotations

import ast
import inspect
import json
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache, wraps
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    SkipValidation,
    Strict,
    ValidationError,
    create_model,
)
from pydantic.fields import FieldInfo

from judges.entry import Entry, Setting, own_tables
from judges.errors import ConfigurationError, one_line, unfit
from judges.runtime.validation import SharedByCopies, suggestion

_TABLES = own_tables(__file__, "hints.toml")
_SAME: Mapping[str, list[str]] = {
    name: called.split(", ") for called, names in _TABLES["same"].items() for name in names
}
_INSTEAD: Mapping[str, str] = {
    name: hint.replace("{name}", name) for hint, names in _TABLES["instead"].items() for name in names
}
_WORDS = {name: word for word, names in _TABLES["words"].items() for name in names}

_MARKS = {"success_rating": "the rating", "threshold": "the score"}
_PASS_MARKS = (*_MARKS, "strict_mode")
_ALIKE = 0.8


def translate_settings(settings: Mapping[str, Any], setting_names: Collection[str]) -> dict[str, Any]:
    """Return settings by the names that they have here.

    Args:
        settings: Settings as they were given; what the judge has itself, or nobody knows, stays as it is.
        setting_names: The settings of the judge.

    Raises:
        ConfigurationError: If one setting is given under two names.
    """
    result = {name: value for name, value in settings.items() if name in setting_names}
    for name, value in settings.items():
        if name in setting_names:
            continue
        setting_name, setting_value = _own_setting(name, value, setting_names)
        if setting_name in result:
            raise ConfigurationError(f"{name} and {setting_name} are one setting here; leave out {name}")
        result[setting_name] = setting_value
    return result


def _instead_of(name: str, setting_names: Collection[str]) -> str:
    """Return what to use instead of a setting that a judge does not have; empty where nothing is known of it."""
    near = get_close_matches(name, _PASS_MARKS, n=1, cutoff=_ALIKE)
    mark = near[0] if near else name
    if mark in _PASS_MARKS and mark not in setting_names:
        hints = (
            f"{setting_name}=... is {what} from which it passes"
            for setting_name, what in _MARKS.items()
            if setting_name in setting_names
        )
        hint = next(hints, "")
        if hint:
            return hint if mark == name else f"did you mean {mark!r}? Here {hint}"
    return _INSTEAD.get(name, "")


def _own_name(name: str, setting_names: Collection[str]) -> str:
    """Return what a setting of another library is called here; empty where the judge has none such."""
    return next((candidate for candidate in _SAME.get(name, ()) if candidate in setting_names), "")


def _own_setting(name: str, value: Any, setting_names: Collection[str]) -> tuple[str, Any]:
    if name == "strict_mode" and isinstance(value, bool) and "threshold" in setting_names:
        return ("threshold", 1.0 if value else None)
    setting_name = _own_name(name, setting_names) or name
    return setting_name, other_word(setting_name, value)


def other_word(name: str, value: Any) -> Any:
    """Return what another library's word for a value is called here; a member of an enumeration is its value."""
    plain = value.value if isinstance(value, Enum) else value
    return _WORDS.get(plain, plain) if name in ("mode", "match") and isinstance(plain, str) else plain


class NamedJudgeError(ConfigurationError):
    """A judge cannot be had; the line names it."""


class SettingsError(NamedJudgeError, TypeError):
    """A judge is made with settings that it does not have, or without one that it needs."""


class _AsCode(str):
    """An example that is written as Python code, where its value cannot be: a function, several settings."""

    __slots__ = ()


def means(meaning: str, *examples: object, **bounds: Any) -> FieldInfo:
    """Return what stands beside a setting's type: pydantic's `Field` with what it does, examples and a range.

    Args:
        meaning: What the setting does, for people.
        examples: Values that one might give.
        bounds: Further arguments of `Field`: `ge=0`, `title="a share"`.
    """
    info: FieldInfo = Field(description=meaning, examples=list(examples) or None, **bounds)
    return info


@dataclass(frozen=True)
class Needed:
    """Marks a setting that is needed although its signature has a default.

    Args:
        when: Whether it is, with the other settings; None for always.
    """

    when: Callable[[Mapping[str, object]], object] | None = None


_MOST_CLASSES = 1024
_DESCRIPTIONS = own_tables(__file__, "settings.toml")


@lru_cache(maxsize=_MOST_CLASSES)
def _described_settings(kind: str) -> Mapping[str, FieldInfo]:
    """Return what `settings.toml` says of the settings of a class of this package, by its name."""
    common, own = _DESCRIPTIONS["common"], _DESCRIPTIONS.get(kind, {})
    return {name: _field_info(**{**common.get(name, {}), **own.get(name, {})}) for name in {**own, **common}}


def _field_info(*, means: str, code: str = "", **rest: Any) -> FieldInfo:
    if code:
        try:
            rest["example"] = ast.literal_eval(code)
        except (ValueError, SyntaxError):
            rest["example"] = _AsCode(code)
    examples = [rest.pop("example")] if "example" in rest else None
    info: FieldInfo = Field(description=means, examples=examples, **rest)
    return info


SHARED: Mapping[str, FieldInfo] = {
    name: _described_settings(kind)[name] for kind in ("ModelJudge", "Metric") for name in _DESCRIPTIONS[kind]
}
"""Settings that mean the same in every judge that has them."""

MADE_WITH = "_made_with"
"""Attribute of a judge that holds the settings it was made with, by name."""


class MadeWith(SharedByCopies, dict[str, object]):
    """The settings that a judge was made with; copies of the judge share them: a chat model holds locks."""


_INTERNAL = frozenset({"self", "question", "questions", "fills"})
_LOOSE_TYPES = {"model": "str | chat model | JudgeModel", "embeddings": "str | Embeddings | EmbeddingModel"}
_LONGEST_MEANING = 60
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True)
class _Parameter:
    """A setting as signatures have it: its type, what stands beside the type, and its default."""

    hint: object
    metadata: tuple[object, ...]
    default: object

    @property
    def info(self) -> FieldInfo | None:
        """What is said of it."""
        return next((item for item in self.metadata if isinstance(item, FieldInfo)), None)

    @property
    def needed(self) -> Needed | None:
        """The mark that it is needed although it has a default."""
        return next((item for item in self.metadata if isinstance(item, Needed)), None)


@dataclass(frozen=True)
class _Signature:
    """What a judge's class or factory takes.

    Args:
        parameters: Its settings by name; those of a base class where it passes settings on.
        by_position: Names of those that are taken by position, too; None where any number is.
        takes_any: Whether it takes settings of any name.
    """

    parameters: Mapping[str, _Parameter] = field(default_factory=dict)
    by_position: tuple[str, ...] | None = ()
    takes_any: bool = False


_Init = TypeVar("_Init", bound=Callable[..., None])


def checking_settings(init: _Init) -> _Init:
    """Return an `__init__` that refuses wrong settings of the class that is made, and keeps the right ones.

    Bases that it calls take what it computes, so that they check nothing.
    """

    @wraps(init)
    def make(self: object, *arguments: object, **settings: object) -> None:
        if type(self).__init__ is not make:
            init(self, *arguments, **settings)
            return
        values = check_settings(type(self), arguments, settings)
        init(self, *arguments, **settings)
        vars(self)[MADE_WITH] = MadeWith(values)

    return make  # type: ignore[return-value]  # it has the signature that it wraps


def check_settings(kind: type, arguments: Sequence[object], settings: Mapping[str, object]) -> dict[str, object]:
    """Check the settings that a judge's class is made with, and return them by name.

    Args:
        kind: The class.
        arguments: What it is called with by position.
        settings: What it is called with by name.

    Raises:
        SettingsError: If a setting is unknown, missing, set twice, or given by position where it has a name.
        ConfigurationError: If a value is of another type or outside its range.
    """
    signature = _signature_of(kind)
    unknown = [name for name in settings if name not in signature.parameters and name not in _INTERNAL]
    if unknown and not signature.takes_any:
        raise SettingsError(
            f"the judge {_called(kind)!r} got an unexpected keyword argument {unknown[0]!r}; "
            f"{_about_unknown(unknown[0], tuple(signature.parameters))}"
        )
    named = _named_arguments(kind, signature, arguments)
    twice = next((name for name in named if name in settings), None)
    if twice is not None:
        raise SettingsError(f"the judge {_called(kind)!r} got multiple values for argument {twice!r}; give one")
    values = {**named, **settings}
    missing = missing_settings(kind, values)
    if missing and signature.by_position is not None:
        needed = " and ".join(_about_missing(name, signature.parameters[name]) for name in missing)
        raise SettingsError(f"the judge {_called(kind)!r} needs more settings; give {needed}")
    _check_values(kind, values)
    return values


def setting_called(kind: type, name: str) -> str:
    """Return the name of a judge's setting that is called so here or in another library.

    Raises:
        SettingsError: If the judge has no such setting.
    """
    parameter_names = tuple(_signature_of(kind).parameters)
    parameter_name = name if name in parameter_names else _own_name(name, parameter_names)
    if not parameter_name:
        raise SettingsError(
            f"the judge {_called(kind)!r} has no setting {name!r}; {_about_unknown(name, parameter_names)}"
        )
    return parameter_name


def _named_arguments(kind: type, signature: _Signature, arguments: Sequence[object]) -> dict[str, object]:
    """Return arguments given by position by their names."""
    if signature.by_position is None:
        return {}
    if len(arguments) > len(signature.by_position):
        parameters = signature.parameters
        if "judges" in parameters:
            hint = "give the judges as one list"
        else:
            no_model = "" if {"model", "embeddings"} & parameters.keys() else "it asks no model, and "
            hint = f"{no_model}its settings are named: {', '.join(parameters)}"
        taken = len(signature.by_position)
        raise SettingsError(
            f"the judge {_called(kind)!r} takes {taken} positional argument{'s' if taken != 1 else ''} but "
            f"{len(arguments)} were given; {hint}"
        )
    return dict(zip(signature.by_position, arguments, strict=False))


def _check_values(kind: type, values: Mapping[str, object]) -> None:
    parameters = _signature_of(kind).parameters
    try:
        checked = {name: other_word(name, values[name]) for name in parameters if name in values}
        _settings_model(kind).model_validate(checked)
    except ValidationError as error:
        fault = next((one for one in error.errors(include_url=False) if one["type"] != "missing"), None)
        if fault is None:
            return
        name = str(fault["loc"][0])
        raise unfit(f"{name} is {_expected(parameters[name])}", values[name]) from None


@lru_cache(maxsize=_MOST_CLASSES)
def _settings_model(make: Callable[..., object]) -> type[BaseModel]:
    """Return the model of a judge's settings, whose fields are its parameters; `model_json_schema` describes them.

    Plain values are checked strictly: 1 is no truth, and "1" no number. What a list, a mapping or a function holds
    is left to the judge.

    Args:
        make: The judge's class or factory.
    """
    fields: dict[str, Any] = {}
    for number, (name, one) in enumerate(_signature_of(make).parameters.items()):
        hint = Any if SkipValidation in one.metadata else _checkable(one.hint)
        if one.info is not None:
            hint = Annotated[hint, one.info]
        default = dict(one.default) if isinstance(one.default, Mapping) else one.default
        default = ... if one.default is _EMPTY else default
        fields[f"setting_{number}"] = (hint, Field(default, alias=name))
    config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False, protected_namespaces=()
    )
    return create_model(f"{getattr(make, '__name__', 'Judge')}Settings", __config__=config, **fields)


@lru_cache(maxsize=_MOST_CLASSES)
def settings_of(make: Callable[..., object]) -> tuple[Setting, ...]:
    """Return the settings of a judge's class or factory: required ones first, shared ones last.

    What cannot be read, such as the signature of a builtin, is left out.
    """
    parameters = _signature_of(make).parameters
    order = tuple(SHARED)
    return tuple(
        sorted(
            (_setting(name, one) for name, one in parameters.items()),
            key=lambda one: (one.shared, order.index(one.name) if one.shared else 0, not one.required),
        )
    )


def missing_settings(make: Callable[..., object], settings: Collection[str]) -> list[str]:
    """Return the names of settings without a default that are not among these."""
    parameters = _signature_of(make).parameters.items()
    return [name for name, one in parameters if one.default is _EMPTY and name not in settings]


def needs_setting(make: Callable[..., object], name: str, settings: Mapping[str, object]) -> bool | None:
    """Return whether a judge needs a setting beside these; None where it does not have it."""
    one = _signature_of(make).parameters.get(name)
    if one is None:
        return None
    if one.default is _EMPTY or one.needed is None:
        return one.default is _EMPTY
    return one.needed.when is None or bool(one.needed.when(settings))


def load_line(make: Callable[..., object]) -> str:
    """Return a line that loads a judge of the catalogue, with what it cannot do without, or else with one setting.

    Args:
        make: Its class or factory; without an entry there is no such line, and it is empty.
    """
    entry = getattr(make, "entry", None)
    if not isinstance(entry, Entry):
        return ""
    settings = settings_of(make)
    example_settings = {
        name: one for name, one in _signature_of(make).parameters.items() if one.info and one.info.examples
    }
    model = [setting.example for setting in settings if setting.name == "model"]
    needed = [setting for setting in settings if setting.required and setting.name != "model"]
    required = [setting.example or f"{setting.name}=..." for setting in needed]
    shown = [setting.example for setting in settings if setting.name in example_settings.keys() - SHARED.keys()]
    chosen = ", ".join([*model, *(required or shown[:1])])
    return f'judges.load("{entry.name}"{chosen and ", "}{chosen})'


@lru_cache(maxsize=_MOST_CLASSES)
def _signature_of(make: Callable[..., object]) -> _Signature:
    """Return what a class or factory takes; a class may pass settings on to its bases."""
    makers = [(one, _parameters(one), _hints(one, entries)) for one, entries in _makers(make)]
    described: dict[str, _Parameter] = {}
    passed_on: set[str] | None = None
    takes_any = False
    for _, parameters, hints in makers:
        for one in parameters:
            if one.kind in _NAMED and one.name not in _INTERNAL and (passed_on is None or one.name in passed_on):
                described.setdefault(one.name, _described(one, makers, hints))
        rest = next((one for one in parameters if one.kind is one.VAR_KEYWORD), None)
        if rest is None:
            break
        names = _unpacked(hints.get(rest.name))
        takes_any = takes_any or names is None
        passed_on = names if passed_on is None or names is None else passed_on & names
    if not makers or not makers[0][1]:
        return _Signature(takes_any=True, by_position=None)
    first = makers[0][1][isinstance(make, type) :]
    by_position = tuple(one.name for one in first if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD))
    unbounded = any(one.kind is one.VAR_POSITIONAL for one in first)
    return _Signature(described, None if unbounded else by_position, takes_any)


def _described(one: inspect.Parameter, makers: Sequence[Any], hints: Mapping[str, object]) -> _Parameter:
    """Return a parameter with what is said of it: beside its type, or else beside that of a base's parameter."""
    hint, value_type = _split(hints.get(one.name, one.annotation))
    described = (_split(of_base.get(one.name))[1] for _, _, of_base in makers)
    return _Parameter(hint, value_type or next((metadata for metadata in described if metadata), ()), one.default)


def _split(hint: object) -> tuple[object, tuple[object, ...]]:
    """Return a type, and what stands beside it."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[0], hint.__metadata__  # type: ignore[attr-defined]  # of Annotated
    return hint, ()


def _makers(make: Callable[..., object]) -> Iterator[tuple[Callable[..., object], Mapping[str, FieldInfo]]]:
    """Yield the functions that take the settings: of a class its `__init__`, and those of its bases.

    With each comes what `settings.toml` says of its settings.
    """
    if not isinstance(make, type):
        yield make, {}
        return
    for kind in make.__mro__[:-1]:
        if "__init__" in vars(kind):
            yield (
                vars(kind)["__init__"],
                _described_settings(kind.__name__) if vars(kind).get("is_of_this_package") else {},
            )


def _parameters(function: Callable[..., object]) -> tuple[inspect.Parameter, ...]:
    try:
        return tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()


def _hints(function: Callable[..., object], entries: Mapping[str, FieldInfo]) -> Mapping[str, object]:
    """Return the types of a function's parameters, with the entries that describe them beside."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - annotations of another package may name what cannot be found
        return {}
    return {name: Annotated[hint, entries[name]] if name in entries else hint for name, hint in hints.items()}


def _unpacked(hint: object) -> set[str] | None:
    """Return the names that `**settings: Unpack[SomeSettings]` passes on; None where any are."""
    (kind,) = get_args(hint) if get_origin(hint) is Unpack else (None,)
    return set(get_type_hints(kind)) if is_typeddict(kind) else None


def _checkable(hint: object) -> Any:
    """Return the type to check values by: plain ones strictly, choices; any value where it is another."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in (bool, int, float, str):
        return Annotated[hint, Strict()]
    if hint is None or hint is type(None) or origin is Literal:
        return hint
    if hint is Path:
        return InstanceOf[Path]
    if origin in (Union, types.UnionType):
        return Union[tuple(map(_checkable, arguments))]  # noqa: UP007 - of types that are known when it runs
    if origin in (list, tuple, dict) or getattr(origin, "__module__", "") == "collections.abc":
        with suppress(Exception):  # what pydantic has no schema for, such as a function
            skipped = SkipValidation[hint]  # type: ignore[valid-type]
            create_model("Probe", value=(skipped, ...)).model_json_schema()
            return skipped
    return Any


def _expected(one: _Parameter) -> str:
    """Return what a setting is, in words: `a whole number from 1`."""
    title = one.info.title if one.info is not None else None
    members = [member for member in _members(one.hint) if member is not type(None)]
    words = [title] if title else list(dict.fromkeys(map(_in_words, members)))
    if {int, float} & set(members):
        words[-1] = _with_bounds(words[-1], one)
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _members(hint: object) -> tuple[object, ...]:
    """Return the types of a union, and the words of its choices; of another type, the type itself."""
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(member for part in get_args(hint) for member in _members(part))
    return get_args(hint) if get_origin(hint) is Literal else (hint,)


def _in_words(member: object) -> str:
    plain = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
    if isinstance(member, type):
        return plain.get(member, member.__name__)
    return repr(member) if isinstance(member, str | int) else _type_text(member)


def _with_bounds(words: str, one: _Parameter) -> str:
    """Return words for a number with its range."""
    bounds = {
        name: getattr(item, name)
        for item in (one.info.metadata if one.info is not None else ())
        for name in ("ge", "gt", "le", "lt")
        if hasattr(item, name)
    }
    parts = [
        phrase.format(bounds[name])
        for name, phrase in {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "to below {}"}.items()
        if name in bounds
    ]
    return " ".join([words if parts else words.replace("a number", "a finite number"), *parts])


def _setting(name: str, one: _Parameter) -> Setting:
    examples = one.info.examples if one.info is not None else None
    required = one.default is _EMPTY or (one.needed is not None and one.needed.when is None)
    extra = one.info.json_schema_extra if one.info is not None else None
    return Setting(
        name=name,
        type=_LOOSE_TYPES.get(name) or _type_text(one.hint),
        default="" if required else _default_text(one.default),
        required=required,
        meaning=(one.info.description or "") if one.info is not None else "",
        example=f"{name}={_as_python(examples[0])}" if examples else _obvious_example(name, one),
        shared=name in SHARED and one.info is SHARED[name],
        holds_expressions=isinstance(extra, dict) and bool(extra.get("holds_expressions")),
    )


def _as_python(value: object) -> str:
    """Return a value as Python code, with double quotes where JSON writes it so."""
    if isinstance(value, _AsCode):
        return str(value)
    with suppress(TypeError, ValueError, SyntaxError):
        text = json.dumps(value, ensure_ascii=False)
        if ast.literal_eval(text) == value and not isinstance(value, tuple):
            return text
    return repr(value)


def _obvious_example(name: str, one: _Parameter) -> str:
    """Return an example of a switch or a choice: the first value that is not the default."""
    members = [member for member in _members(one.hint) if member is not type(None)]
    if members == [bool]:
        return f"{name}={not one.default}"
    return next((f'{name}="{word}"' for word in members if isinstance(word, str) and word != one.default), "")


def _default_text(default: object) -> str:
    if isinstance(default, str | Mapping):
        return json.dumps(default if isinstance(default, str) else dict(default), ensure_ascii=False, default=str)
    return default.__name__ if isinstance(default, type) else repr(default)


def _type_text(hint: object) -> str:
    """Return a type as one would read it: choices by their values, classes by their names."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type_text(arguments[0])
    if origin is Literal:
        return " | ".join(map(repr, arguments)).replace("'", '"')
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(_type_text, arguments)))
    if hint is type(None) or hint is None:
        return "None"
    if origin is Callable:
        return "function"
    name = getattr(origin or hint, "__name__", str(hint)).removeprefix("typing.")
    return f"{name}[{', '.join(map(_type_text, arguments))}]" if arguments else name


def _called(kind: Callable[..., object]) -> str:
    """Return the name of a judge's class or factory for an error."""
    entry = vars(kind).get("entry") if isinstance(kind, type) else getattr(kind, "entry", None)
    return entry.name if isinstance(entry, Entry) else getattr(kind, "__name__", "judge")


def _about_missing(name: str, one: _Parameter) -> str:
    meaning = (one.info.description or "") if one.info is not None else ""
    if not meaning:
        return f"{name}=..."
    purpose = min((meaning.partition(mark)[0] for mark in (". ", "; ", ": ")), key=len).rstrip(".")
    return f"{name}=... ({one_line(purpose[:1].lower() + purpose[1:], longest=_LONGEST_MEANING)})"


def _about_unknown(name: str, setting_names: Collection[str]) -> str:
    listed = f"known are {', '.join(setting_names)}"
    setting_name = _own_name(name, setting_names)
    instead = f"here it is {setting_name}=..." if setting_name else _instead_of(name, setting_names)
    if instead:
        return f"{instead}; {listed}"
    hint = suggestion(name, setting_names)
    return f"{hint} K{listed[1:]}" if hint.startswith("did you mean") else listed
