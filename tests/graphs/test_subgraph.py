"""The loop as a node of another graph."""

from __future__ import annotations

from itertools import count
from typing import Annotated, Any, TypedDict, get_args

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StreamMode, interrupt

from graphs import NotAccepted, Policy, self_refine
from judges.messages import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.laws import for_every

Graph = CompiledStateGraph[Any, Any, Any, Any]

MARK = "Xq7Zdraft"
GOOD = "a good answer"
MODES = get_args(StreamMode)
ASKED: dict[str, Any] = {"messages": [("user", "what is it?")]}
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


def loop(**settings: Any) -> Graph:
    """Make a loop that refuses twice, quoting what it refuses."""
    model = ScriptedModel([f"wrong {MARK}", f"still {MARK}", GOOD], cycle=True)
    judge = ScriptedJudge([(1, f"not {MARK}"), (1, f"not {MARK}"), 4], cycle=True)
    return self_refine(model, judge, **settings)


def parent(node: Any, *, state: Any = MessagesState, checkpointer: Any = None) -> Graph:
    """Make a graph of messages around one node."""
    graph = StateGraph(state)
    graph.add_node("answer", node)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    made: Graph = graph.compile(checkpointer=checkpointer)
    return made


async def test_it_is_a_node_over_messages() -> None:
    """The compiled loop stands as a node of a graph over messages, and adds one answer, sync and async."""
    for state in (parent(loop()).invoke(ASKED), await parent(loop()).ainvoke(ASKED)):
        assert [one.text for one in state["messages"]] == ["what is it?", GOOD]


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_the_outer_streams_show_nothing(version: Any, checkpointed: bool) -> None:  # noqa: FBT001 - a parameter
    """With `subgraphs=True` the outer graph's streams show nothing of a rejected draft, in any mode."""
    made = parent(loop(), checkpointer=InMemorySaver() if checkpointed else None)
    seen = list(made.stream(ASKED, THREAD, stream_mode=list(MODES), subgraphs=True, version=version))
    assert GOOD in repr(seen)
    assert MARK not in repr(seen)


@for_every("door", [*MODES, "events"])
async def test_an_outer_stream_shows_nothing(door: Any) -> None:
    """The same for each mode alone, and for events, async."""
    made = parent(loop(), checkpointer=InMemorySaver())
    if door == "events":
        seen: list[Any] = [one async for one in made.astream_events(ASKED, THREAD, version="v2")]
        assert GOOD in repr(seen)
    else:
        seen = [one async for one in made.astream(ASKED, THREAD, stream_mode=door, subgraphs=True)]
    assert seen
    assert MARK not in repr(seen)


def test_the_outer_messages_stream_has_the_answer_once() -> None:
    """The answer is streamed once, not once per graph."""
    seen: list[Any] = list(parent(loop()).stream(ASKED, stream_mode="messages", subgraphs=True))
    assert [message.text for _, (message, _) in seen] == [GOOD]


def test_progress_reaches_the_outer_custom_stream() -> None:
    """The loop's progress is heard in the outer graph's custom stream, from the subgraph."""
    seen: list[Any] = list(parent(loop()).stream(ASKED, stream_mode="custom", subgraphs=True))
    assert [event["event"] for _, event in seen] == ["start", "attempt", "verdict"] * 3 + ["finish"]
    assert all(place[0].startswith("answer:") for place, _ in seen)


def test_the_outer_state_shows_nothing() -> None:
    """The outer graph's states and their history, subgraphs included, show no rejected draft."""
    made = parent(loop(), checkpointer=InMemorySaver())
    made.invoke(ASKED, THREAD)
    seen = repr((made.get_state(THREAD, subgraphs=True), list(made.get_state_history(THREAD))))
    assert GOOD in seen
    assert MARK not in seen


def test_two_turns_of_the_outer_graph_are_apart() -> None:
    """Under the outer graph's checkpointer a second turn knows the first answer, and none of its drafts."""
    model = ScriptedModel([f"wrong {MARK}", "first answer", "second answer"])
    node = self_refine(model, ScriptedJudge([(1, f"not {MARK}"), 4, 4]))
    made = parent(node, checkpointer=InMemorySaver())
    made.invoke(ASKED, THREAD)
    last = made.invoke({"messages": [("user", "and then?")]}, THREAD)["messages"][-1]
    assert [one.text for one in model.prompts[-1]] == ["what is it?", "first answer", "and then?"]
    assert len(last.response_metadata["refine"]["attempts"]) == 1


class Evident(TypedDict, total=False):
    """A parent's state that carries evidence."""

    messages: Annotated[list[AnyMessage], add_messages]
    evidence: dict[str, Any]


def test_evidence_of_the_outer_state_reaches_the_judge() -> None:
    """A parent with a channel `evidence` hands it to the judge inside."""
    judge = ScriptedJudge([4])
    made = parent(self_refine(lambda _: "answer", judge), state=Evident)
    made.invoke({**ASKED, "evidence": {"reference": "the truth"}})
    assert judge.samples[0].reference == "the truth"


def test_a_human_inside_a_subgraph_is_asked() -> None:
    """An exhausted loop inside another graph interrupts that one, shows the best draft, and is resumed there."""
    policy = Policy(max_attempts=1, on_exhausted="interrupt")
    node = self_refine(ScriptedModel(["draft"]), ScriptedJudge([2]), policy=policy, checkpointer="inherit")
    made = parent(node, checkpointer=InMemorySaver())
    (asked,) = made.invoke(ASKED, THREAD)["__interrupt__"]
    assert asked.value["answer"] == "draft"
    ended = made.invoke(Command(resume={"answer": "by hand"}), THREAD)
    assert [one.text for one in ended["messages"]] == ["what is it?", "by hand"]


def test_drafts_of_a_waiting_subgraph_are_not_in_its_state() -> None:
    """While a subgraph waits for a human, its state shows the draft in question in the interrupt alone."""
    policy = Policy(max_attempts=2, on_exhausted="interrupt")
    model = ScriptedModel(["the best", f"wrong {MARK}"])
    node = self_refine(model, ScriptedJudge([2, (1, f"not {MARK}")]), policy=policy, checkpointer="inherit")
    made = parent(node, checkpointer=InMemorySaver())
    seen = list(made.stream(ASKED, THREAD, stream_mode=list(MODES), subgraphs=True))
    assert MARK not in repr((seen, made.get_state(THREAD, subgraphs=True)))


@tool
def approve(action: str) -> str:
    """Ask a human to approve an action."""
    return f"{action}: {interrupt(action)}"


def approving() -> tuple[ScriptedModel, ScriptedJudge, Any]:
    """Make an agent that asks a human in each of two attempts, and the judge that wants the second."""
    lines: list[object] = []
    for action in ("pay", "refund"):
        lines += [ToolCall(name="approve", args={"action": action}), f"did {action}"]
    model = ScriptedModel(lines)
    return model, ScriptedJudge([(1, "again"), 4]), create_agent(model, tools=[approve])


@pytest.mark.parametrize("inside", ["subgraph", "runnable"])
def test_a_tool_inside_asks_a_human_in_every_attempt(inside: str) -> None:
    """Each decision reaches the tool of its own attempt, through the outer graph, and no call is repeated."""
    model, judge, agent = approving()
    refiner = SelfRefine(agent, judge)

    def node(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [refiner.invoke(state["messages"], config)]}

    made = parent(self_refine(agent, judge) if inside == "subgraph" else node, checkpointer=InMemorySaver())
    asked = [made.invoke(ASKED, THREAD)["__interrupt__"][0].value]
    asked.append(made.invoke(Command(resume="yes"), THREAD)["__interrupt__"][0].value)
    ended = made.invoke(Command(resume="no"), THREAD)
    assert asked == ["pay", "refund"]
    assert ended["messages"][-1].text == "did refund"
    results = [[one.content for one in sample.steps if one.role == "tool"] for sample in judge.samples]
    assert results == [["pay: yes"], ["refund: no"]]
    assert len(model.prompts) == 4


def test_an_error_inside_reaches_the_outer_caller() -> None:
    """A refusal inside a subgraph is raised by the outer graph, with its record."""
    node = self_refine(lambda _: "bad", ScriptedJudge([1]), policy=Policy(max_attempts=1, on_exhausted="raise"))
    with pytest.raises(NotAccepted) as raised:
        parent(node).invoke(ASKED)
    assert raised.value.outcome.stop_reason == "max_attempts"


def test_two_loops_stand_side_by_side() -> None:
    """Two loops in one step of a graph keep their records apart."""
    graph = StateGraph(MessagesState)
    for name in ("left", "right"):
        model = ScriptedModel([f"wrong {name}", f"good {name}"])
        graph.add_node(name, self_refine(model, ScriptedJudge([(1, "again"), 4])))
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    made: Graph = graph.compile(checkpointer=InMemorySaver())
    messages = made.invoke(ASKED, THREAD)["messages"]
    assert {one.text for one in messages[1:]} == {"good left", "good right"}


def test_it_may_be_called_twice_in_one_node() -> None:
    """A node may call the loop more than once under a checkpointer; each call begins afresh."""
    inner = self_refine(ScriptedModel([f"wrong {MARK}", "one", "two"]), ScriptedJudge([1, 4, 4]))

    def node(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        given: Any = {"messages": state["messages"]}
        replies = [inner.invoke(given, config)["messages"][-1] for _ in range(2)]
        return {"messages": replies}

    made = parent(node, checkpointer=InMemorySaver())
    seen = list(made.stream(ASKED, THREAD, stream_mode=list(MODES), subgraphs=True))
    assert [one.text for one in made.get_state(THREAD).values["messages"][1:]] == ["one", "two"]
    assert MARK not in repr(seen)


async def test_the_conversation_is_read_once_for_all_attempts() -> None:
    """Wherever it is stored: in no graph, in one, and in one inside another, with several candidates too."""
    question: Any = {"messages": [("user", "Hello"), ("ai", "Hi"), ("user", "what?")]}
    numbers = count(1)
    model = ScriptedModel(lambda _: f"draft {next(numbers)}")
    for checkpointer in (None, InMemorySaver()):
        for candidates in (1, 2):
            judge, policy = ScriptedJudge([1], cycle=True), Policy(candidates=candidates)
            doors: tuple[Any, ...] = (
                self_refine(model, judge, policy=policy, checkpointer=checkpointer),
                parent(self_refine(model, judge, policy=policy), checkpointer=checkpointer),
                SelfRefine(model, judge, policy=policy, checkpointer=checkpointer),
            )
            for number, door in enumerate(doors):
                door.invoke(question, {"configurable": {"thread_id": f"{number} {candidates}"}})
                await door.ainvoke(question, {"configurable": {"thread_id": f"a{number} {candidates}"}})
            assert len(judge.samples) == 2 * 3 * 3 * candidates
            assert len({id(sample.user_input) for sample in judge.samples}) == 2 * 3
