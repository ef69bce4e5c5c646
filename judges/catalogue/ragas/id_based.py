"""Precision and recall of retrieval by the ids of the contexts, without a model."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from judges.catalogue.metric import ComputedMetric
from judges.catalogue.parts.items import bullets
from judges.catalogue.parts.retrieval import for_retriever
from judges.entry import Entry
from judges.errors import CannotJudge
from judges.sample import Sample
from judges.verdict import Verdict


class _ById(ComputedMetric):
    """Compare the set of retrieved ids with the set of expected ids."""

    pack = "id_based"

    @abstractmethod
    def share(self, retrieved: frozenset[str], expected: frozenset[str]) -> float:
        """Return the hits as a share of one of the sets; raises `CannotJudge` where that set is empty."""

    def compute(self, sample: Sample) -> Verdict:
        """Compare the ids."""
        retrieved, expected = retrieved_ids(sample), expected_ids(sample)
        score = self.share(retrieved, expected)
        differences = {"missing": sorted(expected - retrieved), "surplus": sorted(retrieved - expected)}
        advice = "\n".join(self.say(name, sample, ids=bullets(ids)) for name, ids in differences.items() if ids)
        rationale = f"{len(retrieved & expected)} of {len(expected)} expected ids among {len(retrieved)} retrieved"
        feedback = for_retriever(self, sample, advice) if score < 1 else ""
        return self.verdict(score, rationale=rationale, feedback=feedback)


class IDBasedContextPrecision(_ById):
    """Judge what share of the retrieved contexts is expected: hits / retrieved, on sets of ids.

    Args:
        settings: See `judges.catalogue.metric.MetricSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.id_based_context_precision",
        aliases=("IDBasedContextPrecision", "id_based_context_precision"),
        asks="What share of the retrieved contexts was expected, by their ids?",
        needs=("retrieved_context_ids", "reference_context_ids"),
        subject="retriever",
        source="ragas 0.4",
        differs="Nothing retrieved is unscored, not NaN.",
        tags=("rag", "retrieval", "search", "ids"),
        follows="ragas.metrics (legacy), the only one",
    )

    def share(self, retrieved: frozenset[str], expected: frozenset[str]) -> float:
        """Return hits / retrieved."""
        if not retrieved:
            raise CannotJudge("no_contexts", "nothing was retrieved, so there is no precision")
        return len(retrieved & expected) / len(retrieved)


class IDBasedContextRecall(_ById):
    """Judge what share of the expected contexts was retrieved: hits / expected, on sets of ids.

    Args:
        settings: See `judges.catalogue.metric.MetricSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.id_based_context_recall",
        aliases=("IDBasedContextRecall", "id_based_context_recall"),
        asks="What share of the expected contexts was retrieved, by their ids?",
        needs=("retrieved_context_ids", "reference_context_ids"),
        subject="retriever",
        source="ragas 0.4",
        differs="Nothing expected is unscored, not NaN.",
        tags=("rag", "retrieval", "search", "ids"),
        follows="ragas.metrics (legacy), the only one",
    )

    def share(self, retrieved: frozenset[str], expected: frozenset[str]) -> float:
        """Return hits / expected."""
        return len(retrieved & expected) / len(expected)


def retrieved_ids(sample: Sample) -> frozenset[str]:
    """Return the ids that were retrieved, each once.

    Raises:
        CannotJudge: `no_contexts`, if the sample does not list them.
    """
    if sample.retrieved_context_ids is None:
        raise CannotJudge("no_contexts", "there are no ids of retrieved contexts")
    return frozenset(sample.retrieved_context_ids)


def expected_ids(sample: Sample) -> frozenset[str]:
    """Return the ids that are expected, each once.

    Raises:
        CannotJudge: `no_reference`, if there are none.
    """
    if not sample.reference_context_ids:
        raise CannotJudge("no_reference", "there are no ids of expected contexts")
    return frozenset(sample.reference_context_ids)
