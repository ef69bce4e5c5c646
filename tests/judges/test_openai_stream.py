"""A chat completion from the chunks of a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from judges.models.providers.http_errors import EndpointConnectionError, EndpointError
from judges.models.providers.openai_replies import assembled, is_stream


def body(*chunks: Any, done: bool = True) -> bytes:
    """Write a stream of events, with the comments and blank lines that servers send."""
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([": ping\n\n", "event: message\r\n", *events, "data: [DONE]\n\n" if done else ""]).encode()


def chunk(delta: dict[str, Any], **choice: Any) -> dict[str, Any]:
    """Make a chunk of one choice."""
    return {
        "id": "r",
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None, **choice}],
    }


def test_a_stream_becomes_the_completion_that_it_stands_for() -> None:
    """Texts are joined, calls found by their number, lists extended; whole fields are not doubled."""
    stream = body(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "It "}),
        chunk({"reasoning_content": "is."}),
        chunk({"content": "Par"}),
        chunk({"content": "is", "annotations": [{"type": "url_citation", "n": 1}]}),
        chunk(
            {
                "tool_calls": [
                    {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
                ]
            }
        ),
        chunk(
            {
                "tool_calls": [
                    {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}
                ]
            }
        ),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"q":'}}]}, logprobs={"content": [1]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]}, logprobs={"content": [2]}),
        chunk({}, finish_reason="tool_calls"),
        {"id": "r", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}, "citations": ["c"]},
    )

    completion = assembled(stream)

    message = {
        "role": "assistant",
        "content": "Paris",
        "reasoning_content": "It is.",
        "annotations": [{"type": "url_citation", "n": 1}],
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"q": 1}'}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": {"content": [1, 2]}}
    assert completion == {
        "id": "r",
        "object": "chat.completion",
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2},
        "citations": ["c"],
    }


def test_a_stream_that_broke_off_is_a_broken_connection() -> None:
    """Half a reply is no reply: it is asked for again like any other that the transport lost."""
    with pytest.raises(EndpointConnectionError, match="broke off"):
        assembled(body(chunk({"content": "Par"}), done=False))
    ended = body(chunk({"content": "Paris"}, finish_reason="stop"), done=False)
    assert assembled(ended)["choices"][0]["message"]["content"] == "Paris"


def test_an_error_within_a_stream_is_handed_on() -> None:
    """What an endpoint says in the midst of a stream comes back as its error, not as a completion."""
    assert assembled(body(chunk({"content": "P"}), {"error": {"message": "busy", "code": 503}})) == {
        "error": {"message": "busy", "code": 503}
    }
    for junk in (b"data: [1]\n\n", b'data: {"choices": [1]}\n\n'):
        with pytest.raises(EndpointError):
            assembled(junk)


@pytest.mark.parametrize(
    ("text", "streamed"), [(b"data: {}", True), (b"\n: hi", True), (b'{"a": 1}', False), (b"", False)]
)
def test_a_stream_is_recognised_by_how_it_begins(text: bytes, streamed: bool) -> None:  # noqa: FBT001 - the result
    """JSON never begins like an event."""
    assert is_stream(text) is streamed
