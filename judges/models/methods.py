"""Ways of asking a model for an object, the strongest first, and stepping down where an endpoint knows less."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from pydantic import BaseModel

from judges.errors import ConfigurationError
from judges.model import ModelResponse

Method = Literal["json_schema", "tools", "text"]
"""`json_schema`: the endpoint holds the model to the schema. `tools`: one forced call of one tool. `text`: the
prompt alone asks for one JSON object. Replies of all three are read by the same strict rules."""

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
_ENDED = {"", "end_turn", "eos", "stop", "tool_calls", "function_call", "tool_use"}


@dataclass(frozen=True, slots=True)
class Plan:
    """How a model is asked.

    Args:
        methods: The way, and those to try after it.
        temperature: Sampling temperature asked for; None asks for none.
        limit: Name under which the length of the reply is limited; None where it is not, or not by us.
        proven: Whether the way has worked: then a reply that ignores it is a bad reply, not a missing feature.
    """

    methods: tuple[Method, ...]
    temperature: float | None = None
    limit: Literal["max_tokens", "max_completion_tokens"] | None = None
    proven: bool = False

    @property
    def method(self) -> Method:
        """The way taken."""
        return self.methods[0]

    def conceding(self, status: int | None, told: str) -> Plan | None:
        """Ask for less where that is what a provider refuses; None where the error is another.

        Args:
            status: HTTP status of the error.
            told: What the provider said.
        """
        told = told.lower()
        if status not in _REFUSALS or _NOT_ABOUT_METHODS.search(told):
            return None
        if self.temperature is not None and status in _BAD_REQUEST and "temperature" in told:
            return replace(self, temperature=None)
        if self.limit == "max_tokens" and "max_completion_tokens" in told:
            return replace(self, limit="max_completion_tokens")
        about = _ABOUT.get(self.method)
        return self._lower() if about is not None and about.search(told) else None

    def learning(self, reply: ModelResponse) -> Plan:
        """Draw the lesson of a reply: the way works, or the endpoint ignored it and the next one is taken."""
        if self.proven or reply.refusal or reply.finish_reason.lower() not in _ENDED:
            return self
        if reply.calls or reply.text.lstrip().startswith("{"):
            return replace(self, proven=True)
        return self._lower() or self if reply.text.strip() else self

    def as_text(self) -> Plan:
        """Ask for text, whatever the way for objects is."""
        return replace(self, methods=("text",), proven=False)

    def back_to(self, other: Plan) -> Plan:
        """Give `other`, with what was conceded here beside the way."""
        return replace(other, temperature=self.temperature, limit=self.limit)

    def _lower(self) -> Plan | None:
        return replace(self, methods=self.methods[1:], proven=False) if len(self.methods) > 1 else None


def only(method: object) -> tuple[Method, ...]:
    """Take the one way that the user wants.

    Raises:
        ConfigurationError: If there is no such way.
    """
    for one in get_args(Method):
        if method == one:
            return (one,)
    raise ConfigurationError(f"method is one of {', '.join(get_args(Method))} or None, not {method!r}")


@lru_cache(maxsize=256)
def response_format(schema: type[BaseModel]) -> dict[str, Any]:
    """Write a schema as OpenAI's `response_format`: strict wherever each object's keys are known."""
    written = closed_schema(schema)
    name = re.sub(r"[^\w-]", "_", schema.__name__, flags=re.ASCII)[:64]
    told = {"name": name, "schema": written, "strict": _is_closed(written)}
    return {"type": "json_schema", "json_schema": told}


@lru_cache(maxsize=256)
def forced_tool(schema: type[BaseModel]) -> dict[str, Any]:
    """Write a schema as one tool that must be called, as settings of a request."""
    told = {
        "name": schema.__name__,
        "description": (schema.__doc__ or schema.__name__).strip(),
        "parameters": closed_schema(schema),
    }
    return {
        "tools": [{"type": "function", "function": told}],
        "tool_choice": {"type": "function", "function": {"name": schema.__name__}},
    }


def closed_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """Write the JSON schema of a class, closed: nothing may be left out, and nothing added.

    Fields keep their order, so that reasons come before a rating. What OpenAI's strict mode refuses is written
    otherwise: defaults go, `oneOf` becomes `anyOf`, and a reference with a description beside it is written out.
    """
    written = schema.model_json_schema()
    closed: dict[str, Any] = _closed(written, written.get("$defs", {}), frozenset())
    return closed


def _closed(node: Any, definitions: dict[str, Any], inside: frozenset[str]) -> Any:
    if isinstance(node, list):
        return [_closed(one, definitions, inside) for one in node]
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
            result[key] = {field: _closed(one, definitions, inside) for field, one in value.items()}
        elif key not in ("default", "discriminator"):
            result["anyOf" if key == "oneOf" else key] = _closed(value, definitions, inside)
    if isinstance(node.get("properties"), dict):
        result |= {"additionalProperties": False, "required": list(node["properties"])}
    return result


def _is_closed(node: Any) -> bool:
    """Tell whether each object in a schema has known keys only."""
    if isinstance(node, list):
        return all(map(_is_closed, node))
    if not isinstance(node, dict):
        return True
    if node.get("type") == "object" and node.get("additionalProperties") is not False:
        return False
    return all(map(_is_closed, node.values()))
