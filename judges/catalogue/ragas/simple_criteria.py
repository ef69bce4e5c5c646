"""Simple criteria score: a whole number for how far an answer meets a definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelSettings
from judges.catalogue.parts.one_question import (
    FINEST,
    Grade,
    OneQuestion,
    checked_text,
    example_format,
    finding_schema,
    full_evidence,
    level_verdict,
)
from judges.entry import Entry
from judges.errors import ConfigurationError, shortened
from judges.prompting.questions import Question
from judges.sample import Sample
from judges.verdict import Verdict


class SimpleCriteriaScore(OneQuestion):
    """Score an answer by a definition, on the whole numbers from `min_score` to `max_score`.

    Score = (value - min_score) / (max_score - min_score). With `variant="compat"` the model may give any whole
    number, as in ragas; one outside the scale is unscored, `invalid_output`, with the number as its value.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        definition: What earns a high score.
        min_score: The lowest, worst score.
        max_score: The highest, best score.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.simple_criteria_score",
        aliases=("simple_criteria_score", "SimpleCriteriaScore", "ragas.simple_criteria"),
        asks="How far does the answer meet your definition?",
        needs=("response",),
        calls="1",
        scale="min_score to max_score",
        source="ragas 0.4",
        differs="The scale is a setting and closed, not a part of the definition; the score is normalised.",
        tags=("custom", "own prompt", "rating", "grading"),
        examples=('definition="The answer is polite."', "min_score=1", "max_score=10"),
        follows="ragas.metrics (legacy), the only one",
    )
    pack = "simple_criteria"

    def __init__(
        self,
        model: object = None,
        *,
        definition: str,
        min_score: int = 0,
        max_score: int = 5,
        **settings: Unpack[ModelSettings],
    ) -> None:
        if type(min_score) is not int or type(max_score) is not int or not 0 < max_score - min_score < FINEST:
            raise ConfigurationError(
                f"min_score and max_score are whole numbers, the first one lower, at most {FINEST} levels in all, "
                f"not {shortened(min_score)} and {shortened(max_score)}"
            )
        self._lowest, self._highest = min_score, max_score
        reply = finding_schema(tuple(range(min_score, max_score + 1)))
        criteria = checked_text(definition, setting="definition")
        question: Question[Any] = Question(
            prompt=self.pack,
            reply=reply,
            compat=Grade,
            fills={"criteria": criteria, "lowest": str(min_score), "highest": str(max_score)},
            example_format=example_format(reply, lowest=min_score, highest=max_score),
        )
        super().__init__(model, question=question, **settings)

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return all the evidence of the sample."""
        return full_evidence(sample)

    def conclude(self, reply: Any) -> Verdict:
        """Return the verdict for a number of the scale."""
        return level_verdict(self, reply, range(self._lowest, self._highest + 1))
