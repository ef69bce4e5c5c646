"""What panels and repetitions share: who speaks, how many must rate, and what is said where too few do."""

from __future__ import annotations

from collections.abc import Sequence

from judges.errors import ConfigurationError
from judges.verdict import HIGHEST, LOWEST, Unscored, Verdict

_LIMITS: tuple[Unscored, ...] = ("deadline", "budget")


def too_few(verdicts: Sequence[Verdict], valid: int, quorum: int) -> Verdict:
    """Say that too few rated; a budget or deadline behind it keeps its own reason, so that the loop sees it."""
    reasons = [one.unscored for one in verdicts]
    reason: Unscored = next((one for one in _LIMITS if one in reasons), "too_few_votes")
    told = f"{valid} of {len(verdicts)} rated, {quorum} needed"
    return Verdict.without_score(reason, "; ".join([told, *skipped(verdicts)]), items=tuple(verdicts))


def skipped(verdicts: Sequence[Verdict]) -> list[str]:
    """Name the verdicts without a rating and their reasons, in one note; no note where all rated."""
    skipped = [f"{one.judge} ({one.unscored})" for one in verdicts if one.rating is None]
    return [f"skipped {len(skipped)}: {', '.join(skipped)}"] if skipped else []


def checked_success(given: int) -> int:
    """Check a success rating: a whole number from 1 to 4."""
    if type(given) is not int or not LOWEST <= given <= HIGHEST:
        raise ConfigurationError(f"success_rating is a whole number from {LOWEST} to {HIGHEST}, not {given!r}")
    return given


def checked_quorum(given: int | None, most: int) -> int:
    """Check how many of `most` verdicts must have a rating; None takes more than half."""
    if given is None:
        return most // 2 + 1
    if type(given) is not int or not 1 <= given <= most:
        raise ConfigurationError(f"quorum is a whole number from 1 to {most}, not {given!r}")
    return given
