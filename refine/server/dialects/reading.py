"""Reading fields that any client may have filled with anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from judges.errors import shortened
from refine.server.errors import ApiError

LEFT_OUT = frozenset({"refine", "stream", "stream_options"})
"""Fields of a request that the upstream does not see."""

NO_QUESTION = "a request without a message of the user is not judged"
ASKING = ("user", "tool", "function")
"""Roles of messages that ask for an answer."""

_ROLES = ("user", "assistant", "system", "developer", "tool", "function")


def read_refine(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the client's `refine` object; empty where there is none."""
    refine = body.get("refine")
    if refine is None:
        return {}
    if not isinstance(refine, dict):
        raise ApiError(
            400,
            'refine is an object, for instance {"evidence": {"reference": "..."}}',
            code="invalid",
            param="refine",
        )
    evidence = refine.get("evidence")
    if evidence is not None and not isinstance(evidence, dict):
        raise ApiError(
            400, f"evidence is an object, not {shortened(evidence)}", code="invalid", param="refine.evidence"
        )
    return refine


def read_model(body: Mapping[str, Any]) -> str:
    """Return the name of the model asked for; empty where there is none, which the upstream may mind or not."""
    model = body.get("model")
    return model if isinstance(model, str) else ""


def read_flag(body: Mapping[str, Any], name: str) -> bool:
    """Return a field that is true or false; false where there is none.

    Raises:
        ApiError: If it is anything else, which one server reads as true and another does not.
    """
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise ApiError(400, f"{name} is true or false, not {shortened(value)}", code="invalid", param=name)
    return value is True


def read_count(body: Mapping[str, Any], name: str) -> int:
    """Return a field that is a number of things; 1 where there is none.

    Raises:
        ApiError: If it is no whole number from 1 on, or a text or a truth that some server may read as one.
    """
    value = body.get(name)
    if value is None:
        return 1
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value < 1 or value != int(value):
        raise ApiError(
            400, f"{name} is a whole number from 1 on, not {shortened(value)}", code="invalid", param=name
        )
    return int(value)


def string(value: object) -> str:
    """Return a text, or an empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def objects(value: object) -> list[dict[str, Any]]:
    """Return the objects in a list; empty where there is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def arguments(text: object) -> dict[str, Any]:
    """Return the arguments of a tool call; what is no JSON object is kept under `arguments`."""
    if isinstance(text, dict):
        return text
    try:
        read = json.loads(text) if isinstance(text, str) and text else {}
    except (ValueError, RecursionError):
        read = None
    return read if isinstance(read, dict) else {"arguments": text}


def check_message(role: object, content: object, where: str) -> None:
    """Check what every message has.

    Raises:
        ApiError: If the role is unknown, or the content is neither text nor a list of parts.
    """
    if role not in _ROLES:
        raise ApiError(400, f"{where}.role is none of {', '.join(_ROLES)}", code="invalid", param=f"{where}.role")
    is_list = isinstance(content, list) and all(isinstance(part, str | dict) for part in content)
    if not is_list and not isinstance(content, str | None):
        raise ApiError(400, f"{where}.content is neither text nor a list of parts", code="invalid", param=where)


def message(
    role: object, content: Any, *, where: str, calls: list[Any] | None = None, call_id: str = ""
) -> AnyMessage:
    """Return a message for the judge; see `check_message`."""
    check_message(role, content, where)
    content = "" if content is None else content
    match role:
        case "user":
            return HumanMessage(content)
        case "assistant":
            return AIMessage(content, tool_calls=calls or [])
        case "system" | "developer":
            return SystemMessage(content)
        case _:
            return ToolMessage(content, tool_call_id=call_id)


def up_to_question(messages: list[AnyMessage]) -> list[AnyMessage]:
    """Return the messages without answers at their end, which the model is to go on with; never an empty list."""
    end = len(messages)
    while end and messages[end - 1].type == "ai":
        end -= 1
    return messages[:end] or [SystemMessage("")]
