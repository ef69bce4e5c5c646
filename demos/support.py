"""The support desk of a shop: questions, answers and labels of `support.jsonl`, and the models that speak them.

All of it was written for the demo: the shop, the answers, the judge's ratings and the labels. Everything that is
done with it is real.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from langchain_core.messages import BaseMessage
from pydantic import TypeAdapter

from judges import Rubric
from judges.testing import ScriptedModel

Part = Literal["pilot", "main", "live"]

_FILE = Path(__file__).with_name("support.jsonl")
_PASSES = 4
_CRITERIA = "Is the answer right, complete, and does it say what the customer is to do next?"
_LEVELS = {
    1: "wrong, rude, or no answer",
    2: "an answer that leaves the customer where they were",
    3: "right, but something that matters is missing",
    4: "right and complete",
}


@dataclass(frozen=True)
class SupportAnswer:
    """One answer of the chatbot.

    Args:
        answer: Its text.
        rating: What the judge says of it, 1 to 4.
        missing: What the judge misses in it.
        labels: What people say of it, 1 to 4, by name; none for questions that come after the certificate.
    """

    answer: str
    rating: int
    missing: str = ""
    labels: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SupportQuestion:
    """One question of a customer.

    Args:
        part: `pilot` and `main` are recorded and labelled; `live` comes after the certificate.
        question: Its text.
        answers: What the chatbot says, attempt by attempt.
    """

    part: Part
    question: str
    answers: tuple[SupportAnswer, ...]


def support_questions() -> list[SupportQuestion]:
    """Return the shipped questions with answers, ratings and labels."""
    with _FILE.open(encoding="utf-8") as lines:
        return [TypeAdapter(SupportQuestion).validate_python(json.loads(line)) for line in lines]


def chatbot(questions: Sequence[SupportQuestion]) -> ScriptedModel:
    """Return a chat model that answers the questions: after each refusal with the next of its answers."""
    answers = {question.question: question.answers for question in questions}

    def reply(messages: list[BaseMessage]) -> str:
        question, *rest = (message.text for message in messages)
        own, told = answers[question], "\n".join(rest)
        refused = [number for number, one in enumerate(own) if one.missing and one.missing in told]
        return own[min(max(refused, default=-1) + 1, len(own) - 1)].answer

    return ScriptedModel(reply, name="support-bot-1")


def support_judge(
    questions: Sequence[SupportQuestion], *, model: str = "judge-model-1", criteria: str = _CRITERIA
) -> Rubric:
    """Return the judge: a rubric with its real prompt, asked of a model whose ratings are shipped.

    Args:
        questions: The questions whose answers it rates.
        model: Name of the model.
        criteria: What it judges by.
    """
    by_question = {question.question: question.answers for question in questions}

    def reply(messages: list[BaseMessage]) -> dict[str, object]:
        prompt = "\n".join(message.text for message in messages)
        own = next(answers for question, answers in by_question.items() if question in prompt)
        return _reply(max((one for one in own if one.answer in prompt), key=lambda one: len(one.answer)))

    return Rubric(
        ScriptedModel(reply, name=model), criteria=criteria, levels=_LEVELS, name="support-quality", language="en"
    )


def _reply(answer: SupportAnswer) -> dict[str, object]:
    if answer.rating == _PASSES:
        return {"rationale": "Right, complete, and clear about the next step.", "rating": 4, "feedback": ""}
    return {"rationale": f"What is amiss: {answer.missing}.", "rating": answer.rating, "feedback": answer.missing}
