"""The messages of a conversation: `Message`, and the `ToolCall` that an assistant's message may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from judges.media import Media, media_of

Role = Literal["system", "user", "assistant", "tool"]

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "function": "tool",
}


_ARGUMENTS = ("args", "arguments", "input", "parameters", "input_parameters", "inputParameters")
"""Names that the arguments of a call have, the first that is there."""


class ToolCall(BaseModel):
    """A tool call of the assistant: the tool's name, its JSON arguments and the call's id."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    name: str
    args: dict[str, JsonValue] = Field(default_factory=dict)
    id: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, data: Any) -> Any:
        """Read the arguments under any of their names: LangChain's, OpenAI's, Anthropic's, deepeval's."""
        if not isinstance(data, Mapping):
            return data
        function = data.get("function")
        call = function if isinstance(function, Mapping) else data
        args = next((call[name] for name in _ARGUMENTS if call.get(name) is not None), None)
        name = function if isinstance(function, str) else call.get("name")  # inspect's `function` is the name
        return {"name": name, "args": _arguments(args), "id": data.get("id")}


def _arguments(raw: Any) -> Any:
    if not isinstance(raw, str):
        return raw or {}
    try:
        return json.loads(raw or "{}")
    except ValueError:
        raise ValueError("tool arguments are JSON") from None


class Message(BaseModel):
    """One message of a conversation.

    Args:
        role: The author's role.
        content: The text; parts that are not text (images, audio) are replaced by their type in brackets.
        parts_not_shown: The types of these parts in their order; a judge is told that it was not shown them,
            unless it has `multimodal=True` and a model that takes them.
        media: Those of these parts that a model can be sent: images, and sounds that come as data.
        tool_calls: Calls the assistant requests.
        tool_call_id: On a tool's message, the call it answers.
        name: On a tool's message, the tool.
    """

    model_config = ConfigDict(frozen=True)

    role: Role
    content: str = ""
    parts_not_shown: tuple[str, ...] = ()
    media: tuple[Media, ...] = Field(default=(), repr=False)
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, data: Any) -> Any:
        fields = _fields_of(data)
        if fields is None:
            return data
        role = fields.get("role", fields.get("type"))
        canonical_role = _ROLES.get(str(role))
        if canonical_role is None:
            raise ValueError(f"unknown role {role!r}; known are system, user, assistant and tool")
        content = fields.get("content")
        if isinstance(content, str):  # what most messages have
            return {
                "role": canonical_role,
                "content": content,
                "parts_not_shown": fields.get("parts_not_shown") or (),
                "media": fields.get("media") or (),
                "tool_calls": fields.get("tool_calls") or _legacy_calls(fields),
                "tool_call_id": fields.get("tool_call_id"),
                "name": fields.get("name"),
            }
        results = [part for part in _parts(content) if part.get("type") == "tool_result"]
        result = results[0] if results else {}
        others = tuple(_others(content))
        return {
            "role": "tool" if results else canonical_role,
            "content": "".join(map(_result_text, results)) if results else _text(content),
            "parts_not_shown": fields.get("parts_not_shown") or tuple(map(_kind_of, others)),
            "media": fields.get("media") or _media_in(others),
            "tool_calls": fields.get("tool_calls") or _calls_in(fields),
            "tool_call_id": fields.get("tool_call_id", result.get("tool_use_id")),
            "name": fields.get("name"),
        }


def _fields_of(message: object) -> Mapping[str, Any] | None:
    """Return the fields of a dict or of a LangChain message, read by attribute so LangChain is not imported."""
    if isinstance(message, Mapping):
        data = message.get("data")  # as LangChain writes messages to files
        if isinstance(data, Mapping):
            return {"type": message.get("type"), **data}
        return unwrapped(message)
    if isinstance(message, tuple) and len(message) == 2:  # noqa: PLR2004 - LangChain's (role, text)
        return {"role": message[0], "content": message[1]}
    if hasattr(message, "type") and hasattr(message, "content"):
        is_plain = isinstance(message, BaseModel) and not message.__pydantic_extra__
        absent = _absent_in(type(message)) if is_plain else ()  # type: ignore[arg-type]  # a class has a hash
        return {name: None if name in absent else getattr(message, name, None) for name in _ATTRIBUTES}
    return None


def unwrapped(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a message as LangChain serialises it (in LangSmith's runs); others as they are."""
    fields, path = message.get("kwargs"), message.get("id")
    if message.get("type") != "constructor" or not isinstance(fields, Mapping) or not isinstance(path, list):
        return message
    kind = str(path[-1]).removesuffix("Chunk").removesuffix("Message").lower() if path else ""
    return {"type": kind, **fields}


_ATTRIBUTES = ("type", "content", "tool_calls", "tool_call_id", "name")


@lru_cache(maxsize=64)
def _absent_in(kind: type[BaseModel]) -> tuple[str, ...]:
    """Return the attributes that no message of a class has; pydantic looks for an absent one at some length."""
    return tuple(name for name in _ATTRIBUTES if name not in kind.model_fields and not hasattr(kind, name))


def _calls_in(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return tool calls in OpenAI's legacy `function_call`, or in parts of Anthropic, LangChain and Azure."""
    parts = (part for part in _parts(fields.get("content")) if part.get("type") in ("tool_use", "tool_call"))
    return _legacy_calls(fields) or tuple(_call_in(part) for part in parts)


def _legacy_calls(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    call = fields.get("function_call")
    return (call,) if call is not None and isinstance(call, Mapping) else ()


def _call_in(part: Mapping[str, Any]) -> Mapping[str, Any]:
    call = part.get("tool_call", part)
    return {"id": part.get("tool_call_id"), **call} if isinstance(call, Mapping) else part


def _result_text(part: Mapping[str, Any]) -> str:
    """Return the text of a tool's result: content, or Azure's `tool_result`, which may be any JSON."""
    content = part.get("content", part.get("tool_result"))
    is_content = content is None or isinstance(content, str | list | tuple)
    return _text(content) if is_content else json.dumps(content, ensure_ascii=False, default=str)


def _parts(content: object) -> list[Mapping[str, Any]]:
    return [part for part in content if isinstance(part, Mapping)] if isinstance(content, list | tuple) else []


def _text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        raise ValueError(f"message content is text or a list of parts, not {type(content).__name__}")  # noqa: TRY004
    return "".join(_part(part) for part in content)


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise ValueError(f"a message part is text or a mapping, not {type(part).__name__}")  # noqa: TRY004
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = _kind_of(part)
    return "" if kind in _NO_CONTENT else f"[{kind}]"


def _others(content: object) -> Iterator[Mapping[str, Any]]:
    """Yield the parts that are replaced by their type, those of a tool's results included."""
    for part in _parts(content):
        if part.get("type") == "tool_result":
            yield from _others(part.get("content"))
        elif not isinstance(part.get("text"), str) and _kind_of(part) not in _NO_CONTENT:
            yield part


def _media_in(parts: Sequence[Mapping[str, Any]]) -> tuple[Media, ...]:
    media = (media_of(part, place) for place, part in enumerate(parts))
    return tuple(part for part in media if part is not None)


def _kind_of(part: Mapping[str, Any]) -> str:
    kind = part.get("type")
    return kind if isinstance(kind, str) else "part"


_NO_CONTENT = frozenset({"tool_use", "tool_call", "reasoning", "thinking"})
"""Types of parts that are no content of a message: its calls, and what was thought on the way."""


Conversation = tuple[Message, ...]
"""Messages in chronological order."""
