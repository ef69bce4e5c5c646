"""Judges modelled on the evaluators of Spring AI Alibaba: agreement with contexts, facts or a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.model_judge import ModelSettings
from judges.catalogue.parts.needed import answer_in, non_blank_contexts_in, question_in, reference_in
from judges.catalogue.parts.one_question import OneQuestion, YesOrNo
from judges.catalogue.spring import agreement
from judges.entry import Entry
from judges.prompting.questions import Question, ReplySchema
from judges.sample import Sample
from judges.verdict import Verdict, rating_of


class ClosedMark(ReplySchema):
    """A mark with its reasons, closed from 0 to 1."""

    rationale: str = Field(description="text: your reasons, before the score")
    score: Annotated[float, Field(ge=0, le=1)] = Field(description="number from 0 to 1")
    feedback: str = Field(description="text: what to change; empty if nothing")


class OpenMark(ReplySchema):
    """A mark with its reasons, taken as it is."""

    rationale: str = Field(description="text: your reasons, before the score")
    score: float = Field(description="number from 0 to 1")
    feedback: str = Field(description="text: what to change; empty if nothing")


class Marking(OneQuestion):
    """A judge that asks for a mark from 0 to 1.

    With `variant="compat"` every mark above 0 passes, and one outside 0 to 1 is unscored, `invalid_output`, with
    the mark as its value.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        question: Question[Any] = Question(prompt=self.pack, reply=ClosedMark, compat=OpenMark)
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


class AnswerCorrectnessEvaluator(YesOrNo):
    """Judge whether an answer agrees with its contexts; no reference answer takes part, in spite of the name.

    With `variant="compat"` the model replies in words, and whatever contains "yes" passes ("not yes" too).

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="alibaba.answer_correctness_evaluator",
        aliases=("alibaba.answer_correctness", "AnswerCorrectnessEvaluator"),
        asks="Is the answer to the question in line with the contexts?",
        needs=("user_input", "response", "retrieved_contexts"),
        calls="1",
        scale="yes or no",
        source="Spring AI Alibaba",
        differs="A closed yes or no with reasons and feedback; no contexts is unscored.",
        tags=("rag", "consistency", "accuracy"),
    )
    pack = "spring_relevancy_evaluator"

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question, the contexts and the answer."""
        return agreement(sample)

    def is_yes(self, word: str) -> bool:
        """Whether the reply contains "yes"."""
        return "YES" in word.upper()


class AnswerFaithfulnessEvaluator(Marking):
    """Mark from 0 to 1 how far an answer keeps to the facts of its contexts; the question is not shown.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="alibaba.answer_faithfulness_evaluator",
        aliases=("alibaba.answer_faithfulness", "AnswerFaithfulnessEvaluator"),
        asks="How far does the answer keep to the facts, inventing nothing?",
        needs=("response", "retrieved_contexts"),
        calls="1",
        source="Spring AI Alibaba",
        differs="The score is held to 0 to 1 and passes at the threshold, not above 0; reasons come before it.",
        tags=("rag", "hallucination", "groundedness", "unsupported", "made up"),
    )
    pack = "alibaba_answer_faithfulness"

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the facts and the answer."""
        answer = answer_in(sample)
        return {"facts": non_blank_contexts_in(sample), "answer": answer}


class AnswerRelevancyEvaluator(Marking):
    """Mark from 0 to 1 how far an answer agrees with the reference answer, in spite of its name.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="alibaba.answer_relevancy_evaluator",
        aliases=("alibaba.answer_relevancy", "AnswerRelevancyEvaluator"),
        asks="How far does the answer agree with the reference answer?",
        needs=("user_input", "response", "reference"),
        calls="1",
        source="Spring AI Alibaba",
        differs="The score is held to 0 to 1 and passes at the threshold, not above 0; reasons come before it.",
        tags=("correctness", "accuracy", "ground truth"),
    )
    pack = "alibaba_answer_relevancy"

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the question, the reference and the answer."""
        answer, reference = answer_in(sample), reference_in(sample)
        return {"question": question_in(sample), "reference": reference, "answer": answer}
