"""OpenAI's chat completions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage

from graphs import reply_without_reasoning
from graphs.answers import REASONING
from graphs.generators import GOES_ON, Delta, delta_of
from judges.errors import shortened
from judges.models.providers.openai_messages import answer_of, to_dicts, to_message
from judges.models.providers.openai_replies import assembled as whole_completion
from judges.models.providers.openai_replies import usage_in
from judges.verdict import Usage
from refine.server.dialects.protocol import (
    STORED,
    ApiDialect,
    Json,
    JudgedRequest,
    ReadTexts,
    arguments,
    check_message,
    judged_request,
    objects,
    read_flag,
    reason_in_messages,
    string,
    unsent,
    up_to_question,
    write_json,
)
from refine.server.errors import ApiError, UpstreamFailed

_ENVELOPE = ("id", "object", "created", "model", "usage", "service_tier", "system_fingerprint")
"""What a reply keeps when its message is replaced."""
_DONE = b"data: [DONE]\n\n"
_TOKEN_LIMITS = ("max_completion_tokens", "max_tokens")


def _reason_to_skip(body: Json) -> str:
    reason, modalities = reason_in_messages(body), body.get("modalities")
    if modalities not in (None, [], ["text"]):
        return "answers other than text (modalities) are not judged"
    if read_flag(body, "store"):
        return STORED
    return reason


def _read_count(body: Json, name: str) -> int:
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


def _message(fields: Json, where: str) -> AnyMessage:
    check_message(fields.get("role"), fields.get("content"), where)
    return to_message(fields)  # type: ignore[return-value]  # roles of other classes were refused


_KNOWN_PARTS = ("audio", "file", "image", "image_url", "reasoning", "refusal", "text", "thinking", "video")
_INPUT_FIELDS = {"custom": "input", "function": "arguments"}


def _read_call(call: Json, read: ReadTexts) -> Json:
    kind = next((name for name in _INPUT_FIELDS if isinstance(call.get(name), dict)), "")
    return read.part({**call, kind: read.call(call[kind], _INPUT_FIELDS[kind])}, kind) if kind else read.part(call)


def _read_content(part: Any, read: ReadTexts) -> Any:
    if not isinstance(part, dict):
        return part
    kind = string(part.get("type"))
    return part if kind.startswith(REASONING) else read.part(part, *(["refusal"] if kind == "refusal" else []))


def _is_known(part: object) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and part.get("type") in _KNOWN_PARTS)


def _is_call(value: object) -> bool:
    """Check for the one call of an answer as it was before there were tools."""
    return isinstance(value, dict) and value.keys() == {"name", "arguments"}


def _sum_usage(usages: Sequence[Json]) -> Json:
    """Return the sum of each count that is anywhere in them."""
    total: Json = {}
    for usage in usages:
        for name, value in usage.items():
            known = total.get(name)
            if isinstance(value, dict):
                total[name] = _sum_usage([value, *([known] if isinstance(known, dict) else [])])
            elif type(value) in (int, float) and type(known) in (int, float):
                total[name] = known + value
            else:
                total[name] = value
    return total


def _delta(choice: Json) -> Json:
    rest = {name: value for name, value in choice.items() if name != "message"}
    body = choice.get("message")
    delta = {"role": "assistant", **(body if isinstance(body, dict) else {})}
    if isinstance(delta.get("tool_calls"), list):
        calls = objects(delta["tool_calls"])
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    return {**rest, "delta": delta}


class _ChatPieceWriter:
    """Writes the events of one answer that goes out in pieces.

    Args:
        identifier: What its id ends in.
        model: Name of the model asked for.
    """

    def __init__(self, identifier: str, model: str) -> None:
        self._head = {
            "id": f"chatcmpl-{identifier}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }
        self.sent = ""

    def piece(self, text: str) -> bytes:
        """Return the events of a piece."""
        delta = {"content": text} if self.sent else {"role": "assistant", "content": text}
        self.sent += text
        return self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}], {})

    def end(self, reply: Json) -> bytes:
        """Return the events of what did not go out yet, and of the end."""
        choices = [_delta(choice) for choice in objects(reply.get("choices"))[:1]]
        for choice in choices:
            delta = {name: value for name, value in choice["delta"].items() if name not in ("role", "content")}
            rest = unsent(string(choice["delta"].get("content")), self.sent)
            choice["delta"] = {**delta, "content": rest} if rest else delta
        others = {name: value for name, value in reply.items() if name not in (*self._head, "choices")}
        return self._chunk(choices, others) + _DONE

    def fail(self, body: Json) -> bytes:
        """Return the events of an error that ends the answer."""
        return b"".join(ChatDialect().error_events(body))

    def _chunk(self, choices: list[Json], others: Json) -> bytes:
        return b"data: " + write_json({**self._head, "choices": choices, **others}) + b"\n\n"


class ChatDialect(ApiDialect):
    """OpenAI's chat completions."""

    PATH = "/chat/completions"

    def read_request(self, body: Json) -> JudgedRequest:
        """Read a request; the body is not changed."""
        request = judged_request(body, _reason_to_skip(body), _TOKEN_LIMITS)
        request.choices = _read_count(body, "n")
        if request.choices > 1 and not request.skip_reason:
            del request.payload["n"]
        return request

    def conversation(self, payload: Json) -> list[AnyMessage]:
        """Return the messages for the judge, ending with the question or a tool's result."""
        messages = [_message(fields, f"messages[{at}]") for at, fields in enumerate(payload["messages"])]
        return up_to_question(messages)

    def with_feedback(self, payload: Json, added: Sequence[AnyMessage]) -> Json:
        """Return the request of a further attempt: the same, with the messages added by the loop at its end."""
        return {**payload, "messages": [*payload["messages"], *to_dicts(added)]}

    def read_answer(self, reply: Json) -> tuple[AIMessage, Usage]:
        """Return the answer in an upstream's reply, with tool calls, refusal and why it ended, and its tokens."""
        choices = reply.get("choices")
        first = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
            raise UpstreamFailed(502, "the upstream's reply is no chat completion", code="upstream_reply")
        if isinstance(first.get("error") or reply.get("error"), dict | str):
            text = "the upstream failed in the midst of its reply, which has an error beside it"
            raise UpstreamFailed(502, text, code="upstream_broken")
        answer = answer_of(reply, "")
        said = first["message"]
        if said.get("images") and objects(said["images"]):  # as OpenRouter has them
            answer.additional_kwargs["tool_outputs"] = [{"type": "image"}]
        called = said.get("function_call")
        if called and not answer.tool_calls and _is_call(called):
            name, given = string(called["name"]), arguments(called["arguments"])
            answer.tool_calls = [{"name": name, "args": given, "id": None, "type": "tool_call"}]
        if answer.invalid_tool_calls and not answer.tool_calls:  # a call all the same, which the client may mend
            answer.tool_calls = [
                {"name": broken["name"] or "", "args": {}, "id": broken["id"], "type": "tool_call"}
                for broken in answer.invalid_tool_calls
            ]
        return answer, usage_in(reply)

    def without_reasoning(self, reply: Json) -> Json:
        """Return a reply without the reasoning in it."""
        return reply_without_reasoning(reply)

    def without_text(self, reply: Json) -> Json:
        """Return a reply whose message has no content; a refusal is none."""
        choices = [{**one, "message": {**one["message"], "content": None}} for one in objects(reply["choices"])]
        return {**reply, "choices": choices}

    def with_text(self, reply: Json, text: str) -> Json:
        """Return a reply whose message is this text alone; what else may repeat the text it had is left out."""
        kept = {name: reply[name] for name in _ENVELOPE if name in reply}
        return {**self.write_reply(text, ""), **kept}

    def with_usage(self, reply: Json, usage: Usage) -> Json:
        """Return a reply with these tokens as its `usage`."""
        counts = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
        return {**reply, "usage": {**counts, "total_tokens": usage.tokens}}

    def read_part(self, reply: Json, read: ReadTexts) -> Json:
        """Return a reply without the texts in it that are no part of what was read; calls and refusals stay."""
        choice = reply["choices"][0]
        body = dict(choice["message"])
        if isinstance(body.get("content"), list):
            body["content"] = [_read_content(part, read) for part in body["content"] if _is_known(part)]
        if isinstance(body.get("tool_calls"), list):
            body["tool_calls"] = [_read_call(call, read) for call in objects(body["tool_calls"])]
        forms = {"content": list, "tool_calls": list, "refusal": str}
        whole = [
            name for name in body if name.startswith(REASONING) or isinstance(body[name], forms.get(name, ()))
        ]
        if _is_call(body.get("function_call")):
            body["function_call"] = read.call(body["function_call"], "arguments")
            whole.append("function_call")
        chosen = {**read.part(choice, "message"), "message": read.part(body, *whole)}
        return {**read.part(reply, "choices"), "choices": [chosen]}

    def write_reply(self, text: str, model: str) -> Json:
        """Return a reply of the guard's own: the fallback text."""
        answer = {"role": "assistant", "content": text, "refusal": None}
        return {
            "id": f"chatcmpl-{uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [{"index": 0, "message": answer, "finish_reason": "stop", "logprobs": None}],
        }

    def events(self, reply: Json) -> list[bytes]:
        """Return a whole reply as one chunk: each choice's message is its delta, usage and `refine` go with it."""
        choices = [_delta(choice) for choice in reply["choices"]]
        chunk = {**reply, "object": "chat.completion.chunk", "choices": choices}
        return [b"data: " + write_json(chunk) + b"\n\n", _DONE]

    def asks_for_form(self, payload: Json) -> bool:
        """Check whether the answer is to have a form, such as JSON, that a part of it has not."""
        form = payload.get("response_format")
        return isinstance(form, dict) and form.get("type") != "text"

    def as_stream(self, payload: Json) -> Json:
        """Return a request whose reply comes as a stream."""
        return {**payload, "stream": True, "stream_options": {"include_usage": True}}

    def going_on(self, payload: Json) -> Json:
        """Return a request whose last message the endpoint is to go on with, as vLLM has it."""
        return {**payload, **GOES_ON}

    def delta_in(self, event: Json) -> Delta:
        """Return what an event of the upstream's stream adds to the answer."""
        return delta_of(event)

    def assembled(self, body: bytes) -> Json:
        """Return the reply whose stream this is."""
        return whole_completion(body)

    def with_released_text(self, reply: Json, text: str, *, is_filtered: bool) -> Json:
        """Return a reply with another text; `is_filtered` says that it was stopped."""
        first, *others = objects(reply["choices"])
        choice = {**first, "message": {**first["message"], "content": text}}
        if first["message"].get("content") != text and first.get("logprobs"):
            choice["logprobs"] = None  # of the last attempt alone, what it repeated included
        if is_filtered:
            choice["finish_reason"] = "content_filter"
        return {**reply, "choices": [choice, *others]}

    def piece_writer(self, identifier: str, model: str) -> _ChatPieceWriter:
        """Return what writes the events of one answer."""
        return _ChatPieceWriter(identifier, model)

    def error_events(self, body: Json) -> list[bytes]:
        """Return an error in the midst of a stream as events, the last of the stream included."""
        return [b"data: " + write_json(body) + b"\n\n", _DONE]

    def join_choices(self, replies: Sequence[Json]) -> Json:
        """Return one reply with the choices of several, and the tokens of all of them."""
        choices = [{**choice, "index": at} for at, reply in enumerate(replies) for choice in reply["choices"]]
        usages = [usage for reply in replies if isinstance(usage := reply.get("usage"), dict)]
        joined = {**replies[0], "choices": choices}
        return {**joined, "usage": _sum_usage(usages)} if usages else joined
