"""What a turn ends in: an answer in the conversation, a reviewer's refusal, or the error that there is none."""

from __future__ import annotations

import secrets
from functools import partial

from langchain_core.messages import AIMessage

from graphs import langgraph_private
from graphs.alarms import Ration, release_alarms
from graphs.attempt import Attempt
from graphs.choosing import Ending
from graphs.errors import JudgeFailed, NotAccepted, Unanswered
from graphs.events import finished_events
from graphs.outcome import Outcome
from graphs.policy import Policy
from graphs.reasoning import without_reasoning
from graphs.refinement import Refinement
from graphs.review import rejection
from graphs.step import Messages, Transition


def answer_of(
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
