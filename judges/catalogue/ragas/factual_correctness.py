"""Factual correctness: how far the claims of the answer and those of the reference agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal, Unpack

from judges.catalogue.model_judge import ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.claims import CLAIMS, Claims, claims_in_each
from judges.catalogue.parts.f_score import checked_beta, f_score
from judges.catalogue.parts.items import reasons, share
from judges.catalogue.parts.needed import answer_in, reference_in
from judges.catalogue.parts.support import SUPPORT, support_feedback, support_request, support_verdicts
from judges.entry import Entry
from judges.errors import CannotJudge
from judges.prompting.prompts import Language, Prompt
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict

FactualMode = Literal["f1", "precision", "recall"]
Degree = Literal["low", "high"]

FACTUAL_CLAIMS: Question[Claims] = Question(prompt="factual_claims", reply=Claims, shared=True)
"""Break a text into claims with a chosen atomicity and coverage."""


class FactualCorrectness(ModelJudge):
    """Judge by claims alone how far an answer agrees with a reference.

    P = claims of the answer that the reference supports / all of them; R = claims of the reference that the answer
    supports / all of them; F = (1 + b^2) P R / (b^2 P + R). Two calls for a precision, else four.

    With `variant="compat"` the numbers are ragas': TP and FP are counted over the answer's claims, FN over the
    reference's, recall = TP / (TP + FN + 1e-8), precision = TP / (TP + FP + 1e-8), rounded to 2 places.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        mode: `"f1"`, `"precision"` or `"recall"`.
        beta: How much more recall counts than precision, in F.
        atomicity: `"high"`: each claim is a single fact; `"low"`: it may hold several that belong together.
        coverage: `"high"`: every statement is a claim; `"low"`: the main points alone. With both high the claims
            are shared with other judges.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.factual_correctness",
        aliases=("factual_correctness", "FactualCorrectness", "factuality"),
        asks="How far do answer and reference make the same claims?",
        needs=("response", "reference"),
        calls="4, or 2 for a precision",
        source="ragas 0.4",
        differs="Recall is over the claims of the reference, where ragas divides the answer's supported claims "
        "by a sum of both; exact, not rounded; claims that contradict are told from absent ones; "
        "every fact is a claim (`atomicity`, `coverage`), where ragas' default is the main points.",
        tags=("claims", "facts", "accuracy", "ground truth"),
        examples=('mode="precision"', "beta=2.0", 'atomicity="low"', 'coverage="low"'),
        follows="both generations, which agree",
    )
    pack = "factual_correctness"

    def __init__(
        self,
        model: object = None,
        *,
        mode: FactualMode = "f1",
        beta: float = 1.0,
        atomicity: Degree = "high",
        coverage: Degree = "high",
        **settings: Unpack[ModelSettings],
    ) -> None:
        for name, degree in (("atomicity", atomicity), ("coverage", coverage)):
            one_of(Degree, degree, setting=name)
        one_of(FactualMode, mode, setting="mode")
        self._mode, self._beta = mode, checked_beta(beta)
        degrees = {"atomicity": atomicity, "coverage": coverage}

        def fills(text: Prompt, _: Language) -> dict[str, str]:
            return {name: text.feedback[f"{name}_{degree}"] for name, degree in degrees.items()}

        self._claims = replace(FACTUAL_CLAIMS, fills=fills) if "low" in degrees.values() else CLAIMS
        super().__init__(model, questions=(self._claims, SUPPORT), **settings)

    @property
    def calls(self) -> str:
        """Model calls for one sample: two for a precision, else four."""
        return "2" if self._mode == "precision" else "4"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Break the texts into claims, and verify each against the other text."""
        answer, reference = answer_in(sample), reference_in(sample)
        texts = (answer,) if self._mode == "precision" else (answer, reference)
        answer_claims, *others = yield from claims_in_each(self, sample, *texts, question=self._claims)
        reference_claims = others[0] if others else ()
        if not self.compat:
            self._require_claims(answer_claims, reference_claims)
        checks = [(reference, answer_claims), (answer, reference_claims)]
        replies = yield from self.ask_all(
            [
                support_request(self, sample, [text], claims, with_question=True)
                for text, claims in checks
                if claims
            ]
        )
        received = iter(all_of(replies))
        supported, covered = (support_verdicts(claims, next(received)) if claims else [] for _, claims in checks)
        items = tuple(
            verdict.model_copy(update={"judge": side})
            for side, verdicts in (("answer", supported), ("reference", covered))
            for verdict in verdicts
        )
        score = self._compat_score(supported, covered) if self.compat else self._score(supported, covered)
        return self.verdict(
            score, rationale=reasons(items), feedback=self._advice(sample, supported, covered), items=items
        )

    def _require_claims(self, answer_claims: Sequence[str], reference_claims: Sequence[str]) -> None:
        if not answer_claims and self._mode != "recall":
            raise CannotJudge("no_claims", "the answer makes no claim")
        if not reference_claims and self._mode != "precision":
            raise CannotJudge("no_claims", "the reference makes no claim")

    def _score(self, supported: Sequence[Verdict], covered: Sequence[Verdict]) -> float:
        precision = share(supported) if supported else 0.0
        recall = share(covered) if covered else 0.0
        if self._mode != "f1":
            return precision if self._mode == "precision" else recall
        return f_score(precision, recall, self._beta)

    def _compat_score(self, supported: Sequence[Verdict], covered: Sequence[Verdict]) -> float:
        right = sum(bool(claim.passed) for claim in supported)
        wrong = len(supported) - right
        left_out = sum(not claim.passed for claim in covered)
        if self._mode == "precision":
            return _round(right / (right + wrong + 1e-8))
        if self._mode == "recall":
            return _round(right / (right + left_out + 1e-8))
        if not right:
            return 0.0
        precision, recall, weight = right / (right + wrong), right / (right + left_out), self._beta**2
        # In the order of ragas: another order would round some halves, such as 0.625, the other way.
        return _round((1 + weight) * (precision * recall) / ((weight * precision) + recall))

    def _advice(self, sample: Sample, supported: Sequence[Verdict], covered: Sequence[Verdict]) -> str:
        """Return feedback that names wrong claims, and only counts missing ones, to keep the reference hidden."""
        lines = [support_feedback(self, sample, supported, called="claims", absent="unsupported")]
        lacking = sum(not claim.passed for claim in covered)
        if lacking:
            lines.append(self.say("lacking", sample, count=lacking, of=len(covered)))
        return "\n".join(filter(None, lines))


def _round(score: float) -> float:
    """Round to 2 places as numpy does, which can differ from `round(score, 2)`."""
    return round(100 * score) / 100
