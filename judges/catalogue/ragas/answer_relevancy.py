"""Answer relevancy: whether an answer answers the question that was asked."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts.claims import bullets, listed_feedback, one_each, reasons
from judges.catalogue.parts.fields import answer_in, question_in
from judges.catalogue.parts.similarity import cosine, embed
from judges.errors import AskFailed, ConfigurationError
from judges.model import EmbeddingModel
from judges.models.resolve import as_embeddings
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_LEVELS = {"none": 0.0, "partial": 0.5, "full": 1.0}


class _AskedBack(ReplySchema):
    """A question that the answer would answer."""

    number: int = Field(description="whole number of the question, from 1 on")
    question: str = Field(description="text: the question")
    reason: str = Field(description="text: what the answer says to this question, before the verdict")
    noncommittal: bool = Field(description="true if the answer evades this question, else false")


class _AskedBacks(ReplySchema):
    """Questions that the answer would answer."""

    items: list[_AskedBack] = Field(description="list of objects, as many as wanted, in order")


class _OneAskedBack(ReplySchema):
    """A question that the answer would answer, as the reference takes it."""

    question: str = Field(description="text: the question")
    noncommittal: int = Field(description="1 if the answer is noncommittal, else 0")


class _Part(ReplySchema):
    """How far the answer addresses one part of the question."""

    part: str = Field(description="text: what is asked, in a few words")
    reason: str = Field(description="text: what the answer says to it, before the verdict")
    addressed: Literal["none", "partial", "full"] = Field(description="one of none, partial, full")


class _Parts(ReplySchema):
    """How far the answer addresses each part of the question."""

    parts: list[_Part] = Field(description="list of objects, one for each part of the question, at least one")


_REVERSE_QUESTIONS: Question[_AskedBacks] = Question(prompt="reverse_questions", reply=_AskedBacks)
_REVERSE_QUESTION: Question[_OneAskedBack] = Question(prompt="reverse_question", reply=_OneAskedBack)
_ADDRESSED: Question[_Parts] = Question(prompt="addressed", reply=_Parts)


_RelevancyMethod = Literal["embeddings", "judge"]


class AnswerRelevancy(ModelJudge, entry="ragas.answer_relevancy", pack="answer_relevancy"):
    """Judge whether the answer answers the question that was asked; not whether it is right.

    With `method="judge"`, the default without embeddings, a model names the parts of the question and how far each
    is addressed, in one call: value full (score 1) if all are fully addressed, none (0) if none is addressed at
    all, else partial (0.5).

    With `method="embeddings"` a model writes `strictness` different questions that the answer would answer, in one
    call, and says of each whether the answer evades it: value = mean over k of cos(E(question), E(question_k)),
    -1 to 1, or 0 if the answer evades most; score = max(0, value). Empty questions are left out; if all are,
    the verdict is unscored, `undefined`.

    With `variant="compat"` there are `strictness` calls that ask for one question each, and the value is 0 only if
    the answer is noncommittal in all.
    """

    def __init__(
        self,
        model: object = None,
        *,
        embeddings: object = None,
        method: _RelevancyMethod | None = None,
        strictness: int = 3,
        **settings: Unpack[ModelSettings],
    ) -> None:
        compat = settings.get("variant") == "compat"
        self._strictness = strictness
        self._embeddings = _embedding_model(embeddings, method, compat=compat)
        reverse: Question[Any] = _REVERSE_QUESTION if compat else _REVERSE_QUESTIONS
        super().__init__(model, questions=(_ADDRESSED if self._embeddings is None else reverse,), **settings)

    @property
    def calls(self) -> str:
        """Model calls for one sample, set up as it is, as a formula."""
        return str(self._strictness) if self.compat else "1"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look at the parts of the question, or at the questions that the answer would answer."""
        answer_in(sample)
        question_in(sample)
        if self._embeddings is None:
            return (yield from self._by_parts(sample))
        return (yield from self._by_questions(sample, self._embeddings))

    def _by_parts(self, sample: Sample) -> Deliberation:
        data = {"question": question_in(sample), "answer": answer_in(sample)}
        reply = yield from self.ask(_ADDRESSED, sample, data, check=_parts_fault)
        level = _level([part.addressed for part in reply.parts])
        items = [self._part(part) for part in reply.parts]
        unanswered_parts = [item.subject for item in items if item.value != "full"]
        feedback = listed_feedback(self, sample, {"unaddressed": unanswered_parts}, "parts")
        rationale = "\n".join(f"{item.subject}: {item.rationale}" for item in items)
        return self.verdict(
            _LEVELS[level], value=level, rationale=rationale, feedback=feedback, items=tuple(items)
        )

    def _by_questions(self, sample: Sample, embeddings: EmbeddingModel) -> Deliberation:
        questions, failed = yield from (
            self._ask_separately(sample) if self.compat else self._ask_together(sample)
        )
        compared = [one for one in questions if self.compat or one.question.strip()]
        if not any(one.question.strip() for one in compared):
            return Verdict.without_score("undefined", "the model found no question that the answer would answer")
        question_vector, *vectors = yield from embed(
            embeddings, (sample.question, *(one.question for one in compared))
        )
        cosines = [cosine(question_vector, vector) for vector in vectors]
        items = tuple(self._item(one, similarity) for one, similarity in zip(compared, cosines, strict=True))
        evasive = self._evasive(questions)
        value = 0.0 if evasive else math.fsum(cosines) / len(cosines)
        verdict = self.verdict(max(0.0, value), value=value, rationale=reasons(items), items=(*items, *failed))
        if verdict.passed and not evasive:
            return verdict
        phrase = "evasive" if evasive else "astray"
        feedback = self.say(phrase, sample, questions=bullets(one.question for one in compared))
        return verdict.model_copy(update={"feedback": feedback})

    def _ask_together(self, sample: Sample) -> Generator[Any, Any, tuple[list[_AskedBack], list[Verdict]]]:
        data: dict[str, JsonValue] = {"answer": answer_in(sample), "count": self._strictness}
        reply = yield from self.ask(_REVERSE_QUESTIONS, sample, data, check=one_each(self._strictness))
        return reply.items, []

    def _ask_separately(self, sample: Sample) -> Generator[Any, Any, tuple[list[_AskedBack], list[Verdict]]]:
        """Ask several times for one question; some requests may fail, but not all."""
        ask = self.request(_REVERSE_QUESTION, sample, {"answer": answer_in(sample)})
        replies = yield from self.ask_all([ask] * self._strictness)
        failed = [one for one in replies if isinstance(one, AskFailed)]
        received = [one for one in replies if isinstance(one, _OneAskedBack)]
        if not received:
            raise failed[0]
        questions = [
            _AskedBack(number=number, question=one.question, reason="", noncommittal=bool(one.noncommittal))
            for number, one in enumerate(received, 1)
        ]
        return questions, [Verdict.without_score(one.reason, one.detail, raw=one.raw) for one in failed]

    def _part(self, part: _Part) -> Verdict:
        return self.verdict(
            _LEVELS[part.addressed], value=part.addressed, subject=part.part, rationale=part.reason
        )

    def _item(self, question: _AskedBack, similarity: float) -> Verdict:
        return self.verdict(
            max(0.0, similarity),
            value=similarity,
            subject=question.question,
            rationale=question.reason,
            detail="the answer evades this question" if question.noncommittal else "",
        )

    def _evasive(self, questions: Sequence[_AskedBack]) -> bool:
        flags = [one.noncommittal for one in questions]
        return all(flags) if self.compat else 2 * sum(flags) > len(flags)


def _embedding_model(embeddings: object, method: str | None, *, compat: bool) -> EmbeddingModel | None:
    """Return the embedding model, or None where a chat model judges alone."""
    if compat and method == "judge":
        raise ConfigurationError("method='judge' is our own; with variant='compat' give embeddings=...")
    if embeddings is None and (compat or method == "embeddings"):
        raise ConfigurationError(
            "to compare questions, give embeddings=..., a LangChain Embeddings object or 'minilm'"
        )
    return None if embeddings is None or method == "judge" else as_embeddings(embeddings)


def _parts_fault(reply: _Parts) -> str | None:
    return None if reply.parts else "parts: at least one part is wanted, the whole question if it has no parts"


def _level(parts: Sequence[str]) -> str:
    """Return the level of a question: that of its parts where they agree, else partial."""
    return parts[0] if len(set(parts)) == 1 else "partial"
