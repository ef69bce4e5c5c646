"""Context sufficiency: do the retrieved documents hold every fact that a right answer needs?"""

from __future__ import annotations

from typing import ClassVar

from judges.catalogue.databricks.built_in import BuiltIn, facts_of
from judges.catalogue.parts.items import Supports, numbered_items, reasons, share
from judges.catalogue.parts.needed import non_blank_contexts_in, question_in
from judges.catalogue.parts.retrieval import for_retriever
from judges.catalogue.parts.support import support_feedback
from judges.entry import Entry
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.sample import Sample


class ContextSufficiency(BuiltIn):
    """Judge whether the retrieved contexts hold every fact that a right answer needs; no answer is looked at.

    The facts are `expected_facts` or, without those, the sentences of `reference`. Each is found supported,
    contradicted or absent in all contexts together, in one call. Score = supported / facts; it passes at
    `threshold`, 1.0 unless given, so when all are supported.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="databricks.context_sufficiency",
        aliases=(
            "context_sufficiency",
            "mlflow.retrieval_sufficiency",
            "RetrievalSufficiency",
            "is_context_sufficient",
        ),
        asks="Do the retrieved contexts hold every fact that a right answer needs?",
        needs=("user_input", "retrieved_contexts", "expected_facts or reference"),
        calls="1",
        subject="retriever",
        source="Databricks built-in judges; mlflow 3 RetrievalSufficiency",
        differs="One verdict for each fact, so that the missing ones are named; score is the share of facts.",
        tags=("rag", "retrieval", "search", "coverage", "recall"),
    )
    pack = "databricks_context_sufficiency"
    pass_mark = 1.0
    question = Question(prompt="databricks_context_sufficiency", reply=Supports)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look for each fact in the contexts."""
        contexts, facts = non_blank_contexts_in(sample), facts_of(sample, compat=self.compat)
        data = {
            "question": question_in(sample),
            "contexts": contexts,
            "facts": numbered_items(facts, called="fact"),
        }
        if self.compat:
            verdict = yield from self.overall(sample, data)
            advice = "" if verdict.passed is not False else for_retriever(self, sample, verdict.feedback)
            return verdict.model_copy(update={"feedback": advice})
        items = yield from self.support_verdicts(sample, data, facts)
        missing = support_feedback(self, sample, items, called="texts", absent="absent")
        advice = for_retriever(self, sample, missing) if missing else ""
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=items)
