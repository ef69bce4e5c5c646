"""Spring AI Alibaba's evaluators: agreement with contexts, with facts, and with a reference."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.testing import ScriptedModel
from tests.kit import asked

SPRING: dict[str, Any] = {
    "user_input": "What is Spring AI?",
    "response": "Spring AI is a framework for building AI applications.",
    "retrieved_contexts": ["Spring AI is a framework for building AI applications."],
}
EARTH: dict[str, Any] = {
    "response": "The Earth is the third planet from the Sun and supports life.",
    "retrieved_contexts": ["The Earth is the third planet from the Sun and the only one known to harbor life."],
}
PARIS: dict[str, Any] = {
    "user_input": "What is the capital of France?",
    "reference": "The capital of France is Paris, which is also the largest city in the country.",
    "response": "Paris is the capital city of France.",
}
MARKING = [("alibaba.answer_faithfulness_evaluator", EARTH), ("alibaba.answer_relevancy_evaluator", PARIS)]


def said(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a yes or no."""
    return {"rationale": "Because.", "verdict": verdict, "feedback": feedback}


def marked(score: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a mark."""
    return {"rationale": "Because.", "score": score, "feedback": feedback}


@pytest.mark.parametrize(("verdict", "score"), [(True, 1.0), (False, 0.0)])
def test_correctness_is_a_closed_yes_or_no(verdict: object, score: float) -> None:
    """One call, 1 or 0."""
    judged = load("alibaba.answer_correctness", model=ScriptedModel([said(verdict)]))(SPRING)
    assert (judged.score, judged.passed, judged.usage.calls) == (score, verdict, 1)


@pytest.mark.parametrize(
    ("word", "score"), [("YES", 1.0), ("NO", 0.0), ("NOT YES", 1.0), ("yesterday", 1.0), ("", 0.0)]
)
def test_compat_correctness_looks_for_the_word_anywhere(word: str, score: float) -> None:
    """As in Alibaba's evaluator, whatever contains "yes" passes."""
    judge = load("AnswerCorrectnessEvaluator", model=ScriptedModel([said(word)]), variant="compat")
    assert judge(SPRING).score == score


def test_correctness_and_spring_relevancy_share_their_question() -> None:
    """Both ask the same of the same data, so a panel pays once."""
    from judges import Panel  # noqa: PLC0415 - used here alone

    model = ScriptedModel([said(verdict=True)], cycle=True)
    names = ("alibaba.answer_correctness", "spring.relevancy")
    verdict = Panel([load(name, model=model) for name in names])(SPRING)
    assert (verdict.passed, len(model.prompts)) == (True, 1)


@pytest.mark.parametrize(("name", "sample"), MARKING)
@pytest.mark.parametrize(
    ("score", "passed", "feedback"),
    [
        (1.0, True, ""),
        (1, True, ""),
        (0.7, True, "Change it."),
        (0.5, True, "Change it."),
        (0.1, False, "Change it."),
        (0.0, False, "Change it."),
    ],
)
async def test_a_mark_passes_at_the_threshold(
    name: str,
    sample: dict[str, Any],
    score: float,
    passed: bool,  # noqa: FBT001 - a case
    feedback: str,
) -> None:
    """The mark is the score; feedback goes where nothing is to change."""
    judge = load(name, model=ScriptedModel([marked(score)], cycle=True))
    for verdict in (judge(sample), await judge.acall(sample)):
        assert (verdict.score, verdict.passed, verdict.feedback) == (score, passed, feedback)
        assert verdict.usage.calls == 1


@pytest.mark.parametrize(("name", "sample"), MARKING)
@pytest.mark.parametrize(("score", "passed"), [(1.0, True), (0.7, True), (0.1, True), (0.0, False)])
def test_compat_passes_whatever_is_above_zero(
    name: str,
    sample: dict[str, Any],
    score: float,
    passed: bool,  # noqa: FBT001 - a case
) -> None:
    """As in Alibaba's evaluators, whatever the threshold."""
    verdict = load(name, model=ScriptedModel([marked(score)]), variant="compat", threshold=0.9)(sample)
    assert verdict.score == pytest.approx(score, abs=1e-12)
    assert verdict.passed is passed


@pytest.mark.parametrize(("name", "sample"), MARKING)
@pytest.mark.parametrize("score", [1.5, -0.1, "1", True, None])
def test_a_mark_outside_the_scale_is_no_mark(name: str, sample: dict[str, Any], score: object) -> None:
    """It is never clamped: asked for once more, and then unscored."""
    verdict = load(name, model=ScriptedModel([marked(score)], cycle=True))(sample)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


@pytest.mark.parametrize(("name", "sample"), MARKING)
@pytest.mark.parametrize("score", [1.5, -0.1])
def test_compat_keeps_a_mark_outside_the_scale_as_the_value(
    name: str, sample: dict[str, Any], score: float
) -> None:
    """It cannot be a score, so there is none; the number is told."""
    verdict = load(name, model=ScriptedModel([marked(score)]), variant="compat")(sample)
    assert (verdict.unscored, verdict.value, verdict.score) == ("invalid_output", score, None)
    assert str(score) in verdict.detail


@pytest.mark.parametrize(
    ("name", "sample", "shown"),
    [
        (
            "alibaba.answer_faithfulness",
            EARTH,
            {"facts": EARTH["retrieved_contexts"], "answer": EARTH["response"]},
        ),
        (
            "alibaba.answer_relevancy",
            PARIS,
            {"question": PARIS["user_input"], "reference": PARIS["reference"], "answer": PARIS["response"]},
        ),
    ],
)
def test_the_model_is_shown_what_is_compared(name: str, sample: dict[str, Any], shown: object) -> None:
    """Facts and answer, or question, reference and answer."""
    model = ScriptedModel([marked(1.0)])
    load(name, model=model)(sample)
    assert asked(model) == [shown]


@pytest.mark.parametrize(
    ("name", "sample", "fields", "reason"),
    [
        ("alibaba.answer_correctness", SPRING, {"response": " "}, "no_response"),
        ("alibaba.answer_correctness", SPRING, {"retrieved_contexts": []}, "no_contexts"),
        ("alibaba.answer_faithfulness", EARTH, {"response": ""}, "no_response"),
        ("alibaba.answer_faithfulness", EARTH, {"retrieved_contexts": [""]}, "no_contexts"),
        ("alibaba.answer_relevancy", PARIS, {"response": ""}, "no_response"),
        ("alibaba.answer_relevancy", PARIS, {"reference": " "}, "no_reference"),
        ("alibaba.answer_relevancy", PARIS, {"user_input": None}, "no_question"),
    ],
)
def test_nothing_to_judge_is_unscored(
    name: str, sample: dict[str, Any], fields: dict[str, Any], reason: str
) -> None:
    """What cannot be judged has a reason, and costs nothing."""
    verdict = load(name, model=ScriptedModel([]))({**sample, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)
