"""Tool calls of LangChain's OpenAI models are read from their raw arguments, or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI

from judges import Helpfulness, Verdict
from judges.models.providers.langchain import LangChainModel
from tests.kit import Way, ask, both_ways
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, serving

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
    """A call that is not valid JSON is the model's fault, not the framework's."""
    replies = iter([Reply(calls=(("Assessment", "{"),)), Reply(calls=(("Assessment", GOOD),))])
    with serving(lambda _: next(replies)) as server:
        assert Helpfulness(chat(ChatOpenAI, server))(response="a").rating == 4
    assert list(map(kind_of, server.requests)) == ["tools", "tools"]


def test_users_own_model_is_left_alone() -> None:
    """The patch is in a copy."""
    with serving(lambda _: Reply(calls=(("Assessment", GOOD),))) as server:
        own = chat(ChatOpenAI, server)
        assert Helpfulness(own)(response="a").rating == 4
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
@pytest.mark.parametrize(
    ("arguments", "rating", "unscored"),
    [(WRITTEN, 4, None), (TWICE, None, "invalid_output")],
    ids=["good", "twice"],
)
async def test_call_in_the_responses_api_is_read_from_its_raw_arguments(
    arguments: str, rating: int | None, unscored: str | None, way: Way
) -> None:
    """Its content has the text, so a key given twice is seen there, too."""
    with serving(responses(arguments)) as server:
        (verdict,) = await judged(chat(ChatOpenAI, server, use_responses_api=True), way)
    assert (verdict.rating, verdict.unscored) == (rating, unscored)
    assert set(map(kind_of, server.requests)) == {"tools"}


@pytest.mark.parametrize("version", ["v0", "v1"])
def test_output_version_without_raw_arguments_is_asked_otherwise(version: str) -> None:
    """Other versions of the output drop the text there; the object is then asked for by schema."""
    with serving(responses(TWICE)) as server:
        model = chat(ChatOpenAI, server, use_responses_api=True, output_version=version)
        assert Helpfulness(model)(response="a").rating == 4
    assert list(map(kind_of, server.requests)) == ["tools", "json_schema"]
