"""The input judge: a judge of the question, asked before the first draft or beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Literal

from graphs.drivers import Effect, Messages, RunContext, aperform, perform
from graphs.outcome import add_outcome, question_of
from graphs.refinement import Refinement
from judges.errors import ConfigurationError, shortened
from judges.judge import Judge
from judges.runtime import flow
from judges.runtime.budget import Allowance
from judges.runtime.observation import current, observing
from judges.verdict import Usage, Verdict

InputMode = Literal["beside", "before"]
"""When the input judge is asked: beside the first draft, which is given up if it refuses, or before it."""


class QuestionEnded(Exception):  # noqa: N818 - what happened
    """The first draft was given up, since the question is refused or cannot be judged; `verdict` says which.

    Args:
        verdict: The verdict.
        draft: The draft, where there was one already; None where its call was cancelled.

    Attributes:
        spent: What was consumed by it, as far as that is known.
    """

    def __init__(self, verdict: Verdict, draft: Any) -> None:
        super().__init__("the question is not answered")
        self.verdict = verdict
        self.draft = draft
        self.spent = Usage()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.verdict, self.draft), vars(self)


@dataclass(frozen=True)
class InputJudging:
    """Asks the input judge about a question.

    Args:
        judge: The judge, see `judges.compose.of_question.as_input_judge`.
        mode: When it is asked.
    """

    judge: Judge
    mode: InputMode = "beside"

    def __post_init__(self) -> None:
        if self.mode not in ("beside", "before"):
            raise ConfigurationError(f"input_mode is 'beside' or 'before', not {shortened(self.mode)}")

    def _effect(self, refinement: Refinement, messages: Messages, context: RunContext, now: float) -> Effect:
        """Return the call that judges the question; beside a draft, one call of the budget is left to that."""
        reserved = 1 if self.mode == "beside" else 0
        limits = refinement.allowance(now, purpose="the question was judged", reserved_calls=reserved)
        allowance = limits or Allowance()
        observed = observing(
            allowance=allowance.inside(current.get().allowance),
            log_texts=refinement.policy.log_texts,
            outcome_id=refinement.id,
            longest_shown=refinement.policy.max_conversation_chars,
        )
        sample = question_of(messages, {})

        def run() -> Verdict:
            with observed:
                return self.judge(sample)

        async def arun() -> Verdict:
            with observed:
                return await self.judge.acall(sample)

        config, seconds = context.for_judge(lambda: "question"), refinement.seconds_left(now)
        longest = None if seconds is None else seconds + flow.LAST_WORDS_S
        return Effect(run=run, arun=arun, config=config, seconds=longest, allowance=allowance)

    def ask_first(
        self, refinement: Refinement, messages: Messages, context: RunContext, clock: Callable[[], float]
    ) -> Generator[Effect, Any, Refinement]:
        """Ask about the question, unless that was asked already, and record the verdict."""
        if refinement.question_verdict is not None:
            return refinement
        effect = self._effect(refinement, messages, context, clock())
        try:
            verdict = yield effect
        except flow.DeadlinePassed:
            verdict = _too_late(effect)
        return refinement.judge_question(verdict, now=clock())

    def draft_beside(
        self,
        effect: Effect,
        refinement: Refinement,
        messages: Messages,
        context: RunContext,
        *,
        clock: Callable[[], float],
        usage_of: Callable[[Any], Usage],
    ) -> Generator[Effect, Any, tuple[Refinement, Any]]:
        """Draft while the question is judged, and record the verdict; return the draft, or its error.

        Args:
            effect: Makes the draft.
            refinement: The record.
            messages: The conversation.
            context: The context of the run.
            clock: Tells the time.
            usage_of: Returns what a draft consumed.

        Raises:
            QuestionEnded: If the verdict ends the question.
        """
        judging = self._effect(refinement, messages, context, now := clock())
        pair = _BothCalls(effect, judging, lambda one: refinement.judge_question(one, now=now).done)
        try:
            draft, verdict = yield pair.effect()
        except QuestionEnded as ended:
            ended.spent = effect.spent if ended.draft is None else usage_of(ended.draft)
            raise
        except (Exception, GeneratorExit):
            raise
        except BaseException as error:  # whoever asked has left
            spent = Usage.total([effect.spent, judging.spent])
            if spent:
                add_outcome(error, refinement.pause(spent, now=clock()), messages, now=clock())
            raise
        return refinement.judge_question(verdict, now=clock()), draft


def _too_late(effect: Effect) -> Verdict:
    """Return the verdict of a judge that took longer than there was time."""
    verdict = Verdict.without_score("deadline", "the input judge took too long")
    return verdict.model_copy(update={"usage": effect.spent})


@dataclass(frozen=True)
class _BothCalls:
    """A draft and the judgement of its question, side by side.

    Args:
        generating: Makes the draft. Where the question ends, it is cancelled, and nobody waits for it.
        judging: Judges the question.
        ends: Whether a verdict ends the question.
    """

    generating: Effect
    judging: Effect
    ends: Callable[[Verdict], bool]

    def effect(self) -> Effect:
        """Return both calls as one, whose result is the draft, or its error, and the verdict.

        It raises `QuestionEnded`. An error of the draft waits for the verdict, whose call is paid for.
        """
        return replace(self.generating, run=self._run, arun=self._arun, seconds=None, allowance=None, attempt=None)

    @property
    def _drafting(self) -> Effect:
        return replace(self.generating, events=tuple)

    def _judge(self) -> Verdict:
        try:
            verdict: Verdict = perform(self.judging)
        except flow.DeadlinePassed:
            return _too_late(self.judging)
        return verdict

    async def _ajudge(self) -> Verdict:
        try:
            verdict: Verdict = await aperform(self.judging)
        except flow.DeadlinePassed:
            return _too_late(self.judging)
        return verdict

    def _run(self) -> tuple[Any, Verdict]:
        with flow.DaemonThreads(2) as threads:
            judging, drafting = threads.submit(self._judge), threads.submit(perform, self._drafting)
            verdict = judging.result()
            if self.ends(verdict):
                flow.leave_unjoined()
                raise self._ended(verdict, drafting)
            error = drafting.exception()
            return (drafting.result() if error is None else error), verdict

    async def _arun(self) -> tuple[Any, Verdict]:
        flow.let_calls_be_left()
        judging, drafting = flow.CallInTask(self._ajudge()), flow.CallInTask(aperform(self._drafting))
        try:
            verdict = await judging
            if self.ends(verdict):
                raise self._ended(verdict, drafting)
            await asyncio.wait((drafting,))
            error = drafting.exception()
            return (drafting.result() if error is None else error), verdict
        finally:
            judging.cancel()
            drafting.cancel()

    def _ended(self, verdict: Verdict, drafting: Future[Any] | asyncio.Future[Any]) -> QuestionEnded:
        self.generating.abandon()
        has_draft = drafting.done() and drafting.exception() is None
        return QuestionEnded(verdict, drafting.result() if has_draft else None)
