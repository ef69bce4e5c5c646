"""Tool calls: expected ones, actual ones, and when two of their values are equal."""

from __future__ import annotations

import json
from collections.abc import Hashable

from pydantic import JsonValue

from judges.catalogue.parts.items import cut
from judges.errors import CannotJudge
from judges.messages import ToolCall
from judges.sample import Sample


def actual_calls_in(sample: Sample) -> tuple[ToolCall, ...]:
    """Return the calls of all assistant messages, in order."""
    return tuple(call for message in sample.messages if message.role == "assistant" for call in message.tool_calls)


def parallel_calls_in(sample: Sample) -> tuple[tuple[ToolCall, ...], ...]:
    """Return the calls of each message of the assistant that has some; those of one message have no order."""
    return tuple(
        message.tool_calls for message in sample.messages if message.role == "assistant" and message.tool_calls
    )


def reference_calls_in(sample: Sample) -> tuple[ToolCall, ...]:
    """Return the calls that should have been made; an empty list means that none should.

    Raises:
        CannotJudge: `no_reference`, if the sample has no reference calls.
    """
    if sample.reference_tool_calls is None:
        raise CannotJudge("no_reference", "there are no reference_tool_calls to compare with")
    return sample.reference_tool_calls


def render_call(call: ToolCall) -> str:
    """Return a call in readable form: `name(argument=value, ...)`, the values as JSON."""
    arguments = ", ".join(f"{name}={render_value(value)}" for name, value in call.args.items())
    return cut(f"{call.name}({arguments})")


def render_value(value: JsonValue) -> str:
    """Return a value as JSON, shortened if it is long."""
    return cut(json.dumps(value, ensure_ascii=False), most=100)


def same_value(a: JsonValue, b: JsonValue, *, lenient: bool = False) -> bool:
    """Whether two values are equal as JSON: 75 is 75.0; 75 is "75" only if `lenient`; 1 is never `true`."""
    return key_of(a, lenient=lenient) == key_of(b, lenient=lenient)


def key_of(value: JsonValue, *, lenient: bool = False) -> Hashable:
    """Return a hashable key that equal JSON values share, and no others."""
    if isinstance(value, dict):
        return ("object", frozenset((name, key_of(item, lenient=lenient)) for name, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(key_of(item, lenient=lenient) for item in value))
    if lenient and isinstance(value, str):
        value = _parse_literal(value)
    return ("number" if type(value) in (int, float) else type(value).__name__, value)


def _parse_literal(text: str) -> str | float | bool | None:
    """Return the number, truth value or null that a text spells; any other text unchanged."""
    try:
        value = json.loads(text.strip().lower())
    except (ValueError, RecursionError):
        return text
    return value if value is None or isinstance(value, int | float) else text
