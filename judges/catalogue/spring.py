"""Judges modelled on the evaluators of Spring AI and Spring AI Alibaba."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.claims import SUPPORT, reasons, share, support_feedback, verify_claims
from judges.catalogue.parts.fields import answer_in, non_blank_contexts_in, question_in, reference_in
from judges.catalogue.parts.questions import OneQuestion, Remark, finding_schema
from judges.catalogue.parts.text import sentences
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict, rating_of


class _YesOrNo(OneQuestion):
    """A judge that asks for yes or no; with `variant="compat"` in words, read by the reference's own rule."""

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, question=_yes_or_no_question(self.pack), **settings)

    @abstractmethod
    def is_yes(self, word: str) -> bool:
        """Return whether the reference takes a reply for a yes."""

    def conclude(self, reply: Any) -> Verdict:
        """Convert the reply into a verdict."""
        yes = self.is_yes(reply.verdict) if self.compat else reply.verdict
        return Verdict.checked(yes, rationale=reply.rationale, feedback="" if yes else reply.feedback)


def _yes_or_no_question(prompt: str) -> Question[Any]:
    """Return a yes-or-no question, in compat for a word; judges that ask it about one sample share the reply."""
    return Question(prompt=prompt, reply=finding_schema(), compat=Remark, shared=True)


class RelevancyEvaluator(_YesOrNo, entry="spring.relevancy_evaluator", pack="spring_relevancy_evaluator"):
    """Judge whether an answer agrees with its contexts; whether it suits the question does not count.

    With `variant="compat"` the model replies in words, and nothing but "yes" passes, in any case and between
    blanks, as in Spring AI.
    """

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question, the contexts and the answer."""
        return _agreement(sample)

    def is_yes(self, word: str) -> bool:
        """Return whether the reply is exactly "yes", in any case."""
        return word.strip().lower() == "yes"


def _agreement(sample: Sample) -> dict[str, JsonValue]:
    """Return the question, the contexts and the answer, by name."""
    answer = answer_in(sample)
    return {"question": question_in(sample), "contexts": non_blank_contexts_in(sample), "answer": answer}


_FactPrompt = Literal["general", "minicheck"]

_SUPPORTED: Question[Any] = _yes_or_no_question("fact_checking")
"""Asks whether the contexts support the answer, or one sentence of it, as a whole."""


class FactCheckingEvaluator(ModelJudge, entry="spring.fact_checking_evaluator", pack="fact_checking"):
    """Judge whether every sentence of the answer is supported by the document: the retrieved contexts.

    The answer is split into sentences without a model, repeated ones counting once, and one call classifies each
    as supported, contradicted or absent. Score = supported / sentences; it passes at `threshold`, 1.0
    unless given, so when all are supported. An answer without a letter or a digit is unscored, `no_claims`.

    With `variant="compat"` the model replies yes or no, in words, on the answer as a whole, and the score is 0
    even where it passes, as in Spring AI.

    Raises:
        ConfigurationError: If there is no such prompt.
    """

    pass_mark = 1.0

    def __init__(
        self, model: object = None, *, prompt: _FactPrompt = "general", **settings: Unpack[ModelSettings]
    ) -> None:
        self._one_by_one = prompt == "minicheck"
        question: Question[Any] = SUPPORT
        if self._one_by_one:  # such a model replies in a form of its own, not in words
            question = replace(_SUPPORTED, compat=None)
        elif settings.get("variant") == "compat":
            question = _SUPPORTED
        super().__init__(model, questions=(question,), **settings)

    @property
    def calls(self) -> str:
        """One, or s for s sentences that are checked one by one."""
        return "s" if self._one_by_one and not self.compat else "1"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Check each sentence, or the answer as a whole."""
        answer = answer_in(sample)
        contexts = non_blank_contexts_in(sample)
        if self.compat:
            return _compat_verdict((yield from self.ask(_SUPPORTED, sample, _data(contexts, answer))))
        claims = sentences(answer)
        if not claims:
            return Verdict.without_score("no_claims", "the answer says nothing in words")
        check = self._one_at_a_time if self._one_by_one else partial(verify_claims, self)
        items = yield from check(sample, contexts, claims)
        advice = support_feedback(self, sample, items, called="sentences", absent="unsupported")
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=tuple(items))

    def _one_at_a_time(
        self, sample: Sample, contexts: list[JsonValue], claims: Sequence[str]
    ) -> Generator[Any, Any, list[Verdict]]:
        """Check each sentence in a call of its own; all replies are needed, as one unsupported sentence fails."""
        requests = [self.request(_SUPPORTED, sample, _data(contexts, claim)) for claim in claims]
        replies = all_of((yield from self.ask_all(requests)))
        return [
            Verdict.checked(
                reply.verdict,
                value="supported" if reply.verdict else "absent",
                subject=claim,
                rationale=reply.rationale,
            )
            for claim, reply in zip(claims, replies, strict=True)
        ]


def _data(contexts: list[JsonValue], answer: str) -> dict[str, JsonValue]:
    return {"contexts": contexts, "answer": answer}


def _compat_verdict(reply: Any) -> Verdict:
    """Return a verdict that passes only on true or exactly "yes", with a score of 0 either way."""
    yes = reply.verdict is True or str(reply.verdict).strip().lower() == "yes"
    feedback = "" if yes else reply.feedback
    return Verdict(value=0.0, score=0.0, rating=1, passed=yes, rationale=reply.rationale, feedback=feedback)


class _ClosedMark(ReplySchema):
    """A mark with its reasons, closed from 0 to 1."""

    rationale: str = Field(description="text: your reasons, before the score")
    score: Annotated[float, Field(ge=0, le=1)] = Field(description="number from 0 to 1")
    feedback: str = Field(description="text: what to change; empty if nothing")


class _OpenMark(ReplySchema):
    """A mark with its reasons, taken as it is."""

    rationale: str = Field(description="text: your reasons, before the score")
    score: float = Field(description="number from 0 to 1")
    feedback: str = Field(description="text: what to change; empty if nothing")


class _Marking(OneQuestion):
    """A judge that asks for a mark from 0 to 1.

    With `variant="compat"` every mark above 0 passes, and one outside 0 to 1 is unscored, `invalid_output`, with
    the mark as its value.
    """

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        question: Question[Any] = Question(prompt=self.pack, reply=_ClosedMark, compat=_OpenMark)
        super().__init__(model, question=question, **settings)

    def conclude(self, reply: Any) -> Verdict:
        """Return a verdict with the mark as its score."""
        score = reply.score
        if not 0 <= score <= 1:
            return Verdict.without_score(
                "invalid_output", f"the score is {score}, outside 0 to 1", value=score, rationale=reply.rationale
            )
        return Verdict(
            value=score,
            score=score,
            rating=rating_of(score),
            passed=score > 0 if self.compat else score >= self.threshold,
            rationale=reply.rationale,
            feedback="" if score == 1 else reply.feedback,
        )


class AnswerCorrectnessEvaluator(
    _YesOrNo, entry="alibaba.answer_correctness_evaluator", pack="spring_relevancy_evaluator"
):
    """Judge whether an answer agrees with its contexts; no reference answer takes part, in spite of the name.

    With `variant="compat"` the model replies in words, and whatever contains "yes" passes ("not yes" too).
    """

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question, the contexts and the answer."""
        return _agreement(sample)

    def is_yes(self, word: str) -> bool:
        """Return whether the reply contains "yes"."""
        return "YES" in word.upper()


class AnswerFaithfulnessEvaluator(
    _Marking, entry="alibaba.answer_faithfulness_evaluator", pack="alibaba_answer_faithfulness"
):
    """Mark from 0 to 1 how far an answer keeps to the facts of its contexts; the question is not shown."""

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the facts and the answer."""
        answer = answer_in(sample)
        return {"facts": non_blank_contexts_in(sample), "answer": answer}


class AnswerRelevancyEvaluator(
    _Marking, entry="alibaba.answer_relevancy_evaluator", pack="alibaba_answer_relevancy"
):
    """Mark from 0 to 1 how far an answer agrees with the reference answer, in spite of its name.

    Where there is no reference, the contexts are it: so the original takes the ground truth, as its `dataList`.
    """

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question, the reference and the answer."""
        answer = answer_in(sample)
        has_reference = bool((sample.reference or "").strip()) or not sample.retrieved_contexts
        reference = reference_in(sample) if has_reference else "\n".join(map(str, non_blank_contexts_in(sample)))
        return {"question": question_in(sample), "reference": reference, "answer": answer}
