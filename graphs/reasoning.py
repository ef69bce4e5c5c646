"""Removal of a thinking model's reasoning from an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage

_BLOCKS = ("reasoning", "thinking", "redacted_thinking", "thought")
_KEYS = ("reasoning", "thinking", "thought", "redacted_thinking", "chain_of_thought")
_WRAPPED = "non_standard"


def without_reasoning(answer: AIMessage) -> AIMessage:
    """Return an answer without blocks and fields of reasoning; text stays as it is, `<think>` included.

    Ids that a provider gave to texts and tool calls go with the reasoning: OpenAI's Responses API refuses an item
    by its id that comes back without the reasoning before it.
    """
    content: Any = answer.content
    if isinstance(content, list):
        blocks = [block for block in content if not _is_reasoning(block)]
        content = content if len(blocks) == len(content) else [_without_id(block) for block in blocks]
    fields = {
        "content": content,
        "additional_kwargs": _without_keys(answer.additional_kwargs),
        "response_metadata": _without_keys(answer.response_metadata),
    }
    return answer.model_copy(update=fields)


def reply_without_reasoning(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a chat completion without the reasoning in its messages; the rest is as it was."""
    return {**reply, "choices": [_choice_without_reasoning(choice) for choice in reply["choices"]]}


def _choice_without_reasoning(choice: Any) -> Any:
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        return choice
    remaining = _without_keys(message)
    if isinstance(remaining.get("content"), list):
        remaining["content"] = [part for part in remaining["content"] if not _is_reasoning(part)]
    return {**choice, "message": remaining}


def _is_reasoning(block: object) -> bool:
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == _WRAPPED:
        return _is_reasoning(block.get("value"))
    return str(block.get("type", "")).startswith(_BLOCKS)


def _without_id(block: Any) -> Any:
    kinds = ("text", "output_text", "refusal", "function_call")
    if not isinstance(block, Mapping) or block.get("type") not in kinds:
        return block
    return {key: value for key, value in block.items() if key != "id"}


def _without_keys(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if not key.startswith(_KEYS)}
