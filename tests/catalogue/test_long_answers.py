"""Answers of any script and of a megabyte are judged as they are, in time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from judges import load
from judges.testing import ScriptedModel
from tests.kit import Shown, items, replying


def test_a_very_long_answer_is_cut_into_sentences_at_once() -> None:
    """A megabyte of text costs less than a second of our own time."""
    answer = "The river flows on and on. " * 40_000
    model = ScriptedModel([items(*["supported"] * 40_000)])
    started = time.process_time()
    verdict = load("groundedness", model=model)(response=answer, retrieved_contexts=["a"] * 200)
    assert time.process_time() - started < 10
    assert (verdict.score, len(verdict.items)) == (1.0, 40_000)


DANUBE: dict[str, Any] = {
    "user_input": "Where does the Danube rise, and how long is it?",
    "response": "It rises in the Black Forest.",
}


@pytest.mark.parametrize("text", ["{braces} %s $count", "你好，世界。", "שלום", "🎈 1783", "a" * 1_000_000])
def test_any_answer_reaches_the_model_as_it_is(text: str) -> None:
    """Nothing is substituted or cut."""
    seen: list[Shown] = []

    def reply(data: Shown) -> dict[str, Any]:
        seen.append(data)
        return {"parts": [{"part": "p", "reason": "r", "addressed": "full"}]}

    load("ragas.answer_relevancy", model=replying(reply))({**DANUBE, "response": text})
    assert [one["answer"] for one in seen] == [text]


TURNS = ("role_adherence", "knowledge_retention")
turns = pytest.mark.parametrize("name", TURNS)
every = pytest.mark.parametrize("name", [*TURNS, "conversation_completeness", "user_frustration"])


def saying(*verdicts: object) -> ScriptedModel:
    """Make a model with a verdict on each numbered turn."""
    return replying(lambda data: items(*verdicts))


def feeling(verdict: object, feedback: str = "Be kind.") -> ScriptedModel:
    """Make a model that finds the user in this mood."""
    return replying(lambda data: {"rationale": "because", "verdict": verdict, "feedback": feedback})


@turns
@pytest.mark.parametrize(("question", "language"), [("你好，宝藏在哪里？", "zh"), ("Где сокровище?", "ru")])
def test_the_feedback_is_in_the_language_of_the_question(name: str, question: str, language: str) -> None:
    """Chinese and Russian, the turn cut where it is long."""
    judge = load(name, model=saying(*[False]))
    found = judge(user_input=question, response="宝" * 1000, metadata={"role": "x"})
    starts = {"zh": "以下回答", "ru": "Эти ответы"}
    assert found.feedback.startswith(starts[language])
    assert "宝宝宝 ... - reason 1" in found.feedback
    assert len(found.feedback) < 400


@every
def test_long_conversations_are_read_at_once(name: str) -> None:
    """Two hundred turns, and a megabyte in the last, take no time of our own."""
    chat = [
        {"role": role, "content": f"{role} {number}?"} for number in range(200) for role in ("user", "assistant")
    ]
    sample = {"user_input": chat, "response": "слово " * 170_000, "metadata": {"role": "x"}}
    good = "addressed" if name == "conversation_completeness" else True
    count = 200 if name == "conversation_completeness" else 201
    model = feeling("none") if name == "user_frustration" else saying(*([good] * count))
    began = time.process_time()
    assert load(name, model=model)(sample).score == 1
    assert time.process_time() - began < 3
