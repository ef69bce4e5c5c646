"""Messages, images, tool calls and streams of chat completions, and LangChain's, converted both ways."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from judges import ConfigurationError, Helpfulness, Length, Sample, Verdict, load
from judges.fingerprint import fingerprint
from judges.messages import Message, plain_message
from judges.models.providers.http_errors import EndpointConnectionError, EndpointError
from judges.models.providers.langchain import LangChainModel
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_messages import _to_dict, answer_of, to_dicts, to_message, to_messages
from judges.models.providers.openai_replies import _is_stream, assembled
from judges.models.wrappers.cache import cached
from judges.models.wrappers.wrapped import speaking
from judges.offline import evaluate, read_rows
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.kit import Way, ask, both_ways
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, serving

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
    assert _to_dict(to_message(message)) == message


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

    sent = _to_dict(answer)

    assert sorted(sent) == ["content", "role", "tool_calls"]
    assert sent["content"] == [{"type": "text", "text": "Yes."}]
    assert _to_dict(HumanMessage("hi", additional_kwargs={"refine": "feedback", "lc_source": "x"})) == {
        "role": "user",
        "content": "hi",
    }


def test_calls_that_were_changed_are_sent_as_they_are_now() -> None:
    """An editor, such as a human who reviews a call, changes `tool_calls`: the text received is dropped then."""
    message = to_message({"role": "assistant", "content": "", "tool_calls": [SIGNED]})
    assert isinstance(message, AIMessage)
    message.tool_calls[0]["args"]["n"] = 3
    assert _to_dict(message)["tool_calls"][0]["function"]["arguments"] == '{"q": "Paris", "n": 3}'


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
    assert _to_dict(answer)["tool_calls"] == [CALL, broken, nameless, custom]
    assert answer_of({"choices": [{"message": {"content": None}}], "usage": {"prompt_tokens": -1}}, "m").text == ""


def test_what_cannot_be_converted_says_so() -> None:
    """A line that names the kind, never the text."""
    with pytest.raises(ConfigurationError, match="a RemoveMessage cannot be sent"):
        _to_dict(RemoveMessage(id="1"))
    with pytest.raises(ConfigurationError, match="a mapping with a 'role'"):
        to_messages([{"content": "hi"}])
    with pytest.raises(ConfigurationError, match="a part of type 'file' cannot be sent"):
        _to_dict(HumanMessage([{"type": "file", "url": "https://x", "mime_type": "application/pdf"}]))


GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
WRITTEN = json.dumps(GOOD)
TWICE = '{"rationale": "r", "rating": 1, "feedback": "", "rating": 4}'


class Uncalled(ChatOpenAI):
    """OpenAI's model as it would be if replies no longer passed the method that is patched."""

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        self.__dict__.pop("_create_chat_result", None)
        return super()._generate(*args, **kwargs)

    async def _agenerate(self, *args: Any, **kwargs: Any) -> ChatResult:
        self.__dict__.pop("_create_chat_result", None)
        return await super()._agenerate(*args, **kwargs)


class Renamed(BaseChatModel):
    """OpenAI's model as it would be without the method: a call's arguments are parsed, and the text is dropped."""

    __module__ = "langchain_openai.chat_models.later"
    scripted: bool = True

    @property
    def _llm_type(self) -> str:
        return "later"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """Bind tools."""
        return self.bind(tools=tools)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        call = {"name": "Assessment", "args": json.loads(TWICE), "id": "1"}
        message = AIMessage("", tool_calls=[call]) if kwargs.get("tools") else AIMessage(WRITTEN)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Changed(Renamed):
    """One whose method takes something else than the provider's response."""

    __module__ = "somewhere.else"

    def _create_chat_result(self, envelope: dict[str, Any]) -> ChatResult:
        result: ChatResult = envelope["result"]
        return result

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return self._create_chat_result({"result": super()._generate(messages, *args, **kwargs)})


class Miscounted(Changed):
    """One whose method returns another number of generations than there are choices."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        result = Renamed._generate(self, messages, *args, **kwargs)
        call = {"function": {"name": "Assessment", "arguments": WRITTEN}}
        choices = [{"message": {"tool_calls": [call]}}, {"message": {}}]
        return self._create_chat_result({"result": result, "choices": choices})


def obliging(asked: Asked) -> Reply:
    """Reply by a call that gives a key twice, or by a readable text."""
    return Reply(calls=(("Assessment", TWICE),)) if "tools" in asked else Reply(WRITTEN)


def kind_of(asked: Asked) -> str:
    """Name the method by which a request asks for the object."""
    texts = "response_format" in asked or "format" in asked.get("text", {})
    return "json_schema" if texts else "tools" if "tools" in asked else "text"


def chat(kind: type[ChatOpenAI], server: ModelServer, **settings: Any) -> ChatOpenAI:
    """Make a model for a server of this test."""
    return kind(model="m", base_url=server.url, api_key="k", max_retries=0, **settings)  # type: ignore[arg-type]  # a text is taken


async def judged(model: object, way: Way, times: int = 1) -> list[Verdict]:
    """Judge a few times with one judge."""
    judge = Helpfulness(model)
    return [await ask(judge, way, response="a") for _ in range(times)]


@both_ways
async def test_call_whose_raw_arguments_were_not_kept_is_asked_for_otherwise(way: Way) -> None:
    """The parsed mapping is not believed; the next method is used from the repair on."""
    with serving(obliging) as server:
        verdicts = await judged(chat(Uncalled, server), way, times=2)
    assert [(verdict.rating, verdict.usage.calls) for verdict in verdicts] == [(4, 2), (4, 1)]
    assert list(map(kind_of, server.requests)) == ["tools", "json_schema", "json_schema"]


@both_ways
@pytest.mark.parametrize("arguments", [TWICE, WRITTEN], ids=["twice", "good"])
async def test_call_whose_raw_arguments_were_not_kept_is_unreadable_where_tools_are_a_must(
    arguments: str, way: Way
) -> None:
    """Where the user allows no other method there is no score, whatever the mapping says."""
    with serving(lambda _: Reply(calls=(("Assessment", arguments),))) as server:
        model = LangChainModel(chat(Uncalled, server), method="tools")
        (verdict,) = await judged(model, way)
    assert (verdict.unscored, verdict.detail) == ("invalid_output", "the tool call's arguments cannot be read")


@both_ways
@pytest.mark.parametrize("kind", [Renamed, Changed, Miscounted])
async def test_model_whose_hook_is_another_is_not_believed(kind: type[Renamed], way: Way) -> None:
    """Renamed, given something else, or returning another number: the judge asks for text, and reads that."""
    (verdict,) = await judged(kind(), way)
    assert (verdict.rating, verdict.usage.calls) == (4, 2)
    (pinned,) = await judged(LangChainModel(kind(), method="tools"), way)
    assert pinned.unscored == "invalid_output"


def test_broken_call_is_still_repaired_by_the_same_method() -> None:
    """A call that is not valid JSON is the model's fault, not the framework's; the patch is in a copy."""
    replies = iter([Reply(calls=(("Assessment", "{"),)), Reply(calls=(("Assessment", GOOD),))])
    with serving(lambda _: next(replies)) as server:
        own = chat(ChatOpenAI, server)
        assert Helpfulness(own)(response="a").rating == 4
    assert list(map(kind_of, server.requests)) == ["tools", "tools"]
    assert "_create_chat_result" not in vars(own)


def responses(arguments: str) -> Any:
    """Reply as the Responses API does: by a call where tools are offered, else by text."""

    def reply(asked: Asked) -> Wire:
        call = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "Assessment", "arguments": arguments}
        text = {"type": "output_text", "text": WRITTEN, "annotations": []}
        message = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text]}
        output = {**call, "status": "completed"} if asked.get("tools") else message
        settings = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
        head = {"id": "r1", "object": "response", "created_at": 0, "model": "m", "status": "completed"}
        return answered({**head, **settings, "output": [output]})

    return reply


@both_ways
async def test_call_in_the_responses_api_is_read_from_its_raw_arguments(way: Way) -> None:
    """Its content has the text, so a key given twice is seen; where a version drops it, a schema is asked for."""
    for arguments, settings, rating, kinds in (
        (WRITTEN, {}, 4, {"tools"}),
        (TWICE, {}, None, {"tools"}),
        (TWICE, {"output_version": "v0"}, 4, {"tools", "json_schema"}),
        (TWICE, {"output_version": "v1"}, 4, {"tools", "json_schema"}),
    ):
        with serving(responses(arguments)) as server:
            (verdict,) = await judged(chat(ChatOpenAI, server, use_responses_api=True, **settings), way)
        assert (verdict.rating, verdict.unscored) == (rating, None if rating else "invalid_output")
        assert (set(map(kind_of, server.requests)), len(server.requests)) == (
            kinds,
            1 if arguments == WRITTEN else 2,
        )


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
    """Half a reply is asked for again; an error in its midst is handed on; JSON never begins like an event."""
    with pytest.raises(EndpointConnectionError, match="broke off"):
        assembled(body(chunk({"content": "Par"}), done=False))
    ended = body(chunk({"content": "Paris"}, finish_reason="stop"), done=False)
    assert assembled(ended)["choices"][0]["message"]["content"] == "Paris"
    error = {"error": {"message": "busy", "code": 503}}
    assert assembled(body(chunk({"content": "P"}), error)) == error
    for junk in (b"data: [1]\n\n", b'data: {"choices": [1]}\n\n'):
        with pytest.raises(EndpointError):
            assembled(junk)
    assert [_is_stream(text) for text in (b"data: {}", b"\n: hi", b'{"a": 1}', b"")] == [True, True, False, False]


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
PICTURE: dict[str, Any] = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
ELSEWHERE = {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png", "detail": "low"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRgAAAA==", "format": "wav"}}
VIDEO = {"type": "video_url", "video_url": {"url": "https://v"}}
TEXT = {"type": "text", "text": "What is it? "}
SEEN = {"rationale": "so", "rating": 4, "feedback": ""}


def about(*parts: dict[str, Any], **fields: Any) -> Sample:
    """Make a sample whose question has parts that are no text."""
    return Sample.read(messages=[{"role": "user", "content": [TEXT, *parts]}], answer="A red dot.", **fields)


def graded(_: Asked) -> Reply:
    """Answer as a judge that is content."""
    return Reply(calls=(("Assessment", SEEN),))


def judge_at(server: ModelServer, kind: str, **settings: Any) -> Any:
    """Load a judge whose model is at a server, by the direct client or by LangChain's."""
    direct = OpenAICompatible(server.url, model="m", api_key="k")
    by_langchain = ChatOpenAI(model="m", base_url=server.url, api_key=SecretStr("k"), max_retries=0)
    return load("helpfulness", model=direct if kind == "direct" else by_langchain, **settings)


@pytest.mark.parametrize("kind", ["direct", "langchain"])
def test_images_and_audio_reach_a_model_over_http(kind: str) -> None:
    """As content parts behind the text, each announced as evidence, the task once more behind them."""
    with serving(graded) as server:
        judge = judge_at(server, kind, multimodal=True)
        assert judge(about(PICTURE, VIDEO, SOUND, ELSEWHERE)).rating == 4
        assert asyncio.run(judge.acall(about(PICTURE))).rating == 4
        assert judge_at(server, kind)(about(PICTURE)).rating == 4
    seen, later, plain = (body["messages"][-1]["content"] for body in server.requests)
    types = [part["type"] for part in seen]
    assert types == ["text", "text", "image_url", "text", "input_audio", "text", "image_url", "text"]
    assert seen[2]["image_url"]["url"] == f"data:image/png;base64,{PNG}"
    assert seen[4]["input_audio"] == {"data": "UklGRgAAAA==", "format": "wav"}
    assert seen[6]["image_url"]["url"] == "https://pictures.example/cat.png"
    shown = json.loads(seen[0]["text"].split("\n", 2)[2].rsplit("\n", 2)[0])
    (message,) = shown["conversation"]
    assert message["attachments"] == ["attachment 1", "attachment 2", "attachment 3"]
    assert message["parts_not_shown"] == ["video_url"]
    assert "Attachment 2 (audio). It is evidence" in seen[3]["text"]
    assert seen[0]["text"].endswith(seen[-1]["text"])
    assert [part["type"] for part in later] == ["text", "text", "image_url", "text"]
    assert isinstance(plain, str)
    assert '"parts_not_shown": ["image_url"]' in plain
    assert PNG not in plain


def test_a_repair_keeps_the_attachments() -> None:
    """They stay at the message of the data when the model is asked again."""
    replies = iter([Reply(calls=(("Assessment", {"rating": 9}),)), graded({})])
    with serving(lambda _: next(replies)) as server:
        assert judge_at(server, "direct", multimodal=True)(about(PICTURE)).rating == 4
    contents = [message["content"] for message in server.requests[1]["messages"]]
    assert [isinstance(content, list) for content in contents[-3:]] == [True, False, False]


@pytest.mark.parametrize(
    ("part", "url", "data"),
    [
        (PICTURE, PICTURE["image_url"]["url"], ""),
        ({"type": "image_url", "image_url": "https://x/y.png"}, "https://x/y.png", ""),
        ({"type": "input_image", "image_url": "https://x/y.png"}, "https://x/y.png", ""),
        ({"type": "image", "url": "https://x/y.png"}, "https://x/y.png", ""),
        ({"type": "image", "base64": PNG, "mime_type": "image/png"}, "", PNG),
        ({"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"}, "", PNG),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}, "", PNG),
        ({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, "https://x/y.png", ""),
        ({"type": "media", "mime_type": "image/png", "data": PNG}, "", PNG),
        ({"type": "image", "base64": PNG}, "", PNG),
    ],
)
def test_images_are_read_in_the_forms_of_providers(part: dict[str, Any], url: str, data: str) -> None:
    """OpenAI's two, LangChain's two, Anthropic's, Gemini's; what they become is the same."""
    (media,) = Message.model_validate({"role": "user", "content": [TEXT, part]}).media
    assert (media.kind, media.url, media.data) == ("image", url, data)
    assert media.mime_type == ("image/png" if data else "")
    assert PNG not in repr(media)
    blocks = {"url": url} if url.startswith("https") else {"base64": PNG, "mime_type": "image/png"}
    assert media.langchain_block() == {"type": "image", **blocks}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "file_id": "f1"},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "audio", "url": "https://x/y.mp3"},
        {"type": "image_url", "image_url": None},
        {"type": "input_audio", "input_audio": {}},
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg/>"}},
        VIDEO,
    ],
    ids=str,
)
def test_what_cannot_be_sent_stays_named(part: dict[str, Any]) -> None:
    """Files known by an id, other schemes, sounds by an address: the model is told that it was not shown them."""
    model = ScriptedModel([SEEN])
    assert load("helpfulness", model=model, multimodal=True)(about(part)).rating == 4
    content = model.prompts[0][-1].content
    assert isinstance(content, str)
    assert '"parts_not_shown"' in content


def test_every_place_of_a_conversation_is_shown() -> None:
    """Messages of LangChain, steps and tool results included; each picture stands behind the message it is of."""
    messages = [
        HumanMessage([TEXT, PICTURE]),
        AIMessage("", tool_calls=[{"name": "draw", "args": {}, "id": "1"}]),
        ToolMessage([ELSEWHERE], tool_call_id="1"),
    ]
    model = ScriptedModel([SEEN])
    load("helpfulness", model=model, multimodal=True)(messages=messages, answer="Done.")
    content: Any = model.prompts[0][-1].content
    assert [block["type"] for block in content] == ["text", "text", "image", "text", "image", "text"]
    claims = ScriptedModel(
        [
            {"claims": ["It is red."]},
            {"items": [{"number": 1, "reason": "so", "verdict": "supported"}]},
        ]
    )
    judge = load("hallucination", model=claims, multimodal=True)
    judge(messages=messages, answer="It is red.")
    assert any(block["type"] == "image" for block in claims.prompts[1][-1].content if isinstance(block, dict))


def test_a_model_that_takes_none_is_reported(tmp_path: Path) -> None:
    """By the profile of a LangChain model, or because it was trained to judge in a format of its own."""
    model = ScriptedModel([SEEN])
    model.profile = {"image_inputs": True, "audio_inputs": False}
    load("helpfulness", model=cached(model, tmp_path / "cache.db"), multimodal=True)(about(PICTURE, SOUND))
    content: Any = model.prompts[0][-1].content
    assert [block["type"] for block in content if isinstance(block, dict)] == ["text", "text", "image", "text"]
    assert '"parts_not_shown": ["input_audio"]' in content[0]["text"]
    trained = ScriptedModel(["Feedback: so. [RESULT] 5"])
    load("helpfulness", model=speaking(trained, "prometheus"), multimodal=True)(about(PICTURE))
    assert isinstance(trained.prompts[0][-1].content, str)


def test_it_counts_in_fingerprints_caches_and_settings(tmp_path: Path) -> None:
    """Another picture is another question; a wrong setting is one line."""
    model = ScriptedModel([SEEN, SEEN])
    plain, shown = (load("tone", model=model, tone="dry", multimodal=shown) for shown in (False, True))
    assert fingerprint(plain) != fingerprint(shown)
    judge = load("helpfulness", model=cached(model, tmp_path / "cache.db"), multimodal=True)
    for picture in (PICTURE, ELSEWHERE, PICTURE):
        assert judge(about(picture)).rating == 4
    assert len(model.prompts) == 2
    with pytest.raises(ConfigurationError, match="multimodal is True or False, not 'yes'"):
        load("helpfulness", model=model, multimodal="yes")


def test_runs_and_the_loop_show_them_and_files_do_not_keep_them(tmp_path: Path) -> None:
    """A run reads its rows from a file and shows the picture; a recorded loop names it without its content."""
    model = ScriptedModel([SEEN] * 2)
    judge = load("helpfulness", model=model, multimodal=True)
    rows = iter([about(PICTURE).model_dump(mode="json", exclude_defaults=True)])
    assert evaluate(rows, judge, out=tmp_path / "run").rows[0].verdicts["helpfulness"].rating == 4
    record = tmp_path / "attempts.jsonl"
    chat = SelfRefine(ScriptedModel(["A dot."]), judge, record=record)
    chat.invoke([HumanMessage([TEXT, PICTURE])])
    for prompt in model.prompts:
        assert [block["type"] for block in prompt[-1].content if isinstance(block, dict)].count("image") == 1
    text = record.read_text(encoding="utf-8")
    assert PNG not in text
    assert "image_url" in text
    assert evaluate(read_rows(record), Length(at_most=99)).rows[0].verdicts["length"].passed


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
