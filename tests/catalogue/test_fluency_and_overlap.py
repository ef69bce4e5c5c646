"""Fluency by a model, and the overlap of words as SQuAD counts it."""

from __future__ import annotations

import pytest

from judges import load
from judges.testing import ScriptedModel, raising
from tests.kit import asked


@pytest.mark.parametrize(
    ("answer", "reference", "corrected", "compat"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1, 1),
        ("in Paris, France", "Paris", 2 * (1 / 3) / (1 / 3 + 1), 2 * (1 / 3) / (1 / 3 + 1)),
        ("the the cat cat", "cat", 2 * (1 / 2) / (1 / 2 + 1), 2 * (1 / 2) / (1 / 2 + 1)),
        ("a cat", "a dog", 0, 0),
        ("the", "an", 1, 1),
        ("the", "cat", 0, 0),
        ("位于巴黎。", "巴黎", 2 * (2 / 4) / (2 / 4 + 1), 0),
        ("«Париж»", "париж", 1, 0),
    ],
)
def test_the_overlap_is_that_of_squad(answer: str, reference: str, corrected: float, compat: float) -> None:
    """Worked out by hand; compat takes words as the script does, which knows no other marks than ASCII's."""
    assert load("token_f1")(answer=answer, reference=reference).score == pytest.approx(corrected)
    assert load("f1_score", variant="compat")(answer=answer, reference=reference).score == pytest.approx(compat)


def test_the_overlap_has_feedback_and_needs_both_texts() -> None:
    """What differs is said without the reference; blank texts have no score."""
    verdict = load("token_f1")(question="?", answer="It is Rome", reference="Paris")
    assert '"it", "is", "rome"' in verdict.feedback.lower()
    assert "Paris" not in verdict.feedback
    assert load("token_f1")(answer=" ", reference="a").unscored == "no_response"
    assert load("token_f1")(answer="a", reference=None).unscored == "no_reference"


def test_fluency_looks_at_the_answer_alone() -> None:
    """Neither question nor contexts are shown; each label has its score."""
    labels = {"good": 1, "acceptable": 2 / 3, "poor": 1 / 3, "bad": 0}
    model = ScriptedModel([{"rationale": "so", "verdict": label, "feedback": "Mend it."} for label in labels])
    judge = load("fluency", model=model)
    for label, score in labels.items():
        with raising():
            verdict = judge(question="?", answer="It are.", contexts=["x"])
        assert (verdict.value, verdict.feedback) == (label, "" if score == 1 else "Mend it.")
        assert verdict.score == pytest.approx(score)
    assert asked(model)[0] == {"answer": "It are."}
