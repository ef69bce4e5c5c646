"""How like a reference an answer is: the base of metrics that compare two texts, and what they advise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

from judges.catalogue.metric import Measured
from judges.catalogue.parts.needed import answer_in, reference_in
from judges.catalogue.parts.text import missing_and_surplus, tokens
from judges.errors import CannotJudge, ConfigurationError
from judges.sample import Sample
from judges.verdict import Verdict

_LONGER, _SHORTER = 1.25, 0.8
"""How many times as long as the reference an answer is, before its length is spoken of."""


class Likeness(Measured):
    """A judge that compares the answer with the reference; its feedback tells how they differ, and no more.

    The same text scores 1, also where it is too short for what is counted; not so with `variant="compat"`.
    """

    pack = "similarity"

    @abstractmethod
    def likeness(self, response: str, reference: str) -> float:
        """Give how like the two texts are, 1 where they are the same; raises `CannotJudge` where it cannot."""

    def measured(self, sample: Sample) -> Verdict:
        """Compare."""
        response, reference = self.compared(sample)
        same = response == reference and not self.compat
        value = 1.0 if same else self.likeness(response, reference)
        score = min(value, 1.0)
        told = "" if score == 1 else self.advice(sample, response, reference)
        return self.verdict(score, value=value if self.compat else score, rationale=told, feedback=told)

    def compared(self, sample: Sample) -> tuple[str, str]:
        """Give answer and reference; with `variant="compat"` they may be blank, but not missing."""
        if not self.compat:
            return answer_in(sample), reference_in(sample)
        if sample.answer is None:
            raise CannotJudge("no_response", "there is no answer to judge")
        if sample.reference is None:
            raise CannotJudge("no_reference", "there is no reference to compare with")
        return sample.answer, sample.reference

    def advice(self, sample: Sample, response: str, reference: str) -> str:
        """Tell how the answer differs, without giving the reference away."""
        given, wanted = tokens(response), tokens(reference)
        missing, surplus = missing_and_surplus(given, wanted)
        if not missing and not surplus:
            return self.say("form" if given == wanted else "order", sample)
        told = []
        if len(response) > _LONGER * len(reference) or len(response) < _SHORTER * len(reference):
            told.append("longer" if len(response) > len(reference) else "shorter")
        told += [name for name, count in (("missing", missing), ("surplus", surplus)) if count]
        counts = {"missing": missing, "all": len(wanted), "surplus": surplus}
        lengths = {"given": len(response), "wanted": len(reference)}
        return "\n".join(self.say(one, sample, **counts, **lengths) for one in told)


def required(module: str, *, extra: str, judge: str) -> ModuleType:
    """Import a library that an extra brings.

    Raises:
        ConfigurationError: If it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise ConfigurationError(f"{judge} needs the extra: selfrefine[{extra}]") from None


def settled(score: Callable[..., Any], settings: Mapping[str, object], *, setting: str) -> Callable[..., Any]:
    """Give a function of sacrebleu with settings, which are tried on a word.

    Raises:
        ConfigurationError: If it does not know one of them, or not the value.
    """
    made = partial(score, **settings)
    try:
        made(["word"], [["word"]])
    except Exception as error:
        raise ConfigurationError(f"{setting}: {score.__name__} takes no {dict(settings)}: {error}") from error
    return made
