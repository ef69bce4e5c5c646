"""Similarity of texts: by the cosine of vectors, by a user's function, by distances of strings."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from types import ModuleType
from typing import Any, Literal

from judges.catalogue.metric import ComputedMetric
from judges.catalogue.parts.fields import answer_in, reference_in
from judges.catalogue.parts.text import missing_and_surplus, tokens
from judges.errors import CannotJudge, ConfigurationError, unfit
from judges.model import EmbeddingModel
from judges.requests import Apply, Embed
from judges.sample import Sample
from judges.verdict import Verdict

_Pairs = Sequence[tuple[str, str]]
Scorer = Callable[[_Pairs], Iterable[float]]
"""A function from pairs of texts to one number for each, such as a classifier's `predict`; may be async."""


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of two vectors, -1 to 1; exactly 1 for equal ones.

    cos = a.b / sqrt(a.a * b.b), each vector divided by its largest number first, so that nothing overflows.

    Raises:
        CannotJudge: `undefined`, if a vector is all zeros, or holds a number that is not finite.
    """
    a, b = _scale(first), _scale(second)
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    lengths = math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
    return max(-1.0, min(1.0, product / lengths))  # rounding may exceed the range slightly


def _scale(vector: Sequence[float]) -> list[float]:
    numbers = [float(number) for number in vector]
    largest = max(map(abs, numbers), default=0.0)
    if not all(map(math.isfinite, numbers)):
        raise CannotJudge("undefined", "a vector with a number that is not finite has no similarity")
    if largest == 0:
        raise CannotJudge("undefined", "a vector of zeros has no similarity")
    return [number / largest for number in numbers]


def embed(model: EmbeddingModel, texts: Iterable[str]) -> Generator[Any, Any, list[list[float]]]:
    """Turn texts into vectors, in one batch and in their order, with `yield from`."""
    vectors: list[list[float]] = yield Embed(model, tuple(texts))
    return vectors


def score_pairs(scorer: Scorer, pairs: _Pairs, sample: Sample) -> Generator[Any, Any, list[float]]:
    """Score pairs with a user's function, with `yield from`; it runs in a thread where the caller must not block.

    Raises:
        CannotJudge: `invalid_output`, if it does not return a finite number for each.
    """

    def scoring(_: Sample) -> Any:
        return scorer(pairs)

    scoring.__name__ = getattr(scorer, "__name__", type(scorer).__name__)  # errors name it
    scores: Iterable[float] = yield Apply(scoring, sample)
    try:
        numbers = [float(score) for score in scores]
    except (TypeError, ValueError) as error:
        raise CannotJudge("invalid_output", f"{scoring.__name__} gave something else than numbers") from error
    if len(numbers) != len(pairs) or not all(map(math.isfinite, numbers)):
        detail = (
            f"{scoring.__name__} gave {len(numbers)} numbers for {len(pairs)} pairs, or one that is not finite"
        )
        raise CannotJudge("invalid_output", detail)
    return numbers


_LONGER = 1.25
"""Ratio of the answer's length to the reference's above which feedback mentions the length."""
_SHORTER = 0.8
"""Ratio below which it does."""

_MOST_WORDS = 12
"""Most words that feedback lists."""


class Likeness(ComputedMetric, pack="similarity"):
    """A judge that compares the answer with the reference; its feedback says only how they differ.

    It names words that the answer has beyond the reference, and only counts those it lacks.

    Equal texts score 1, even if they are too short for what is counted, except with `variant="compat"`.
    """

    @abstractmethod
    def likeness(self, response: str, reference: str) -> float:
        """Return how similar the two texts are, 1 where they are equal.

        Raises:
            CannotJudge: If the texts cannot be compared.
        """

    def compute(self, sample: Sample) -> Verdict:
        """Compare the answer with the reference."""
        response, reference = self.texts(sample)
        same = response == reference and not self.compat
        value = 1.0 if same else self.likeness(response, reference)
        score = min(value, 1.0)
        advice = "" if score == 1 else self.advice(sample, response, reference)
        return self.verdict(score, value=value if self.compat else score, rationale=advice, feedback=advice)

    def texts(self, sample: Sample) -> tuple[str, str]:
        """Return answer and reference; with `variant="compat"` they may be blank, but not missing."""
        if not self.compat:
            return answer_in(sample), reference_in(sample)
        if sample.answer is None:
            raise CannotJudge("no_response", "there is no answer to judge")
        if sample.reference is None:
            raise CannotJudge("no_reference", "there is no reference to compare with")
        return sample.answer, sample.reference

    def advice(self, sample: Sample, response: str, reference: str) -> str:
        """Describe how the answer differs, without revealing the reference."""
        actual, expected = tokens(response), tokens(reference)
        missing, surplus = missing_and_surplus(actual, expected)
        if not missing and not surplus:
            return self.say("form" if actual == expected else "order", sample)
        phrases = []
        if len(response) > _LONGER * len(reference) or len(response) < _SHORTER * len(reference):
            phrases.append("longer" if len(response) > len(reference) else "shorter")
        phrases += [name for name, count in (("missing", missing), ("surplus", surplus)) if count]
        counts = {"missing": missing.total(), "all": len(expected), "surplus": surplus.total()}
        lengths = {"given": len(response), "wanted": len(reference)}
        words = listed(surplus)
        return "\n".join(self.say(phrase, sample, **counts, **lengths, words=words) for phrase in phrases)


def listed(words: Iterable[str]) -> str:
    """Return the first of some words in quotation marks, as feedback lists them."""
    first = [f'"{word}"' for word in islice(words, _MOST_WORDS + 1)]
    return ", ".join(first[:_MOST_WORDS]) + (", ..." if len(first) > _MOST_WORDS else "")


def import_extra(module: str, *, extra: str, judge: str) -> ModuleType:
    """Import a library that belongs to an extra.

    Raises:
        ConfigurationError: If it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise ConfigurationError(f"{judge} needs the extra: selfrefine[{extra}]") from None


DistanceMeasure = Literal["levenshtein", "hamming", "jaro", "jaro_winkler"]
_NAMES = {"levenshtein": "Levenshtein", "hamming": "Hamming", "jaro": "Jaro", "jaro_winkler": "JaroWinkler"}
_ROUNDING = 1e-9
_StringScorer = Callable[[str, str], float]


@dataclass(frozen=True, slots=True)
class _Distance:
    """A normalised distance, 0 for equal texts.

    Args:
        measure: Its name.
        scorer: The function of rapidfuzz, which no pickle can hold.
    """

    measure: str
    scorer: _StringScorer = field(repr=False, compare=False)

    def __call__(self, first: str, second: str) -> float:
        """Return the distance of two texts, 0 to 1."""
        return self.scorer(first, second)

    def nearest(self, text: str, others: Sequence[str], *, least: float) -> float | None:
        """Return the similarity, 1 - distance, of the most similar of some texts; None if it is below `least`.

        Comparisons of too different texts stop early, so that many can be compared with many.
        """
        if text in others:
            return 1.0
        process: Any = import_extra("rapidfuzz.process", extra="strings", judge="similarity")
        best = process.extractOne(
            text, others, scorer=self.scorer, processor=None, score_cutoff=1 - least + _ROUNDING
        )
        return None if best is None else 1 - float(best[1])

    def __reduce__(self) -> tuple[Any, ...]:
        return _distance, (self.measure, "this judge")


def distance_of(measure: DistanceMeasure, *, judge: str) -> _Distance:
    """Return the normalised distance function of this name, 0 for equal texts.

    Raises:
        ConfigurationError: If there is no measure of this name, or rapidfuzz is not installed.
    """
    name = getattr(measure, "value", measure)  # ragas has an enumeration of the same names
    if not isinstance(name, str) or name not in _NAMES:
        raise unfit(f"distance_measure is one of {', '.join(_NAMES)}", measure)
    return _distance(name, judge)


def _distance(name: str, judge: str) -> _Distance:
    module = import_extra("rapidfuzz.distance", extra="strings", judge=judge)
    return _Distance(name, getattr(module, _NAMES[name]).normalized_distance)
