"""Messages of chat completions and LangChain's, converted both ways."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from judges import ConfigurationError
from judges.messages import Message, plain_message
from judges.models.providers.openai_messages import answer_of, to_dict, to_dicts, to_message, to_messages

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":"Paris",  "n": 2}'}}
SIGNED = {**CALL, "extra_content": {"google": {"thought_signature": "s"}}}

DICTS: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief.", "cache_control": {"type": "ephemeral"}},
    {"role": "developer", "content": "Be kind."},
    {"role": "user", "content": "What is this?", "name": "Ada"},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "this", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            {"type": "file", "file": {"file_id": "f1"}},
            {"type": "video_url", "video_url": {"url": "https://v"}},
        ],
    },
    {"role": "assistant", "content": "Hm.", "reasoning_content": "It may be ...", "prefix": True},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [SIGNED],
        "reasoning_details": [{"data": "x", "index": 0}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "Paris", "name": "search"},
    {"role": "assistant", "content": None, "refusal": "No."},
    {"role": "assistant", "content": None, "audio": {"id": "a1"}},
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "1"},
    {"role": "critic", "content": "Good.", "weight": 1},
]


@pytest.mark.parametrize("message", DICTS, ids="-".join)
def test_nothing_of_a_message_is_lost(message: dict[str, Any]) -> None:
    """A message of a request, converted to LangChain's and back, is as it was, arguments to the character."""
    assert to_dict(to_message(message)) == message


def test_langchains_messages_are_sent_as_chat_completions_take_them() -> None:
    """Roles, tool calls, tool results and pictures in LangChain's forms and in Anthropic's."""
    picture = {"type": "image", "base64": "AA==", "mime_type": "image/png"}
    older = {"type": "image", "source_type": "url", "url": "https://p"}
    theirs = {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "BB=="}}
    messages: list[BaseMessage] = [
        SystemMessage("Be brief."),
        HumanMessage(["What?", picture, older, theirs]),
        AIMessage("", tool_calls=[{"name": "f", "args": {"a": "ä"}, "id": "1", "type": "tool_call"}]),
        ToolMessage("1", tool_call_id="1", artifact=object(), status="error"),
        ChatMessage(content="so", role="critic"),
    ]

    system, human, call, result, other = to_dicts(messages)

    assert (system, other) == ({"role": "system", "content": "Be brief."}, {"role": "critic", "content": "so"})
    assert human["content"][0] == {"type": "text", "text": "What?"}
    assert [part["image_url"]["url"] for part in human["content"][1:]] == [
        "data:image/png;base64,AA==",
        "https://p",
        "data:image/gif;base64,BB==",
    ]
    function = {"name": "f", "arguments": '{"a": "ä"}'}
    assert call["tool_calls"] == [{"id": "1", "type": "function", "function": function}]
    assert (call["content"], result) == (None, {"role": "tool", "content": "1", "tool_call_id": "1"})


def test_what_another_provider_put_into_an_answer_stays_there() -> None:
    """Thoughts, calls in the content and private fields of another provider are not sent to this one."""
    answer = AIMessage(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Yes.", "annotations": [], "id": "t1"},
            {"type": "tool_use", "id": "1", "name": "f", "input": {}},
        ],
        tool_calls=[{"name": "f", "args": {}, "id": "1", "type": "tool_call"}],
        additional_kwargs={"private": 1, "refusal": None, "__gemini__": 2, "lc_source": "s", "refine": "draft"},
        response_metadata={"model_provider": "anthropic"},
    )

    sent = to_dict(answer)

    assert sorted(sent) == ["content", "role", "tool_calls"]
    assert sent["content"] == [{"type": "text", "text": "Yes."}]
    assert to_dict(HumanMessage("hi", additional_kwargs={"refine": "feedback", "lc_source": "x"})) == {
        "role": "user",
        "content": "hi",
    }


def test_calls_that_were_changed_are_sent_as_they_are_now() -> None:
    """An editor, such as a human who reviews a call, changes `tool_calls`: the text received is dropped then."""
    message = to_message({"role": "assistant", "content": "", "tool_calls": [SIGNED]})
    assert isinstance(message, AIMessage)
    message.tool_calls[0]["args"]["n"] = 3
    assert to_dict(message)["tool_calls"][0]["function"]["arguments"] == '{"q": "Paris", "n": 3}'


def test_an_answer_keeps_all_that_the_endpoint_said() -> None:
    """Unknown fields of the message, the choice and the completion; usage with its details; broken calls."""
    broken = {"id": "c2", "type": "function", "function": {"name": "search", "arguments": '{"q": '}}
    nameless = {"id": "c3", "type": "function"}
    custom = {"id": "c4", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    message = {
        "role": "assistant",
        "content": "Paris.",
        "refusal": None,
        "reasoning_content": "It is known.",
        "annotations": [{"type": "url_citation"}],
        "tool_calls": [CALL, broken, nameless, custom],
    }
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 6},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": {"content": []}}
    completion = {"id": "r", "object": "chat.completion", "model": "m-1", "choices": [choice], "usage": usage}

    answer = answer_of({**completion, "citations": ["https://a"], "service_tier": None}, "m")

    assert answer.text == "Paris."
    assert sorted(answer.additional_kwargs) == ["annotations", "reasoning_content", "tool_calls"]
    assert answer.response_metadata["citations"] == ["https://a"]
    assert {"finish_reason", "id", "logprobs", "model_name", "model_provider", "token_usage"} < set(
        answer.response_metadata
    )
    assert "service_tier" not in answer.response_metadata
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["input_token_details"] == {"cache_read": 6}
    assert answer.usage_metadata["output_token_details"] == {"reasoning": 3}
    assert [call["args"] for call in answer.tool_calls] == [{"q": "Paris", "n": 2}, {"__arg1": "SELECT 1"}]
    assert [call["id"] for call in answer.invalid_tool_calls] == ["c2", "c3"]
    assert to_dict(answer)["tool_calls"] == [CALL, broken, nameless, custom]
    assert answer_of({"choices": [{"message": {"content": None}}], "usage": {"prompt_tokens": -1}}, "m").text == ""


def test_what_cannot_be_converted_says_so() -> None:
    """A line that names the kind, never the text."""
    with pytest.raises(ConfigurationError, match="a RemoveMessage cannot be sent"):
        to_dict(RemoveMessage(id="1"))
    with pytest.raises(ConfigurationError, match="a mapping with a 'role'"):
        to_messages([{"content": "hi"}])
    with pytest.raises(ConfigurationError, match="a part of type 'file' cannot be sent"):
        to_dict(HumanMessage([{"type": "file", "url": "https://x", "mime_type": "application/pdf"}]))


@pytest.mark.parametrize(
    ("role", "kind"), [("user", HumanMessage), ("assistant", AIMessage), ("system", SystemMessage)]
)
def test_a_message_of_a_text_alone_is_as_langchain_makes_it(role: str, kind: type[BaseMessage]) -> None:
    """Although nothing of it is checked: all fields, those that were set, and nothing shared with another."""
    made, other, own = (
        to_message({"role": role, "content": "Hi."}),
        to_message({"role": role, "content": "Hi."}),
        kind("Hi."),
    )
    assert (type(made), made) == (kind, own)
    assert list(vars(made).items()) == list(vars(own).items())
    assert (made.model_fields_set, made.__pydantic_extra__) == (own.model_fields_set, own.__pydantic_extra__)
    made.additional_kwargs["seen"] = made.response_metadata["seen"] = True
    assert other == own == made.model_copy(update={"additional_kwargs": {}, "response_metadata": {}})
    assert plain_message(own) == Message.model_validate(own)
