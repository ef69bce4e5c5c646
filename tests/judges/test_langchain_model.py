"""Any LangChain chat model answers a judge, each in the strictest way it has, which is chosen and remembered."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field, SecretStr

import judges
from judges import ConfigurationError, Helpfulness, JudgeModel, ModelRequestError, Panel
from judges.model import ModelRequest, ModelResponse
from judges.models.providers.langchain import LangChainModel, NamedModel
from judges.models.resolve import as_model
from judges.models.structured import RequestPlan, closed_schema, response_format
from judges.testing import ScriptedModel
from tests.kit import Way, ask, both_ways
from tests.laws import for_every
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, in_turn, serving

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
WRITTEN = json.dumps(GOOD)


class Provider(BaseChatModel):
    """Stands for a provider's model: neither scripted nor known to be local."""

    base_url: str | None = None
    openai_api_base: str | None = None
    model: str = "big-1"

    @property
    def _llm_type(self) -> str:
        return "provider"

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(WRITTEN))])


@both_ways
async def test_provider_is_refused_where_requests_are_forbidden(way: Way) -> None:
    """A judge that is about to ask a real model raises, naming it and the remedy."""
    judge = Helpfulness(Provider())
    with pytest.raises(ModelRequestError, match=r"big-1.*ScriptedModel"):
        _ = await ask(judge, way, response="a")


ELSEWHERE = [
    "https://api.openai.com/v1",
    "http://127.0.0.1.example.com/v1",
    "http://localhost.example.com/v1",
    "http://localhost@example.com/",
    "http://example.com/http://127.0.0.1/",
    "http://127.0.0.1:x@example.com",
    "http://[::1",
    "localhost:8000",
    "",
]


@for_every(
    "chat",
    [
        Provider().bind(stop=["x"]),
        Provider().with_config(tags=["t"]),
        *(Provider(base_url=one) for one in ELSEWHERE),
    ],
)
def test_no_disguise_of_a_provider_is_asked(chat: Any) -> None:
    """Neither a binding, nor an address that only looks local, nor a panel, whose member's error is no vote."""
    with pytest.raises(ModelRequestError):
        Helpfulness(chat)(response="a")
    with pytest.raises(ModelRequestError):
        Panel([Helpfulness(ScriptedModel([GOOD])), Helpfulness(chat)])(response="a")


LOOPBACK = ["http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:1/", "HTTP://LOCALHOST:99"]


@for_every("name, address", itertools.product(["base_url", "openai_api_base"], LOOPBACK))
def test_model_on_this_machine_may_answer(name: str, address: str) -> None:
    """A server on the loopback address is no provider."""
    assert Helpfulness(Provider(**{name: address}))(response="a").rating == 4  # type: ignore[arg-type]  # one of two


@pytest.mark.parametrize("way", ["generic", "list"])
def test_fake_without_tools_answers_by_text(way: str) -> None:
    """LangChain's own fakes cannot bind tools; the object is read from their text, as strictly as any."""
    fakes: dict[str, Callable[[list[str]], BaseChatModel]] = {
        "generic": lambda texts: GenericFakeChatModel(messages=iter(map(AIMessage, texts))),
        "list": lambda texts: FakeListChatModel(responses=texts),
    }
    assert Helpfulness(fakes[way]([WRITTEN]))(response="a").rating == 4
    verdict = Helpfulness(fakes[way]([f"Sure! {WRITTEN}", "4"]))(response="a")
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


class StructuredOnly(Provider):
    """A fake that knows structured output and nothing else."""

    scripted: bool = True
    reply: Any = None

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """Reply with an object, or with a mapping."""
        return RunnableLambda(
            lambda _: schema(**self.reply) if self.reply.get("as_object") is None else self.reply
        )


@both_ways
async def test_fake_with_structured_output_alone_works(way: Way) -> None:
    """It is asked through it; a mapping with a surplus key, or its own parser's error, is an unscored verdict."""
    verdict = await ask(Helpfulness(StructuredOnly(reply=GOOD)), way, response="a")
    assert (verdict.rating, verdict.usage.calls) == (4, 1)
    for reply in ({**GOOD, "as_object": False}, {**GOOD, "rating": 5}):
        bad = await ask(Helpfulness(StructuredOnly(reply=reply)), way, response="a")
        assert bad.unscored == "invalid_output"


def test_tool_is_forced_and_bound_under_the_schemas_name() -> None:
    """A model with tools is asked for one call of one tool."""
    model = ScriptedModel([GOOD])
    Helpfulness(model)(response="a")
    (settings,) = model.settings
    assert settings["tool_choice"] == "Assessment"
    assert [tool["function"]["name"] for tool in settings["tools"]] == ["Assessment"]
    assert list(settings["tools"][0]["function"]["parameters"]["properties"]) == [
        "rationale",
        "rating",
        "feedback",
    ]


@pytest.mark.parametrize(
    ("own", "asked", "sent"), [(None, 0.0, 0.0), (None, 0.7, 0.7), (0.3, 0.0, 0.3), (None, None, None)]
)
def test_temperature_is_asked_where_the_model_leaves_it_open(
    own: float | None, asked: float | None, sent: float | None
) -> None:
    """A model's own temperature wins; None asks for nothing; the model itself is not changed."""
    model = ScriptedModel([GOOD])
    model.temperature = own
    Helpfulness(model, temperature=asked)(response="a")
    assert model.settings[0].get("temperature") == sent
    assert model.temperature == own


class TemperatureRefused(Exception):  # noqa: N818 - stands for a provider's class
    """What reasoning models answer to a temperature."""

    status_code = 400

    def __init__(self, message: str = "Unsupported value: 'temperature' does not support 0.0") -> None:
        super().__init__(message)


@both_ways
async def test_model_that_refuses_a_temperature_is_asked_without(way: Way) -> None:
    """One refusal is enough: later questions do not try again."""
    model = ScriptedModel([TemperatureRefused, GOOD, GOOD])
    judge = Helpfulness(model)
    for _ in range(2):
        verdict = await ask(judge, way, response="a")
        assert verdict.rating == 4
    assert [settings.get("temperature") for settings in model.settings] == [0.0, None, None]


@pytest.mark.parametrize(
    "fault", [TemperatureRefused("bad request"), TypeError("temperature")], ids=["other", "type"]
)
def test_other_bad_request_is_not_repeated(fault: Exception) -> None:
    """Only a provider's word about the temperature is worth a second call."""
    model = ScriptedModel([fault, GOOD])
    assert Helpfulness(model)(response="a").unscored == "judge_failed"
    assert len(model.prompts) == 1


def test_binding_keeps_its_settings_and_config() -> None:
    """A bound model is asked with what was bound, except for tools, which are the judge's."""
    tags: list[list[str]] = []

    class Listening(BaseCallbackHandler):
        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            tags.append(kwargs["tags"])

    model = ScriptedModel([GOOD])
    bound = model.bind_tools([{"name": "search", "description": "d", "parameters": {}}]).bind(seed=7)
    assert Helpfulness(bound.with_config(tags=["mine"], callbacks=[Listening()]))(response="a").rating == 4
    (settings,) = model.settings
    assert (settings["seed"], settings["temperature"], settings["tool_choice"]) == (7, 0.0, "Assessment")
    assert [tool["function"]["name"] for tool in settings["tools"]] == ["Assessment"]
    assert tags == [["mine"]]


class _Streamed(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
    """Attached to a run, makes LangChain stream every model in it."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def on_llm_new_token(self, token: str | list[Any], **kwargs: Any) -> None:
        """Note a streamed token."""
        self.tokens.append(str(token))

    def tap_output_aiter(self, run_id: Any, output: Any) -> Any:
        """Do nothing."""
        return output

    def tap_output_iter(self, run_id: Any, output: Iterator[Any]) -> Iterator[Any]:
        """Do nothing."""
        return output


@both_ways
async def test_judges_model_never_streams(way: Way) -> None:
    """Inside a streamed run a judge's model does not stream: a call that breaks off would be completed."""
    judge, listening = Helpfulness(ScriptedModel([GOOD])), _Streamed()
    if way == "sync":
        given = RunnableLambda[int, Any](lambda _: judge(response="a")).invoke(0, {"callbacks": [listening]})
    else:

        async def judged(_: int) -> Any:
            return await judge.acall(response="a")

        given = await RunnableLambda(judged).ainvoke(0, {"callbacks": [listening]})
    assert (given.rating, listening.tokens) == (4, [])
    ScriptedModel(["a b"]).invoke("q", {"callbacks": [listening]})
    assert listening.tokens == ["a ", "b"], "the handler does not make a model stream"


def test_usage_model_and_time_are_reported() -> None:
    """A verdict carries what the provider reported; content given as blocks is its text."""
    reply = AIMessage(
        [{"type": "text", "text": WRITTEN[:9]}, {"type": "text", "text": WRITTEN[9:]}],
        usage_metadata={"input_tokens": 11, "output_tokens": 7, "total_tokens": 18},
        response_metadata={"model_name": "gpt-x-2025"},
    )
    verdict = Helpfulness(ScriptedModel([reply]))(response="a")
    assert verdict.rating == 4
    assert (verdict.usage.input_tokens, verdict.usage.output_tokens, verdict.usage.tokens) == (11, 7, 18)
    assert verdict.model == "gpt-x-2025"
    assert verdict.latency_s > 0


@pytest.mark.parametrize(
    "raw", ["text", [None], ["text"], [{"function": None}], [{"function": {}}], [{}, {}]], ids=str
)
def test_odd_raw_calls_fall_back_on_the_parsed_ones(raw: object) -> None:
    """Whatever a provider leaves in `additional_kwargs`, reading it does not break."""
    call = {"name": "Assessment", "args": GOOD, "id": "1"}
    reply = AIMessage("", tool_calls=[call], additional_kwargs={"tool_calls": raw})
    assert Helpfulness(ScriptedModel([reply]))(response="a").rating == 4


def test_named_model_is_created_when_first_asked() -> None:
    """A name alone needs neither package nor key; asking an unknown provider says what is wrong."""
    model = as_model("nosuchprovider:model-1")
    assert isinstance(model, JudgeModel)
    assert as_model(model) is model
    with pytest.raises(ConfigurationError, match="nosuchprovider:model-1"):
        Helpfulness(model)(response="a")
    with pytest.raises(ConfigurationError, match="nosuchprovider:model-1"):
        Helpfulness("nosuchprovider:model-1")(response="a")


@pytest.mark.parametrize(
    "given", [None, "", "gpt-5", ":", "openai:", ":gpt-5", 4, object, object(), GOOD, RunnableLambda(len)]
)
def test_what_is_no_model_is_refused_at_once(given: object) -> None:
    """The error shows what was given and what to give instead."""
    with pytest.raises(ConfigurationError, match="a judge needs a model to ask, not"):
        Helpfulness(given)


class Own:
    """A model of the user's own making."""

    name, retries = "own", 0

    def send(self, request: ModelRequest) -> ModelResponse:
        """Reply."""
        return ModelResponse(text=WRITTEN, model="own-1")

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Reply."""
        return self.send(request)

    def is_model(self, other: object) -> bool:
        """Know itself."""
        return other is self


@both_ways
async def test_own_model_needs_no_langchain_class(way: Way) -> None:
    """Anything with the four members of `JudgeModel` is asked as it is."""
    judge = Helpfulness(Own())
    verdict = await ask(judge, way, response="a")
    assert (verdict.rating, verdict.model) == (4, "own-1")


def test_model_knows_itself_and_its_namesakes() -> None:
    """Self-preference can be noticed: by identity, and of real models by class and name."""
    script = ScriptedModel([], name="a")
    assert as_model(script).is_model(script)
    assert as_model(script).is_model(script.bind(stop=["x"]))
    assert not as_model(script).is_model(ScriptedModel([], name="a"))
    assert not as_model(script).is_model(Provider(model="a"))
    assert as_model(Provider(model="a")).is_model(Provider(model="a"))
    assert not as_model(Provider(model="a")).is_model(Provider(model="b"))
    assert not as_model(Provider(model="a")).is_model(script)
    assert as_model("openai:a").is_model("openai:a")
    assert as_model("openai:a").is_model(Provider(model="a"))
    assert not as_model("openai:a").is_model(Provider(model="b"))


@pytest.mark.parametrize(
    ("chat", "name"),
    [
        (ScriptedModel([], name="s-1"), "s-1"),
        (Provider(), "big-1"),
        (FakeListChatModel(responses=[]), "FakeListChatModel"),
    ],
    ids=["model_name", "model", "class"],
)
def test_model_is_named(chat: BaseChatModel, name: str) -> None:
    """A model is called by its name where it has one, else by its class."""
    assert as_model(chat).name == name


def test_judges_load_without_langchain() -> None:
    """Making a judge with a named model imports neither LangChain nor LangGraph."""
    program = (
        "import sys, judges, judges.judge, judges.models.providers.langchain, judges.models.structured\n"
        "judges.Panel([judges.Helpfulness('openai:gpt-x'), judges.Length(at_least=1)])\n"
        "sys.exit(any(name.split('.')[0] in ('langchain', 'langchain_core', 'langgraph') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("method", ["tools", "json_schema"])
def test_openai_models_are_told_what_is_known_of_the_reply(method: Any) -> None:
    """Like the direct client's: so many numbered items, texts that end; without what the endpoint refuses."""
    items = [{"number": number, "reason": "r", "verdict": "kept", "change": ""} for number in (1, 2)]
    sent: list[dict[str, Any]] = []

    def reply(asked: Asked) -> Reply | Wire:
        sent.append(
            (asked["tools"][0]["function"]["parameters"]) if method == "tools" else asked["response_format"]
        )
        if "prefixItems" in json.dumps(sent[-1]):
            return answered(
                {"error": {"message": "tools: Invalid schema, 'prefixItems' is not permitted"}}, status=400
            )
        return Reply(json.dumps({"items": items}))

    with serving(reply) as server:
        chat = ChatOpenAI(base_url=server.url, model="m", api_key=SecretStr("k"), max_retries=0)
        judge = judges.load(
            "databricks.global_guideline_adherence",
            model=LangChainModel(chat, method=method),
            guidelines=["a", "b"],
        )
        assert [judge(response="x").score for _ in range(2)] == [1.0, 1.0]
    first, *others = map(json.dumps, sent)
    assert '"const": 2' in first
    assert len(others) == 2
    for schema in others:
        assert {'"maxItems": 2' in schema, '"maxLength": 300' in schema} == {True}


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


TWICE = '{"rationale": "r", "rating": 1, "feedback": "", "rating": 4}'


@pytest.mark.parametrize("method", ["tools", "json_schema", "text"])
def test_reply_is_read_strictly(method: Any) -> None:
    """LangChain's own parsers have no say, whatever the method."""
    for reply in (Reply(TWICE), Reply(WRITTEN, finish_reason="length"), Reply(f"Sure! {WRITTEN}")):
        with serving(in_turn(reply, reply)) as server:
            verdict = Helpfulness(LangChainModel(chat(server), method=method))(response="a")
        assert verdict.unscored == "invalid_output"


@both_ways
async def test_duplicate_key_in_a_tool_call_of_langchain_is_seen(way: Way) -> None:
    """LangChain parses the arguments and drops the first of two keys; the raw text is read all the same."""
    with serving(lambda asked: Reply(calls=(("Assessment", TWICE),))) as server:
        verdict = await ask(Helpfulness(LangChainModel(chat(server))), way, response="a")
    assert (verdict.unscored, verdict.detail) == ("invalid_output", "a key appears twice in the object")


@both_ways
@pytest.mark.parametrize(
    "refusal", [Reply("m does not support tools", status=400), Reply("It is good.")], ids=["refused", "ignored"]
)
async def test_model_that_does_not_use_its_tool_is_asked_otherwise(refusal: Reply, way: Way) -> None:
    """As Ollama tells of many models; it is asked once only, and the repair already comes the other way."""
    with serving(lambda asked: refusal if "tools" in asked else obliging(asked)) as server:
        model = LangChainModel(chat(server))
        assert [await rating(model, way) for _ in range(2)] == [4, 4]
    assert list(map(way_of, server.requests)) == ["tools", "json_schema", "json_schema"]


@for_every(
    "profile, sent",
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
    """The error names model and method; one that does not exist is refused when the model is made."""
    with pytest.raises(ConfigurationError, match=f"cannot be asked by '{method}'"):
        Helpfulness(LangChainModel(model, method=method))(response="a")
    unknown: Any = "function_calling"
    for make in (lambda: LangChainModel(model, method=unknown), lambda: NamedModel("a:b", method=unknown)):
        with pytest.raises(ConfigurationError, match="json_schema, tools, text"):
            make()


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
    ("status", "text", "leads"),
    [
        (400, "response_format is not supported", True),
        (400, "Invalid schema for response_format 'Assessment'", True),
        (400, "This model does not support structured output", True),
        (500, "failed to parse grammar", True),
        (422, "body response_format Extra inputs are not permitted", True),
        (None, "response_format", False),
        (401, "response_format", False),
        (429, "response_format", False),
        (400, "context_length_exceeded: response_format", False),
        (400, "no credit left", False),
        (503, "temperature", False),
    ],
)
def test_refused_schema_leads_to_tools(status: int | None, text: str, *, leads: bool) -> None:
    """In the words of OpenAI, llama.cpp and vLLM; only what can be left out is worth a second call."""
    lesser = PLAN.after_error(status, text)
    assert (None if lesser is None else (lesser.method, lesser.temperature)) == (("tools", 0.0) if leads else None)


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
