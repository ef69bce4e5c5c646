"""Precision and recall of a retriever, from contexts compared as strings, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Unpack

from judges.catalogue.metric import ComputedMetric, MetricSettings
from judges.catalogue.parts.distance import DistanceMeasure, distance_of, nearest
from judges.catalogue.parts.items import bullets, share
from judges.catalogue.parts.needed import contexts_in
from judges.catalogue.parts.retrieval import EPSILON, average_precision, for_retriever
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.sample import Sample
from judges.verdict import Verdict

_NEEDS = ("retrieved_contexts", "reference_contexts")
_ALIKE = 0.5


class _ComparingContexts(ComputedMetric):
    """The base of precision and recall: a distance, and the similarity from which two texts match."""

    pack = "non_llm_contexts"

    def __init__(
        self,
        *,
        distance_measure: DistanceMeasure = "levenshtein",
        similarity_threshold: float | None = None,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        default = self.threshold if self.compat else _ALIKE
        minimum = default if similarity_threshold is None else similarity_threshold
        if type(minimum) not in (int, float) or not 0 <= minimum <= 1:
            raise ConfigurationError(
                f"similarity_threshold is a similarity from 0 to 1, not {shortened(similarity_threshold)}"
            )
        self._minimum = minimum
        self._distance = distance_of(distance_measure, judge=self.name)

    def _match(self, text: str, others: Sequence[str], *, above: bool = False) -> Verdict:
        """Return whether one of the others is similar enough: at least at the threshold, or above it."""
        best = nearest(text, others, self._distance, least=self._minimum)
        alike = best is not None and (best > self._minimum if above else best >= self._minimum)
        figure = f"below {self._minimum}" if best is None else f"{best:.4f}"
        return Verdict.checked(alike, subject=text, rationale=f"best similarity {figure}")


class NonLLMContextPrecisionWithReference(_ComparingContexts):
    """Judge whether the retriever ranked contexts first that are similar to one of the reference contexts.

    A retrieved context is relevant if its best similarity, 1 - normalised distance, is at least
    `similarity_threshold`; score = the mean of precision@k over the relevant ranks.

    Args:
        distance_measure: `"levenshtein"`, `"hamming"`, `"jaro"` or `"jaro_winkler"`.
        similarity_threshold: Similarity from which two texts match, by default 0.5. It is ragas' `threshold`, and
            with `variant="compat"` that name sets it as well; here `threshold` is the pass mark.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range, or the extra is not installed.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.non_llm_context_precision_with_reference",
        aliases=("NonLLMContextPrecisionWithReference", "non_llm_context_precision_with_reference"),
        asks="Are the contexts that resemble a reference context ranked first?",
        needs=_NEEDS,
        subject="retriever",
        source="ragas 0.4; rapidfuzz",
        differs="Exact average precision, without an epsilon; nothing retrieved is unscored.",
        extra="strings",
        tags=("rag", "retrieval", "search", "ranking", "similarity"),
        examples=("similarity_threshold=0.7",),
        follows="ragas.metrics (legacy), the only one",
    )

    def compute(self, sample: Sample) -> Verdict:
        """Compare each retrieved context with all reference contexts."""
        if self.compat and sample.retrieved_contexts == ():
            return self.verdict(0.0, rationale="nothing was retrieved", feedback=for_retriever(self, sample))
        retrieved = _retrieved(sample) if self.compat else contexts_in(sample)
        references = _references(sample, compat=self.compat)
        items = tuple(self._match(one, references) for one in retrieved)
        score = average_precision([bool(one.passed) for one in items], epsilon=EPSILON if self.compat else 0.0)
        wrong = [f"{rank}. {one.subject}" for rank, one in enumerate(items, 1) if not one.passed]
        advice = self.say("irrelevant", sample, contexts=bullets(wrong)) if wrong else ""
        feedback = for_retriever(self, sample, advice) if wrong else ""
        return self.verdict(score, rationale=_rationale(items), feedback=feedback, items=items)


class NonLLMContextRecall(_ComparingContexts):
    """Judge what share of the reference contexts was retrieved, by string similarity.

    A reference context is recalled if the best similarity of a retrieved one, 1 - normalised distance, is at
    least `similarity_threshold`; with `variant="compat"`, if it is above.

    Args:
        distance_measure: `"levenshtein"`, `"hamming"`, `"jaro"` or `"jaro_winkler"`.
        similarity_threshold: Similarity from which two texts match, by default 0.5. It is ragas' `threshold`, and
            with `variant="compat"` that name sets it as well; here `threshold` is the pass mark.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range, or the extra is not installed.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.non_llm_context_recall",
        aliases=("NonLLMContextRecall", "non_llm_context_recall"),
        asks="What share of the reference contexts was retrieved, by similarity?",
        needs=_NEEDS,
        subject="retriever",
        source="ragas 0.4; rapidfuzz",
        differs="A similarity of exactly the threshold recalls, as it does for precision; nothing retrieved is 0.",
        extra="strings",
        tags=("rag", "retrieval", "search", "similarity"),
        examples=("similarity_threshold=0.7",),
        follows="ragas.metrics (legacy), the only one",
    )

    def compute(self, sample: Sample) -> Verdict:
        """Compare each reference context with all retrieved contexts."""
        references = _references(sample, compat=self.compat)
        retrieved = _retrieved(sample)
        if not retrieved and self.compat:
            raise CannotJudge("no_contexts", "nothing was retrieved")
        items = tuple(self._match(one, retrieved, above=self.compat) for one in references)
        missing = [one.subject for one in items if not one.passed]
        advice = self.say("missing", sample, contexts=bullets(missing)) if missing else ""
        feedback = for_retriever(self, sample, advice) if missing else ""
        return self.verdict(share(items), rationale=_rationale(items), feedback=feedback, items=items)


def _retrieved(sample: Sample) -> tuple[str, ...]:
    if sample.retrieved_contexts is None:
        raise CannotJudge("no_contexts", "there are no retrieved contexts to look at")
    return sample.retrieved_contexts


def _references(sample: Sample, *, compat: bool) -> tuple[str, ...]:
    """Return the reference contexts; blank ones count with `compat` alone, as in ragas."""
    contexts = tuple(text for text in sample.reference_contexts or () if compat or text.strip())
    if not contexts:
        raise CannotJudge("no_reference", "there are no reference contexts to compare with")
    return contexts


def _rationale(items: Sequence[Verdict]) -> str:
    return "\n".join(f"{rank}. {one.rationale}" for rank, one in enumerate(items, 1))
