"""What was retrieved of what is needed, after ragas: by claims, by entities, by likeness, by ids."""

from __future__ import annotations

import re
import unicodedata
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Unpack

from pydantic import Field

from judges.catalogue.metric import ComputedMetric, MetricSettings, ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.claims import (
    CLAIMS,
    SUPPORT,
    claims_in,
    failed_for_retriever,
    listed_feedback,
    reasons,
    share,
    verify_claims,
)
from judges.catalogue.parts.fields import contexts_in, question_of, reference_in
from judges.catalogue.parts.similarity import DistanceMeasure, distance_of
from judges.catalogue.parts.text import EPSILON, average_precision, for_retriever, is_unspaced, sentences
from judges.errors import CannotJudge, ConfigurationError
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class _Attribution(ReplySchema):
    """Whether one sentence can be attributed to the contexts, as ragas takes it: any number but 0 is a yes."""

    statement: str = Field(description="text: the sentence of the reference")
    reason: str = Field(description="text: why, before the verdict")
    attributed: int = Field(description="1 if the contexts support it, else 0")


class _Attributions(ReplySchema):
    """The sentences of a reference that the model itself finds, and which can be attributed."""

    classifications: list[_Attribution] = Field(
        description="list of objects, one for each sentence of the reference"
    )


_ATTRIBUTED: Question[_Attributions] = Question(prompt="context_recall", reply=_Attributions, shared=True)


_ReferenceSplit = Literal["sentences", "claims"]


class ContextRecall(ModelJudge, entry="ragas.context_recall", pack="context_recall"):
    """Judge what share of the reference the retrieved contexts support.

    The reference is split into sentences without a model, and one call classifies each numbered sentence as
    supported, contradicted or absent. Score = supported / sentences.

    With `variant="compat"` the model itself lists the sentences, as in ragas, so that their number may differ from
    run to run: score = attributed / listed.
    """

    def __init__(
        self, model: object = None, *, split: _ReferenceSplit = "sentences", **settings: Unpack[ModelSettings]
    ) -> None:
        compat = settings.get("variant") == "compat"
        if compat and split == "claims":
            raise ConfigurationError("with variant='compat' the model splits the reference; leave split out")
        self._split = split
        questions: list[Question[Any]] = [_ATTRIBUTED] if compat else [SUPPORT]
        super().__init__(model, questions=[*questions, CLAIMS] if split == "claims" else questions, **settings)

    @property
    def calls(self) -> str:
        """Model calls for one sample: one, or two where the reference is broken into claims."""
        return "2" if self._split == "claims" else "1"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Look for each part of the reference in the contexts."""
        contexts, reference = contexts_in(sample), reference_in(sample)
        items = yield from (self._attribute if self.compat else self._verify)(sample, contexts, reference)
        if not items:
            raise CannotJudge("no_claims", "the reference says nothing that could be looked for")
        advice = failed_for_retriever(self, sample, items, "missing", "sentences")
        return self.verdict(share(items), rationale=reasons(items), feedback=advice, items=tuple(items))

    def _verify(self, sample: Sample, contexts: Sequence[str], reference: str) -> Any:
        parts = sentences(reference)
        if self._split == "claims":
            parts = yield from claims_in(self, sample, reference)
        if not parts:
            return []
        return (yield from verify_claims(self, sample, contexts, parts, with_question=True))

    def _attribute(self, sample: Sample, contexts: Sequence[str], reference: str) -> Any:
        data = question_of(sample)
        data |= {"contexts": list(contexts), "reference": reference}
        reply = yield from self.ask(_ATTRIBUTED, sample, data)
        return [
            Verdict.checked(bool(one.attributed), subject=one.statement, rationale=one.reason)
            for one in reply.classifications
        ]


_EPSILON = 1e-8


class _Entities(ReplySchema):
    """The entities of a text."""

    entities: list[str] = Field(description="list of texts: each entity once, by its fullest name in the text")


_ENTITIES: Question[_Entities] = Question(prompt="entities", reply=_Entities, shared=True)


class ContextEntityRecall(ModelJudge, entry="ragas.context_entity_recall", pack="context_entity_recall"):
    """Judge what share of the reference's entities the retrieved contexts mention.

    Two calls, at once, list the entities of the reference and of the contexts. Score = entities of the reference
    that the contexts have / entities of the reference; letter case, width and blanks do not matter. What stands
    in the contexts word for word is there, whether or not the model listed it.

    With `variant="compat"` entities match only if they are identical, repeated ones stay in the denominator, and
    1e-8 is added to it, as in ragas; a reference without entities is a 0.
    """

    questions = (_ENTITIES,)

    def deliberate(self, sample: Sample) -> Deliberation:
        """List the entities of both, and compare."""
        texts = (reference_in(sample), "\n".join(contexts_in(sample)))
        replies = yield from self.ask_all([self.request(_ENTITIES, sample, {"text": text}) for text in texts])
        expected, mentioned = (reply.entities for reply in all_of(replies))
        if self.compat:
            score = len(set(expected) & set(mentioned)) / (len(expected) + _EPSILON)
            return self._verdict(sample, score, _items({entity: entity for entity in expected}, mentioned))
        names: dict[str, str] = {}
        for entity in filter(_fold, expected):
            names.setdefault(_fold(entity), entity)
        text = _fold(texts[1])
        verbatim = {name for name in names if _stands_in(name, text)}
        items = _items(names, {*map(_fold, mentioned), *verbatim})
        if not items:
            raise CannotJudge("no_claims", "the reference names no entity")
        return self._verdict(sample, share(items), items)

    def _verdict(self, sample: Sample, score: float, items: tuple[Verdict, ...]) -> Verdict:
        feedback = failed_for_retriever(self, sample, items, "missing", "entities")
        rationale = f"{sum(bool(item.passed) for item in items)} of {len(items)} entities are mentioned"
        return self.verdict(score, rationale=rationale, feedback=feedback, items=items)


def _items(expected: Mapping[str, str], mentioned: Iterable[str]) -> tuple[Verdict, ...]:
    """Return a verdict on each expected entity; `expected` maps what is compared to the name that is reported."""
    keys = set(mentioned)
    return tuple(Verdict.checked(key in keys, subject=name) for key, name in expected.items())


def _stands_in(name: str, text: str) -> bool:
    """True if a name stands in a text word by word, both folded; scripts without blanks have no words' ends."""
    before = r"(?<!\w)" if name[0].isalnum() and not is_unspaced(name[0]) else ""
    after = r"(?!\w)" if name[-1].isalnum() and not is_unspaced(name[-1]) else ""
    return re.search(f"{before}{re.escape(name)}{after}", text) is not None


def _fold(entity: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", entity).casefold().split())


_ALIKE = 0.5


class _ComparingContexts(ComputedMetric, pack="non_llm_contexts"):
    """The base of precision and recall: a distance, and the similarity from which two texts match."""

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
        self._minimum = minimum
        self._distance = distance_of(distance_measure, judge=self.name)

    def _match(self, text: str, others: Sequence[str], *, above: bool = False) -> Verdict:
        """Return whether one of the others is similar enough: at least at the threshold, or above it."""
        best = self._distance.nearest(text, others, least=self._minimum)
        alike = best is not None and (best > self._minimum if above else best >= self._minimum)
        figure = f"below {self._minimum}" if best is None else f"{best:.4f}"
        return Verdict.checked(alike, subject=text, rationale=f"best similarity {figure}")


class NonLLMContextPrecisionWithReference(
    _ComparingContexts, entry="ragas.non_llm_context_precision_with_reference"
):
    """Judge whether the retriever ranked contexts first that are similar to one of the reference contexts.

    A retrieved context is relevant if its best similarity, 1 - normalised distance, is at least
    `similarity_threshold`; score = the mean of precision@k over the relevant ranks.

    Raises:
        ConfigurationError: If a setting is out of its range, or the extra is not installed.
    """

    def compute(self, sample: Sample) -> Verdict:
        """Compare each retrieved context with all reference contexts."""
        if self.compat and sample.retrieved_contexts == ():
            return self.verdict(0.0, rationale="nothing was retrieved", feedback=for_retriever(self, sample))
        retrieved = _retrieved(sample) if self.compat else contexts_in(sample)
        references = _references(sample, compat=self.compat)
        items = tuple(self._match(one, references) for one in retrieved)
        score = average_precision([bool(one.passed) for one in items], epsilon=EPSILON if self.compat else 0.0)
        wrong = [f"{rank}. {one.subject}" for rank, one in enumerate(items, 1) if not one.passed]
        advice = listed_feedback(self, sample, {"irrelevant": wrong}, "contexts")
        feedback = for_retriever(self, sample, advice) if wrong else ""
        return self.verdict(score, rationale=_rationale(items), feedback=feedback, items=items)


class NonLLMContextRecall(_ComparingContexts, entry="ragas.non_llm_context_recall"):
    """Judge what share of the reference contexts was retrieved, by string similarity.

    A reference context is recalled if the best similarity of a retrieved one, 1 - normalised distance, is at
    least `similarity_threshold`; with `variant="compat"`, if it is above.

    Raises:
        ConfigurationError: If a setting is out of its range, or the extra is not installed.
    """

    def compute(self, sample: Sample) -> Verdict:
        """Compare each reference context with all retrieved contexts."""
        references = _references(sample, compat=self.compat)
        retrieved = _retrieved(sample)
        if not retrieved and self.compat:
            raise CannotJudge("no_contexts", "nothing was retrieved")
        items = tuple(self._match(one, retrieved, above=self.compat) for one in references)
        feedback = failed_for_retriever(self, sample, items, "missing", "contexts")
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


class _ById(ComputedMetric, pack="id_based"):
    """Compare the set of retrieved ids with the set of expected ids."""

    @abstractmethod
    def share(self, retrieved: frozenset[str], expected: frozenset[str]) -> float:
        """Return the hits as a share of one of the sets; raises `CannotJudge` where that set is empty."""

    def compute(self, sample: Sample) -> Verdict:
        """Compare the ids."""
        retrieved, expected = _retrieved_ids(sample), _expected_ids(sample)
        score = self.share(retrieved, expected)
        differences = {"missing": sorted(expected - retrieved), "surplus": sorted(retrieved - expected)}
        advice = listed_feedback(self, sample, differences, "ids")
        rationale = f"{len(retrieved & expected)} of {len(expected)} expected ids among {len(retrieved)} retrieved"
        feedback = for_retriever(self, sample, advice) if score < 1 else ""
        return self.verdict(score, rationale=rationale, feedback=feedback)


class IDBasedContextPrecision(_ById, entry="ragas.id_based_context_precision"):
    """Judge what share of the retrieved contexts is expected: hits / retrieved, on sets of ids."""

    def share(self, retrieved: frozenset[str], expected: frozenset[str]) -> float:
        """Return hits / retrieved."""
        if not retrieved:
            raise CannotJudge("no_contexts", "nothing was retrieved, so there is no precision")
        return len(retrieved & expected) / len(retrieved)


class IDBasedContextRecall(_ById, entry="ragas.id_based_context_recall"):
    """Judge what share of the expected contexts was retrieved: hits / expected, on sets of ids."""

    def share(self, retrieved: frozenset[str], expected: frozenset[str]) -> float:
        """Return hits / expected."""
        return len(retrieved & expected) / len(expected)


def _retrieved_ids(sample: Sample) -> frozenset[str]:
    """Return the ids that were retrieved, each once.

    Raises:
        CannotJudge: `no_contexts`, if the sample does not list them.
    """
    if sample.retrieved_context_ids is None:
        raise CannotJudge("no_contexts", "there are no ids of retrieved contexts")
    return frozenset(sample.retrieved_context_ids)


def _expected_ids(sample: Sample) -> frozenset[str]:
    """Return the ids that are expected, each once.

    Raises:
        CannotJudge: `no_reference`, if there are none.
    """
    if not sample.reference_context_ids:
        raise CannotJudge("no_reference", "there are no ids of expected contexts")
    return frozenset(sample.reference_context_ids)
