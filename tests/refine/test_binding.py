"""What is bound to a `SelfRefine` goes to its generator."""

from __future__ import annotations

import json
import pickle
import sys
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.exceptions import OutputParserException
from langchain_core.runnables import Runnable
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from typing_extensions import TypedDict

from judges import ConfigurationError, OpenAICompatible, ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.model_server import Asked, ModelServer, Reply, in_turn, serving, tools_of

KINDS = ("client", "chat model", "name", "binding")


class City(BaseModel):
    """A city."""

    name: str
    people: int


class Town(TypedDict):
    """A town."""

    name: str


def look(q: str) -> str:
    """Look something up."""
    return q


def good(response: str) -> bool:
    """Check nothing."""
    return True


def reply(asked: Asked) -> Reply:
    """Answer with a call, or with JSON that lacks a field until it is corrected."""
    if tools_of(asked):
        return Reply(calls=(("look", {"q": "x"}),))
    return Reply(
        '{"name": "Paris", "people": 2}' if "people" in asked["messages"][-1]["content"] else '{"name": "Paris"}'
    )


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Serve the model."""
    with serving(reply) as running:
        yield running


@pytest.fixture(params=KINDS)
def generator(request: pytest.FixtureRequest, server: ModelServer) -> Iterator[Any]:
    """Make each kind of generator to which anything can be bound."""
    chat = ChatOpenAI(model="m", base_url=server.url, api_key="k")  # type: ignore[arg-type]  # a text is taken
    with OpenAICompatible(server.url, model="m", api_key="k") as client:
        yield {
            "client": client,
            "chat model": chat,
            "name": f"openai-compatible:m@{server.url}",
            "binding": chat.bind(top_p=0.5).with_retry(stop_after_attempt=1).with_config(tags=["t"]),
        }[request.param]


def test_settings_and_tools_reach_the_model(server: ModelServer, generator: Any) -> None:
    """They add up, whatever was bound before stays, and the first refiner is as it was."""
    refiner = SelfRefine(generator, good, max_attempts=2)
    bound = refiner.bind_tools([look], tool_choice="look").bind(temperature=0.3)

    answer = bound.invoke("where?")

    asked = server.requests[-1]
    assert (tools_of(asked), asked["temperature"]) == ({"look"}, 0.3)
    assert asked.get("top_p") == (
        0.5 if isinstance(generator, Runnable) and not isinstance(generator, ChatOpenAI) else None
    )
    assert answer.tool_calls[0]["name"] == "look"
    assert isinstance(bound, SelfRefine)
    assert bound.policy.max_attempts == 2
    refiner.invoke("people?")
    assert "tools" not in server.requests[-1]


def test_objects_of_a_schema_are_judged_as_json(server: ModelServer, generator: Any) -> None:
    """An answer that lacks a field is refused without the judge and asked for again; then it is an object."""
    judged: list[str] = []

    def judge(response: str) -> bool:
        judged.append(response)
        return True

    structured = SelfRefine(generator, judge).with_structured_output(City)

    assert structured.invoke("where?") == City(name="Paris", people=2)
    assert judged == ['{"name": "Paris", "people": 2}']
    assert [asked["response_format"]["type"] for asked in server.requests] == ["json_schema"] * 2
    note = server.requests[-1]["messages"][-1]["content"]
    assert "fits the schema City" in note


def test_schemas_in_other_forms_and_answers_that_never_fit(server: ModelServer) -> None:
    """A TypedDict and a JSON schema give dicts; without an object there is an error, or the raw answer."""
    with OpenAICompatible(server.url, model="m", api_key="k") as client:
        refiner = SelfRefine(client, good, max_attempts=1)
        assert refiner.with_structured_output(Town).invoke("where?") == {"name": "Paris"}
        schema = {"title": "Town", "type": "object", "properties": {"name": {"type": "string"}}}
        assert refiner.with_structured_output(schema).invoke("where?") == {"name": "Paris"}
        assert server.requests[-1]["response_format"]["json_schema"]["name"] == "Town"
        with pytest.raises(
            OutputParserException, match="no JSON that fits the schema City: people: Field required"
        ):
            refiner.with_structured_output(City).invoke("where?")
        result = refiner.with_structured_output(City, include_raw=True).invoke("where?")
        assert (result["parsed"], json.loads(result["raw"].text)) == (None, {"name": "Paris"})
        assert isinstance(result["parsing_error"], OutputParserException)
        with pytest.raises(ConfigurationError, match="leave it at 'json_schema'"):
            refiner.with_structured_output(City, method="function_calling")
        with pytest.raises(ConfigurationError, match="a schema is a pydantic class"):
            refiner.with_structured_output(7)  # type: ignore[arg-type]  # the mistake


def test_a_refusal_is_no_broken_json(server: ModelServer) -> None:
    """It is said why there is no object: the model declined, its provider stopped it, or there was no room."""
    replies = {
        "the model declined to answer": Reply(refusal="No."),
        "the provider stopped the answer": Reply("", finish_reason="content_filter"),
        "the answer was cut off at its length limit": Reply('{"name": "Pa', finish_reason="length"),
    }
    for reason, said in replies.items():
        server.reply = in_turn(said)
        with OpenAICompatible(server.url, model="m", api_key="k") as client:
            structured = SelfRefine(client, good, max_attempts=1).with_structured_output(City)
            with pytest.raises(OutputParserException, match=f"fits the schema City: {reason}"):
                structured.invoke("where?")


def test_an_object_that_a_json_schema_does_not_allow_is_refused_without_the_judge(server: ModelServer) -> None:
    """Types, missing fields and limits count as those of a class do; the error quotes nothing of the answer."""
    limits = {"title": "Town", "type": "object", "required": ["people"]}
    schema = {**limits, "properties": {"people": {"type": "integer", "minimum": 1}}}
    wrapped = {"type": "json_schema", "json_schema": {"name": "Town", "schema": schema}}
    judge = ScriptedJudge([True], cycle=True)
    with OpenAICompatible(server.url, model="m", api_key="k") as client:
        for form in (schema, wrapped):
            for wrong, told in (
                ('{"people": "xyzzy"}', "people: "),
                ("{}", "people is missing"),
                ('{"people": 0}', "people"),
            ):
                server.reply = in_turn(Reply(wrong), Reply('{"people": 2}'))
                assert SelfRefine(client, judge).with_structured_output(form).invoke("where?") == {"people": 2}
                assert told in server.requests[-1]["messages"][-1]["content"]
        assert len(judge.samples) == 6
        server.reply = in_turn(Reply('{"people": "xyzzy"}'))
        with pytest.raises(OutputParserException, match="fits the schema Town, although") as raised:
            SelfRefine(client, judge, max_attempts=1).with_structured_output(schema).invoke("where?")
        assert "xyzzy" not in str(raised.value)
        anything = {"type": "json_object"}
        assert SelfRefine(client, judge).with_structured_output(anything).invoke("where?") == {"people": "xyzzy"}


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic reads the standard TypedDict there")
def test_a_typed_dict_that_pydantic_cannot_read_is_told_from_one_that_it_can() -> None:
    """The line does not ask for a TypedDict where one was given."""

    class Standard(typing.TypedDict):
        name: str

    with pytest.raises(ConfigurationError, match="typing_extensions"):
        SelfRefine(ScriptedModel([]), good).with_structured_output(Standard)


@pytest.mark.parametrize("kind", ["agent", "function", "chain"])
def test_an_agent_has_its_own_tools_and_settings(kind: str) -> None:
    """Where the generator is no model, one line says where tools, settings and schemas go."""
    agent = create_agent(ScriptedModel(["x"]), tools=[look])
    inner: dict[str, Any] = {
        "agent": agent,
        "function": lambda messages: "x",
        "chain": ScriptedModel(["x"]) | (lambda message: message),
    }
    refiner = SelfRefine(inner[kind], good)
    with pytest.raises(ConfigurationError, match=r"tools cannot be bound to .*; give them to the agent inside"):
        refiner.bind_tools([look])
    with pytest.raises(ConfigurationError, match=r"settings cannot be bound to .*; bind them to the model inside"):
        refiner.bind(temperature=1)
    with pytest.raises(ConfigurationError, match=r"a schema cannot be bound to .*response_format"):
        refiner.with_structured_output(City)


def test_evidence_is_bound_to_the_call() -> None:
    """What `invoke` itself takes stays with LangChain's own `bind`, beside what goes to the model."""
    seen: list[Any] = []

    def judge(response: str, reference: str) -> bool:
        seen.append(reference)
        return True

    model = ScriptedModel(["x"])
    assert SelfRefine(model, judge).bind(evidence={"reference": "r"}, temperature=0.3).invoke("q").text == "x"
    assert seen == ["r"]
    assert (model.settings[0]["temperature"], "evidence" in model.settings[0]) == (0.3, False)


def test_a_bound_refiner_is_pickled() -> None:
    """Schema, judge and generator go to another process."""
    refiner = SelfRefine(ScriptedModel(['{"name": "Paris", "people": 2}']), good)
    with pytest.raises(ConfigurationError, match="ScriptedModel"):
        refiner.with_structured_output(City)
    twin = pickle.loads(pickle.dumps(refiner.bind(stop=["."])))  # noqa: S301 - our own
    assert twin.invoke("q").text


@pytest.mark.parametrize("schema", [Town, ToolStrategy(Town)])
def test_an_agent_inside_may_answer_by_a_call(schema: Any) -> None:
    """Its structured answer is judged, asked for again and returned as JSON; its tools are steps."""

    def measure(name: str) -> str:
        """Measure it."""
        return f"15 in {name}"

    first: dict[str, Any] = {"name": "Pariss"}
    second: dict[str, Any] = {"name": "Paris"}
    script = [
        ToolCall(name=call, args=args) for call, args in (("Town", first), ("measure", second), ("Town", second))
    ]
    judge = ScriptedJudge([1, 4])
    agent = create_agent(ScriptedModel(script), [measure], response_format=schema)
    outcome = SelfRefine(agent, judge).refine("Which town?")
    assert [json.loads(attempt.text) for attempt in outcome.attempts] == [first, second]
    assert json.loads(outcome.answer.text if outcome.answer else "") == second
    assert [message.content for message in judge.samples[1].trajectory if message.role == "tool"] == [
        "15 in Paris"
    ]
