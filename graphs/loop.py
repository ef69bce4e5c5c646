"""The steps of the loop: begin, generate, judge, augment, finish.

Generate, judge and finish are nodes of the graph. Begin and augment only hand data on, so they run on the edges
they stand on, into the graph and from the judge back to the generator: each node costs as much as a model call
costs a client.

A step is pure: a generator that yields an `Effect` to run, receives its result, and returns a `Transition`.
`graphs.drivers` runs steps.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Generator, Mapping
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp, ParentCommand

from graphs import langgraph_private
from graphs.answers import without_reasoning
from graphs.attempt import Attempt, Ending, StopReason
from graphs.augment import added_messages
from graphs.errors import DraftError, GeneratorFailed, InputError, JudgeFailed, NotAccepted, Unanswered
from graphs.events import (
    Event,
    Needs,
    Ration,
    drafted_events,
    excerpt_alarms,
    finished_events,
    judged_events,
    needs_of,
    observer_under,
    release_alarms,
    started_events,
    stopped_events,
    unmet_alarms,
)
from graphs.generators import Draft, as_generator
from graphs.generators import Generator as DraftGenerator
from graphs.handover import hand_over, handover_alarms, handover_events
from graphs.outcome import Outcome, judged_sample
from graphs.overrides import Bounds, Overrides, overrides_in
from graphs.policy import Policy
from graphs.refinement import Refinement, RunningClock
from graphs.review import Decided, Written, rejection, review_of, reviewed
from graphs.step import DeadlinePassed, Effect, Messages, Node, Step, Transition
from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.models.providers.llm_runs import metered
from judges.models.retry import kind_of
from judges.runtime.budget import Allowance, Refused, with_cost
from judges.runtime.observation import current, observing
from judges.sample import Sample
from judges.verdict import Usage, Verdict


def _answer_of(
    refinement: Refinement, ending: Ending, messages: Messages, policy: Policy, now: float
) -> tuple[AIMessage, Refinement]:
    """Return what to release in an ending, and the record that says so.

    Raises:
        Unanswered: If nothing may be released.
    """
    match ending:
        case "fallback":
            return AIMessage(policy.fallback or ""), refinement
        case "answer" if (chosen := refinement.chosen) is not None:
            return released(chosen, policy), refinement.answered(chosen.number)
        case _:
            raise _unanswered(refinement, messages, policy, now, raised=ending == "raise")


def released(attempt: Attempt, policy: Policy) -> AIMessage:
    """Return an attempt's answer; after a refusal without its reasoning, which may speak of the refused."""
    with_its_reasoning = attempt.number == 1 or policy.keep_reasoning
    return attempt.answer if with_its_reasoning else without_reasoning(attempt.answer)


def answered(
    refinement: Refinement, messages: Messages, answer: AIMessage, now: float, *, ration: Ration
) -> Transition:
    """End the turn with an answer, under a message id of its own."""
    metadata = dict(answer.response_metadata)
    final = answer.model_copy(update={"id": secrets.token_hex(16), "response_metadata": metadata})
    outcome = Outcome.of(refinement, messages, final, now=now)
    metadata[langgraph_private.SUMMARY] = summary = outcome.summary()
    return Transition(
        refinement=refinement,
        update={"messages": [final], langgraph_private.SUMMARY: summary},
        events=partial(finished_events, refinement),
        outcome=outcome,
        alarms=release_alarms(refinement, messages, ration),
    )


def rejected(refinement: Refinement, messages: Messages, now: float) -> Transition:
    """End the turn without an answer, as a reviewer decided; the summary tells it from one that goes on."""
    outcome = Outcome.of(refinement, messages, None, now=now)
    return Transition(
        refinement=refinement,
        update={langgraph_private.SUMMARY: outcome.summary()},
        events=partial(finished_events, refinement),
        outcome=outcome,
        refusal=rejection(outcome),
    )


def _unanswered(
    refinement: Refinement, messages: Messages, policy: Policy, now: float, *, raised: bool
) -> Unanswered:
    outcome = Outcome.of(refinement, messages, None, now=now)
    message = f"no answer may be released: {refinement.stop_reason} after {len(refinement.attempts)} attempts"
    message = f"{message} ({refinement.detail})" if refinement.detail else message
    if not raised:
        return Unanswered(message, outcome)
    unjudged = bool(refinement.attempts) and refinement.best is None and policy.on_judge_error == "raise"
    failed = refinement.stop_reason == "judge_failed" or unjudged
    return (JudgeFailed if failed else NotAccepted)(message, outcome)


def _consumed(effect: Effect, draft: Draft, policy: Policy) -> Usage:
    """Return what a generator consumed: as counted call by call, unless its messages report more calls.

    They do so for calls that an agent made before it stopped for a human. If no call was counted and none
    reported, how many there were is unknown.
    """
    reported = Usage.total([with_cost(usage, model, policy.prices) for model, usage in draft.calls])
    if effect.allowance is None:
        return reported if reported.calls else Usage()
    counted = effect.spent
    if counted.calls:
        return reported if reported.calls > counted.calls else counted
    return reported if reported.tokens_known else reported.model_copy(update={"calls_known": False})


class Loop:
    """The steps around one generator and one judge, under one policy."""

    def __init__(
        self,
        generator: object,
        judge: Judge,
        policy: Policy,
        *,
        name: str = "self_refine",
        candidate: int | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.policy = policy
        self.name = name
        self.bounds = bounds or Bounds()
        self._candidate = candidate
        self._ration = Ration()
        self._judge = judge
        self._generator = as_generator(generator)
        self._overriding: Mapping[int, DraftGenerator] = {
            number: as_generator(model) for number, model in policy.models_of(candidate or 1).items()
        }

    def with_generator(self, generator: object) -> Loop:
        """Return the same loop around another generator, for instance one made for a single request."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _generator=as_generator(generator), _needs=self._needs)
        return other

    @property
    def steps(self) -> Mapping[Node, Step]:
        """The steps by the name of their node."""
        return {"generate": self.generate, "judge": self.judge, "finish": self.finish}

    @property
    def judge_name(self) -> str:
        """What the judge is called."""
        return self._judge.name

    @property
    def may_interrupt(self) -> bool:
        """Whether a generator may stop for a human in the midst of an attempt."""
        return any(generator.may_interrupt for generator in (self._generator, *self._overriding.values()))

    @property
    def may_wait(self) -> bool:
        """Whether a turn may wait for a human."""
        return self.policy.on_exhausted == "interrupt" or self.may_interrupt

    def overrides_in(self, config: RunnableConfig) -> Overrides | None:
        """Return what the request of a run overrides, if anything."""
        overrides: Overrides | None = langgraph_private.overrides_of(config)
        return overrides_in(langgraph_private.context_of(config)) if overrides is None else overrides

    def check_overrides(self, overrides: Overrides) -> None:
        """Check that a request's settings are within the bounds, and that the judge reads what it brings.

        Raises:
            InputError: If not.
        """
        self.bounds.check(overrides, self.policy)
        unread = sorted(overrides.criteria.keys() - self._fields_read) if overrides.criteria else ()
        if unread:
            remedy = "; Rubric(..., own_guidelines=True) is one that does" if "guidelines" in unread else ""
            raise InputError(
                f"the judge {self.judge_name!r} reads no {' and no '.join(unread)} of a request{remedy}"
            )
        self._evidence(overrides.evidence)

    def overridden(self, refinement: Refinement, config: RunnableConfig) -> Refinement:
        """Return a record with what the request of this run overrides, from here on.

        Raises:
            InputError: If the request goes too far.
        """
        overrides = self.overrides_in(config)
        if overrides is None:
            return refinement
        evidence, known = self._evidence(overrides.evidence), refinement.evidence
        if overrides.settings == refinement.overrides and evidence.items() <= known.items():
            return refinement
        self.check_overrides(overrides)
        policy, evidence = overrides.applied_to(self.policy), overrides.added_to({**known, **evidence})
        return refinement.overridden(overrides.settings, policy, evidence)

    def read(self, state: Refinement | Mapping[str, Any]) -> Refinement:
        """Restore a record from a checkpoint's plain data, with what its request overrides."""
        if isinstance(state, Refinement) or not state.get("overrides"):
            return Refinement.read(state, self.policy)
        return Refinement.read(state, Overrides(**state["overrides"]).applied_to(self.policy))

    def begin(self, question: Mapping[str, Any]) -> Refinement:
        """Start a fresh record, so that nothing of an earlier turn is left; runs on the edge into the graph."""
        messages: Messages = question.get("messages") or ()
        if not messages:
            raise InputError("there are no messages to answer; give at least one, for instance ('user', 'Hello')")
        if messages[-1].type == "ai":
            raise InputError("the last message is an answer already; end with a message of the user or of a tool")
        question_text = next((message.text for message in reversed(messages) if message.type == "human"), "")
        return Refinement.begun(
            self.policy,
            question=question_text,
            evidence=self._evidence(question.get("evidence")),
            started_at=time.time(),
            sampled=self.policy.sample_rate >= 1 or random.random() < self.policy.sample_rate,  # noqa: S311 - no secret
            id=secrets.token_hex(16),
            refiner=self.name,
        )

    def _evidence(self, fields: object) -> dict[str, Any]:
        """Read the evidence that came with a question as fields of a sample, under their canonical names."""
        if not fields:
            return {}
        if not isinstance(fields, Mapping) or not all(isinstance(name, str) for name in fields):
            raise InputError(
                f"evidence is a mapping from names of a sample's fields to values, for instance "
                f"{{'reference': '...'}}, not a {type(fields).__name__} of other things"
            )
        sample = self._judge.read(**fields)
        return sample.model_dump(mode="json", exclude_unset=True, exclude={"user_input", "response"})

    def generate(
        self, refinement: Refinement, messages: Messages, config: RunnableConfig
    ) -> Generator[Effect, Draft, Transition]:
        """Send the prompt to the generator, and record its draft."""
        clock = RunningClock(refinement)
        now = clock()
        limit = refinement.limit_reached(now)
        if limit is not None:
            return self._to_finish(refinement.stopped(*limit, now=now))
        started = time.perf_counter()
        effect = self._generation(refinement, messages, config, now)
        try:
            draft = yield effect
        except ParentCommand as left:
            hand_over(left, refinement)
            events = partial(handover_events, left, refinement)
            alarms = handover_alarms(left, refinement, messages, self._ration)
            return Transition(refinement=refinement, events=events, alarms=alarms, error=left)
        except (GraphBubbleUp, ConfigurationError, DraftError):
            raise
        except DeadlinePassed:
            detail = "the generator took too long"
            return self._to_finish(refinement.stopped("deadline", detail, now=clock(), usage=effect.spent))
        except Refused as refusal:
            reason: StopReason = "deadline" if refusal.reason == "deadline" else "budget"
            return self._to_finish(refinement.stopped(reason, refusal.detail, now=clock(), usage=effect.spent))
        except Exception as error:  # noqa: BLE001 - recorded, and raised where no answer is left to release
            return self._generator_failed(refinement, messages, error, effect.spent, clock())
        usage = _consumed(effect, draft, self.policy)
        if draft.pending:
            return Transition(refinement=refinement.paused(usage, now=clock()))
        drafted = refinement.drafted(
            draft.answer,
            steps=draft.steps,
            evidence=draft.evidence,
            raw=draft.raw,
            fault=draft.fault,
            unjudged=draft.unjudged,
            usage=usage,
            latency_s=time.perf_counter() - started,
            now=clock(),
        )
        return Transition(
            refinement=drafted,
            goto="finish" if drafted.done else "judge",
            events=partial(drafted_events, drafted),
        )

    def _generation(
        self, refinement: Refinement, messages: Messages, config: RunnableConfig, now: float
    ) -> Effect:
        generator, temperature = self._generator_for(refinement.number)
        prompt = refinement.prompt(messages)
        inherited = (
            langgraph_private.muted_config(config, silent=not self.policy.show_drafts)
            if generator.may_interrupt
            else langgraph_private.detached_config(config)
        )
        inherited["run_name"] = self._run_name(refinement.number)
        allowance = self._generators_allowance(generator, refinement, now)

        def run() -> Draft:
            with nullcontext() if allowance is None else metered(allowance):
                return generator.draft(prompt, inherited, temperature)

        async def arun() -> Draft:
            with nullcontext() if allowance is None else metered(allowance):
                return await generator.adraft(prompt, inherited, temperature)

        seconds, events = refinement.seconds_left(now), partial(started_events, refinement)
        return Effect(
            run=run,
            arun=arun,
            config=inherited,
            seconds=seconds,
            events=events,
            allowance=allowance,
            attempt=refinement.number,
        )

    def _generators_allowance(
        self, generator: DraftGenerator, refinement: Refinement, now: float
    ) -> Allowance | None:
        """Return what counts the generator's calls; without a limit, a chat model tells by its message alone."""
        if not refinement.policy.has_limits and getattr(generator, "reports_usage", not generator.may_interrupt):
            return None
        allowance = refinement.allowance(now, purpose="the generator had answered")
        return Allowance() if allowance is None else allowance

    def _generator_failed(
        self, refinement: Refinement, messages: Messages, error: Exception, spent: Usage, now: float
    ) -> Transition:
        detail = f"{kind_of(error)} from the generator on attempt {refinement.number}"
        failed = refinement.stopped("generator_failed", detail, now=now, usage=spent)
        if failed.attempts or failed.ending == "fallback":
            return self._to_finish(failed)
        failure = GeneratorFailed(detail, Outcome.of(failed, messages, None, now=now))
        failure.__cause__ = error
        return Transition(refinement=failed, events=partial(finished_events, failed), error=failure)

    def _generator_for(self, number: int) -> tuple[DraftGenerator, float | None]:
        in_force = [first for first in self._overriding if first <= number]
        generator = self._overriding[max(in_force)] if in_force else self._generator
        return generator, self.policy.override(number, self._candidate or 1).temperature

    def _run_name(self, number: int) -> str:
        return f"attempt {number}" if self._candidate is None else f"attempt {number}, candidate {self._candidate}"

    def judge(
        self, refinement: Refinement, messages: Messages, config: RunnableConfig
    ) -> Generator[Effect, Verdict, Transition]:
        """Ask the judge about the draft, within what the budget leaves, and record its verdict."""
        clock = RunningClock(refinement)
        now = clock()
        rejection = refinement.rejection
        if rejection is not None:
            return self._judged(refinement, rejection, now)
        left = refinement.seconds_left(now)
        if left is not None and left <= 0:
            return self._to_finish(refinement.stopped("deadline", "it passed before the judge was asked", now=now))
        sample = judged_sample(messages, refinement)
        effect = self._judgement(refinement, sample, config, now)
        try:
            verdict = yield effect
        except DeadlinePassed:
            verdict = Verdict.without_score("deadline", "the judge took too long")
            verdict = verdict.model_copy(update={"usage": effect.spent})
        alarms = (
            *unmet_alarms(self._needs, sample, self._ration),
            *excerpt_alarms(self._judge, sample, self.policy.max_conversation_chars, self._ration),
        )
        return self._judged(refinement, verdict, clock(), alarms=alarms)

    @cached_property
    def _needs(self) -> Needs:
        """What the judge, and every judge inside it, needs besides question and answer."""
        try:
            return needs_of(self._judge.explain())
        except Exception:  # noqa: BLE001 - what only serves a warning must not cost the answer
            return ()

    @cached_property
    def _fields_read(self) -> frozenset[str]:
        """The fields of a sample that the judge, or one inside it, reads."""
        explanation = self._judge.explain()
        needs = (name for _, fields in needs_of(explanation) for need in fields for name in need.split(" or "))
        return frozenset((*needs, *explanation.reads))

    def _judgement(self, refinement: Refinement, sample: Sample, config: RunnableConfig, now: float) -> Effect:
        allowance = refinement.allowance(now)
        inherited = langgraph_private.judging_config(config)
        outer = current.get().allowance
        observed = observing(
            allowance=outer if allowance is None else allowance.inside(outer),
            observer=observer_under(inherited),
            raised_instead=langgraph_private.unanswerable_interrupt,
            log_texts=self.policy.log_texts,
            outcome_id=refinement.id,
            longest_shown=self.policy.max_conversation_chars,
        )

        def run() -> Verdict:
            with observed:
                return self._judge(sample)

        async def arun() -> Verdict:
            with observed:
                return await self._judge.acall(sample)

        seconds = refinement.seconds_left(now)
        return Effect(run=run, arun=arun, config=inherited, seconds=seconds, allowance=allowance)

    def _judged(
        self, refinement: Refinement, verdict: Verdict, now: float, *, alarms: tuple[Event, ...] = ()
    ) -> Transition:
        """Record the verdict; if there is a next attempt, augment its prompt with the draft and the feedback."""
        judged = refinement.judged(verdict, now=now)
        return Transition(
            refinement=judged if judged.done else judged.augmented(added_messages(judged)),
            goto="finish" if judged.done else "generate",
            events=partial(judged_events, judged),
            alarms=alarms,
        )

    def finish(
        self, refinement: Refinement, messages: Messages, config: RunnableConfig
    ) -> Generator[Effect, Decided, Transition]:
        """Append the answer, and only the answer, to the conversation; or go on as a reviewer decides."""
        now, ending = time.time(), refinement.ending
        if ending == "interrupt" and (chosen := refinement.chosen) is not None:
            call = review_of(refinement, chosen, config)
            review = yield Effect(run=call.run, arun=call.arun, config=config)
            refinement = reviewed(refinement, chosen, review)
            if not refinement.done:
                added = added_messages(refinement.seen_from(chosen.number))
                return Transition(refinement=refinement.augmented(added), goto="generate")
            if refinement.decision == "rejected":
                return rejected(refinement, messages, now)
            written = review.root.answer if isinstance(review.root, Written) else None
            answer = released(chosen, self.policy) if written is None else AIMessage(written)
            return answered(refinement, messages, answer, now, ration=self._ration)
        try:
            answer, refinement = _answer_of(refinement, ending, messages, self.policy, now)
        except Unanswered as error:
            return Transition(refinement=refinement, events=partial(finished_events, refinement), error=error)
        return answered(refinement, messages, answer, now, ration=self._ration)

    def _to_finish(self, refinement: Refinement) -> Transition:
        return Transition(refinement=refinement, goto="finish", events=partial(stopped_events, refinement))
