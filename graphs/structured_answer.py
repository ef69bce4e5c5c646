"""The answer of an agent whose structured answers are calls of a tool (`response_format=ToolStrategy(...)`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from pydantic_core import to_json


def with_answer_last(messages: Sequence[Any], structured_response: object) -> list[Any]:
    """Return an agent's new messages so that they end with its structured answer, as JSON text without a call.

    Args:
        messages: The messages. Where they do not end with the result of a tool, they are returned as they are.
        structured_response: The answer as the agent's state has it; None where it has none.
    """
    index = max((place for place, message in enumerate(messages) if isinstance(message, AIMessage)), default=None)
    if structured_response is None or index is None or not isinstance(messages[-1], ToolMessage):
        return list(messages)
    text = to_json(structured_response, fallback=str).decode()
    answer = messages[index].model_copy(update={"content": text, "tool_calls": []})
    return [*messages[:index], answer]
