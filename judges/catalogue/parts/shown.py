"""What a model is shown of a sample: its messages, and all the evidence there is."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from judges.messages import Message
from judges.sample import Sample


def evidence(sample: Sample) -> dict[str, JsonValue]:
    """Lay out what a judge is shown of a sample: only what is there."""
    shown: dict[str, JsonValue] = {
        "conversation": transcript(sample.conversation),
        "steps": transcript(sample.steps),
        "documents": list(sample.retrieved_contexts or ()),
        "reference": sample.reference,
        "answer": sample.answer,
    }
    return {name: value for name, value in shown.items() if value}


def transcript(messages: Iterable[Message]) -> list[JsonValue]:
    """Write messages as a judge is shown them."""
    return [one.model_dump(mode="json", exclude_defaults=True, exclude={"tool_call_id"}) for one in messages]
