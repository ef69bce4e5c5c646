"""Spring AI's relevancy evaluator asks whether an answer is in line with its contexts."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import asked

SPRING: dict[str, Any] = {
    "user_input": "What is Spring AI?",
    "response": "Spring AI is a framework for building AI applications.",
    "retrieved_contexts": ["Spring AI is a framework for building AI applications.", " "],
}


def found(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a reply."""
    return {"rationale": "Because.", "verdict": verdict, "feedback": feedback}


@pytest.mark.parametrize(("said", "feedback"), [(True, ""), (False, "Change it.")])
async def test_the_verdict_is_a_closed_yes_or_no(said: bool, feedback: str) -> None:  # noqa: FBT001 - a case
    """True passes and needs no feedback, false fails with it; one call, sync and async."""
    model = ScriptedModel([found(said), found(said)])
    judge = load("spring.relevancy_evaluator", model=model)
    for verdict in (judge(SPRING), await judge.acall(SPRING)):
        assert (verdict.value, verdict.score, verdict.passed) == (said, float(said), said)
        assert (verdict.rationale, verdict.feedback, verdict.usage.calls) == ("Because.", feedback, 1)


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        ("YES", True),
        (" YES\n", True),
        ("\tYes\t", True),
        ("NO", False),
        ("maybe", False),
        ("yes and more", False),
        ("", False),
    ],
)
def test_compat_takes_the_word_alone(said: str, passed: bool) -> None:  # noqa: FBT001 - a case
    """As in Spring AI: trimmed, in any case, and nothing else."""
    verdict = load("spring.relevancy", model=ScriptedModel([found(said)]), variant="compat")(SPRING)
    assert (verdict.passed, verdict.score) == (passed, float(passed))


@pytest.mark.parametrize("said", ["yes", 1, "true", None])
def test_a_verdict_that_is_no_boolean_is_no_verdict(said: object) -> None:
    """It is asked for once more, and then unscored."""
    verdict = load("RelevancyEvaluator", model=ScriptedModel([found(said)], cycle=True))(SPRING)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


def test_the_model_is_shown_question_contexts_and_answer() -> None:
    """Blank contexts are left out; of a conversation all messages are shown."""
    model = ScriptedModel([found(said) for said in (True, True)])
    judge = load("spring.context_consistency", model=model)
    judge(SPRING)
    turns = [("user", "Hello"), ("assistant", "Hi"), ("user", "What is it?"), ("assistant", "A framework.")]
    judge(user_input=turns, retrieved_contexts=["a"])
    first, second = asked(model)
    assert first == {
        "question": SPRING["user_input"],
        "contexts": SPRING["retrieved_contexts"][:1],
        "answer": SPRING["response"],
    }
    assert [one["content"] for one in second["question"]] == ["Hello", "Hi", "What is it?"]
    assert second["answer"] == "A framework."


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response": ""}, "no_response"),
        ({"retrieved_contexts": []}, "no_contexts"),
        ({"retrieved_contexts": [" "]}, "no_contexts"),
        ({"user_input": ""}, "no_question"),
    ],
)
@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_nothing_to_judge_is_unscored(variant: str, fields: dict[str, Any], reason: str) -> None:
    """What cannot be judged has a reason, and costs nothing."""
    judge = load("spring.relevancy", model=ScriptedModel([]), variant=variant)
    verdict = judge({**SPRING, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


@pytest.mark.parametrize(
    ("question", "part"), [("这个框架是什么？", "你负责检查"), ("Что такое Spring AI?", "Ты проверяешь")]
)
def test_the_prompt_speaks_the_language_of_the_question(question: str, part: str) -> None:
    """Instructions and examples are those of the pack of that language."""
    model = ScriptedModel([found("yes")])
    assert load("spring.relevancy", model=model, variant="compat")({**SPRING, "user_input": question}).passed
    assert part in model.prompts[0][0].text


def test_a_judge_without_a_model_is_refused() -> None:
    """There is no default model."""
    with pytest.raises(ConfigurationError, match="needs a model"):
        load("spring.relevancy")
