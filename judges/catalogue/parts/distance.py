"""Distances between strings, computed by rapidfuzz."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from judges.catalogue.parts.likeness import import_extra
from judges.errors import ConfigurationError, shortened

DistanceMeasure = Literal["levenshtein", "hamming", "jaro", "jaro_winkler"]
_NAMES = {"levenshtein": "Levenshtein", "hamming": "Hamming", "jaro": "Jaro", "jaro_winkler": "JaroWinkler"}
_ROUNDING = 1e-9
Scorer = Callable[[str, str], float]


@dataclass(frozen=True, slots=True)
class Distance:
    """A normalised distance, 0 for equal texts.

    Args:
        measure: Its name.
        scorer: The function of rapidfuzz, which no pickle can hold.
    """

    measure: str
    scorer: Scorer = field(repr=False, compare=False)

    def __call__(self, first: str, second: str) -> float:
        """Return the distance of two texts, 0 to 1."""
        return self.scorer(first, second)

    def __reduce__(self) -> tuple[Any, ...]:
        return _distance, (self.measure, "this judge")


def distance_of(measure: DistanceMeasure, *, judge: str) -> Distance:
    """Return the normalised distance function of this name, 0 for equal texts.

    Raises:
        ConfigurationError: If there is no measure of this name, or rapidfuzz is not installed.
    """
    name = getattr(measure, "value", measure)  # ragas has an enumeration of the same names
    if not isinstance(name, str) or name not in _NAMES:
        raise ConfigurationError(f"distance_measure is one of {', '.join(_NAMES)}, not {shortened(measure)}")
    return _distance(name, judge)


def _distance(name: str, judge: str) -> Distance:
    module = import_extra("rapidfuzz.distance", extra="strings", judge=judge)
    return Distance(name, getattr(module, _NAMES[name]).normalized_distance)


def nearest(text: str, others: Sequence[str], distance: Distance, *, least: float) -> float | None:
    """Return the similarity, 1 - distance, of the most similar of some texts; None if it is below `least`.

    Comparisons of too different texts stop early, so that many can be compared with many.
    """
    if text in others:
        return 1.0
    process: Any = import_extra("rapidfuzz.process", extra="strings", judge="similarity")
    best = process.extractOne(
        text, others, scorer=distance.scorer, processor=None, score_cutoff=1 - least + _ROUNDING
    )
    return None if best is None else 1 - float(best[1])
