"""How a turn ends: with an answer, without one, by a review of a human, or by a handoff to another node."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.errors import ParentCommand
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel, Field, JsonValue, RootModel, ValidationError

from graphs import langchain_private, langgraph_private
from graphs.answers import Attempt, release_answer
from graphs.augment import MARK, added_messages
from graphs.drivers import Effect, Messages, RunContext, Transition, subject_of
from graphs.events import Event, WarningThrottle, finished_events, release_warnings
from graphs.outcome import InputError, JudgeFailed, NotAccepted, Outcome, QuestionRefused, Rejected, Unanswered
from graphs.policy import Policy
from graphs.redaction import withhold
from graphs.refinement import Decision, Refinement, evolve
from graphs.turns import CarriedDecision

_FINAL_FORMS = "'accept', 'reject' or {'answer': 'the text to send'}"
_ALL_FORMS = f"{_FINAL_FORMS}, or {{'feedback': 'what to change'}} for another attempt"


class WrittenAnswer(BaseModel, strict=True, extra="forbid"):
    """A text that a reviewer wrote instead of the draft."""

    answer: str = Field(pattern=r"\S")


class SentBack(BaseModel, strict=True, extra="forbid"):
    """What a reviewer asks to change, in one more attempt."""

    feedback: str = Field(pattern=r"\S")


class _FinalReview(RootModel[Literal["accept", "reject"] | WrittenAnswer]):
    """What a reviewer may decide where no further attempt is allowed."""


class Review(RootModel[Literal["accept", "reject"] | WrittenAnswer | SentBack]):
    """What a reviewer may decide; LangGraph checks it before it is stored, so a mistyped one can be given anew."""


Decided = Review | _FinalReview


class _ReviewCall(NamedTuple):
    """The call that waits for a reviewer, blocking or not."""

    run: Callable[[], Decided]
    arun: Callable[[], Awaitable[Decided]]


def _review_of(refinement: Refinement, attempt: Attempt, config: RunnableConfig) -> _ReviewCall:
    """Return the call that puts an attempt to a human, who resumes the graph with a decision."""
    question = {
        "stop_reason": refinement.stop_reason,
        "attempts": len(refinement.attempts),
        "answer": attempt.text,
        "rating": attempt.rating,
        "feedback": withhold(attempt.feedback, refinement.evidence),
    }
    schema: type[Decided] = Review if _may_be_revised(refinement) else _FinalReview

    def decide(claimed: JsonValue) -> Decided:
        if claimed is not None:
            return Review.model_validate(claimed)
        try:
            return interrupt(question, response_schema=schema)
        except ValidationError as error:
            raise InputError(_refusal(error, refinement)) from error

    def run() -> Decided:
        review = decide(_read_claim(config))
        _claim_decision(config, review.model_dump())
        return review

    async def arun() -> Decided:
        review = decide(await _aread_claim(config))
        await _aclaim_decision(config, review.model_dump())
        return review

    return _ReviewCall(run, arun)


def _apply_review(refinement: Refinement, attempt: Attempt, review: Decided) -> Refinement:
    """Return the record with what a reviewer decided about an attempt."""
    match review.root:
        case WrittenAnswer():
            return _decide(refinement, "rewritten", None, "written by a reviewer")
        case SentBack(feedback=feedback):
            return _revise(refinement, attempt.number, feedback)
        case "accept":
            return _decide(refinement, "accepted", attempt.number, "released by a reviewer")
        case _:
            return _decide(refinement, "rejected", None, "refused by a reviewer")


def _decide(refinement: Refinement, decision: Decision, released: int | None, detail: str) -> Refinement:
    """Record how a reviewer ended the turn, with a new `detail`; the stop reason stays."""
    return evolve(refinement.release(released, detail=detail), decision=decision)


def _revise(refinement: Refinement, number: int, feedback: str) -> Refinement:
    """Record that a reviewer sent an attempt back, for one more attempt; it is then not released any more."""
    if not _may_be_revised(refinement):
        raise ValueError("the refinement awaits no review, or no further attempt is allowed")
    attempts = tuple(
        attempt.model_copy(update={"review": feedback}) if attempt.number == number else attempt
        for attempt in refinement.attempts
    )
    revisions = (*refinement.revisions, len(attempts))
    return evolve(
        refinement,
        attempts=attempts,
        revisions=revisions,
        stop_reason=None,
        detail="",
        ended_at=None,
        updated_at=refinement.ended_at if refinement.updated_at is None else refinement.updated_at,
    )


def _may_be_revised(refinement: Refinement) -> bool:
    """Return whether a reviewer who is asked may send the answer back: revisions, budgets and time leave room."""
    ended_at = refinement.started_at if refinement.ended_at is None else refinement.ended_at
    return (
        refinement.ending == "interrupt"
        and len(refinement.revisions) < refinement.policy.max_revisions
        and not refinement.awaits_verdict
        and refinement.limit_reached(ended_at) is None
    )


def _visible_to_generator(refinement: Refinement, *, after: int) -> Refinement:
    """Return the record as the generator is to see it: with the attempt that was sent back as the last."""
    others = (attempt for attempt in refinement.attempts if attempt.number != after)
    last = (attempt for attempt in refinement.attempts if attempt.number == after)
    return evolve(refinement, attempts=(*others, *last))


def rejection(outcome: Outcome) -> Rejected:
    """Return the error that says that a reviewer rejected the answer."""
    attempts = len(outcome.attempts)
    return Rejected(
        f"no answer may be released: {outcome.stop_reason} after {attempts} attempts ({outcome.detail})", outcome
    )


def _refusal(error: ValidationError, refinement: Refinement) -> str:
    """Return why a decision is refused, without its text."""
    if _may_be_revised(refinement):
        return f"the review cannot be read; a review is {_ALL_FORMS}"
    if _is_sent_back(error.errors(include_url=False)[0]["input"]):
        limit = refinement.limit_reached(refinement.ended_at or refinement.started_at)
        reason = f"it was sent back {len(refinement.revisions)} times" if limit is None else limit[1]
        return f"no further attempt is allowed: {reason}; the review is then {_FINAL_FORMS}"
    return f"the review cannot be read; a review is {_FINAL_FORMS}"


def _is_sent_back(decision: Any) -> bool:
    try:
        SentBack.model_validate(decision)
    except ValidationError:
        return False
    return True


_UNJUDGED_HANDOFF = "generator handed over to another node with an answer that was not judged"


def hand_off(
    refinement: Refinement, messages: Messages, handoff: ParentCommand, throttle: WarningThrottle
) -> Transition:
    """Leave the loop for another node, as the generator commands, and take no draft there.

    Drafts and feedback of earlier attempts are taken out of what is handed over, in place. An event says where to,
    without any text, and a warning that there is an answer in it, which nobody judged.
    """
    added = {_content_of(message) for message in refinement.added}
    before: Command[Any] = handoff.args[0]
    command = replace(before, update=_without(added, before.update), goto=_goto_without(added, before.goto))
    handoff.args = (command,)
    figures = {"attempt": refinement.number, "goto": _targets(command)}
    return Transition(
        refinement=refinement,
        events=lambda: (Event("handover", figures),),
        warnings=_handoff_warnings(command, figures, messages, throttle),
        error=handoff,
    )


def _handoff_warnings(
    command: Command[Any], figures: dict[str, Any], conversation: Messages, throttle: WarningThrottle
) -> tuple[Event, ...]:
    contents_before = {_content_of(message) for message in conversation}
    answers = filter(_is_answer, _messages_in(command))
    unjudged = any(_content_of(message) not in contents_before for message in answers)
    if not unjudged or not throttle.should_warn((_UNJUDGED_HANDOFF, *figures["goto"])):
        return ()
    return (Event(_UNJUDGED_HANDOFF, figures, streamed=False, level=logging.WARNING),)


def _content_of(message: BaseMessage) -> tuple[str, str]:
    return message.type, str(message.text)


def _is_answer(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and not message.tool_calls and bool(str(message.text).strip())


def _without(added: set[tuple[str, str]], update: Any) -> Any:
    """Return an update without the messages that the loop added to the prompt."""
    match update:
        case Mapping():
            return {key: _without(added, value) for key, value in update.items()}
        case list():
            return [_without(added, value) for value in update if not _is_added(value, added)]
        case (str() as key, value):
            return key, _without(added, value)
        case Send(node=node, arg=arg):
            return Send(node, _without(added, arg))
        case _:
            return update


def _goto_without(added: set[tuple[str, str]], goto: Any) -> Any:
    return tuple(_without(added, list(goto))) if isinstance(goto, tuple) else _without(added, goto)


def _is_added(value: object, added: set[tuple[str, str]]) -> bool:
    return isinstance(value, BaseMessage) and (MARK in value.additional_kwargs or _content_of(value) in added)


def _messages_in(value: object) -> Iterator[BaseMessage]:
    """Yield every message that a command hands over."""
    match value:
        case BaseMessage():
            yield value
        case Command(update=update, goto=goto):
            yield from _messages_in([update, goto])
        case Send(arg=arg):
            yield from _messages_in(arg)
        case Mapping():
            yield from _messages_in(list(value.values()))
        case list() | tuple():
            for part in value:
                yield from _messages_in(part)


def _targets(command: Command[Any]) -> list[str]:
    targets = command.goto if isinstance(command.goto, list | tuple) else [command.goto]
    return [target.node if isinstance(target, Send) else str(target) for target in targets]


def finish_with_answer(
    refinement: Refinement,
    messages: Messages,
    answer: AIMessage,
    now: float,
    *,
    throttle: WarningThrottle,
    id: str | None = None,  # noqa: A002 - the field's name
) -> Transition:
    """End the turn with an answer, under a message id of its own."""
    metadata = dict(answer.response_metadata)
    final = answer.model_copy(update={"id": id or os.urandom(16).hex(), "response_metadata": metadata})
    warnings = () if _is_flawless(refinement) else release_warnings(refinement, messages, throttle)
    outcome = Outcome.of(refinement, messages, final, now=now)
    metadata[langgraph_private.SUMMARY] = summary = outcome.summary()
    langchain_private.with_hints(final)
    return Transition(
        refinement=refinement,
        update={"messages": [final], langgraph_private.SUMMARY: summary},
        events=partial(finished_events, refinement),
        outcome=outcome,
        warnings=warnings,
    )


def _is_flawless(refinement: Refinement) -> bool:
    """Check whether a single judge accepted the answer and no certificate is in force: nothing to warn of then."""
    verdict = refinement.attempts[-1].verdict if refinement.stop_reason == "accepted" else None
    return verdict is not None and not verdict.items and refinement.policy.certificate is None


def _finish_rejected(refinement: Refinement, messages: Messages, now: float) -> Transition:
    """End the turn without an answer, as a reviewer decided; the summary tells it from one that goes on."""
    outcome = Outcome.of(refinement, messages, None, now=now)
    return Transition(
        refinement=refinement,
        update={langgraph_private.SUMMARY: outcome.summary()},
        events=partial(finished_events, refinement),
        outcome=outcome,
        refusal=rejection(outcome),
    )


def unanswered(
    refinement: Refinement, messages: Messages, policy: Policy, now: float, *, raised: bool
) -> Unanswered:
    """Return the error of a turn without an answer that may be released; `raised` where the policy says so."""
    outcome = Outcome.of(refinement, messages, None, now=now)
    message = f"no answer may be released: {refinement.stop_reason} after {len(refinement.attempts)} attempts"
    message = f"{message} ({refinement.detail})" if refinement.detail else message
    if not raised:
        return Unanswered(message, outcome)
    is_rated = refinement.best is not None or any(attempt.is_withheld for attempt in refinement.attempts)
    unjudged = bool(refinement.attempts) and not is_rated and policy.on_judge_error == "raise"
    if refinement.stop_reason == "question_refused":
        return QuestionRefused(message, outcome)
    failed = refinement.stop_reason == "judge_failed" or unjudged
    return (JudgeFailed if failed else NotAccepted)(message, outcome)


def finish(
    refinement: Refinement, messages: Messages, context: RunContext, policy: Policy, *, throttle: WarningThrottle
) -> Generator[Effect, Decided, Transition]:
    """Append the answer, and only the answer, to the conversation; or go on as a reviewer decides."""
    now, (ending, chosen) = time.time(), refinement.conclusion
    if ending == "interrupt" and chosen is not None:
        config = context.for_review(partial(subject_of, "review", chosen.number, (*chosen.steps, chosen.answer)))
        call = _review_of(refinement, chosen, config)
        review = yield Effect(run=call.run, arun=call.arun, config=config)
        refinement = _apply_review(refinement, chosen, review)
        if not refinement.done:
            added = added_messages(_visible_to_generator(refinement, after=chosen.number))
            return Transition(refinement=refinement.add_messages(added), goto="generate")
        if refinement.decision == "rejected":
            return _finish_rejected(refinement, messages, now)
        written = review.root.answer if isinstance(review.root, WrittenAnswer) else None
        answer = release_answer(chosen, policy) if written is None else AIMessage(written)
    elif ending == "answer" and chosen is not None:
        refinement = refinement.release(chosen.number)
        answer = release_answer(chosen, policy)
    elif ending == "fallback":
        answer = AIMessage(policy.fallback or "")
    else:
        events = partial(finished_events, refinement)
        error = unanswered(refinement, messages, policy, now, raised=ending == "raise")
        return Transition(refinement=refinement, events=events, error=error)
    return finish_with_answer(refinement, messages, answer, now, throttle=throttle)


_CLAIM = "refine_decision"
"""Task and channel under which the claim of a review is stored."""


def _read_claim(config: RunnableConfig) -> JsonValue:
    """Return the decision that another run claimed the open review for, and did not live to carry out; or None.

    A run that carries a decision of its own gets None: whose decision counts is seen when it claims the review.
    """
    position = _unclaimed(config)
    return None if position is None else _claim_in(position.checkpointer.get_tuple(position.own)).get("decision")


async def _aread_claim(config: RunnableConfig) -> JsonValue:
    """Return the claimed decision without blocking; otherwise as `_read_claim`."""
    position = _unclaimed(config)
    if position is None:
        return None
    return _claim_in(await position.checkpointer.aget_tuple(position.own)).get("decision")


def _claim_decision(config: RunnableConfig, content: JsonValue) -> None:
    """Claim the open review for the decision that this run carries: of all processes, the first one gets it.

    The claim is stored with the checkpoint that waits, as a task's write, of which a checkpointer keeps the first.
    It holds the decision, so that another run can carry it out where this one is killed in the midst of it.

    Raises:
        InputError: If another decision was first.
    """
    position, decision = langgraph_private.checkpoint_of(config), CarriedDecision.of(config)
    if position is not None and decision is not None:
        position.checkpointer.put_writes(position.own, _claim(decision, content), _CLAIM)
        _refuse_second(position.checkpointer.get_tuple(position.own), decision.id)


async def _aclaim_decision(config: RunnableConfig, content: JsonValue) -> None:
    """Claim the open review without blocking; otherwise as `_claim_decision`."""
    position, decision = langgraph_private.checkpoint_of(config), CarriedDecision.of(config)
    if position is not None and decision is not None:
        await position.checkpointer.aput_writes(position.own, _claim(decision, content), _CLAIM)
        _refuse_second(await position.checkpointer.aget_tuple(position.own), decision.id)


def _unclaimed(config: RunnableConfig) -> langgraph_private.Position | None:
    return None if CarriedDecision.of(config) is not None else langgraph_private.checkpoint_of(config)


def _claim(decision: CarriedDecision, content: JsonValue) -> list[tuple[str, JsonValue]]:
    return [(_CLAIM, {"id": decision.id, "decision": content})]


def _claim_in(waiting: CheckpointTuple | None) -> dict[str, JsonValue]:
    """Return the claim that is stored with a checkpoint; empty where there is none."""
    writes = (waiting.pending_writes or []) if waiting is not None else []
    return next((value for task, _, value in writes if task == _CLAIM and isinstance(value, dict)), {})


def _refuse_second(waiting: CheckpointTuple | None, claim: str) -> None:
    if _claim_in(waiting).get("id", claim) != claim:
        raise InputError(
            "no decision is awaited on this thread: another one was first; if its process was ended before it was "
            "carried out, resume with None to do so"
        )
