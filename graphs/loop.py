"""The steps of the loop: begin, generate, judge, augment, finish.

Generate, judge and finish are nodes of the graph. Begin and augment only hand data on, so they run on the edges
they stand on, into the graph and from the judge back to the generator: each node costs as much as a model call
costs a client.

A step is pure: it returns a `Transition`, or an `Effect` to run first. `graphs.drivers` carries both out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp
from langgraph.types import interrupt
from pydantic import BaseModel, Field, RootModel, ValidationError

from graphs import langgraph_private
from graphs.augment import added_messages
from graphs.deadline import DeadlinePassed
from graphs.errors import DraftError, GeneratorFailed, InputError, JudgeFailed, NotAccepted, Unanswered
from graphs.generators import Draft, Generator, as_generator
from graphs.outcome import Outcome, sample_of
from graphs.policy import Policy
from graphs.progress import Event
from graphs.refinement import Attempt, Refinement, empty_answer
from graphs.tracing import trace_judges
from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.models.retry import kind_of
from judges.runtime.budget import Allowance, within
from judges.runtime.prices import with_cost
from judges.sample import Sample
from judges.verdict import Usage, Verdict

Messages = Sequence[AnyMessage]
Node = Literal["generate", "judge", "finish"]


@dataclass(frozen=True, kw_only=True)
class Transition:
    """What a step comes to.

    Args:
        refinement: The record from now on.
        goto: The next node; None ends.
        update: What to put into the graph's visible state.
        events: Makes what to tell the world, where anybody listens.
        error: Raised once the events are told; nothing is recorded then.
    """

    refinement: Refinement
    goto: Node | None = None
    update: Mapping[str, Any] | None = None
    events: Callable[[], tuple[Event, ...]] = tuple
    error: Exception | None = None


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A call to the generator or the judge that a step needs.

    Args:
        run: Makes the call, blocking.
        arun: Makes it without blocking.
        seconds: Longest wait, or None.
        config: What the call inherits.
        on_result: Makes a transition of what came back, an exception included, and of the seconds it took.
    """

    run: Callable[[], Any]
    arun: Callable[[], Awaitable[Any]]
    seconds: float | None
    config: RunnableConfig
    on_result: Callable[[Any, float], Transition]


class _Written(BaseModel):
    """A text that a reviewer wrote instead of the draft."""

    answer: str = Field(pattern=r"\S")


class _Review(RootModel[Literal["accept", "reject"] | bool | _Written]):
    """What a reviewer may decide; LangGraph checks it before it is stored, so a mistyped one can be given anew."""


Step = Callable[[Refinement, Messages, RunnableConfig], Transition | Effect]
"""What a step is: the record, the conversation and the config in, a transition or an effect out."""


class Loop:
    """The steps around one generator and one judge, under one policy."""

    def __init__(self, generator: object, judge: Judge, policy: Policy) -> None:
        self.policy = policy
        self._judge = judge
        self._generator = as_generator(generator)
        self.steps: Mapping[Node, Step] = {
            "generate": self.generate,
            "judge": self.judge,
            "finish": self.finish,
        }
        self._overriding: Mapping[int, Generator] = {
            number: as_generator(one.model) for number, one in policy.overrides.items() if one.model is not None
        }

    @property
    def may_interrupt(self) -> bool:
        """Whether a generator may stop for a human in the midst of an attempt."""
        return any(one.may_interrupt for one in (self._generator, *self._overriding.values()))

    def begin(self, question: Mapping[str, Any]) -> Refinement:
        """Start a fresh record, so that nothing of an earlier turn is left; runs on the edge into the graph."""
        messages: Messages = question.get("messages") or ()
        if not messages:
            raise InputError("there are no messages to answer; give at least one, for instance ('user', 'Hello')")
        if messages[-1].type == "ai":
            raise InputError("the last message is an answer already; end with a message of the user or of a tool")
        asked = next((one.text for one in reversed(messages) if one.type == "human"), "")
        return Refinement(
            policy=self.policy,
            question=asked,
            evidence=_evidence(question.get("evidence")),
            started_at=time.time(),
            sampled=self.policy.sample_rate >= 1 or random.random() < self.policy.sample_rate,  # noqa: S311 - no secret
        )

    def generate(self, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Transition | Effect:
        """Send the prompt to the generator."""
        now = time.time()
        limit = refinement.limit_reached(now)
        if limit is not None:
            return self._to_finish(refinement.stopped(*limit, now=now))
        generator, temperature = self._generator_for(refinement.number)
        prompt = refinement.prompt(messages)
        quiet = (
            langgraph_private.muted_config(config, silent=not self.policy.show_drafts)
            if generator.may_interrupt
            else langgraph_private.detached_config(config)
        )
        quiet["run_name"] = f"attempt {refinement.number}"
        left = refinement.seconds_left(now)

        async def arun() -> Draft:
            with within(None if left is None else Allowance(seconds=left)):
                return await generator.adraft(prompt, quiet, temperature)

        return Effect(
            run=lambda: generator.draft(prompt, quiet, temperature),
            arun=arun,
            seconds=left,
            config=quiet,
            on_result=lambda result, seconds: self._generated(refinement, messages, result, seconds),
        )

    def _generator_for(self, number: int) -> tuple[Generator, float | None]:
        begun = [first for first in self._overriding if first <= number]
        generator = self._overriding[max(begun)] if begun else self._generator
        return generator, self.policy.override(number).temperature

    def _generated(
        self, refinement: Refinement, messages: Messages, result: Draft | Exception, seconds: float
    ) -> Transition:
        now = time.time()
        if isinstance(result, GraphBubbleUp | ConfigurationError | DraftError):
            raise result
        if isinstance(result, DeadlinePassed):
            return self._to_finish(refinement.stopped("deadline", "the generator took too long", now=now))
        if isinstance(result, Exception):
            told = f"{kind_of(result)} from the generator on attempt {refinement.number}"
            failed = refinement.stopped("generator_failed", told, now=now)
            if failed.attempts or failed.ending == "fallback":
                return self._to_finish(failed)
            error = GeneratorFailed(told, Outcome.of(failed, messages, None, now=now))
            error.__cause__ = result
            return Transition(refinement=failed, events=lambda: (_finished(failed),), error=error)
        more = refinement.drafted(
            result.answer,
            steps=result.steps,
            evidence=result.evidence,
            usage=_priced(result, self.policy),
            latency_s=seconds,
        )
        return Transition(
            refinement=more,
            goto="finish" if more.done else "judge",
            events=lambda: self._drafted_events(more.attempts[-1]),
        )

    def judge(self, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Transition | Effect:
        """Ask the judge about the draft, within what the budget leaves; one that asks no model costs nothing."""
        now = time.time()
        attempt = refinement.attempts[-1]
        if not attempt.text.strip():
            return self._judged(refinement, empty_answer())
        left = refinement.seconds_left(now)
        if left is not None and left <= 0:
            return self._to_finish(refinement.stopped("deadline", "it passed before the judge was asked", now=now))
        sample = sample_of(messages, attempt, refinement.evidence)
        allowance = refinement.allowance(now)
        quiet = langgraph_private.detached_config(config)

        def run() -> Verdict:
            with within(allowance), trace_judges(quiet):
                return self._judge(sample)

        async def arun() -> Verdict:
            with within(allowance), trace_judges(quiet):
                return await self._judge.acall(sample)

        return Effect(
            run=run,
            arun=arun,
            seconds=left,
            config=quiet,
            on_result=lambda result, _: self._judged(refinement, _as_verdict(result)),
        )

    def _judged(self, refinement: Refinement, verdict: Verdict) -> Transition:
        """Record the verdict; if there is a next attempt, augment its prompt with the draft and the feedback."""
        told = refinement.judged(verdict, now=time.time())
        more = told if told.done else told.augmented(added_messages(told))
        return Transition(
            refinement=more,
            goto="finish" if told.done else "generate",
            events=lambda: self._judged_events(told),
        )

    def finish(self, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Transition:
        """Append the answer, and only the answer, to the conversation."""
        del config
        now = time.time()
        try:
            answer, refinement = self._answer(refinement, messages, now)
        except Unanswered as error:
            return Transition(refinement=refinement, events=lambda: (_finished(refinement),), error=error)
        summary = Outcome.of(refinement, messages, answer, now=now).summary()
        metadata = {**answer.response_metadata, langgraph_private.SUMMARY: summary}
        final = answer.model_copy(update={"id": str(uuid4()), "response_metadata": metadata})
        return Transition(
            refinement=refinement,
            update={"messages": [final], langgraph_private.SUMMARY: summary},
            events=lambda: (_finished(refinement),),
        )

    def _answer(self, refinement: Refinement, messages: Messages, now: float) -> tuple[AIMessage, Refinement]:
        """Choose what to release, or raise that nothing may be."""
        match refinement.ending:
            case "fallback":
                return AIMessage(self.policy.fallback or ""), refinement
            case "answer" if refinement.chosen is not None:
                return refinement.chosen.answer, refinement.answered(refinement.chosen.number)
            case "interrupt" if refinement.chosen is not None:
                return self._reviewed(refinement, refinement.chosen, messages, now)
            case ending:
                raise self._unanswered(refinement, messages, now, raised=ending == "raise")

    def _unanswered(self, refinement: Refinement, messages: Messages, now: float, *, raised: bool) -> Unanswered:
        outcome = Outcome.of(refinement, messages, None, now=now)
        told = f"no answer may be released: {refinement.stop_reason} after {len(refinement.attempts)} attempts"
        told = f"{told} ({refinement.detail})" if refinement.detail else told
        if not raised:
            return Unanswered(told, outcome)
        unjudged = bool(refinement.attempts) and refinement.best is None and self.policy.on_judge_error == "raise"
        failed = refinement.stop_reason == "judge_failed" or unjudged
        return (JudgeFailed if failed else NotAccepted)(told, outcome)

    def _reviewed(
        self, refinement: Refinement, attempt: Attempt, messages: Messages, now: float
    ) -> tuple[AIMessage, Refinement]:
        """Put the best attempt to a human; see `graphs.self_refine` for the answers understood."""
        question = {
            "stop_reason": refinement.stop_reason,
            "attempts": len(refinement.attempts),
            "answer": attempt.text,
            "rating": attempt.rating,
            "feedback": attempt.feedback,
        }
        try:
            decision = interrupt(question, response_schema=_Review).root
        except ValidationError as error:
            raise InputError(
                "the review cannot be read; a review is 'accept', 'reject' or {'answer': 'the text to send'}"
            ) from error
        if isinstance(decision, _Written):
            return AIMessage(decision.answer), refinement.answered(None, detail="written by a reviewer")
        if decision in (True, "accept"):
            return attempt.answer, refinement.answered(attempt.number, detail="released by a reviewer")
        refused = refinement.answered(None, detail="refused by a reviewer")
        raise self._unanswered(refused, messages, now, raised=True)

    def _to_finish(self, refinement: Refinement) -> Transition:
        return Transition(refinement=refinement, goto="finish", events=lambda: self._stopped_events(refinement))

    def _stopped_events(self, refinement: Refinement) -> tuple[Event, ...]:
        last = refinement.attempts[-1] if refinement.attempts else None
        shown = self.policy.show_drafts and last is not None and last.verdict is None
        return (_discard(last),) if shown and last is not None and not _released(refinement, last) else ()

    def _drafted_events(self, attempt: Attempt) -> tuple[Event, ...]:
        figures = {
            "attempt": attempt.number,
            "calls": attempt.usage.calls,
            "tokens": attempt.usage.tokens,
            "latency_s": round(attempt.latency_s, 6),
        }
        told = Event("attempt", figures, {"text": attempt.text})
        if not self.policy.show_drafts:
            return (told,)
        texts = {"text": attempt.text, "tools": attempt.tools}
        return told, Event("draft", {"attempt": attempt.number}, texts, logged=False, show=True)

    def _judged_events(self, refinement: Refinement) -> tuple[Event, ...]:
        attempt = refinement.attempts[-1]
        verdict = attempt.verdict or Verdict.without_score("judge_failed")
        figures = {
            "attempt": attempt.number,
            "judge": verdict.judge,
            "rating": verdict.rating,
            "score": verdict.score,
            "accepted": refinement.passed,
            "unscored": verdict.unscored,
            "tokens": verdict.usage.tokens,
            "latency_s": round(verdict.latency_s, 6),
        }
        texts = {"rationale": verdict.rationale, "feedback": verdict.feedback}
        told = Event("verdict", figures, texts, show=self.policy.show_drafts)
        kept = _released(refinement, attempt) or not self.policy.show_drafts
        return (told,) if kept else (told, _discard(attempt))


def _evidence(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Read the evidence that came with a question as fields of a sample, under their canonical names."""
    if not given:
        return {}
    return Sample.read(given).model_dump(mode="json", exclude_unset=True, exclude={"user_input", "response"})


def _released(refinement: Refinement, attempt: Attempt) -> bool:
    return refinement.done and refinement.ending == "answer" and refinement.chosen is attempt


def _discard(attempt: Attempt) -> Event:
    return Event("discard", {"attempt": attempt.number}, logged=False)


def _finished(refinement: Refinement) -> Event:
    usage = refinement.usage
    figures = {
        "stop_reason": refinement.stop_reason,
        "passed": refinement.passed,
        "attempts": len(refinement.attempts),
        "calls": usage.calls,
        "tokens": usage.tokens,
        "detail": refinement.detail,
    }
    return Event("finish", figures)


def _priced(draft: Draft, policy: Policy) -> Usage:
    return sum((with_cost(usage, model, policy.prices) for model, usage in draft.calls), Usage())


def _as_verdict(result: Verdict | Exception) -> Verdict:
    if isinstance(result, DeadlinePassed):
        return Verdict.without_score("deadline", "the judge took too long")
    if isinstance(result, Exception):
        raise result
    return result
