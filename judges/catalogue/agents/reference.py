"""The reference trajectory of a sample: messages in its metadata, or its plain list of reference calls."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import JsonValue, TypeAdapter, ValidationError

from judges.catalogue.parts.calls import reference_calls_in
from judges.catalogue.parts.evidence import transcript
from judges.catalogue.parts.trajectories import Step
from judges.errors import CannotJudge, one_line
from judges.messages import Conversation, Message
from judges.rows.trajectories import TRAJECTORY_KEYS
from judges.sample import Sample

REFERENCE_KEYS = TRAJECTORY_KEYS
"""Keys of the metadata that hold a reference trajectory: a list of messages. The first that is there counts."""

_MESSAGES: TypeAdapter[tuple[Message, ...]] = TypeAdapter(tuple[Message, ...])


class ReferenceSteps(NamedTuple):
    """The expected calls.

    Args:
        steps: The calls of each message that has some; of a plain list, one call each.
        grouped: Whether the reference says which calls belong to one message.
    """

    steps: tuple[Step, ...]
    grouped: bool


def reference_steps_in(sample: Sample) -> ReferenceSteps:
    """Return the calls that should have been made.

    Raises:
        CannotJudge: `no_reference`, if the sample has neither a reference trajectory nor reference calls;
            `invalid_sample`, if the trajectory is no list of messages.
    """
    messages = reference_messages_in(sample)
    if messages is None:
        return ReferenceSteps(tuple((call,) for call in reference_calls_in(sample)), grouped=False)
    return ReferenceSteps(tuple(message.tool_calls for message in messages if message.tool_calls), grouped=True)


def reference_messages_in(sample: Sample) -> Conversation | None:
    """Return the messages of the reference trajectory, or None where there is none.

    Raises:
        CannotJudge: `invalid_sample`, if it is no list of messages.
    """
    key = next((key for key in REFERENCE_KEYS if sample.metadata.get(key) is not None), None)
    if key is None:
        return None
    try:
        return _MESSAGES.validate_python(sample.metadata[key])
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"]))
        raise CannotJudge(
            "invalid_sample", f"{key} is a list of messages with tool_calls: {place}: {one_line(fault['msg'])}"
        ) from error


def reference_shown(sample: Sample) -> list[JsonValue] | None:
    """Return the reference trajectory as shown to a model, or None where there is none."""
    messages = reference_messages_in(sample)
    if messages is not None:
        return transcript(messages)
    if sample.reference_tool_calls is None:
        return None
    return [call.model_dump(mode="json", exclude={"id"}) for call in sample.reference_tool_calls]
