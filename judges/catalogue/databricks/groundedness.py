"""Groundedness: does an answer say nothing but what the retrieved documents support?"""

from __future__ import annotations

from typing import ClassVar, Unpack

from pydantic import JsonValue

from judges.catalogue.databricks.built_in import BuiltIn
from judges.catalogue.model_judge import ModelSettings
from judges.catalogue.parts.items import Supports, numbered_items, reasons, share
from judges.catalogue.parts.needed import answer_in, question_of
from judges.catalogue.parts.sentences import sentences
from judges.catalogue.parts.support import support_feedback
from judges.catalogue.parts.tool_results import premises_in, reads_tool_results
from judges.entry import Entry
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.sample import Sample


class Groundedness(BuiltIn):
    """Judge whether every sentence of an answer is supported by its contexts and by what tools returned, together.

    The answer's sentences are numbered, and each is found supported, contradicted or absent, in one call.
    Score = supported / sentences; it passes at `threshold`, 1.0 unless given, so when all are supported.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        tool_results: Whether what tools returned counts as well as the contexts, or in place of them where there
            are none. None counts it, except with `variant="compat"`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range, or `variant="compat"` is to count tool results.
    """

    entry: ClassVar[Entry] = Entry(
        name="databricks.groundedness",
        aliases=(
            "groundedness",
            "mlflow.retrieval_groundedness",
            "RetrievalGroundedness",
            "is_grounded",
            "GroundednessEvaluator",
            "GroundednessProEvaluator",
            "RAG_GROUNDEDNESS_PROMPT",
        ),
        asks="Does the answer say nothing but what the retrieved contexts support?",
        needs=("response", "retrieved_contexts"),
        calls="1",
        source="Databricks built-in judges; mlflow 3 RetrievalGroundedness",
        differs="One verdict for each sentence, against all contexts together, so that an answer drawn from two "
        "retrievals can pass; score is the share of sentences; tool results count beside the contexts.",
        tags=("rag", "hallucination", "faithfulness", "made up", "unsupported", "tool results"),
        examples=("tool_results=True",),
    )
    pack = "databricks_groundedness"
    pass_mark = 1.0
    question = Question(prompt="databricks_groundedness", reply=Supports)

    def __init__(
        self, model: object = None, *, tool_results: bool | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        super().__init__(model, **settings)
        self._tool_results = reads_tool_results(tool_results, compat=self.compat)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look for each sentence of the answer in the contexts."""
        answer = answer_in(sample)
        contexts = premises_in(sample, tool_results=self._tool_results)
        data: dict[str, JsonValue] = {**question_of(sample), "contexts": contexts}
        if self.compat:
            return (yield from self.overall(sample, {**data, "answer": answer}))
        statements = sentences(answer) or (answer.strip(),)
        items = yield from self.support_verdicts(
            sample, {**data, "sentences": numbered_items(statements, called="sentence")}, statements
        )
        advice = support_feedback(self, sample, items, called="texts", absent="absent")
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=items)
