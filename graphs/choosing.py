"""Which attempt is released once the loop has stopped: the best one, as a rule, or as the policy says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from graphs.attempt import Attempt
from graphs.policy import Policy

Ending = Literal["answer", "fallback", "raise", "interrupt", "nothing"]
"""How a finished refinement ends: an attempt's answer, the fallback, an error, a question to a human."""


def best_of(attempts: Sequence[Attempt], policy: Policy) -> Attempt | None:
    """Return the attempt with the highest score; None if none is rated and releasable.

    One that reaches the policy's rating is better than any that does not. On a tie it is a whole answer rather
    than one that was cut off, and one of these rather than an empty one; then the latest.
    """

    def rank(attempt: Attempt) -> tuple[bool, float, int]:
        verdict = attempt.verdict
        reaches = verdict is not None and verdict.reaches(policy.success_rating)
        return reaches, score_of(attempt), wholeness_of(attempt)

    rated = [attempt for attempt in attempts if attempt.rating is not None and not attempt.fault]
    return max(reversed(rated), key=rank, default=None)


def score_of(attempt: Attempt) -> float:
    """Return the score of an attempt; one that has none is below all others."""
    verdict = attempt.verdict
    return -1.0 if verdict is None or verdict.score is None else verdict.score


def wholeness_of(attempt: Attempt) -> int:
    """Return how much of an answer an attempt has: 0 for nothing of use, 1 for a part that was cut off, else 2."""
    return {"empty": 0, "invalid_tool_call": 0, "cut": 1}.get(attempt.kind, 2)


def chosen_of(
    attempts: Sequence[Attempt],
    eligible: Sequence[Attempt],
    policy: Policy,
    *,
    stop_reason: str | None,
    sampled: bool,
) -> Attempt | None:
    """Return the attempt whose answer is released, or None where none may be.

    Args:
        attempts: All attempts.
        eligible: Those of which one may be released as the best.
        policy: The policy.
        stop_reason: Why the loop stopped.
        sampled: Whether the answers are judged.
    """
    last = attempts[-1] if attempts else None
    if last is not None and last.fault and sampled and not policy.shadow:
        return best_of(attempts, policy)
    if stop_reason in ("accepted", "skipped") or policy.shadow:
        return last
    accepts_unjudged = policy.on_judge_error == "accept"
    if stop_reason == "judge_failed" and accepts_unjudged:
        return last
    best = best_of(eligible, policy)
    if policy.on_exhausted == "last":
        return last if last is not None and (last.rating is not None or accepts_unjudged) else best
    return best or (last if accepts_unjudged else None)


def ending_of(
    attempts: Sequence[Attempt], chosen: Attempt | None, policy: Policy, *, stop_reason: str | None
) -> Ending:
    """Return how a loop ends that has stopped.

    Args:
        attempts: All attempts.
        chosen: The one whose answer may be released, if any.
        policy: The policy.
        stop_reason: Why the loop stopped.
    """
    released = stop_reason in ("accepted", "skipped") or policy.shadow
    if not released and _is_unjudged(attempts, policy, stop_reason):
        if policy.on_judge_error == "raise":
            return "raise"
        released = stop_reason == "judge_failed" and policy.on_judge_error == "accept"
    if not released and policy.on_exhausted in ("fallback", "raise"):
        return policy.on_exhausted
    if chosen is None:
        return "nothing"
    return "interrupt" if not released and policy.on_exhausted == "interrupt" else "answer"


def _is_unjudged(attempts: Sequence[Attempt], policy: Policy, stop_reason: str | None) -> bool:
    """Whether a loop ended without a verdict: the judge failed, or no draft was judged in time."""
    if stop_reason in ("budget", "deadline"):
        return bool(attempts) and best_of(attempts, policy) is None
    return stop_reason == "judge_failed"
