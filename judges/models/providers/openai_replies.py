"""Responses of chat-completions endpoints, read without I/O: errors, completions, and what they consumed."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from judges.model import ModelRequest, ModelResponse
from judges.models.likelihood import NOT_GIVEN, REFUSED, tokens_in, with_ratings
from judges.models.prompt_and_reply import has_failed, reason_in
from judges.models.providers.http import Endpoint
from judges.models.providers.http_errors import (
    EndpointConnectionError,
    EndpointReplyError,
    EndpointResponse,
    EndpointStatusError,
)
from judges.verdict import Usage

_WHOLE = frozenset(
    {"created", "finish_reason", "format", "id", "index", "model", "name", "object", "role", "type"}
)
"""Fields whose text is sent whole, where a later chunk repeats it; any other text is sent in pieces."""

_DONE = "[DONE]"


def _is_stream(body: bytes) -> bool:
    """Check whether a body is a stream of events, which never begins like JSON."""
    return body[:64].removeprefix(BOM_UTF8).lstrip().startswith((b"data:", b":", b"event:", b"id:", b"retry:"))


class ChunkReader:
    """Reads the chunks of a completion from the bytes of a stream of events, as they come.

    Args:
        on_chunk: Called with each chunk.
    """

    def __init__(self, on_chunk: Callable[[dict[str, Any]], None]) -> None:
        self._on_chunk = on_chunk
        self._rest = b""
        self._data: list[bytes] = []
        self.has_begun = False

    def feed(self, part: bytes) -> None:
        """Take what came; what is no chunk is left to whoever reads the whole."""
        unread_text = self._rest + part
        *lines, self._rest = _LINE_END.split(unread_text if self.has_begun else unread_text.removeprefix(BOM_UTF8))
        for line in lines:
            if line.startswith(b"data:"):
                self._data.append(line[5:].strip())
            elif not line and self._data:
                data, self._data = b"\n".join(self._data), []
                self._read(data)

    def _read(self, data: bytes) -> None:
        if not data.startswith(b"{"):
            return
        try:
            chunk = json.loads(data)
        except (ValueError, RecursionError):
            return
        self.has_begun = True
        self._on_chunk(chunk)


_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""What ends a line; after a CR that came last an LF may follow."""


def assembled(body: bytes) -> dict[str, Any]:
    """Return the chat completion whose chunks a stream holds, in the form in which it comes without a stream.

    Raises:
        EndpointConnectionError: If the stream broke off.
        EndpointReplyError: If it holds anything but chunks of a completion.
    """
    completion: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    is_done = False
    for chunk in chunks_in(body):
        is_done = is_done or chunk is None
        if chunk is None:
            break
        error = chunk if chunk.get("object") == "error" else chunk.get("error")  # as vLLM says it, and all others
        if isinstance(error, dict | str):
            return {"error": error}  # without the choices that OpenRouter sends beside it
        for choice in chunk.get("choices") or ():
            _add_choice(choices, choice)
        _merge(completion, {name: value for name, value in chunk.items() if name != "choices"}, whole=True)
    if not is_done and not any(choice.get("finish_reason") for choice in choices.values()):
        raise EndpointConnectionError("the stream of the reply broke off before its end")
    listed = [_whole_choice(choices[index]) for index in sorted(choices)]
    return {**completion, "object": "chat.completion", "choices": listed}


def chunks_in(body: bytes) -> Iterator[dict[str, Any] | None]:
    """Yield the chunks of a stream, and None where it says that it is done.

    Raises:
        ValueError: If it is no UTF-8, or an event is no JSON.
        EndpointReplyError: If an event is no object.
    """
    for event in body.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
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
        elif name not in ("index", "message"):  # some send the whole message once more at the end
            _merge(merged, {name: value})


def _merge(target: dict[str, Any], piece: Mapping[str, Any], *, whole: bool = False) -> None:
    """Add a piece of an object: texts are joined, lists extended, parts of a list found by their index."""
    for name, value in piece.items():
        before = target.get(name)
        if value is None or (value == "" and name in _WHOLE and before):  # later pieces of Qwen have the id ""
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


OK = 200
"""The status of a reply."""


def read_completion(endpoint: Endpoint, response: EndpointResponse, hidden: Iterable[str]) -> dict[str, Any]:
    """Return the chat completion in a response, as the endpoint sent it; a stream's chunks are put together.

    Args:
        endpoint: The endpoint, for its errors.
        response: The response.
        hidden: Texts of which an error must show nothing.

    Raises:
        EndpointConnectionError: If it ends by saying that the endpoint failed in its midst.
        EndpointStatusError: If the endpoint refused, also where it says so with status 200.
        EndpointReplyError: If it is no chat completion.
    """
    if response.status != OK:
        raise endpoint.status_error(response, hidden)
    payload = _payload(response.body, response)
    choices = payload.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
        raise EndpointReplyError("the endpoint's reply is no chat completion with a message")
    return payload


def _payload(body: bytes, response: EndpointResponse | None = None) -> dict[str, Any]:
    """Return the JSON of a reply; an error in place of the answer, or for half of one, is raised."""
    try:
        payload = assembled(body) if _is_stream(body) else json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise EndpointReplyError("the endpoint's reply is not JSON") from None
    except (AttributeError, KeyError, TypeError):
        raise EndpointReplyError("the endpoint's stream holds what is no part of a completion") from None
    if not isinstance(payload, dict):
        raise EndpointReplyError("the endpoint's reply is no chat completion")
    choices = payload.get("choices")
    failed = choices[0] if isinstance(choices, list) and choices else payload
    if isinstance(failed, dict) and isinstance(failed.get("error"), dict):
        raise _error_inside(failed["error"], response)
    if isinstance(failed, dict) and failed.get("finish_reason") != "stop" and has_failed(failed):
        raise EndpointConnectionError("the endpoint failed in the midst of its reply, which says so at its end")
    return payload


def parse_completion(body: bytes, request: ModelRequest | None = None, *, refused: bool = False) -> ModelResponse:
    """Parse a chat completion; the model's reply in it is not validated yet.

    Args:
        body: The completion.
        request: The request, if how likely the ratings of its reply are is to be read, too.
        refused: Whether the endpoint refused to tell that.

    Raises:
        EndpointConnectionError: If it ends by saying that the endpoint failed in its midst.
        EndpointReplyError: If it is not a chat completion with exactly one choice.
        EndpointStatusError: If it is an error sent with status 200, as some gateways do.
    """
    payload = _payload(body)
    choices = payload.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise EndpointReplyError("the endpoint's reply is no chat completion with exactly one choice")
    message = choices[0].get("message")
    if not isinstance(message, dict):
        raise EndpointReplyError("the endpoint's reply has no message")
    calls, broken = _calls(message.get("tool_calls"))
    response = ModelResponse(
        text=_text_in(message.get("content")),
        calls=calls,
        broken_calls=broken,
        finish_reason=ending if isinstance(ending := choices[0].get("finish_reason"), str) else reason_in(ending),
        refusal=_string(message.get("refusal")),
        model=model_in(payload),
        usage=usage_in(payload),
    )
    if request is None or not (request.is_rated or request.digits):
        return response
    response = replace(response, has_reasoned=_has_reasoned(message, payload))
    reason = REFUSED if refused else NOT_GIVEN
    return with_ratings(response, request, tokens_in(choices[0], payload), reason=reason)


def _has_reasoned(message: Mapping[str, Any], payload: Mapping[str, Any]) -> bool:
    """Return whether the model reasoned before it replied, as the endpoint says, or the text shows."""
    usage = payload.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    count = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return bool(
        any(_string(message.get(name)).strip() for name in ("reasoning_content", "reasoning"))
        or count
        or _text_in(message.get("content")).lstrip().startswith("<think>")
    )


def usage_in(payload: Mapping[str, Any], *, without_reply: int | None = None) -> Usage:
    """Return what a request consumed, as the endpoint counted it.

    Args:
        payload: The response.
        without_reply: Reply tokens where the endpoint reports none: 0 for a request without a reply.
    """
    usage = payload.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage.of_call(usage.get("prompt_tokens"), usage.get("completion_tokens", without_reply), cached)


def model_in(payload: Mapping[str, Any]) -> str | None:
    """Return the name of the model that replied, or None where the endpoint does not say it."""
    return _string(payload.get("model")) or None


def _text_in(content: object) -> str:
    """Return the text of a message, whose content may be a text or a list of parts."""
    if isinstance(content, list):
        return "".join(_string(part.get("text")) for part in content if isinstance(part, dict))
    return _string(content)


def _error_inside(error: Mapping[str, Any], response: EndpointResponse | None = None) -> Exception:
    code = error.get("code")
    if type(code) is int and 400 <= code < 600:  # noqa: PLR2004 - HTTP's errors
        message = f"the endpoint told of an error {code} in a reply"
        headers = None if response is None else response.headers
        return EndpointStatusError(message, status_code=code, headers=headers).of(response)
    return EndpointReplyError("the endpoint told of an error in place of a reply")


def _calls(tool_calls: object) -> tuple[tuple[tuple[str, str | dict[str, Any]], ...], int]:
    """Return the tool calls, arguments unparsed as only raw text shows duplicate keys, and how many are broken."""
    if not tool_calls:
        return (), 0
    listed = tool_calls if isinstance(tool_calls, list) else [tool_calls]
    functions = [call.get("function") if isinstance(call, dict) else None for call in listed]
    calls = tuple(
        (function["name"], function["arguments"])
        for function in functions
        if isinstance(function, dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), str | dict)
    )
    return calls, len(listed) - len(calls)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""
