"""Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage

from graphs.generators import Delta
from judges.models.providers.openai_replies import chunks_in
from judges.verdict import Usage
from refine.server.dialects.protocol import (
    ApiDialect,
    Json,
    JudgedRequest,
    ReadTexts,
    judged_request,
    message,
    objects,
    read_json,
    reason_in_messages,
    string,
    unsent,
    up_to_question,
    write_json,
)
from refine.server.errors import ApiError, UpstreamFailed

_THOUGHTS = ("thinking", "redacted_thinking")
_MEDIA = ("audio", "document", "file", "image", "video")
_ENVELOPE = ("id", "model", "stop_reason", "usage")
"""What a reply keeps when its content is replaced."""
_CACHED = ("cache_creation_input_tokens", "cache_read_input_tokens")


def _messages(item: Json, where: str) -> Iterator[AnyMessage]:
    """Yield the tool results of a message, each a message of its own, and the rest as one."""
    content = item.get("content")
    results = [part for part in objects(content) if part.get("type") == "tool_result"]
    for result in results:
        call_id = string(result.get("tool_use_id"))
        yield message("tool", result.get("content"), where=where, call_id=call_id)
    rest = [part for part in content if part not in results] if isinstance(content, list) else content
    if rest or not results:
        calls = [_call(part) for part in objects(rest) if part.get("type") == "tool_use"]
        yield message(item.get("role"), _spoken_parts(rest), where=where, calls=calls)


def _spoken_parts(content: Any) -> Any:
    """Return what is said, without the blocks that a message has as fields, or that are for the model alone."""
    if not isinstance(content, list):
        return content
    own = ("tool_use", *_THOUGHTS)
    return [part for part in content if not (isinstance(part, dict) and part.get("type") in own)]


def _call(part: Json) -> Json:
    call_input = part.get("input")
    return {
        "name": string(part.get("name")),
        "args": call_input if isinstance(call_input, dict) else {"arguments": call_input},
        "id": string(part.get("id")),
        "type": "tool_call",
    }


_KNOWN_BLOCKS = ("container_upload", "server_tool_use", "text", "tool_use", *_THOUGHTS, *_MEDIA)


def _read_block(block: Json, kind: str, read: ReadTexts) -> Json:
    if kind in _THOUGHTS or (kind.endswith("tool_result") and not read.is_strict):
        return block
    return read.call(block, "input") if kind.endswith("tool_use") else read.part(block)


def _usage(reply: Json) -> Usage:
    """Return the tokens that the upstream reports, those read from or written to its cache included."""
    counts = reply.get("usage")
    counts = counts if isinstance(counts, dict) else {}
    sent = counts.get("input_tokens")
    cached = sum(count for name in _CACHED if type(count := counts.get(name)) is int)
    return Usage.of_call(sent + cached if type(sent) is int else sent, counts.get("output_tokens"))


def _sequence(reply: Json) -> Iterator[Json]:
    start = {**reply, "content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(objects(reply.get("content"))):
        yield from _block_events(index, block)
    yield from _ending(reply)


def _block_events(index: int, block: Json) -> Iterator[Json]:
    empty, deltas = _block(block)
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop", "index": index}


def _ending(reply: Json) -> Iterator[Json]:
    ending = {"stop_reason": reply.get("stop_reason"), "stop_sequence": reply.get("stop_sequence")}
    counts = reply.get("usage")
    counts = counts if isinstance(counts, dict) else {"output_tokens": 0}
    yield {"type": "message_delta", "delta": ending, "usage": counts, "refine": reply.get("refine")}
    yield {"type": "message_stop"}


def _block(block: Json) -> tuple[Json, list[Json]]:
    """Return a block as it begins, and what is then added to it; a block of another kind begins whole."""
    match block.get("type"):
        case "text":
            deltas: list[Json] = [{"type": "text_delta", "text": string(block.get("text"))}]
            cited = objects(block.get("citations"))
            empty: Json = {**block, "text": "", **({"citations": []} if cited else {})}
            return empty, [*deltas, *({"type": "citations_delta", "citation": one} for one in cited)]
        case "thinking":
            thought: Json = {"type": "thinking_delta", "thinking": string(block.get("thinking"))}
            signature: Json = {"type": "signature_delta", "signature": string(block.get("signature"))}
            return {**block, "thinking": "", "signature": ""}, [thought, signature]
        case "tool_use" | "server_tool_use":
            text = write_json(block.get("input", {})).decode()
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": text}]
        case _:
            return block, []


_ADDED = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def _add_delta(block: Json, delta: Json) -> None:
    name = _ADDED.get(string(delta.get("type")))
    if name is not None:
        block[name] = string(block.get(name)) + string(delta.get(name))
    elif delta.get("type") == "input_json_delta":
        block["partial"] = string(block.get("partial")) + string(delta.get("partial_json"))
    elif delta.get("type") == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta.get("citation")]


def _whole_block(block: Json) -> Json:
    if "partial" not in block:
        return block
    whole = {name: value for name, value in block.items() if name != "partial"}
    try:
        return {**whole, "input": read_json(block["partial"].encode())}
    except ValueError:
        return {**whole, "input": block["partial"]}


class _MessagesPieceWriter:
    """Writes the events of one answer that goes out in pieces.

    Args:
        identifier: What its id ends in.
        begun: The reply, without a text.
    """

    def __init__(self, identifier: str, begun: Json) -> None:
        self._head = {**begun, "id": f"msg_{identifier}", "content": [], "stop_reason": None}
        self.sent = ""

    def piece(self, text: str) -> bytes:
        """Return the events of a piece."""
        events: list[Json] = []
        if not self.sent:
            empty = {"type": "text", "text": ""}
            events = [
                {"type": "message_start", "message": self._head},
                {"type": "content_block_start", "index": 0, "content_block": empty},
            ]
        self.sent += text
        return b"".join(map(_event, [*events, self._delta(text)]))

    def end(self, reply: Json) -> bytes:
        """Return the events of what did not go out yet, and of the end."""
        blocks = objects(reply.get("content"))
        rest = unsent("".join(string(one.get("text")) for one in blocks if one.get("type") == "text"), self.sent)
        events = [*([self._delta(rest)] if rest else []), {"type": "content_block_stop", "index": 0}]
        others = [block for block in blocks if block.get("type") not in ("text", *_THOUGHTS)]
        for index, block in enumerate(others, 1):
            events += _block_events(index, block)
        return b"".join(map(_event, [*events, *_ending(reply)]))

    def fail(self, body: Json) -> bytes:
        """Return the events of an error that ends the answer."""
        return b"".join(MessagesDialect().error_events(body))

    def _delta(self, text: str) -> Json:
        return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def _event(event: Json) -> bytes:
    return f"event: {event['type']}\ndata: ".encode() + write_json(event) + b"\n\n"


class MessagesDialect(ApiDialect):
    """Anthropic's Messages."""

    PATH = "/messages"
    API = "anthropic"
    KEY_HEADER = "x-api-key"
    KEEP_ALIVE = b'event: ping\ndata: {"type": "ping"}\n\n'

    def read_request(self, body: Json) -> JudgedRequest:
        """Read a request; the body is not changed."""
        return judged_request(body, reason_in_messages(body), ("max_tokens",))

    def conversation(self, payload: Json) -> list[AnyMessage]:
        """Return the messages for the judge, ending with the question or a tool's result."""
        system = payload.get("system")
        before = [message("system", system, where="system")] if system else []
        items = enumerate(payload["messages"])
        return up_to_question(
            [*before, *(one for at, item in items for one in _messages(item, f"messages[{at}]"))]
        )

    def with_feedback(self, payload: Json, added: Sequence[AnyMessage]) -> Json:
        """Return the request of a further attempt: the same, with the messages added by the loop at its end."""
        extra = [
            {"role": "assistant" if one.type == "ai" else "user", "content": str(one.text)}
            for one in added
            if str(one.text).strip()  # an empty message is refused
        ]
        return {**payload, "messages": [*payload["messages"], *extra]}

    def read_answer(self, reply: Json) -> tuple[AIMessage, Usage]:
        """Return the answer in an upstream's reply, with tool calls, refusal and why it ended, and its tokens."""
        if not isinstance(reply.get("content"), list):
            raise UpstreamFailed(502, "the upstream's reply is no message with content", code="upstream_reply")
        blocks = objects(reply["content"])
        text = "".join(string(block.get("text")) for block in blocks if block.get("type") == "text")
        calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
        ending = string(reply.get("stop_reason"))
        if ending == "pause_turn":  # the client is to send it back, so that the model goes on
            calls.append({"name": ending, "args": {}, "id": None, "type": "tool_call"})
        metadata = {"stop_reason": ending, "model_name": string(reply.get("model"))}
        media = [block for block in blocks if block.get("type") in _MEDIA]
        extra = {"tool_outputs": media} if media else {}
        answer = AIMessage(text, tool_calls=calls, additional_kwargs=extra, response_metadata=metadata)
        return answer, _usage(reply)

    def without_reasoning(self, reply: Json) -> Json:
        """Return a reply without the reasoning in it."""
        blocks = [block for block in objects(reply["content"]) if block.get("type") not in _THOUGHTS]
        return {**reply, "content": blocks}

    def without_text(self, reply: Json) -> Json:
        """Return a reply without its blocks of text."""
        return {**reply, "content": [block for block in objects(reply["content"]) if block.get("type") != "text"]}

    def with_text(self, reply: Json, text: str) -> Json:
        """Return a reply whose content is this text alone; what else may repeat the text it had is left out."""
        kept = {name: reply[name] for name in _ENVELOPE if name in reply}
        ending = {"stop_reason": "end_turn"} if reply.get("stop_reason") == "tool_use" else {}
        return {**self.write_reply(text, ""), **kept, **ending}

    def with_usage(self, reply: Json, usage: Usage) -> Json:
        """Return a reply with these tokens as its `usage`."""
        return {**reply, "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}}

    def read_part(self, reply: Json, read: ReadTexts) -> Json:
        """Return a reply without the texts in it that are no part of what was read; calls and thoughts stay."""
        kinds = ((block, string(block.get("type"))) for block in objects(reply["content"]))
        blocks = [
            _read_block(block, kind, read)
            for block, kind in kinds
            if kind in _KNOWN_BLOCKS or kind.endswith(("tool_result", "mcp_tool_use"))
        ]
        return {**read.part(reply, "content"), "content": blocks}

    def write_reply(self, text: str, model: str) -> Json:
        """Return a reply of the guard's own: the fallback text."""
        return {
            "id": f"msg_{uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }

    def events(self, reply: Json) -> list[bytes]:
        """Return a whole reply as the events of a message: start, each block, end."""
        return [_event(event) for event in _sequence(reply)]

    def asks_for_form(self, payload: Json) -> bool:
        """Check whether the answer is to have a form, such as JSON, that a part of it has not."""
        return any(payload.get(name) is not None for name in ("output_format", "output_config"))

    def delta_in(self, event: Json) -> Delta:
        """Return what an event of the upstream's stream adds to the answer."""
        delta, block = event.get("delta"), event.get("content_block")
        if event.get("type") == "content_block_start" and isinstance(block, dict):
            return Delta(string(block.get("text")), block.get("type") == "tool_use")
        is_text = isinstance(delta, dict) and delta.get("type") == "text_delta"
        return Delta(string(delta.get("text")) if is_text and isinstance(delta, dict) else "")

    def assembled(self, body: bytes) -> Json:
        """Return the reply whose stream this is.

        Raises:
            UpstreamFailed: If it broke off.
        """
        reply: Json = {}
        blocks: dict[int, Json] = {}
        for event in filter(None, chunks_in(body)):
            match event.get("type"):
                case "message_start":
                    reply = dict(event["message"])
                case "content_block_start":
                    blocks[event["index"]] = dict(event["content_block"])
                case "content_block_delta":
                    _add_delta(blocks[event["index"]], event["delta"])
                case "message_delta":
                    counts = {**(reply.get("usage") or {}), **(event.get("usage") or {})}
                    reply = {**reply, **event["delta"], "usage": counts}
                case "error":
                    return {**event}
        if not reply.get("stop_reason"):
            raise UpstreamFailed(502, "the stream of the upstream's reply broke off", code="upstream_broken")
        return {**reply, "content": [_whole_block(blocks[index]) for index in sorted(blocks)]}

    def with_released_text(self, reply: Json, text: str, *, is_filtered: bool) -> Json:
        """Return a reply with another text; `is_filtered` says that it was stopped."""
        others = [block for block in objects(reply["content"]) if block.get("type") != "text"]
        ending = {"stop_reason": "refusal"} if is_filtered else {}
        return {**reply, **ending, "content": [*([{"type": "text", "text": text}] if text else []), *others]}

    def piece_writer(self, identifier: str, model: str) -> _MessagesPieceWriter:
        """Return what writes the events of one answer."""
        return _MessagesPieceWriter(identifier, self.write_reply("", model))

    def error_body(self, error: ApiError) -> Json:
        """Return the body of an error of the guard's own."""
        kind = "api_error" if error.status in (422, 500, 502) else error.kind
        return {"type": "error", "error": {"type": kind, "message": str(error), "code": error.code}}

    def error_events(self, body: Json) -> list[bytes]:
        """Return an error in the midst of a stream as its last event."""
        error = body.get("error")
        error = error if isinstance(error, dict) else {"type": "api_error", "message": string(error)}
        return [_event({"type": "error", "error": error})]
