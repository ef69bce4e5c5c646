"""Answer and reference as strings: similarity by edits, equality, presence. No model is asked."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Unpack

from judges.catalogue.metric import MetricSettings
from judges.catalogue.parts.distance import DistanceMeasure, distance_of
from judges.catalogue.parts.likeness import Likeness
from judges.catalogue.parts.text import Normalization, check_length, common_ends, known_normalization, normalized
from judges.entry import Entry
from judges.sample import Sample

_NEEDS = ("response", "reference")


class NonLLMStringSimilarity(Likeness):
    """Judge how many edits lie between answer and reference.

    Score = 1 - normalised distance. Hamming counts the surplus of the longer text as differences.

    Args:
        distance_measure: `"levenshtein"`, `"hamming"`, `"jaro"` or `"jaro_winkler"`.
        normalize: What is made alike before: any of `"nfkc"`, `"trim"`, `"casefold"`.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is unknown, or the extra is not installed.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.non_llm_string_similarity",
        aliases=("NonLLMStringSimilarity", "non_llm_string_similarity"),
        asks="How similar are answer and reference, character by character?",
        needs=_NEEDS,
        source="ragas 0.4; rapidfuzz",
        differs="A blank answer or reference is unscored; texts may be normalised first.",
        extra="strings",
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
        self._linear = self._distance is distance_of("hamming", judge=self.name)
        self._normalize = known_normalization(normalize)

    def likeness(self, response: str, reference: str) -> float:
        """Give 1 - normalised distance."""
        given, wanted = (normalized(text, self._normalize) for text in (response, reference))
        if given == wanted:
            return 1.0
        if not self._linear:
            same = sum(common_ends(given, wanted))
            check_length(given[same:], wanted[same:])
        return 1 - self._distance(wanted, given)


class ExactMatch(Likeness):
    """Judge whether the answer is the reference, to the letter.

    Args:
        normalize: What is made alike before: any of `"nfkc"`, `"trim"`, `"casefold"`; nothing unless given.
        settings: See `judges.catalogue.metric.MetricSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.exact_match",
        aliases=("ExactMatch", "exact_match"),
        asks="Is the answer exactly the reference?",
        needs=_NEEDS,
        scale="0 or 1",
        source="ragas 0.4",
        differs="A blank answer or reference is unscored; texts may be normalised first.",
    )

    def __init__(self, *, normalize: Collection[Normalization] = (), **settings: Unpack[MetricSettings]) -> None:
        super().__init__(**settings)
        self._normalize = known_normalization(normalize)

    def likeness(self, response: str, reference: str) -> float:
        """Give 1 where the texts are the same, else 0."""
        return float(normalized(response, self._normalize) == normalized(reference, self._normalize))


class StringPresence(Likeness):
    """Judge whether the reference stands in the answer, word for word.

    Args:
        normalize: What is made alike before: any of `"nfkc"`, `"trim"`, `"casefold"`; nothing unless given.
        settings: See `judges.catalogue.metric.MetricSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.string_presence",
        aliases=("StringPresence", "string_presence", "string_present", "ragas.string_present"),
        asks="Does the reference stand in the answer?",
        needs=_NEEDS,
        scale="0 or 1",
        source="ragas 0.4",
        differs="A blank answer or reference is unscored; texts may be normalised first.",
    )

    def __init__(self, *, normalize: Collection[Normalization] = (), **settings: Unpack[MetricSettings]) -> None:
        super().__init__(**settings)
        self._normalize = known_normalization(normalize)

    def likeness(self, response: str, reference: str) -> float:
        """Give 1 where the reference stands in the answer, else 0."""
        return float(normalized(reference, self._normalize) in normalized(response, self._normalize))

    def advice(self, sample: Sample, response: str, reference: str) -> str:  # noqa: ARG002 - said of all
        """Tell that a text is absent, and of what length it is."""
        return self.say("absent", sample, wanted=len(reference))
