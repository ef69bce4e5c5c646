"""Conversations of other libraries as messages: turns of deepeval, conversations of ShareGPT."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from judges.rows.replies import as_json, is_messages

_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
    "observation": "tool",
    "function_response": "tool",
}
"""Roles of ShareGPT that have another name here; `function_call` is an assistant's message with a call."""


def read_turns(columns: dict[str, Any]) -> None:
    """Take deepeval's turns as messages, with the tools called before an answer and the documents it was given."""
    turns = columns.pop("turns")
    messages: list[Any] = []
    documents: dict[str, None] = {}
    for turn in turns:
        fields = turn if isinstance(turn, Mapping) else {}
        calls = fields.get("tools_called")
        messages += performed(calls, first=len(messages) + 1) if is_list(calls) else ()
        messages.append(turn)
        documents |= dict.fromkeys(fields.get("retrieval_context") or ())
    columns.setdefault("messages", messages)
    if documents:
        columns.setdefault("retrieved_contexts", list(documents))


def performed(calls: Iterable[Mapping[str, Any]], *, first: int = 1) -> list[dict[str, Any]]:
    """Return tool calls and their outputs as the messages of a conversation.

    Args:
        calls: The calls.
        first: Number in the id of the first, if calls have none.
    """
    steps: list[dict[str, Any]] = []
    for number, call in enumerate(calls, first):
        key = call.get("id") or f"call_{number}"
        steps.append({"role": "assistant", "tool_calls": [{**call, "id": key}]})
        if call.get("output") is not None:
            output = call["output"]
            text = output if isinstance(output, str) else as_json(output)
            steps.append({"role": "tool", "tool_call_id": key, "name": call.get("name"), "content": text})
    return steps


def read_sharegpt(columns: dict[str, Any]) -> None:
    """Take ShareGPT's conversations as messages."""
    turns = columns.get("conversations", columns.get("conversation"))
    if not is_list(turns) or not turns or not all(isinstance(turn, Mapping) and "value" in turn for turn in turns):
        if is_messages(columns.get("conversations")):
            columns.setdefault("messages", columns.pop("conversations"))
        return
    columns.pop("conversations", columns.pop("conversation", None))
    columns.setdefault("messages", [_message(turn) for turn in turns])


def _message(turn: Mapping[str, Any]) -> dict[str, Any]:
    role, value = str(turn.get("from", turn.get("role"))), turn["value"]
    if role == "function_call":
        calls = _json(value)
        return {"role": "assistant", "tool_calls": calls if isinstance(calls, list) else [calls]}
    return {"role": _ROLES.get(role, role), "content": value}


def _json(value: Any) -> Any:
    """Return what a text holds as JSON; a text that is none names a tool."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return {"name": value}


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list and no text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
