"""Correctness: does an answer state every expected fact?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Unpack

from judges.catalogue.databricks.built_in import BuiltIn, facts_of
from judges.catalogue.model_judge import ModelSettings
from judges.catalogue.parts.items import Supports, numbered_items, reasons, share
from judges.catalogue.parts.needed import answer_in, question_of
from judges.catalogue.parts.support import support_feedback
from judges.entry import Entry
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict


class Correctness(BuiltIn):
    """Judge whether question and answer together bear out every expected fact.

    The facts are `expected_facts` or, without those, the sentences of `reference`. Each is found supported,
    contradicted or absent in one call; wording does not matter, and what the answer says beyond them does not
    either. Score = supported / facts; it passes at `threshold`, 1.0 unless given, so when all are supported.

    The feedback counts what is missing or contradicted; it does not quote the facts, since a generator that reads
    them would repeat them.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        reveal_reference: Whether the feedback lists the facts.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="databricks.correctness",
        aliases=("correctness", "mlflow.correctness", "Correctness", "is_correct", "CORRECTNESS_PROMPT"),
        asks="Does the answer bear out every expected fact?",
        needs=("response", "expected_facts or reference"),
        calls="1",
        source="Databricks built-in judges; mlflow 3 Correctness",
        differs="One verdict for each fact, contradictions told from omissions; score is the share of facts.",
        tags=("accuracy", "facts", "ground truth"),
    )
    pack = "databricks_correctness"
    pass_mark = 1.0
    question = Question(prompt="databricks_correctness", reply=Supports)

    def __init__(
        self, model: object = None, *, reveal_reference: bool = False, **settings: Unpack[ModelSettings]
    ) -> None:
        one_of(Literal[True, False], reveal_reference, setting="reveal_reference")
        super().__init__(model, **settings)
        self._reveals = reveal_reference

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look for each fact in the exchange."""
        answer, facts = answer_in(sample), facts_of(sample, compat=self.compat)
        data = {"facts": numbered_items(facts, called="fact"), **question_of(sample), "answer": answer}
        if self.compat:
            return (yield from self.overall(sample, data))
        items = yield from self.support_verdicts(sample, data, facts)
        advice = self._advice(sample, items)
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=items)

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        if self._reveals:
            return support_feedback(self, sample, items, called="texts", absent="absent")
        wrong = sum(item.value == "contradicted" for item in items)
        counts = {"count_contradicted": wrong, "count_absent": sum(not item.passed for item in items) - wrong}
        lines = (self.say(name, sample, count=count, of=len(items)) for name, count in counts.items() if count)
        return "\n".join(lines)
