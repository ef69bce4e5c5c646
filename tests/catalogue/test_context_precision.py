"""Context precision and utilization reward useful contexts that stand first."""

from __future__ import annotations

from typing import Any

from judges import load
from judges.testing import ScriptedModel

REFERENCE, UTILIZATION = "ragas.context_precision", "ragas.context_utilization"


def row(count: int) -> dict[str, Any]:
    """Make a sample with so many contexts, named by their rank."""
    contexts = [f"context {rank}" for rank in range(count)]
    return {"question": "Where?", "answer": "In Paris.", "reference": "Paris.", "contexts": contexts}


async def test_a_model_that_replies_at_once_is_asked_in_the_order_of_the_contexts() -> None:
    """So that a script is told as it was written, sync and async; equal contexts are asked about one by one."""
    verdicts = [number % 3 > 0 for number in range(24)]
    given = {**row(1), "retrieved_contexts": [f"context {number % 5}" for number in range(24)]}
    script = [{"reason": "r", "verdict": one} for one in verdicts]
    judges = [load(REFERENCE, model=ScriptedModel(script)) for _ in range(2)]
    for verdict in (judges[0](given), await judges[1].acall(given)):
        assert [one.passed for one in verdict.items] == verdicts
        assert verdict.usage.calls == 24
