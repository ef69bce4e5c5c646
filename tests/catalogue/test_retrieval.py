"""What retrieval is judged by: the order of asking, the question beside the reference, many contexts."""

from __future__ import annotations

import pytest

from judges import load
from judges.testing import ScriptedModel

PRECISION = "ragas.non_llm_context_precision_with_reference"
RECALL = "ragas.non_llm_context_recall"


async def test_a_model_that_replies_at_once_is_asked_in_the_order_of_the_contexts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that a script is told as it was written, sync and async; equal contexts are asked about one by one."""
    monkeypatch.setattr("judges.judge._AT_ONCE_S", 0.0)  # as on a machine too busy for a thread to begin in time
    verdicts = [number % 3 > 0 for number in range(24)]
    contexts = [f"context {number % 5}" for number in range(24)]
    row = {"question": "Where?", "reference": "Paris.", "contexts": contexts}
    script = [{"reason": "r", "verdict": one} for one in verdicts]
    judges = [load("ragas.context_precision", model=ScriptedModel(script)) for _ in range(2)]
    for verdict in (judges[0](row), await judges[1].acall(row)):
        assert [one.passed for one in verdict.items] == verdicts
        assert verdict.usage.calls == 24


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


def test_many_contexts_are_compared() -> None:
    """200 with 200 are compared with one another, and what stands there word for word is found at once."""
    texts = [f"Context number {number} is about the tower and its {number} steps." for number in range(200)]
    for name, retrieved, score in ((RECALL, texts[::-1], 1), (PRECISION, ["x" * 60] * 200, 0)):
        assert load(name)(retrieved_contexts=retrieved, reference_contexts=texts).score == score
