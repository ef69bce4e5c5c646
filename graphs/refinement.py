"""The pure core of the loop, without I/O: an immutable record of one question that decides the next step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from pydantic import JsonValue

from graphs.answers import NOTES, fault_of, reason_to_skip, rejection_for, unfit_answer
from graphs.attempt import (
    Attempt,
    Ending,
    StopReason,
    best_of,
    chosen_of,
    ending_of,
    limit_reached,
    reason_to_stop,
    unpriced_models,
    usages_of,
)
from graphs.policy import Policy
from judges.prompting.prompts import language_of
from judges.runtime.budget import Allowance
from judges.verdict import Usage, Verdict

T = TypeVar("T")


class _Memo:
    """What was made of a request's conversation and attempts, for later steps; never stored."""

    def __init__(self) -> None:
        self._results: dict[str, tuple[Sequence[object], Any]] = {}

    def get(self, name: str, parts: Sequence[object], make: Callable[[], T]) -> T:
        """Return what was made of these very messages, or attempts, under a name; make it where it was not.

        Args:
            name: What is made.
            parts: Of what; at least one.
            make: Makes it.
        """
        before, result = self._results.get(name, ((), None))
        if len(before) != len(parts) or any(old is not new for old, new in zip(before, parts, strict=True)):
            result = make()
            self._results[name] = tuple(parts), result
        typed: T = result
        return typed


class Prompt(list[BaseMessage]):
    """The messages for a generator: the conversation, and those that a retry adds.

    Args:
        conversation: The conversation, unchanged in all attempts.
        added: The messages after it.
        memo: What was made of the conversation before.
    """

    def __init__(self, conversation: Sequence[BaseMessage], added: Sequence[BaseMessage], memo: _Memo) -> None:
        super().__init__((*conversation, *added))
        self.conversation = conversation
        self.added = added
        self.memo = memo


Status = Literal["running", "waiting", "done"]
"""Where a turn stands.

`running`: not at its end; a process works on it, or it broke off and is resumed with None. `waiting`: a human is
to decide. `done`: nothing is called any more; there is an answer, or an error said why there is none.
"""

_Decision = Literal["accepted", "rewritten", "rejected"]
"""What a reviewer made of a turn: released its draft, wrote the answer, or let there be none."""


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """The refinement of one question.

    Every method that records an event returns a new refinement; the first prompt never changes. Drafts and
    verdicts alternate, there are never more drafts than the policy allows, and a finished refinement accepts no
    further event: anything else is a `ValueError`.

    Args:
        policy: The policy of the loop.
        question: Text of the question.
        evidence: Fields of a sample, passed with the question: contexts, a reference.
        attempts: The attempts so far.
        added: Messages that follow the conversation on the next attempt: drafts and feedback.
        stop_reason: Why it stopped, or None while it continues.
        detail: One line about the stop: the kind of an error, the exhausted budget.
        started_at: Start time in seconds since the epoch.
        ended_at: End time in seconds since the epoch, without the time in which it did not run.
        updated_at: Time of the last event. Every time after the start is measured by a clock that runs only
            while a step does: waiting for a human, and changes of the computer's clock, do not count.
        unfinished: What calls consumed that came to no draft.
        sampled: Whether the answers are judged.
        released: Number of the attempt whose answer was released; None for a fallback, or a reviewer's own text.
        id: Identifies this question in the log, in events and in its `Outcome`.
        refiner: Name of the refiner.
        overrides: What the request changed, as settings of `Overrides`: `policy` and `evidence` are those with it.
        sent_back: For each time that a reviewer sent an answer back, how many attempts there were.
        decision: How a reviewer ended the turn; None where none did.
        memo: What was made of the conversation; not stored in checkpoints.
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
    updated_at: float | None = None
    unfinished: Usage = Usage()
    sampled: bool = True
    released: int | None = None
    id: str = ""
    refiner: str = ""
    overrides: Mapping[str, JsonValue] = field(default_factory=dict)
    sent_back: tuple[int, ...] = ()
    decision: _Decision | None = None
    memo: _Memo = field(default_factory=_Memo, compare=False, repr=False)

    @classmethod
    def begun(cls, policy: Policy, **fields: Any) -> Self:
        """Return a fresh record; the constructor would set also what has its default, field by field."""
        record = object.__new__(cls)
        vars(record).update(policy=policy, evidence={}, overrides={}, memo=_Memo())
        vars(record).update(fields)
        return record

    # Events

    def overridden(
        self, overrides: Mapping[str, JsonValue], policy: Policy, evidence: Mapping[str, JsonValue]
    ) -> Self:
        """Record what the request changed, with the policy and the evidence that came of it."""
        return self._with(overrides=overrides, policy=policy, evidence=evidence)

    def drafted(
        self,
        answer: AIMessage,
        *,
        steps: Sequence[AnyMessage] = (),
        evidence: Mapping[str, JsonValue] | None = None,
        raw: dict[str, JsonValue] | None = None,
        fault: str = "",
        unjudged: str = "",
        usage: Usage | None = None,
        latency_s: float = 0.0,
        now: float | None = None,
    ) -> Self:
        """Record a draft; end the refinement if the draft is not to be judged."""
        self._require_running()
        if self._awaits_verdict or len(self.attempts) >= self.most_attempts:
            raise ValueError(f"attempt {self.number} cannot be drafted: no draft is wanted after the last one")
        attempt = Attempt(
            number=len(self.attempts) + 1,
            answer=answer,
            steps=tuple(steps),
            evidence=dict(evidence or {}),
            raw=raw,
            fault=fault,
            usage=usage or Usage(),
            latency_s=latency_s,
        )
        updated_at = self.updated_at if now is None else now
        extended = self._with(attempts=(*self.attempts, attempt), updated_at=updated_at)
        reason = unjudged or self._reason_to_skip(attempt)
        return extended.stopped("skipped", reason, now=now) if reason else extended

    def paused(self, usage: Usage, *, now: float) -> Self:
        """Record a call of the generator that came to no answer yet; the attempt goes on with the next call."""
        self._require_running()
        return self._with(unfinished=self.unfinished + usage, updated_at=now)

    def judged(self, verdict: Verdict, *, now: float) -> Self:
        """Record the verdict on the last draft, and decide whether to continue."""
        self._require_running()
        if not self._awaits_verdict:
            raise ValueError("there is no draft that awaits a verdict; record one with drafted(...) first")
        last = self.attempts[-1].model_copy(update={"verdict": verdict})
        updated = self._with(attempts=(*self.attempts[:-1], last), updated_at=now)
        reason, detail = reason_to_stop(
            updated.attempts,
            self.policy,
            evidence=self.evidence,
            is_last=updated.is_last,
            limit=lambda: updated.limit_reached(now),
        )
        return updated if reason is None else updated.stopped(reason, detail, now=now)

    def augmented(self, added: Sequence[AnyMessage]) -> Self:
        """Record the messages that follow the conversation on the next attempt."""
        self._require_running()
        if not self.attempts or self._awaits_verdict:
            raise ValueError("there is no judged draft to go on from; record one with drafted(...), judged(...)")
        return self._with(added=tuple(added))

    def stopped(
        self, reason: StopReason, detail: str = "", *, now: float | None = None, usage: Usage | None = None
    ) -> Self:
        """Stop for an external reason: a budget, the deadline, a failed generator.

        Args:
            reason: Why.
            detail: One line about it.
            now: The time.
            usage: What an attempt consumed that came to no draft.
        """
        self._require_running()
        unfinished = self.unfinished if usage is None else self.unfinished + usage
        return self._with(stop_reason=reason, detail=detail, ended_at=now, unfinished=unfinished)

    def answered(self, released: int | None, *, detail: str | None = None) -> Self:
        """Record which attempt's answer is released, with an optional new `detail`; the stop reason stays."""
        answers = (attempt for attempt in self.attempts if attempt.number == released)
        notes = (self.detail if detail is None else detail, *(NOTES.get(answer.kind) for answer in answers))
        return self._with(released=released, detail="; ".join(filter(None, notes)))

    def _with(self, **changes: Any) -> Self:
        """Return this record with changes; `dataclasses.replace` would set all fields anew, one by one."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), **changes)
        return other

    def drafted_best_of(self, drafts: Sequence[Attempt], chosen: Attempt, *, usage: Usage, now: float) -> Self:
        """Record the drafts of an attempt with several candidates; its verdict, if any, follows as for one draft.

        Args:
            drafts: All drafts.
            chosen: The one among them that goes on.
            usage: What candidates consumed that came to no draft.
            now: The time.
        """
        self._require_running()
        unchosen = tuple(draft for draft in drafts if draft is not chosen)
        attempt = chosen.model_copy(update={"verdict": None, "unchosen": unchosen})
        unfinished = self.unfinished + usage
        return self._with(attempts=(*self.attempts, attempt), unfinished=unfinished, updated_at=now)

    def reviewed(self, decision: _Decision, released: int | None, detail: str) -> Self:
        """Record how a reviewer ended the turn, with a new `detail`; the stop reason stays."""
        return self.answered(released, detail=detail)._with(decision=decision)  # noqa: SLF001 - of its own class

    def revised(self, number: int, feedback: str) -> Self:
        """Record that a reviewer sent an attempt back, for one more attempt; it is then not released any more."""
        if not self.may_be_revised:
            raise ValueError("the refinement awaits no review, or no further attempt is allowed")
        attempts = tuple(
            attempt.model_copy(update={"review": feedback}) if attempt.number == number else attempt
            for attempt in self.attempts
        )
        sent_back = (*self.sent_back, len(attempts))
        return self._with(
            attempts=attempts,
            sent_back=sent_back,
            stop_reason=None,
            detail="",
            ended_at=None,
            updated_at=self.ended_at if self.updated_at is None else self.updated_at,
        )

    def _require_running(self) -> None:
        if self.done:
            raise ValueError(f"the refinement is done ({self.stop_reason!r}) and takes no further event")

    @property
    def may_be_revised(self) -> bool:
        """Whether a reviewer who is asked may send the answer back: revisions, budgets and time leave room."""
        ended_at = self.started_at if self.ended_at is None else self.ended_at
        return (
            self.ending == "interrupt"
            and len(self.sent_back) < self.policy.max_revisions
            and not self._awaits_verdict
            and self.limit_reached(ended_at) is None
        )

    @property
    def _awaits_verdict(self) -> bool:
        return bool(self.attempts) and self.attempts[-1].verdict is None

    def _reason_to_skip(self, attempt: Attempt) -> str | None:
        if not self.sampled:
            return "sample_rate: not one of the questions that are judged"
        reason = reason_to_skip(attempt.kind, attempt.answer, judge_refusals=self.policy.judge_refusals)
        if reason is not None or self.policy.skip is None:
            return reason
        own = attempt.answer.model_copy(deep=True)  # a user's function may change it
        return "skip: the policy's function" if self.policy.skip(own) else None

    @property
    def is_last(self) -> bool:
        """Whether no attempt follows the one recorded last, whatever its verdict."""
        return self.policy.shadow or len(self.attempts) >= self.most_attempts

    @property
    def rejection(self) -> Verdict | None:
        """The verdict on the last draft where no judge is needed for it: it is unfit, empty, or was cut off."""
        last = self.attempts[-1]
        if last.fault:
            return unfit_answer(last.fault)
        fault = fault_of(last.kind, last.answer, is_last=self.is_last)
        return None if fault is None else rejection_for(fault, language_of(self.question or last.text))

    @property
    def most_attempts(self) -> int:
        """The number of the last attempt there may be; each time a reviewer sends an answer back, one more."""
        return self.sent_back[-1] + 1 if self.sent_back else self.policy.max_attempts

    def seen_from(self, number: int) -> Self:
        """Return the record as the generator is to see it: with the attempt that was sent back as the last."""
        others = (attempt for attempt in self.attempts if attempt.number != number)
        last = (attempt for attempt in self.attempts if attempt.number == number)
        return self._with(attempts=(*others, *last))

    # Next step

    @property
    def done(self) -> bool:
        """Whether the refinement has stopped."""
        return self.stop_reason is not None

    @property
    def number(self) -> int:
        """Number of the next attempt."""
        return len(self.attempts) + 1

    def prompt(self, conversation: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the generator's prompt: the unchanged conversation and, on a retry, the added messages."""
        return Prompt(conversation, self.added, self.memo)

    def limit_reached(self, now: float) -> tuple[StopReason, str] | None:
        """Return the limit that leaves no room for another call, with a description, or None."""
        if not self.policy.has_limits:
            return None
        return limit_reached(self.policy, self.usage, seconds=now - self.started_at, attempts=self.attempts)

    def allowance(
        self, now: float, *, purpose: str = "the judge was asked", bounds_retries: bool = True
    ) -> Allowance | None:
        """Return what may still be spent, or None if nothing is limited or priced; see `Allowance`."""
        policy = self.policy
        if not self.policy.has_limits and not policy.prices:
            return None
        usage = self.usage
        return Allowance(
            calls=None if policy.max_calls is None else policy.max_calls - usage.calls,
            tokens=None if policy.max_tokens is None else policy.max_tokens - usage.tokens,
            cost=None if policy.max_cost is None else policy.max_cost - (usage.cost or 0.0),
            seconds=self.seconds_left(now),
            retries=policy.max_retries if bounds_retries else None,
            prices=policy.prices,
            spent=usage,
            unpriced=next(unpriced_models(self.attempts), None),
            purpose=purpose,
        )

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds left until the deadline, or None without a deadline."""
        deadline = self.policy.deadline_s
        return None if deadline is None else self.started_at + deadline - now

    # Results

    @property
    def usage(self) -> Usage:
        """Usage of all attempts, generating and judging."""
        consumed = (usage for attempt in self.attempts for usage in usages_of(attempt))
        return Usage.total((self.unfinished, *consumed))

    @property
    def passed(self) -> bool:
        """Whether an attempt was accepted."""
        return self.stop_reason == "accepted"

    @property
    def best(self) -> Attempt | None:
        """The attempt with the highest score, the latest on a tie; None while none is rated and releasable."""
        return best_of(self.attempts, self.policy)

    @property
    def _eligible(self) -> tuple[Attempt, ...]:
        """The attempts of which one may be released: where a reviewer sent one back, those since then, if any."""
        return self.attempts[self.sent_back[-1] :] or self.attempts if self.sent_back else self.attempts

    @property
    def chosen(self) -> Attempt | None:
        """The attempt whose answer is released, or None where none may be."""
        return chosen_of(
            self.attempts, self._eligible, self.policy, stop_reason=self.stop_reason, sampled=self.sampled
        )

    @property
    def reference(self) -> str | None:
        """The reference answer passed with the question, if any."""
        value = self.evidence.get("reference")
        return value if isinstance(value, str) else None

    @property
    def ending(self) -> Ending:
        """How the finished refinement ends."""
        return ending_of(self.attempts, self.chosen, self.policy, stop_reason=self.stop_reason)

    @property
    def status(self) -> Status:
        """Where the turn stands before its last step, which makes it done."""
        if not self.done or self.ending in ("answer", "fallback"):
            return "running"
        return "waiting" if self.ending == "interrupt" else "done"

    # Checkpoints

    def to_state(self) -> dict[str, Any]:
        """Return the record as plain data and LangChain messages, for a checkpoint."""
        return {
            "question": self.question,
            "evidence": dict(self.evidence),
            "attempts": [self.memo.get(f"attempt {one.number}", (one,), one.to_state) for one in self.attempts],
            "added": list(self.added),
            "stop_reason": self.stop_reason,
            "detail": self.detail,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "updated_at": self.updated_at,
            "unfinished": self.unfinished.model_dump(mode="json"),
            "sampled": self.sampled,
            "released": self.released,
            "id": self.id,
            "refiner": self.refiner,
            "overrides": dict(self.overrides),
            "sent_back": list(self.sent_back),
            "decision": self.decision,
        }

    @classmethod
    def read(cls, state: Refinement | Mapping[str, Any], policy: Policy) -> Refinement:
        """Restore a record under a policy from a checkpoint's plain data; a `Refinement` is returned as it is."""
        if isinstance(state, Refinement):
            return state
        values = {
            "attempts": tuple(Attempt.model_validate(attempt) for attempt in state["attempts"]),
            "added": tuple(state["added"]),
            "unfinished": Usage.model_validate(state.get("unfinished", {})),
            "sent_back": tuple(state.get("sent_back", ())),
        }
        return cls(policy=policy, **{**state, **values})


class RunningClock:
    """The time from a refinement's last event on, in seconds since the epoch, by the monotonic clock.

    A change of the computer's clock, a wait for a human and a rest between two processes leave it as it was.

    Args:
        refinement: The record as the step begins.
    """

    def __init__(self, refinement: Refinement) -> None:
        self._at = refinement.started_at if refinement.updated_at is None else refinement.updated_at
        self._since = time.monotonic()

    def __call__(self) -> float:
        """Return the time."""
        return self._at + time.monotonic() - self._since


_NAMES = ("model_name", "model")


def certificate_of(refinement: Refinement) -> str | None:
    """Return the id of the certificate in force; None without one, or where another model answered.

    Providers change what stands behind a name, and a request to a guard chooses its model. Where the released
    answer does not name its model, nothing is compared.
    """
    certificate = refinement.policy.certificate
    if certificate is None:
        return None
    model = answering_model(refinement)
    return certificate.id if model is None or model in (certificate.answer_models or (model,)) else None


def answering_model(refinement: Refinement) -> str | None:
    """Return the model that the released answer names, if it does."""
    released = next((attempt for attempt in refinement.attempts if attempt.number == refinement.released), None)
    if released is None:
        return None
    metadata = released.answer.response_metadata
    name = next((value for key in _NAMES if (value := metadata.get(key))), None)
    return name if isinstance(name, str) else None
