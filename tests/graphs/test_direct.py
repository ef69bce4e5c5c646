"""The direct client as generator: raw JSON in and out, counted, seen by handlers, and silent in streams."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tracers.base import BaseTracer
from langgraph.checkpoint.memory import InMemorySaver

from graphs import GeneratorFailed, Policy, RequestGenerator, arun, run, self_refine
from judges import Helpfulness, OpenAICompatible, Price
from judges.messages import plain_message
from judges.models.providers import openai_messages
from judges.models.providers.http_errors import EndpointStatusError
from refine import SelfRefine
from tests.graphs.test_streams import MODES, Graph
from tests.kit import Way, both_ways
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, serving

MARK = "Xq7Zdraft"
GOOD = "a good answer"
QUESTION = "What is it?"
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}


def answer(text: str, **message: Any) -> Wire:
    """Write a completion with fields that chat completions do not know."""
    spoken = {
        "role": "assistant",
        "content": text,
        "reasoning_content": f"about {MARK}",
        "annotations": [1],
        **message,
    }
    choice = {"index": 0, "finish_reason": "stop", "message": spoken}
    return answered(
        {
            "id": "r",
            "object": "chat.completion",
            "model": "w-1",
            "choices": [choice],
            "usage": USAGE,
            "citations": ["c"],
        }
    )


def reply(asked: Asked) -> Reply | Wire:
    """Write two drafts that are refused, then a good one, to prompts that show the last; judge by the text."""
    if asked["model"] == "writer":
        number = sum(message["role"] == "assistant" for message in asked["messages"]) + len(notes(asked))
        return answer(GOOD if number >= 2 else f"wrong {MARK} {number}")
    rating = 4 if GOOD in json.dumps(asked["messages"]) else 2
    return Reply(json.dumps({"rationale": "r", "rating": rating, "feedback": "" if rating == 4 else "Say more."}))


def notes(asked: Asked) -> list[Any]:
    """List the second drafts in a prompt of the augmenter that shows all."""
    return [message for message in asked["messages"] if f"{MARK} 1" in str(message["content"])]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Serve both models."""
    with serving(reply) as running:
        yield running


@pytest.fixture
def writer(server: ModelServer) -> Iterator[OpenAICompatible]:
    """Make the generator's client."""
    with OpenAICompatible(server.url, model="writer", api_key="k") as client:
        yield client


@pytest.fixture
def critic(server: ModelServer) -> Iterator[OpenAICompatible]:
    """Make the judge's client."""
    with OpenAICompatible(server.url, model="critic", api_key="k") as client:
        yield client


def sent_to(server: ModelServer, model: str) -> list[Asked]:
    """List the requests for one model."""
    return [asked for asked in server.requests if asked["model"] == model]


def test_an_answer_is_refined_and_its_reply_kept(
    server: ModelServer, writer: OpenAICompatible, critic: OpenAICompatible
) -> None:
    """Every attempt keeps the endpoint's own reply; the outcome has that of the answer, without its reasoning."""
    bound = writer.bind(top_p=0.5, vendor={"x": 1}, response_format={"type": "text"})
    overrides: Any = {2: {"temperature": 0.9}}
    outcome = SelfRefine(bound, Helpfulness(critic), overrides=overrides, augment="last_draft").refine(QUESTION)

    assert (outcome.stop_reason, outcome.answer and outcome.answer.text, len(outcome.attempts)) == (
        "accepted",
        GOOD,
        3,
    )
    first, second, third = sent_to(server, "writer")
    assert {name: first[name] for name in ("top_p", "vendor", "response_format")} == {
        "top_p": 0.5,
        "vendor": {"x": 1},
        "response_format": {"type": "text"},
    }
    assert "temperature" not in first
    assert (second["temperature"], third["temperature"]) == (0.9, 0.9)
    assert [message["role"] for message in third["messages"]] == ["user", "assistant", "user"]
    raws: list[Any] = [attempt.raw for attempt in outcome.attempts]
    assert [raw["choices"][0]["message"]["reasoning_content"] for raw in raws] == [f"about {MARK}"] * 3
    assert outcome.raw is not None
    assert outcome.raw["citations"] == ["c"]
    assert MARK not in json.dumps(outcome.raw)
    assert outcome.raw["choices"][0]["message"] == {"role": "assistant", "content": GOOD, "annotations": [1]}  # type: ignore[index,call-overload]  # JSON
    assert outcome.answer is not None
    assert MARK not in outcome.answer.model_dump_json()
    kept = SelfRefine(writer, lambda response: True, keep_reasoning=True).refine(QUESTION)
    assert kept.raw is kept.attempts[0].raw


def test_tools_pictures_and_results_go_in_and_calls_come_out(
    server: ModelServer, writer: OpenAICompatible
) -> None:
    """A turn that calls a tool is handed on unjudged; its call goes back as it came, with the result."""
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "look", "arguments": '{"q":  "it"}'},
        "signature": "s",
    }
    server.reply = lambda asked: (
        answer("It is Paris.") if len(asked["messages"]) > 1 else answer("", tool_calls=[call])
    )

    def look(q: str) -> str:
        """Look something up."""
        return q

    refiner = SelfRefine(writer, lambda response: True).bind_tools([look], tool_choice="auto")
    picture = HumanMessage([{"type": "image", "base64": "AA==", "mime_type": "image/png"}])
    turn = refiner.invoke([picture])
    final = refiner.invoke([picture, turn, ToolMessage("Paris", tool_call_id="c1")])

    assert turn.tool_calls[0]["args"] == {"q": "it"}
    assert turn.response_metadata["refine"]["stop_reason"] == "skipped"
    assert final.text == "It is Paris."
    (first, second) = server.requests
    assert first["tools"][0]["function"]["name"] == "look"
    assert first["messages"][0]["content"][0]["image_url"]["url"] == "data:image/png;base64,AA=="
    assert second["messages"][1]["tool_calls"] == [call]
    assert second["messages"][2] == {"role": "tool", "content": "Paris", "tool_call_id": "c1"}


def test_calls_tokens_and_cost_are_counted_and_budgets_hold(
    writer: OpenAICompatible, critic: OpenAICompatible
) -> None:
    """What generator and judge consumed adds up, cached tokens at their price, and each budget ends the loop."""
    prices = {"w-1": Price(input=10, output=100, cached_input=1), "critic": Price(input=0, output=0)}
    judge = Helpfulness(critic)

    whole = SelfRefine(writer, judge, prices=prices, augment="last_draft").refine(QUESTION)
    assert (whole.usage.calls, whole.usage.cached_input_tokens) == (6, 120)
    assert whole.attempts[0].usage.tokens == 110
    assert whole.usage.cost == pytest.approx(3 * (60 * 10 + 40 * 1 + 10 * 100) / 1e6)
    for limit, calls in (
        ({"max_calls": 3}, 3),
        ({"max_tokens": 300}, 3),
        ({"max_cost": 0.002, "prices": prices}, 3),
    ):
        outcome = SelfRefine(writer, judge, augment="last_draft", **limit).refine(QUESTION)
        assert (outcome.stop_reason, outcome.usage.calls) == ("budget", calls), limit


class Heard(BaseCallbackHandler):
    """Notes what happens to model calls."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Note a start."""
        self.events.append(("start", kwargs["invocation_params"]["model"]))

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        """Note an end."""
        self.events.append(("end", response.generations[0][0].message.usage_metadata["total_tokens"]))

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        """Note an error."""
        self.events.append(("error", type(error).__name__))

    def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        """Note a token, which nobody may hear."""
        self.events.append(("token", token))


class Tracer(BaseTracer):
    """Keeps whole runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[Any] = []

    def _persist_run(self, run: Any) -> None:
        self.runs.append(run)


@both_ways
def test_handlers_see_every_call_of_generator_and_judge(
    server: ModelServer, writer: OpenAICompatible, critic: OpenAICompatible, way: Way
) -> None:
    """Starts, ends with usage and errors; a call is counted once, also where handlers and a budget watch."""
    refiner = SelfRefine(writer.bind(stream=True), Helpfulness(critic), max_calls=20, augment="last_draft")
    heard, tracer = Heard(), Tracer()

    def invoke() -> AIMessage:
        if way == "sync":
            return refiner.invoke(QUESTION, {"callbacks": [heard, tracer]})

        async def ainvoke() -> AIMessage:
            try:
                return await refiner.ainvoke(QUESTION, {"callbacks": [heard, tracer]})
            finally:
                await writer.aclose()
                await critic.aclose()

        return asyncio.run(ainvoke())

    with get_usage_metadata_callback() as usage:
        final = invoke()

    assert heard.events == [("start", "writer"), ("end", 110), ("start", "critic"), ("end", 110)] * 3
    assert usage.usage_metadata["w-1"]["input_token_details"] == {"cache_read": 120}
    assert usage.usage_metadata["critic"]["total_tokens"] == 330
    assert final.response_metadata["refine"]["usage"]["calls"] == 6
    calls = [run for run in tracer.runs[0].child_runs if run.run_type == "llm"]
    assert [run.name for run in calls] == ["attempt 1", "attempt 2", "attempt 3"]
    assert calls[0].extra["metadata"]["ls_model_name"] == "writer"

    server.reply = lambda asked: Reply("no", status=400)
    with pytest.raises(GeneratorFailed) as failed:
        invoke()
    assert heard.events[-2:] == [("start", "writer"), ("error", "EndpointStatusError")]
    cause = failed.value.__cause__
    assert isinstance(cause, EndpointStatusError)
    assert cause.upstream is not None
    assert (cause.upstream.status, json.loads(cause.upstream.body)["error"]["message"]) == (400, "no")


async def test_streams_show_nothing_of_refused_drafts(writer: OpenAICompatible, critic: OpenAICompatible) -> None:
    """Every stream mode and version of events, plain and within a graph: no draft, and no judge that quotes it."""
    policy = Policy(augment="last_draft")
    graph = self_refine(writer, Helpfulness(critic), policy=policy, checkpointer=InMemorySaver())
    refiner = SelfRefine(writer, Helpfulness(critic), policy=policy)
    question: Any = {"messages": [("user", QUESTION)]}
    seen: list[Any] = []
    for mode in MODES:
        thread: Any = {"configurable": {"thread_id": str(mode)}}
        seen += [part async for part in graph.astream(question, thread, stream_mode=mode, subgraphs=True)]
        seen += await asyncio.to_thread(_streamed, graph, question, mode)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is deprecated, and still used
        seen += [event async for event in refiner.astream_events(QUESTION, version="v1")]
        seen += [event async for event in refiner.astream_events(QUESTION, version="v2")]
        seen += [patch async for patch in refiner.astream_log(QUESTION)]
    seen += [await graph.aget_state({"configurable": {"thread_id": "values"}})]

    assert MARK not in repr(seen)
    assert GOOD in repr(seen)
    await writer.aclose()
    await critic.aclose()


def _streamed(graph: Graph, question: Any, mode: Any) -> list[Any]:
    return list(graph.stream(question, {"configurable": {"thread_id": f"blocking {mode}"}}, stream_mode=mode))


@pytest.mark.parametrize("durable", [False, True])
def test_a_conversation_is_converted_and_read_once(
    writer: OpenAICompatible,
    critic: OpenAICompatible,
    monkeypatch: pytest.MonkeyPatch,
    durable: bool,  # noqa: FBT001 - a case
) -> None:
    """For all attempts together, for the generator and for the judge, with checkpoints or without."""
    converted: list[int] = []
    read: list[Any] = []
    to_dicts = openai_messages.to_dicts

    def count(messages: Any) -> Any:
        converted.append(len(messages))
        return to_dicts(messages)

    def note(message: Any) -> Any:
        read.append(message)
        return plain_message(message)

    monkeypatch.setattr("graphs.generators.to_dicts", count)
    monkeypatch.setattr("graphs.outcome.plain_message", note)
    conversation = [HumanMessage("Hi."), AIMessage("Hello."), HumanMessage(QUESTION)]
    saver = InMemorySaver() if durable else None
    refiner = SelfRefine(writer, Helpfulness(critic), checkpointer=saver, augment="last_draft")

    final = refiner.invoke(conversation, {"configurable": {"thread_id": "1"}})

    assert len(final.response_metadata["refine"]["attempts"]) == 2
    assert (converted.count(3), len(read)) == (1, 3)


def test_a_checkpoint_keeps_the_reply(writer: OpenAICompatible, critic: OpenAICompatible) -> None:
    """With a checkpointer the endpoint's reply is on the outcome all the same."""
    refiner = SelfRefine(writer, Helpfulness(critic), checkpointer=InMemorySaver())
    outcome = refiner.refine(QUESTION, {"configurable": {"thread_id": "1"}})
    assert outcome.raw is not None
    assert outcome.raw["citations"] == ["c"]


async def test_a_raw_request_is_sent_as_it_came(
    server: ModelServer, writer: OpenAICompatible, critic: OpenAICompatible
) -> None:
    """A door hands a request on: every field of it, its own headers, and on a retry two messages more."""
    request = {
        "model": "writer",
        "messages": [{"role": "user", "content": QUESTION, "cache_control": {"type": "ephemeral"}}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "vendor": [1],
    }
    loop = SelfRefine(writer, Helpfulness(critic), policy=Policy(augment="last_draft"))._loop
    generator = RequestGenerator(writer, request, headers={"authorization": "Bearer caller"})
    question = {"messages": generator.conversation}

    outcome = await arun(loop.with_generator(generator), question, {})
    again = await asyncio.to_thread(run, loop.with_generator(RequestGenerator(writer, request)), question, {})

    assert (outcome.raw, outcome.passed) == (again.raw, True)
    first, second, third, *_ = sent_to(server, "writer")
    assert {"stream", "stream_options", "temperature"}.isdisjoint(first)
    assert (first["vendor"], first["messages"]) == ([1], request["messages"])
    assert second["messages"][:1] == request["messages"]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    assert [asked["authorization"] for asked in (first, second, third)] == ["Bearer caller"] * 3
    assert sent_to(server, "writer")[3]["authorization"] == "Bearer k"
    await writer.aclose()
    await critic.aclose()
