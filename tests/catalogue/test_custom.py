"""A custom judge takes a criterion, a kind of reply and the columns to show."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.testing import ScriptedModel

ROW: dict[str, Any] = {
    "user_input": "Where is my parcel?",
    "response": "It arrives on Monday.",
    "reference": "It arrives on Tuesday.",
    "expected_facts": ["Tuesday"],
    "retrieved_contexts": ["Parcels arrive on Tuesdays."],
    "tone": "formal",
}


def said(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a reply."""
    return {"rationale": "Because.", "verdict": verdict, "feedback": feedback}


def test_examples_are_shown_before_the_question() -> None:
    """Each as the model is shown a case, with its reply; feedback may be left out."""
    examples = [({"outputs": "Go away."}, {"rationale": "It is rude.", "verdict": "rude"})]
    model = ScriptedModel([said("kind")])
    load("custom_judge", criteria="How is $outputs?", answer=["rude", "kind"], examples=examples, model=model)(ROW)
    _, case, reply, _ = model.prompts[0]
    assert '"outputs": "Go away."' in case.text
    assert reply.text == '{"rationale":"It is rude.","verdict":"rude","feedback":""}'


@pytest.mark.parametrize(
    ("verdict", "score", "calls"), [(True, 1.0, 1), (False, 0.0, 1), (1, None, 2), ("yes", None, 2)]
)
def test_the_class_of_booleans_asks_for_one(verdict: object, score: float | None, calls: int) -> None:
    """As the word "bool" does in a file; what is none is asked for once more, and then unscored."""
    model = ScriptedModel([said(verdict)], cycle=True)
    given = load("databricks.custom", criteria="Kind?", answer=bool, model=model)(ROW)
    assert (given.score, given.usage.calls, type(given.value) is bool) == (score, calls, score is not None)
