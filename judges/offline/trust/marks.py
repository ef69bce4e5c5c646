"""What judges say of an answer, read from a verdict or from a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judges.errors import ConfigurationError, shortened
from judges.verdict import HIGHEST, LOWEST, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What one judge says of an answer.

    Args:
        rating: 1 to 4; None is unscored.
        score: 0 to 1.
        passed: Whether it passes by the judge's own mark.
        natively: Whether the judge chose the rating itself; else its own mark must be reached, too.
        cost: Cost of judging in US dollars, where known.
    """

    rating: int | None = None
    score: float | None = None
    passed: bool | None = None
    natively: bool = True
    cost: float | None = None

    @property
    def scored(self) -> bool:
        """Whether the judge came to a verdict."""
        return self.rating is not None or self.score is not None or self.passed is not None

    @property
    def effective(self) -> int | None:
        """The rating that a threshold is compared with; one below the judge's own mark passes none."""
        if self.rating is None:
            return None
        return self.rating if self.natively or self.passed is not False else LOWEST - 1

    @property
    def as_rating(self) -> int | None:
        """The rating; 4 and 1 where the judge only passes or refuses, the score as one where it only scores."""
        if self.rating is not None:
            return self.rating
        if self.passed is not None:
            return HIGHEST if self.passed else LOWEST
        return None if self.score is None else LOWEST + round((HIGHEST - LOWEST) * self.score)


def mark_of(verdict: Verdict) -> Mark:
    """Return what a verdict says."""
    return Mark(
        rating=verdict.rating,
        score=verdict.score,
        passed=verdict.passed,
        natively=verdict.rated_natively,
        cost=verdict.usage.cost,
    )


def marks_in(data: Mapping[str, Any], place: str) -> dict[str, Mark]:
    """Return what the judges of a row say, by judge.

    In a record that is the judge of the loop, whatever part of it, or of the loop itself, gave the verdict.

    Args:
        data: `rating`, `score`, `passed` or `unscored` of one judge, or `verdicts` or `ratings` by judge.
        place: Where the row stands, for errors.

    Raises:
        ConfigurationError: If a verdict is out of range.
    """
    several = data.get("verdicts") or data.get("ratings")
    if isinstance(several, Mapping):
        return {str(name): _mark(value, place) for name, value in several.items()}
    own = data.get("verdict")
    fields = {**own, **data} if isinstance(own, Mapping) else data
    mark = _mark(fields, place)
    if not mark.scored and fields.keys().isdisjoint({"attempt", "rating", "score", "unscored"}):
        return {}
    subject = data.get("subject")
    recorded = subject.get("judge") if isinstance(subject, Mapping) else None
    return {str(recorded or data.get("judge") or "judge"): mark}


def _mark(value: object, place: str) -> Mark:
    if isinstance(value, bool):
        return Mark(passed=value, rating=HIGHEST if value else LOWEST)
    if value is None or isinstance(value, int | str):
        return Mark(rating=_rating(value, place))
    if isinstance(value, float):
        return Mark(rating=_rating(value, place)) if value.is_integer() else Mark(score=_score(value, place))
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{place}a verdict has a rating from 1 to 4 or a score from 0 to 1, not {value!r}"
        )
    if value.get("unscored"):
        return Mark()
    passed = value.get("passed")
    usage = value.get("judge_usage") or value.get("usage")
    return Mark(
        rating=_rating(value.get("rating"), place),
        score=_score(value.get("score"), place),
        passed=passed if isinstance(passed, bool) else {"true": True, "false": False}.get(str(passed).lower()),
        natively=value.get("rated_natively") is not False,
        cost=usage.get("cost") if isinstance(usage, Mapping) else None,
    )


def _rating(value: object, place: str) -> int | None:
    number = number_in(value, "rating", place)
    if number is None:
        return None
    if number not in range(LOWEST, HIGHEST + 1):
        raise ConfigurationError(
            f"{place}the judge's rating is a whole number from 1 to 4, not {shortened(value)}"
        )
    return int(number)


def _score(value: object, place: str) -> float | None:
    number = number_in(value, "score", place)
    if number is not None and not 0 <= number <= 1:
        raise ConfigurationError(f"{place}the judge's score is a number from 0 to 1, not {shortened(value)}")
    return number


def number_in(value: object, name: str, place: str) -> float | None:
    """Return a number, from a text of a CSV file, too; None where there is none.

    Raises:
        ConfigurationError: If it is something else.
    """
    if value is None or value == "":
        return None
    try:
        return float(str(value))
    except ValueError:
        raise ConfigurationError(f"{place}{name} is a number, not {shortened(value)}") from None
