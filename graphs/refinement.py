"""The pure core: one question being refined, as an immutable record that decides what comes next. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from graphs.policy import Policy
from graphs.redaction import withheld
from judges.runtime.budget import Allowance
from judges.verdict import Usage, Verdict

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

Ending = Literal["answer", "fallback", "raise", "interrupt", "nothing"]
"""What comes of a refinement that is done: an attempt's answer, the fallback, an error, a question to a human."""

_EMPTY_ANSWER = "The answer was empty. Write a complete answer."


class Attempt(BaseModel):
    """One answer that was generated, and what became of it.

    Args:
        number: Counted from 1.
        answer: The draft, as the generator gave it.
        steps: Messages between question and answer: tool calls and tool results.
        evidence: Fields of a sample that the generator handed over, for instance `retrieved_contexts`.
        verdict: What the judge said; None where it was not asked or did not get to speak.
        usage: What generating consumed; what judging consumed stands in the verdict.
        latency_s: Seconds the generator took.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = Field(ge=1)
    answer: AIMessage
    steps: tuple[AnyMessage, ...] = ()
    evidence: dict[str, JsonValue] = {}
    verdict: Verdict | None = None
    usage: Usage = Usage()
    latency_s: float = Field(default=0.0, ge=0)

    @property
    def text(self) -> str:
        """Text of the draft."""
        return str(self.answer.text)

    @property
    def rating(self) -> int | None:
        """Rating from 1 to 4, or None where there is none."""
        return None if self.verdict is None else self.verdict.rating

    @property
    def feedback(self) -> str:
        """What the judge wants changed; empty where it said nothing."""
        return "" if self.verdict is None else self.verdict.feedback

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Tool calls of this attempt in order: `name`, `args`, and `result`, the text that came back, or None."""
        results = {one.tool_call_id: str(one.text) for one in self.steps if isinstance(one, ToolMessage)}
        return [
            {"name": call["name"], "args": call["args"], "result": results.get(call["id"] or "")}
            for message in self.steps
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        ]

    def to_state(self) -> dict[str, Any]:
        """Give the attempt as plain data and LangChain messages, for a checkpoint."""
        return {
            "number": self.number,
            "answer": self.answer,
            "steps": list(self.steps),
            "evidence": self.evidence,
            "verdict": None if self.verdict is None else self.verdict.model_dump(mode="json"),
            "usage": self.usage.model_dump(mode="json"),
            "latency_s": self.latency_s,
        }


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """One question being refined.

    Every method that tells it what happened returns a new refinement; the first prompt is never touched. Drafts
    and verdicts take turns, there are never more drafts than the policy allows, and a refinement that is done
    takes no further event: anything else is a `ValueError`.

    Args:
        policy: The rules.
        question: Text of the question.
        evidence: Fields of a sample that came with the question: contexts, a reference.
        attempts: The attempts so far.
        added: What follows the conversation on the next attempt: drafts and feedback.
        stop_reason: Why it stopped, or None while it goes on.
        detail: One line about the stop: the kind of an error, the budget that was spent.
        started_at: When it began, in seconds since the epoch.
        ended_at: When it was done.
        sampled: Whether it is judged at all.
        released: Number of the attempt whose answer was released; None for a fallback, or a text of a reviewer's.
    """

    policy: Policy
    question: str = ""
    evidence: Mapping[str, JsonValue] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    added: tuple[AnyMessage, ...] = ()
    stop_reason: StopReason | None = None
    detail: str = ""
    started_at: float = 0.0
    ended_at: float | None = None
    sampled: bool = True
    released: int | None = None

    # What happened

    def drafted(
        self,
        answer: AIMessage,
        *,
        steps: Sequence[AnyMessage] = (),
        evidence: Mapping[str, JsonValue] | None = None,
        usage: Usage | None = None,
        latency_s: float = 0.0,
    ) -> Self:
        """Record a draft. It ends the refinement where the draft is not to be judged."""
        self._must_go_on()
        if self._awaits_verdict or len(self.attempts) >= self.policy.max_attempts:
            raise ValueError(f"attempt {self.number} cannot be drafted: no draft is wanted after the last one")
        attempt = Attempt(
            number=len(self.attempts) + 1,
            answer=answer,
            steps=tuple(steps),
            evidence=dict(evidence or {}),
            usage=usage or Usage(),
            latency_s=latency_s,
        )
        more = replace(self, attempts=(*self.attempts, attempt))
        return more.stopped("skipped") if self._skips(answer) else more

    def judged(self, verdict: Verdict, *, now: float) -> Self:
        """Record the verdict on the last draft, and decide whether to go on."""
        self._must_go_on()
        if not self._awaits_verdict:
            raise ValueError("there is no draft that awaits a verdict; record one with drafted(...) first")
        last = self.attempts[-1].model_copy(update={"verdict": verdict})
        told = replace(self, attempts=(*self.attempts[:-1], last))
        reason, detail = told._reason_to_stop(verdict, now)  # noqa: SLF001 - of its own class
        return told if reason is None else told.stopped(reason, detail, now=now)

    def augmented(self, added: Sequence[AnyMessage]) -> Self:
        """Record what the next attempt is sent besides the conversation."""
        self._must_go_on()
        if not self.attempts or self._awaits_verdict:
            raise ValueError("there is no judged draft to go on from; record one with drafted(...), judged(...)")
        return replace(self, added=tuple(added))

    def stopped(self, reason: StopReason, detail: str = "", *, now: float | None = None) -> Self:
        """Stop for a reason that lies outside: a budget, the deadline, a generator that failed."""
        self._must_go_on()
        return replace(self, stop_reason=reason, detail=detail, ended_at=now)

    def answered(self, released: int | None, *, detail: str | None = None) -> Self:
        """Record which attempt's answer is released, and say more about the stop; why it stopped stays."""
        return replace(self, released=released, detail=self.detail if detail is None else detail)

    def _must_go_on(self) -> None:
        if self.done:
            raise ValueError(f"the refinement is done ({self.stop_reason!r}) and takes no further event")

    @property
    def _awaits_verdict(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].verdict is None

    def _skips(self, answer: AIMessage) -> bool:
        skip = self.policy.skip
        return bool(answer.tool_calls) or not self.sampled or (skip is not None and skip(answer))

    def _reason_to_stop(self, verdict: Verdict, now: float) -> tuple[StopReason | None, str]:
        policy = self.policy
        if verdict.unscored in ("budget", "deadline"):
            return verdict.unscored, withheld(verdict.detail, self.reference)
        if verdict.unscored is not None:
            return "judge_failed", f"{verdict.unscored}: {withheld(verdict.detail, self.reference)}".rstrip(": ")
        if verdict.reaches(policy.success_rating):
            return "accepted", ""
        if policy.shadow or len(self.attempts) >= policy.max_attempts:
            return "max_attempts", ""
        limit = self.limit_reached(now)
        if limit is not None:
            return limit
        return ("no_progress", f"no better for {policy.patience} attempts") if self._stalled() else (None, "")

    def _stalled(self) -> bool:
        patience = self.policy.patience
        if patience is None or len(self.attempts) <= patience:
            return False
        scores = [_score(one) for one in self.attempts]
        return max(scores[-patience:]) <= max(scores[:-patience])

    # What comes next

    @property
    def done(self) -> bool:
        """Whether there is nothing more to do."""
        return self.stop_reason is not None

    @property
    def number(self) -> int:
        """Number of the attempt that comes next."""
        return len(self.attempts) + 1

    def prompt(self, conversation: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Give what the generator is sent: the conversation, unchanged, and on a retry what was added."""
        return [*conversation, *self.added]

    def limit_reached(self, now: float) -> tuple[StopReason, str] | None:
        """Tell which budget leaves room for no further call, or None."""
        policy = self.policy
        if not self._limited:
            return None
        spent = self.usage
        if policy.deadline_s is not None and now - self.started_at >= policy.deadline_s:
            return "deadline", f"{policy.deadline_s:g} s passed"
        if policy.max_calls is not None and spent.calls >= policy.max_calls:
            return "budget", f"{spent.calls} of {policy.max_calls} model calls made"
        if policy.max_tokens is not None and spent.tokens >= policy.max_tokens:
            return "budget", f"{spent.tokens} of {policy.max_tokens} tokens used"
        if policy.max_cost is not None and spent.cost is None:
            return "budget", "a model's price is unknown, so max_cost cannot be kept; add it to prices"
        if policy.max_cost is not None and (spent.cost or 0.0) >= policy.max_cost:
            return "budget", f"{spent.cost:g} of {policy.max_cost:g} US dollars spent"
        return None

    def allowance(self, now: float) -> Allowance | None:
        """Give what the judges may still spend, or None where nothing is limited or priced."""
        policy = self.policy
        if not self._limited and not policy.prices:
            return None
        spent = self.usage
        return Allowance(
            calls=None if policy.max_calls is None else policy.max_calls - spent.calls,
            tokens=None if policy.max_tokens is None else policy.max_tokens - spent.tokens,
            cost=None if policy.max_cost is None else policy.max_cost - (spent.cost or 0.0),
            seconds=self.seconds_left(now),
            prices=policy.prices,
            unpriced=spent.cost is None,
        )

    @property
    def _limited(self) -> bool:
        policy = self.policy
        limits = (policy.max_calls, policy.max_tokens, policy.max_cost, policy.deadline_s)
        return any(limit is not None for limit in limits)

    def seconds_left(self, now: float) -> float | None:
        """Time left until the deadline, or None where there is none."""
        deadline = self.policy.deadline_s
        return None if deadline is None else self.started_at + deadline - now

    # What came of it

    @property
    def usage(self) -> Usage:
        """What all attempts consumed, generating and judging."""
        return sum((_usage(one) for one in self.attempts), Usage())

    @property
    def passed(self) -> bool:
        """Whether an attempt was accepted."""
        return self.stop_reason == "accepted"

    @property
    def best(self) -> Attempt | None:
        """The attempt with the highest score, the latest on a tie; None while none has one."""
        rated = [one for one in self.attempts if one.rating is not None]
        return max(reversed(rated), key=self._rank, default=None)

    def _rank(self, attempt: Attempt) -> tuple[bool, float]:
        verdict = attempt.verdict
        return (verdict is not None and verdict.reaches(self.policy.success_rating), _score(attempt))

    @property
    def chosen(self) -> Attempt | None:
        """The attempt whose answer is released, or None where none may be."""
        last = self.attempts[-1] if self.attempts else None
        if self.stop_reason in ("accepted", "skipped") or self.policy.shadow:
            return last
        trusting = self.policy.on_judge_error == "accept"
        if self.stop_reason == "judge_failed" and trusting:
            return last
        if self.policy.on_exhausted == "last":
            return last if last is not None and (last.rating is not None or trusting) else self.best
        return self.best or (last if trusting else None)

    @property
    def ending(self) -> Ending:
        """What is to be done now that the refinement is done."""
        policy = self.policy
        released = self.stop_reason in ("accepted", "skipped") or policy.shadow
        if self._unjudged and not released:
            if policy.on_judge_error == "raise":
                return "raise"
            released = self.stop_reason == "judge_failed" and policy.on_judge_error == "accept"
        if not released and policy.on_exhausted in ("fallback", "raise"):
            return policy.on_exhausted
        if self.chosen is None:
            return "nothing"
        return "interrupt" if not released and policy.on_exhausted == "interrupt" else "answer"

    @property
    def _unjudged(self) -> bool:
        """Whether it ended for want of a verdict: the judge failed, or no draft was judged in time."""
        if self.stop_reason in ("budget", "deadline"):
            return bool(self.attempts) and self.best is None
        return self.stop_reason == "judge_failed"

    # Checkpoints

    def to_state(self) -> dict[str, Any]:
        """Give the record as plain data and LangChain messages, for a checkpoint."""
        return {
            "question": self.question,
            "evidence": dict(self.evidence),
            "attempts": [one.to_state() for one in self.attempts],
            "added": list(self.added),
            "stop_reason": self.stop_reason,
            "detail": self.detail,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "sampled": self.sampled,
            "released": self.released,
        }

    @classmethod
    def read(cls, state: Refinement | Mapping[str, Any], policy: Policy) -> Refinement:
        """Read a record back under a policy, from a checkpoint's plain data or as it is."""
        if isinstance(state, Refinement):
            return state
        attempts = tuple(Attempt.model_validate(one) for one in state["attempts"])
        return cls(policy=policy, **{**state, "attempts": attempts, "added": tuple(state["added"])})

    @cached_property
    def reference(self) -> str | None:
        """The reference answer that came with the question, if any."""
        given = self.evidence.get("reference")
        return given if isinstance(given, str) else None


def empty_answer() -> Verdict:
    """Rate an empty draft without asking a judge."""
    return Verdict.rated(1, judge="refine", rationale="There is no text.", feedback=_EMPTY_ANSWER)


def _score(attempt: Attempt) -> float:
    verdict = attempt.verdict
    return -1.0 if verdict is None or verdict.score is None else verdict.score


def _usage(attempt: Attempt) -> Usage:
    return attempt.usage if attempt.verdict is None else attempt.usage + attempt.verdict.usage
