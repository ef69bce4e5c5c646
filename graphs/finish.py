"""How a turn ends: with an answer, without one, as a reviewer decides, or by a handoff to another node."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.errors import ParentCommand
from langgraph.types import Command, Send

from graphs import langchain_private, langgraph_private
from graphs.answers import release_answer
from graphs.augment import MARK, added_messages
from graphs.drivers import Effect, Messages, RunContext, Transition, subject_of
from graphs.events import Event, WarningThrottle, finished_events, release_warnings
from graphs.outcome import JudgeFailed, NotAccepted, Outcome, QuestionRefused, Rejected, Unanswered
from graphs.policy import Policy
from graphs.refinement import Refinement
from graphs.review import Decided, WrittenAnswer, apply_review, review_of, visible_to_generator


def rejection(outcome: Outcome) -> Rejected:
    """Return the error that says that a reviewer rejected the answer."""
    attempts = len(outcome.attempts)
    return Rejected(
        f"no answer may be released: {outcome.stop_reason} after {attempts} attempts ({outcome.detail})", outcome
    )


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
        call = review_of(refinement, chosen, config)
        review = yield Effect(run=call.run, arun=call.arun, config=config)
        refinement = apply_review(refinement, chosen, review)
        if not refinement.done:
            added = added_messages(visible_to_generator(refinement, after=chosen.number))
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
