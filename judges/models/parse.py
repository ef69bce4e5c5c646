"""Parsing a model's reply strictly: exactly one JSON object that fits the schema, or nothing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from textwrap import shorten
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from judges.model import ModelResponse
from judges.models.endings import ending_of

T = TypeVar("T", bound=BaseModel)

_LONGEST_FAULT = 200
_LONGEST_ENDING = 40
_MOST_BESIDE = 1_000
"""Most fields looked at in the text beside a tool call."""
_NO_VALUE = object()
_STRICT_JSON = json.JSONEncoder(allow_nan=False)


class Unreadable(ValueError):  # noqa: N818 - an adjective that describes the reply
    """The reply does not fit the request; the message explains it in words for the model.

    Args:
        fault: What is wrong with the reply.
        mendable: Whether asking again, with the fault named, can help.
    """

    def __init__(self, fault: str, *, mendable: bool = True) -> None:
        super().__init__(fault)
        self.mendable = mendable


def parse_reply(response: ModelResponse, schema: type[T]) -> T:
    """Parse a reply as `schema`.

    It rejects replies cut short, broken off, filtered or refused; no object, or more than one; several tool
    calls, or one that the text beside it contradicts; anything around the object; duplicate keys; NaN and
    Infinity; missing, surplus or mistyped fields. A value is never clamped or repaired. A `Literal` of whole
    numbers must be of the type `judges.verdict.Rating` or similar: pydantic's own takes `true` for 1, strict or
    not.

    Raises:
        Unreadable: With the fault.
    """
    _check_finished(response)
    try:
        return schema.model_validate_json(_object_in(response, schema), strict=True, extra="forbid")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        surplus = first["type"] == "extra_forbidden"  # its name is the model's own, and may quote anything
        place = "a field" if surplus else ".".join(map(str, first["loc"])) or "the object"
        raise Unreadable(shorten(f"{place}: {first['msg']}", _LONGEST_FAULT, placeholder=" ...")) from None


def _check_finished(response: ModelResponse) -> None:
    ending = ending_of(response.finish_reason)
    if ending == "cut":
        raise Unreadable("the reply was cut short by its length limit")
    if response.refusal or ending == "filtered":
        raise Unreadable("the model refused, or its reply was filtered", mendable=False)
    if ending == "broken":
        reason = shorten(response.finish_reason, _LONGEST_ENDING, placeholder=" ...")
        raise Unreadable(f"the reply was not finished: it ended with {reason!r}")


def _object_in(response: ModelResponse, schema: type[BaseModel]) -> str:
    """Return the object of a reply as JSON, since strict validation depends on JSON's own types."""
    if response.broken_calls:
        raise Unreadable("the tool call's arguments are not valid JSON")
    if len(response.calls) > 1:
        raise Unreadable(f"there are {len(response.calls)} tool calls where one was asked for")
    if not response.calls:
        parse_object(response.text)
        return response.text
    name, arguments = response.calls[0]
    if name != schema.__name__:
        raise Unreadable(f"another tool was called than {schema.__name__!r}")
    if arguments is None:
        raise Unreadable("the tool call's arguments cannot be read")
    value = parse_object(arguments) if isinstance(arguments, str) else arguments
    _check_beside(response.text, value, schema)
    return arguments if isinstance(arguments, str) else _json(value)


def _check_beside(text: str, value: dict[str, Any], schema: type[BaseModel]) -> None:
    """Check that the text beside a tool call does not give a field of the object another value.

    Whole objects, fenced, wrapped and cut ones count alike: what is looked for is a quoted name of a field, a
    colon and a value, which must be one that the call gives this name too, at any depth.
    """
    if ":" not in text:
        return
    names = {name.lower(): name for name in schema.model_fields}
    pattern = rf"""(["'])({"|".join(map(re.escape, names))})\1\s*:\s*"""
    values: dict[str, list[object]] = {}
    for count, field in enumerate(re.finditer(pattern, text, re.IGNORECASE)):
        name = names[field[2].lower()]
        expected = values.setdefault(name, list(_values_of(name, value)))
        if count == _MOST_BESIDE or _value_at(text, field.end()) not in expected:
            raise Unreadable(f"the text beside the tool call contradicts it: {name}")


def _values_of(name: str, value: object) -> Iterator[object]:
    """Yield the values of a name in an object, at any depth."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key == name:
            yield item
        yield from _values_of(name, item)


def _value_at(text: str, start: int) -> object:
    """Parse the JSON value at a place of a text; what is none equals no value."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return _NO_VALUE
    return value


def _json(value: dict[str, Any]) -> str:
    """Return arguments that a client has parsed as JSON text again."""
    try:
        return _STRICT_JSON.encode(value)
    except (ValueError, TypeError, RecursionError):
        raise Unreadable("the tool call's arguments are not valid JSON") from None


def parse_object(text: str) -> dict[str, Any]:
    """Parse text that is exactly one JSON object without duplicate keys, NaN, Infinity or what rounds to it."""
    if not text.strip():
        raise Unreadable("the reply is empty")
    try:
        value = _DECODER.decode(text)
    except Unreadable:
        raise
    except (ValueError, RecursionError):
        raise Unreadable("the reply is not exactly one JSON object") from None
    if not isinstance(value, dict):
        raise Unreadable(f"the reply is a JSON {type(value).__name__}, not an object")
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise Unreadable("a key appears twice in the object")
    return result


def _no_constant(name: str) -> NoReturn:
    raise Unreadable(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise Unreadable("a number is too large")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_without_duplicates, parse_constant=_no_constant, parse_float=_finite
)
