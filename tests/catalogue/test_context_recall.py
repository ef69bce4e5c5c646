"""Context recall is the share of the expected answer that the contexts support."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.testing import ScriptedModel

NAME = "ragas.context_recall"
ROW: dict[str, Any] = {
    "question": "Where?",
    "reference": "It is in Paris. It was built in 1889. It is 330 m high. It is iron.",
    "contexts": ["The tower stands in Paris.", "It was built in 1889."],
}


@pytest.mark.parametrize("name", ["ragas.context_recall", "ragas.factual_correctness"])
def test_a_short_reference_is_verified_with_its_question(name: str) -> None:
    """A reference such as "In 1889." says nothing alone, so the model that verifies it is shown both."""
    model = ScriptedModel([{"claims": ["It opened in 1889."]}] * 2 + [{"items": []}] * 4)
    if name == "ragas.context_recall":
        model = ScriptedModel([{"items": []}] * 2)
    load(name, model=model)(
        question="When did it open?", answer="It opened in 1889.", reference="In 1889.", contexts=["In 1889."]
    )
    asked = [prompt[-1].text for prompt in model.prompts if '"claims"' in prompt[-1].text]
    assert asked
    assert all("When did it open?" in text for text in asked)
