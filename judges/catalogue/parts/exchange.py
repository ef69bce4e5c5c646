"""Whole conversations: the messages that are judged, and the numbers that turns go by."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from judges.catalogue.parts.needed import answer_in
from judges.catalogue.parts.shown import transcript
from judges.errors import CannotJudge
from judges.messages import Conversation, Message, Role
from judges.sample import Sample


def exchange_in(sample: Sample) -> Conversation:
    """Give the whole exchange, from the first message to the answer.

    Raises:
        CannotJudge: `no_question`, if the user says nothing; `no_response`, if the answer is blank, or there is
            nothing that the assistant says or does.
    """
    messages = sample.messages
    if not any(one.role == "user" and one.content.strip() for one in messages):
        raise CannotJudge("no_question", "there is no question")
    if sample.answer is not None:
        answer_in(sample)
    if not any(one.role == "assistant" and (one.content.strip() or one.tool_calls) for one in messages):
        raise CannotJudge("no_response", "there is no message of the assistant to judge")
    return messages


def turns_of(role: Role, messages: Iterable[Message]) -> tuple[str, ...]:
    """Give what one of the two says, message by message; blank ones are left out."""
    return tuple(one.content for one in messages if _speaks(one, role))


def with_numbers(messages: Conversation, *, on: Role) -> list[JsonValue]:
    """Show messages to a model, those numbered from 1 that one of the two says; see `turns_of`."""
    shown: list[JsonValue] = []
    number = 0
    for one, fields in zip(messages, transcript(messages), strict=True):
        if isinstance(fields, dict) and _speaks(one, on):
            number += 1
            shown.append({"number": number, **fields})
        else:
            shown.append(fields)
    return shown


def _speaks(message: Message, role: Role) -> bool:
    return message.role == role and bool(message.content.strip())
