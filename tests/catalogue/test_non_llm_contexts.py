"""Retrieved and reference contexts are compared as strings."""

from __future__ import annotations

from typing import Any

from judges import Verdict, load

PRECISION = "ragas.non_llm_context_precision_with_reference"
RECALL = "ragas.non_llm_context_recall"


def judged(name: str, retrieved: list[str] | None, references: list[str] | None, **settings: Any) -> Verdict:
    """Judge a retriever."""
    fields = {"retrieved_contexts": retrieved, "reference_contexts": references}
    return load(name, **settings)(user_input="Where is it?", **fields)


def test_many_contexts_are_compared() -> None:
    """200 with 200 are compared with one another, and what stands there word for word is found at once."""
    texts = [f"Context number {number} is about the tower and its {number} steps." for number in range(200)]
    assert judged(RECALL, texts[::-1], texts).score == 1
    assert judged(PRECISION, ["x" * 60] * 200, texts).score == 0
