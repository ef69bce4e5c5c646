"""Answer relevancy compares the question with those the answer would answer, or looks at its parts."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.testing import ScriptedEmbeddings, ScriptedModel
from tests.kit import Shown, replying

DANUBE: dict[str, Any] = {
    "user_input": "Where does the Danube rise, and how long is it?",
    "response": "It rises in the Black Forest.",
}
QUESTION = DANUBE["user_input"]


def near(**cosines: float) -> ScriptedEmbeddings:
    """Make embeddings in which each text has this cosine with the question."""
    vectors = {name: [cosine, (1 - cosine**2) ** 0.5] for name, cosine in cosines.items()}
    return ScriptedEmbeddings({QUESTION: [1.0, 0.0], **vectors, "": [0.0, 1.0]})


def addressing(*levels: object) -> ScriptedModel:
    """Make a model that finds as many parts, each addressed so far."""
    parts = [
        {"part": f"part {number}", "reason": f"reason {number}", "addressed": one}
        for number, one in enumerate(levels, 1)
    ]
    return replying(lambda data: {"parts": parts})


@pytest.mark.parametrize("text", ["{braces} %s $count", "你好，世界。", "שלום", "🎈", "a" * 1_000_000])
def test_any_answer_reaches_the_model_as_it_is(text: str) -> None:
    """Nothing is substituted or cut."""
    seen: list[Shown] = []

    def reply(data: Shown) -> dict[str, Any]:
        seen.append(data)
        return {"parts": [{"part": "p", "reason": "r", "addressed": "full"}]}

    load("ragas.answer_relevancy", model=replying(reply))({**DANUBE, "response": text})
    assert [one["answer"] for one in seen] == [text]
