"""Judging a retriever: average precision, and feedback that says no rewrite of the answer can help."""

from __future__ import annotations

from collections.abc import Sequence

from judges.catalogue.metric import Metric
from judges.sample import Sample

EPSILON = 1e-10
"""Added by ragas to a denominator, so that a perfect score is 0.9999999999."""


def for_retriever(judge: Metric, sample: Sample, advice: str = "") -> str:
    """Return feedback for the retriever: a note that no rewrite of the answer can help, and the advice."""
    note = judge.say("note", sample)
    return f"{note}\n{advice}" if advice else note


def average_precision(relevant: Sequence[bool], *, epsilon: float = 0.0) -> float:
    """Return the mean of precision@k over the ranks k of relevant items; 0 if there are none.

    AP = sum_k(precision@k * v_k) / (sum_k v_k + epsilon), with v_k 1 or 0.
    """
    hits = 0
    total = 0.0
    for rank, is_relevant in enumerate(relevant, 1):
        if is_relevant:
            hits += 1
            total += hits / rank
    return total / (hits + epsilon) if hits else 0.0
