"""Completions and a judge's replies as LangChain's messages, with all that the endpoint said beside the text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
    convert_to_openai_data_block,
    is_data_content_block,
)
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata

from judges.errors import ConfigurationError
from judges.model import ModelResponse
from judges.verdict import assembled

M = TypeVar("M", bound=BaseMessage)

PROVIDER = "openai-compatible"
"""`response_metadata["model_provider"]` of messages from the direct client."""

MessageDict = dict[str, Any]
"""A message of a chat-completions request."""

_OPENAI_ROLE = "__openai_role__"
"""Where LangChain keeps that a system message is a developer's."""

_PRIVATE = ("__", "lc_")
_UNSENT = frozenset({"refine", "tool_calls", "parsed"})
"""Names in `additional_kwargs` that are no field of a message: marks of the loop, and what stands elsewhere."""

_FOREIGN_FIELDS = frozenset({"audio", "function_call", "refusal"})
"""All that is taken from the `additional_kwargs` of another provider's answer."""

_CALL_PARTS = ("tool_use", "tool_call", "invalid_tool_call", "server_tool", "function_call", "input_json_delta")
_THOUGHT_PARTS = ("reasoning", "thinking", "redacted_thinking", "thought")
_NOT_SAID = (*_CALL_PARTS, *_THOUGHT_PARTS)
"""Beginnings of the types of parts that other providers put into an answer, and chat completions do not."""

_FREE_INPUT = "__arg1"
"""LangChain's name for the only argument of a tool that takes text."""


def to_dicts(messages: Sequence[BaseMessage]) -> list[MessageDict]:
    """Convert LangChain's messages to those of chat completions."""
    return [_to_dict(message) for message in messages]


def _to_dict(message: BaseMessage) -> MessageDict:
    """Convert one of LangChain's messages to one of chat completions.

    Raises:
        ConfigurationError: If a message of that kind cannot be sent.
    """
    converted: MessageDict = {"role": _role(message), "content": _content(message)}
    if message.name is not None:
        converted["name"] = message.name
    if isinstance(message, AIMessage):
        _add_calls(converted, message)
    elif isinstance(message, ToolMessage):
        converted["tool_call_id"] = message.tool_call_id
    if message.additional_kwargs:
        _add_fields(converted, message)
    return converted


def to_messages(dicts: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
    """Convert messages of chat completions to LangChain's."""
    return [to_message(fields) for fields in dicts]


def to_message(fields: Mapping[str, Any]) -> BaseMessage:
    """Convert a message of chat completions to one of LangChain's.

    Raises:
        ConfigurationError: If it is no such message.
    """
    role = fields.get("role") if isinstance(fields, Mapping) else None  # type: ignore[redundant-expr]  # of a raw request
    if not isinstance(role, str) or not role:
        raise ConfigurationError("a message of chat completions is a mapping with a 'role', for instance 'user'")
    if len(fields) == 2 and role in _PLAIN and isinstance(fields.get("content"), str):  # noqa: PLR2004 - both are named
        return _unchecked(_PLAIN[role], content=fields["content"])
    read = _READERS.get(role)
    return ChatMessage(**_common(fields), role=role) if read is None else read(fields)


# To chat completions


def _role(message: BaseMessage) -> str:
    match message:
        case HumanMessage():
            return "user"
        case AIMessage():
            return "assistant"
        case ToolMessage():
            return "tool"
        case SystemMessage():
            return str(message.additional_kwargs.get(_OPENAI_ROLE, "system"))
        case FunctionMessage():
            return "function"
        case ChatMessage():
            return message.role
    raise ConfigurationError(f"a {type(message).__name__} cannot be sent to a model; leave it out")


def _content(message: BaseMessage) -> Any:
    content = message.content
    if isinstance(content, str):
        return content
    if isinstance(message, AIMessage):
        content = [part for part in content if not _is_unsaid(part)]
        if not content:
            return ""
    return [_part(part) for part in content]


def _is_unsaid(part: object) -> bool:
    return isinstance(part, Mapping) and str(part.get("type", "")).startswith(_NOT_SAID)


def _part(part: Any) -> Any:
    """Return a part of a content in the form of chat completions; unknown ones as they are."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type")
    if kind == "text":
        return {
            name: value for name, value in part.items() if name not in ("id", "index", "annotations", "extras")
        }
    if kind == "non_standard" and isinstance(part.get("value"), Mapping):
        return part["value"]
    if kind == "image" and isinstance(part.get("source"), Mapping):
        return {"type": "image_url", "image_url": {"url": _anthropic_image(part["source"])}}
    if kind in part or not is_data_content_block(part):
        return part  # such as {"type": "file", "file": {...}}, which is OpenAI's own
    try:
        return convert_to_openai_data_block(part, api="chat/completions")
    except (KeyError, ValueError) as error:
        raise ConfigurationError(
            f"a part of type {kind!r} cannot be sent to chat completions: {str(error).splitlines()[0]}"
        ) from None


def _anthropic_image(source: Mapping[str, Any]) -> str:
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    return str(source.get("url", ""))


def _add_calls(converted: MessageDict, message: AIMessage) -> None:
    if not message.tool_calls and not message.invalid_tool_calls:
        return
    received = message.additional_kwargs.get("tool_calls")
    converted["tool_calls"] = received if _still_holds(received, message) else list(_calls(message))
    converted["content"] = converted["content"] or None


def _still_holds(received: object, message: AIMessage) -> bool:
    """Check whether the calls as they were received are those of the message, which nobody changed since."""
    if not isinstance(received, list):
        return False
    try:
        calls, broken = _read_calls(received)
    except (AttributeError, TypeError):
        return False
    return calls == [_plain(call) for call in message.tool_calls] and len(broken) == len(
        message.invalid_tool_calls
    )


def _plain(call: ToolCall) -> ToolCall:
    return ToolCall(name=call["name"], args=call["args"], id=call.get("id"), type="tool_call")


def _calls(message: AIMessage) -> Iterator[MessageDict]:
    for call in message.tool_calls:
        yield _call(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False))
    for broken in message.invalid_tool_calls:
        yield _call(broken["id"], broken["name"], broken["args"])


def _call(call_id: str | None, name: str | None, arguments: str | None) -> MessageDict:
    return {"id": call_id, "type": "function", "function": {"name": name or "", "arguments": arguments or ""}}


def _add_fields(converted: MessageDict, message: BaseMessage) -> None:
    """Add the fields of a message that LangChain has no place for."""
    provider = message.response_metadata.get("model_provider", PROVIDER)
    for name, value in message.additional_kwargs.items():
        is_foreign = provider != PROVIDER and name not in _FOREIGN_FIELDS
        if is_foreign or value is None or name in _UNSENT or name in converted or name.startswith(_PRIVATE):
            continue
        if name == "function_call" and "tool_calls" in converted:
            continue  # OpenAI refuses both
        converted[name] = value
    audio = converted.get("audio")
    if isinstance(audio, Mapping) and "id" in audio:
        converted["audio"] = {"id": audio["id"]}  # all that OpenAI takes back
    if not converted["content"] and converted.keys() & {"audio", "function_call", "refusal"}:
        converted["content"] = None


# From chat completions


def _text(content: object) -> Any:
    """Return content as LangChain takes it: text, or a list of texts and parts."""
    if isinstance(content, str):
        return content
    return [part for part in content if isinstance(part, str | dict)] if isinstance(content, list) else ""


def _common(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return what all messages of LangChain have; fields of other names are kept as they are."""
    field_names = {"role", "content", "name", *names}
    others = {name: value for name, value in fields.items() if name not in field_names and value is not None}
    name = fields.get("name")
    called = name if isinstance(name, str) else None
    return {"content": _text(fields.get("content")), "name": called, "additional_kwargs": others}


def _unchecked(kind: type[M], **fields: Any) -> M:
    """Return a message of a text and what is read already, as most are: pydantic's checks would cost the most."""
    blank = {
        name: value.copy() if isinstance(value, list | dict) else value for name, value in _BLANK[kind].items()
    }
    return assembled(kind, blank | fields, set(fields), {})


def _read_user(fields: Mapping[str, Any]) -> BaseMessage:
    return HumanMessage(**_common(fields))


def _read_system(fields: Mapping[str, Any]) -> BaseMessage:
    common = _common(fields)
    if fields["role"] == "developer":
        common["additional_kwargs"][_OPENAI_ROLE] = "developer"
    return SystemMessage(**common)


def _read_tool(fields: Mapping[str, Any]) -> BaseMessage:
    return ToolMessage(**_common(fields, "tool_call_id"), tool_call_id=str(fields.get("tool_call_id") or ""))


def _read_function(fields: Mapping[str, Any]) -> BaseMessage:
    common = _common(fields)
    return FunctionMessage(**{**common, "name": common["name"] or ""})


def _read_assistant(fields: Mapping[str, Any]) -> AIMessage:
    """Return a message of the assistant."""
    received, common = fields.get("tool_calls"), _common(fields)
    if received is None and isinstance(common["content"], str):
        return _unchecked(AIMessage, **common)
    if not isinstance(received, list) or not received:
        return AIMessage(**common)
    calls, broken = _read_calls(received)
    return AIMessage(**common, tool_calls=calls, invalid_tool_calls=broken)


def _read_calls(received: Sequence[Any]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Return the calls that can be made, and those whose arguments are no JSON object."""
    calls: list[ToolCall] = []
    broken: list[InvalidToolCall] = []
    for call in received:
        fields = call if isinstance(call, Mapping) else {}
        name, arguments = _named_arguments(fields)
        call_id = fields.get("id") if isinstance(fields.get("id"), str) else None
        parsed = _parsed(arguments)
        if name and parsed is not None:
            calls.append(ToolCall(name=name, args=parsed, id=call_id, type="tool_call"))
        else:
            text = arguments if isinstance(arguments, str) else None
            fault = "the arguments are no JSON object" if name else "the call names no tool"
            broken.append(InvalidToolCall(name=name, args=text, id=call_id, error=fault, type="invalid_tool_call"))
    return calls, broken


def _named_arguments(call: Mapping[str, Any]) -> tuple[str | None, object]:
    custom = call.get("custom")
    if isinstance(custom, Mapping):
        name = custom.get("name")
        return name if isinstance(name, str) else None, {_FREE_INPUT: custom.get("input", "")}
    function = call.get("function")
    if not isinstance(function, Mapping):
        return None, None
    name = function.get("name")
    return name if isinstance(name, str) else None, function.get("arguments")


def _parsed(arguments: object) -> dict[str, Any] | None:
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str | None):
        return None
    try:
        parsed = json.loads(arguments or "{}", strict=False)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


_PLAIN: Mapping[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
}
_BLANK = {kind: vars(kind("")) for kind in _PLAIN.values()}
_READERS: Mapping[str, Callable[[Mapping[str, Any]], BaseMessage]] = {
    "user": _read_user,
    "assistant": _read_assistant,
    "system": _read_system,
    "developer": _read_system,
    "tool": _read_tool,
    "function": _read_function,
}


_RENAMED = {"model": "model_name", "usage": "token_usage"}
"""Names that LangChain has for what a completion says."""

_MOST_TOKENS = 10**9


def answer_of(completion: Mapping[str, Any], model: str) -> AIMessage:
    """Return the answer that a chat completion holds in its first choice.

    What the completion says beside the message (`finish_reason`, `citations`, `system_fingerprint`, ...) is in
    `response_metadata`, what its message says beside the text (`reasoning_content`, ...) in `additional_kwargs`.

    Args:
        completion: The completion, with a choice that has a message.
        model: Name of the model, where the completion gives none.
    """
    choice = completion["choices"][0]
    answer = _read_assistant(choice["message"])
    metadata = {
        "model_name": model,
        **{
            _RENAMED.get(name, name): value
            for name, value in completion.items()
            if name not in ("choices", "object")
        },
        **{name: value for name, value in choice.items() if name not in ("index", "message")},
    }
    answer.response_metadata = {name: value for name, value in metadata.items() if value is not None}
    answer.response_metadata["model_provider"] = PROVIDER
    answer.usage_metadata = usage_metadata(completion.get("usage"))
    return answer


def answer_of_response(response: ModelResponse, model: str) -> AIMessage:
    """Return a judge's reply as a message."""
    usage = response.usage
    calls = [{"function": {"name": name, "arguments": arguments}} for name, arguments in response.calls]
    answer = _read_assistant({"content": response.text, "tool_calls": calls, "refusal": response.refusal or None})
    answer.response_metadata = {
        "model_name": response.model or model,
        "model_provider": PROVIDER,
        "finish_reason": response.finish_reason,
    }
    if usage.tokens_known:
        counts = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
        details = {"cached_tokens": usage.cached_input_tokens} if usage.cached_input_tokens else None
        answer.usage_metadata = usage_metadata({**counts, "prompt_tokens_details": details})
    return answer


def usage_metadata(usage: object) -> UsageMetadata | None:
    """Return a completion's `usage` as LangChain's, or None where it says no numbers."""
    if not isinstance(usage, Mapping):
        return None
    sent, received = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if sent is None or received is None:
        return None
    metadata = UsageMetadata(input_tokens=sent, output_tokens=received, total_tokens=sent + received)
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    if isinstance(prompt, Mapping):
        counts = {"audio": prompt.get("audio_tokens"), "cache_read": prompt.get("cached_tokens")}
        metadata["input_token_details"] = InputTokenDetails(**_counts(counts))  # type: ignore[typeddict-item]  # its names
    if isinstance(completion, Mapping):
        counts = {"audio": completion.get("audio_tokens"), "reasoning": completion.get("reasoning_tokens")}
        metadata["output_token_details"] = OutputTokenDetails(**_counts(counts))  # type: ignore[typeddict-item]  # its names
    return metadata


def _count(value: object) -> int | None:
    return int(value) if type(value) in (int, float) and 0 <= value < _MOST_TOKENS else None  # type: ignore[operator,call-overload]  # a number


def _counts(values: Mapping[str, object]) -> dict[str, int]:
    return {name: count for name, value in values.items() if (count := _count(value)) is not None}
