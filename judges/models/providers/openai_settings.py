"""What users set of chat-completions requests, names of models and fields, checked where they are set."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeGuard

from pydantic import JsonValue

from judges.errors import ConfigurationError, shortened, unfit
from judges.runtime.validation import finite_number, whole_number

_GENERATING = frozenset({"response_format", "tool_choice", "tools"})
"""Fields that only requests for an answer have; a judge's requests have their own."""

_SETTINGS = frozenset({"max_tokens", "model", "stream", "temperature"})
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


def checked_name(model: object) -> str:
    """Return the name of a model at an endpoint, checked."""
    if not isinstance(model, str) or not model.strip():
        raise unfit("model is the model's name at the endpoint", model)
    return model


def _checked_temperature(temperature: float | None) -> float | None:
    """Return a sampling temperature, checked; None leaves it to the endpoint."""
    if temperature is not None and finite_number(temperature, setting="temperature") < 0:
        raise unfit("temperature is a number from 0", temperature)
    return temperature


def _checked_extra(extra: object) -> dict[str, JsonValue]:
    """Return the further fields of a client's requests, checked."""
    if not isinstance(extra, Mapping) or not all(isinstance(name, str) for name in extra):
        raise ConfigurationError("extra is a mapping from names of fields to values, for instance {'seed': 7}")
    taken = sorted((_SETTINGS | _GENERATING | {"messages", "n"}) & extra.keys())
    if taken:
        raise ConfigurationError(
            f"extra holds no {', '.join(taken)}: these have a setting, are the judge's own, or are bound for "
            f"answers alone by bind(...)"
        )
    return _checked_json(extra, "extra")


def _checked_bound(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
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


Limit = Literal["max_tokens", "max_completion_tokens"]
"""The two names of the field that limits the length of a reply."""


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """Fields that a client adds to each request.

    Args:
        model: Name of the model.
        temperature: Sampling temperature, or None.
        max_tokens: Longest reply in tokens, or None.
        stream: Whether the reply is sent as a stream.
        extra: Further fields of every request, a judge's too.
        generating: Fields of requests for an answer only.
    """

    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    generating: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, model: str, *, temperature: float | None, max_tokens: int | None, stream: bool, extra: object
    ) -> Self:
        """Return the settings of a client, checked."""
        return cls(
            model=checked_name(model),
            temperature=_checked_temperature(temperature),
            max_tokens=None if max_tokens is None else whole_number(max_tokens, setting="max_tokens"),
            stream=stream,
            extra=_checked_extra({} if extra is None else extra),
        )

    def bound(self, fields: Mapping[str, Any]) -> Self:
        """Return these settings with further fields, which replace those of the same name."""
        checked = _checked_bound(fields)
        others = {name: value for name, value in checked.items() if name not in _SETTINGS}
        generating = {name: value for name, value in others.items() if name in _GENERATING}
        extra = {name: value for name, value in others.items() if name not in _GENERATING}
        return replace(
            self,
            model=checked_name(checked.get("model", self.model)),
            temperature=_number(checked, "temperature", self.temperature),
            max_tokens=_number(checked, "max_tokens", self.max_tokens),
            stream=bool(checked.get("stream", self.stream)),
            extra={**self.extra, **extra},
            generating={**self.generating, **generating},
        )

    def fields(self, request: Mapping[str, Any], limit: Limit) -> dict[str, Any]:
        """Return a whole request: these fields, and before them those of the request.

        Raises:
            ConfigurationError: If the request is no mapping.
        """
        if not isinstance(request, Mapping):
            raise ConfigurationError(
                f"a request is a mapping of its fields, for instance {{'messages': [...]}}, not a "
                f"{type(request).__name__}"
            )
        fields: dict[str, Any] = {"model": self.model, **self.extra, **self.generating}
        if self.temperature is not None:
            fields["temperature"] = self.temperature
        if self.max_tokens is not None:
            fields[limit] = self.max_tokens
        if self.stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        fields.update(request)
        return fields


def _number(fields: Mapping[str, Any], name: str, default: Any) -> Any:
    value = fields.get(name, default)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    raise ConfigurationError(f"{name} is a number, not {value!r}")
