"""`try_judge`: a dozen clear pairs of a good and a bad answer, before a judge guards anything."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from judges.compose.panel import as_judge
from judges.errors import ConfigurationError, shortened
from judges.judge import Judge
from judges.offline.run.evaluate import evaluate
from judges.sample import Sample
from judges.verdict import Verdict

Advice = Literal["use it", "use it with care", "do not use it"]

_MOST_WRONG = 1 / 12
"""Share of pairs told wrongly up to which a judge may be used: one of a dozen."""

_FEWEST_RIGHT = 3 / 4
"""Share of pairs told rightly below which it is not used: whoever guesses tells a quarter."""

_LONGEST = 60


@dataclass(frozen=True, kw_only=True)
class TrialPair:
    """A question with an answer that is clearly good and one that is clearly bad.

    Args:
        question: What was asked.
        good: The good answer.
        bad: The bad one.
        contexts: Retrieved contexts, where the judge reads them.
        reference: The right answer, where the judge reads it.
    """

    question: str
    good: str
    bad: str
    contexts: tuple[str, ...] = ()
    reference: str | None = None

    def sample(self, answer: str) -> Sample:
        """Return the question with an answer, as a judge reads it."""
        return Sample(
            user_input=self.question,
            response=answer,
            retrieved_contexts=self.contexts or None,
            reference=self.reference,
        )


@dataclass(frozen=True, kw_only=True)
class TriedPair:
    """What a judge made of a pair.

    Args:
        question: What was asked.
        good: Rating of the good answer; None where it is unscored.
        bad: Rating of the bad one.
        is_right: Whether the good answer passes and the bad one does not.
        unscored: Why one of them has no rating; empty where both have.
    """

    question: str
    good: int | None
    bad: int | None
    is_right: bool
    unscored: str = ""


@dataclass(frozen=True, kw_only=True)
class JudgeTrial:
    """What a judge made of clear pairs; `str()` says it in a few lines.

    Args:
        judge: The judge.
        pairs: The pairs, in order.
        advice: What follows: at most one wrong of a dozen, at least three quarters right, or less.
    """

    judge: str
    pairs: tuple[TriedPair, ...]
    advice: Advice

    @property
    def right(self) -> int:
        """Pairs of which the good answer passes and the bad one does not."""
        return sum(pair.is_right for pair in self.pairs)

    @property
    def unscored(self) -> int:
        """Pairs of which an answer has no rating."""
        return sum(bool(pair.unscored) for pair in self.pairs)

    @property
    def is_usable(self) -> bool:
        """Whether it may guard."""
        return self.advice != "do not use it"

    @property
    def only_rating(self) -> int | None:
        """The rating that it gives to everything; None where it gives several, or none."""
        found = {rating for pair in self.pairs for rating in (pair.good, pair.bad)}
        return found.pop() if len(found) == 1 else None

    @property
    def headline(self) -> str:
        """The finding as one line."""
        if self.only_rating is not None:
            return f"{self.judge}: rates everything {self.only_rating}: {self.advice}"
        missing = f", {self.unscored} not scored" if self.unscored else ""
        return f"{self.judge}: {self.right} of {len(self.pairs)} clear pairs told apart{missing}: {self.advice}"

    def __str__(self) -> str:
        wrong = [pair for pair in self.pairs if not pair.is_right and self.only_rating is None]
        return "\n".join([self.headline, *(f"  {_describe(pair)}" for pair in wrong)])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {**data, "right": self.right, "unscored": self.unscored}


def _describe(pair: TriedPair) -> str:
    question = pair.question if len(pair.question) <= _LONGEST else f"{pair.question[: _LONGEST - 3]}..."
    if pair.unscored:
        return f"not scored ({pair.unscored}): {question}"
    return f"good one rated {pair.good}, bad one {pair.bad}: {question}"


@cache
def trial_pairs(name: str) -> tuple[TrialPair, ...]:
    """Return the pairs that are shipped for a judge, by its qualified name; none where there are none."""
    return _shipped().get(name, ())


def judges_with_pairs() -> list[str]:
    """Return the judges for which pairs are shipped."""
    return sorted(_shipped())


@cache
def _shipped() -> dict[str, tuple[TrialPair, ...]]:
    shipped = {}
    for file in files(__package__).joinpath("trials").iterdir():
        if file.name.endswith(".toml"):
            table = tomllib.loads(file.read_text(encoding="utf-8"))
            pairs = tuple(
                TrialPair(**{**pair, "contexts": tuple(pair.get("contexts", ()))}) for pair in table["pairs"]
            )
            shipped.update(dict.fromkeys(table["judges"], pairs))
    return shipped


def try_judge(
    judge: object, pairs: Sequence[TrialPair] | None = None, *, name: str | None = None, max_concurrency: int = 8
) -> JudgeTrial:
    """Judge clear pairs, and say whether the judge tells good answers from bad ones.

    Args:
        judge: The judge, with the model that it will ask.
        pairs: The pairs; None takes those shipped for the judge.
        name: The judge's qualified name in the catalogue; None takes its own.
        max_concurrency: Answers that are judged at once.

    Raises:
        ConfigurationError: If no pairs are shipped for this judge, or it cannot be used.
    """
    tried = as_judge(judge)
    if pairs is None:
        pairs = trial_pairs(name or catalogue_name(tried))
    if not pairs:
        raise ConfigurationError(
            f"no pairs are shipped for the judge {shortened(name or tried.name)}; there are some for "
            f"{', '.join(judges_with_pairs())}; give pairs=[TrialPair(question=..., good=..., bad=...)]"
        )
    samples = [pair.sample(answer) for pair in pairs for answer in (pair.good, pair.bad)]
    rows = evaluate(samples, tried, max_concurrency=max_concurrency).rows
    verdicts = [next(iter(row.verdicts.values())) for row in rows]
    results = tuple(
        _tried(pair, good, bad) for pair, good, bad in zip(pairs, verdicts[::2], verdicts[1::2], strict=True)
    )
    return JudgeTrial(judge=tried.name, pairs=results, advice=_advise(results))


def catalogue_name(judge: Judge) -> str:
    """Return the qualified name of a judge of the catalogue; of another one its own name."""
    entry = getattr(type(judge), "entry", None)
    return str(getattr(entry, "name", None) or judge.name)


def _tried(pair: TrialPair, good: Verdict, bad: Verdict) -> TriedPair:
    reasons = dict.fromkeys(verdict.unscored for verdict in (good, bad) if verdict.unscored)
    return TriedPair(
        question=pair.question,
        good=good.rating,
        bad=bad.rating,
        is_right=good.passed is True and bad.passed is False,
        unscored=", ".join(map(str, reasons)),
    )


def _advise(pairs: Sequence[TriedPair]) -> Advice:
    right = sum(pair.is_right for pair in pairs) / len(pairs)
    if right >= 1 - _MOST_WRONG:
        return "use it"
    return "use it with care" if right >= _FEWEST_RIGHT else "do not use it"
