"""Rubrics scores choose one of the described levels, of the judge or of the row."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.testing import ScriptedModel

EIFFEL: dict[str, Any] = {
    "user_input": "Where is the Eiffel Tower located?",
    "response": "The Eiffel Tower is located in Paris.",
}
RAGAS = {"score0_description": "It does not answer.", "score1_description": "It answers."}
ROW = {
    **EIFFEL,
    "rubrics": {"score1_description": "Wrong.", "score2_description": "Vague.", "score3_description": "Right."},
}


def said(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a reply."""
    return {"rationale": "Because.", "verdict": verdict, "feedback": feedback}


@pytest.mark.parametrize(
    "rubrics",
    [RAGAS, {0: "It does not answer.", 1: "It answers."}, {"1": "It answers.", "0": "It does not answer."}],
)
def test_levels_may_be_given(rubrics: object) -> None:
    """Two rows on 0 and 1 have the mean 0.5; the levels stand in the task, in order."""
    model = ScriptedModel([said(0), said(1)])
    judge = load("RubricsScore", rubrics=rubrics, model=model)
    assert [judge(EIFFEL).value, judge(EIFFEL).score] == [0, 1.0]
    assert "0: It does not answer.\n1: It answers." in model.prompts[0][0].text
    assert len(model.prompts[0]) == 2


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_a_level_between_those_described_is_no_score(variant: Any) -> None:
    """The scale is what is described, gaps included."""
    rubrics = {1: "a", 3: "b", 5: "c"}
    model = ScriptedModel([said(2)], cycle=True)
    for judge in (load("rubrics_score", model=model, rubrics=rubrics, variant=variant),
                  load("instance_rubrics", model=model, variant=variant)):  # fmt: skip
        verdict = judge({**ROW, "rubrics": {str(key): text for key, text in rubrics.items()}})
        assert (verdict.unscored, verdict.score) == ("invalid_output", None)


def test_four_levels_from_1_are_a_native_rating() -> None:
    """The level is the rating of the loop, unchanged."""
    rubrics = {one: f"level {one}" for one in range(1, 5)}
    verdict = load("rubrics_score", rubrics=rubrics, model=ScriptedModel([said(2)]))(EIFFEL)
    assert (verdict.rating, verdict.rated_natively, verdict.passed) == (2, True, False)
