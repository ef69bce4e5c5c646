"""Judging a retriever: ranked verdicts on chunks, and the word that no rewrite of the answer can help."""

from __future__ import annotations

from collections.abc import Sequence

from judges.catalogue.metric import Metric
from judges.sample import Sample

EPSILON = 1e-10
"""What ragas adds to a denominator, so that a perfect score is 0.9999999999."""


def for_retriever(judge: Metric, sample: Sample, advice: str = "") -> str:
    """Address feedback to the retriever: it says that no rewrite of the answer can mend what is missing."""
    note = judge.say("note", sample)
    return f"{note}\n{advice}" if advice else note


def average_precision(relevant: Sequence[bool], *, epsilon: float = 0.0) -> float:
    """Give the mean of precision@k over the ranks k at which something relevant stands; 0 if nothing is.

    AP = sum_k(precision@k * v_k) / (sum_k v_k + epsilon), with v_k 1 or 0.
    """
    hits = 0
    total = 0.0
    for rank, one in enumerate(relevant, 1):
        if one:
            hits += 1
            total += hits / rank
    return total / (hits + epsilon) if hits else 0.0
