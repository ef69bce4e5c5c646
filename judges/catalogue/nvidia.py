"""Judges modelled on NVIDIA's metrics in ragas: the mean rating of two graders with different instructions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from judges.catalogue.parts.fields import answer_in, non_blank_contexts_in, question_in, reference_in
from judges.catalogue.parts.questions import TwoGraders
from judges.catalogue.parts.text import for_retriever
from judges.prompting.prompts import ReplySchema
from judges.sample import Sample
from judges.verdict import Verdict, strict_integer

_RATIONALE = "text: your reasons, before the rating"
_FEEDBACK = "text: what to change; empty if nothing"


class _AnswerAgreement(ReplySchema, wire_name="Agreement"):
    """How far two answers agree."""

    rationale: str = Field(description=_RATIONALE)
    rating: Annotated[Literal[0, 2, 4], BeforeValidator(strict_integer)] = Field(
        description="whole number: one of 0, 2, 4"
    )
    feedback: str = Field(description=_FEEDBACK)


class _Extent(ReplySchema):
    """How far something holds: not at all, in part, or fully."""

    rationale: str = Field(description=_RATIONALE)
    rating: Annotated[Literal[0, 1, 2], BeforeValidator(strict_integer)] = Field(
        description="whole number: one of 0, 1, 2"
    )
    feedback: str = Field(description=_FEEDBACK)


class AnswerAccuracy(TwoGraders, entry="nvidia.answer_accuracy", pack="answer_accuracy"):
    """Judge how far the answer agrees with the reference: two graders rate 0, 2 or 4.

    Score = mean of rating / 4. Both graders see the answer as the answer and the reference as the reference; the
    order alone is swapped for the second one.
    """

    reply = _AnswerAgreement
    highest = 4

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question, the answer and the reference."""
        answer, reference = answer_in(sample), reference_in(sample)
        return {"question": question_in(sample), "answer": answer, "reference": reference}


class ContextRelevance(TwoGraders, entry="nvidia.context_relevance", pack="context_relevance"):
    """Judge how far the retrieved contexts, taken together, help to answer the question: two graders rate 0 to 2.

    Score = mean of rating / 2. With `variant="compat"` the score is 0 without a call where there is no question
    or no context, and where the joined contexts stand word for word in the question, as in ragas.
    """

    reply = _Extent
    highest = 2

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question and the contexts."""
        question = question_in(sample)
        return {"question": question, "contexts": non_blank_contexts_in(sample)}

    def advice(self, sample: Sample, feedback: str) -> str:
        """Return the feedback, addressed to the retriever."""
        return for_retriever(self, sample, feedback)

    def shortcut(self, sample: Sample) -> Verdict | None:
        """Return 0 if question or contexts are blank, or the question contains the contexts; otherwise None."""
        question, document = sample.question.strip(), _document(sample)
        if question and document and document not in question:
            return None
        advice = self.advice(sample, self.say("nothing", sample))
        rationale = "there is nothing to look at, or nothing that the question does not say"
        return self.verdict(0.0, rationale=rationale, feedback=advice)


class ResponseGroundedness(TwoGraders, entry="nvidia.response_groundedness", pack="response_groundedness"):
    """Judge how far the retrieved contexts bear out the answer: two graders rate 0 to 2.

    Score = mean of rating / 2. With `variant="compat"` the score is 1 without a call where the answer stands word
    for word in the joined contexts, and 0 where there is no answer or no context, as in ragas.
    """

    reply = _Extent
    highest = 2

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the contexts and the answer."""
        answer = answer_in(sample)
        return {"contexts": non_blank_contexts_in(sample), "answer": answer}

    def shortcut(self, sample: Sample) -> Verdict | None:
        """Return 0 if answer or contexts are blank, 1 if the contexts contain the answer, otherwise None."""
        answer, document = (sample.answer or "").strip(), _document(sample)
        if not answer or not document:
            feedback = self.say("nothing", sample)
            return self.verdict(0.0, rationale="there is nothing to look at", feedback=feedback)
        return self.verdict(1.0, rationale="the contexts contain the answer") if answer in document else None


def _document(sample: Sample) -> str:
    return "\n".join(sample.retrieved_contexts or ()).strip()
