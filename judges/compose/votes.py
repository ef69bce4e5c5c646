"""Helpers shared by panels and repetitions: the quorum, skipped members, and the verdict if too few rate."""

from __future__ import annotations

from collections.abc import Sequence

from judges.errors import ConfigurationError, shortened
from judges.verdict import HIGHEST, LOWEST, NOTHING_TO_JUDGE, Unscored, Verdict

_LIMITS: tuple[Unscored, ...] = ("deadline", "budget")


def called_to_vote(verdicts: Sequence[Verdict]) -> int:
    """Return how many verdicts count towards a quorum: all but those of judges with nothing to judge."""
    return sum(verdict.unscored not in NOTHING_TO_JUDGE for verdict in verdicts)


def too_few_votes(verdicts: Sequence[Verdict], valid: int, quorum: int) -> Verdict:
    """Return an unscored verdict.

    A budget or deadline behind it stays the reason, so that the loop sees it; so does that there was nothing to
    judge for anybody, so that a panel around this one sees it.
    """
    reasons = [verdict.unscored for verdict in verdicts]
    reason: Unscored = next((limit for limit in _LIMITS if limit in reasons), "too_few_votes")
    if not called_to_vote(verdicts):
        detail = "; ".join(["there was nothing to judge for any", *skipped_notes(verdicts)])
        return Verdict.without_score(reasons[0] or reason, detail, items=tuple(verdicts))
    count = f"{valid} of {len(verdicts)} rated, {quorum} needed"
    return Verdict.without_score(reason, "; ".join([count, *skipped_notes(verdicts)]), items=tuple(verdicts))


def skipped_notes(verdicts: Sequence[Verdict]) -> list[str]:
    """Return one note with the verdicts without a rating and their reasons; no note if all rated."""
    skipped = [f"{verdict.judge} ({verdict.unscored})" for verdict in verdicts if verdict.rating is None]
    return [f"skipped {len(skipped)}: {', '.join(skipped)}"] if skipped else []


def checked_success(success_rating: int, *, setting: str = "success_rating") -> int:
    """Return a rating from which a judge passes after checking that it is an integer from 1 to 4."""
    if type(success_rating) is not int or not LOWEST <= success_rating <= HIGHEST:
        raise ConfigurationError(
            f"{setting} is a whole number from {LOWEST} to {HIGHEST}, not {shortened(success_rating)}"
        )
    return success_rating


def checked_quorum(quorum: int | None, most: int) -> int:
    """Return how many of `most` verdicts must have a rating; None requires more than half."""
    if quorum is None:
        return most // 2 + 1
    if type(quorum) is not int or not 1 <= quorum <= most:
        raise ConfigurationError(f"quorum is a whole number from 1 to {most}, not {shortened(quorum)}")
    return quorum
