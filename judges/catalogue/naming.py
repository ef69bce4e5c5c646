"""Judges by their names, wherever a judge is taken: loaded from the catalogue, a module or a file of judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from judges.catalogue.judges_file import JudgesFile, is_judges_file
from judges.catalogue.specs import JudgeSpec
from judges.compose.panel import Panel, as_judge
from judges.errors import ConfigurationError, shortened
from judges.judge import Judge

_NAMED = ("the judge ", "there is no judge ")
"""How errors begin that name the judge."""


class FileJudges(dict[str, Judge]):
    """The judges of a file by name, in the place of its path."""


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
    judges = named(candidate, model=model, default=default, remedy=remedy)
    if isinstance(judges, FileJudges):
        return next(iter(judges.values())) if len(judges) == 1 else Panel(judges, name=name or "panel")
    return as_judge(judges, name=name)


def load_text(text: str, model: object, settings: Mapping[str, Any]) -> Judge:
    """Return the judge that a text names, with more settings than it has.

    Raises:
        ConfigurationError: If a name or a setting is wrong, or settings are given for a file of judges.
    """
    if is_judges_file(text):
        if settings:
            raise ConfigurationError(f"the settings of {shortened(text)} stand in the file; write them there")
        return one_judge(text, model=model)
    spec = JudgeSpec.parse(text)
    return replace(spec, settings={**spec.settings, **settings}).load(model=model)


def _loaded(text: str, *, model: object, default: object, remedy: str) -> Judge:
    try:
        return JudgeSpec.parse(text).load(model=model, default=default, remedy=remedy)
    except ConfigurationError as error:
        if str(error).startswith(_NAMED):
            raise
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
