"""Judges that rate an answer on described levels: `Rubric`, and `Helpfulness`, the rubric for any chat answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Unpack

from pydantic import BeforeValidator, Field, JsonValue, ValidationError, create_model

from judges.catalogue.metric import AskingSettings, ModelJudge
from judges.catalogue.parts.fields import answer_in, evidence
from judges.entry import Explanation
from judges.errors import BadSample, ConfigurationError, first_fault, unfit
from judges.models.prompt_and_reply import render_example
from judges.prompting.prompts import Language, Prompt, Question, ReplySchema, made_by, prompt
from judges.requests import Deliberation, WorkedExample
from judges.sample import Sample
from judges.verdict import Verdict, strict_integer

GradedExample = tuple[Mapping[str, Any], Mapping[str, JsonValue]]
"""An example: the fields of a sample, and the expected reply (`rationale`, `rating`, `feedback`)."""


class _RubricSettings(AskingSettings, total=False):
    """Settings of a rubric beside its own: it has one variant, and passes by its rating."""

    language: Language | None
    prompts: str | Path | None


class Rubric(ModelJudge, entry="rubric"):
    """Rate an answer by your own criterion, on levels you describe.

    The judge sees the whole conversation, tool calls and tool results, retrieved contexts, and the reference
    where the sample has one. It gives its reasons before its rating (as in G-Eval, arXiv 2303.16634).

    Raises:
        ConfigurationError: If a setting is out of its range; the message says which.
    """

    _prompt_name: ClassVar[str] = "rubric"

    def __init__(
        self,
        model: object = None,
        *,
        criteria: str,
        levels: Mapping[int, str],
        name: str = "rubric",
        instructions: str | None = None,
        examples: Sequence[GradedExample] | None = None,
        success_rating: int | None = None,
        own_guidelines: bool = False,
        **settings: Unpack[_RubricSettings],
    ) -> None:
        self.name = name
        self._own_guidelines = own_guidelines
        level_texts = _checked_levels(levels)
        self._scale = tuple(sorted(level_texts))
        self._success = _checked_success(success_rating, self._scale)
        self._question: Question[Any] = Question(
            prompt=self._prompt_name,
            reply=_reply_schema(self._scale),
            task=instructions,
            fills=partial(_fills_with_guidelines if own_guidelines else _fills, criteria, level_texts),
            examples=None if examples is None else self._rendered_examples(examples),
        )
        super().__init__(model, questions=(self._question,), name=name, **settings)

    @property
    def is_ours_alone(self) -> bool:
        """True if a call runs code of this package alone, which ends as soon as it is cancelled."""
        is_direct = getattr(self._models[0], "is_direct", False)
        return self.is_of_this_package and is_direct and not self._first_questions

    def explain(self) -> Explanation:
        """Describe what the judge needs, reads, asks and costs."""
        return replace(super().explain(), reads=("guidelines",) if self._own_guidelines else ())

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once for rationale, rating and feedback."""
        answer_in(sample)
        reply = yield from self.ask(self._question, sample, self._data(sample))
        return self._verdict(reply.rating, rationale=reply.rationale, feedback=reply.feedback)

    def lowest_verdict(self, **fields: Any) -> Verdict:
        """Return the verdict on an answer without content: the lowest level."""
        return self._verdict(self._scale[0], **fields)

    def _data(self, sample: Sample) -> dict[str, JsonValue]:
        """Return what the model is shown of a sample."""
        if not self._own_guidelines:
            return evidence(sample)
        guidelines = sample.model_dump(mode="json", include={"guidelines"})
        return {name: value for name, value in {**guidelines, **evidence(sample)}.items() if value}

    def _rendered_examples(self, examples: Iterable[GradedExample]) -> tuple[WorkedExample, ...]:
        try:
            return tuple(
                render_example(evidence(Sample.read(sample)), _reply_schema(self._scale).model_validate(reply))
                for sample, reply in examples
            )
        except BadSample as error:
            raise ConfigurationError(f"example of {self.name!r}: {error}") from error
        except ValidationError as error:
            place, fault = first_fault(error)
            raise ConfigurationError(f"example of {self.name!r}, reply, field {place!r}: {fault}") from error

    def _verdict(self, level: int, **fields: str) -> Verdict:
        return _marks(level, self._scale, self._success).model_copy(update=fields)


@lru_cache(maxsize=256)
def _marks(level: int, scale: tuple[int, ...], success: int) -> Verdict:
    """Return a verdict with the marks of a level alone."""
    if scale == (1, 2, 3, 4):
        return Verdict.rated(level, success_rating=success)
    lowest, highest = scale[0], scale[-1]
    place = (level - lowest) / (highest - lowest)
    mark = (success - lowest) / (highest - lowest)
    return Verdict.scored(place, threshold=mark, value=level)


class Helpfulness(Rubric, entry="helpfulness"):
    """Rate from 1 to 4 how helpful an answer is to the person who asked.

    After Spring AI's self-refine advisor, with four levels: 1 does not serve the person, 2 the main thing is
    missing or misleads, 3 it can be acted on, 4 nothing is missing or wrong. Unlike there, an honest abstention, a
    question back and a due refusal are helpful, reasons come before the rating, ratings outside the scale are
    refused, tool results count as evidence, and the prompt offers the judge no reward.

    Raises:
        ConfigurationError: If there is no model, or a setting is out of its range.
    """

    _prompt_name = "helpfulness"

    def __init__(
        self,
        model: object = None,
        *,
        name: str = "helpfulness",
        instructions: str | None = None,
        examples: Sequence[GradedExample] | None = None,
        success_rating: int = 3,
        **settings: Unpack[_RubricSettings],
    ) -> None:
        super().__init__(
            model,
            criteria="helpfulness",
            levels=prompt("helpfulness", "en").levels,
            name=name,
            instructions=instructions,
            examples=examples,
            success_rating=success_rating,
            **settings,
        )


def _fills(criteria: str, levels: Mapping[int, str], text: Prompt, _: Language) -> dict[str, str]:
    """Return the values of the prompt's placeholders; levels described in a pack replace the judge's own."""
    described = {**levels, **text.levels}
    lines = (f"{level}: {described[level]}" for level in sorted(described))
    return {"criteria": criteria, "levels": "\n".join(lines)}


def _fills_with_guidelines(
    criteria: str, levels: Mapping[int, str], text: Prompt, language: Language
) -> dict[str, str]:
    """Return the same, where the sample's own guidelines are part of the criterion."""
    return _fills(f"{criteria}\n{text.feedback['guidelines']}", levels, text, language)


def _checked_levels(levels: object) -> dict[int, str]:
    """Check the levels; as JSON keys are always texts, digits are read as the number they spell."""
    candidates = levels if isinstance(levels, Mapping) else {}
    parsed = {_whole(level): text for level, text in candidates.items()}
    if len(parsed) < 2 or None in parsed or len(parsed) < len(candidates):  # noqa: PLR2004 - a scale has two ends
        raise unfit(
            "levels maps at least two whole numbers to their descriptions, for instance "
            "{1: 'rude', 2: 'neutral', 3: 'kind'}",
            levels,
        )
    return {level: text for level, text in parsed.items() if level is not None}


def _whole(level: object) -> int | None:
    if isinstance(level, str) and re.fullmatch(r"-?\d+", level):
        return int(level)
    return level if type(level) is int else None


def _checked_success(rating: int | None, scale: tuple[int, ...]) -> int:
    if rating is None:
        two_thirds = scale[0] + (scale[-1] - scale[0]) * 2 / 3
        return next(level for level in scale if level >= two_thirds)
    if type(rating) is not int or rating not in scale:
        raise unfit(f"success_rating is one of {', '.join(map(str, scale))}", rating)
    return rating


@lru_cache(maxsize=256)
def _reply_schema(scale: tuple[int, ...]) -> type[ReplySchema]:
    rating = Annotated[Literal[scale], BeforeValidator(strict_integer)]  # type: ignore[valid-type]
    schema = create_model(
        "Assessment",
        __base__=ReplySchema,
        __doc__="Assessment of an answer.",
        rationale=(str, Field(description="text: your reasons, before you rate")),
        rating=(rating, Field(description=f"whole number: one of {', '.join(map(str, scale))}")),
        feedback=(str, Field(description="text: what to change; empty if nothing")),
    )
    return made_by(schema, _reply_schema, scale)
