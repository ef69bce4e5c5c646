"""Faithfulness: the share of an answer's claims that its contexts support."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Unpack

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import CLAIMS, claims_in
from judges.catalogue.parts.items import reasons, share
from judges.catalogue.parts.needed import answer_in
from judges.catalogue.parts.support import SUPPORT, support_feedback, verify_claims
from judges.catalogue.parts.tool_results import premises_in, reads_tool_results
from judges.entry import Entry
from judges.requests import Deliberation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict

Missing = Literal["unscored", "unsupported"]


class Faithfulness(ModelJudge):
    """Judge what share of the answer's claims the retrieved contexts, and what tools returned, support.

    The answer is broken into claims, and each claim is classified as supported, contradicted or absent: two calls.
    Score = supported / claims. No claims (a greeting, a refusal) is unscored, `no_claims`, after one call.

    With `variant="compat"` the score is ragas': marks counted as yes / marks returned, however many there are.

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
        name="ragas.faithfulness",
        aliases=("faithfulness", "Faithfulness", "FaithfulnessMetric", "context-faithfulness"),
        asks="What share of the answer's claims do the contexts support?",
        needs=("response", "retrieved_contexts"),
        calls="2",
        source="ragas 0.4; arXiv 2309.15217",
        differs="One verdict for each numbered claim, so that none can be left out; contradicted claims are told "
        "from absent ones; reasons are kept; no claims is unscored; tool results count beside the contexts.",
        tags=("rag", "hallucination", "groundedness", "made up", "unsupported", "claims", "tool results"),
        examples=("tool_results=True",),
        follows="both generations, which agree",
    )
    pack = "faithfulness"

    def __init__(
        self,
        model: object = None,
        *,
        missing: Missing = "unscored",
        tool_results: bool | None = None,
        **settings: Unpack[ModelSettings],
    ) -> None:
        one_of(Missing, missing, setting="missing")
        self._missing = missing
        super().__init__(model, questions=(CLAIMS, SUPPORT), **settings)
        self._tool_results = reads_tool_results(tool_results, compat=self.compat)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Break the answer into claims, and verify each."""
        answer = answer_in(sample)
        contexts = premises_in(sample, tool_results=self._tool_results, blank=True)
        claims = yield from claims_in(self, sample, answer)
        if not claims:
            return Verdict.without_score("no_claims", "the answer makes no claim")
        items = yield from verify_claims(self, sample, contexts, claims, all_needed=self._missing == "unscored")
        if not items:
            return Verdict.without_score("no_claims", "no claim was verified")
        return self.conclude(sample, items)

    def conclude(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        """Return the verdict on the answer; the feedback names the claims that nothing supports."""
        advice = support_feedback(self, sample, items, called="claims", absent="unsupported")
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=tuple(items))
