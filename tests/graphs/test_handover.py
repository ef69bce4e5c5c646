"""An agent in the loop hands over to another node of the graph around it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import ParentCommand
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Send

from graphs import self_refine
from judges.messages import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

ASKED: Any = {"messages": [("user", "what?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
MARK = "Xq7Zdraft"


@tool
def transfer(call: Annotated[str, InjectedToolCallId], state: Annotated[Any, InjectedState]) -> Command[Any]:
    """Hand the whole conversation over to the expert."""
    handed_over = ToolMessage("transferred", tool_call_id=call)
    return Command(goto="expert", graph=Command.PARENT, update={"messages": [*state["messages"], handed_over]})


@tool
def send(call: Annotated[str, InjectedToolCallId], state: Annotated[Any, InjectedState]) -> Command[Any]:
    """Send the whole conversation to the expert."""
    handed_over = ToolMessage("transferred", tool_call_id=call)
    messages = {"messages": [*state["messages"], handed_over]}
    return Command(goto=[Send("expert", messages)], graph=Command.PARENT, update=messages)


@tool
def answer(call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Hand over, with an answer."""
    handed_over = [ToolMessage("transferred", tool_call_id=call), AIMessage("an answer")]
    return Command(goto="expert", graph=Command.PARENT, update={"messages": handed_over})


def agent(handing: Any) -> Any:
    """Make an agent whose first draft is refused and which hands over on the second attempt."""
    return create_agent(ScriptedModel([f"bad {MARK}", [ToolCall(name=handing.name, args={})]]), [handing])


def judge() -> ScriptedJudge:
    """Make a judge that refuses the first draft, quoting it."""
    return ScriptedJudge([(1, f"not {MARK}")])


def in_a_function(handing: Any) -> Any:
    """Return a node that calls a refiner and answers for it."""
    inner = SelfRefine(agent(handing), judge())
    return lambda state: {"messages": [inner.invoke(state["messages"])]}


def of_a_function(handing: Any) -> Any:
    """Return a refiner of a function that calls an agent."""
    inner = agent(handing)
    return SelfRefine(lambda messages: inner.invoke({"messages": messages}), judge())


FORMS: dict[str, Callable[[Any], Any]] = {
    "self_refine": lambda handing: self_refine(agent(handing), judge()),
    "SelfRefine": lambda handing: SelfRefine(agent(handing), judge()),
    "in a function": in_a_function,
    "of a function": of_a_function,
}


def around(node: Any, saver: Any) -> Any:
    """Compile a graph of a node and an expert."""

    def expert(state: Any) -> Any:
        assert MARK not in repr(state)
        return {"messages": [AIMessage(f"an answer after {state['messages'][-1].text}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("chat", node)
    graph.add_node("expert", expert)
    graph.add_edge(START, "chat")
    graph.add_edge("chat", END)
    graph.add_edge("expert", END)
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("handing", [transfer, send], ids=["goto", "send"])
async def test_the_graph_around_goes_where_the_agent_hands_over_to(form: str, handing: Any) -> None:
    """It gets the update of the command, without rejected drafts, sync and async, checkpointed or not."""
    for saver in (None, InMemorySaver()):
        sync = around(FORMS[form](handing), saver).invoke(ASKED, THREAD)
        config: Any = {"configurable": {"thread_id": "2"}}
        other = await around(FORMS[form](handing), saver).ainvoke(ASKED, config)
        for state in (sync, other):
            texts = [message.text for message in state["messages"]]
            assert (texts[0], texts[-1]) == ("what?", "an answer after transferred")
            assert MARK not in repr(state)


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_that_is_handed_over_is_reported(form: str, caplog: pytest.LogCaptureFixture) -> None:
    """An answer in the update was not judged, which the log says; a mere handover is an event."""
    graph = around(FORMS[form](answer), None)
    events = list(graph.stream(ASKED, stream_mode="custom", subgraphs=True))
    assert [event["goto"] for _, event in events if event["event"] == "handover"] == [["expert"]]
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "handed over to another node with an answer that was not judged" in record.getMessage()
    assert "an answer'" not in record.getMessage()
    caplog.clear()
    around(FORMS[form](transfer), None).invoke(ASKED)
    assert [record for record in caplog.records if record.levelno == logging.WARNING] == []


def test_without_a_graph_around_a_handover_is_an_error() -> None:
    """As of an agent alone, nothing of it is kept in silence."""
    with pytest.raises(ParentCommand):
        self_refine(agent(transfer), judge()).invoke(ASKED)
    with pytest.raises(ParentCommand):
        SelfRefine(agent(transfer), judge()).invoke("what?")
    with pytest.raises(ParentCommand):
        SelfRefine(agent(transfer), judge(), checkpointer=InMemorySaver()).invoke("what?", THREAD)
