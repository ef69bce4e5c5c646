"""The way in which a model is asked for an object is chosen per model, remembered, and may be overridden."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

from judges import ConfigurationError, Helpfulness
from judges.model import ModelResponse
from judges.models.providers.langchain import LangChainModel, NamedModel
from judges.models.structured import RequestPlan, closed_schema, response_format
from judges.testing import ScriptedModel
from tests.kit import Way, ask, both_ways
from tests.model_server import Asked, ModelServer, Reply, serving

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
WRITTEN = json.dumps(GOOD)


def obliging(asked: Asked) -> Reply:
    """Reply with the object in the way that was asked for."""
    return Reply(calls=(("Assessment", GOOD),)) if "tools" in asked else Reply(WRITTEN)


def way_of(asked: Asked) -> str:
    """Name the way in which a request asks for the object."""
    return "json_schema" if "response_format" in asked else "tools" if "tools" in asked else "text"


def chat(server: ModelServer, **settings: Any) -> ChatOpenAI:
    """Make LangChain's model for a server of this test."""
    return ChatOpenAI(model="m", base_url=server.url, api_key="k", max_retries=0, **settings)  # type: ignore[arg-type]  # a text is taken


async def rating(model: object, way: Way) -> object:
    """Judge once."""
    judge = Helpfulness(model)
    return (await ask(judge, way, response="a")).rating


@both_ways
@pytest.mark.parametrize(
    ("method", "sent"), [(None, "tools"), *((one, one) for one in ("tools", "json_schema", "text"))]
)
async def test_langchain_model_is_asked_by_the_method_chosen(method: Any, sent: str, way: Way) -> None:
    """Tools are LangChain's cheapest way and the default; each can be chosen."""
    with serving(obliging) as server:
        assert await rating(LangChainModel(chat(server), method=method), way) == 4
    (asked,) = server.requests
    assert way_of(asked) == sent
    if sent == "json_schema":
        assert asked["response_format"]["json_schema"]["strict"] is True


@pytest.mark.parametrize("method", ["tools", "json_schema", "text"])
@pytest.mark.parametrize(
    "reply",
    [
        Reply('{"rationale": "r", "rating": 1, "feedback": "", "rating": 4}'),
        Reply(WRITTEN, finish_reason="length"),
        Reply(f"Sure! {WRITTEN}"),
    ],
    ids=["duplicate key", "cut", "chat"],
)
def test_reply_is_read_strictly(reply: Reply, method: Any) -> None:
    """LangChain's own parsers have no say, whatever the method."""
    with serving(lambda asked: reply) as server:
        verdict = Helpfulness(LangChainModel(chat(server), method=method))(response="a")
    assert verdict.unscored == "invalid_output"


@both_ways
async def test_duplicate_key_in_a_tool_call_of_langchain_is_seen(way: Way) -> None:
    """LangChain parses the arguments and drops the first of two keys; the raw text is read all the same."""
    twice = Reply(calls=(("Assessment", '{"rationale": "r", "rating": 1, "feedback": "", "rating": 4}'),))
    with serving(lambda asked: twice) as server:
        judge = Helpfulness(LangChainModel(chat(server)))
        verdict = await judge.acall(response="a") if way == "async" else judge(response="a")
    assert (verdict.unscored, verdict.detail) == ("invalid_output", "a key appears twice in the object")


@both_ways
async def test_model_that_has_no_tools_by_its_providers_word_is_asked_otherwise(way: Way) -> None:
    """As Ollama tells of many models; it is asked once only."""

    def reply(asked: Asked) -> Reply:
        return Reply("m does not support tools", status=400) if "tools" in asked else obliging(asked)

    with serving(reply) as server:
        model = LangChainModel(chat(server))
        assert [await rating(model, way) for _ in range(2)] == [4, 4]
    assert list(map(way_of, server.requests)) == ["tools", "json_schema", "json_schema"]


@both_ways
async def test_model_that_does_not_use_its_tool_is_asked_otherwise(way: Way) -> None:
    """The repair already comes the other way."""
    with serving(lambda asked: Reply("It is good.") if "tools" in asked else obliging(asked)) as server:
        assert await rating(LangChainModel(chat(server)), way) == 4
    assert list(map(way_of, server.requests)) == ["tools", "json_schema"]


@pytest.mark.parametrize(
    ("profile", "sent"),
    [
        ({"tool_calling": False, "structured_output": True}, "json_schema"),
        ({"tool_choice": False}, "json_schema"),
        ({"tool_calling": False, "structured_output": False}, "text"),
        ({"tool_calling": True, "structured_output": True}, "tools"),
    ],
)
def test_profile_of_a_model_counts(profile: Any, sent: str) -> None:
    """What LangChain knows of a model is not tried."""
    with serving(obliging) as server:
        assert Helpfulness(chat(server, profile=profile))(response="a").rating == 4
    assert list(map(way_of, server.requests)) == [sent]


@pytest.mark.parametrize(
    ("model", "method"),
    [(FakeListChatModel(responses=[WRITTEN]), "tools"), (ScriptedModel([GOOD]), "json_schema")],
    ids=["tools", "json_schema"],
)
def test_method_that_a_model_does_not_have_is_refused(model: BaseChatModel, method: Any) -> None:
    """The error names model and method."""
    with pytest.raises(ConfigurationError, match=f"cannot be asked by '{method}'"):
        Helpfulness(LangChainModel(model, method=method))(response="a")


@pytest.mark.parametrize("make", [LangChainModel, lambda _, method: NamedModel("a:b", method=method)])
def test_method_that_does_not_exist_is_refused(make: Any) -> None:
    """At construction."""
    with pytest.raises(ConfigurationError, match="json_schema, tools, text"):
        make(ScriptedModel([]), method="function_calling")


class Part(BaseModel):
    """A part."""

    size: int = 3
    parts: list[Part] = Field(default=[], description="smaller ones")


class Cat(BaseModel):
    """A cat."""

    kind: Literal["cat"]


class Dog(BaseModel):
    """A dog."""

    kind: Literal["dog"]


class Whole(BaseModel):
    """A reply with all that strict mode minds."""

    default: str = "x"
    first: Part = Field(description="the first part")
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for one in node.values():
            yield from _nodes(one)
    if isinstance(node, list):
        for one in node:
            yield from _nodes(one)


def test_closed_schema_is_what_strict_mode_takes() -> None:
    """Every object is closed and complete, references stand alone, and nothing has a default."""
    schema = closed_schema(Whole)
    assert list(schema["properties"]) == ["default", "first", "pet"]
    for node in _nodes(schema):
        assert "$ref" not in node or len(node) == 1
        assert "oneOf" not in node
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])
    assert "default" not in schema["properties"]["default"]
    assert schema["properties"]["first"]["description"] == "the first part"


def test_schema_with_free_keys_is_not_called_strict() -> None:
    """An endpoint would refuse it."""

    class Free(BaseModel):
        """Counts by word."""

        counts: dict[str, int]

    assert response_format(Free)["json_schema"]["strict"] is False
    assert response_format(Whole)["json_schema"]["strict"] is True


PLAN = RequestPlan(("json_schema", "tools", "text"), temperature=0.0, limit="max_tokens")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "response_format is not supported"),
        (400, "Invalid schema for response_format 'Assessment'"),
        (400, "This model does not support structured output"),
        (500, "failed to parse grammar"),
        (422, "body response_format Extra inputs are not permitted"),
    ],
)
def test_refused_schema_leads_to_tools(status: int, text: str) -> None:
    """In the words of OpenAI, llama.cpp and vLLM."""
    lesser = PLAN.after_error(status, text)
    assert lesser is not None
    assert (lesser.method, lesser.temperature) == ("tools", 0.0)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (None, "response_format"),
        (401, "response_format"),
        (429, "response_format"),
        (400, "context_length_exceeded: response_format"),
        (400, "no credit left"),
        (503, "temperature"),
    ],
)
def test_other_error_leads_nowhere(status: int | None, text: str) -> None:
    """Only a refusal of what can be left out is worth a second call."""
    assert PLAN.after_error(status, text) is None


@pytest.mark.parametrize(
    ("reply", "method", "proven"),
    [
        (ModelResponse(text="prose", finish_reason="stop"), "tools", False),
        (ModelResponse(text="```json\n{}```"), "tools", False),
        (ModelResponse(text=' {"a": 1}'), "json_schema", True),
        (ModelResponse(text='{"cut', finish_reason="length"), "json_schema", False),
        (ModelResponse(text="", finish_reason="stop"), "json_schema", False),
        (ModelResponse(text="no", refusal="no"), "json_schema", False),
        (ModelResponse(text="pro", finish_reason="length"), "json_schema", False),
        (ModelResponse(calls=(("A", "{}"),)), "json_schema", True),
    ],
)
def test_lesson_of_a_reply(reply: ModelResponse, method: str, proven: bool) -> None:  # noqa: FBT001 - a table
    """Prose means the way was ignored; an object that it works; a cut, refused or empty reply means nothing."""
    plan = PLAN.after_response(reply)
    assert (plan.method, plan.proven) == (method, proven)


def test_last_way_is_not_left() -> None:
    """Where there is no other way, the plan stays."""
    last = RequestPlan(("text",))
    assert last.after_error(400, "tools, schema") is None
    assert last.after_response(ModelResponse(text="prose")).method == "text"
