"""Tool calls: those that were wanted, those that were made, and when two values in them are the same."""

from __future__ import annotations

import json
from collections.abc import Hashable

from pydantic import JsonValue

from judges.catalogue.parts.items import cut
from judges.errors import CannotJudge
from judges.messages import ToolCall
from judges.sample import Sample


def made_in(sample: Sample) -> tuple[ToolCall, ...]:
    """Give the calls of all assistant messages, in order."""
    return tuple(call for one in sample.messages if one.role == "assistant" for call in one.tool_calls)


def wanted_in(sample: Sample) -> tuple[ToolCall, ...]:
    """Give the calls that should have been made; an empty list means that none should.

    Raises:
        CannotJudge: `no_reference`, if the sample does not say.
    """
    if sample.reference_tool_calls is None:
        raise CannotJudge("no_reference", "there are no reference_tool_calls to compare with")
    return sample.reference_tool_calls


def written(call: ToolCall) -> str:
    """Write a call for people: `name(argument=value, ...)`, the values as JSON."""
    told = ", ".join(f"{name}={written_value(value)}" for name, value in call.args.items())
    return cut(f"{call.name}({told})")


def written_value(value: JsonValue) -> str:
    """Write a value as JSON, cut where it is long."""
    return cut(json.dumps(value, ensure_ascii=False), most=100)


def same(one: JsonValue, other: JsonValue, *, lenient: bool = False) -> bool:
    """Tell whether two values are equal as JSON: 75 is 75.0; 75 is "75" only if `lenient`; 1 is never `true`."""
    return key_of(one, lenient=lenient) == key_of(other, lenient=lenient)


def key_of(value: JsonValue, *, lenient: bool = False) -> Hashable:
    """Give what a JSON value has in common with those equal to it, and with no other."""
    if isinstance(value, dict):
        return ("object", frozenset((name, key_of(one, lenient=lenient)) for name, one in value.items()))
    if isinstance(value, list):
        return ("list", tuple(key_of(one, lenient=lenient) for one in value))
    if lenient and isinstance(value, str):
        value = _spelt(value)
    return ("number" if type(value) in (int, float) else type(value).__name__, value)


def _spelt(text: str) -> str | float | bool | None:
    """Read the number, truth value or null that a text spells; another text stays as it is."""
    try:
        value = json.loads(text.strip().lower())
    except (ValueError, RecursionError):
        return text
    return value if value is None or isinstance(value, int | float) else text
