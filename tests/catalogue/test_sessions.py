"""Judges of whole conversations: completeness, frustration, role and memory, one call each."""

from __future__ import annotations

import time

import pytest

from judges import load
from judges.testing import ScriptedModel
from tests.kit import items, replying

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
