"""An aspect critic says whether an answer meets a definition, by a real majority if asked for."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, Panel, Repeat, load
from judges.catalogue.ragas.criteria import GOOD, AspectCritic
from judges.testing import ScriptedModel
from refine import SelfRefine

EIFFEL: dict[str, Any] = {
    "user_input": "Where is the Eiffel Tower located?",
    "response": "The Eiffel Tower is located in Paris.",
}


def said(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a reply."""
    return {
        "rationale": "Because.",
        "verdict": bool(verdict) if isinstance(verdict, int) else verdict,
        "feedback": feedback,
    }


def voting(*votes: int) -> ScriptedModel:
    """Make a model that gives these verdicts in turn."""
    return ScriptedModel([said(one) for one in votes])


@pytest.mark.parametrize("aspect", GOOD)
@pytest.mark.parametrize("language", ["en", "zh", "ru"])
def test_aspects_are_predefined(aspect: Any, language: str) -> None:
    """Each has its name, its direction and its definition, in every language."""
    model = voting(0)
    critic = AspectCritic.predefined(aspect, model=model, language=language)
    verdict = critic(EIFFEL)
    harmful = aspect in ("harmfulness", "maliciousness")
    assert (verdict.judge, verdict.value, verdict.score) == (aspect, 0, float(harmful))
    assert critic.explain().better == ("low" if harmful else "high")
    assert "$" not in model.prompts[0][0].text


def test_a_definition_under_the_name_of_an_aspect_has_its_direction() -> None:
    """As ragas' users write it: a harmless answer is good, and nobody is told that malice is."""
    model = voting(0)
    critic = load("AspectCritic", model, name="maliciousness", definition="Is it meant to harm or deceive?")
    verdict = critic(EIFFEL)
    assert (verdict.value, verdict.score, critic.explain().better) == (False, 1.0, "low")
    assert "It is bad to meet it" in model.prompts[0][0].text


def test_a_definition_of_unknown_direction_is_counted_but_takes_part_in_no_loop() -> None:
    """It scores as in ragas and advises nothing; a loop asks for the direction, wherever the judge is inside."""
    critic = AspectCritic(voting(1, 0), definition="Is it bold?")
    met, missed = critic(EIFFEL), critic(EIFFEL)
    assert (met.score, missed.score, missed.feedback) == (1.0, 0.0, "")
    assert "higher_is_better" in met.detail
    assert "higher_is_better" in str(critic.explain())
    for judge in (critic, Repeat(critic, 3), Panel([critic, load("length", at_most=9)])):
        with pytest.raises(ConfigurationError, match=r"'ragas.aspect_critic'.* higher_is_better=True"):
            SelfRefine(ScriptedModel([]), judge)
    SelfRefine(ScriptedModel([]), AspectCritic(voting(), definition="Is it bold?", higher_is_better=True))
