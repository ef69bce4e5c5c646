"""Rankings: of an answer among others by a prompt of one's own, and of retrieved ids (MRR, NDCG, hit rate)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Unpack

from pydantic import Field

from judges.catalogue.metric import ComputedMetric, MetricSettings, ModelJudge, ModelSettings
from judges.catalogue.parts.claims import bullets, cut, numbered_items
from judges.catalogue.parts.fields import answer_in, question_of
from judges.catalogue.parts.questions import checked_text
from judges.catalogue.parts.text import for_retriever
from judges.errors import CannotJudge, shortened, unfit
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class _Ranked(ReplySchema):
    """Candidates in order, by their numbers."""

    rationale: str = Field(description="text: your reasons, before the order")
    order: list[int] = Field(description="list of whole numbers: each candidate once, from best to worst")
    feedback: str = Field(description="text: what would make the worst candidates better; empty if nothing")


class Ranking(ModelJudge, entry="ranking", pack="ranking"):
    """Judge by a prompt of one's own where the answer stands among others.

    The others are the texts under `rivals`, or the one under `rival`, in the sample's metadata. They are shown in
    an order that depends on their texts alone, so that the answer is not always the first; equal ones are shown
    once. The value is the answer's rank from 1, the best; score = (candidates - rank) / (candidates - 1), and 0.5
    without a call where all candidates are equal. Items are the candidates in their order.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    def __init__(
        self, model: object = None, *, prompt: str, allowed: int | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        criteria = checked_text(prompt, setting="prompt")
        self._count = allowed
        self._question: Question[_Ranked] = Question(prompt=self.pack, reply=_Ranked, fills={"criteria": criteria})
        super().__init__(model, questions=(self._question,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once."""
        answer, rivals = answer_in(sample), _rivals_in(sample)
        if self._count not in (None, len(rivals) + 1):
            raise CannotJudge("invalid_sample", f"there are {len(rivals) + 1} candidates, not {self._count}")
        candidates = sorted({answer, *rivals}, key=_place)
        if len(candidates) == 1:
            return self.verdict(
                0.5, value=1, feedback=self.say("better", sample), detail="all candidates are equal"
            )
        data = {**question_of(sample), "candidates": numbered_items(candidates, called="text")}
        reply = yield from self.ask(self._question, sample, data, check=_each_once(len(candidates)))
        return self._conclude(sample, reply, candidates.index(answer) + 1, candidates)

    def _conclude(self, sample: Sample, reply: _Ranked, number: int, candidates: Sequence[str]) -> Verdict:
        """Return the verdict on the candidate with a number."""
        rank, worst = reply.order.index(number) + 1, len(candidates)
        items = [_ranked(candidates[other - 1], place, worst) for place, other in enumerate(reply.order, 1)]
        feedback = (reply.feedback or self.say("better", sample)) if rank > 1 else ""
        score = (worst - rank) / (worst - 1)
        return self.verdict(score, value=rank, rationale=reply.rationale, feedback=feedback, items=tuple(items))


def _rivals_in(sample: Sample) -> list[str]:
    """Return the other candidates.

    Raises:
        CannotJudge: `invalid_sample`, if there are none.
    """
    rivals = sample.metadata.get("rivals", sample.metadata.get("rival"))
    candidates = [rivals] if isinstance(rivals, str) else rivals
    texts = candidates if isinstance(candidates, list) else []
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        fault = "nothing to rank the answer against; give other texts as metadata={'rivals': [...]}"
        raise CannotJudge("invalid_sample", fault)
    return [str(text) for text in texts]


def _place(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _each_once(count: int) -> Any:
    def check(reply: _Ranked) -> str | None:
        right = sorted(reply.order) == list(range(1, count + 1))
        return None if right else f"order: {shortened(reply.order)}; each number from 1 to {count} is wanted once"

    return check


def _ranked(text: str, place: int, worst: int) -> Verdict:
    return Verdict.scored((worst - place) / (worst - 1), value=place, subject=cut(text))


_RankingMetric = Literal["ndcg", "mrr", "hit_rate", "precision", "recall"]
Gain = Literal["linear", "exponential"]


class RankedRetrieval(ComputedMetric, entry="ranked_retrieval", pack="ranked_retrieval"):
    """Judge a ranking of retrieved ids against the relevant ones.

    An id that is retrieved twice counts where it stands first; its repetition takes up a rank and adds nothing.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    metric_name: ClassVar[_RankingMetric] = "ndcg"

    def __init__(
        self,
        *,
        metric: _RankingMetric | None = None,
        k: int | None = None,
        gain: Gain = "linear",
        grades: str = "relevance",
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self._metric = metric or self.metric_name
        self._k = k
        self._gain = _GAINS[gain]
        key: object = grades
        if not (isinstance(key, str) and key):
            raise unfit("grades names a key of a sample's metadata", grades)
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


class MeanReciprocalRank(RankedRetrieval, entry="mrr"):
    """Judge how early the first relevant id stands; `RankedRetrieval` with `metric="mrr"`."""

    metric_name = "mrr"


class HitRate(RankedRetrieval, entry="hit_rate"):
    """Judge whether any relevant id was retrieved; `RankedRetrieval` with `metric="hit_rate"`."""

    metric_name = "hit_rate"


class PrecisionAtK(RankedRetrieval, entry="precision_at_k"):
    """Judge the share of relevant ids among the first k; `RankedRetrieval` with `metric="precision"`."""

    metric_name = "precision"


class RecallAtK(RankedRetrieval, entry="recall_at_k"):
    """Judge the share of relevant ids found among the first k; `RankedRetrieval` with `metric="recall"`."""

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

_GAINS: Mapping[Gain, Callable[[float], float]] = {"linear": _linear_gain, "exponential": _exponential_gain}
_FORMULAS: Mapping[_RankingMetric, Callable[[Sequence[float], Sequence[float], int | None], float]] = {
    "ndcg": _ndcg,
    "mrr": _mrr,
    "hit_rate": _hit_rate,
    "precision": _precision,
    "recall": _recall,
}
