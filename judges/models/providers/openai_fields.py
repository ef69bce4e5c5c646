"""Fields of chat-completions requests, as users set them: checked where they are set, not where they are sent."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeGuard

from pydantic import JsonValue

from judges.errors import ConfigurationError, shortened, unfit
from judges.runtime.validation import finite_number

GENERATING = frozenset({"response_format", "tool_choice", "tools"})
"""Fields that only requests for an answer have; a judge's requests have their own."""

SETTINGS = frozenset({"max_tokens", "model", "stream", "temperature"})
"""Fields that have a setting of their own."""

_ADDRESS_VARIABLES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
"""Environment variables for the address of an endpoint, as OpenAI's and LangChain's clients read them."""

_PREFIX = "openai-compatible"
_LOCAL_PREFIX = "local"
_ADDRESS = re.compile("@(https?://)", re.IGNORECASE)
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def parsed_name(name: object) -> tuple[str, str | None] | None:
    """Return model and address in a name such as `"openai-compatible:qwen3:8b@http://localhost:11434/v1"`.

    The address is None where the name has none; a name of any other form, or no text, gives None.
    """
    prefix, colon, rest = name.strip().partition(":") if isinstance(name, str) else ("", "", "")
    if not colon or prefix.lower().replace("_", "-") != _PREFIX:
        return None
    model, _, address = _ADDRESS.sub(r"\n\1", rest.strip(), count=1).partition("\n")
    return model.strip(), address or None


def local_name(name: object) -> str | None:
    """Return what stands behind `local:` in the name of a model on this machine; None for any other name."""
    prefix, colon, rest = name.strip().partition(":") if isinstance(name, str) else ("", "", "")
    return rest.strip() if colon and prefix.lower() == _LOCAL_PREFIX else None


def names_direct_client(name: object) -> TypeGuard[str]:
    """Check whether a name means a model that the direct client asks: behind an endpoint, or on this machine."""
    return parsed_name(name) is not None or local_name(name) is not None


def address_for(name: str, address: str | None) -> str:
    """Return the address of the endpoint that a name means.

    Args:
        name: The whole name, for the error.
        address: The address in it, or None; then the environment has it.

    Raises:
        ConfigurationError: If there is none.
    """
    base_url = address or next(filter(None, map(os.environ.get, _ADDRESS_VARIABLES)), None)
    if base_url is None:
        raise ConfigurationError(
            f"{shortened(name)} has no address; write 'openai-compatible:MODEL@http://localhost:11434/v1', or set "
            f"the environment variable {_ADDRESS_VARIABLES[0]}"
        )
    return base_url


def encoded(fields: Mapping[str, Any]) -> bytes:
    """Return a request as it is posted.

    Raises:
        ConfigurationError: If it cannot be written as JSON.
    """
    try:
        return _JSON.encode(fields).encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the request cannot be written as JSON: {error}") from None


def checked_name(model: object) -> str:
    """Return the name of a model at an endpoint, checked."""
    if not isinstance(model, str) or not model.strip():
        raise unfit("model is the model's name at the endpoint", model)
    return model


def checked_temperature(temperature: float | None) -> float | None:
    """Return a sampling temperature, checked; None leaves it to the endpoint."""
    if temperature is not None and finite_number(temperature, setting="temperature") < 0:
        raise unfit("temperature is a number from 0", temperature)
    return temperature


def checked_endings(endings: object) -> frozenset[str]:
    """Return the words with which an endpoint ends a whole reply, checked; one alone may be a text."""
    words = (endings,) if isinstance(endings, str) else endings
    if not isinstance(words, Collection) or not all(isinstance(word, str) for word in words):
        raise unfit("endings is a list of texts such as ['complete']", endings)
    return frozenset(words)


def checked_extra(extra: object) -> dict[str, JsonValue]:
    """Return the further fields of a client's requests, checked."""
    if not isinstance(extra, Mapping) or not all(isinstance(name, str) for name in extra):
        raise ConfigurationError("extra is a mapping from names of fields to values, for instance {'seed': 7}")
    taken = sorted((SETTINGS | GENERATING | {"messages", "n"}) & extra.keys())
    if taken:
        raise ConfigurationError(
            f"extra holds no {', '.join(taken)}: these have a setting, are the judge's own, or are bound for "
            f"answers alone by bind(...)"
        )
    return _checked_json(extra, "extra")


def checked_bound(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return fields that are bound to a client, checked."""
    if "messages" in fields:
        raise ConfigurationError("messages are not bound; they are the question")
    if fields.get("n") not in (None, 1):
        raise ConfigurationError(f"n={fields['n']!r} is not bound: an attempt is one answer, so n is 1")
    return _checked_json({name: value for name, value in fields.items() if name != "n"}, "a field of a request")


def _checked_json(fields: Mapping[str, JsonValue], what: str) -> dict[str, JsonValue]:
    try:
        _JSON.encode(dict(fields))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{what} holds only what can be written as JSON: {error}") from error
    return dict(fields)


def tool_fields(tools: Sequence[Any], tool_choice: object, *, strict: bool | None) -> dict[str, Any]:
    """Return the request fields that offer tools.

    Args:
        tools: LangChain tools, functions, pydantic classes, or tools in the form of chat completions.
        tool_choice: None leaves it to the model; `"auto"`, `"none"`, `"required"` (or `"any"`, or True), a tool's
            name, or the field itself.
        strict: Whether arguments must fit the schema exactly; None leaves it to the endpoint.
    """
    from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415 - on demand

    try:
        converted = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"a tool cannot be offered: {str(error).splitlines()[0]}") from error
    fields: dict[str, Any] = {"tools": converted}
    if tool_choice is None or tool_choice is False:
        return fields
    names = [tool["function"]["name"] for tool in converted if isinstance(tool.get("function"), Mapping)]
    return {**fields, "tool_choice": _checked_choice(tool_choice, names)}


def _checked_choice(choice: object, names: Sequence[str]) -> object:
    if isinstance(choice, Mapping) or choice in ("auto", "none", "required"):
        return choice
    if choice is True or choice == "any":
        return "required"
    if choice in names:
        return {"type": "function", "function": {"name": choice}}
    raise ConfigurationError(
        f"tool_choice is 'auto', 'none', 'required' or the name of a tool ({', '.join(names)}), not {choice!r}"
    )
