"""The answer of an agent that ends with the result of a tool: a structured answer, or what the tool returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import AIMessage, ToolCall, ToolMessage
from pydantic_core import to_json

RETURN_DIRECT = "return_direct: the result of a tool is the answer"
"""The detail of an outcome whose answer a tool gave, which is handed on unjudged."""


def with_answer_last(messages: Sequence[Any], structured_response: object) -> list[Any]:
    """Return an agent's new messages so that they end with its structured answer, as JSON text without a call.

    Args:
        messages: The messages. Where they do not end with the result of a call that stands for such an answer
            (`response_format=ToolStrategy(...)`), they are returned as they are.
        structured_response: The answer as the agent's state has it, where it may be one of an earlier turn; None
            where it has none.
    """
    index, results = _last_calls(messages)
    if structured_response is None or index is None or not results:
        return list(messages)
    called = {result.tool_call_id for result in results}
    calls = [call for call in messages[index].tool_calls if call["id"] in called]
    if not any(_stands_for(call, structured_response) for call in calls):
        return list(messages)
    text = to_json(structured_response, fallback=str).decode()
    answer = messages[index].model_copy(update={"content": text, "tool_calls": []})
    return [*messages[:index], answer]


def tool_result_in(messages: Sequence[Any]) -> AIMessage | None:
    """Return what tools returned as an answer, where messages end with it; None where they do not."""
    index, results = _last_calls(messages)
    if index is None or not results:
        return None
    called = {call["id"] for call in messages[index].tool_calls}
    if any(result.tool_call_id not in called for result in results):
        return None
    contents: list[Any] = [result.content for result in results]
    if len(contents) == 1:
        return AIMessage(contents[0])
    if all(isinstance(content, str) for content in contents):
        return AIMessage("\n\n".join(contents))
    return AIMessage([part for content in contents for part in _parts(content)])


def fault_in(messages: Sequence[Any]) -> str:
    """Return what tools say is wrong, where messages end with their results and one failed; otherwise nothing."""
    results = _last_calls(messages)[1]
    return "\n".join(str(result.text) for result in results if result.status == "error")


def _last_calls(messages: Sequence[Any]) -> tuple[int | None, list[ToolMessage]]:
    """Return the place of the message before the results of tools that messages end with, and the results."""
    ending = takewhile(lambda message: isinstance(message, ToolMessage), reversed(messages))
    results: list[ToolMessage] = list(ending)[::-1]
    index = len(messages) - len(results) - 1
    return (index if index >= 0 and isinstance(messages[index], AIMessage) else None), results


def _stands_for(call: ToolCall, answer: object) -> bool:
    """Check whether a call has a structured answer for its arguments, as far as its name or its fields say so."""
    names = answer if isinstance(answer, Mapping) else getattr(answer, "__dict__", {})
    has_its_fields = bool(call["args"]) and call["args"].keys() <= names.keys()
    return call["name"] == type(answer).__name__ or has_its_fields or call["args"] == answer


def _parts(content: str | list[Any]) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
