"""A review by a human: what a reviewer is shown, what may be decided, and how a decision is read."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import ParentCommand
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel, Field, JsonValue, RootModel, ValidationError

from graphs.augment import MARK
from graphs.events import Event, WarningThrottle
from graphs.outcome import InputError, Outcome, Rejected
from graphs.redaction import withhold
from graphs.refinement import Attempt, Decision, Refinement, evolve
from graphs.turns import aclaim_decision, aread_claim, claim_decision, read_claim

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


def review_of(refinement: Refinement, attempt: Attempt, config: RunnableConfig) -> _ReviewCall:
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
        review = decide(read_claim(config))
        claim_decision(config, review.model_dump())
        return review

    async def arun() -> Decided:
        review = decide(await aread_claim(config))
        await aclaim_decision(config, review.model_dump())
        return review

    return _ReviewCall(run, arun)


def apply_review(refinement: Refinement, attempt: Attempt, review: Decided) -> Refinement:
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


def visible_to_generator(refinement: Refinement, *, after: int) -> Refinement:
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


def hide_drafts(handoff: ParentCommand, refinement: Refinement) -> None:
    """Take drafts and feedback of earlier attempts out of what an agent hands over; changes `handoff` in place."""
    command: Command[Any] = handoff.args[0]
    added = {_content_of(message) for message in refinement.added}
    command = replace(command, update=_without(added, command.update), goto=_goto_without(added, command.goto))
    handoff.args = (command,)


def handoff_events(command: ParentCommand, refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish of a handoff: where to, without any text."""
    return (Event("handover", {"attempt": refinement.number, "goto": _targets(command.args[0])}),)


def handoff_warnings(
    command: ParentCommand, refinement: Refinement, conversation: Sequence[AnyMessage], throttle: WarningThrottle
) -> tuple[Event, ...]:
    """Return the warning that an agent handed over with an answer, which nobody judged; none where it did not."""
    contents_before = {_content_of(message) for message in conversation}
    answers = filter(_is_answer, _messages_in(command.args[0]))
    goto = _targets(command.args[0])
    unjudged = any(_content_of(message) not in contents_before for message in answers)
    if not unjudged or not throttle.should_warn((_UNJUDGED_HANDOFF, *goto)):
        return ()
    figures = {"attempt": refinement.number, "goto": goto}
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
