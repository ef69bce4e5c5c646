"""Judges of one panel pay once for what they ask alike."""

from __future__ import annotations

from typing import Any

import pytest

from judges import Panel, Verdict, load
from tests.catalogue.cases import sample_for
from tests.catalogue.filling import FillingModel
from tests.kit import Way, ask, both_ways

Settings = dict[str, Any]
MODES = ("f1", "precision", "recall", "accuracy")
NOISE = ("relevant", "irrelevant")


@pytest.mark.parametrize(
    ("judges", "calls", "alone"),
    [
        ([("alibaba.answer_correctness", {}), ("spring.relevancy", {})], 1, 2),
        ([("ragas.answer_correctness", {"weights": [1, 0]}), ("ragas.factual_correctness", {})], 5, 7),
        ([("ragas.context_recall", {"split": "claims"}), ("ragas.factual_correctness", {})], 5, 6),
        ([("ragas.faithfulness", {}), ("hallucination", {})], 2, 4),
        (
            [
                ("ragas.agent_goal_accuracy_with_reference", {"variant": "compat"}),
                ("ragas.agent_goal_accuracy_without_reference", {"variant": "compat"}),
            ],
            3,
            4,
        ),
        ([("ragas.noise_sensitivity", {"mode": mode}) for mode in NOISE], 6, 12),
        (
            [
                ("ragas.noise_sensitivity", {"mode": mode, "variant": "compat"})
                for mode in ("relevant", "irrelevant")
            ],
            9,
            18,
        ),
        ([("ragas.topic_adherence", {"mode": mode}) for mode in MODES], 3, 12),
    ],
    ids=str,
)
@both_ways
async def test_a_panel_asks_once(judges: list[tuple[str, Settings]], calls: int, alone: int, way: Way) -> None:
    """The calls of the panel are fewer than those of its judges alone, and each says what it says alone."""
    model, sample = FillingModel(), sample_for("helpfulness")
    made = {str(number): load(name, model, **settings) for number, (name, settings) in enumerate(judges)}
    verdicts = [await ask(judge, way, sample) for judge in made.values()]
    assert sum(verdict.usage.calls for verdict in verdicts) == len(model.prompts) == alone
    together = await ask(Panel(made), way, sample)
    assert (together.usage.calls, together.usage.cached) == (calls, alone - calls)
    assert len(model.prompts) == alone + calls
    assert [marks(verdict) for verdict in together.items] == [marks(verdict) for verdict in verdicts]


def marks(verdict: Verdict) -> tuple[object, ...]:
    """Return what a verdict says, whoever asked."""
    return verdict.score, verdict.value, verdict.passed, verdict.unscored, verdict.feedback
