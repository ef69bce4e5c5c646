"""The pure core of the loop, without I/O: an immutable record of one question that decides the next step.

An `Attempt` is a draft with what it is judged by, its verdict and what both cost; a `Refinement` is all of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from pydantic import JsonValue

from graphs.answers import LOOP, NOTES, Attempt, Piece, action_on, best_attempt, find_twin, rejection_for
from graphs.policy import OnRefusal, Policy
from graphs.redaction import withhold
from judges.prompting.prompts import language_of
from judges.runtime.budget import Allowance, unkept_budget
from judges.verdict import NOTHING_TO_JUDGE, Usage, Verdict

T = TypeVar("T")


def evolve(record: T, **changes: Any) -> T:
    """Return a copy of an object with other attributes; `dataclasses.replace` would set all of them one by one."""
    twin = object.__new__(type(record))
    vars(twin).update(vars(record), **changes)
    return twin


_Ending = Literal["answer", "fallback", "raise", "interrupt", "nothing"]
"""How a finished refinement ends: an attempt's answer, the fallback, an error, a question to a human."""


StopReason = Literal[
    "accepted",
    "late_refusal",
    "max_attempts",
    "blocked",
    "question_refused",
    "withdrawn",
    "budget",
    "deadline",
    "no_progress",
    "skipped",
    "judge_failed",
    "generator_failed",
    "interrupted",
    "broken_off",
]
"""Why the loop stopped, or what it waits for.

- `accepted`: the policy accepts the last verdict.
- `late_refusal`: what was released in pieces was refused as a whole.
- `max_attempts`: the last attempt was refused, too.
- `blocked`: a judge refused whose refusal ends it (`on_refusal`).
- `question_refused`: the input judge refused the question.
- `withdrawn`: the certificate was, and `on_alarm="closed"`.
- `budget`: calls, tokens or costs are used up.
- `deadline`: the time is used up.
- `no_progress`: no attempt was better, as often as `patience` says.
- `skipped`: nothing to judge, such as a tool call.
- `judge_failed`: the judge gave no verdict.
- `generator_failed`: no draft came.
- `interrupted`: it waits for a human.
- `broken_off`: a cancellation, or an error of something around it, ended it.
"""


LATE_REFUSAL = "late_refusal"
"""Why an answer is released whole: it takes the place of one in pieces that was refused as a whole."""


class _Memo(dict[str, tuple[Sequence[object], Any]]):
    """What was made of a request's conversation and attempts, for later steps, by name; never stored."""

    def recall(self, name: str, parts: Sequence[object], make: Callable[[], T]) -> T:
        """Return what was made of these very messages, or attempts, under a name; make it where it was not.

        Args:
            name: What is made.
            parts: Of what; at least one.
            make: Makes it.
        """
        before, result = self.get(name, ((), None))
        if len(before) != len(parts) or not all(map(operator.is_, before, parts)):
            result = make()
            self[name] = tuple(parts), result
        typed: T = result
        return typed


class GeneratorPrompt(list[BaseMessage]):
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

Decision = Literal["accepted", "rewritten", "rejected"]
"""What a reviewer made of a turn: released its draft, wrote the answer, or let there be none."""


_FINAL = ("blocked", "question_refused", "withdrawn")
"""Stops after which no draft is released, whatever the policy says of the best one."""

_STORED_AS_THEY_ARE = (
    *("question", "stop_reason", "detail", "started_at", "ended_at", "updated_at"),
    *("released", "id", "refiner", "decision"),
)
_STORED = ("sampled", "sent_back")
"""Names in a checkpoint, where turns of earlier releases wait, of `is_judged` and `revisions`."""


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
        is_judged: Whether the answers are judged.
        released: Number of the attempt whose answer was released; None for a fallback, or a reviewer's own text.
        id: Identifies this question in the log, in events and in its `Outcome`.
        refiner: Name of the refiner.
        overrides: What the request changed, as settings of `Overrides`: `policy` and `evidence` are those with it.
        revisions: For each time that a reviewer sent an answer back, how many attempts there were.
        decision: How a reviewer ended the turn; None where none did.
        outdated: How many attempts were judged by other evidence than there is now.
        held_back: Why this answer is released whole although the policy releases pieces; empty where it is not.
        handed_on: For each message of this answer that went out in pieces and called a tool, how many attempts
            there were; the answer begins anew after it.
        question_verdict: What the input judge says of the question; None where there is none, or not yet.
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
    is_judged: bool = True
    released: int | None = None
    id: str = ""
    refiner: str = ""
    overrides: Mapping[str, JsonValue] = field(default_factory=dict)
    revisions: tuple[int, ...] = ()
    decision: Decision | None = None
    outdated: int = 0
    held_back: str = ""
    handed_on: tuple[int, ...] = ()
    question_verdict: Verdict | None = None
    memo: _Memo = field(default_factory=_Memo, compare=False, repr=False)

    # Events

    def override(
        self, overrides: Mapping[str, JsonValue], policy: Policy, evidence: Mapping[str, JsonValue]
    ) -> Self:
        """Record what the request changed, with the policy and the evidence that came of it."""
        outdated = self.outdated if evidence == self.evidence else len(self.attempts)
        return evolve(self, overrides=overrides, policy=policy, evidence=evidence, outdated=outdated)

    def add_draft(
        self, answer: AIMessage, *, skip_reason: str = "", now: float | None = None, **fields: Any
    ) -> Self:
        """Record a draft, with other `fields` of its `Attempt`; end the refinement if it is not to be judged."""
        self._require_running()
        attempts = self.attempts
        if len(attempts) >= self.max_attempts_now or (attempts and attempts[-1].verdict is None):
            raise ValueError(f"attempt {self.number} cannot be drafted: no draft is wanted after the last one")
        attempt = Attempt(number=len(attempts) + 1, answer=answer, **fields)
        if not attempt.pieces and attempt.copied is None and self._twin_of(attempt) is not None:
            attempt = attempt.model_copy(update={"copied": "repeat"})
        updated_at = self.updated_at if now is None else now
        extended = evolve(self, attempts=(*attempts, attempt), updated_at=updated_at)
        reason = skip_reason or self._reason_to_skip(attempt)
        return extended.stop("skipped", reason, now=now) if reason else extended

    def pause(self, usage: Usage, *, now: float) -> Self:
        """Record a call of the generator that came to no answer yet; the attempt goes on with the next call."""
        self._require_running()
        return evolve(self, unfinished=self.unfinished + usage, updated_at=now)

    def hand_on(self) -> Self:
        """Record that what was released went out as a message that calls a tool; the answer begins anew."""
        return evolve(self, handed_on=(*self.handed_on, len(self.attempts)))

    def add_verdict(self, verdict: Verdict, *, now: float) -> Self:
        """Record the verdict on the last draft, and decide whether to continue."""
        self._require_running()
        if not self.awaits_verdict:
            raise ValueError("there is no draft that awaits a verdict; record one with add_draft(...) first")
        last = self.attempts[-1].model_copy(update={"verdict": verdict})
        updated = evolve(self, attempts=(*self.attempts[:-1], last), updated_at=now)
        if self.policy.on_refusal != "retry" and not self.policy.shadow:
            updated = updated._mend_or_withhold(verdict)  # noqa: SLF001 - of its own class
            if updated.awaits_verdict:
                return updated
        reason, detail = updated._reason_to_stop(verdict, now)  # noqa: SLF001 - of its own class
        return updated if reason is None else updated.stop(reason, detail, now=now)

    def _mend_or_withhold(self, verdict: Verdict) -> Self:
        """Withhold the last draft where a refusal is to be mended or blocked; where it can be, add it mended.

        A mended draft that does not pass is withheld whatever the reason, since it holds what was refused.
        """
        last = self.attempts[-1]
        if verdict.judge == LOOP:
            return self
        action: OnRefusal = action_on(verdict, self.policy)
        is_accepted = verdict.reaches(self.policy.success_rating)
        if is_accepted or (not last.mended and (verdict.rating is None or action == "retry")):
            return self
        withheld = last.model_copy(update={"is_withheld": True})
        attempts = (*self.attempts[:-1], withheld)
        can_mend = action.startswith("mend") and not last.mended and last.copied is None and not last.fault
        mended = last.mend(verdict) if can_mend else None
        return evolve(self, attempts=attempts if mended is None else (*attempts, mended))

    def judge_question(self, verdict: Verdict, *, now: float, generating: Usage | None = None) -> Self:
        """Record what the input judge says of the question, and stop if it refuses it, or fails to judge it.

        Args:
            verdict: The verdict; where it is unscored, `on_judge_error` decides, unless nothing was to be judged.
            now: The time.
            generating: What was consumed by a draft that is given up then.
        """
        self._require_running()
        judged = evolve(self, question_verdict=verdict, updated_at=now)
        failed = verdict.unscored is not None and verdict.unscored not in NOTHING_TO_JUDGE
        if self.policy.shadow or verdict.passed or not (failed or verdict.passed is False):
            return judged
        if not failed:
            detail = f"the input judge {verdict.judge!r} refused the question"
            return judged.stop("question_refused", detail, now=now, usage=generating)
        if self.policy.on_judge_error == "accept":
            return judged
        detail = f"the input judge gave no verdict: {verdict.unscored}"
        return judged.stop("judge_failed", detail, now=now, usage=generating)

    def add_messages(self, added: Sequence[AnyMessage]) -> Self:
        """Record the messages that follow the conversation on the next attempt."""
        self._require_running()
        if not self.attempts or self.awaits_verdict:
            raise ValueError(
                "there is no judged draft to go on from; record one with add_draft(...), add_verdict(...)"
            )
        return evolve(self, added=tuple(added))

    def stop(
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
        return evolve(self, stop_reason=reason, detail=detail, ended_at=now, unfinished=unfinished)

    def release(self, released: int | None, *, detail: str | None = None) -> Self:
        """Record which attempt's answer is released, with an optional new `detail`; the stop reason stays."""
        detail = self.detail if detail is None else detail
        attempt = None if released is None else self.attempts[released - 1]
        is_plain = attempt is None or (attempt.own_kind == "text" and not attempt.misfit)
        note = None if attempt is None or is_plain else NOTES.get(attempt.kind)
        return evolve(self, released=released, detail=f"{detail}; {note}" if detail and note else note or detail)

    def add_candidates(self, drafts: Sequence[Attempt], chosen: Attempt, *, usage: Usage, now: float) -> Self:
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
        return evolve(self, attempts=(*self.attempts, attempt), unfinished=unfinished, updated_at=now)

    def _require_running(self) -> None:
        if self.stop_reason is not None:
            raise ValueError(f"the refinement is done ({self.stop_reason!r}) and takes no further event")

    @property
    def awaits_verdict(self) -> bool:
        """True if the last draft is still to be judged."""
        return bool(self.attempts) and self.attempts[-1].verdict is None

    def _reason_to_skip(self, attempt: Attempt) -> str | None:
        if not self.is_judged:
            return "sample_rate: not one of the questions that are judged"
        if attempt.copied is not None or attempt.misfit:
            return None
        is_text = attempt.own_kind == "text"
        reason = None if is_text else attempt.reason_to_skip(judge_refusals=self.policy.judge_refusals)
        if reason is not None or self.policy.skip is None:
            return reason
        answer_copy = attempt.answer.model_copy(deep=True)  # a user's function may change it
        return "skip: the policy's function" if self.policy.skip(answer_copy) else None

    def _reason_to_stop(self, verdict: Verdict, now: float) -> tuple[StopReason | None, str]:
        """Return why to stop after the last verdict, with one line about it; None to go on."""
        if verdict.unscored in ("budget", "deadline"):
            return verdict.unscored, withhold(verdict.detail, self.evidence)
        if verdict.unscored is not None:
            detail = withhold(verdict.detail, self.evidence)
            return "judge_failed", f"{verdict.unscored}: {detail}".rstrip(": ")
        last = self.attempts[-1]
        if self.policy.accepts(verdict) and (last.own_kind != "cut" or last.kind != "cut"):
            return "accepted", ""
        if last.is_withheld and action_on(verdict, self.policy) in ("block", "mend_or_block"):
            return "blocked", "a judge refused the answer, and its refusals are final"
        if self.is_last:
            return "max_attempts", ""
        reached = self.limit_reached(now)
        if reached is not None:
            return reached
        patience = self.policy.patience
        if patience is not None and self._has_stalled(patience):
            return "no_progress", f"no better for {patience} attempts"
        return None, ""

    def _has_stalled(self, patience: int) -> bool:
        scores = [attempt.score for attempt in self.attempts if not attempt.mended]
        if len(scores) <= patience:
            return False
        return max(scores[-patience:]) <= max(scores[:-patience])

    @property
    def is_last(self) -> bool:
        """True if no attempt follows the one recorded last, whatever its verdict."""
        if self.policy.shadow or len(self.attempts) >= self.max_attempts_now:
            return True
        return bool(self.attempts) and self.attempts[-1].own_kind == "cut" and self.attempts[-1].is_cut_as_asked

    @property
    def rejection(self) -> Verdict | None:
        """The verdict on the last draft where no judge is needed: it is unfit, empty, cut off, or a copy."""
        last = self.attempts[-1]
        if last.fault or last.misfit:
            return last.own_rejection
        if last.own_kind == "text" and last.copied is None and not last.mended:
            return None
        twin = self._twin_of(last)
        if twin is not None and twin.verdict is not None:
            return twin.verdict.model_copy(update={"usage": Usage(), "latency_s": 0.0})
        flaw = last.flaw(is_last=self.is_last)
        return None if flaw is None else rejection_for(flaw, language_of(self.question or last.text))

    def _twin_of(self, draft: Attempt) -> Attempt | None:
        """Return an earlier draft that was judged, not accepted, and is the same; None where there is none.

        It is the same only if a judge is shown the same: a draft by other tools, or from other contexts, is not.
        Letters, commas and line breaks count, since they may be the very thing that had to change. An answer that
        was kept is judged once more, with the reason why.
        """
        if draft.number == 1 or draft.fault or draft.copied == "echo":
            return None
        parts = (draft.answer, draft.steps, draft.evidence, draft.kept, self.evidence, self.policy)
        before = self.attempts[: draft.number - 1]
        find = partial(find_twin, draft, before[self.outdated :], self.policy)
        return self.memo.recall("twin", (*parts, *before), find)

    @property
    def max_attempts_now(self) -> int:
        """The number of the last attempt there may be; each time a reviewer sends an answer back, one more.

        Mended drafts, for which nothing is generated, do not count.
        """
        before = self.revisions[-1] if self.revisions else 0
        most = before + 1 if self.revisions else self.policy.max_attempts
        return most + len([attempt for attempt in self.attempts[before:] if attempt.mended])

    # Next step

    @property
    def released_pieces(self) -> tuple[str, ...]:
        """The pieces of the answer that went out, in order; without those beside calls of tools before it."""
        return tuple(piece.text for piece in self._pieces_out(len(self.attempts)))

    @property
    def pieces_before(self) -> tuple[Piece, ...]:
        """The pieces of the answer that earlier attempts than the last one released."""
        return self._pieces_out(len(self.attempts) - 1)

    def _pieces_out(self, end: int) -> tuple[Piece, ...]:
        attempts = self.attempts[self.handed_on[-1] if self.handed_on else 0 : end]
        return tuple(piece for attempt in attempts for piece in attempt.pieces if piece.released)

    @property
    def message_id(self) -> str:
        """The id of the message whose pieces go out before it is whole."""
        return f"answer-{self.id}" if not self.handed_on else f"answer-{self.id}-{len(self.handed_on) + 1}"

    @property
    def done(self) -> bool:
        """True if the refinement has stopped."""
        return self.stop_reason is not None

    @property
    def number(self) -> int:
        """Number of the next attempt."""
        return len(self.attempts) + 1

    @property
    def generated(self) -> int:
        """Number of the next attempt among those that are generated, which mended ones are not."""
        return len([attempt for attempt in self.attempts if not attempt.mended]) + 1

    def prompt(self, conversation: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the generator's prompt: the unchanged conversation and, on a retry, the added messages."""
        return GeneratorPrompt(conversation, self.added, self.memo)

    @property
    def _has_budget(self) -> bool:
        """True if calls, tokens or cost are limited, so that what was consumed counts."""
        policy = self.policy
        return (policy.max_calls, policy.max_tokens, policy.max_cost) != (None, None, None)

    def limit_reached(self, now: float) -> tuple[StopReason, str] | None:
        """Return the limit that leaves no room for another call, with one line about it; None if there is room."""
        policy = self.policy
        if policy.deadline_s is not None and now - self.started_at >= policy.deadline_s:
            return "deadline", f"{policy.deadline_s:g} s passed"
        if not self._has_budget:
            return None
        if policy.is_closed:
            return "withdrawn", "labels of released answers broke the certificate's promise; certify again"
        usage = self.usage
        if policy.max_calls is not None and usage.calls >= policy.max_calls:
            return "budget", f"{usage.calls} of {policy.max_calls} model calls made"
        if policy.max_tokens is not None and usage.tokens >= policy.max_tokens:
            return "budget", f"{usage.tokens} of {policy.max_tokens} tokens used"
        unkept = unkept_budget(
            usage,
            calls=policy.max_calls,
            tokens=policy.max_tokens,
            cost=policy.max_cost,
            unpriced=next(_unpriced_models(self.attempts), None),
        )
        if unkept is not None:
            return "budget", unkept
        if policy.max_cost is not None and (usage.cost or 0.0) >= policy.max_cost:
            return "budget", f"{usage.cost:g} of {policy.max_cost:g} US dollars spent"
        return None

    @property
    def has_limits(self) -> bool:
        """True if calls, tokens, cost, retries or time are limited."""
        policy = self.policy
        limits = (policy.max_calls, policy.max_tokens, policy.max_cost, policy.max_retries, policy.deadline_s)
        return limits != (None,) * len(limits)

    def allowance(
        self,
        now: float,
        *,
        purpose: str = "the judge was asked",
        bounds_retries: bool = True,
        reserved_calls: int = 0,
    ) -> Allowance | None:
        """Return what may still be spent, or None if nothing is limited or priced; see `Allowance`.

        Args:
            now: The time.
            purpose: What the calls are for.
            bounds_retries: Whether `max_retries` holds for them.
            reserved_calls: How many of the calls that are left are for something else.
        """
        policy = self.policy
        if not self.has_limits and not policy.prices:
            return None
        usage = self.usage if self._has_budget else Usage()
        return Allowance(
            calls=None if policy.max_calls is None else max(0, policy.max_calls - usage.calls - reserved_calls),
            tokens=None if policy.max_tokens is None else policy.max_tokens - usage.tokens,
            cost=None if policy.max_cost is None else policy.max_cost - (usage.cost or 0.0),
            seconds=self.seconds_left(now),
            retries=policy.max_retries if bounds_retries else None,
            prices=policy.prices,
            spent=usage,
            unpriced=next(_unpriced_models(self.attempts), None) if self._has_budget else None,
            purpose=purpose,
        )

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds left until the deadline, or None without a deadline."""
        deadline = self.policy.deadline_s
        return None if deadline is None else self.started_at + deadline - now

    # Results

    @property
    def usage(self) -> Usage:
        """What all attempts consumed, generating and judging."""
        return self.memo.recall(
            "usage", (self.attempts, self.unfinished, self.question_verdict), self._total_usage
        )

    def _total_usage(self) -> Usage:
        usages = [self.unfinished]
        if self.question_verdict is not None:
            usages.append(self.question_verdict.usage)
        for attempt in self.attempts:
            for draft in (attempt, *attempt.unchosen):
                usages += [draft.usage] if draft.verdict is None else [draft.usage, draft.verdict.usage]
        return Usage.total(usages)

    @property
    def passed(self) -> bool:
        """True if an attempt was accepted."""
        return self.stop_reason == "accepted"

    @property
    def best(self) -> Attempt | None:
        """The attempt with the highest score, the latest on a tie; None while none is rated and releasable."""
        find = partial(best_attempt, self.attempts, self.policy)
        return self.memo.recall("best", (self.attempts, self.policy), find)

    @property
    def chosen(self) -> Attempt | None:
        """The attempt whose answer is released, or None where none may be."""
        policy, last = self.policy, self.attempts[-1] if self.attempts else None
        if self.stop_reason in _FINAL and not policy.shadow:
            return None
        if last is not None and last.is_unfit and self.is_judged and not policy.shadow:
            return self.best
        if self.stop_reason in ("accepted", "skipped") or policy.shadow:
            return last
        accepts_unjudged = policy.on_judge_error == "accept"
        if self.stop_reason == "judge_failed" and accepts_unjudged:
            return last
        since_revision = self.attempts[self.revisions[-1] :] if self.revisions else ()
        best = best_attempt(since_revision, policy) if since_revision else self.best
        if policy.on_exhausted == "last":
            return last if last is not None and (last.rating is not None or accepts_unjudged) else best
        return best or (last if accepts_unjudged else None)

    @property
    def reference(self) -> str | None:
        """The reference answer passed with the question, if any."""
        value = self.evidence.get("reference")
        return value if isinstance(value, str) else None

    @property
    def ending(self) -> _Ending:
        """How the finished refinement ends."""
        return self.conclusion[0]

    @property
    def conclusion(self) -> tuple[_Ending, Attempt | None]:
        """How the finished refinement ends, and the attempt whose answer is released, if any may be."""
        policy, chosen = self.policy, self.chosen
        is_released = self.stop_reason in ("accepted", "skipped") or policy.shadow
        if not is_released and self._is_unjudged:
            if policy.on_judge_error == "raise":
                return "raise", chosen
            is_released = self.stop_reason == "judge_failed" and policy.on_judge_error == "accept"
        is_final = self.stop_reason in _FINAL or self._holds_back(chosen)
        if is_final and not policy.shadow and not (is_released and chosen):
            return ("fallback" if policy.fallback is not None else "raise"), None
        if not is_released and policy.on_exhausted in ("fallback", "raise"):
            return policy.on_exhausted, chosen
        if chosen is None:
            return "nothing", None
        return ("interrupt" if not is_released and policy.on_exhausted == "interrupt" else "answer"), chosen

    def _holds_back(self, chosen: Attempt | None) -> bool:
        """Check whether there would be an answer, if all there are were not withheld."""
        return chosen is None and any(attempt.is_withheld for attempt in self.attempts)

    @property
    def _is_unjudged(self) -> bool:
        """True if it ended without a verdict: the judge failed, or no draft was judged in time."""
        if self.stop_reason in ("budget", "deadline"):
            return bool(self.attempts) and self.best is None
        return self.stop_reason == "judge_failed"

    @property
    def status(self) -> Status:
        """Where the turn stands before its last step, which makes it done."""
        if not self.done or self.ending in ("answer", "fallback"):
            return "running"
        return "waiting" if self.ending == "interrupt" else "done"

    # Checkpoints

    def to_state(self) -> dict[str, Any]:
        """Return the record as plain data and LangChain messages, for a checkpoint."""
        verdict = self.question_verdict
        rare = {
            "outdated": self.outdated,
            "held_back": self.held_back,
            "handed_on": list(self.handed_on),
            "question_verdict": None if verdict is None else verdict.model_dump(mode="json"),
        }
        return {
            **{name: getattr(self, name) for name in _STORED_AS_THEY_ARE},
            "evidence": dict(self.evidence),
            "attempts": [self.memo.recall(f"attempt {one.number}", (one,), one.to_state) for one in self.attempts],
            "added": list(self.added),
            "unfinished": self.unfinished.model_dump(mode="json"),
            "sampled": self.is_judged,
            "overrides": dict(self.overrides),
            "sent_back": list(self.revisions),
            **{name: value for name, value in rare.items() if value},
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
            "revisions": tuple(state.get("sent_back", ())),
            "handed_on": tuple(state.get("handed_on", ())),
            "is_judged": state.get("sampled", True),
            "question_verdict": None if (verdict := state.get("question_verdict")) is None else Verdict(**verdict),
        }
        stored_fields = {name: value for name, value in state.items() if name not in _STORED}
        return cls(policy=policy, **{**stored_fields, **values})


def _unpriced_models(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Yield the models, as their provider named them, whose calls have no known cost."""
    for attempt in attempts:
        name = attempt.answer.response_metadata.get("model_name")
        if attempt.usage.cost is None and isinstance(name, str):
            yield name
        if attempt.verdict is not None and attempt.verdict.usage.cost is None and attempt.verdict.model:
            yield attempt.verdict.model
