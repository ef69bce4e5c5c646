"""Rubrics scores choose one of the described levels, of the judge or of the row."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import asked

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


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize(("level", "score"), [(1, 0.0), (2, 0.25), (3, 0.5), (4, 0.75), (5, 1.0)])
async def test_levels_go_from_1_to_5_unless_given(variant: str, level: int, score: float) -> None:
    """The score is the place on the scale; no advice at the top; one call, sync and async."""
    judge = load("ragas.rubrics_score", model=ScriptedModel([said(level)] * 2), variant=variant)
    for verdict in (judge(EIFFEL), await judge.acall(EIFFEL)):
        assert verdict.score == pytest.approx(score, abs=1e-12)
        assert (verdict.value, verdict.passed, verdict.usage.calls) == (level, score >= 0.5, 1)
        assert (verdict.rationale, verdict.feedback) == ("Because.", "" if level == 5 else "Change it.")


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


@pytest.mark.parametrize("level", [0, 7, 9, 3.0, "3", True])
def test_a_level_that_is_not_described_is_refused(level: object) -> None:
    """It is asked for once more, and then unscored."""
    verdict = load("rubrics_score", model=ScriptedModel([said(level)], cycle=True))(EIFFEL)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


@pytest.mark.parametrize("name", ["rubrics_score", "instance_rubrics"])
@pytest.mark.parametrize("level", [7, 0])
def test_compat_keeps_a_level_off_the_scale_as_the_value(name: str, level: int) -> None:
    """It cannot be a score, so there is none; the number is told, after one call."""
    verdict = load(name, model=ScriptedModel([said(level)]), variant="compat")(ROW)
    assert (verdict.unscored, verdict.value, verdict.usage.calls) == ("invalid_output", level, 1)


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_a_level_between_those_described_is_no_score(variant: Any) -> None:
    """The scale is what is described, gaps included."""
    rubrics = {1: "a", 3: "b", 5: "c"}
    model = ScriptedModel([said(2)], cycle=True)
    for judge in (load("rubrics_score", model=model, rubrics=rubrics, variant=variant),
                  load("instance_rubrics", model=model, variant=variant)):  # fmt: skip
        verdict = judge({**ROW, "rubrics": {str(key): text for key, text in rubrics.items()}})
        assert (verdict.unscored, verdict.score) == ("invalid_output", None)


@pytest.mark.parametrize(
    ("with_reference", "reference", "shown"),
    [(None, "In Paris.", True), (None, None, False), (True, "In Paris.", True), (False, "In Paris.", False)],
)
@pytest.mark.parametrize(
    ("language", "part"),
    [("en", "agrees with a reference"), ("zh", "与参考答案的一致程度"), ("ru", "согласуется с эталоном")],
)
def test_the_default_levels_are_about_the_reference_where_there_is_one(
    with_reference: object,
    reference: str | None,
    shown: bool,  # noqa: FBT001 - a case
    language: str,
    part: str,
) -> None:
    """And about the answer alone where there is none, or it is not wanted."""
    model = ScriptedModel([said(4)])
    judge = load("DomainSpecificRubrics", with_reference=with_reference, language=language, model=model)
    judge({**EIFFEL, "reference": reference})
    assert (part in model.prompts[0][0].text) is shown
    assert ("reference" in asked(model)[0]) is shown


def test_a_reference_that_is_wanted_must_be_there() -> None:
    """Without it there is no score."""
    judge = load("rubrics_score", with_reference=True, model=ScriptedModel([]))
    assert judge(EIFFEL).unscored == "no_reference"
    assert judge.explain().needs == ("response", "reference")


def test_levels_of_ones_own_count_with_a_reference_too() -> None:
    """They say themselves whether the reference matters."""
    model = ScriptedModel([said(1)])
    load("rubrics_score", rubrics=RAGAS, model=model)({**EIFFEL, "reference": "In Paris."})
    assert "1: It answers." in model.prompts[0][0].text
    assert asked(model)[0]["reference"] == "In Paris."


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize(("level", "score"), [(1, 0.0), (2, 0.5), (3, 1.0)])
async def test_a_row_may_have_its_own_levels(variant: str, level: int, score: float) -> None:
    """They are shown as data, in order, never as instructions; sync and async."""
    model = ScriptedModel([said(level)] * 2)
    judge = load("ragas.instance_rubrics", model=model, variant=variant)
    for verdict in (judge(ROW), await judge.acall(ROW)):
        assert (verdict.value, verdict.score, verdict.usage.calls) == (level, score, 1)
    assert asked(model)[0]["levels"] == [
        {"level": 1, "description": "Wrong."},
        {"level": 2, "description": "Vague."},
        {"level": 3, "description": "Right."},
    ]
    assert "Vague." not in model.prompts[0][0].text


def test_each_row_has_its_own_scale() -> None:
    """What one row allows, another refuses."""
    model = ScriptedModel([said(5)], cycle=True)
    judge = load("InstanceRubrics", model=model)
    assert judge({**EIFFEL, "rubrics": {"1": "a", "3": "b", "5": "c"}}).score == 1.0
    assert judge(ROW).unscored == "invalid_output"
    assert judge({**EIFFEL, "rubrics": {"1": "a", "3": "b", "6": "c"}}).unscored == "invalid_output"


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize("rubrics", [None, {}, {"1": "a"}, {"good": "a", "bad": "b"}, {"1": "a", "2": " "}])
def test_a_row_without_levels_is_unscored(variant: str, rubrics: object) -> None:
    """Two levels at least, keyed by whole numbers."""
    judge = load("instance_rubrics", model=ScriptedModel([]), variant=variant)
    verdict = judge({**EIFFEL, "rubrics": rubrics})
    assert (verdict.unscored, verdict.usage.calls) == ("no_rubrics", 0)


@pytest.mark.parametrize("name", ["rubrics_score", "instance_rubrics"])
def test_an_empty_answer_is_unscored(name: str) -> None:
    """There is nothing to rate."""
    assert load(name, model=ScriptedModel([]))({**ROW, "response": " "}).unscored == "no_response"


def test_four_levels_from_1_are_a_native_rating() -> None:
    """The level is the rating of the loop, unchanged."""
    rubrics = {one: f"level {one}" for one in range(1, 5)}
    verdict = load("rubrics_score", rubrics=rubrics, model=ScriptedModel([said(2)]))(EIFFEL)
    assert (verdict.rating, verdict.rated_natively, verdict.passed) == (2, True, False)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"rubrics": {}}, "rubrics describes at least two levels"),
        ({"rubrics": {1: "a"}}, "rubrics describes at least two levels"),
        ({"rubrics": {"score1_description": "a", "1": "b"}}, "rubrics describes at least two levels"),
        ({"rubrics": {"good": "a", "bad": "b"}}, "rubrics describes at least two levels"),
        ({"rubrics": {1: "a", 2: None}}, "rubrics describes at least two levels"),
        ({"rubrics": ["a", "b"]}, "rubrics describes at least two levels"),
        ({"with_reference": "yes"}, "with_reference is True, False or None"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], told: str) -> None:
    """The error says what is wanted."""
    with pytest.raises(ConfigurationError, match=told):
        load("rubrics_score", model=ScriptedModel([]), **settings)
