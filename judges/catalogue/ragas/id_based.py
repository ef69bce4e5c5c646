"""Precision and recall of retrieval by the ids of the contexts, without a model."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from judges.catalogue.metric import Measured
from judges.catalogue.parts.items import bullets
from judges.catalogue.parts.retrieval import for_retriever
from judges.entry import Entry
from judges.errors import CannotJudge
from judges.sample import Sample
from judges.verdict import Verdict


class _ById(Measured):
    """Compare the set of ids retrieved with the set that is expected."""

    pack = "id_based"

    @abstractmethod
    def share(self, found: frozenset[str], wanted: frozenset[str]) -> float:
        """Divide the hits by what they are a share of; raises `CannotJudge` where that is empty."""

    def measured(self, sample: Sample) -> Verdict:
        """Compare the ids."""
        found, wanted = retrieved(sample), expected(sample)
        score = self.share(found, wanted)
        told = {"missing": sorted(wanted - found), "surplus": sorted(found - wanted)}
        advice = "\n".join(self.say(name, sample, ids=bullets(ids)) for name, ids in told.items() if ids)
        rationale = f"{len(found & wanted)} of {len(wanted)} expected ids among {len(found)} retrieved"
        feedback = for_retriever(self, sample, advice) if score < 1 else ""
        return self.verdict(score, rationale=rationale, feedback=feedback)


class IDBasedContextPrecision(_ById):
    """Judge what share of the retrieved contexts is expected: hits / retrieved, on sets of ids.

    Args:
        settings: See `judges.catalogue.metric.Settings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.id_based_context_precision",
        aliases=("IDBasedContextPrecision", "id_based_context_precision"),
        asks="What share of the retrieved contexts was expected, by their ids?",
        needs=("retrieved_context_ids", "reference_context_ids"),
        subject="retriever",
        source="ragas 0.4",
        differs="Nothing retrieved is unscored, not NaN.",
    )

    def share(self, found: frozenset[str], wanted: frozenset[str]) -> float:
        """Divide by what was retrieved."""
        if not found:
            raise CannotJudge("no_contexts", "nothing was retrieved, so there is no precision")
        return len(found & wanted) / len(found)


class IDBasedContextRecall(_ById):
    """Judge what share of the expected contexts was retrieved: hits / expected, on sets of ids.

    Args:
        settings: See `judges.catalogue.metric.Settings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.id_based_context_recall",
        aliases=("IDBasedContextRecall", "id_based_context_recall"),
        asks="What share of the expected contexts was retrieved, by their ids?",
        needs=("retrieved_context_ids", "reference_context_ids"),
        subject="retriever",
        source="ragas 0.4",
        differs="Nothing expected is unscored, not NaN.",
    )

    def share(self, found: frozenset[str], wanted: frozenset[str]) -> float:
        """Divide by what was expected."""
        return len(found & wanted) / len(wanted)


def retrieved(sample: Sample) -> frozenset[str]:
    """Give the ids that were retrieved, each once.

    Raises:
        CannotJudge: `no_contexts`, if the sample does not tell them.
    """
    if sample.retrieved_context_ids is None:
        raise CannotJudge("no_contexts", "there are no ids of retrieved contexts")
    return frozenset(sample.retrieved_context_ids)


def expected(sample: Sample) -> frozenset[str]:
    """Give the ids that are expected, each once.

    Raises:
        CannotJudge: `no_reference`, if there are none.
    """
    if not sample.reference_context_ids:
        raise CannotJudge("no_reference", "there are no ids of expected contexts")
    return frozenset(sample.reference_context_ids)
