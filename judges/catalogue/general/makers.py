"""Judges of one prompt: `discrete` replies with a label, `numeric` with a number, `ranking` with an order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

from pydantic import Field, create_model

from judges.catalogue.databricks.custom import Custom, column, source_field, variables_in, with_names
from judges.catalogue.general.ranking import Ranking
from judges.catalogue.metric import ModelJudge, ModelSettings, Variant
from judges.catalogue.parts.questions import checked_text, example_format, full_evidence
from judges.errors import unfit
from judges.judge import Judge
from judges.prompting.prompts import Language, Prompt, Question, ReplySchema, made_by
from judges.requests import Deliberation
from judges.runtime.validation import finite_number
from judges.sample import Sample

_SINGLE_BRACES = re.compile(r"(?<!\{)\{\s*([A-Za-z_]\w*)\s*\}(?!\})")
_GOOD = frozenset({"pass", "yes", "good", "true", "correct", "safe", "excellent", "high"})
_BAD = frozenset({"fail", "no", "bad", "false", "incorrect", "wrong", "unsafe", "poor", "low"})


class Discrete(Custom, entry="discrete"):
    """Judge by a prompt of one's own, with one of some labels.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    def __init__(
        self,
        model: object = None,
        *,
        prompt: str,
        allowed: Sequence[str] | Mapping[str, float] = ("fail", "pass"),
        **settings: Unpack[ModelSettings],
    ) -> None:
        criteria = _SINGLE_BRACES.sub(r"{{ \1 }}", checked_text(prompt, setting="prompt"))
        super().__init__(model, criteria=criteria, answer=_worst_first(allowed), **settings)


class Numeric(ModelJudge, entry="numeric", pack="databricks_custom"):
    """Judge by a prompt of one's own, with a number in a range.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    def __init__(
        self,
        model: object = None,
        *,
        prompt: str,
        allowed: tuple[float, float] = (0.0, 1.0),
        **settings: Unpack[ModelSettings],
    ) -> None:
        criteria = _SINGLE_BRACES.sub(r"{{ \1 }}", checked_text(prompt, setting="prompt"))
        self._columns = variables_in(criteria)
        self._low, self._high = low, high = _checked_range(allowed)
        reply = _number_schema(low, high)
        self._question: Question[Any] = Question(
            prompt=self.pack,
            reply=reply,
            fills=partial(_fills, with_names(criteria), low, high),
            example_format=example_format(reply, lowest=low, highest=high),
        )
        super().__init__(model, questions=(self._question,), **settings)

    @property
    def needs(self) -> tuple[str, ...]:
        """The fields of a sample that are shown."""
        return tuple(map(source_field, self._columns)) or self.entry.needs

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once."""
        data = {name: column(name, sample) for name in self._columns} or full_evidence(sample)
        reply = yield from self.ask(self._question, sample, data)
        score = (reply.verdict - self._low) / (self._high - self._low)
        feedback = "" if score == 1 else reply.feedback
        return self.verdict(score, value=reply.verdict, rationale=reply.rationale, feedback=feedback)


class _Settings(TypedDict, total=False):
    """Settings of the judges of one prompt, but for the name."""

    variant: Variant
    threshold: float | None
    language: Language | None
    prompts: str | Path | None
    temperature: float | None


def discrete(
    name: str,
    *,
    prompt: str,
    allowed: Sequence[str] | Mapping[str, float] = ("fail", "pass"),
    model: object = None,
    **settings: Unpack[_Settings],
) -> Judge:
    """Return a judge that replies with one of some labels; see `Discrete`.

    Args:
        name: Name of the judge.
        prompt: What to judge, in words.
        allowed: The labels from worst to best, or labels with their scores.
        model: The model to ask.
        settings: `threshold`, `language` and others; see `judges.catalogue.metric.ModelSettings`.
    """
    return Discrete(model, prompt=prompt, allowed=allowed, name=name, **settings)


def numeric(
    name: str,
    *,
    prompt: str,
    allowed: tuple[float, float] = (0.0, 1.0),
    model: object = None,
    **settings: Unpack[_Settings],
) -> Judge:
    """Return a judge that replies with a number; see `Numeric`.

    Args:
        name: Name of the judge.
        prompt: What to judge, in words.
        allowed: The ends of the range, worst and best.
        model: The model to ask.
        settings: `threshold`, `language` and others; see `judges.catalogue.metric.ModelSettings`.
    """
    return Numeric(model, prompt=prompt, allowed=allowed, name=name, **settings)


def ranking(
    name: str, *, prompt: str, allowed: int | None = None, model: object = None, **settings: Unpack[_Settings]
) -> Judge:
    """Return a judge that ranks the answer among its rivals; see `Ranking`.

    Args:
        name: Name of the judge.
        prompt: What makes a candidate better, in words.
        allowed: How many candidates there must be; None takes any number from 2.
        model: The model to ask.
        settings: `threshold`, `language` and others; see `judges.catalogue.metric.ModelSettings`.
    """
    return Ranking(model, prompt=prompt, allowed=allowed, name=name, **settings)


def _worst_first(allowed: Any) -> Any:
    """Return labels from worst to best, turned round where their words say so; anything else as it is."""
    if not isinstance(allowed, list | tuple) or len(allowed) < 2:  # noqa: PLR2004 - a scale has two ends
        return list(allowed) if isinstance(allowed, tuple) else allowed
    first, last = (str(label).strip().casefold() for label in (allowed[0], allowed[-1]))
    return list(reversed(allowed)) if first in _GOOD and last in _BAD else list(allowed)


def _checked_range(allowed: object) -> tuple[float, float]:
    ends = list(allowed) if isinstance(allowed, list | tuple) else []
    if len(ends) != 2:  # noqa: PLR2004 - a range has two ends
        raise unfit("allowed has two ends such as (0.0, 1.0) or (1, 5)", allowed)
    low, high = (finite_number(end, setting="an end of allowed") for end in ends)
    if low >= high:
        raise unfit("allowed runs from the worst number up to the best", allowed)
    return low, high


@lru_cache(maxsize=256, typed=True)  # the ends (0, 1) want whole numbers, (0.0, 1.0) do not
def _number_schema(low: float, high: float) -> type[ReplySchema]:
    whole = type(low) is int and type(high) is int
    words = f"{'whole number' if whole else 'number'}: from {low} to {high}"
    number: Any = Annotated[int if whole else float, Field(ge=low, le=high, description=words)]
    schema = create_model(
        "Measurement",
        __base__=ReplySchema,
        __doc__="What was measured.",
        rationale=(str, Field(description="text: your reasons, before the number")),
        verdict=(number, ...),
        feedback=(str, Field(description="text: what to change; empty if nothing")),
    )
    return made_by(schema, _number_schema, low, high)


def _fills(criteria: str, low: float, high: float, text: Prompt, _: Language) -> Mapping[str, str]:
    return {"criteria": f"{criteria}\n{text.feedback_text('scale', labels=f'{low} ... {high}')}"}
