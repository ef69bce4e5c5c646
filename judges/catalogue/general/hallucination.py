"""Hallucination: the share of an answer's claims that nothing at hand supports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from judges.catalogue.parts.items import reasons, share
from judges.catalogue.parts.support import support_feedback
from judges.catalogue.ragas.faithfulness import Faithfulness
from judges.entry import Entry
from judges.sample import Sample
from judges.verdict import Verdict


class Hallucination(Faithfulness):
    """Judge what share of the answer's claims is supported by nothing at hand: no context, and no tool result.

    The claims and their verdicts are those of `ragas.faithfulness`; a panel of both asks for them once.
    Value = contradicted or absent claims / claims, where low is good; score = 1 - value. It passes at `threshold`,
    1 unless given: when nothing is made up. Items say what the evidence contradicts, and what it does not mention.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        missing: What happens to claims on which the model gives no verdict: `"unscored"` asks again, and leaves
            the whole verdict unscored if that fails; `"unsupported"` counts them as unsupported at once.
        tool_results: Whether what tools returned counts as well as the contexts, or in place of them where there
            are none. None counts it, except with `variant="compat"`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range, or `variant="compat"` is to count tool results.
    """

    entry: ClassVar[Entry] = Entry(
        name="hallucination",
        aliases=(
            "Hallucination",
            "HallucinationMetric",
            "HallucinationEvaluator",
            "HALLUCINATION_PROMPT",
            "hallucination_rate",
            "DetectHallucination",
            "hallucinations_v1",
        ),
        asks="What share of the answer's claims do neither contexts nor tool results support?",
        needs=("response", "retrieved_contexts"),
        calls="2",
        scale="0 to 1",
        better="low",
        source="as in deepeval, openevals and Phoenix",
        differs="A share of claims, not of contexts, and not one yes or no; tool results count as evidence.",
        tags=("made up", "groundedness", "faithfulness", "unsupported", "tool results", "rag"),
    )
    pass_mark = 1.0

    def conclude(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        """Return the verdict, with the share of claims that nothing supports as its value."""
        advice = support_feedback(self, sample, items, called="claims", absent="unsupported")
        score = share(items)
        failed = sum(not item.passed for item in items) / len(items)
        return self.verdict(score, value=failed, rationale=reasons(items), feedback=advice, items=tuple(items))
