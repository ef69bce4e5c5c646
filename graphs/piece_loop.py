"""A loop whose answers are released in pieces: written, judged and released at once, and mended in the middle.

One effect is one attempt: the generator's stream is read while pieces of it are judged and go out. What is decided
stands in `graphs.piece_release`; here are the calls, as tasks of an event loop or as threads. All of them end with
the attempt, however that ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage
from langgraph.errors import GraphBubbleUp, GraphInterrupt, ParentCommand

from graphs import langchain_private, langgraph_private, loop
from graphs.answers import Attempt, Draft, Piece, kind_of_answer, rejection_for, release_answer
from graphs.augment import added_messages, amendment_messages, continuation_messages
from graphs.drivers import Effect, GeneratorCall, Messages, Node, RunContext, Transition, subject_of
from graphs.events import Event, drafted_events, finished_events, started_events
from graphs.finish import finish_with_answer, hand_off, unanswered
from graphs.generators import Delta, DraftRequest, OnDelta
from graphs.loop import RunningClock, usage_of_draft
from graphs.outcome import REPLACEMENT, DraftError, add_outcome, piece_sample
from graphs.overrides import Bounds
from graphs.piece_release import (
    REFUSED_LATE,
    PieceAttempt,
    is_failure,
    is_late,
    text_alone,
    usage_of_pieces,
    verdict_on,
    with_cost_of,
    without_replacement,
)
from graphs.policy import Policy
from graphs.refinement import LATE_REFUSAL, Refinement, evolve
from graphs.review import Decided
from judges.compose.panel import Panel
from judges.compose.quick import Quick
from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.models.prompt_and_reply import finish_reason_of, fresh_nonce
from judges.prompting.prompts import language_of
from judges.requests import BegunAnswer
from judges.runtime import flow
from judges.runtime.budget import Allowance
from judges.runtime.flow import DeadlinePassed, let_calls_be_left
from judges.runtime.observation import also_within, observing, within
from judges.runtime.prices import with_cost
from judges.sample import Sample
from judges.verdict import Usage, Verdict

_WITHOUT_TEXT = ("empty", "filtered", "refusal", "tool_call")
"""Kinds of a continuation that may add no text: the text of the answer is then what is out."""


class Outlet(Protocol):
    """Takes the pieces of an answer as they are released."""

    def send(self, text: str, message_id: str) -> None:
        """Take a piece of the message with this id, blocking; raises where nobody wants more."""

    async def asend(self, text: str, message_id: str) -> None:
        """Take a piece without blocking; otherwise as `send`."""

    def when_closed(self, leave: Callable[[], None]) -> None:
        """Have a function called when nobody wants more, from any thread."""


class ClientLeft(BaseException):
    """Nobody waits for the answer any more; raised through the code of a generator that blocks."""


def whole_judge(judge: Judge, piece_judge: Judge | None) -> Judge:
    """Return what judges an answer that comes whole: the judge, and the one of pieces where that is another.

    What pieces are refused for would else go out with whatever is held back: an answer in JSON, or one of several.
    """
    if piece_judge is None or piece_judge is judge:
        return judge
    return Panel({"whole": judge, "pieces": piece_judge}, name=judge.name)


class PieceLoop(loop.Loop):
    """The steps of a loop that releases pieces; its step `generate` writes, judges and releases.

    Args:
        generator: As for `Loop`.
        judge: The whole judge.
        policy: The policy.
        name: Name of the loop.
        bounds: How far a request may go.
        piece_judge: Judges pieces.
        closing_judge: Judges the whole answer when its last piece is out; None where nothing is left to judge.
    """

    releases_pieces = True
    _pieces: Sequence[Piece] = ()
    """Pieces of the draft that the closing judge judges: the verdict costs what theirs did, too."""

    def __init__(
        self,
        generator: object,
        judge: Judge,
        policy: Policy,
        *,
        name: str = "self_refine",
        bounds: Bounds | None = None,
        piece_judge: Judge,
        closing_judge: Judge | None,
    ) -> None:
        whole = judge if closing_judge is not judge else whole_judge(judge, piece_judge)
        super().__init__(generator, whole, policy, name=name, bounds=bounds)
        self._piece_judge = piece_judge
        self._closing = None if closing_judge is None else evolve(self, _judge=closing_judge)

    def generate(
        self, refinement: Refinement, messages: Messages, context: RunContext
    ) -> Generator[Effect, Any, Transition]:
        """Write an attempt, judge its pieces, and release those that are accepted."""
        if refinement.policy.release == "answer" or refinement.held_back:
            return (yield from super().generate(refinement, messages, context))
        clock = RunningClock(refinement)
        limit = refinement.limit_reached(clock())
        if limit is not None:
            return self._to_finish(refinement.stop(*limit, now=clock()))
        started = time.perf_counter()
        attempt = self._begin_attempt(refinement, clock)
        effect = self._writing(attempt, refinement, messages, context, clock())
        record = partial(self._record, attempt, refinement, effect, started)
        try:
            yield effect
        except (GraphBubbleUp, ConfigurationError) as error:
            attempt.stop()
            if isinstance(error, ParentCommand):
                return hand_off(refinement, messages, error, self._throttle)
            if isinstance(error, GraphInterrupt) and attempt.deltas:  # its text would go out once more
                raise ConfigurationError(
                    "a human was asked when the answer had begun to go out, and it would be written anew on "
                    "resuming; ask before the model is called, or leave release='pieces' out"
                ) from error
            raise
        except BaseException as error:  # noqa: BLE001 - recorded, and raised unless an answer is left to release
            attempt.stop()
            recorded = record(clock())
            return self._stop_writing(error, refinement, messages, spent=effect.spent, recorded=recorded)
        draft = attempt.draft
        if draft is not None and draft.pending and attempt.release.refused is None:
            usage = usage_of_draft(effect, draft, self.policy) + attempt.void
            return _hand_on(draft.answer, attempt.release.pieces, refinement, usage, clock())
        recorded = record(clock())
        goto: Node = "finish" if recorded.stop_reason is not None else "judge"
        return Transition(refinement=recorded, goto=goto, events=partial(drafted_events, recorded))

    def _stop_writing(
        self,
        error: BaseException,
        refinement: Refinement,
        messages: Messages,
        *,
        spent: Usage,
        recorded: Refinement,
    ) -> Transition:
        """Stop for what ended an attempt; pieces of it that went out are on record, and stay the answer."""
        now = recorded.updated_at or time.time()
        has_pieces = bool(recorded.attempts[-1].pieces)
        if not isinstance(error, Exception):
            if has_pieces:
                add_outcome(error, recorded, messages, now=now)
            else:
                self._break_off(error, refinement, messages, spent, now)
            raise error
        if not has_pieces or isinstance(error, DraftError):
            return self._stop_for(error, refinement, messages, spent, now)
        if isinstance(error, DeadlinePassed) and not recorded.attempts[-1].is_estimated:  # all of it is written
            return self._to_finish(recorded.stop("deadline", "the judge took too long", now=now))
        return self._stop_for(error, recorded, messages, Usage(), now)

    def _begin_attempt(self, refinement: Refinement, clock: Callable[[], float]) -> PieceAttempt:
        policy, before = refinement.policy, refinement.attempts[-1] if refinement.attempts else None
        dropped = next((piece for piece in before.pieces if not piece.released), None) if before else None
        blank = "\n\n" if dropped is None else dropped.text[: len(dropped.text) - len(dropped.text.lstrip())]
        return PieceAttempt(
            policy,
            released=refinement.released_pieces,
            blank=blank,
            most_judged=partial(self._most_judged, refinement) if refinement.is_judged else None,
            clock=lambda: clock() - refinement.started_at,
            steps=tuple(getattr(self._generator, "steps", ())),
        )

    def _most_judged(self, refinement: Refinement, has_verdict: bool) -> int:  # noqa: FBT001 - called with it alone
        """Return how many pieces are judged at once.

        The prompt about a piece begins with the one about the piece before. A server reads it once if it has read
        that: so the first of many short replies is waited for, and each where a slot of the server keeps what it
        has read to itself.
        """
        judge = self._piece_judge
        is_begun = has_verdict or bool(refinement.released_pieces)
        is_slotted = any(getattr(model, "has_slots", False) for model in judge.models)
        is_alone = is_slotted or (isinstance(judge, Quick) and not is_begun)
        return 1 if is_alone else refinement.policy.pieces_in_flight

    def _record(
        self, attempt: PieceAttempt, refinement: Refinement, effect: Effect, started: float, now: float
    ) -> Refinement:
        """Record the attempt with its pieces; one that was aborted with an estimate of what it consumed."""
        draft, pieces = attempt.draft, attempt.release.pieces
        is_estimated = draft is None
        if draft is None:
            name, usage = attempt.estimate()
            usage = with_cost(usage, name, self.policy.prices) if self.policy.prices else usage
            named = AIMessage("", response_metadata={"model_name": name} if name else {})
            draft = Draft(answer=named, steps=attempt.steps)
        else:
            usage = usage_of_draft(effect, draft, self.policy)
        if attempt.release.refused is not None:
            draft = Draft(answer=text_alone(draft.answer), steps=draft.steps, evidence=draft.evidence)
        answer = draft.answer
        kind = kind_of_answer(answer)
        is_judged = kind == "refusal" and self.policy.judge_refusals
        adds_nothing = bool(refinement.released_pieces) and kind in _WITHOUT_TEXT and not is_judged
        if pieces or attempt.text.has_thought or adds_nothing:  # one that only thought said nothing
            text = "".join([*refinement.released_pieces, *(piece.text for piece in pieces)])
            if str(answer.text) != text:
                answer = answer.model_copy(update={"content": text})
        attempt.leave_judging()
        before = refinement.pause(attempt.void, now=now) if attempt.void else refinement
        return before.add_draft(
            answer,
            **draft.fields(checks_calls=self.policy.check_tool_calls),
            skip_reason=draft.skip_reason,
            usage=usage,
            latency_s=time.perf_counter() - started,
            now=now,
            pieces=pieces,
            is_estimated=is_estimated,
        )

    def _writing(
        self, attempt: PieceAttempt, refinement: Refinement, messages: Messages, context: RunContext, now: float
    ) -> Effect:
        """Return the call that writes an attempt, judges its pieces and releases them."""
        number = refinement.number
        generator, temperature = self._generator_for(refinement.generated)
        prompt = refinement.prompt(messages)
        attempt.prompt_chars = sum(len(str(message.text)) for message in prompt)
        subject = partial(subject_of, "draft", number, prompt)
        config = context.for_generator(
            self._run_name(number), subject, may_interrupt=generator.may_interrupt, silent=True
        )
        allowance = self._generators_allowance(generator, refinement, now)
        allowance = None if allowance is None else Allowance(prices=self.policy.prices)
        write = GeneratorCall(generator, DraftRequest(prompt, config, temperature), allowance)
        calls = _Calls(
            write=write,
            judge=partial(self._judgement_of_piece, attempt, refinement, messages, context),
            out=_Release(context, refinement),
            attempt=attempt,
            shared=refinement.allowance(now, purpose="the answer was written"),
            is_last=len(refinement.attempts) + 1 >= refinement.max_attempts_now,
        )

        return Effect(
            run=calls.run,
            arun=calls.arun,
            config=config,
            seconds=refinement.seconds_left(now),
            events=partial(started_events, refinement),
            refinement=refinement,
            allowance=allowance,
            attempt=number,
        )

    def _judgement_of_piece(
        self, attempt: PieceAttempt, refinement: Refinement, messages: Messages, context: RunContext, number: int
    ) -> _Judgement:
        """Return the call that judges the piece of a number."""
        *before, piece = (*refinement.released_pieces, *attempt.release.texts_until(number))
        sample = piece_sample(messages, refinement, "".join(before), piece, attempt.steps)
        nonce = refinement.memo.recall("nonce", (refinement.id,), fresh_nonce)  # of which its writer sees nothing
        begun = BegunAnswer(nonce, tuple(before), sample.response or "")
        config = context.for_judge(partial(subject_of, "judge", refinement.number, (AIMessage(piece),)))
        prices, judge = self.policy.prices, self._piece_judge
        quick = judge if isinstance(judge, Quick) else None
        observed = self._observation(refinement, config, context, attempt.count_judging(number))

        def ask() -> Generator[Judge, Verdict, Verdict]:
            with observed, observing(begun=begun), within(Allowance(prices=prices)) if prices else nullcontext():
                try:
                    if quick is None:
                        return (yield judge)
                    first = yield quick.first
                    if not quick.is_unsure(first):
                        return first
                    decided = yield quick.judge
                    return decided.model_copy(update={"usage": first.usage + decided.usage})
                except GraphInterrupt as error:  # while a human thinks, nothing keeps the rest of the answer
                    raise ConfigurationError(
                        f"judge {judge.name!r} asks a human, and cannot judge pieces of an answer that is still "
                        f"written; give another piece_judge, or leave release='pieces' out"
                    ) from error

        return _Judgement(
            run=lambda: flow.run(ask(), lambda request: request(sample)),
            arun=lambda: flow.arun(ask(), lambda request: request.acall(sample)),
        )

    def judge(
        self, refinement: Refinement, messages: Messages, context: RunContext
    ) -> Generator[Effect, Verdict, Transition]:
        """Record what the pieces came to; if all were accepted, ask the closing judge about the whole."""
        clock, last = RunningClock(refinement), refinement.attempts[-1]
        now = clock()
        refused = next((piece for piece in last.pieces if not piece.released), None)
        if refused is not None and refused.verdict is not None:
            verdict = yield from self._with_feedback(refused, refinement, messages, context)
            others = [piece for piece in last.pieces if piece is not refused]
            return self._record_verdict(refinement, messages, with_cost_of(others, verdict), clock())
        flaw = last.flaw(is_last=refinement.is_last) if not last.fault else None
        if (
            refinement.policy.release == "answer"
            or refinement.held_back
            or not refinement.released_pieces
            or last.misfit
            or flaw == "invalid_tool_call"
        ):
            return (yield from super().judge(refinement, messages, context))
        if flaw == "cut":
            verdict = rejection_for(flaw, language_of(refinement.question or last.text))
            return self._record_verdict(refinement, messages, with_cost_of(last.pieces, verdict), now)
        verdict = verdict_on(last.pieces, before=refinement.pieces_before, judge=self._piece_judge.name)
        if self._closing is None or is_failure(verdict):
            return self._record_verdict(refinement, messages, verdict, now)
        end = yield from loop.Loop.judge(evolve(self._closing, _pieces=last.pieces), refinement, messages, context)
        return end

    def _with_feedback(
        self, refused: Piece, refinement: Refinement, messages: Messages, context: RunContext
    ) -> Generator[Effect, Verdict, Verdict]:
        """Return the verdict on a refused piece; one of a single token gets feedback of the judge behind it."""
        verdict, quick = refused.verdict, self._piece_judge
        assert verdict is not None  # noqa: S101 - it was refused
        if not isinstance(quick, Quick) or verdict.feedback or verdict.unscored or refinement.is_last:
            return verdict
        before = "".join(refinement.released_pieces)
        sample = piece_sample(messages, refinement, before, refused.text, refinement.attempts[-1].steps)
        behind: Any = evolve(self, _judge=quick.judge)
        request = behind.ask_judge(refinement, sample, context, RunningClock(refinement)())
        try:
            reply = yield request
        except DeadlinePassed:
            return verdict.model_copy(update={"usage": verdict.usage + request.spent})
        words = {"rationale": reply.rationale, "feedback": reply.feedback}
        return verdict.model_copy(update={**words, "usage": verdict.usage + reply.usage})

    def ask_judge(self, refinement: Refinement, sample: Sample, context: RunContext, now: float) -> Effect:
        """Return the call of the judge about a sample; what judging the pieces of the draft consumed is spent."""
        spent = usage_of_pieces(refinement.attempts[-1].pieces)
        return super().ask_judge(refinement.pause(spent, now=now) if spent else refinement, sample, context, now)

    def _with_verdict(self, refinement: Refinement, verdict: Verdict, *, now: float) -> Refinement:
        """Record the verdict, which stands whatever comes of a late one, where nothing more can be said."""
        judged = refinement.add_verdict(with_cost_of(self._pieces, verdict), now=now)
        if not is_late(judged):
            return judged
        if judged.policy.on_late_refusal == "flag" or judged.stop_reason is not None:
            return evolve(judged, stop_reason="late_refusal", detail=REFUSED_LATE, ended_at=now)
        return evolve(judged, held_back=LATE_REFUSAL) if judged.policy.on_late_refusal == "replace" else judged

    def _added(self, judged: Refinement) -> list[AnyMessage]:
        """Return what the next attempt is asked for: it goes on after what was released, or takes its place."""
        if not judged.released_pieces or judged.held_back:
            return added_messages(judged)
        return amendment_messages(judged) if is_late(judged) else continuation_messages(judged)

    def finish(
        self, refinement: Refinement, messages: Messages, context: RunContext
    ) -> Generator[Effect, Decided, Transition]:
        """Append the answer: what was released, and what the policy adds to it."""
        if refinement.held_back == LATE_REFUSAL and refinement.passed:
            return self._replace(refinement, messages)
        last = refinement.attempts[-1] if refinement.attempts else None
        if refinement.held_back == LATE_REFUSAL:
            refinement = without_replacement(refinement)
            last = next((attempt for attempt in reversed(refinement.attempts) if attempt.pieces), None)
        was_piecewise = any(attempt.pieces for attempt in refinement.attempts)
        sent = "".join(refinement.released_pieces)
        is_skipped = refinement.stop_reason == "skipped" and last is not None and not last.pieces
        if last is None or not was_piecewise or (is_skipped and not (sent and last.text == sent)):
            return (yield from super().finish(refinement, messages, context))
        now, (ending, _) = time.time(), refinement.conclusion
        if ending == "raise" or (ending == "nothing" and not refinement.released_pieces):
            events = partial(finished_events, refinement)
            error = unanswered(refinement, messages, self.policy, now, raised=ending == "raise")
            return Transition(refinement=refinement, events=events, error=error)
        answer = self._answer(refinement, last, ending)
        refinement = refinement.release(last.number)
        transition = finish_with_answer(
            refinement, messages, answer, now, throttle=self._throttle, id=refinement.message_id
        )
        if sent and transition.update is not None:
            end = partial(show_rest, transition.update["messages"][0], sent, refinement.refiner, context)
            yield Effect(run=end, arun=partial(_ashow, end), config=None)
        return transition

    def _replace(self, refinement: Refinement, messages: Messages) -> Transition:
        """Append the answer that takes the place of the one that is out, as a message of its own."""
        last, replaced = refinement.attempts[-1], refinement.message_id
        answer = release_answer(last, self.policy)
        released = refinement.release(last.number, detail=f"{REFUSED_LATE}; this one takes its place")
        transition = finish_with_answer(
            released, messages, answer, time.time(), throttle=self._throttle, id=f"{replaced}{REPLACEMENT}"
        )
        figures, texts = {"attempt": last.number, "replaces": replaced}, {"text": last.text}
        event = Event("replace", figures, texts, show=True)
        return replace(transition, events=lambda: (event, *finished_events(released)))

    def _answer(self, refinement: Refinement, last: Attempt, ending: str) -> AIMessage:
        """Return the message of what was released; where that is not all, it says that it was filtered."""
        text = "".join(refinement.released_pieces)
        if refinement.stop_reason == "skipped":
            return release_answer(last, self.policy)
        if refinement.passed or refinement.stop_reason == "late_refusal":
            answer = release_answer(last, self.policy)
            return answer if str(answer.text) == text else answer.model_copy(update={"content": text})
        if ending == "fallback":
            text = "\n\n".join(part for part in (text, self.policy.fallback) if part)
        answer = text_alone(last.answer).model_copy(update={"content": text})
        is_open = all(piece.released for piece in last.pieces)
        reason = finish_reason_of(last.answer.response_metadata) if is_open else "content_filter"
        if reason:
            answer.response_metadata["finish_reason"] = reason
        return answer


def _hand_on(
    answer: AIMessage, pieces: Sequence[Piece], refinement: Refinement, usage: Usage, now: float
) -> Transition:
    """Go on after a message that calls a tool; where text of it is out, it is the message that has this text."""
    paused = refinement.pause(usage + usage_of_pieces(pieces), now=now)
    text = "".join([*refinement.released_pieces, *(piece.text for piece in pieces if piece.released)])
    if not text:
        return Transition(refinement=paused)
    changes = {} if str(answer.text) == text else {"content": text}
    message = answer.model_copy(update={"id": refinement.message_id, **changes})
    return Transition(refinement=paused.hand_on(), update={"messages": [message]})


class _Release:
    """Where the pieces of an attempt go: to an outlet, and to handlers that show tokens."""

    def __init__(self, context: RunContext, refinement: Refinement) -> None:
        self._outlet: Outlet | None = langgraph_private.carried(context.config, langgraph_private.OUTLET)
        self._id = refinement.message_id
        self._tokens = _token_run(context, refinement.refiner, self._id)

    def send(self, text: str) -> None:
        if self._tokens is not None:
            self._tokens.send(text)
        if self._outlet is not None:
            self._outlet.send(text, self._id)

    async def asend(self, text: str) -> None:
        if self._tokens is not None:
            self._tokens.send(text)
        if self._outlet is not None:
            await self._outlet.asend(text, self._id)

    def when_closed(self, leave: Callable[[], None]) -> None:
        if self._outlet is not None:
            self._outlet.when_closed(leave)

    def end(self) -> None:
        if self._tokens is not None:
            self._tokens.end()


def last_chunk(answer: AIMessage, sent: str) -> AIMessageChunk:
    """Return what of a message did not go out yet; one that replaces another is whole, under an id of its own."""
    fields: dict[str, Any] = answer.model_dump(exclude={"type"})
    text = str(answer.text)
    if sent and "replaces" not in answer.response_metadata.get(langgraph_private.SUMMARY, {}):
        fields["content"] = text[len(sent) :] if text.startswith(sent) else ""
    return AIMessageChunk(**fields, chunk_position="last")


def show_rest(answer: AIMessage, sent: str, name: str, context: RunContext) -> None:
    """Show handlers of tokens, which have the pieces of a message, what else there is to it.

    Args:
        answer: The message, under the id of its pieces.
        sent: Its pieces.
        name: Name of the refiner.
        context: Says who listens.
    """
    tokens = _token_run(context, name, answer.id or "")
    if tokens is not None:
        tokens.show(last_chunk(answer, sent))
        tokens.end()


def _token_run(context: RunContext, name: str, message_id: str) -> langchain_private.TokenRun | None:
    configs = langgraph_private.progress_configs(context.config)
    return langchain_private.TokenRun.under(configs, name, message_id)


async def _ashow(show: Callable[[], None]) -> None:
    show()


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The call about a piece, blocking and not."""

    run: Callable[[], Verdict]
    arun: Callable[[], Awaitable[Verdict]]


_Happening = Callable[[], None]
"""What happened, as a function that takes note of it; raises what ended the attempt."""


class _Threads:
    """Calls in threads, which end by themselves once they are left."""

    def __init__(self) -> None:
        self._happened: SimpleQueue[_Happening] = SimpleQueue()
        self._left = threading.Event()

    def start(self, call: Callable[[], Any], note: Callable[[Any], None]) -> None:
        def work() -> None:
            try:
                self._happened.put(partial(note, call()))
            except BaseException as error:  # noqa: BLE001 - raised where the attempt is conducted
                self._happened.put(partial(_throw, error))

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), daemon=True, name="refine-piece").start()

    def hear(self, note: OnDelta, delta: Delta) -> None:
        """Take what a generator wrote; break it off where it is not wanted any more."""
        if self._left.is_set():
            raise ClientLeft
        self._happened.put(partial(note, delta))

    def next(self) -> None:
        """Wait until something happened, and take note of it."""
        self._happened.get()()

    def break_off(self) -> None:
        """Have the generator stop with the next chunk."""
        self._left.set()

    def leave(self) -> None:
        """Wake whoever waits for the attempt, and end it."""
        self._left.set()
        self._happened.put(partial(_throw, ClientLeft()))


class _Tasks:
    """Calls in tasks, all of which have ended when they are left."""

    def __init__(self) -> None:
        let_calls_be_left()
        self._happened: asyncio.Queue[_Happening] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, call: Callable[[], Awaitable[Any]], note: Callable[[Any], None]) -> asyncio.Task[None]:
        async def work() -> None:
            try:
                self._happened.put_nowait(partial(note, await call()))
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - raised where the attempt is conducted
                self._happened.put_nowait(partial(_throw, error))

        task = asyncio.ensure_future(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def hear(self, note: OnDelta, delta: Delta) -> None:
        """Take what a generator wrote."""
        self._happened.put_nowait(partial(note, delta))

    async def next(self) -> None:
        """Wait until something happened, and take note of it."""
        (await self._happened.get())()

    async def end(self) -> None:
        """End all calls, and wait until they have."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls of one attempt, side by side: one that writes, and those that judge.

    Args:
        write: The generator's call.
        judge: Returns the call about a piece, by its number in this attempt.
        out: Where accepted pieces go.
        attempt: What has come of them.
        shared: What both kinds of calls together may spend.
        is_last: Whether no attempt follows.
    """

    write: GeneratorCall
    judge: Callable[[int], _Judgement]
    out: _Release
    attempt: PieceAttempt
    shared: Allowance | None
    is_last: bool

    def run(self) -> Draft | None:
        """Write, judge and release, each call in a thread; return the draft if it came to one."""
        threads = _Threads()
        self.attempt.stop = threads.leave
        self.out.when_closed(threads.leave)
        try:
            with also_within(self.shared):
                threads.start(self.write.telling(partial(threads.hear, self.attempt.hear)).run, self._end)
                for text in self._conduct(lambda call, note: threads.start(call.run, note), threads.break_off):
                    threads.next() if text is None else self.out.send(text)
        finally:
            threads.break_off()
            self.out.end()
        return self.attempt.draft

    async def arun(self) -> Draft | None:
        """Write, judge and release, each call in a task; all have ended when this returns the draft, if any."""
        tasks = _Tasks()
        try:
            with also_within(self.shared):
                writing = tasks.start(self.write.telling(partial(tasks.hear, self.attempt.hear)).arun, self._end)
                for text in self._conduct(lambda call, note: tasks.start(call.arun, note), writing.cancel):
                    await (tasks.next() if text is None else self.out.asend(text))
        finally:
            self.out.end()
            await tasks.end()
        return self.attempt.draft

    def _conduct(
        self, start: Callable[[_Judgement, Callable[[Any], None]], object], break_off: Callable[[], object]
    ) -> Iterator[str | None]:
        """Yield each text that goes out, and None where to wait until something happens."""
        attempt = self.attempt
        while not attempt.release.is_settled:
            yield None
            for number in attempt.release.take_due():
                start(self.judge(number), partial(attempt.release.judge, number))
            yield from attempt.release.take_released(attempt.clock())
            if attempt.release.refused is not None:
                break_off()

    def _end(self, draft: Draft) -> None:
        self.attempt.end(draft, is_last=self.is_last)


def _throw(error: BaseException) -> None:
    raise error
