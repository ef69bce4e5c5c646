"""Ranked retrieval by the ids of the contexts, without a model: NDCG, MRR, hit rate, precision and recall at k."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal, Unpack

from judges.catalogue.metric import ComputedMetric, MetricSettings
from judges.catalogue.parts.items import bullets
from judges.catalogue.parts.retrieval import for_retriever
from judges.entry import Entry
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.runtime.validation import one_of, whole_number
from judges.sample import Sample
from judges.verdict import Verdict

RankingMetric = Literal["ndcg", "mrr", "hit_rate", "precision", "recall"]
Gain = Literal["linear", "exponential"]


class RankedRetrieval(ComputedMetric):
    """Judge a ranking of retrieved ids against the relevant ones.

    An id that is retrieved twice counts where it stands first; its repetition takes up a rank and adds nothing.

    Args:
        metric: `"ndcg"`: DCG / ideal DCG, with DCG = sum of gain / log2(rank + 1); `"mrr"`: 1 / rank of the first
            relevant id, 0 without one; `"hit_rate"`: 1 if any is relevant, else 0; `"precision"`: relevant ids
            / k; `"recall"`: relevant ids / all relevant ids.
        k: How many of the first ranks count, from 1; None for all that were retrieved.
        gain: Of a graded id for `"ndcg"`: `"linear"`, the grade itself, or `"exponential"`, 2**grade - 1.
        grades: Key of the sample's metadata (column of a dataset) with grades of relevance by id, numbers 0 to
            100; an id of `reference_context_ids` that has no grade counts 1.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="ranked_retrieval",
        aliases=(
            "ndcg",
            "ndcg_at_k",
            "mlflow.ndcg_at_k",
            "NDCG",
            "DocumentRetrievalEvaluator",
            "document_retrieval",
        ),
        asks="Do the relevant contexts stand at the top of the ranking, by their ids?",
        needs=("retrieved_context_ids", "reference_context_ids"),
        subject="retriever",
        source="Järvelin and Kekäläinen 2002; trec_eval",
        tags=("ranking", "mrr", "hit rate", "precision at k", "recall at k", "search", "graded relevance", "rag"),
        examples=("k=5", 'grades="labels"'),
    )
    pack = "ranked_retrieval"
    metric_name: ClassVar[RankingMetric] = "ndcg"

    def __init__(
        self,
        *,
        metric: RankingMetric | None = None,
        k: int | None = None,
        gain: Gain = "linear",
        grades: str = "relevance",
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self._metric = one_of(RankingMetric, metric or self.metric_name, setting="metric")
        self._k = None if k is None else whole_number(k, setting="k")
        self._gain = _GAINS[one_of(Gain, gain, setting="gain")]
        key: object = grades
        if not (isinstance(key, str) and key):
            raise ConfigurationError(f"grades names a key of a sample's metadata, not {shortened(grades)}")
        self._grades = grades

    def compute(self, sample: Sample) -> Verdict:
        """Compare the ranking with the grades."""
        if sample.retrieved_context_ids is None:
            raise CannotJudge("no_contexts", "there are no ids of retrieved contexts")
        grades = _grades_in(sample, self._grades)
        ranking = sample.retrieved_context_ids[: self._k]
        size = len(ranking) if self._k is None else self._k
        if self._metric == "precision" and not size:
            raise CannotJudge(
                "no_contexts", "nothing was retrieved, so there is no precision; k=... gives it a value"
            )
        ideal = sorted(map(self._gain, grades.values()), reverse=True)
        gains = [self._gain(grade) for grade in _ranked_grades(ranking, grades)]
        score = _FORMULAS[self._metric](gains, ideal, self._k)
        hits = sum(gain > 0 for gain in gains)
        rationale = f"{hits} of {len(grades)} relevant ids among the first {len(ranking)} of the ranking"
        return self.verdict(score, rationale=rationale, feedback=self._feedback(sample, ranking, grades, score))

    def _feedback(self, sample: Sample, ranking: Sequence[str], grades: Mapping[str, float], score: float) -> str:
        if score == 1:
            return ""
        missing = sorted(grades.keys() - set(ranking))
        ranks = [str(rank) for rank, grade in enumerate(_ranked_grades(ranking, grades), 1) if grade]
        advice = [self.say("missing", sample, ids=bullets(missing))] if missing else []
        advice += [self.say("ranks", sample, ranks=", ".join(ranks[:20]))] if ranks else []
        return for_retriever(self, sample, "\n".join(advice))


class MeanReciprocalRank(RankedRetrieval):
    """Judge how early the first relevant id stands; `RankedRetrieval` with `metric="mrr"`."""

    entry: ClassVar[Entry] = Entry(
        name="mrr",
        aliases=("reciprocal_rank", "mean_reciprocal_rank", "MRR"),
        asks="How early does the first relevant context stand in the ranking, by ids?",
        needs=("retrieved_context_ids", "reference_context_ids"),
        subject="retriever",
        source="trec_eval",
        tags=("ranking", "search", "rag", "retrieval"),
    )
    metric_name = "mrr"


class HitRate(RankedRetrieval):
    """Judge whether any relevant id was retrieved; `RankedRetrieval` with `metric="hit_rate"`."""

    entry: ClassVar[Entry] = Entry(
        name="hit_rate",
        aliases=("hit_rate_at_k", "HitRate", "success_at_k"),
        asks="Is any relevant context among those retrieved, by ids?",
        needs=("retrieved_context_ids", "reference_context_ids"),
        scale="0 or 1",
        subject="retriever",
        source="trec_eval",
        tags=("ranking", "search", "rag", "retrieval"),
    )
    metric_name = "hit_rate"


class PrecisionAtK(RankedRetrieval):
    """Judge the share of relevant ids among the first k; `RankedRetrieval` with `metric="precision"`."""

    entry: ClassVar[Entry] = Entry(
        name="precision_at_k",
        aliases=("mlflow.precision_at_k", "PrecisionAtK", "precision@k"),
        asks="What share of the first k contexts is relevant, by ids?",
        needs=("retrieved_context_ids", "reference_context_ids"),
        subject="retriever",
        source="trec_eval",
        differs="Divided by k where fewer were retrieved, as in trec_eval.",
        tags=("ranking", "search", "rag", "retrieval"),
    )
    metric_name = "precision"


class RecallAtK(RankedRetrieval):
    """Judge the share of relevant ids found among the first k; `RankedRetrieval` with `metric="recall"`."""

    entry: ClassVar[Entry] = Entry(
        name="recall_at_k",
        aliases=("mlflow.recall_at_k", "RecallAtK", "recall@k"),
        asks="What share of the relevant contexts is among the first k, by ids?",
        needs=("retrieved_context_ids", "reference_context_ids"),
        subject="retriever",
        source="trec_eval",
        tags=("ranking", "search", "rag", "retrieval"),
    )
    metric_name = "recall"


def _grades_in(sample: Sample, key: str) -> dict[str, float]:
    """Return the grades above 0 of the relevant ids.

    Raises:
        CannotJudge: `no_reference`, if nothing is relevant; `invalid_sample`, if a grade is no number from 0.
    """
    graded = sample.metadata.get(key)
    if graded is not None and not isinstance(graded, Mapping):
        raise CannotJudge(
            "invalid_sample", f"{key} maps ids to grades, such as {{'a': 3}}, not {shortened(graded)}"
        )
    grades: dict[str, float] = dict.fromkeys(sample.reference_context_ids or (), 1.0)
    for name, grade in (graded or {}).items():
        if not isinstance(grade, int | float) or not 0 <= grade <= _HIGHEST_GRADE:
            fault = (
                f"the grade of {shortened(name)} is a number from 0 to {_HIGHEST_GRADE}, not {shortened(grade)}"
            )
            raise CannotJudge("invalid_sample", fault)
        grades[name] = float(grade)
    relevant = {name: grade for name, grade in grades.items() if grade > 0}
    if not relevant:
        raise CannotJudge("no_reference", "there are no ids of relevant contexts")
    return relevant


def _ranked_grades(ranking: Sequence[str], grades: Mapping[str, float]) -> list[float]:
    """Return the grade at each rank; 0 for an id that is not relevant, or stands at an earlier rank already."""
    first = {name: rank for rank, name in reversed(list(enumerate(ranking)))}
    return [grades.get(name, 0.0) if first[name] == rank else 0.0 for rank, name in enumerate(ranking)]


def _linear_gain(grade: float) -> float:
    return grade


def _exponential_gain(grade: float) -> float:
    return float(2**grade - 1)


def _dcg(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _ndcg(gains: Sequence[float], ideal: Sequence[float], k: int | None) -> float:
    return min(1.0, _dcg(gains) / _dcg(ideal[:k]))


def _mrr(gains: Sequence[float], ideal: Sequence[float], k: int | None) -> float:
    del ideal, k
    return next((1 / rank for rank, gain in enumerate(gains, 1) if gain > 0), 0.0)


def _hit_rate(gains: Sequence[float], ideal: Sequence[float], k: int | None) -> float:
    del ideal, k
    return float(any(gain > 0 for gain in gains))


def _precision(gains: Sequence[float], ideal: Sequence[float], k: int | None) -> float:
    del ideal
    return sum(gain > 0 for gain in gains) / (len(gains) if k is None else k)


def _recall(gains: Sequence[float], ideal: Sequence[float], k: int | None) -> float:
    del k
    return sum(gain > 0 for gain in gains) / len(ideal)


_HIGHEST_GRADE = 100
"""Higher grades are no grades of relevance, and 2**grade would soon be no finite number."""

_GAINS: Mapping[Gain, Callable[[float], float]] = {
    "linear": _linear_gain,
    "exponential": _exponential_gain,
}
_FORMULAS: Mapping[RankingMetric, Callable[[Sequence[float], Sequence[float], int | None], float]] = {
    "ndcg": _ndcg,
    "mrr": _mrr,
    "hit_rate": _hit_rate,
    "precision": _precision,
    "recall": _recall,
}
