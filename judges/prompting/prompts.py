"""Prompts as data: one TOML file per judge and language, in a pack of the package or in a user's folder.

A file holds `task` (the instructions), `reminder` (the task in one sentence, repeated after the data), `levels`
where the judge rates on described levels, `examples`, and `feedback`, the phrases of a judge's own feedback.
Placeholders have the form `$name` only, so braces and percent signs have no meaning.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError, model_validator

from judges.errors import ConfigurationError

Language = str
"""A language by its code, such as `"en"`; each is a folder of a pack."""

LANGUAGES: tuple[Language, ...] = ("en", "zh", "ru")
"""The languages of the package's own packs."""

_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
"""Tells Japanese from Chinese: it has many of these between its Chinese characters."""

_CYRILLIC = re.compile(r"[\u0400-\u04ff]")
_LATIN = re.compile(r"[A-Za-z]")


class Example(BaseModel):
    """A worked example: the data of a request, and the expected reply."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: dict[str, JsonValue]
    reply: dict[str, JsonValue]


class Prompt(BaseModel):
    """One file of a pack: a question to a model, phrases of feedback, or both."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str = ""
    reminder: str = ""
    levels: dict[int, str] = {}
    examples: tuple[Example, ...] = ()
    feedback: dict[str, str] = {}

    @model_validator(mode="after")
    def _check_reminder(self) -> Self:
        if self.task and not self.reminder:
            raise ValueError("a task needs a reminder, the task in one sentence")
        return self

    def fill_task(self, **values: str) -> str:
        """Return the task with `$name` placeholders replaced; other `$` signs stay."""
        return Template(self.task).safe_substitute(values)

    def feedback_text(self, phrase: str, **values: object) -> str:
        """Return a phrase of feedback with its placeholders replaced."""
        return Template(self.feedback[phrase]).safe_substitute(values)


def prompt(name: str, language: Language, *, folder: Path | None = None) -> Prompt:
    """Load the prompt of a judge, from `folder` where it has one, else from the package.

    A folder mirrors the package: `folder/en/helpfulness.toml`.

    Raises:
        ConfigurationError: If there is no such prompt or its file cannot be read.
    """
    if folder is not None:
        own = folder / language / f"{name}.toml"
        if own.is_file():
            packaged = _load_packaged(name, language if language in LANGUAGES else "en")
            return _complete(_parse(own.read_bytes(), str(own)), packaged, str(own))
    return _load_packaged(name, language)


def _complete(own: Prompt, packaged: Prompt, place: str) -> Prompt:
    """Return a user's prompt with what it leaves out taken from the package: task, reminder, phrases of feedback.

    A task may contain its levels itself in place of `$levels`.

    Raises:
        ConfigurationError: If a placeholder of the task is missing, or a phrase has one that is never filled.
    """
    needed = _placeholders(packaged.task) - ({"$levels"} if packaged.levels else set())
    missing = needed - _placeholders(own.task or packaged.task)
    if missing:
        raise ConfigurationError(f"{place}: the task must have {', '.join(sorted(missing))}, which is filled in")
    for name, phrase in own.feedback.items():
        allowed = _placeholders(packaged.feedback.get(name, phrase))
        if unknown := _placeholders(phrase) - allowed:
            hint = f"known there are {', '.join(sorted(allowed))}" if allowed else "none is known there"
            raise ConfigurationError(f"{place}: feedback {name!r} has {', '.join(sorted(unknown))}; {hint}")
    return own.model_copy(
        update={
            "task": own.task or packaged.task,
            "reminder": own.reminder or packaged.reminder,
            "feedback": {**packaged.feedback, **own.feedback},
        }
    )


def _placeholders(text: str) -> set[str]:
    return {f"${name}" for name in Template(text).get_identifiers()}


def prompts_of(name: str, *, folder: Path | None = None) -> dict[Language, Prompt]:
    """Load the prompts of a judge in every language: those of the package, and those of the user's folder.

    Raises:
        ConfigurationError: If `folder` is no folder, or one of the prompts cannot be read.
    """
    if folder is not None and not folder.is_dir():
        raise ConfigurationError(
            f"prompts is a folder laid out like en/{name}.toml; there is none at {str(folder)!r}"
        )
    own = () if folder is None else sorted(file.parent.name for file in folder.glob(f"*/{name}.toml"))
    return {language: prompt(name, language, folder=folder) for language in dict.fromkeys((*LANGUAGES, *own))}


@cache
def _load_packaged(name: str, language: Language) -> Prompt:
    file = resources.files("judges") / "packs" / language / f"{name}.toml"
    if not file.is_file():
        raise ConfigurationError(f"there is no prompt {name!r} in language {language!r}; known are {LANGUAGES}")
    return _parse(file.read_bytes(), f"{language}/{name}.toml")


def _parse(content: bytes, place: str) -> Prompt:
    try:
        return Prompt.model_validate(tomllib.loads(content.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{place} is not valid TOML: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{place}: field {field!r}: {first['msg']}") from error


def language_of(text: str) -> Language:
    """Return the language of the pack for a text, by the script of most of its letters."""
    counts: dict[Language, int] = {
        "zh": 0 if 4 * len(_KANA.findall(text)) > (han := len(_HAN.findall(text))) else 2 * han,
        "ru": len(_CYRILLIC.findall(text)),
        "en": len(_LATIN.findall(text)),
    }
    most = max(counts, key=lambda language: counts[language])
    return most if counts[most] else "en"
