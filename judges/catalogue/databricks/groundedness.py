"""Groundedness: does an answer say nothing but what the retrieved documents support?"""

from __future__ import annotations

from typing import ClassVar

from pydantic import JsonValue

from judges.catalogue.databricks.built_in import BuiltIn
from judges.catalogue.parts.items import Supports, numbered_items, reasons, share
from judges.catalogue.parts.needed import answer_in, non_blank_contexts_in, question_of
from judges.catalogue.parts.sentences import sentences
from judges.catalogue.parts.support import support_feedback
from judges.entry import Entry
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.sample import Sample


class Groundedness(BuiltIn):
    """Judge whether every sentence of an answer is supported by its contexts, taken together.

    The answer's sentences are numbered, and each is found supported, contradicted or absent, in one call.
    Score = supported / sentences; it passes at `threshold`, 1.0 unless given, so when all are supported.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="databricks.groundedness",
        aliases=("groundedness", "mlflow.retrieval_groundedness", "RetrievalGroundedness", "is_grounded"),
        asks="Does the answer say nothing but what the retrieved contexts support?",
        needs=("response", "retrieved_contexts"),
        calls="1",
        source="Databricks built-in judges; mlflow 3 RetrievalGroundedness",
        differs="One verdict for each sentence, against all contexts together, so that an answer drawn from two "
        "retrievals can pass; score is the share of sentences.",
    )
    pack = "databricks_groundedness"
    pass_mark = 1.0
    question = Question(prompt="databricks_groundedness", reply=Supports)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look for each sentence of the answer in the contexts."""
        answer = answer_in(sample)
        data: dict[str, JsonValue] = {**question_of(sample), "contexts": non_blank_contexts_in(sample)}
        if self.compat:
            return (yield from self.overall(sample, {**data, "answer": answer}))
        statements = sentences(answer) or (answer.strip(),)
        items = yield from self.support_verdicts(
            sample, {**data, "sentences": numbered_items(statements, called="sentence")}, statements
        )
        advice = support_feedback(self, sample, items, called="texts", absent="absent")
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=items)
