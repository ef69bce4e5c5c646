"""Databricks' built-in judges: facts, sentences or labels, and one yes or no for compatibility."""

from __future__ import annotations

import time
from typing import Any

from judges import load
from judges.testing import ScriptedModel
from tests.kit import items

SPARK: dict[str, Any] = {
    "user_input": "What is the difference between reduceByKey and groupByKey?",
    "response": "With reduceByKey data is aggregated first. With groupByKey all of it is shuffled!",
    "expected_facts": ["reduceByKey aggregates before shuffling", "groupByKey shuffles all data"],
    "retrieved_contexts": ["reduceByKey aggregates data before shuffling it.", "groupByKey shuffles everything."],
}


def test_a_very_long_answer_is_cut_into_sentences_at_once() -> None:
    """A megabyte of text costs less than a second of our own time."""
    answer = "The river flows on and on. " * 40_000
    model = ScriptedModel([items(*["supported"] * 40_000)])
    started = time.process_time()
    verdict = load("groundedness", model=model)(response=answer, retrieved_contexts=["a"] * 200)
    assert time.process_time() - started < 10
    assert (verdict.score, len(verdict.items)) == (1.0, 40_000)
