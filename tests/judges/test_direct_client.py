"""The direct client used for answers: requests of one's own, fields bound to it, its name, its runs."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager, Callbacks, UsageMetadataCallbackHandler
from langchain_core.globals import set_debug
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config, var_child_runnable_config
from langchain_core.tracers.context import collect_runs, tracing_v2_callback_var
from langchain_core.tracers.langchain import LangChainTracer
from langchain_openai import ChatOpenAI

from judges import ConfigurationError, Helpfulness, OpenAICompatible, OpenAICompatibleEmbeddings, chat_model
from judges.models.providers.http_errors import EndpointReplyError, EndpointStatusError
from judges.models.providers.llm_runs import is_observed
from judges.models.resolve import as_model
from judges.runtime.budget import Allowance, Refused
from judges.runtime.observation import within
from judges.testing import no_waiting
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, in_turn, serving, tools_of

ASKED = {"messages": [{"role": "user", "content": "Where is the xylophone?"}]}
VERDICT = '{"rationale": "r", "rating": 4, "feedback": ""}'


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Serve an answer."""
    with serving(lambda asked: Reply("Here.")) as running:
        yield running


@pytest.fixture
def client(server: ModelServer) -> Iterator[OpenAICompatible]:
    """Make a client."""
    with OpenAICompatible(server.url, model="m", api_key="k", extra={"seed": 7}) as made:
        yield made


def text_of(completion: dict[str, Any]) -> str:
    """Return the text of a completion."""
    return str(completion["choices"][0]["message"]["content"])


def last(server: ModelServer) -> Asked:
    """Return the fields of the last request, without what belongs to HTTP."""
    fields: Asked = json.loads(server.requests[-1]["raw"])
    return fields


def test_a_request_of_ones_own_is_sent_and_its_reply_returned(
    server: ModelServer, client: OpenAICompatible
) -> None:
    """The client's fields go after the request's; whatever the reply holds is returned; blocking or not."""
    choice = {"message": {"content": "Here.", "x": 1}, "y": 2}
    server.reply = lambda asked: answered({"choices": [choice, choice], "z": 3})

    assert client.chat(ASKED) == {"choices": [choice, choice], "z": 3}
    assert last(server) == {"model": "m", "seed": 7, **ASKED}
    own = {**ASKED, "model": "other", "n": 2, "seed": 8, "logprobs": True}
    assert client.chat(own, headers={"X-Caller": "Ada", "Authorization": "Bearer other"})["z"] == 3
    assert last(server) == own
    headers = server.requests[-1]["headers"]
    assert (headers["x-caller"], headers["authorization"]) == ("Ada", "Bearer other")

    async def achat() -> Any:
        async with client:
            return await client.achat(ASKED, headers={"Authorization": "Bearer other"})

    assert asyncio.run(achat())["choices"][0] == choice
    assert server.requests[-1]["headers"]["authorization"] == "Bearer other"


def test_fields_are_bound_for_answers_and_for_judgements(server: ModelServer, client: OpenAICompatible) -> None:
    """A bound client is another one over the same connections; tools and formats are not the judge's."""

    def look(q: str) -> str:
        """Look something up."""
        return q

    bound = client.bind(top_p=0.5, temperature=0.3, max_tokens=9, response_format={"type": "json_object"})
    tools = bound.bind_tools([look], tool_choice="look", strict=True, parallel_tool_calls=False)
    tools.chat(ASKED)
    asked = last(server)
    assert tools_of(asked) == {"look"}
    assert asked["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert asked["tools"][0]["function"]["strict"] is True
    expected = {"seed": 7, "top_p": 0.5, "temperature": 0.3, "max_tokens": 9, "parallel_tool_calls": False}
    assert expected.items() <= asked.items()
    client.chat(ASKED)
    assert last(server) == {"model": "m", "seed": 7, **ASKED}

    server.reply = lambda asked: Reply(VERDICT)
    assert Helpfulness(tools)(user_input="q", response="a").rating == 4
    judged = last(server)
    assert (judged["top_p"], judged["temperature"], judged["response_format"]["type"]) == (0.5, 0.3, "json_schema")
    assert "tools" not in judged
    assert Helpfulness(client)(user_input="q", response="a").rating == 4
    assert last(server)["temperature"] == 0.0
    assert len({client.identity, bound.identity, client.bind(top_p=0.5).identity}) == 3
    assert server.connections == 1
    for fields, fault in (
        ({"messages": []}, "messages are not bound"),
        ({"n": 2}, "an attempt is one answer"),
        ({"user": object()}, "only what can be written as JSON"),
        ({"temperature": "hot"}, "temperature is a number, not 'hot'"),
        ({"model": ""}, "model is the model's name"),
    ):
        with pytest.raises(ConfigurationError, match=fault):
            client.bind(**fields)
    with pytest.raises(ConfigurationError, match=r"tool_choice is .* the name of a tool \(look\), not 'find'"):
        client.bind_tools([look], tool_choice="find")


def test_an_answer_may_come_as_a_stream(server: ModelServer, client: OpenAICompatible) -> None:
    """Endpoints that cut long requests off are asked for a stream; the completion is whole all the same."""
    server.reply = lambda asked: Reply("Here it is.", calls=(("f", {"a": 1}),))
    whole = client.chat(ASKED)
    streamed = client.bind(stream=True).chat(ASKED)
    assert last(server)["stream_options"] == {"include_usage": True}
    assert (text_of(streamed), streamed["usage"]) == (text_of(whole), whole["usage"])
    assert streamed["choices"][0]["message"]["tool_calls"] == whole["choices"][0]["message"]["tool_calls"]


def streamed(*chunks: object) -> Wire:
    """Send chunks as they are."""
    events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return answered(f"{events}data: [DONE]\n\n".encode(), kind="text/event-stream")


def piece(ending: str | None = None, /, **delta: object) -> dict[str, Any]:
    """Make a chunk with one choice."""
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": ending}]}


def test_what_a_later_piece_leaves_empty_or_says_again_stays_as_it_was(
    server: ModelServer, client: OpenAICompatible
) -> None:
    """Qwen's pieces of a call have the id "", others a role and an ending; some send the whole once more."""
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": '}}
    second = {"index": 0, "id": "", "type": "function", "function": {"name": "", "arguments": "1}"}}
    last = {"choices": [{"index": 0, "delta": {}, "message": {"content": "Half."}, "finish_reason": ""}]}
    server.reply = lambda _: streamed(
        piece(role="assistant", content="Half", tool_calls=[first]),
        piece("length", role="", content=".", tool_calls=[second]),
        last,
    )

    (choice,) = client.bind(stream=True).chat(ASKED)["choices"]
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
    assert choice["message"] == {"role": "assistant", "content": "Half.", "tool_calls": [call]}
    assert choice["finish_reason"] == "length"


def test_half_an_answer_with_an_error_beside_it_is_a_failed_call(
    server: ModelServer, client: OpenAICompatible
) -> None:
    """OpenRouter says it in the choice or beside it, vLLM in a chunk of its own, others at the end alone.

    The call is repeated.
    """
    broken = {"code": 502, "message": "gone"}
    choice = {"message": {"content": "The capital is"}, "finish_reason": "error", "error": broken}
    replies: tuple[Reply | Wire, ...] = (
        answered({"choices": [choice]}),
        streamed(piece(content="The capital"), {**piece("error", content=""), "error": broken}),
        streamed(piece(content="The capital"), {"object": "error", **broken}),
        streamed(piece("abort", content="The capital")),
        *(Reply("The capital is", finish_reason=end) for end in ("error", "network_error")),
        Reply("The capital is", finish_reason="insufficient_system_resource"),
    )
    for failed in replies:
        server.reply = in_turn(failed, Reply("Paris."))
        with no_waiting():
            assert text_of(client.chat(ASKED)) == "Paris."
        server.reply = in_turn(failed, Reply(VERDICT))
        with no_waiting():
            assert Helpfulness(client)(question="q?", answer="a b c").rating == 4


def test_a_stream_of_something_else_is_an_error_of_the_endpoint(
    server: ModelServer, client: OpenAICompatible
) -> None:
    """Parts of another kind than those before them end in no error of Python's own."""
    for parts in ({"content": ["a"]}, {"tool_calls": ["a"]}):
        server.reply = lambda _, parts=parts: streamed(  # type: ignore[misc]  # bound at once
            piece(**parts), piece("stop", content=[{"index": 0, "type": "text", "text": "b"}])
        )
        with pytest.raises(EndpointReplyError, match="no part of a completion"):
            client.chat(ASKED)


def test_a_request_that_is_no_mapping_is_refused(client: OpenAICompatible) -> None:
    """Messages alone would be read as fields, and a text as neither."""
    for wrong in (ASKED["messages"], "Where is the xylophone?"):
        with pytest.raises(ConfigurationError, match=r"a mapping of its fields, for instance \{'messages'"):
            client.chat(wrong)  # type: ignore[arg-type]  # the mistake


def test_the_address_of_a_page_of_the_api_is_refused() -> None:
    """Examples of providers name the page itself, below which there is nothing: every call would end as 404."""
    for page in ("/chat/completions", "/embeddings"):
        for make in (
            lambda url: OpenAICompatible(url, model="m", api_key=""),
            lambda url: OpenAICompatibleEmbeddings(url, model="m", api_key=""),
            lambda url: OpenAICompatible.named(f"openai-compatible:m@{url}"),
            lambda url: chat_model("m", base_url=url),
        ):
            with pytest.raises(ConfigurationError, match=f"leave out {page}, which is added to it"):
                make(f"http://localhost:8000/v1{page}/")


def test_an_error_has_the_endpoints_own_response(server: ModelServer, client: OpenAICompatible) -> None:
    """Status, headers and body for those who hand them on; nothing of it in a message, a repr or a pickle."""
    error = {"error": {"message": "xylophone is not allowed", "code": "no"}}
    server.reply = lambda asked: answered(error, status=403, headers={"x-vendor": "v"})
    with pytest.raises(EndpointStatusError) as raised:
        client.chat(ASKED)
    upstream = raised.value.upstream
    assert upstream is not None
    assert (upstream.status, json.loads(upstream.body), upstream.headers["x-vendor"]) == (403, error, "v")
    assert "xylophone" not in str(raised.value) + repr(upstream)
    assert pickle.loads(pickle.dumps(raised.value)).upstream is None  # noqa: S301 - our own

    server.reply = lambda asked: answered({"error": f"bad key {asked['authorization']}"}, status=401)
    with pytest.raises(EndpointStatusError, match="status 401") as quoting:
        client.chat(ASKED, headers={"Authorization": "Bearer hunter2secret"})
    assert "hunter2" not in str(quoting.value)
    server.reply = lambda asked: answered({"error": {"message": "busy", "code": 503}})
    with no_waiting(), pytest.raises(EndpointStatusError, match="503") as refused_:
        client.chat(ASKED)
    assert refused_.value.upstream is not None
    server.reply = lambda asked: answered({"choices": []})
    with pytest.raises(EndpointReplyError, match="no chat completion with a message"):
        client.chat(ASKED)
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
        client.chat({**ASKED, "x": {1, 2}})


def test_the_other_name_of_the_limit_is_learned(server: ModelServer, client: OpenAICompatible) -> None:
    """Newer models refuse `max_tokens`: the client's own is renamed from then on, a request's own is not."""
    refusal = Reply("Unsupported parameter: use 'max_completion_tokens' instead.", status=400)
    server.reply = lambda asked: refusal if "max_tokens" in asked else Reply("Here.")
    limited = client.bind(max_tokens=5)
    for count in (2, 3):
        limited.chat(ASKED)
        assert (len(server.requests), last(server)["max_completion_tokens"]) == (count, 5)
    with pytest.raises(EndpointStatusError):
        client.chat({**ASKED, "max_tokens": 5})


def test_calls_are_claimed_repeated_and_charged(server: ModelServer, client: OpenAICompatible) -> None:
    """Under an allowance a call counts once, however often its transport failed; a spent budget asks nothing."""
    server.reply = in_turn(Reply("no", status=503), Reply("Here."))
    allowance = Allowance(calls=1)
    with no_waiting() as waits, within(allowance):
        assert text_of(client.chat(ASKED)) == "Here."
        with pytest.raises(Refused, match="budget of calls"):
            client.chat(ASKED)
    assert (len(waits), len(server.requests), allowance.spent.calls, allowance.spent.tokens) == (1, 2, 1, 110)


@pytest.mark.parametrize(
    ("name", "model", "address"),
    [
        ("openai-compatible:qwen3:8b@http://localhost:11434/v1", "qwen3:8b", "http://localhost:11434/v1"),
        ("OpenAI_Compatible: a@b @HTTPS://h/v1?api-version=2", "a@b", "https://h/v1"),
        ("openai-compatible:m", "m", "http://127.0.0.1:1/v1"),
    ],
)
def test_a_client_is_named_by_model_and_address(
    name: str, model: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name goes wherever a model is named; what it leaves out is the environment's."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    client = OpenAICompatible.named(name)
    assert (client.name, client.base_url.lower()) == (model, address)
    judge = as_model(name)
    assert isinstance(judge, OpenAICompatible)
    assert judge.is_model(name)
    assert judge.is_model(client)
    chat = chat_model(name)
    assert isinstance(chat, ChatOpenAI)
    assert chat.model_name == model
    assert pickle.loads(pickle.dumps(client)).base_url == client.base_url  # noqa: S301 - our own


def test_a_name_that_lacks_something_says_what(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line shows the form, and the environment variable that would do."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OPENAI_API_BASE", raising=False)
    with pytest.raises(
        ConfigurationError, match=r"'openai-compatible:m' has no address; write .* OPENAI_BASE_URL"
    ):
        Helpfulness("openai-compatible:m")
    with pytest.raises(ConfigurationError, match="is named 'openai-compatible:MODEL@BASE_URL'"):
        OpenAICompatible.named("openai-compatible:@http://h/v1")
    with pytest.raises(ConfigurationError, match="is named 'openai-compatible:MODEL@BASE_URL'"):
        OpenAICompatible.named("openai:gpt")


class Starts(BaseCallbackHandler):
    """Notes what begins."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Note a model call."""
        self.seen.append((kwargs["name"], kwargs["tags"], [message.type for message in messages[0]]))


def test_a_judges_calls_are_runs_too(server: ModelServer, client: OpenAICompatible) -> None:
    """Inside a chain a judge's calls are seen with their usage, and marked so that no stream shows them."""
    server.reply = lambda asked: Reply(VERDICT)
    judge = Helpfulness(client)
    usage, starts = UsageMetadataCallbackHandler(), Starts()

    def rate(sample: Any) -> Any:
        return judge(sample).rating

    chain = RunnableLambda(rate)

    async def judge_async(sample: Any) -> Any:
        return (await judge.acall(sample)).rating

    async def achain() -> Any:
        async with client:
            return await RunnableLambda(judge_async).ainvoke({"user_input": "q", "response": "a"}, config)

    config: Any = {"callbacks": [usage, starts], "tags": ["mine"]}
    assert chain.invoke({"user_input": "q", "response": "a"}, config) == 4
    assert asyncio.run(achain()) == 4
    assert usage.usage_metadata["m"]["total_tokens"] == 220
    assert [set(tags) for _, tags, _ in starts.seen] == [{"mine", "nostream"}] * 2
    assert (starts.seen[0][2][0], starts.seen[0][2][-1]) == ("system", "human")


def test_who_listens_is_who_langchain_would_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our short look finds a handler exactly where LangChain's own configuration does."""

    def theirs() -> bool:
        config = ensure_config()
        return bool(CallbackManager.configure(config.get("callbacks"), [], False).handlers)  # noqa: FBT003 - verbose

    def both() -> tuple[bool, bool]:
        return is_observed(), theirs()

    assert both() == (False, False)
    both_forms: list[Callbacks] = [[Starts()], CallbackManager(handlers=[Starts()])]
    for callbacks in both_forms:
        token = var_child_runnable_config.set(RunnableConfig(callbacks=callbacks))
        assert both() == (True, True)
        var_child_runnable_config.reset(token)
    token = var_child_runnable_config.set({"callbacks": CallbackManager(handlers=[])})
    assert both() == (False, False)
    var_child_runnable_config.reset(token)
    with collect_runs():
        assert both() == (True, True)
    set_debug(True)
    assert both() == (True, True)
    set_debug(False)
    tracer = tracing_v2_callback_var.set(LangChainTracer(client=object()))  # type: ignore[arg-type]  # never used
    assert both() == (True, True)
    tracing_v2_callback_var.reset(tracer)
    assert both() == (False, False)
