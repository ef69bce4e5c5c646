"""When the loop stops: an answer is accepted, attempts, budget or time are spent, or nothing gets better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from graphs.attempt import Attempt
from graphs.choosing import score_of
from graphs.policy import Policy
from graphs.secrets import withhold
from judges.runtime.budget import unkept_budget
from judges.verdict import Usage

StopReason = Literal[
    "accepted",
    "max_attempts",
    "budget",
    "deadline",
    "no_progress",
    "skipped",
    "judge_failed",
    "generator_failed",
    "interrupted",
]
"""Why the loop stopped."""

Limit = tuple[StopReason, str]
"""A limit that is reached, with one line about it."""


def reason_to_stop(
    attempts: Sequence[Attempt],
    policy: Policy,
    *,
    evidence: Mapping[str, JsonValue],
    is_last: bool,
    limit: Callable[[], Limit | None],
) -> tuple[StopReason | None, str]:
    """Return why to stop after the last verdict, with one line about it; None to go on.

    Args:
        attempts: The attempts so far, the last one judged.
        policy: The policy.
        evidence: What came with the question, to be withheld from the line.
        is_last: Whether no attempt follows, whatever the verdict.
        limit: Returns the limit that is reached, if any.
    """
    verdict = attempts[-1].verdict
    if verdict is None:
        return None, ""
    if verdict.unscored in ("budget", "deadline"):
        return verdict.unscored, withhold(verdict.detail, evidence)
    if verdict.unscored is not None:
        return "judge_failed", f"{verdict.unscored}: {withhold(verdict.detail, evidence)}".rstrip(": ")
    if verdict.reaches(policy.success_rating):
        return "accepted", ""
    if is_last:
        return "max_attempts", ""
    reached = limit()
    if reached is not None:
        return reached
    if _has_stalled(attempts, policy.patience):
        return "no_progress", f"no better for {policy.patience} attempts"
    return None, ""


def _has_stalled(attempts: Sequence[Attempt], patience: int | None) -> bool:
    if patience is None or len(attempts) <= patience:
        return False
    scores = [score_of(attempt) for attempt in attempts]
    return max(scores[-patience:]) <= max(scores[:-patience])


def limit_reached(policy: Policy, usage: Usage, *, seconds: float) -> Limit | None:
    """Return the limit of a policy that leaves no room for another call, or None.

    Args:
        policy: The policy.
        usage: What was consumed so far.
        seconds: How long the loop has run.
    """
    if policy.deadline_s is not None and seconds >= policy.deadline_s:
        return "deadline", f"{policy.deadline_s:g} s passed"
    if policy.max_calls is not None and usage.calls >= policy.max_calls:
        return "budget", f"{usage.calls} of {policy.max_calls} model calls made"
    if policy.max_tokens is not None and usage.tokens >= policy.max_tokens:
        return "budget", f"{usage.tokens} of {policy.max_tokens} tokens used"
    unkept = unkept_budget(usage, calls=policy.max_calls, tokens=policy.max_tokens, cost=policy.max_cost)
    if unkept is not None:
        return "budget", unkept
    if policy.max_cost is not None and (usage.cost or 0.0) >= policy.max_cost:
        return "budget", f"{usage.cost:g} of {policy.max_cost:g} US dollars spent"
    return None
