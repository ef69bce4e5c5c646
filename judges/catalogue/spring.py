"""Judges modelled on Spring AI's evaluators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import JsonValue

from judges.catalogue.parts.needed import answer_in, non_blank_contexts_in, question_in
from judges.catalogue.parts.one_question import YesOrNo
from judges.entry import Entry
from judges.sample import Sample


class RelevancyEvaluator(YesOrNo):
    """Judge whether an answer agrees with its contexts; whether it suits the question does not count.

    With `variant="compat"` the model replies in words, and nothing but "yes" passes, in any case and between
    blanks, as in Spring AI.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="spring.relevancy_evaluator",
        aliases=("spring.relevancy", "spring.context_consistency", "RelevancyEvaluator"),
        asks="Is the answer to the question in line with the contexts?",
        needs=("user_input", "response", "retrieved_contexts"),
        calls="1",
        scale="yes or no",
        source="Spring AI",
        differs="A closed yes or no with reasons and feedback; no contexts is unscored.",
        tags=("rag", "groundedness", "consistency"),
    )
    pack = "spring_relevancy_evaluator"

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question, the contexts and the answer."""
        return agreement(sample)

    def is_yes(self, word: str) -> bool:
        """Whether the reply is exactly "yes", in any case."""
        return word.strip().lower() == "yes"


def agreement(sample: Sample) -> dict[str, JsonValue]:
    """Return the question, the contexts and the answer, by name."""
    answer = answer_in(sample)
    return {"question": question_in(sample), "contexts": non_blank_contexts_in(sample), "answer": answer}
