"""The loop around a generator and a judge: begin, generate, judge, augment, finish; and `run`, which drives it.

Generate, judge and finish are nodes of the graph. Begin and augment only hand data on, so they run on the edges
they stand on, into the graph and from the judge back to the generator: each node costs as much as a model call
costs a client. What a step is, and how it is run, stands in `graphs.drivers`.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp, ParentCommand

from graphs import langgraph_private
from graphs.answers import Copied, Draft, check_judges
from graphs.augment import added_messages, is_echo, keep_answer
from graphs.drivers import (
    Effect,
    Flow,
    GeneratorCall,
    Messages,
    Node,
    RunContext,
    Step,
    Transition,
    adrive,
    drive,
    records_of,
    subject_of,
)
from graphs.events import (
    Event,
    Needs,
    WarningThrottle,
    drafted_events,
    excerpt_warnings,
    finished_events,
    judged_events,
    mended_events,
    missing_evidence_warnings,
    needs_of,
    observer_under,
    repeat_warnings,
    set_aside_warnings,
    started_events,
    stopped_events,
)
from graphs.finish import finish, hand_off
from graphs.generators import AsyncGenerator, DraftRequest, as_generator, check_temperature
from graphs.outcome import (
    ConcurrentTurn,
    DraftError,
    GeneratorFailed,
    InputError,
    Outcome,
    add_outcome,
    judged_sample,
    outcome_of,
)
from graphs.overrides import Bounds, Overrides
from graphs.policy import Policy
from graphs.questions import InputJudging, QuestionEnded
from graphs.refinement import Refinement, StopReason, evolve
from graphs.review import Decided
from judges.entry import Explanation
from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.models.retry import kind_of, place_of
from judges.promise import Standing
from judges.runtime.budget import Allowance, Refused
from judges.runtime.flow import LAST_WORDS_S, DeadlinePassed
from judges.runtime.observation import current, observing
from judges.runtime.prices import with_cost
from judges.sample import Sample, is_long
from judges.verdict import Usage, Verdict


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


def usage_of_draft(effect: Effect, draft: Draft, policy: Policy) -> Usage:
    """Return what a generator consumed: as counted call by call, unless its messages report more calls.

    They do so for calls that an agent made before it stopped for a human. If no call was counted and none
    reported, how many there were is unknown.
    """
    usages = [
        usage if usage.cost is None and not policy.prices else with_cost(usage, model, policy.prices)
        for model, usage in draft.calls
    ]
    reported = usages[0] if len(usages) == 1 else Usage.total(usages)
    if effect.allowance is None:
        return reported if reported.calls else Usage()
    counted = effect.spent
    if counted.calls:
        return reported if reported.calls > counted.calls else counted
    return reported if reported.tokens_known else reported.model_copy(update={"calls_known": False})


def _raise_if_error(draft: object) -> None:
    if isinstance(draft, BaseException):
        raise draft


class Loop:
    """The steps around one generator and one judge, under one policy.

    Attributes:
        held_back: Why its answers are released whole although they may be in pieces; empty where they are not.
        releases_pieces: Whether it can release answers in pieces.
    """

    held_back: str = ""
    releases_pieces: ClassVar[bool] = False

    def __init__(
        self,
        generator: object,
        judge: Judge,
        policy: Policy,
        *,
        name: str = "self_refine",
        candidate: int | None = None,
        bounds: Bounds | None = None,
        questions: InputJudging | None = None,
    ) -> None:
        self.policy = self._own_policy = policy
        self._questions = questions
        self.name = name
        self.bounds = bounds or Bounds()
        self._candidate = candidate
        self._throttle = WarningThrottle()
        self._judge = judge
        self._check_direction()
        check_judges(policy, judge)
        self._generator = as_generator(generator)
        self._overriding: Mapping[int, AsyncGenerator] = {
            number: as_generator(model) for number, model in policy.models_of(candidate or 1).items()
        }
        for number in policy.overrides:
            check_temperature(*self._generator_for(number))

    def with_generator(self, generator: object) -> Loop:
        """Return the same loop around another generator, for instance one made for a single request."""
        of_judge = {"_needs": self._needs, "_asks_models": self._asks_models, "_is_ours": self._is_ours}
        return evolve(self, _generator=as_generator(generator), **of_judge)

    def follow(self, standing: Standing) -> bool:
        """Go on under the policy that follows from where its certificate stands; return whether that is another.

        Questions that have begun end under the policy under which they began.
        """
        before, self.policy = self.policy, self._own_policy.under(standing)
        return self.policy != before

    @property
    def input_judge(self) -> Judge | None:
        """The judge of questions, if there is one."""
        return None if self._questions is None else self._questions.judge

    @property
    def judged_by(self) -> Judge:
        """What a whole answer is judged by; where pieces are released, the judge of these is part of it."""
        return self._judge

    @property
    def judge_name(self) -> str:
        """What the judge is called."""
        return self._judge.name

    @property
    def may_interrupt(self) -> bool:
        """True if a generator may stop for a human in the midst of an attempt."""
        return any(generator.may_interrupt for generator in (self._generator, *self._overriding.values()))

    @property
    def can_await_human(self) -> bool:
        """True if a turn may stop for a human."""
        return self.policy.on_exhausted == "interrupt" or self.may_interrupt

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

    def override(self, refinement: Refinement, overrides: Overrides | None) -> Refinement:
        """Return a record with what the request of a run overrides, from here on.

        Raises:
            InputError: If the request goes too far.
        """
        if overrides is None:
            return refinement
        evidence, evidence_before = self._evidence(overrides.evidence), refinement.evidence
        if overrides.settings == refinement.overrides and evidence.items() <= evidence_before.items():
            return refinement
        self.check_overrides(overrides)
        both = [evidence_before.get("guidelines"), overrides.criteria.get("guidelines")]
        self.bounds.check_evidence({"guidelines": both} if all(both) else {})
        policy, evidence = overrides.applied_to(self.policy), overrides.added_to({**evidence_before, **evidence})
        return refinement.override(overrides.settings, policy, evidence)

    def read(self, state: Refinement | Mapping[str, Any]) -> Refinement:
        """Restore a record from a checkpoint's plain data, with what its request overrides."""
        if isinstance(state, Refinement) or not state.get("overrides"):
            return Refinement.read(state, self.policy)
        return Refinement.read(state, Overrides(**state["overrides"]).applied_to(self.policy))

    def begin(self, question: Mapping[str, Any]) -> Refinement:
        """Start a fresh record, so that nothing of an earlier turn is left; runs on the edge into the graph."""
        messages: Messages = question.get("messages") or ()
        if not messages:
            raise InputError(
                "there are no messages to answer; give at least one: {'messages': [('user', 'Hello')]}"
            )
        if messages[-1].type == "ai":
            raise InputError("the last message is an answer already; end with a message of the user or of a tool")
        question_text = next((message.text for message in reversed(messages) if message.type == "human"), "")
        evidence = self._evidence(question.get("evidence"))
        if evidence:
            self.bounds.check_evidence(evidence)
        return Refinement(
            policy=self.policy,
            question=question_text,
            evidence=evidence,
            started_at=time.time(),
            is_judged=self.policy.sample_rate >= 1 or random.random() < self.policy.sample_rate,  # noqa: S311 - no secret
            id=os.urandom(16).hex(),
            refiner=self.name,
            held_back=self.held_back,
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
        self, refinement: Refinement, messages: Messages, context: RunContext
    ) -> Generator[Effect, Draft, Transition]:
        """Send the prompt to the generator, and record its draft; first ask about the question, or beside it."""
        if self._questions is not None and self._questions.mode == "before":
            refinement = yield from self._questions.ask_first(
                refinement, messages, context, RunningClock(refinement)
            )
        clock = RunningClock(refinement)
        now = clock()
        limit = None if refinement.stop_reason is not None else refinement.limit_reached(now)
        refinement = refinement if limit is None else refinement.stop(*limit, now=now)
        if refinement.stop_reason is not None:
            return self._to_finish(refinement)
        started = time.perf_counter()
        prompt, seconds = refinement.prompt(messages), refinement.seconds_left(now)
        effect = self._generation(refinement, prompt, context, now, seconds=seconds)
        try:
            if self._questions is None or refinement.question_verdict is not None:
                draft = yield effect
            else:
                refinement, draft = yield from self._questions.draft_beside(
                    effect,
                    refinement,
                    messages,
                    context,
                    clock=RunningClock(refinement),
                    usage_of=lambda made: usage_of_draft(effect, made, self.policy),
                )
                _raise_if_error(draft)
        except ParentCommand as left:
            return hand_off(refinement, messages, left, self._throttle)
        except (GraphBubbleUp, ConfigurationError):
            raise
        except Exception as error:  # noqa: BLE001 - recorded, and raised where no answer is left to release
            return self._stop_for(error, refinement, messages, effect.spent, clock())
        except BaseException as error:
            self._break_off(error, refinement, messages, effect.spent, clock())
            raise
        usage = usage_of_draft(effect, draft, self.policy)
        if draft.pending:
            return Transition(refinement=refinement.pause(usage, now=clock()))
        latency_s = time.perf_counter() - started
        return self._record_draft(draft, refinement, messages, usage=usage, latency_s=latency_s, now=clock())

    def _record_draft(
        self,
        draft: Draft,
        refinement: Refinement,
        messages: Messages,
        *,
        usage: Usage,
        latency_s: float,
        now: float,
    ) -> Transition:
        """Record a draft, and tell whether it copies what the generator was told on a retry."""
        copied: Copied | None = None
        if refinement.added:
            draft = keep_answer(draft, refinement)
            copied = "echo" if is_echo(draft, refinement, messages) else None
        record = partial(
            refinement.add_draft,
            draft.answer,
            **draft.fields(checks_calls=self.policy.check_tool_calls),
            copied=copied,
            usage=usage,
            latency_s=latency_s,
            now=now,
        )
        try:
            drafted = record(skip_reason=draft.skip_reason)
        except BaseException as error:  # the policy's function raised it
            drafted = record(skip_reason=f"skip: {kind_of(error)} from the policy's function")
            add_outcome(error, drafted, messages, now=now)
            raise
        goto: Node = "finish" if drafted.stop_reason is not None else "judge"
        events = partial(drafted_events, drafted)
        warnings = repeat_warnings(drafted, self._throttle) if drafted.attempts[-1].copied else ()
        return Transition(refinement=drafted, goto=goto, events=events, warnings=warnings)

    def _stop_for(
        self, error: Exception, refinement: Refinement, messages: Messages, spent: Usage, now: float
    ) -> Transition:
        """Stop for what a generator raised in place of a draft: a limit that was reached, or its own error."""
        if isinstance(error, QuestionEnded):
            return self._to_finish(refinement.judge_question(error.verdict, now=now, generating=error.spent))
        if isinstance(error, DeadlinePassed):
            return self._to_finish(
                refinement.stop("deadline", "the generator took too long", now=now, usage=spent)
            )
        if isinstance(error, Refused):
            reason: StopReason = "deadline" if error.reason == "deadline" else "budget"
            return self._to_finish(refinement.stop(reason, error.detail, now=now, usage=spent))
        return self._fail(error, refinement, messages, spent, now)

    def _generation(
        self,
        refinement: Refinement,
        prompt: list[BaseMessage],
        context: RunContext,
        now: float,
        *,
        seconds: float | None,
    ) -> Effect:
        number = len(refinement.attempts) + 1
        name, is_silent = self._run_name(number), not self.policy.show_drafts
        generator, temperature = self._generator, None
        if self.policy.overrides:
            generator, temperature = self._generator_for(refinement.generated)
        allowance = self._generators_allowance(generator, refinement, now)
        subject = partial(subject_of, "draft", number, prompt)
        config = (
            context.for_generator(name, subject, may_interrupt=generator.may_interrupt, silent=is_silent)
            if getattr(generator, "uses_langchain", True)
            else None
        )
        call = GeneratorCall(generator, DraftRequest(prompt, config or {}, temperature), allowance)
        return Effect(
            run=call.run,
            arun=call.arun if allowance is not None else partial(generator.adraft, call.request),
            config=config,
            seconds=seconds,
            events=partial(started_events, refinement),
            refinement=refinement,
            allowance=allowance,
            attempt=number,
            is_ours=config is None,
        )

    def _generators_allowance(
        self, generator: AsyncGenerator, refinement: Refinement, now: float
    ) -> Allowance | None:
        """Return what counts the generator's calls; without a limit, a chat model tells by its message alone.

        So does a generator that uses nothing of LangChain's, as it makes one call, and says what that consumed.
        """
        if not getattr(generator, "uses_langchain", True):
            return None
        if not refinement.has_limits and getattr(generator, "reports_usage", not generator.may_interrupt):
            return None
        return refinement.allowance(now, purpose="the generator had answered") or Allowance()

    def _fail(
        self, error: Exception, refinement: Refinement, messages: Messages, spent: Usage, now: float
    ) -> Transition:
        """Stop since the generator failed; raise where there is nothing to release."""
        generator, place = self._generator_for(refinement.generated)[0], place_of(error)
        whereabouts = f" ({getattr(generator, 'asks', '')}{place})".replace("( ", "(") if place else ""
        last = refinement.attempts[-1] if refinement.attempts else None
        is_begun = last is not None and bool(last.pieces) and last.verdict is None
        number = refinement.number - is_begun
        detail = f"{kind_of(error)} from the generator on attempt {number}{whereabouts}"
        failed = refinement.stop("generator_failed", detail, now=now, usage=spent)
        is_empty = is_begun and last is not None and not any(piece.released for piece in last.pieces)
        if len(failed.attempts) > is_empty or failed.ending == "fallback":
            return self._to_finish(failed)
        failure: Exception = error
        if isinstance(error, DraftError):
            add_outcome(error, failed, messages, now=now)
        else:
            failure = GeneratorFailed(detail, Outcome.of(failed, messages, None, now=now))
            failure.__cause__ = error
        return Transition(refinement=failed, events=partial(finished_events, failed), error=failure)

    def _break_off(
        self, error: BaseException, refinement: Refinement, messages: Messages, spent: Usage, now: float
    ) -> None:
        """Give what ends the turn the record of it, with what the call consumed that it ended."""
        if refinement.attempts or refinement.question_verdict is not None or spent:
            add_outcome(error, refinement.pause(spent, now=now), messages, now=now)

    def _generator_for(self, number: int) -> tuple[AsyncGenerator, float | None]:
        if not self.policy.overrides:
            return self._generator, None
        in_force = [first for first in self._overriding if first <= number]
        generator = self._overriding[max(in_force)] if in_force else self._generator
        return generator, self.policy.override(number, self._candidate or 1).temperature

    def _run_name(self, number: int) -> str:
        return f"attempt {number}" if self._candidate is None else f"attempt {number}, candidate {self._candidate}"

    def judge(
        self, refinement: Refinement, messages: Messages, context: RunContext
    ) -> Generator[Effect, Verdict, Transition]:
        """Ask the judge about the draft, within what the budget leaves, and record its verdict."""
        clock = RunningClock(refinement)
        now = clock()
        rejection = refinement.rejection
        if rejection is not None:
            return self._record_verdict(refinement, messages, rejection, now)
        seconds_left = refinement.seconds_left(now)
        if seconds_left is not None and seconds_left <= 0:
            return self._to_finish(refinement.stop("deadline", "it passed before the judge was asked", now=now))
        sample = judged_sample(messages, refinement)
        effect = self.ask_judge(refinement, sample, context, now)
        try:
            verdict = yield effect
        except DeadlinePassed:
            verdict = Verdict.without_score("deadline", "the judge took too long", judge=self.judge_name)
            verdict = verdict.model_copy(update={"usage": effect.spent})
        except GraphBubbleUp:
            raise
        except BaseException as error:
            self._break_off(error, refinement, messages, effect.spent, clock())
            raise
        warnings = self._warnings_about(sample, refinement, verdict)
        end = self._record_verdict(refinement, messages, verdict, clock(), warnings=warnings)
        if end.goto != "judge":
            return end
        again = yield from self.judge(end.refinement, messages, context)
        events, last = end.events, again.events
        return replace(again, events=lambda: (*events(), *last()), warnings=(*end.warnings, *again.warnings))

    def _warnings_about(self, sample: Sample, refinement: Refinement, verdict: Verdict) -> tuple[Event, ...]:
        """Return the warnings that a judge lacked evidence, or was not shown all of it, or of the draft."""
        warnings = set_aside_warnings(refinement, self._throttle) if refinement.evidence else ()
        if self._needs:
            warnings += missing_evidence_warnings(self._needs, sample, verdict, self._throttle)
        if self._asks_models and is_long(sample, limit := self.policy.max_conversation_chars):
            warnings += excerpt_warnings(self._judge.name, sample, limit, self._throttle)
        return warnings

    def _check_direction(self) -> None:
        """Check that every judge knows what is good: one that does not would push answers to the bad."""
        lost = self._explanation.without_direction if self._explanation is not None else ()
        if lost:
            raise ConfigurationError(
                f"the judge {lost[0]!r} does not know whether it is good to meet its definition, as a loop must; "
                f"give it higher_is_better=True or False"
            )

    @cached_property
    def _explanation(self) -> Explanation | None:
        """What the judge says of itself; None where a judge of somebody's own cannot."""
        try:
            return self._judge.explain()
        except Exception:  # noqa: BLE001 - what only serves checks and warnings must not cost the answer
            return None

    @cached_property
    def _is_ours(self) -> bool:
        """True if the judge in force runs code of these packages alone; that of pieces has another one."""
        return bool(getattr(self._judge, "is_ours_alone", False))

    @cached_property
    def _asks_models(self) -> bool:
        return bool(self._judge.models)

    @cached_property
    def _needs(self) -> Needs:
        """What the judge, and every judge inside it, needs besides question and answer."""
        return needs_of(self._explanation) if self._explanation is not None else ()

    @cached_property
    def _fields_read(self) -> frozenset[str]:
        """The fields of a sample that the judge, or one inside it, reads."""
        explanation = self._judge.explain()
        needs = (name for _, fields in needs_of(explanation) for need in fields for name in need.split(" or "))
        return frozenset((*needs, *explanation.reads))

    def ask_judge(self, refinement: Refinement, sample: Sample, context: RunContext, now: float) -> Effect:
        """Return the call of the judge about a sample, within what the budget leaves."""
        seconds, allowance = refinement.seconds_left(now), refinement.allowance(now) or Allowance()
        draft = refinement.attempts[-1]
        config = context.for_judge(partial(subject_of, "judge", draft.number, (*draft.steps, draft.answer)))
        judge, observation = self._judge, partial(self._observation, refinement, config, context, allowance)

        def run() -> Verdict:
            with observation():
                return judge(sample)

        async def arun() -> Verdict:
            with observation():
                return await judge.acall(sample)

        longest = None if seconds is None else seconds + LAST_WORDS_S
        is_ours = self._is_ours and not context.is_heard
        return Effect(run=run, arun=arun, config=config, seconds=longest, allowance=allowance, is_ours=is_ours)

    def _observation(
        self, refinement: Refinement, config: RunnableConfig, context: RunContext, allowance: Allowance
    ) -> observing:
        """Return what bounds and watches a judge."""
        observation: dict[str, Any] = {"observer": observer_under(config)} if context.is_heard else {}
        return observing(
            allowance=allowance.inside(current.get().allowance),
            **observation,
            raised_instead=langgraph_private.unanswerable_interrupt,
            log_texts=self.policy.log_texts,
            outcome_id=refinement.id,
            longest_shown=self.policy.max_conversation_chars,
        )

    def _record_verdict(
        self,
        refinement: Refinement,
        messages: Messages,
        verdict: Verdict,
        now: float,
        *,
        warnings: tuple[Event, ...] = (),
    ) -> Transition:
        """Record the verdict; if there is a next attempt, augment its prompt with the draft and the feedback."""
        judged = self._with_verdict(refinement, verdict, now=now)
        events = partial(judged_events, judged)
        if judged.stop_reason is not None:
            return Transition(refinement=judged, goto="finish", events=events, warnings=warnings)
        if judged.awaits_verdict and not judged.released_pieces:
            return Transition(
                refinement=judged, goto="judge", events=partial(mended_events, judged), warnings=warnings
            )
        try:
            augmented = judged.add_messages(self._added(judged))
        except BaseException as error:  # the policy's function raised it, or returned no messages
            add_outcome(error, judged, messages, now=now)
            raise
        return Transition(refinement=augmented, goto="generate", events=events, warnings=warnings)

    _with_verdict: Callable[..., Refinement] = staticmethod(Refinement.add_verdict)
    _added = staticmethod(added_messages)

    def finish(
        self, refinement: Refinement, messages: Messages, context: RunContext
    ) -> Generator[Effect, Decided, Transition]:
        """Append the answer, and only the answer, to the conversation; or go on as a reviewer decides."""
        return finish(refinement, messages, context, self.policy, throttle=self._throttle)

    def _to_finish(self, refinement: Refinement) -> Transition:
        return Transition(refinement=refinement, goto="finish", events=partial(stopped_events, refinement))

    # Flows

    def step(
        self, node: Node, refinement: Refinement, messages: Messages, context: RunContext
    ) -> Flow[Transition]:
        """Take one step, and announce what it led to if anybody hears; an error that ends it has its record."""
        take: Step = getattr(self, node)
        try:
            transition = yield from take(refinement, messages, context)
        except (GraphBubbleUp, InputError, ConcurrentTurn, GeneratorExit):  # it waits, or is somebody else's
            raise
        except BaseException as error:
            if refinement.attempts:
                add_outcome(error, refinement, messages, now=time.time())
            records_of(context.config).broken_off = outcome_of(error)
            raise
        if context.publishes or transition.warnings or transition.error is not None:
            yield transition
        return transition

    def attempts(self, refinement: Refinement, messages: Messages, context: RunContext) -> Flow[Refinement]:
        """Generate and judge until there is nothing more to try."""
        node: Node | None = "generate"
        while node is not None and node != "finish":
            transition = yield from self.step(node, refinement, messages, context)
            refinement, node = transition.refinement, transition.goto
        return refinement

    def turn(self, refinement: Refinement, messages: Messages, context: RunContext) -> Flow[Outcome]:
        """Take all steps of a turn that has begun, up to its outcome."""
        refinement = yield from self.attempts(refinement, messages, context)
        if self.policy.on_exhausted == "interrupt" and refinement.ending == "interrupt":
            return Outcome.waiting(refinement, messages, now=time.time())
        transition = yield from self.step("finish", refinement, messages, context)
        assert transition.outcome is not None  # noqa: S101 - a step that finishes without one raises
        return transition.outcome


def run(
    loop: Loop,
    question: Mapping[str, Any],
    config: RunnableConfig | None = None,
    *,
    begun: Refinement | None = None,
) -> Outcome:
    """Run a loop without a graph, blocking.

    Args:
        loop: The loop, see `build_loop`.
        question: A mapping with `messages` and, where there is any, `evidence`: fields of a sample.
        config: Config of the run; its callbacks hear of the calls, and its context may hold overrides.
        begun: The record to go on from, as `loop.begin(question)` returned it; None begins one.

    Raises:
        Unanswered: If no answer may be released; `outcome` holds the record.
        InputError: If there is nothing to answer, or the request goes beyond the bounds.
        ConfigurationError: If the generator has no blocking form.
    """
    context = RunContext(config or {})
    return drive(loop.turn(_begin(loop, question, context, begun), question["messages"], context), context)


def arun(
    loop: Loop,
    question: Mapping[str, Any],
    config: RunnableConfig | None = None,
    *,
    begun: Refinement | None = None,
) -> Coroutine[Any, Any, Outcome]:
    """Run a loop without a graph and without blocking the event loop; otherwise as `run`."""
    context = RunContext(config or {})
    if begun is None or context.overrides is not None:
        begun = _begin(loop, question, context, begun)
    return adrive(loop.turn(begun, question["messages"], context), context)


def _begin(loop: Loop, question: Mapping[str, Any], context: RunContext, begun: Refinement | None) -> Refinement:
    refinement = loop.begin(question) if begun is None else begun
    return refinement if context.overrides is None else loop.override(refinement, context.overrides)
