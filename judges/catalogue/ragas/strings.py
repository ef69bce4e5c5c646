"""Answer and reference as strings: edit similarity, equality, presence; no model is called."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Unpack

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.distance import DistanceMeasure, distance_of
from judges.catalogue.parts.likeness import Likeness
from judges.catalogue.parts.text import (
    Normalization,
    check_length,
    checked_normalization,
    common_ends,
    normalize_text,
)
from judges.entry import Entry
from judges.sample import Sample

_NEEDS = ("response", "reference")


class NonLLMStringSimilarity(Likeness):
    """Judge the edit distance between answer and reference.

    Score = 1 - normalised distance. Hamming counts the surplus of the longer text as differences.

    Args:
        distance_measure: `"levenshtein"`, `"hamming"`, `"jaro"` or `"jaro_winkler"`.
        normalize: How both texts are normalised first: any of `"nfkc"`, `"trim"`, `"casefold"`.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is unknown, or the extra is not installed.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.non_llm_string_similarity",
        aliases=("NonLLMStringSimilarity", "non_llm_string_similarity", "levenshtein", "levenshtein_distance"),
        asks="How similar are answer and reference, character by character?",
        needs=_NEEDS,
        source="ragas 0.4; rapidfuzz",
        differs="A blank answer or reference is unscored; texts may be normalised first.",
        extra="strings",
        tags=("edit distance", "levenshtein", "fuzzy match"),
        examples=('normalize=["trim", "casefold"]',),
        follows="both generations, which agree",
    )

    def __init__(
        self,
        *,
        distance_measure: DistanceMeasure = "levenshtein",
        normalize: Collection[Normalization] = (),
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self._distance = distance_of(distance_measure, judge=self.name)
        self._linear = self._distance.measure == "hamming"
        self._normalize = checked_normalization(normalize)

    def likeness(self, response: str, reference: str) -> float:
        """Return 1 - normalised distance."""
        answer, expected = (normalize_text(text, self._normalize) for text in (response, reference))
        if answer == expected:
            return 1.0
        if not self._linear:
            same = sum(common_ends(answer, expected))
            check_length(answer[same:], expected[same:])
        return 1 - self._distance(expected, answer)


class ExactMatch(Likeness):
    """Judge whether the answer equals the reference exactly.

    Args:
        normalize: How both texts are normalised first: any of `"nfkc"`, `"trim"`, `"casefold"`; by default none.
        settings: See `judges.catalogue.metric.MetricSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.exact_match",
        aliases=("ExactMatch", "exact_match", "ExactMatchMetric", "equals"),
        asks="Is the answer exactly the reference?",
        needs=_NEEDS,
        scale="0 or 1",
        source="ragas 0.4",
        differs="A blank answer or reference is unscored; texts may be normalised first.",
        tags=("similarity", "equality", "same text", "short answer", "classification"),
        examples=('normalize=["trim", "casefold"]',),
        follows="both generations, which agree",
    )

    def __init__(self, *, normalize: Collection[Normalization] = (), **settings: Unpack[MetricSettings]) -> None:
        super().__init__(**settings)
        self._normalize = checked_normalization(normalize)

    def likeness(self, response: str, reference: str) -> float:
        """Return 1 if the texts are the same, else 0."""
        return float(normalize_text(response, self._normalize) == normalize_text(reference, self._normalize))


class StringPresence(Likeness):
    """Judge whether the reference occurs in the answer, word for word.

    Args:
        normalize: How both texts are normalised first: any of `"nfkc"`, `"trim"`, `"casefold"`; by default none.
        settings: See `judges.catalogue.metric.MetricSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.string_presence",
        aliases=("StringPresence", "string_presence", "string_present", "ragas.string_present", "contains"),
        asks="Does the reference stand in the answer?",
        needs=_NEEDS,
        scale="0 or 1",
        source="ragas 0.4",
        differs="A blank answer or reference is unscored; texts may be normalised first.",
        tags=("contains", "substring", "keywords", "short answer"),
        examples=('normalize=["trim", "casefold"]',),
        follows="both generations, which agree",
    )

    def __init__(self, *, normalize: Collection[Normalization] = (), **settings: Unpack[MetricSettings]) -> None:
        super().__init__(**settings)
        self._normalize = checked_normalization(normalize)

    def likeness(self, response: str, reference: str) -> float:
        """Return 1 if the reference occurs in the answer, else 0."""
        return float(normalize_text(reference, self._normalize) in normalize_text(response, self._normalize))

    def advice(self, sample: Sample, response: str, reference: str) -> str:  # noqa: ARG002 - the base passes all
        """Return feedback that a text is absent, with its length alone."""
        return self.say("absent", sample, wanted=len(reference))
