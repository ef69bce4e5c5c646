"""An upstream of all three APIs for tests: what it says comes in the form of the path that is asked."""

from __future__ import annotations

import json
from typing import Any

from tests.guarding import QUESTION
from tests.model_server import Asked, Wire, answered
from tests.server.evasions import PATHS, Dialect

Json = dict[str, Any]
DIALECTS: tuple[Dialect, ...] = ("chat", "responses", "messages")

_TOOL = {"name": "look", "description": "Looks."}


def reply_in(asked: Asked, text: str, *, thought: str = "", call: Json | None = None) -> Wire:
    """Say a text in the form of the API that was asked; with a thought before it, or a tool's call in place."""
    if asked["path"].startswith(PATHS["messages"]):
        return answered(_message(text, thought, call))
    if asked["path"].startswith(PATHS["responses"]):
        return answered(_response(text, thought, call))
    message: Json = {"role": "assistant", "content": None if call else text, "reasoning_content": thought}
    if call is not None:
        function = {"name": "look", "arguments": json.dumps(call)}
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
    choice["token_ids"] = [31_415_926]
    choice["logprobs"] = {"content": [{"token": text, "logprob": 0.0}]}
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return answered({"id": "r1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})


def _response(text: str, thought: str, call: Json | None) -> Json:
    item: Json = {"type": "message", "id": "m1", "role": "assistant", "status": "completed"}
    item["content"] = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    if call is not None:
        item = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "look", "status": "completed"}
        item["arguments"] = json.dumps(call)
    reasoning = {"type": "reasoning", "id": "t1", "summary": [{"type": "summary_text", "text": thought}]}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "output": [reasoning, item] if thought else [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, **details},
        "vendor": {"kept": True},
    }


def _message(text: str, thought: str, call: Json | None) -> Json:
    block: Json = {"type": "text", "text": text}
    if call is not None:
        block = {"type": "tool_use", "id": "c1", "name": "look", "input": call}
    thinking = {"type": "thinking", "thinking": thought, "signature": "s"}
    return {
        "id": "r1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [thinking, block] if thought else [block],
        "stop_reason": "tool_use" if call else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }


def body_in(dialect: Dialect, text: str = "", **fields: Any) -> Json:
    """Return the body of a question for an API."""
    turns = [{"role": "user", "content": text}] if text else QUESTION
    body: Json = {"model": "m", "input" if dialect == "responses" else "messages": turns, **fields}
    return {**body, "max_tokens": 99} if dialect == "messages" else body


def tools_in(dialect: Dialect, schema: Json) -> Json:
    """Return the field of a request that offers one tool, `look`, with arguments by a schema."""
    if dialect == "messages":
        return {"tools": [{**_TOOL, "input_schema": schema}]}
    if dialect == "responses":
        return {"tools": [{"type": "function", **_TOOL, "parameters": schema}]}
    return {"tools": [{"type": "function", "function": {**_TOOL, "parameters": schema}}]}


def text_in(dialect: Dialect, reply: Json) -> str:
    """Return the text of an answer in the form of an API."""
    if dialect == "messages":
        return "".join(block.get("text", "") for block in reply["content"])
    if dialect == "responses":
        items = [item for item in reply["output"] if item["type"] == "message"]
        return "".join(part.get("text", "") for item in items for part in item["content"])
    return reply["choices"][0]["message"]["content"] or ""
