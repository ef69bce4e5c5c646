"""A simple criteria score is a whole number on a closed scale."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import asked

EIFFEL: dict[str, Any] = {
    "user_input": "Where is the Eiffel Tower located?",
    "response": "The Eiffel Tower is located in Paris.",
    "reference": "In Egypt.",
}


def said(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a reply."""
    return {"rationale": "Because.", "verdict": verdict, "feedback": feedback}


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize(
    ("lowest", "highest", "value", "score"),
    [(0, 5, 0, 0.0), (0, 5, 1, 0.2), (0, 5, 5, 1.0), (1, 4, 3, 2 / 3), (-2, 2, 0, 0.5), (0, 100, 37, 0.37)],
)
async def test_the_score_is_the_place_on_the_scale(
    variant: str, lowest: int, highest: int, value: int, score: float
) -> None:
    """(value - lowest) / (highest - lowest), in one call, sync and async."""
    settings: dict[str, Any] = {"min_score": lowest, "max_score": highest, "variant": variant}
    judge = load("ragas.simple_criteria_score", definition="?", model=ScriptedModel([said(value)] * 2), **settings)
    for verdict in (judge(EIFFEL), await judge.acall(EIFFEL)):
        assert verdict.score == pytest.approx(score, abs=1e-12)
        assert (verdict.value, verdict.passed, verdict.usage.calls) == (value, score >= 0.5, 1)
        assert verdict.feedback == ("" if value == highest else "Change it.")


@pytest.mark.parametrize("value", [9, -1, 2.5, "3", True, None])
def test_a_number_off_the_scale_is_no_score(value: object) -> None:
    """It is never clamped: asked for once more, and then unscored."""
    model = ScriptedModel([said(value)], cycle=True)
    verdict = load("SimpleCriteriaScore", definition="?", model=model)(EIFFEL)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


@pytest.mark.parametrize("value", [9, -1])
def test_compat_keeps_a_number_off_the_scale_as_the_value(value: int) -> None:
    """It cannot be a score, so there is none; the number is told, after one call."""
    judge = load("ragas.simple_criteria", definition="?", model=ScriptedModel([said(value)]), variant="compat")
    verdict = judge(EIFFEL)
    assert (verdict.unscored, verdict.value, verdict.score) == ("invalid_output", value, None)
    assert (verdict.detail, verdict.usage.calls) == (f"{value} is no level of the scale from 0 to 5", 1)


def test_scale_and_definition_stand_in_the_task() -> None:
    """The definition as it is, the two ends as numbers; all there is of the sample is shown."""
    model = ScriptedModel([said(3)])
    load("simple_criteria_score", definition="Like the {reference}? $lowest", max_score=7, model=model)(EIFFEL)
    told = model.prompts[0][0].text
    assert "Like the {reference}? $lowest" in told
    assert "from 0 (does not meet it at all) to 7 (meets it in full)" in told
    assert "one of 0, 1, 2, 3, 4, 5, 6, 7" in told
    assert list(asked(model)[0]) == ["conversation", "reference", "answer"]


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_an_empty_answer_is_unscored(variant: str) -> None:
    """There is nothing to score."""
    judge = load("simple_criteria_score", definition="?", model=ScriptedModel([]), variant=variant)
    assert judge(response="").unscored == "no_response"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"definition": ""}, "definition says in words"),
        ({"min_score": 5}, "min_score and max_score are whole numbers"),
        ({"max_score": 5.0}, "min_score and max_score are whole numbers"),
        ({"min_score": True}, "min_score and max_score are whole numbers"),
        ({"max_score": 101}, "at most 101 levels"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], told: str) -> None:
    """The error says what is wanted."""
    with pytest.raises(ConfigurationError, match=told):
        load("simple_criteria_score", model=ScriptedModel([]), **{"definition": "?", **settings})
