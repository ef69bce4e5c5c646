"""Rubrics scores: the described level that an answer reaches, on one scale for all rows or a scale for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Unpack

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.needed import reference_in
from judges.catalogue.parts.one_question import Grade, finding_schema, full_evidence, level_verdict
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.prompting.prompts import Language, Prompt, prompt
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.sample import Sample

Rubrics = Mapping[str, str] | Mapping[int, str]
"""Descriptions of levels, keyed `"score1_description"` as in ragas, `"1"` or 1."""

_PLAIN, _REFERENCED = "rubrics_score", "rubrics_score_reference"


class RubricsScore(ModelJudge):
    """Rate an answer on described levels, the same for all rows; the feedback says what the next level requires.

    Score = (level - lowest) / (highest - lowest). The default levels go from 1 to 5, and rate the agreement with
    the reference if there is one, and else the answer alone.

    With `variant="compat"` the model may give any whole number, as in ragas; one outside the levels is unscored,
    `invalid_output`, with the number as its value.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        rubrics: Descriptions of the levels, keyed `"score1_description"` as in ragas, or by plain whole numbers.
        with_reference: Whether to rate by the reference: True requires one, False hides it, and None uses it if
            there is one.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.rubrics_score",
        aliases=(
            "rubrics_score",
            "RubricsScore",
            "DomainSpecificRubrics",
            "domain_specific_rubrics",
            "ragas.domain_specific_rubrics",
        ),
        asks="Which of the described levels does the answer reach?",
        needs=("response",),
        calls="1",
        scale="1 to 5, or your levels",
        source="ragas 0.4",
        differs="Levels that are not described are refused; the score is normalised; the feedback says what is "
        "missing for the next level.",
        tags=("custom", "criteria", "levels", "rating", "grading"),
        examples=('rubrics={"score1_description": "wrong", "score2_description": "right"}', "with_reference=True"),
        follows="both generations, which agree",
    )

    def __init__(
        self,
        model: object = None,
        *,
        rubrics: Rubrics | None = None,
        with_reference: bool | None = None,
        **settings: Unpack[ModelSettings],
    ) -> None:
        if with_reference not in (True, False, None):
            raise ConfigurationError(f"with_reference is True, False or None, not {shortened(with_reference)}")
        self._with_reference = with_reference
        self._own = None if rubrics is None else _own_levels(rubrics)
        self._scale = tuple(sorted(self._own or prompt(_PLAIN, "en").levels))
        self._plain = self._question(_PLAIN)
        self._referenced = self._plain if self._own else self._question(_REFERENCED)
        questions = {_PLAIN: self._plain, self._referenced.prompt: self._referenced}
        super().__init__(model, questions=tuple(questions.values()), **settings)

    @property
    def needs(self) -> tuple[str, ...]:
        """Fields of a sample it requires: the answer, and the reference with `with_reference=True`."""
        return ("response", "reference") if self._with_reference else self.entry.needs

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once, with the reference or without."""
        data = full_evidence(sample)
        if self._with_reference:
            reference_in(sample)
        if self._with_reference is False:
            data = {name: value for name, value in data.items() if not name.startswith("reference")}
        question = self._referenced if "reference" in data else self._plain
        reply = yield from self.ask(question, sample, data)
        return level_verdict(self, reply, self._scale)

    def _question(self, name: str) -> Question[Any]:
        """Return the question with the caller's levels and no examples, or else with those of the pack."""
        return Question(
            prompt=name,
            reply=finding_schema(self._scale),
            compat=Grade,
            fills=partial(_fills, name, self._own, self._scale),
            examples=() if self._own else None,
        )


class RubricsScoreWithReference(RubricsScore):
    """Rate an answer on described levels by its agreement with the reference, which must be there.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        rubrics: Descriptions of the levels, keyed `"score1_description"` as in ragas, or by plain whole numbers.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = replace(
        RubricsScore.entry,
        name="ragas.rubrics_score_with_reference",
        aliases=("rubrics_score_with_reference", "RubricsScoreWithReference"),
        asks="Which of the described levels does the answer reach, held against the reference?",
        needs=("response", "reference"),
    )

    def __init__(
        self, model: object = None, *, rubrics: Rubrics | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        super().__init__(model, rubrics=rubrics, with_reference=True, **settings)


class RubricsScoreWithoutReference(RubricsScore):
    """Rate an answer on described levels; a reference is not shown, even where there is one.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        rubrics: Descriptions of the levels, keyed `"score1_description"` as in ragas, or by plain whole numbers.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = replace(
        RubricsScore.entry,
        name="ragas.rubrics_score_without_reference",
        aliases=("rubrics_score_without_reference", "RubricsScoreWithoutReference"),
        asks="Which of the described levels does the answer reach, whatever the reference says?",
    )

    def __init__(
        self, model: object = None, *, rubrics: Rubrics | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        super().__init__(model, rubrics=rubrics, with_reference=False, **settings)


class InstanceRubrics(ModelJudge):
    """Rate an answer on the levels that its own row describes in `rubrics`.

    Score = (level - lowest) / (highest - lowest). With `variant="compat"` the model may give any whole number, as
    in ragas; one outside the levels is unscored, `invalid_output`, with the number as its value.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.instance_rubrics",
        aliases=(
            "instance_rubrics",
            "InstanceRubrics",
            "InstanceSpecificRubrics",
            "instance_specific_rubrics",
            "ragas.instance_specific_rubrics",
        ),
        asks="Which of the levels that its row describes does the answer reach?",
        needs=("response", "rubrics"),
        calls="1",
        scale="the levels of the row",
        source="ragas 0.4",
        differs="Levels that the row does not describe are refused; the score is normalised; the feedback says "
        "what is missing for the next level.",
        tags=("custom", "criteria", "levels", "rating", "grading"),
        follows="both generations, which agree",
    )
    question = Question(prompt="instance_rubrics", reply=Grade)

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, questions=(self.question,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once, with the levels of the row in the data and as the only values the reply may have."""
        data, levels = full_evidence(sample), _levels_of(sample)
        scale = tuple(sorted(levels))
        listed: list[JsonValue] = [{"level": one, "description": levels[one]} for one in scale]
        schema = Grade if self.compat else finding_schema(scale)
        request = self.request(self.question, sample, {"levels": listed, **data})
        reply = yield replace(request, schema=schema)
        return level_verdict(self, reply, scale)


def _fills(
    name: str, own: Mapping[int, str] | None, scale: tuple[int, ...], text: Prompt, _: Language
) -> dict[str, str]:
    levels = own or {**prompt(name, "en").levels, **text.levels}
    return {"levels": "\n".join(f"{level}: {levels[level]}" for level in scale)}


def _levels_of(sample: Sample) -> dict[int, str]:
    if not sample.rubrics:
        raise CannotJudge("no_rubrics", "the row has no rubrics")
    levels = _parse_levels(sample.rubrics)
    if levels is None:
        raise CannotJudge("no_rubrics", "rubrics describes at least two levels, keyed by whole numbers")
    return levels


def _own_levels(rubrics: object) -> dict[int, str]:
    levels = _parse_levels(rubrics) if isinstance(rubrics, Mapping) else None
    if levels is None:
        raise ConfigurationError(
            f"rubrics describes at least two levels, for instance {{'score1_description': 'rude', "
            f"'score2_description': 'kind'}}, not {shortened(rubrics)}"
        )
    return levels


def _parse_levels(rubrics: Mapping[Any, Any]) -> dict[int, str] | None:
    """Return the levels by number; None unless there are at least two, keyed as `Rubrics` says."""
    levels: dict[int, str] = {}
    for key, text in rubrics.items():
        match = re.fullmatch(r"(?:score)?(-?\d{1,9})(?:_description)?", str(key), re.ASCII)
        if match is None or not isinstance(text, str) or not text.strip():
            return None
        levels[int(match[1])] = text
    return levels if len(levels) == len(rubrics) > 1 else None
