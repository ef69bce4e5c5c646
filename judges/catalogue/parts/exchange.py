"""Whole conversations: the messages that are judged, and the numbering of their turns."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from judges.catalogue.parts.evidence import transcript
from judges.catalogue.parts.needed import answer_in
from judges.catalogue.parts.shown import ShownMessage
from judges.errors import CannotJudge
from judges.messages import Conversation, Message, Role
from judges.sample import Sample


def exchange_in(sample: Sample) -> Conversation:
    """Return the whole exchange, from the first message to the answer.

    Raises:
        CannotJudge: `no_question`, if the user writes nothing; `no_response`, if the answer is blank, or the
            assistant neither writes anything nor calls a tool.
    """
    messages = sample.messages
    if not any(message.role == "user" and message.content.strip() for message in messages):
        raise CannotJudge("no_question", "there is no question")
    if sample.answer is not None:
        answer_in(sample)
    if not any(
        message.role == "assistant" and (message.content.strip() or message.tool_calls) for message in messages
    ):
        raise CannotJudge("no_response", "there is no message of the assistant to judge")
    return messages


def turns_of(role: Role, messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the texts of one role's messages, without blank ones."""
    return tuple(message.content for message in messages if _is_turn(message, role))


def with_numbers(messages: Conversation, *, on: Role) -> list[JsonValue]:
    """Return messages as shown to a model, with those of one role numbered from 1; see `turns_of`."""
    rendered: list[JsonValue] = []
    number = 0
    for message, fields in zip(messages, transcript(messages), strict=True):
        if isinstance(fields, dict) and _is_turn(message, on):
            number += 1
            numbered: dict[str, JsonValue] = {"number": number, **fields}
            rendered.append(ShownMessage(numbered, message.media) if message.media else numbered)
        else:
            rendered.append(fields)
    return rendered


def _is_turn(message: Message, role: Role) -> bool:
    return message.role == role and bool(message.content.strip())
