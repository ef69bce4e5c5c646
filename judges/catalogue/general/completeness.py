"""Completeness: whether every part of the question is dealt with; asking back and honest not-knowing are, too."""

from __future__ import annotations

from typing import ClassVar, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.model_judge import ModelJudge, ModelSettings
from judges.catalogue.parts.items import bullets, cut, reasons
from judges.catalogue.parts.needed import answer_in, question_in
from judges.entry import Entry
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_SCORES = {"answered": 1.0, "asked_back": 1.0, "declined": 1.0, "partly": 0.5, "missing": 0.0}


class Part(ReplySchema):
    """One part of the question, and what the answer does about it."""

    part: str = Field(description="text: what is asked for, in a few words")
    reason: str = Field(description="text: why, before the verdict")
    verdict: Literal["answered", "asked_back", "declined", "partly", "missing"] = Field(
        description="one of answered, asked_back, declined, partly, missing"
    )


class Parts(ReplySchema):
    """The parts of the question, and what the answer does about each."""

    parts: list[Part] = Field(description="list of objects: the parts of the question, at least one")


COMPLETENESS: Question[Parts] = Question(prompt="completeness", reply=Parts)


class Completeness(ModelJudge):
    """Judge whether the answer deals with every part of the question.

    Score = mean over the parts: 1 where it is answered, asked back about, or honestly declined for want of
    knowledge or permission; 0.5 where it is answered in part; 0 where it is passed over.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="completeness",
        aliases=(
            "mlflow.completeness",
            "Completeness",
            "ResponseCompletenessEvaluator",
            "response_completeness",
            "ResponseCompleteness",
        ),
        asks="Does the answer deal with every part of the question?",
        needs=("user_input", "response"),
        calls="1",
        source="as in mlflow 3 and Azure AI Evaluation",
        differs="Parts are items; a question back and an honest abstention deal with a part.",
        tags=("coverage", "abstention", "clarification", "multi-part"),
    )
    pack = "completeness"
    pass_mark = 0.75

    def __init__(self, model: object = None, **settings: Unpack[ModelSettings]) -> None:
        super().__init__(model, questions=(COMPLETENESS,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask for the parts and what became of each."""
        data: dict[str, JsonValue] = {"question": question_in(sample), "answer": answer_in(sample)}
        reply = yield from self.ask(COMPLETENESS, sample, data, check=_fault)
        items = tuple(
            Verdict.scored(
                _SCORES[part.verdict],
                threshold=1.0,
                value=part.verdict,
                subject=cut(part.part),
                rationale=part.reason,
            )
            for part in reply.parts
        )
        score = sum(_SCORES[part.verdict] for part in reply.parts) / len(items)
        left = [f"{item.subject} - {item.rationale}" for item in items if not item.passed]
        feedback = self.say("left", sample, parts=bullets(left, longest=600)) if left else ""
        return self.verdict(score, items=items, rationale=reasons(items), feedback=feedback)


def _fault(reply: Parts) -> str | None:
    return None if reply.parts else "parts: empty; a question has at least one part"
