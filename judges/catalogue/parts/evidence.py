"""The data of a sample as shown to a model: its messages, and all its evidence."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from judges.catalogue.parts.shown import ShownMessage
from judges.messages import Message
from judges.sample import Sample


def evidence(sample: Sample) -> dict[str, JsonValue]:
    """Return the non-empty parts of a sample as shown to a judge, by name."""
    fields: dict[str, JsonValue] = {
        "conversation": _conversation(sample),
        "steps": transcript(sample.steps),
        "documents": list(sample.retrieved_contexts or ()),
        "reference": sample.reference,
        "answer": sample.answer,
    }
    return {name: value for name, value in fields.items() if value}


def _conversation(sample: Sample) -> list[JsonValue]:
    if isinstance(sample.user_input, str) and sample.user_input:
        return [{"role": "user", "content": sample.user_input}]
    return transcript(sample.conversation)


def transcript(messages: Iterable[Message]) -> list[JsonValue]:
    """Return messages as shown to a judge."""
    return [_shown(message) for message in messages]


def _shown(message: Message) -> JsonValue:
    beside_text = message.parts_not_shown or message.media or message.tool_calls
    if message.content and message.name is None and not beside_text:  # as most are
        return {"role": message.role, "content": message.content}
    fields = message.model_dump(mode="json", exclude_defaults=True, exclude={"tool_call_id", "media"})
    return ShownMessage(fields, message.media) if message.media else fields
