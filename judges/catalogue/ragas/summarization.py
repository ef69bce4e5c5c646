"""Summarization: how much of its source a summary preserves, and how short it is."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain, repeat
from statistics import harmonic_mean
from typing import Any, Self, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import ModelJudge, ModelSettings
from judges.catalogue.parts import claims
from judges.catalogue.parts.fields import answer_in
from judges.errors import CannotJudge
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import HIGHEST, Verdict, rating_of

_EPSILON = 1e-10
"""What ragas adds to the length of the source."""


class _Keyphrases(ReplySchema):
    """The key phrases of a text."""

    keyphrases: list[str] = Field(description="list of texts: the phrases, as they stand in the text")


class _Questions(ReplySchema):
    """Closed questions about a text."""

    questions: list[str] = Field(description="list of texts: questions whose answer is yes, by the text")


class _Answers(ReplySchema):
    """Answers as the reference takes them: however many there are."""

    answers: list[str] = Field(description='list of texts: "1" where the summary says so, else "0"; no others')

    @classmethod
    def from_reply(cls, other: Any) -> Self:
        """Write verdicts as ones and zeros."""
        return cls(answers=["1" if one.verdict else "0" for one in other.items])


_KEYPHRASES: Question[_Keyphrases] = Question(prompt="summarization_keyphrases", reply=_Keyphrases, shared=True)
_QUESTIONS: Question[_Questions] = Question(prompt="summarization_questions", reply=_Questions, shared=True)
_ANSWERS: Question[Any] = Question(
    prompt="summarization_answers", reply=claims.YesNos, compat=_Answers, shared=True
)


class SummarizationScore(ModelJudge, entry="ragas.summarization_score", pack="summarization"):
    """Judge a summary by the questions it answers about its source, `reference_contexts`, and by its length.

    Three calls: key phrases of the source; closed questions about them, whose answer is yes by the source; and an
    answer to each from the summary alone. qa = yes / questions; conciseness = 1 - length of the summary / length
    of the source, in characters, and 0 for a summary that is longer. No questions is unscored, `no_claims`.

    Score = 1 / ((1 - coeff) / qa + coeff / conciseness), the weighted harmonic mean, which is 0 if either part
    with a weight is 0: neither a word that answers nothing nor a copy of the source is a summary.

    With `variant="compat"` the score is ragas' arithmetic mean, qa * (1 - coeff) + conciseness * coeff.
    """

    def __init__(
        self,
        model: object = None,
        *,
        coeff: float = 0.5,
        length_penalty: bool = True,
        **settings: Unpack[ModelSettings],
    ) -> None:
        self._coeff = coeff if length_penalty else 0.0
        super().__init__(model, questions=(_KEYPHRASES, _QUESTIONS, _ANSWERS), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Extract key phrases, write questions about them, and answer these from the summary."""
        summary, source = answer_in(sample), _source_in(sample)
        questions = yield from self._questions_on(sample, source)
        items: Sequence[Verdict] = ()
        if questions:
            data: dict[str, JsonValue] = {
                "summary": summary,
                "questions": claims.numbered_items(questions, called="question"),
            }
            items = yield from self._answer(sample, data, questions)
        if not items:
            return Verdict.without_score("no_claims", "no question was made of the source, or none answered")
        qa, conciseness = claims.share(items), self._conciseness(summary, source)
        score = self._score(qa, conciseness)
        length = len(summary) / len(source)
        detail = f"questions answered {qa:.3f}, length of the source {length:.3f}"
        advice = [self._open_questions(sample, items)]
        if self._coeff and conciseness < qa and (score < self.threshold or rating_of(score) < HIGHEST):
            advice.append(self.say("shorten", sample, percent=round(100 * length)))
        feedback = "\n".join(line for line in advice if line)
        return self.verdict(
            score, rationale=claims.reasons(items), feedback=feedback, items=tuple(items), detail=detail
        )

    def _questions_on(self, sample: Sample, source: str) -> Generator[Any, Any, tuple[str, ...]]:
        """Return questions about the source's key phrases; without phrases none, but compat asks anyway."""
        extracted = yield from self.ask(_KEYPHRASES, sample, {"text": source})
        phrases: list[JsonValue] = [*claims.non_blank(extracted.keyphrases)]
        if not phrases and not self.compat:
            return ()
        reply = yield from self.ask(_QUESTIONS, sample, {"text": source, "keyphrases": phrases})
        return claims.non_blank(reply.questions)

    def _answer(
        self, sample: Sample, data: dict[str, JsonValue], questions: Sequence[str]
    ) -> Generator[Any, Any, list[Verdict]]:
        if self.compat:
            reply = yield from self.ask(_ANSWERS, sample, data)
            # All answers count, even if there are more of them than questions.
            return [
                Verdict.checked(answer.lower() == "1", subject=text)
                for text, answer in zip(chain(questions, repeat("")), reply.answers, strict=False)
            ]
        reply = yield from self.ask(_ANSWERS, sample, data, check=claims.one_each(len(questions)))
        return [claims.yes_no_verdict(*pair) for pair in zip(questions, claims.in_order(reply.items), strict=True)]

    def _conciseness(self, summary: str, source: str) -> float:
        short, long = min(len(summary), len(source)), len(source)
        return 1 - short / (long + _EPSILON) if self.compat else 1 - short / long

    def _score(self, qa: float, conciseness: float) -> float:
        coeff = self._coeff
        if self.compat:
            return qa * (1 - coeff) + conciseness * coeff
        parts = [(part, weight) for part, weight in ((qa, 1 - coeff), (conciseness, coeff)) if weight]
        return harmonic_mean([part for part, _ in parts], weights=[weight for _, weight in parts])

    def _open_questions(self, sample: Sample, items: Sequence[Verdict]) -> str:
        """Return feedback that names the questions the summary leaves open."""
        open_questions = [item.subject for item in items if not item.passed and item.subject]
        return claims.listed_feedback(self, sample, {"open": open_questions}, "questions")


def _source_in(sample: Sample) -> str:
    source = "\n".join(sample.reference_contexts or ())
    if not source.strip():
        raise CannotJudge("no_contexts", "there are no reference contexts: the source of the summary")
    return source
