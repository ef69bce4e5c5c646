"""Whether the arguments of tool calls fit the tools' JSON schemas, and what is wrong, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_MOST_FAULTS = 5
_DEEPEST = 30
_LONGEST = 200
_UNTRUSTED = ("pattern", "patternProperties", "format")
"""Keywords that are not checked: a schema may come with a request, and a pattern may take for ever."""


def misfit_of(calls: Iterable[Mapping[str, Any]], schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what is wrong with tool calls, as feedback to whoever made them; empty where nothing is.

    With the extra `jsonschema` that is whatever their schemas say; without it only types, required arguments,
    listed values, and arguments that there are not.

    Args:
        calls: The calls, each with `name` and `args`.
        schemas: JSON schemas of the arguments by the tool's name; calls of other tools are not checked.
    """
    faults = [
        f"The call of the tool {call['name']} does not fit its schema: {fault}"
        for call in calls
        if isinstance(schema := schemas.get(call["name"]), Mapping)
        for fault in _faults_in(call["args"], schema)
    ]
    return "\n".join(faults)


def schemas_in(tools: object) -> dict[str, Mapping[str, Any]]:
    """Return the schemas of arguments by the tool's name, in the form of any API that lists tools."""
    found: dict[str, Mapping[str, Any]] = {}
    for tool in tools if isinstance(tools, list | tuple) else ():
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(name := inner.get("name"), str):
            schema = inner.get("parameters", inner.get("input_schema"))
            if isinstance(schema, Mapping):
                found[name] = schema
    return found


def _faults_in(arguments: object, schema: Mapping[str, Any]) -> list[str]:
    validate = _validator_class()
    if validate is None:
        return list(_plain_faults(arguments, schema, "", _DEEPEST))[:_MOST_FAULTS]
    try:
        faults = sorted(validate(schema, arguments), key=lambda fault: list(map(str, fault.path)))
    except Exception:  # noqa: BLE001 - a schema that cannot be read, or refers elsewhere, is not the model's fault
        return []
    return list(dict.fromkeys(fault for one in faults for fault in _instructions(one)))[:_MOST_FAULTS]


def _instructions(fault: Any) -> Iterator[str]:
    place = fault.json_path.removeprefix("$").removeprefix(".")
    if fault.validator == "required":
        yield from (_missing(key, place) for key in fault.validator_value if key not in fault.instance)
    else:
        yield f"{place or 'its arguments'}: {fault.message[:_LONGEST]}."


def _missing(key: str, place: str) -> str:
    return f"{f'{place}.' if place else ''}{key} is missing."


@cache
def _validator_class() -> Any:
    """Return what yields the faults of a value by a schema; None without the extra.

    Only references within a schema are followed: nothing is fetched.
    """
    try:
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - an extra, imported on demand
        from jsonschema.validators import extend  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415 - comes with it
    except ImportError:
        return None
    kind = extend(Draft202012Validator, dict.fromkeys(_UNTRUSTED, _ignore))  # type: ignore[no-untyped-call]
    nothing = Registry()
    return lambda schema, value: kind(dict(schema), registry=nothing).iter_errors(value)


def _ignore(*_: object) -> Iterator[Any]:
    yield from ()


def _plain_faults(value: object, schema: Mapping[str, Any], place: str, depth: int) -> Iterator[str]:
    """Yield what is wrong by the plainest keywords; a schema that is put together of others is not read."""
    if depth == 0 or not isinstance(schema, Mapping):
        return
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if names and not any(_is_of(value, name) for name in names):
        yield f"{place or 'its arguments'} must be of type {' or '.join(map(str, names))}."
        return
    listed = schema.get("enum")
    if isinstance(listed, list) and value not in listed:
        yield f"{place or 'its arguments'} must be one of {', '.join(map(repr, listed))[:_LONGEST]}."
    if isinstance(value, Mapping):
        yield from _faults_of_object(value, schema, place, depth)
    if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        for number, item in enumerate(value):
            yield from _plain_faults(item, items, f"{place}[{number}]", depth - 1)


def _faults_of_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], place: str, depth: int
) -> Iterator[str]:
    required, known = schema.get("required"), schema.get("properties")
    known = known if isinstance(known, Mapping) else {}
    for key in required if isinstance(required, list) else ():
        if key not in value:
            yield _missing(str(key), place)
    for key, part in value.items():
        inner = f"{place}.{key}" if place else str(key)
        if isinstance(known.get(key), Mapping):
            yield from _plain_faults(part, known[key], inner, depth - 1)
        elif schema.get("additionalProperties") is False and key not in known:
            yield f"{inner} is no argument of it."


def _is_of(value: object, name: object) -> bool:
    kinds: Sequence[type] = _TYPES.get(name, (object,)) if isinstance(name, str) else (object,)
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    is_whole = name == "integer" and isinstance(value, float) and value.is_integer()
    return is_whole or isinstance(value, tuple(kinds))
