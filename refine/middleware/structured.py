"""Structured answers of an agent (`response_format`) as drafts: judged as JSON, rejected where they do not fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, ToolCall, ToolMessage

from graphs.answer_kind import unread_call
from graphs.drafts import Draft

_PLAIN_TEXT = "The answer was plain text. Answer with the structured output that is asked for."


def is_structured(request: ModelRequest[Any]) -> bool:
    """Check whether an agent wants structured answers."""
    return request.response_format is not None


def structured_draft(draft: Draft, response: ModelResponse[Any]) -> Draft:
    """Return a draft with its structured answer as JSON text, or with what is wrong with it.

    Args:
        draft: What the model returned, as it stands.
        response: The same as the agent got it: with a `ToolMessage` for each call that stands for an answer, and
            the answer, where it fits.
    """
    message = draft.answer
    results = {reply.tool_call_id: reply for reply in response.result if isinstance(reply, ToolMessage)}
    answers = [call for call in message.tool_calls if call["id"] in results]
    if response.structured_response is not None:
        return replace(draft, answer=_as_json(message, answers), pending=False)
    if answers:
        faults = dict.fromkeys(str(results[call["id"] or ""].text) for call in answers)
        return misfit(replace(draft, answer=_as_json(message, answers)), "\n".join(faults))
    if message.tool_calls:
        return draft
    return misfit(draft, fault_of_reply(message, _PLAIN_TEXT))


def fault_of_reply(message: AIMessage, fault: str) -> str:
    """Return what is wrong with a reply that is no structured answer: an unreadable call, or else `fault`."""
    return unread_call() if message.invalid_tool_calls and not message.tool_calls else fault


def misfit(draft: Draft, fault: str) -> Draft:
    """Return a draft as one that does not fit the schema of the answers."""
    answer = draft.answer
    return replace(draft, answer=_as_json(answer, answer.tool_calls), pending=False, fault=fault)


def _as_json(message: AIMessage, answers: Sequence[ToolCall]) -> AIMessage:
    """Return a message with the arguments of tool calls as its text, and without calls."""
    if not message.tool_calls:
        return message
    text = "\n".join(json.dumps(call["args"], ensure_ascii=False, default=str) for call in answers)
    return message.model_copy(update={"content": text, "tool_calls": []})
