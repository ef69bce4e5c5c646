"""An answer beside its reference, after ragas: correctness, facts claim by claim, likeness of the texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import Metric, MetricSettings, ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.claims import (
    CLAIMS,
    SUPPORT,
    Claims,
    YesNo,
    bullets,
    claims_in_each,
    numbered_items,
    one_each,
    reasons,
    share,
    support_feedback,
    support_request,
    support_verdicts,
    yes_no_verdict,
)
from judges.catalogue.parts.fields import answer_in, question_of, reference_in
from judges.catalogue.parts.similarity import Scorer, cosine, embed, listed, score_pairs
from judges.catalogue.parts.text import f_of_counts, f_score, missing_and_surplus, tokens
from judges.errors import CannotJudge, ConfigurationError, shortened, unfit
from judges.model import EmbeddingModel
from judges.models.resolve import as_embeddings
from judges.prompting.prompts import Language, Prompt, Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class _Classified(ReplySchema):
    """Which claims of the answer are borne out by the reference, and which of the reference the answer makes."""

    answer_claims: list[YesNo] = Field(
        description="list of objects, exactly one for each number: true if the reference bears the claim out"
    )
    reference_claims: list[YesNo] = Field(
        description="list of objects, exactly one for each number: true if the answer makes the claim"
    )
    feedback: str = Field(description="text: what is missing, without giving the reference away; may be empty")


_CLASSIFIED: Question[_Classified] = Question(prompt="answer_correctness", reply=_Classified, shared=True)


class AnswerCorrectness(ModelJudge, entry="ragas.answer_correctness", pack="answer_correctness"):
    """Judge an answer by the claims it shares with a reference, and by the likeness of both texts.

    Both are broken into claims, and one more call finds which claims of the answer the reference supports (TP,
    the others FP) and which of the reference the answer leaves out (FN): three calls.

    F = (1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP); score = (w1 F + w2 cosine) / (w1 + w2).

    An answer without claims has F = 0, a reference without claims is unscored, `no_claims`.

    With `variant="compat"` the model's classifications are counted as returned, and two texts without claims have
    F = 1, as in ragas.
    """

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
        self._beta = float(beta)
        if self._weights[1] and embeddings is None:
            raise ConfigurationError(
                f"weights={shortened(weights)} weigh the likeness of the texts in; give embeddings=..., or "
                f"weights=(1, 0)"
            )
        super().__init__(model, questions=(CLAIMS, _CLASSIFIED), **settings)
        if self.compat and weights is None and embeddings is None:
            raise ConfigurationError(f"{self.name!r} in variant='compat' needs embeddings=..., or weights=(1, 0)")
        self._embeddings = as_embeddings(embeddings) if self._weights[1] else None

    def deliberate(self, sample: Sample) -> Deliberation:
        """Break both texts into claims, classify the claims, and compare the texts."""
        answer = sample.answer if self.compat and sample.answer is not None else answer_in(sample)
        reference = reference_in(sample)
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
            return _Classified(
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
        check = one_each(answer_claims=len(answer_claims), reference_claims=len(reference_claims))
        return (yield from self.ask(_CLASSIFIED, sample, data, check=None if self.compat else check))

    def _likeness(self, answer: str, reference: str) -> Any:
        if self._embeddings is None or not answer.strip():
            return 0.0
        answer_vector, reference_vector = yield from embed(self._embeddings, (answer, reference))
        return cosine(answer_vector, reference_vector)

    def _f_score(
        self, classification: _Classified, answer_claims: Sequence[str], reference_claims: Sequence[str]
    ) -> float:
        if not answer_claims and not reference_claims:
            return 1.0
        right = sum(one.verdict for one in classification.answer_claims)
        wrong = len(classification.answer_claims) - right
        left_out = sum(not one.verdict for one in classification.reference_claims)
        return f_of_counts(right, wrong, left_out, self._beta)

    def _advice(self, sample: Sample, classification: _Classified, items: Sequence[Verdict], *, of: int) -> str:
        wrong = [one.subject for one in items if one.judge == "answer" and not one.passed]
        lacking = sum(not one.verdict for one in classification.reference_claims)
        lines = [self.say("wrong", sample, claims=bullets(wrong))] if wrong else []
        if lacking:
            lines.append(self.say("lacking", sample, count=lacking, of=of))
        return "\n".join(
            [*lines, classification.feedback.strip()] if lines and classification.feedback.strip() else lines
        )


def _items(
    classification: _Classified, answer_claims: Sequence[str], reference_claims: Sequence[str]
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
        raise unfit("weights are two numbers from 0, such as (0.75, 0.25)", weights)
    return float(numbers[0]), float(numbers[1])


_FactualMode = Literal["f1", "precision", "recall"]
_Degree = Literal["low", "high"]

_FACTUAL_CLAIMS: Question[Claims] = Question(prompt="factual_claims", reply=Claims, shared=True)
"""Break a text into claims with a chosen atomicity and coverage."""


class FactualCorrectness(ModelJudge, entry="ragas.factual_correctness", pack="factual_correctness"):
    """Judge by claims alone how far an answer agrees with a reference.

    P = claims of the answer that the reference supports / all of them; R = claims of the reference that the answer
    supports / all of them; F = (1 + b^2) P R / (b^2 P + R). Two calls for a precision, else four.

    With `variant="compat"` the numbers are ragas': TP and FP are counted over the answer's claims, FN over the
    reference's, recall = TP / (TP + FN + 1e-8), precision = TP / (TP + FP + 1e-8), rounded to 2 places.
    """

    def __init__(
        self,
        model: object = None,
        *,
        mode: _FactualMode = "f1",
        beta: float = 1.0,
        atomicity: _Degree = "high",
        coverage: _Degree = "high",
        **settings: Unpack[ModelSettings],
    ) -> None:
        self._mode, self._beta = mode, float(beta)
        degrees = {"atomicity": atomicity, "coverage": coverage}

        def fills(text: Prompt, _: Language) -> dict[str, str]:
            return {name: text.feedback[f"{name}_{degree}"] for name, degree in degrees.items()}

        self._claims = replace(_FACTUAL_CLAIMS, fills=fills) if "low" in degrees.values() else CLAIMS
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


class SemanticSimilarity(Metric, entry="ragas.semantic_similarity", pack="semantic_similarity"):
    """Judge how close the answer is in meaning to the reference, by their vectors; no chat model is called.

    Value = cosine of the two vectors, -1 to 1, both embedded in one batch; score = max(0, cosine).
    A text that is missing or blank, and a vector of zeros, is unscored.

    With `variant="compat"` a blank text is embedded as a blank, and with a threshold, 0 included, the value
    becomes 1.0 or 0.0.

    Raises:
        ConfigurationError: Unless exactly one of `embeddings` and `cross_encoder` is set.
    """

    def __init__(
        self, embeddings: object = None, *, cross_encoder: Scorer | None = None, **settings: Unpack[MetricSettings]
    ) -> None:
        if (embeddings is None) == (cross_encoder is None):
            raise ConfigurationError(
                f"{self.entry.name} compares texts by embeddings=..., a LangChain Embeddings object or 'minilm', "
                f"or by cross_encoder=..., and not by both"
            )
        if cross_encoder is not None and not callable(cross_encoder):
            raise unfit("cross_encoder is a function of pairs of texts", cross_encoder)
        self._has_threshold = settings.get("threshold") is not None
        super().__init__(**settings)
        self._compare: _Compare = (
            partial(_by_vectors, as_embeddings(embeddings))
            if cross_encoder is None
            else partial(_by_scorer, cross_encoder)
        )

    def deliberate(self, sample: Sample) -> Deliberation:
        """Compare answer and reference."""
        texts = self._texts(sample)
        likeness = yield from self._compare(texts, sample)
        if self.compat and self._has_threshold:
            alike = likeness >= self.threshold
            verdict = Verdict.checked(alike, value=float(alike))
        else:
            verdict = self.verdict(max(0.0, likeness), value=likeness)
        return verdict if verdict.passed else verdict.model_copy(update={"feedback": self._advice(sample, texts)})

    def _refuses_non_answers(self) -> bool:
        """Return True, since vectors are asked for, but in compat."""
        return not self.compat

    def _advice(self, sample: Sample, texts: tuple[str, str]) -> str:
        """Return that the texts are far apart, and which words of the answer the reference does not have."""
        _, surplus = missing_and_surplus(*map(tokens, texts))
        words = [self.say("surplus", sample, words=listed(surplus))] if surplus else []
        return "\n".join([self.say("far", sample), *words])

    def _texts(self, sample: Sample) -> tuple[str, str]:
        if self.compat and sample.answer is not None and sample.reference is not None:
            return sample.answer or " ", sample.reference or " "
        return answer_in(sample), reference_in(sample)


_Compare = Callable[[tuple[str, str], Sample], Generator[Any, Any, float]]


def _by_vectors(model: EmbeddingModel, texts: tuple[str, str], _: Sample) -> Generator[Any, Any, float]:
    answer, reference = yield from embed(model, texts)
    return cosine(answer, reference)


def _by_scorer(scorer: Scorer, texts: tuple[str, str], sample: Sample) -> Generator[Any, Any, float]:
    (likeness,) = yield from score_pairs(scorer, [texts], sample)
    if not -1 <= likeness <= 1:
        raise CannotJudge("invalid_output", f"the cross-encoder gave {likeness}; -1 to 1 is wanted")
    return likeness
