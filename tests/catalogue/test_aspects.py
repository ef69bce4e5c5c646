"""An aspect critic says whether an answer meets a definition, by a real majority if asked for."""

from __future__ import annotations

from typing import Any

import pytest

from judges.catalogue.ragas.criteria import GOOD, AspectCritic
from judges.testing import ScriptedModel

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
