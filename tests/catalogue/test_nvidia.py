"""NVIDIA's metrics ask two graders with tasks of their own, and take the mean of their ratings."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.prompting.prompts import LANGUAGES, prompt
from judges.testing import ScriptedModel
from tests.kit import Shown, replying

ACCURACY, RELEVANCE, GROUNDEDNESS = (
    "nvidia.answer_accuracy",
    "nvidia.context_relevance",
    "nvidia.response_groundedness",
)
EINSTEIN: dict[str, Any] = {
    "user_input": "When was Einstein born?",
    "response": "He was born in 1879.",
    "reference": "Albert Einstein was born on 14 March 1879.",
    "retrieved_contexts": ["Albert Einstein was born on 14 March 1879.", " ", "He was a physicist."],
}
every_judge = pytest.mark.parametrize("name", [ACCURACY, RELEVANCE, GROUNDEDNESS])


def is_second(data: Shown) -> bool:
    """Tell the second grader by the order of its data."""
    return tuple(data) not in {
        ("question", "answer", "reference"),
        ("question", "contexts"),
        ("contexts", "answer"),
    }


def grading(first: object, second: object, *, advice: tuple[str, str] = ("A.", "B.")) -> ScriptedModel:
    """Make a model whose graders give these ratings; an exception is raised instead."""

    def reply(data: Shown) -> dict[str, Any] | Exception:
        turn = is_second(data)
        rating = second if turn else first
        if isinstance(rating, Exception):
            return rating
        return {"rationale": f"Because {rating}.", "rating": rating, "feedback": advice[turn]}

    return replying(reply)


@every_judge
def test_the_graders_have_tasks_of_their_own(name: str) -> None:
    """The questions are worded apart, in every language, and each item says who gave it."""
    pack = name.partition(".")[2]
    model = grading(2, 2)
    verdict = load(name, model=model)(EINSTEIN)
    assert [one.judge for one in verdict.items] == [pack, f"{pack}_second"]
    assert len({messages[0].text for messages in model.prompts}) == 2
    assert all(prompt(pack, one).task != prompt(f"{pack}_second", one).task for one in LANGUAGES)


def test_a_question_in_chinese_is_put_in_chinese() -> None:
    """The packs follow the language of the question."""
    model = grading(2, 2)
    load(ACCURACY, model=model)(user_input="爱因斯坦哪年出生？", response="1879 年。", reference="1879 年。")
    wanted = {prompt(f"answer_accuracy{one}", "zh").task for one in ("", "_second")}
    assert all(any(task in messages[0].text for task in wanted) for messages in model.prompts)
