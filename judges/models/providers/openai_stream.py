"""A chat completion from the chunks of a stream, read once all of it is there; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from judges.models.providers.endpoint_errors import EndpointConnectionError, EndpointReplyError

_WHOLE = frozenset(
    {"created", "finish_reason", "format", "id", "index", "model", "name", "object", "role", "type"}
)
"""Fields whose text is sent whole, where a later chunk repeats it; any other text is sent in pieces."""

_DONE = "[DONE]"


def is_stream(body: bytes) -> bool:
    """Check whether a body is a stream of events, which never begins like JSON."""
    return body[:64].lstrip().startswith((b"data:", b":", b"event:", b"id:", b"retry:"))


def assembled(body: bytes) -> dict[str, Any]:
    """Return the chat completion whose chunks a stream holds, in the form in which it comes without a stream.

    Raises:
        EndpointConnectionError: If the stream broke off.
        EndpointReplyError: If it holds anything but chunks of a completion.
    """
    completion: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    is_done = False
    for chunk in _chunks(body):
        is_done = is_done or chunk is None
        if chunk is None:
            break
        if isinstance(chunk.get("error"), dict | str):
            return chunk
        for choice in chunk.get("choices") or ():
            _add_choice(choices, choice)
        _merge(completion, {name: value for name, value in chunk.items() if name != "choices"}, whole=True)
    if not is_done and not any(choice.get("finish_reason") for choice in choices.values()):
        raise EndpointConnectionError("the stream of the reply broke off before its end")
    listed = [_whole_choice(choices[index]) for index in sorted(choices)]
    return {**completion, "object": "chat.completion", "choices": listed}


def _chunks(body: bytes) -> Iterator[dict[str, Any] | None]:
    """Yield the chunks of a stream, and None where it says that it is done."""
    for event in body.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        lines = [line[5:].removeprefix(" ") for line in event.split("\n") if line.startswith("data:")]
        data = "\n".join(lines).strip()
        if not data:
            continue
        chunk = None if data == _DONE else json.loads(data)
        if chunk is not None and not isinstance(chunk, dict):
            raise EndpointReplyError("the endpoint's stream holds something else than chunks of a completion")
        yield chunk


def _add_choice(choices: dict[int, dict[str, Any]], choice: Any) -> None:
    if not isinstance(choice, dict):
        raise EndpointReplyError("the endpoint's stream holds a choice that is none")
    index = choice.get("index")
    number = index if type(index) is int else 0
    merged = choices.setdefault(number, {"index": number, "message": {"role": "assistant"}, "finish_reason": None})
    for name, value in choice.items():
        if name == "delta" and isinstance(value, dict):
            _merge(merged["message"], value)
        elif name != "index":
            _merge(merged, {name: value})


def _merge(target: dict[str, Any], piece: Mapping[str, Any], *, whole: bool = False) -> None:
    """Add a piece of an object: texts are joined, lists extended, parts of a list found by their index."""
    for name, value in piece.items():
        before = target.get(name)
        if value is None:
            target.setdefault(name, None)
        elif isinstance(value, dict) and isinstance(before, dict):
            _merge(before, value, whole=whole)
        elif isinstance(value, list):
            target[name] = _extended(before if isinstance(before, list) else [], value)
        elif isinstance(value, str) and isinstance(before, str) and not (whole or name in _WHOLE):
            target[name] = before + value
        else:
            target[name] = value


def _extended(parts: list[Any], pieces: list[Any]) -> list[Any]:
    for piece in pieces:
        index = piece.get("index") if isinstance(piece, dict) else None
        same = None if index is None else next((part for part in parts if part.get("index") == index), None)
        if same is None:
            parts.append(piece)
        else:
            _merge(same, piece)
    return parts


def _whole_choice(choice: dict[str, Any]) -> dict[str, Any]:
    """Return a choice whose tool calls are not numbered: only a stream needs that."""
    for call in choice["message"].get("tool_calls") or ():
        call.pop("index", None)
    return choice
