"""Recorded loops: one question each, what was tried, and under which policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from judges.certificate import Subject
from judges.offline.trust.labels import Opinion, is_bad, is_tuned
from judges.sample import Sample
from judges.verdict import LOWEST

LeftOut = Literal["unreadable", "no attempt", "attempts missing", "no policy", "no stop reason", "not judged"]
"""Why a row or a loop is left out."""

_GOOD = 3
"""Least human rating that is good."""

_CRASHES = frozenset({"judge_failed", "generator_failed", "deadline", "budget", "interrupted"})
"""Stop reasons by which a loop ended before its policy had it end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPolicy:
    """The policy under which a loop was recorded, and the judge that rated it.

    Args:
        success_rating: Lowest rating that passed.
        max_attempts: Most attempts.
        patience: Attempts without a gain after which it stopped; None never did.
        policy_digest: Fingerprint of the whole policy.
        judge_digest: Fingerprint of the judge, its models and prompts.
    """

    success_rating: int
    max_attempts: int
    patience: int | None = None
    policy_digest: str = ""
    judge_digest: str = ""

    def __str__(self) -> str:
        patience = "" if self.patience is None else f", patience {self.patience}"
        return f"success rating {self.success_rating}, {self.max_attempts} attempts{patience}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopAttempt:
    """One recorded attempt.

    Args:
        number: From 1.
        rating: 1 to 4; None where it is unscored.
        score: 0 to 1.
        passes: Whether the judge lets the rating count: a score below the judge's own pass mark passes no gate.
        released: Whether its answer was released.
        shadow: Whether it was made after the answer had been released.
        cost: US dollars of generating and judging; None where that is unknown.
        rejudged: Its rating from a second, independent judgement, for the gain of the next attempt.
        rejudged_as_best: The same, for what the best attempt of a loop is worth.
        opinions: What people think of it.
        sample: The sample that was judged, where the record holds texts.
    """

    number: int
    rating: int | None
    score: float | None = None
    passes: bool = True
    released: bool = False
    shadow: bool = False
    cost: float | None = None
    rejudged: int | None = None
    rejudged_as_best: int | None = None
    opinions: tuple[Opinion, ...] = ()
    sample: Sample | None = field(default=None, repr=False)

    @property
    def bad(self) -> bool | None:
        """Whether people call the answer bad; a tie is bad; None without a label that may be used to measure."""
        return is_bad([one for one in self.opinions if not _tuned(one)], _GOOD)

    @property
    def tuned(self) -> bool:
        """Whether a label of it tuned the judge, and is not used."""
        return any(map(_tuned, self.opinions))

    @property
    def gate_rating(self) -> int | None:
        """The rating as a gate counts it: 1, the lowest, where the judge's own pass mark was missed."""
        return self.rating if self.passes or self.rating is None else LOWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLoop:
    """One question sent through the loop.

    Args:
        id: Id of the outcome; of an old record its place in the file.
        question_id: The same for the same question.
        at: When it ended, in seconds since the epoch.
        policy: The policy in force; None where the record does not say.
        stop_reason: Why it stopped; None where the record does not say.
        continuation_probability: How probable it was that the loop went on after a pass; None where it never did.
        attempts: All attempts, those after the release included.
        subject: What a certificate of the record is about; None where the record does not say.
    """

    id: str
    question_id: str
    at: float | None
    policy: LoopPolicy | None
    stop_reason: str | None
    continuation_probability: float | None
    attempts: tuple[LoopAttempt, ...]
    subject: Subject | None = field(default=None, repr=False)

    @property
    def crashed(self) -> bool:
        """Whether it ended before its policy had it end: an error, a budget, a deadline."""
        return self.stop_reason in _CRASHES

    @property
    def judged(self) -> tuple[LoopAttempt, ...]:
        """The attempts that were judged: of a loop that crashed, not the one that came to no verdict."""
        attempts = self.attempts
        while self.crashed and attempts and attempts[-1].rating is None:
            attempts = attempts[:-1]
        return attempts

    @property
    def released(self) -> LoopAttempt | None:
        """The attempt whose answer was released, if any."""
        return next((attempt for attempt in self.attempts if attempt.released), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loops:
    """The loops of a record.

    Args:
        loops: In the order in which they were recorded.
        left_out: How many rows or loops could not be read, by reason.
    """

    loops: tuple[RecordedLoop, ...]
    left_out: Mapping[LeftOut, int]


def _tuned(opinion: Opinion) -> bool:
    return is_tuned(opinion.split)


def best_of(attempts: Iterable[LoopAttempt]) -> LoopAttempt | None:
    """Return the attempt with the highest rating before any shadow, the latest on a tie; None if none is rated."""
    rated = [attempt for attempt in attempts if attempt.rating is not None and not attempt.shadow]
    return max(reversed(rated), key=lambda attempt: attempt.rating or 0, default=None)
