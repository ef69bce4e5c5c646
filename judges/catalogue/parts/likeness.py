"""Base class of metrics that compare the answer with the reference, and their feedback."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from itertools import islice
from types import ModuleType
from typing import Any

from judges.catalogue.metric import ComputedMetric
from judges.catalogue.parts.needed import answer_in, reference_in
from judges.catalogue.parts.text import missing_and_surplus, tokens
from judges.errors import CannotJudge, ConfigurationError, one_line, shortened
from judges.sample import Sample
from judges.verdict import Verdict

_LONGER, _SHORTER = 1.25, 0.8
"""Ratios of the answer's length to the reference's beyond which feedback mentions the length."""

_MOST_WORDS = 12
"""Most words that feedback lists."""


class Likeness(ComputedMetric):
    """A judge that compares the answer with the reference; its feedback says only how they differ.

    It names words that the answer has beyond the reference, and only counts those it lacks.

    Equal texts score 1, even if they are too short for what is counted, except with `variant="compat"`.
    """

    pack = "similarity"

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


def bind_settings(
    score: Callable[..., Any], settings: Mapping[str, object], *, setting: str
) -> Callable[..., Any]:
    """Return a function of sacrebleu with settings bound, after a trial call.

    Raises:
        ConfigurationError: If it does not accept a setting, or its value.
    """
    bound = partial(score, **settings)
    try:
        bound(["word"], [["word"]])
    except Exception as error:
        raise ConfigurationError(
            f"{setting}: {score.__name__} takes no {shortened(dict(settings))}: {one_line(error)}"
        ) from error
    return bound
