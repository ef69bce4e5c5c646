"""`SelfRefine` stands as a node of a graph where an agent stood: state in, update of the state out."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage
from langchain_core.prompt_values import ChatPromptValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from pydantic import BaseModel

from graphs import InputError
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

Graph = CompiledStateGraph[Any, Any, Any, Any]

MARK = "Xq7Zdraft"
ASKED: dict[str, Any] = {"messages": [("user", "what?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}


class Summed(MessagesState):
    """A state with a place for the summary, and one of its own."""

    refine: dict[str, Any] | None
    steps: Annotated[list[str], operator.add]


class PydanticState(BaseModel):
    """A state that is a pydantic object."""

    messages: Annotated[list[AnyMessage], add_messages] = []
    topic: str = ""


@dataclass
class DataclassState:
    """A state that is a dataclass."""

    messages: Annotated[list[AnyMessage], add_messages] = field(default_factory=list)
    topic: str = ""


class Conversation(TypedDict):
    """A state with another name for the messages."""

    conversation: Annotated[list[AnyMessage], add_messages]


def refiner(**settings: Any) -> SelfRefine:
    """Make a refiner that refuses the first draft of each question and accepts the second."""
    model = ScriptedModel([f"bad {MARK}", "good"], cycle=True)
    return SelfRefine(model, ScriptedJudge([(1, f"not {MARK}"), (4, "")], cycle=True), **settings)


def around(node: Any, state: Any = MessagesState, **settings: Any) -> Graph:
    """Compile a graph of one node."""
    graph = StateGraph(state)
    graph.add_node("chat", node)
    graph.add_edge(START, "chat")
    made: Graph = graph.compile(**settings)
    return made


def texts(state: Any) -> list[str]:
    """Return the texts of a state's messages."""
    return [message.text for message in state["messages"]]


async def test_the_answer_of_a_node_is_in_the_state() -> None:
    """The state keeps the question and gains the answer, sync and async, streamed or not, whatever its class."""
    for state in (MessagesState, Summed, PydanticState, DataclassState):
        graph = around(refiner(), state)
        assert texts(graph.invoke(ASKED)) == ["what?", "good"]
        assert texts(await graph.ainvoke(ASKED)) == ["what?", "good"]
        assert texts(list(graph.stream(ASKED, stream_mode="values"))[-1]) == ["what?", "good"]
        assert texts([part async for part in graph.astream(ASKED, stream_mode="values")][-1]) == ["what?", "good"]
        assert [texts(one) for one in graph.batch([ASKED, ASKED], {"max_concurrency": 1})] == [
            ["what?", "good"]
        ] * 2


async def test_the_state_has_the_summary_where_it_has_a_place_for_it() -> None:
    """A channel `refine` receives the summary from the first turn on; other channels stay as they are."""
    graph = around(refiner(), Summed, checkpointer=InMemorySaver())
    first = graph.invoke({**ASKED, "steps": ["asked"]}, THREAD)
    assert (first["refine"]["passed"], first["steps"]) == (True, ["asked"])
    second = await graph.ainvoke(ASKED, THREAD)
    assert (second["refine"]["stop_reason"], second["steps"]) == ("accepted", ["asked"])
    assert "refine" not in around(refiner()).invoke(ASKED)


def test_the_streams_of_the_graph_show_the_answer_once_and_no_draft() -> None:
    """Every mode of the outer graph shows the answer; the messages stream shows it once."""
    for saver in (None, InMemorySaver()):
        graph = around(refiner(), checkpointer=saver)
        modes: Any = ["values", "updates", "messages", "custom", "tasks", "debug", "checkpoints"]
        seen: list[Any] = list(graph.stream(ASKED, THREAD, stream_mode=modes, subgraphs=True))
        assert MARK not in repr(seen)
        assert [part[0].text for _, mode, part in seen if mode == "messages"] == ["good"]


async def test_a_mapping_is_answered_by_a_mapping() -> None:
    """Outside of graphs, too, at every entrance; the summary comes where the mapping has the key."""
    question: dict[str, Any] = {"messages": "what?"}
    for output in (
        refiner().invoke(question),
        await refiner().ainvoke(question),
        *refiner().stream(question),
        *[part async for part in refiner().astream(question)],
        *refiner().batch([question]),
        *await refiner().abatch([question]),
    ):
        assert list(output) == ["messages"]
        (answer,) = output["messages"]
        assert (type(answer), answer.text) == (AIMessage, "good")
    summed = refiner().invoke({**question, "refine": None})
    assert summed["refine"] == summed["messages"][0].response_metadata["refine"]


async def test_anything_else_is_answered_by_a_message() -> None:
    """Text, messages and prompt values are answered as a chat model answers them."""
    questions: list[Any] = ["what?", [HumanMessage("what?")], HumanMessage("what?")]
    for question in [*questions, ChatPromptValue(messages=[HumanMessage("what?")])]:
        assert type(refiner().invoke(question)) is AIMessage
        assert type(await refiner().ainvoke(question)) is AIMessage
        assert [type(part) for part in refiner().stream(question)] == [AIMessageChunk]


def test_a_function_in_a_node_names_the_messages_as_it_likes() -> None:
    """A node that is a chain around the refiner works on any state."""
    node: Callable[[Any], Any] = lambda state: {"conversation": refiner().invoke(state["conversation"])}  # noqa: E731
    made = around(node, Conversation).invoke({"conversation": [("user", "what?")]})
    assert [one.text for one in made["conversation"]] == ["what?", "good"]


def test_other_keys_are_refused_outside_of_a_graph() -> None:
    """A misspelt key is an error where no state has keys of its own."""
    with pytest.raises(InputError, match=r"not \['evidnce'\]"):
        refiner().invoke({**ASKED, "evidnce": {}})
    with pytest.raises(InputError, match="a list of other things"):
        refiner().invoke({**ASKED, "evidence": ["a text"]})


def test_a_human_is_asked_through_the_graph_around() -> None:
    """An exhausted refiner in a node interrupts the outer graph, and its answer reaches the state."""
    node = SelfRefine(
        lambda _: "draft", ScriptedJudge([1]), max_attempts=1, on_exhausted="interrupt", checkpointer="inherit"
    )
    graph = around(node, checkpointer=InMemorySaver())
    (review,) = graph.invoke(ASKED, THREAD)["__interrupt__"]
    assert review.value["answer"] == "draft"
    assert texts(graph.invoke(Command(resume={"answer": "by hand"}), THREAD)) == ["what?", "by hand"]
