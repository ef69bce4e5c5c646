"""Answer correctness: the claims of the answer against those of the reference, and the likeness of both texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import CLAIMS, claims_in_each
from judges.catalogue.parts.f_score import checked_beta, f_of_counts
from judges.catalogue.parts.items import YesNo, bullets, fault_in, numbered_items, reasons, yes_no_verdict
from judges.catalogue.parts.needed import question_of, reference_in
from judges.catalogue.parts.similarity import cosine, embed
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.models.resolve import as_embeddings
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class Classified(ReplySchema):
    """Which claims of the answer are borne out by the reference, and which of the reference the answer makes."""

    answer_claims: list[YesNo] = Field(
        description="list of objects, exactly one for each number: true if the reference bears the claim out"
    )
    reference_claims: list[YesNo] = Field(
        description="list of objects, exactly one for each number: true if the answer makes the claim"
    )
    feedback: str = Field(description="text: what is missing, without giving the reference away; may be empty")


CLASSIFIED: Question[Classified] = Question(prompt="answer_correctness", reply=Classified, shared=True)


class AnswerCorrectness(ModelJudge):
    """Judge an answer by the claims it shares with a reference, and by the likeness of both texts.

    Both are broken into claims, and one more call finds which claims of the answer the reference supports (TP,
    the others FP) and which of the reference the answer leaves out (FN): three calls.

    F = (1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP); score = (w1 F + w2 cosine) / (w1 + w2).

    An answer without claims has F = 0, a reference without claims is unscored, `no_claims`.

    With `variant="compat"` the model's classifications are counted as returned, and two texts without claims have
    F = 1, as in ragas.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        embeddings: The embedding model: a LangChain `Embeddings` object, `"minilm"`, ...
        weights: w1 and w2; None takes 0.75 and 0.25 with embeddings, else 1 and 0.
        beta: How much more recall counts than precision.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.answer_correctness",
        aliases=("answer_correctness", "AnswerCorrectness"),
        asks="How far do the claims of the answer agree with those of the reference?",
        needs=("user_input", "response", "reference"),
        calls="3",
        source="ragas 0.4",
        differs="Every numbered claim gets its class; without embeddings the claims alone decide; an answer "
        "without claims is 0, a reference without claims unscored.",
        tags=("accuracy", "facts", "ground truth", "similarity"),
        examples=('embeddings="minilm"', 'weights=[0.5, 0.5], embeddings="minilm"', "beta=2.0"),
        follows="ragas.metrics (legacy)",
    )
    pack = "answer_correctness"

    def __init__(
        self,
        model: object = None,
        *,
        embeddings: object = None,
        weights: Sequence[float] | None = None,
        beta: float = 1.0,
        **settings: Unpack[ModelSettings],
    ) -> None:
        self._weights = _checked_weights(weights, has_embeddings=embeddings is not None)
        self._beta = checked_beta(beta)
        if self._weights[1] and embeddings is None:
            raise ConfigurationError(
                f"weights={shortened(weights)} weigh the likeness of the texts in; give embeddings=..., or "
                f"weights=(1, 0)"
            )
        super().__init__(model, questions=(CLAIMS, CLASSIFIED), **settings)
        if self.compat and weights is None and embeddings is None:
            raise ConfigurationError(f"{self.name!r} in variant='compat' needs embeddings=..., or weights=(1, 0)")
        self._embeddings = as_embeddings(embeddings) if self._weights[1] else None

    def deliberate(self, sample: Sample) -> Deliberation:
        """Break both texts into claims, classify the claims, and compare the texts."""
        if sample.answer is None:
            raise CannotJudge("no_response", "there is no answer to judge")
        answer, reference = sample.answer, reference_in(sample)
        answer_claims, reference_claims = yield from claims_in_each(self, sample, answer, reference)
        if not reference_claims and not self.compat:
            raise CannotJudge("no_claims", "the reference makes no claim")
        classification = yield from self._classify(sample, answer_claims, reference_claims)
        likeness = yield from self._likeness(answer, reference)
        first, second = self._weights
        claim_score = self._f_score(classification, answer_claims, reference_claims)
        value = (first * claim_score + second * likeness) / (first + second)
        items = _items(classification, answer_claims, reference_claims)
        return self.verdict(
            min(max(value, 0.0), 1.0),
            value=value,
            rationale=reasons(items),
            feedback=self._advice(sample, classification, items, of=len(reference_claims)),
            items=items,
        )

    def _classify(self, sample: Sample, answer_claims: Sequence[str], reference_claims: Sequence[str]) -> Any:
        if not answer_claims and not (self.compat and reference_claims):
            return Classified(
                answer_claims=[],
                reference_claims=[
                    YesNo(number=n, reason="", verdict=False) for n, _ in enumerate(reference_claims, 1)
                ],
                feedback="",
            )
        data: dict[str, JsonValue] = {
            **question_of(sample),
            "answer_claims": numbered_items(answer_claims, called="claim"),
            "reference_claims": numbered_items(reference_claims, called="claim"),
        }

        def check(reply: Any) -> str | None:
            return fault_in(reply.answer_claims, len(answer_claims), called="answer_claims") or fault_in(
                reply.reference_claims, len(reference_claims), called="reference_claims"
            )

        return (yield from self.ask(CLASSIFIED, sample, data, check=None if self.compat else check))

    def _likeness(self, answer: str, reference: str) -> Any:
        if self._embeddings is None or not answer.strip():
            return 0.0
        answer_vector, reference_vector = yield from embed(self._embeddings, (answer, reference))
        return cosine(answer_vector, reference_vector)

    def _f_score(
        self, classification: Classified, answer_claims: Sequence[str], reference_claims: Sequence[str]
    ) -> float:
        if not answer_claims and not reference_claims:
            return 1.0
        right = sum(one.verdict for one in classification.answer_claims)
        wrong = len(classification.answer_claims) - right
        left_out = sum(not one.verdict for one in classification.reference_claims)
        return f_of_counts(right, wrong, left_out, self._beta)

    def _advice(self, sample: Sample, classification: Classified, items: Sequence[Verdict], *, of: int) -> str:
        wrong = [one.subject for one in items if one.judge == "answer" and not one.passed]
        lacking = sum(not one.verdict for one in classification.reference_claims)
        lines = [self.say("wrong", sample, claims=bullets(wrong))] if wrong else []
        if lacking:
            lines.append(self.say("lacking", sample, count=lacking, of=of))
        return "\n".join(
            [*lines, classification.feedback.strip()] if lines and classification.feedback.strip() else lines
        )


def _items(
    classification: Classified, answer_claims: Sequence[str], reference_claims: Sequence[str]
) -> tuple[Verdict, ...]:
    return tuple(
        yes_no_verdict(texts[one.number - 1], one).model_copy(update={"judge": side})
        for side, flags, texts in (
            ("answer", classification.answer_claims, answer_claims),
            ("reference", classification.reference_claims, reference_claims),
        )
        for one in flags
        if 0 < one.number <= len(texts)
    )


def _checked_weights(weights: Sequence[float] | None, *, has_embeddings: bool) -> tuple[float, float]:
    if weights is None:
        return (0.75, 0.25) if has_embeddings else (1.0, 0.0)
    values = tuple(weights) if hasattr(weights, "__iter__") else ()
    numbers = [one for one in values if type(one) in (int, float) and 0 <= one < math.inf]
    if len(numbers) != 2 or len(values) != 2 or sum(numbers) == 0:  # noqa: PLR2004 - claims and likeness
        raise ConfigurationError(f"weights are two numbers from 0, such as (0.75, 0.25), not {shortened(weights)}")
    return float(numbers[0]), float(numbers[1])
