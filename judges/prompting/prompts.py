"""Prompts as data: one TOML file per judge and language, in a pack of the package or in a user's folder.

A file holds `task` (the instructions), `reminder` (the task in one sentence, repeated after the data), `levels`
where the judge rates on described levels, `examples`, and `feedback`, the phrases of a judge's own feedback.
Placeholders have the form `$name` only, so braces and percent signs have no meaning.
"""

from __future__ import annotations

import copyreg
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module, resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from judges.errors import ConfigurationError, first_fault, one_line, shortened
from judges.models.providers.minilm_and_hhem import Likeness
from judges.requests import WorkedExample

Language = str
"""A language by its code, such as `"en"`; each is a folder of a pack."""

LANGUAGES: tuple[Language, ...] = ("en", "zh", "ru")
"""The languages of the package's own packs."""

_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
"""Tells Japanese from Chinese: it has many of these between its Chinese characters."""

_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_LATIN = re.compile(r"[A-Za-z]")


class Example(BaseModel, frozen=True, extra="forbid"):
    """A worked example: the data of a request, and the expected reply."""

    data: dict[str, JsonValue]
    reply: dict[str, JsonValue]


class Prompt(BaseModel, frozen=True, extra="forbid"):
    """One file of a pack: a question to a model, phrases of feedback, or both.

    With `nearest` the examples are cases to choose from: a request has so many of them, those most like what is
    judged, the most alike last; `likeness` says by what.
    """

    task: str = ""
    reminder: str = ""
    nearest: int | None = Field(default=None, ge=1)
    likeness: Likeness = "words"
    levels: dict[int, str] = {}
    examples: tuple[Example, ...] = ()
    feedback: dict[str, str] = {}

    @model_validator(mode="after")
    def _check_reminder(self) -> Self:
        if self.task and not self.reminder:
            raise ValueError("a task needs a reminder, the task in one sentence")
        return self

    def fingerprint_parts(self) -> dict[str, Any]:
        """Return what the prompt says; what it does not choose is left out, as before there was a choice."""
        return {k: v for k, v in self if self.nearest is not None or k not in ("nearest", "likeness")}

    def fill_task(self, **values: str) -> str:
        """Return the task with `$name` placeholders replaced; other `$` signs stay."""
        return Template(self.task).safe_substitute(values)

    def feedback_text(self, phrase: str, **values: object) -> str:
        """Return a phrase of feedback with its placeholders replaced."""
        return Template(self.feedback[phrase]).safe_substitute(values)


def prompt(
    name: str, language: Language, *, folder: Path | None = None, author_folder: Path | None = None
) -> Prompt:
    """Load the prompt of a judge: from `folder` where it has one, else from the author's or the package's packs.

    A folder mirrors the package: `folder/en/helpfulness.toml`.

    Args:
        name: Name of the file, without the extension.
        language: The language.
        folder: The user's own packs.
        author_folder: Packs of a judge from outside the package. A prompt that it has in any language is read from
            there, never from the package.

    Raises:
        ConfigurationError: If there is no such prompt or its file cannot be read.
    """
    if folder is not None:
        pack_file = folder / language / f"{name}.toml"
        if pack_file.is_file():
            languages = _languages_in(author_folder, name) or LANGUAGES
            shipped = _load_shipped(name, language if language in languages else "en", author_folder)
            return _complete(_parse(pack_file.read_bytes(), str(pack_file)), shipped, str(pack_file))
    return _load_shipped(name, language, author_folder)


def _complete(author_prompt: Prompt, shipped: Prompt, place: str) -> Prompt:
    """Return a user's prompt with what it leaves out taken from the judge's: task, reminder, phrases of feedback.

    A task may contain its levels itself in place of `$levels`.

    Raises:
        ConfigurationError: If a placeholder of the task is missing, or a phrase has one that is never filled.
    """
    needed = _placeholders(shipped.task) - ({"$levels"} if shipped.levels else set())
    missing = needed - _placeholders(author_prompt.task or shipped.task)
    if missing:
        raise ConfigurationError(f"{place}: the task must have {', '.join(sorted(missing))}, which is filled in")
    for name, phrase in author_prompt.feedback.items():
        allowed = _placeholders(shipped.feedback.get(name, phrase))
        if unknown := _placeholders(phrase) - allowed:
            hint = f"known there are {', '.join(sorted(allowed))}" if allowed else "none is known there"
            raise ConfigurationError(
                f"{place}: feedback {shortened(name)} has {', '.join(sorted(unknown))}; {hint}"
            )
    return author_prompt.model_copy(
        update={
            "task": author_prompt.task or shipped.task,
            "reminder": author_prompt.reminder or shipped.reminder,
            "feedback": {**shipped.feedback, **author_prompt.feedback},
        }
    )


def _placeholders(text: str) -> set[str]:
    return {f"${name}" for name in Template(text).get_identifiers()}


def prompts_of(
    name: str, *, folder: Path | None = None, author_folder: Path | None = None
) -> dict[Language, Prompt]:
    """Load the prompts of a judge in every language: those that come with it, and those of the user's folder.

    Args:
        name: Name of the files, without the extension.
        folder: The user's own packs.
        author_folder: Packs of a judge from outside the package; see `prompt`.

    Raises:
        ConfigurationError: If a folder is none, there is no English prompt, or one of the prompts cannot be read.
    """
    for setting, place in (("prompts", folder), ("pack_folder", author_folder)):
        if place is not None and not os.path.isdir(place):  # noqa: PTH112 - False where Path raises, for a long name
            raise ConfigurationError(
                f"{setting} is a folder laid out like en/{name}.toml; there is none at {shortened(str(place))}"
            )
    shipped = _languages_in(author_folder, name) or LANGUAGES
    languages = dict.fromkeys(("en", *shipped, *_languages_in(folder, name)))
    return {language: prompt(name, language, folder=folder, author_folder=author_folder) for language in languages}


def _languages_in(folder: Path | None, name: str) -> tuple[Language, ...]:
    """Return the languages in which a folder has a prompt."""
    return () if folder is None else tuple(sorted(file.parent.name for file in folder.glob(f"*/{name}.toml")))


def _load_shipped(name: str, language: Language, author_folder: Path | None) -> Prompt:
    """Load a prompt that comes with a judge: from its author's packs if they have it, else from the package."""
    if author_folder is None or not _languages_in(author_folder, name):
        return _load_packaged(name, language)
    file = author_folder / language / f"{name}.toml"
    if not file.is_file():
        raise ConfigurationError(f"there is no {str(file)!r}; a judge's packs hold each prompt in English too")
    return _parse(file.read_bytes(), str(file))


@cache
def _load_packaged(name: str, language: Language) -> Prompt:
    file = resources.files("judges") / "packs" / language / f"{name}.toml"
    if not file.is_file():
        raise ConfigurationError(
            f"there is no prompt {shortened(name)} in language {language!r}; known are {LANGUAGES}"
        )
    return _parse(file.read_bytes(), f"{language}/{name}.toml")


def _parse(content: bytes, place: str) -> Prompt:
    try:
        return Prompt.model_validate(tomllib.loads(content.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{place} is not valid TOML: {one_line(error)}") from error
    except ValidationError as error:
        field, fault = first_fault(error)
        raise ConfigurationError(f"{place}: field {field!r}: {fault}") from error


def language_of(text: str) -> Language:
    """Return the language of the pack for a text, by the script of most of its letters."""
    if text.isascii():
        return "en"
    counts: dict[Language, int] = {
        "zh": 0 if 4 * len(_KANA.findall(text)) > (han := len(_HAN.findall(text))) else 2 * han,
        "ru": len(_CYRILLIC.findall(text)),
        "en": len(_LATIN.findall(text)),
    }
    most = max(counts, key=lambda language: counts[language])
    return most if counts[most] else "en"


if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass as _ModelType
else:
    _ModelType = type(BaseModel)  # it has no public name

R = TypeVar("R", bound=BaseModel)
S = TypeVar("S", bound="ReplySchema")
ReplyCheck = Callable[[Any], str | None]
"""Returns the fault of a reply that fits its schema, which is then requested again; None if it has none."""

_Fills = Mapping[str, str] | Callable[[Prompt, Language], Mapping[str, str]]
"""Values of placeholders: the same in every language, or a function of a pack and its language."""


_RECIPE = "__recipe__"
"""Attribute of a schema made at run time: the call that makes it."""


class _SchemaType(_ModelType):
    """Type of the schemas; one that is made at run time is pickled as the call that makes it."""


class ReplySchema(BaseModel, metaclass=_SchemaType):
    """Base of the schemas of models' replies: no extra fields, and read-only.

    Attributes:
        text_limits: Most characters of a text, and of one in a list, where an endpoint enforces a schema, so that
            a weak model does not write on until it is cut off; longer ones are read all the same. A field with
            `max_length` has its own; None sets none.

    Args:
        wire_name: What models and fingerprints know a schema by, where that is not the name of its class, without
            the underscore of a private one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    text_limits: ClassVar[tuple[int, int] | None] = (1_200, 300)

    def __init_subclass__(cls, wire_name: str = "", **settings: Any) -> None:
        super().__init_subclass__(**settings)
        wire_name = wire_name or cls.__name__.removeprefix("_")
        if wire_name != cls.__name__:
            setattr(cls, _RECIPE, (_schema_in, (cls.__module__, cls.__name__)))
            cls.__name__ = cls.__qualname__ = wire_name

    @classmethod
    def from_reply(cls, other: Any) -> Self:
        """Convert a reply of another schema to this one: field by field, unless a subclass overrides it."""
        return cls.model_validate(other.model_dump())


def made_by(schema: type[S], function: Callable[..., type[S]], *arguments: object) -> type[S]:
    """Return a schema made at run time, which can be pickled from now on.

    Args:
        schema: The schema, of which a module has no name to pickle.
        function: The function of a module that makes it.
        arguments: What it is called with.
    """
    setattr(schema, _RECIPE, (function, arguments))
    return schema


def _schema_in(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def _reduce_schema(schema: type) -> Any:
    recipe: tuple[Any, ...] | None = vars(schema).get(_RECIPE)
    return recipe or schema.__qualname__


copyreg.pickle(_SchemaType, _reduce_schema)


@dataclass(frozen=True, kw_only=True)
class Question(Generic[R]):
    """A question of a judge to a model.

    Args:
        prompt: Name of the file in a pack.
        reply: Schema of the reply, with the deciding fields after the reasons.
        compat: Looser schema for `variant="compat"`, as the reference implementation reads replies.
        task: Instructions in place of the pack's.
        fills: Values for the `$name` placeholders of the task, or a function that returns them for a pack.
        examples: Worked examples in place of the pack's.
        example_format: If the pack's examples have another schema: that schema, and a function that converts its
            replies to this one.
        shared: Whether judges that ask this about one sample share the reply.
    """

    prompt: str
    reply: type[R]
    compat: type[ReplySchema] | None = None
    task: str | None = None
    fills: _Fills = field(default_factory=dict)
    examples: tuple[WorkedExample, ...] | None = None
    example_format: tuple[type[BaseModel], Callable[[Any], R]] | None = None
    shared: bool = False

    def as_compat(self) -> Question[Any]:
        """Return the question with its looser schema, if it has one, and the same examples."""
        if self.compat is None:
            return self
        looser, question = self.compat, cast("Question[Any]", self)
        schema, convert = question.example_format or (question.reply, _unchanged)
        return replace(question, reply=looser, example_format=(schema, partial(_loosened, looser, convert)))

    def model_reply(self, reply: Mapping[str, JsonValue]) -> R:
        """Return the reply of an example as this question's schema."""
        if self.example_format is None:
            return self.reply.model_validate(reply)
        schema, convert = self.example_format
        return convert(schema.model_validate(reply))


def _unchanged(reply: Any) -> Any:
    return reply


def _loosened(schema: type[ReplySchema], convert: Callable[[Any], Any], reply: Any) -> Any:
    """Return the reply of an example as another schema."""
    return schema.from_reply(convert(reply))
