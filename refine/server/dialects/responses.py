"""OpenAI's Responses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage

from graphs.generators import Delta
from judges.models.providers.openai_replies import chunks_in
from judges.verdict import Usage
from refine.server.dialects.protocol import (
    ASKING,
    CHAINED,
    GOES_ON,
    NO_QUESTION,
    STORED,
    ApiDialect,
    Json,
    JudgedRequest,
    ReadTexts,
    arguments,
    judged_request,
    message,
    objects,
    read_flag,
    string,
    unsent,
    up_to_question,
    write_json,
)
from refine.server.errors import ApiError, UpstreamFailed

_WAITING = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "mcp_approval_request",
        "shell_call",
    }
)
"""Items that wait for the client; other calls were made by the provider."""
_TOOL_INPUTS = ("arguments", "input", "action", "operation")
_CALL = "_call"
_OUTPUT = "_call_output"


def _reason_to_skip(body: Json) -> str:
    if read_flag(body, "background"):
        return "an answer that is made in the background is not judged"
    if read_flag(body, "store") or body.get("conversation") is not None:
        return STORED
    if body.get("previous_response_id") is not None:
        return CHAINED
    items = body.get("input")
    if isinstance(items, str):
        return ""
    if any(item.get("type") == "item_reference" for item in items or ()):
        return CHAINED
    if items and items[-1].get("role") == "assistant":
        return GOES_ON
    return "" if any(map(_asks, items or ())) else NO_QUESTION


def _asks(item: Json) -> bool:
    return item.get("role") in ASKING or string(item.get("type")).endswith(_OUTPUT)


def _messages(item: Json, where: str) -> Iterator[AnyMessage]:
    """Yield an item as messages; none for what is no part of the conversation, such as reasoning."""
    kind = string(item.get("type")) or "message"
    if kind == "message":
        yield message(item.get("role"), item.get("content"), where=where)
    elif kind.endswith(_OUTPUT):
        yield message("tool", _output(item.get("output")), where=where, call_id=string(item.get("call_id")))
    elif kind.endswith(_CALL):
        call = _call(item)
        yield message("assistant", "", where=where, calls=[call])
        returned = [item[name] for name in ("output", "outputs", "results") if item.get(name)]
        if returned:  # by a tool of the provider's, whose call and result are one item
            yield message("tool", _output(returned[0]), where=where, call_id=call["id"])


def _output(output: object) -> str | list[Any]:
    return output if isinstance(output, str | list) else write_json(output).decode()


def _call(item: Json) -> Json:
    call_input = next((item[name] for name in _TOOL_INPUTS if name in item), None)
    name = string(item.get("name")) or string(item.get("type"))
    return {
        "name": name,
        "args": arguments(call_input),
        "id": string(item.get("call_id")) or string(item.get("id")),
        "type": "tool_call",
    }


def _without_text(item: Json) -> Json:
    parts = [part for part in objects(item.get("content")) if part.get("type") == "refusal"]
    return {**item, "content": parts}


_KNOWN_ITEMS = ("compaction", "mcp_approval_request", "mcp_list_tools", "message", "reasoning")


def _read_item(item: Json, kind: str, read: ReadTexts) -> Json:
    if kind == "message":
        parts = (part for part in objects(item.get("content")) if "text" in part or part.get("type") == "refusal")
        content = [read.part(part, *(["refusal"] if part.get("type") == "refusal" else [])) for part in parts]
        return {**read.part(item, "content"), "content": content}
    if kind == "reasoning" or (kind not in _WAITING and kind != "compaction" and not read.is_strict):
        return item
    if isinstance(action := item.get("action"), dict) and "sources" in action:  # what a search returned
        query = {name: value for name, value in action.items() if name != "sources"}
        item = {**item, "action": {**query, **read.part({"sources": action["sources"]})}}
    is_call = kind in _WAITING or kind.endswith(_CALL)
    return read.call(item, *(_TOOL_INPUTS if is_call else ()))


def _usage(reply: Json) -> Usage:
    """Return the tokens that the upstream reports."""
    counts = reply.get("usage")
    counts = counts if isinstance(counts, dict) else {}
    return Usage.of_call(counts.get("input_tokens"), counts.get("output_tokens"))


def _sequence(reply: Json) -> Iterator[Json]:
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(objects(reply.get("output"))):
        yield from _item_events(index, item)
    yield {"type": f"response.{_ending_of(reply)}", "response": reply}


def _item_events(index: int, item: Json) -> Iterator[Json]:
    where = {"output_index": index, "item_id": item.get("id") or f"item_{index}"}
    content = "content" if item.get("type") == "message" else ""
    empty = {**item, "status": "in_progress", **({"content": []} if content else {})}
    if item.get("type") == "function_call":
        empty["arguments"] = ""
    yield {"type": "response.output_item.added", "output_index": index, "item": empty}
    for at, part in enumerate(objects(item.get("content")) if content else []):
        yield from _part_events({**where, "content_index": at}, part)
    if item.get("type") == "function_call":
        text = string(item.get("arguments"))
        yield {"type": "response.function_call_arguments.delta", **where, "delta": text}
        name = string(item.get("name"))
        yield {"type": "response.function_call_arguments.done", **where, "name": name, "arguments": text}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part_events(where: Json, part: Json) -> Iterator[Json]:
    text, refusal = part.get("text"), part.get("refusal")
    if part.get("type") == "output_text" and isinstance(text, str):
        yield {"type": "response.content_part.added", **where, "part": {**part, "text": "", "annotations": []}}
        yield {
            "type": "response.output_text.delta",
            **where,
            "delta": text,
            "logprobs": part.get("logprobs") or [],
        }
        yield from (
            {"type": "response.output_text.annotation.added", **where, "annotation_index": at, "annotation": one}
            for at, one in enumerate(objects(part.get("annotations")))
        )
        yield {"type": "response.output_text.done", **where, "text": text, "logprobs": part.get("logprobs") or []}
    elif part.get("type") == "refusal" and isinstance(refusal, str):
        yield {"type": "response.content_part.added", **where, "part": {**part, "refusal": ""}}
        yield {"type": "response.refusal.delta", **where, "delta": refusal}
        yield {"type": "response.refusal.done", **where, "refusal": refusal}
    else:
        yield {"type": "response.content_part.added", **where, "part": part}
    yield {"type": "response.content_part.done", **where, "part": part}


_ENDED = ("response.completed", "response.incomplete", "response.failed")


class _ResponsesPieceWriter:
    """Writes the events of one answer that goes out in pieces.

    Args:
        identifier: What its ids end in.
        begun: The reply, without a text.
    """

    def __init__(self, identifier: str, begun: Json) -> None:
        self._head = {"id": f"resp_{identifier}", "created_at": begun["created_at"], "model": begun["model"]}
        self._begun = {**begun, **self._head, "status": "in_progress", "output": [], "usage": None}
        self._item = f"msg_{identifier}"
        self._where = {"output_index": 0, "item_id": self._item, "content_index": 0}
        self._number = 0
        self.sent = ""

    def piece(self, text: str) -> bytes:
        """Return the events of a piece."""
        events: list[Json] = []
        if not self.sent:
            item = {**self._whole_item("", "in_progress"), "content": []}
            events = [
                {"type": "response.created", "response": self._begun},
                {"type": "response.in_progress", "response": self._begun},
                {"type": "response.output_item.added", "output_index": 0, "item": item},
                {"type": "response.content_part.added", **self._where, "part": _text_part("")},
            ]
        self.sent += text
        return self._written([*events, self._delta(text)])

    def end(self, reply: Json) -> bytes:
        """Return the events of what did not go out yet, and of the end."""
        items = objects(reply.get("output"))
        text = "".join(string(part.get("text")) for item in items for part in objects(item.get("content")))
        rest = unsent(text, self.sent)
        whole = self._whole_item(self.sent + rest, "completed")
        others = [item for item in items if item.get("type") not in ("message", "reasoning")]
        reply = {**reply, **self._head, "output": [whole, *others]}
        events = [
            *([self._delta(rest)] if rest else []),
            {"type": "response.output_text.done", **self._where, "text": self.sent + rest, "logprobs": []},
            {"type": "response.content_part.done", **self._where, "part": whole["content"][0]},
            {"type": "response.output_item.done", "output_index": 0, "item": whole},
            *(event for index, item in enumerate(others, 1) for event in _item_events(index, item)),
            {"type": f"response.{_ending_of(reply)}", "response": reply},
        ]
        return self._written(events)

    def fail(self, body: Json) -> bytes:
        """Return the events of an error that ends the answer."""
        return self._written([_error_event(body)])

    def _delta(self, text: str) -> Json:
        return {"type": "response.output_text.delta", **self._where, "delta": text, "logprobs": []}

    def _whole_item(self, text: str, status: str) -> Json:
        content = [_text_part(text)]
        return {"type": "message", "id": self._item, "role": "assistant", "status": status, "content": content}

    def _written(self, events: Sequence[Json]) -> bytes:
        first, self._number = self._number, self._number + len(events)
        return b"".join(_event(number, event) for number, event in enumerate(events, first))


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _ending_of(reply: Json) -> str:
    status = string(reply.get("status"))
    return status if status in ("failed", "incomplete") else "completed"


def _error_event(body: Json) -> Json:
    error = body.get("error")
    error = error if isinstance(error, dict) else {"message": string(error)}
    fields = {"code": error.get("code"), "message": string(error.get("message")), "param": error.get("param")}
    return {"type": "error", **fields}


def _event(number: int, event: Json) -> bytes:
    numbered = {**event, "sequence_number": number}
    return f"event: {event['type']}\ndata: ".encode() + write_json(numbered) + b"\n\n"


class ResponsesDialect(ApiDialect):
    """OpenAI's Responses."""

    PATH = "/responses"

    def read_request(self, body: Json) -> JudgedRequest:
        """Read a request; the body is not changed."""
        content = body.get("input")
        is_list = isinstance(content, list) and all(isinstance(item, dict) for item in content)
        if not isinstance(content, str | None) and not is_list:
            raise ApiError(400, "input is a text or a list of items", code="invalid", param="input")
        request = judged_request(body, _reason_to_skip(body), ("max_output_tokens",))
        if not request.skip_reason:  # left out, it means true
            request.payload["store"] = False
        return request

    def conversation(self, payload: Json) -> list[AnyMessage]:
        """Return the messages for the judge, ending with the question or a tool's result."""
        instructions = string(payload.get("instructions"))
        before: list[AnyMessage] = [SystemMessage(instructions)] if instructions else []
        content = payload.get("input") or ()
        if isinstance(content, str):
            return up_to_question([*before, message("user", content, where="input")])
        items = enumerate(content)
        asked = (one for at, item in items for one in _messages(item, f"input[{at}]"))
        return up_to_question([*before, *asked])

    def with_feedback(self, payload: Json, added: Sequence[AnyMessage]) -> Json:
        """Return the request of a further attempt: the same, with the messages added by the loop at its end."""
        content = payload.get("input") or []
        items = [{"role": "user", "content": content}] if isinstance(content, str) else content
        extra = [{"role": "assistant" if one.type == "ai" else "user", "content": str(one.text)} for one in added]
        return {**payload, "input": [*items, *extra]}

    def read_answer(self, reply: Json) -> tuple[AIMessage, Usage]:
        """Return the answer in an upstream's reply, with tool calls, refusal and why it ended, and its tokens."""
        if not isinstance(reply.get("output"), list):
            raise UpstreamFailed(502, "the upstream's reply is no response with output", code="upstream_reply")
        items = objects(reply["output"])
        parts = [part for item in items if item.get("type") == "message" for part in objects(item.get("content"))]
        texts = [string(part.get("text")) for part in parts if part.get("type") != "refusal"]
        refusal = "".join(string(part.get("refusal")) for part in parts if part.get("type") == "refusal")
        images = [item for item in items if item.get("type") == "image_generation_call"]
        extra = {"refusal": refusal, "tool_outputs": images}
        metadata = {name: reply.get(name) for name in ("status", "incomplete_details")}
        answer = AIMessage(
            "".join(texts),
            tool_calls=[_call(item) for item in items if item.get("type") in _WAITING],
            additional_kwargs={name: value for name, value in extra.items() if value},
            response_metadata={**metadata, "model_name": string(reply.get("model"))},
        )
        return answer, _usage(reply)

    def without_reasoning(self, reply: Json) -> Json:
        """Return a reply without the reasoning in it."""
        items = [item for item in objects(reply["output"]) if item.get("type") != "reasoning"]
        return {**reply, "output": items}

    def without_text(self, reply: Json) -> Json:
        """Return a reply without texts in its messages; refusals are none."""
        items = [
            _without_text(item) if item.get("type") == "message" else item for item in objects(reply["output"])
        ]
        return {**reply, "output": [item for item in items if item.get("type") != "message" or item["content"]]}

    def with_text(self, reply: Json, text: str) -> Json:
        """Return a reply whose output is this text alone; what else may repeat the text it had is left out."""
        kept = {name: value for name, value in reply.items() if name not in ("output", "output_text")}
        return {**kept, "output": self.write_reply(text, "")["output"]}

    def with_usage(self, reply: Json, usage: Usage) -> Json:
        """Return a reply with these tokens as its `usage`."""
        counts: Json = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        return {**reply, "usage": {**counts, **details, "total_tokens": usage.tokens}}

    def read_part(self, reply: Json, read: ReadTexts) -> Json:
        """Return a reply without the texts in it that are no part of what was read; calls and thoughts stay."""
        kinds = ((item, string(item.get("type"))) for item in objects(reply["output"]))
        items = [
            _read_item(item, kind, read)
            for item, kind in kinds
            if kind in _KNOWN_ITEMS or kind.endswith((_CALL, _OUTPUT))
        ]
        return {**read.part(reply, "output"), "output": items}

    def write_reply(self, text: str, model: str) -> Json:
        """Return a reply of the guard's own: the fallback text."""
        part = _text_part(text)
        answer = {
            "type": "message",
            "id": f"msg_{uuid4().hex}",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        return {
            "id": f"resp_{uuid4().hex}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "completed",
            "model": model,
            "output": [answer],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
        }

    def events(self, reply: Json) -> list[bytes]:
        """Return a whole reply as the events of a response: created, each item, ended."""
        return [_event(number, event) for number, event in enumerate(_sequence(reply))]

    def asks_for_form(self, payload: Json) -> bool:
        """Check whether the answer is to have a form, such as JSON, that a part of it has not."""
        text = payload.get("text")
        form = text.get("format") if isinstance(text, dict) else None
        return isinstance(form, dict) and form.get("type") != "text"

    def delta_in(self, event: Json) -> Delta:
        """Return what an event of the upstream's stream adds to the answer."""
        kind, item = event.get("type"), event.get("item")
        is_call = kind == "response.output_item.added" and isinstance(item, dict) and item.get("type") in _WAITING
        return Delta(string(event.get("delta")) if kind == "response.output_text.delta" else "", is_call)

    def assembled(self, body: bytes) -> Json:
        """Return the reply whose stream this is: its last event has it whole."""
        for event in reversed([*filter(None, chunks_in(body))]):
            if isinstance(event.get("response"), dict) and event.get("type") in _ENDED:
                return event["response"]  # type: ignore[no-any-return]  # an object, by the line above
        raise UpstreamFailed(502, "the stream of the upstream's reply broke off", code="upstream_broken")

    def with_released_text(self, reply: Json, text: str, *, is_filtered: bool) -> Json:
        """Return a reply with another text; `is_filtered` says that it was stopped."""
        items = objects(reply["output"])
        own = self.write_reply(text, "")["output"] if text else []
        ending = (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}} if is_filtered else {}
        )
        return {**reply, **ending, "output": [*own, *(item for item in items if item.get("type") != "message")]}

    def piece_writer(self, identifier: str, model: str) -> _ResponsesPieceWriter:
        """Return what writes the events of one answer."""
        return _ResponsesPieceWriter(identifier, self.write_reply("", model))

    def error_events(self, body: Json) -> list[bytes]:
        """Return an error in the midst of a stream, after the beginning of a response, as clients want it."""
        begun = {**self.write_reply("", ""), "status": "in_progress", "output": [], "usage": None}
        return [_event(0, {"type": "response.created", "response": begun}), _event(1, _error_event(body))]
