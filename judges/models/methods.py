"""Methods of asking a model for an object, the strongest first, and the fallback where an endpoint lacks one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from pydantic import BaseModel

from judges.errors import ConfigurationError, shortened
from judges.model import ModelResponse
from judges.models.endings import ending_of

Method = Literal["json_schema", "tools", "text"]
"""`json_schema`: the endpoint enforces the schema. `tools`: one forced call of one tool. `text`: only the prompt
asks for one JSON object. Replies of all three are read by the same strict rules."""

_BAD_REQUEST = {400, 422}
_REFUSALS = {400, 404, 405, 422, 500, 501}
_NOT_ABOUT_METHODS = re.compile(
    r"context.?length|context.?size|context.?window|content.?(?:filter|management|policy)"
)
_ABOUT = {
    "json_schema": re.compile(
        r"response.?format|json.?schema|structured.?output|schema|grammar|guided|output.?config"
    ),
    "tools": re.compile(r"\btool|function|schema"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Method and settings with which a model is asked.

    Args:
        methods: The method in use, and those to try after it.
        temperature: Sampling temperature to request; None sends none.
        limit: Name of the request field that limits the length of the reply; None sends none.
        proven: Whether the method has worked: then a reply that ignores it is a bad reply, not a missing feature.
    """

    methods: tuple[Method, ...]
    temperature: float | None = None
    limit: Literal["max_tokens", "max_completion_tokens"] | None = None
    proven: bool = False

    @property
    def method(self) -> Method:
        """The method in use."""
        return self.methods[0]

    def after_error(self, status: int | None, message: str) -> Plan | None:
        """Return a plan without what the provider refused; None if the error has another cause.

        Args:
            status: HTTP status of the error.
            message: The provider's error message.
        """
        message = message.lower()
        if status not in _REFUSALS or _NOT_ABOUT_METHODS.search(message):
            return None
        if self.temperature is not None and status in _BAD_REQUEST and "temperature" in message:
            return replace(self, temperature=None)
        if self.limit == "max_tokens" and "max_completion_tokens" in message:
            return replace(self, limit="max_completion_tokens")
        pattern = _ABOUT.get(self.method)
        return self._next_method() if pattern is not None and pattern.search(message) else None

    def after_response(self, response: ModelResponse) -> Plan:
        """Return the plan after a reply: proven if the method worked, or the next one if it did not.

        It did not work if the model ignored it, or if the arguments of a tool call were lost on the way.
        """
        if self.proven or response.refusal or ending_of(response.finish_reason) != "finished":
            return self
        lost = not response.broken_calls and any(arguments is None for _, arguments in response.calls)
        if not lost and (response.calls or response.text.lstrip().startswith("{")):
            return replace(self, proven=True)
        return self._next_method() or self if lost or response.text.strip() else self

    def as_text(self) -> Plan:
        """Return this plan with the method `text`."""
        return replace(self, methods=("text",), proven=False)

    def settings_on(self, other: Plan) -> Plan:
        """Return `other` with the temperature and limit of this plan."""
        return replace(other, temperature=self.temperature, limit=self.limit)

    def _next_method(self) -> Plan | None:
        return replace(self, methods=self.methods[1:], proven=False) if len(self.methods) > 1 else None


def checked_methods(method: object) -> tuple[Method, ...]:
    """Return the one method that the user chose, as a tuple.

    Raises:
        ConfigurationError: If there is no such method.
    """
    for known_method in get_args(Method):
        if method == known_method:
            return (known_method,)
    raise ConfigurationError(f"method is one of {', '.join(get_args(Method))} or None, not {shortened(method)}")


@lru_cache(maxsize=256)
def response_format(schema: type[BaseModel]) -> dict[str, Any]:
    """Return a schema as OpenAI's `response_format`: strict wherever each object's keys are known."""
    json_schema = closed_schema(schema)
    name = re.sub(r"[^\w-]", "_", schema.__name__, flags=re.ASCII)[:64]
    value = {"name": name, "schema": json_schema, "strict": _is_closed(json_schema)}
    return {"type": "json_schema", "json_schema": value}


@lru_cache(maxsize=256)
def forced_tool(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the request settings that offer a schema as one tool that must be called."""
    function = {
        "name": schema.__name__,
        "description": (schema.__doc__ or schema.__name__).strip(),
        "parameters": closed_schema(schema),
    }
    return {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": schema.__name__}},
    }


def closed_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a class, closed: no field may be left out or added.

    Fields keep their order, so that reasons come before a rating. What OpenAI's strict mode refuses is
    replaced: defaults are removed, `oneOf` becomes `anyOf`, a reference with a description beside it is inlined.
    """
    open_schema = schema.model_json_schema()
    closed: dict[str, Any] = _close(open_schema, open_schema.get("$defs", {}), frozenset())
    return closed


def _close(node: Any, definitions: dict[str, Any], inside: frozenset[str]) -> Any:
    if isinstance(node, list):
        return [_close(item, definitions, inside) for item in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).rpartition("/")[2]
    if name and name in inside:
        return {"$ref": node["$ref"]}
    if name in definitions and len(node) > 1:
        node = {**definitions[name], **{key: value for key, value in node.items() if key != "$ref"}}
        inside |= {name}
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("properties", "$defs"):
            result[key] = {field: _close(part, definitions, inside) for field, part in value.items()}
        elif key not in ("default", "discriminator"):
            result["anyOf" if key == "oneOf" else key] = _close(value, definitions, inside)
    if isinstance(node.get("properties"), dict):
        result |= {"additionalProperties": False, "required": list(node["properties"])}
    return result


def _is_closed(node: Any) -> bool:
    """Check whether each object in a schema has a fixed set of keys."""
    if isinstance(node, list):
        return all(map(_is_closed, node))
    if not isinstance(node, dict):
        return True
    if node.get("type") == "object" and node.get("additionalProperties") is not False:
        return False
    return all(map(_is_closed, node.values()))
