"""Relevance to the query: does an answer address what was asked?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from pydantic import JsonValue

from judges.catalogue.databricks.labelled import Labelled
from judges.catalogue.parts.needed import answer_in, question_in
from judges.catalogue.parts.one_question import finding_schema
from judges.entry import Entry
from judges.prompting.questions import Question
from judges.sample import Sample

_LABELS: Mapping[str, float] = MappingProxyType({"none": 0.0, "partial": 0.5, "full": 1.0})


class RelevanceToQuery(Labelled):
    """Judge how far an answer addresses the question: not at all, in part, or in full; it need not be right.

    The score is 0, 0.5 or 1, and passes at `threshold`, 0.5 unless given, so that a part suffices as in mlflow.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="databricks.relevance_to_query",
        aliases=(
            "relevance_to_query",
            "mlflow.relevance_to_query",
            "RelevanceToQuery",
            "is_context_relevant",
            "RelevanceEvaluator",
            "ANSWER_RELEVANCE_PROMPT",
        ),
        asks="How far does the answer address what was asked?",
        needs=("user_input", "response"),
        calls="1",
        scale="none, partial, full",
        source="Databricks built-in judges; mlflow 3 RelevanceToQuery",
        differs="An answer that addresses only a part is told from one that addresses everything.",
        tags=("relevancy", "on topic", "off topic"),
    )
    pack = "databricks_relevance_to_query"
    labels = _LABELS
    question = Question(prompt="databricks_relevance_to_query", reply=finding_schema(tuple(_LABELS)))

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question and the answer."""
        answer = answer_in(sample)
        return {"question": question_in(sample), "answer": answer}
