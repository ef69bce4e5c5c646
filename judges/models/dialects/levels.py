"""Mapping the scale of a judge model onto the levels of a judge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args, get_origin

from pydantic import BaseModel

from judges.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Levels:
    """The levels that a reply chooses from.

    Args:
        field: Name of the field that holds the level.
        choices: The levels, the worst first.
        texts: Names of the other fields, all of them text.
    """

    field: str
    choices: tuple[int, ...]
    texts: tuple[str, ...]


@cache
def levels_of(schema: type[BaseModel]) -> Levels:
    """Return the levels of a reply, which has one field for them: a closed list of whole numbers, or yes or no.

    Raises:
        ConfigurationError: If a model that gives one score and its reasons cannot fill the reply.
    """
    texts: list[str] = []
    fields: list[tuple[str, tuple[int, ...]]] = []
    for name, field in schema.model_fields.items():
        kind = field.annotation
        values = (False, True) if kind is bool else get_args(kind) if get_origin(kind) is Literal else ()
        if kind is str:
            texts.append(name)
        elif len(values) > 1 and all(isinstance(value, int) for value in values):
            fields.append((name, tuple(sorted(values))))
    if len(fields) != 1 or len(fields) + len(texts) != len(schema.model_fields):
        raise ConfigurationError(
            f"a model that judges in a format of its own gives one score and its reasons, which does not fill a "
            f"{schema.__name__!r}; give this judge a general model"
        )
    ((field_name, choices),) = fields
    return Levels(field_name, choices, tuple(texts))


def scores_for(levels: Levels, scales: Sequence[range]) -> range:
    """Choose the model's scale: one with as many steps as there are levels, else the finest."""
    fitting = (scale for scale in scales if len(scale) == len(levels.choices))
    return next(fitting, max(scales, key=len))


def level_at(score: int, scores: range, levels: Levels) -> int:
    """Map a score onto a level by its place on the scale.

    Counted from 0, the i-th of m scores stands for level number `round(i * (n - 1) / (m - 1))` of n; halves go to
    the even one. So 1 to 5 becomes 1, 2, 3, 3, 4 on the levels 1 to 4, which is `1 + round(3 * (score - 1) / 4)`;
    0 and 1 become the lowest and the highest level.
    """
    step = scores.index(score)
    return levels.choices[round(step * (len(levels.choices) - 1) / (len(scores) - 1))]


def criteria_and_rubric(task: str, scores: range, levels: Levels) -> tuple[str, str]:
    """Rewrite a task for the scale of a model.

    Where the task lists its levels once, one a line as `level: description`, each score gets the description of
    the level it will be mapped onto, and the list in the task is replaced by these lines, so that no number
    stands for two things. Otherwise each line names the level that its score stands for.

    Returns:
        The criteria, and the lines that describe the scores.
    """
    listing = "\n".join(rf"{level}: (.*)" for level in levels.choices)
    matches = [*re.finditer(rf"^{listing}$", task, re.MULTILINE)]
    listed = matches[0] if len(matches) == 1 else None
    texts = listed.groups() if listed else [f"level {level} of the criteria" for level in levels.choices]
    descriptions = dict(zip(levels.choices, texts, strict=True))
    lines = "\n".join(f"Score {score}: {descriptions[level_at(score, scores, levels)]}" for score in scores)
    return (f"{task[: listed.start()]}{lines}{task[listed.end() :]}" if listed else task), lines
