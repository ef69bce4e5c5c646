"""Guideline adherence gives a verdict on each guideline, so that the broken ones are named."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import asked

PARIS: dict[str, Any] = {
    "user_input": "What is the capital of France?",
    "response": "The capital of France is Paris.",
}
RULES = ["The response must be in English.", "The response must be clear and concise."]


def adherence(*verdicts: object) -> dict[str, Any]:
    """Write a reply on numbered guidelines."""
    return {
        "items": [
            {
                "number": number,
                "reason": f"reason {number}",
                "verdict": verdict,
                "change": f"change {number}" if verdict == "broken" else "",
            }
            for number, verdict in enumerate(verdicts, 1)
        ]
    }


def overall(verdict: str) -> dict[str, Any]:
    """Write one yes or no."""
    return {"rationale": "Because.", "verdict": verdict, "feedback": "Change it."}


@pytest.mark.parametrize(
    ("verdicts", "score", "passed"),
    [
        (["kept", "kept"], 1.0, True),
        (["kept", "broken"], 0.5, False),
        (["broken", "broken"], 0.0, False),
        (["not_applicable", "kept"], 1.0, True),
        (["not_applicable", "not_applicable"], 1.0, True),
    ],
)
async def test_all_guidelines_must_be_kept(
    verdicts: list[str],
    score: float,
    passed: bool,  # noqa: FBT001 - a case
) -> None:
    """The score is the share kept, one that does not apply included; one call, sync and async."""
    judge = load(
        "databricks.global_guideline_adherence", guidelines=RULES, model=ScriptedModel([adherence(*verdicts)] * 2)
    )
    for verdict in (judge(PARIS), await judge.acall(PARIS)):
        assert (verdict.score, verdict.value, verdict.passed) == (score, score, passed)
        assert [one.value for one in verdict.items] == verdicts
        assert [one.subject for one in verdict.items] == RULES
        assert verdict.usage.calls == 1


def test_the_feedback_names_the_broken_guidelines_and_what_to_change() -> None:
    """Those that are kept need no word."""
    judge = load("Guidelines", guidelines=RULES, model=ScriptedModel([adherence("kept", "broken")]))
    verdict = judge(PARIS)
    assert verdict.feedback.splitlines() == [
        "The answer breaks these guidelines; change it so that each of them is kept:",
        "- The response must be clear and concise. -> change 2",
    ]
    assert verdict.rationale == "The response must be clear and concise.: reason 2"
    assert verdict.items[1].feedback == "change 2"


def test_the_feedback_is_in_the_language_of_the_question() -> None:
    """A Chinese question is answered in Chinese."""
    judge = load("Guidelines", guidelines="Отвечай кратко.", model=ScriptedModel([adherence("broken")] * 2))
    assert judge(user_input="法国的首都是哪里？", response="巴黎").feedback.startswith("回答违反了")
    assert judge(user_input="Столица Франции?", response="Париж").feedback.startswith("Ответ нарушает")


@pytest.mark.parametrize(
    "guidelines",
    [
        ["Be kind.", "Be brief."],
        ("Be kind.", " Be brief. ", " "),
        {"tone": "Be kind.", "form": ["Be brief."]},
        {"all": ["Be kind.", "Be brief."]},
    ],
)
def test_guidelines_are_read_from_lists_and_names(guidelines: object) -> None:
    """They are numbered through, and each keeps the name it was listed under."""
    model = ScriptedModel([adherence("kept", "kept")])
    verdict = load("mlflow.guidelines", guidelines=guidelines, model=model)(PARIS)
    assert asked(model)[0]["guidelines"] == [
        {"number": 1, "guideline": "Be kind."},
        {"number": 2, "guideline": "Be brief."},
    ]
    named = list(guidelines) if isinstance(guidelines, dict) else [""]
    assert {one.detail for one in verdict.items} == set(named)


@pytest.mark.parametrize("guidelines", ["Be kind.", ["Be kind."], {"tone": ["Be kind."]}, {"tone": "Be kind."}])
def test_the_guidelines_of_the_row_are_judged(guidelines: object) -> None:
    """A text, a list or lists under names."""
    model = ScriptedModel([adherence("kept")])
    verdict = load("databricks.guideline_adherence", model=model)({**PARIS, "guidelines": guidelines})
    assert [one.subject for one in verdict.items] == ["Be kind."]


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize("guidelines", [None, [], [" "], {}, {"tone": []}])
def test_a_row_without_guidelines_is_unscored(variant: str, guidelines: object) -> None:
    """The reference raises an error there."""
    judge = load("ExpectationsGuidelines", model=ScriptedModel([]), variant=variant)
    verdict = judge({**PARIS, "guidelines": guidelines})
    assert (verdict.unscored, verdict.usage.calls) == ("no_guidelines", 0)


def test_facts_the_guidelines_speak_of_are_shown() -> None:
    """Those of the setting and those of the row; the row's come first."""
    model = ScriptedModel([adherence("kept"), adherence("kept")])
    context = {"plan": "basic", "country": "FR"}
    judge = load("Guidelines", guidelines="Name the plan.", guidelines_context=context, model=model)
    judge(PARIS)
    judge({**PARIS, "metadata": {"guidelines_context": {"plan": "gold"}}})
    first, second = (data["guidelines_context"] for data in asked(model))
    assert first == context
    assert second == {"plan": "gold", "country": "FR"}


def test_a_question_is_not_needed() -> None:
    """An answer alone can keep guidelines; without facts none are shown."""
    model = ScriptedModel([adherence("kept")])
    load("Guidelines", guidelines="Be kind.", model=model)(response="Of course.")
    assert list(asked(model)[0]) == ["guidelines", "answer"]


@pytest.mark.parametrize(("word", "score"), [("yes", 1.0), ("no", 0.0)])
@pytest.mark.parametrize("name", ["global_guideline_adherence", "guideline_adherence"])
def test_compat_is_one_yes_or_no(name: str, word: str, score: float) -> None:
    """One overall answer on all guidelines."""
    settings: dict[str, Any] = {"guidelines": RULES} if name.startswith("global") else {}
    judge = load(name, model=ScriptedModel([overall(word)]), variant="compat", **settings)
    verdict = judge({**PARIS, "guidelines": RULES})
    assert (verdict.value, verdict.score, verdict.usage.calls) == (word, score, 1)


@pytest.mark.parametrize(
    "reply",
    [
        adherence("kept"),
        adherence("kept", "yes"),
        adherence("kept", 1),
        {"items": adherence("kept")["items"] * 2},
        adherence("kept", "kept", "kept"),
    ],
)
def test_a_list_that_does_not_fit_is_no_reply(reply: dict[str, Any]) -> None:
    """It is asked about once more, and then unscored."""
    verdict = load("Guidelines", guidelines=RULES, model=ScriptedModel([reply], cycle=True))(PARIS)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


def test_an_empty_answer_is_unscored() -> None:
    """There is nothing that could keep a guideline."""
    assert load("Guidelines", guidelines=RULES, model=ScriptedModel([]))(response=" ").unscored == "no_response"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "missing 1 required keyword-only argument: 'guidelines'"),
        ({"guidelines": []}, "guidelines has at least one"),
        ({"guidelines": " "}, "guidelines has at least one"),
        ({"guidelines": None}, "guidelines has at least one"),
        ({"guidelines": [1]}, "guidelines is a text"),
        ({"guidelines": "Be kind.", "guidelines_context": ["a"]}, "guidelines_context maps names to facts"),
        ({"guidelines": "Be kind.", "threshold": 2}, "threshold is a score from 0 to 1"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], told: str) -> None:
    """The error says what is wanted."""
    with pytest.raises(ConfigurationError, match=told):
        load("Guidelines", model=ScriptedModel([]), **settings)
