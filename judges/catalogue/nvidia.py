"""Judges modelled on NVIDIA's metrics in ragas: the mean rating of two graders with different instructions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Unpack

from pydantic import BeforeValidator, Field, JsonValue

from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts.fields import answer_in, non_blank_contexts_in, question_in, reference_in
from judges.catalogue.parts.text import for_retriever
from judges.errors import AskFailed
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
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


class _TwoGraders(ModelJudge):
    """A judge that asks two graders at once, each with a task of its own: two calls.

    The tasks are the judge's pack and the same name with `_second`. Both graders are shown the same data under
    the same names, the second one in reverse order. Score = mean of rating / highest over the graders that gave
    a valid rating; where none did, it is unscored with the reason of the failure.

    Attributes:
        reply: Schema of a grader's reply: `rationale`, `rating` and `feedback`.
        highest: The best rating; the worst is 0.
    """

    reply: ClassVar[type[ReplySchema]]
    highest: ClassVar[int]

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        first, second = self.pack, f"{self.pack}_second"
        self._graders: tuple[Question[Any], ...] = (
            Question(prompt=first, reply=self.reply),
            Question(prompt=second, reply=self.reply),
        )
        super().__init__(model, questions=self._graders, **settings)

    @abstractmethod
    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the data of a sample shown to the first grader, by name.

        Raises:
            CannotJudge: If something is missing.
        """

    def shortcut(self, sample: Sample) -> Verdict | None:
        """Return the verdict that the reference reaches without a model, or None; used with `"compat"` only."""
        del sample
        return None

    def advice(self, sample: Sample, feedback: str) -> str:
        """Return the graders' feedback, addressed to its reader."""
        del sample
        return feedback

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask both graders, and return the mean."""
        verdict = self.shortcut(sample) if self.compat else None
        if verdict is not None:
            return verdict
        data = self.data(sample)
        orders = (data, dict(reversed([*data.items()])))
        replies = yield from self.ask_all(
            [self.request(grader, sample, order) for grader, order in zip(self._graders, orders, strict=True)]
        )
        return self._mean(sample, [self._item(*pair) for pair in zip(self._graders, replies, strict=True)])

    def _item(self, grader: Question[Any], reply: Any) -> Verdict:
        if isinstance(reply, AskFailed):
            return Verdict.without_score(reply.reason, reply.detail, judge=grader.prompt, raw=reply.raw)
        feedback = "" if reply.rating == self.highest else reply.feedback.strip()
        score = reply.rating / self.highest
        return self.verdict(
            score, value=reply.rating, judge=grader.prompt, rationale=reply.rationale, feedback=feedback
        )

    def _mean(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        scores = [item.score for item in items if item.score is not None]
        if not scores:
            failed = items[0]
            reason = failed.unscored or "judge_failed"
            return Verdict.without_score(reason, failed.detail, items=tuple(items), raw=failed.raw)
        score = sum(scores) / len(scores)
        feedback = "\n".join(dict.fromkeys(item.feedback for item in items if item.feedback))
        return self.verdict(
            score,
            rationale="\n".join(dict.fromkeys(item.rationale for item in items if item.rationale)),
            feedback="" if score == 1 else self.advice(sample, feedback),
            items=tuple(items),
            detail=self._doubt(scores),
        )

    def _doubt(self, scores: Sequence[float]) -> str:
        """Return the reason to doubt the mean, or a blank text."""
        if len(scores) == 1:
            return "one of two graders gave no valid rating"
        if {*scores} == {0, 1}:
            return f"low confidence: the graders disagree, 0 against {self.highest}"
        return ""


class AnswerAccuracy(_TwoGraders, entry="nvidia.answer_accuracy", pack="answer_accuracy"):
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


class ContextRelevance(_TwoGraders, entry="nvidia.context_relevance", pack="context_relevance"):
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


class ResponseGroundedness(_TwoGraders, entry="nvidia.response_groundedness", pack="response_groundedness"):
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
