"""Whether a new question may begin a turn where the turn before waits for a human, or was rejected by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langgraph.types import StateSnapshot

from graphs import langgraph_private
from graphs.errors import ReviewPending

OnNewQuestion = Literal["refuse", "supersede"]
"""What becomes of a new question while the turn before it waits for a human."""


def admitted(question: Any, before: StateSnapshot, setting: OnNewQuestion) -> Any:
    """Return the input of a new turn, or refuse it.

    A question whose answer was rejected, or that is superseded, leaves the conversation: it would otherwise be
    answered together with the new one, past the reviewer.

    Args:
        question: The input of the graph.
        before: The state of the thread.
        setting: What to do where the turn before waits.

    Raises:
        ReviewPending: If it waits, and new questions are refused.
    """
    if before.interrupts and setting == "refuse":
        raise ReviewPending(
            "a human's decision is awaited on this thread, so a new question is refused; decide with "
            "Command(resume=...) first, or let new questions take its place by on_new_question='supersede'"
        )
    messages: Sequence[AnyMessage] = before.values.get("messages") or ()
    ended_without = before.values.get(langgraph_private.SUMMARY) is not None
    if not isinstance(question, Mapping) or not (before.interrupts or ended_without):
        return question
    removed = [RemoveMessage(id=message.id) for message in _unanswered(messages) if message.id]
    if not removed:
        return question
    added = question.get("messages") or []
    return {**question, "messages": [*removed, *(added if isinstance(added, list) else [added])]}


def with_status(state: StateSnapshot) -> StateSnapshot:
    """Return a state whose status is `waiting` where a human is to decide, also inside a generator or a judge."""
    if not state.interrupts or not isinstance(state.values, dict):
        return state
    return state._replace(values={**state.values, langgraph_private.STATUS: "waiting"})


def _unanswered(messages: Sequence[AnyMessage]) -> Iterator[AnyMessage]:
    """Yield the messages after the last answer, the last one first."""
    for message in reversed(messages):
        if message.type == "system" or (isinstance(message, AIMessage) and not message.tool_calls):
            return
        yield message
