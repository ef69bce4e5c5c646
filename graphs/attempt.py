"""One attempt at an answer: the draft, what it is judged by, its verdict and what both cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Annotated, Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from pydantic import ConfigDict, Field, JsonValue, SkipValidation

from graphs.answers import AnswerKind, kind_of_answer, text_of_answer
from graphs.policy import Policy
from graphs.redaction import withhold
from judges.runtime.budget import unkept_budget
from judges.verdict import Frozen, Usage, Verdict


class Attempt(Frozen):
    """One generated answer and its verdict.

    Args:
        number: Number of the attempt, from 1.
        answer: The draft, as returned by the generator.
        steps: Messages between question and answer: tool calls and tool results.
        evidence: Fields of a sample that the generator returned, for instance `retrieved_contexts`.
        raw: The endpoint's own reply, where the generator is a direct client.
        verdict: The judge's verdict; None where the judge was not asked or did not finish.
        fault: What makes the answer unfit to be released; empty where nothing does.
        usage: What generating consumed; the verdict holds what judging consumed.
        latency_s: Seconds the generator took.
        candidate: Number of the draft among those of its attempt, from 1; None where it is the only one.
        unchosen: The other drafts of the attempt, in order; rejected drafts like any other.
        review: What a reviewer asked to change; empty where no reviewer sent the answer back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = Field(ge=1)
    answer: AIMessage
    steps: tuple[AnyMessage, ...] = ()
    evidence: dict[str, JsonValue] = Field(default_factory=dict)
    raw: Annotated[dict[str, JsonValue] | None, SkipValidation] = None
    verdict: Verdict | None = None
    fault: str = ""
    usage: Usage = Usage()
    latency_s: float = Field(default=0.0, ge=0)
    candidate: int | None = Field(default=None, ge=1)
    unchosen: tuple[Attempt, ...] = ()
    review: str = ""

    @property
    def text(self) -> str:
        """Text of the draft; of a refusal without one, what the refusal says."""
        return text_of_answer(self.answer)

    @cached_property
    def kind(self) -> AnswerKind:
        """The kind of the draft: text, a refusal, cut off, ..."""
        return kind_of_answer(self.answer)

    @property
    def rating(self) -> int | None:
        """Rating from 1 to 4, or None where there is none."""
        return None if self.verdict is None else self.verdict.rating

    @property
    def feedback(self) -> str:
        """The changes that a reviewer requests, or else the judge; empty where there is no feedback."""
        return self.review or ("" if self.verdict is None else self.verdict.feedback)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Tool calls of this attempt in order: `name`, `args`, and `result`, the text returned, or None."""
        results = {step.tool_call_id: str(step.text) for step in self.steps if isinstance(step, ToolMessage)}
        return [
            {"name": call["name"], "args": deepcopy(call["args"]), "result": results.get(call["id"] or "")}
            for message in self.steps
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        ]

    @property
    def drafts(self) -> list[Attempt]:
        """All drafts of the attempt by the number of their candidate, this one included."""
        return sorted((self, *self.unchosen), key=lambda draft: draft.candidate or 0)

    def to_state(self) -> dict[str, Any]:
        """Return the attempt as plain data and LangChain messages, for a checkpoint."""
        candidate = {} if self.candidate is None else {"candidate": self.candidate}
        unchosen = {"unchosen": [draft.to_state() for draft in self.unchosen]} if self.unchosen else {}
        return {
            "number": self.number,
            "answer": self.answer,
            "steps": list(self.steps),
            "evidence": self.evidence,
            "verdict": None if self.verdict is None else self.verdict.model_dump(mode="json"),
            "fault": self.fault,
            "usage": self.usage.model_dump(mode="json"),
            "latency_s": self.latency_s,
            **({} if self.raw is None else {"raw": self.raw}),
            **candidate,
            **unchosen,
            "review": self.review,
        }


def usages_of(attempt: Attempt) -> Iterator[Usage]:
    """Yield what an attempt consumed: generating, judging, and the drafts that were not chosen."""
    yield attempt.usage
    if attempt.verdict is not None:
        yield attempt.verdict.usage
    for draft in attempt.unchosen:
        yield from usages_of(draft)


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

_Limit = tuple[StopReason, str]
"""A limit that is reached, with one line about it."""


def reason_to_stop(
    attempts: Sequence[Attempt],
    policy: Policy,
    *,
    evidence: Mapping[str, JsonValue],
    is_last: bool,
    limit: Callable[[], _Limit | None],
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


def unpriced_models(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Yield the models, as their provider named them, whose calls have no known cost."""
    for attempt in attempts:
        if attempt.usage.cost is None and isinstance(
            name := attempt.answer.response_metadata.get("model_name"), str
        ):
            yield name
        if attempt.verdict is not None and attempt.verdict.usage.cost is None and attempt.verdict.model:
            yield attempt.verdict.model


def limit_reached(
    policy: Policy, usage: Usage, *, seconds: float, attempts: Sequence[Attempt] = ()
) -> _Limit | None:
    """Return the limit of a policy that leaves no room for another call, or None.

    Args:
        policy: The policy.
        usage: What was consumed so far.
        seconds: How long the loop has run.
        attempts: The attempts so far, to name a model without a price.
    """
    if policy.deadline_s is not None and seconds >= policy.deadline_s:
        return "deadline", f"{policy.deadline_s:g} s passed"
    if policy.max_calls is not None and usage.calls >= policy.max_calls:
        return "budget", f"{usage.calls} of {policy.max_calls} model calls made"
    if policy.max_tokens is not None and usage.tokens >= policy.max_tokens:
        return "budget", f"{usage.tokens} of {policy.max_tokens} tokens used"
    unkept = unkept_budget(
        usage,
        calls=policy.max_calls,
        tokens=policy.max_tokens,
        cost=policy.max_cost,
        unpriced=next(unpriced_models(attempts), None),
    )
    if unkept is not None:
        return "budget", unkept
    if policy.max_cost is not None and (usage.cost or 0.0) >= policy.max_cost:
        return "budget", f"{usage.cost:g} of {policy.max_cost:g} US dollars spent"
    return None
