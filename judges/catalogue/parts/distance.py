"""Distances between strings, by rapidfuzz."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from judges.catalogue.parts.likeness import required
from judges.errors import ConfigurationError

DistanceMeasure = Literal["levenshtein", "hamming", "jaro", "jaro_winkler"]
_NAMES = {"levenshtein": "Levenshtein", "hamming": "Hamming", "jaro": "Jaro", "jaro_winkler": "JaroWinkler"}
_ROUNDING = 1e-9
Distance = Callable[[str, str], float]


def distance_of(measure: DistanceMeasure, *, judge: str) -> Distance:
    """Give the normalised distance of a name, 0 for the same text.

    Raises:
        ConfigurationError: If there is no measure of this name, or rapidfuzz is not installed.
    """
    name = getattr(measure, "value", measure)  # ragas has an enumeration of the same names
    if not isinstance(name, str) or name not in _NAMES:
        raise ConfigurationError(f"distance_measure is one of {', '.join(_NAMES)}, not {measure!r}")
    module = required("rapidfuzz.distance", extra="strings", judge=judge)
    found: Distance = getattr(module, _NAMES[name]).normalized_distance
    return found


def nearest(text: str, others: Sequence[str], distance: Distance, *, least: float) -> float | None:
    """Give the similarity of the most similar of some texts, 1 - distance; None if it is below `least`.

    Texts that are too different are given up early, so that many can be compared with many.
    """
    if text in others:
        return 1.0
    process: Any = required("rapidfuzz.process", extra="strings", judge="similarity")
    found = process.extractOne(text, others, scorer=distance, processor=None, score_cutoff=1 - least + _ROUNDING)
    return None if found is None else 1 - float(found[1])
