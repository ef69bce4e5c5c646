"""A refiner with memory of its own inside a graph, an agent or another refiner."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from graphs import InputError
from judges.messages import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

ASKED: Any = {"messages": [("user", "what?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
MARK = "Xq7Zdraft"


def remembering(**settings: Any) -> SelfRefine:
    """Make a refiner with memory, which refuses the first draft of each question and accepts the second."""
    model = ScriptedModel([f"bad {MARK}", "good"], cycle=True)
    judge = ScriptedJudge([(1, "again"), 4], cycle=True)
    return SelfRefine(model, judge, **{"checkpointer": InMemorySaver(), **settings})


def around(node: Any, saver: Any = None) -> Any:
    """Compile a graph of one node."""
    graph = StateGraph(MessagesState)
    graph.add_node("chat", node)
    graph.add_edge(START, "chat")
    return graph.compile(checkpointer=saver)


def threads_of(refiner: SelfRefine) -> set[str]:
    """Return the ids of the threads that a refiner's own checkpointer has."""
    saver = refiner.checkpointer
    assert isinstance(saver, InMemorySaver)
    return {one.config["configurable"]["thread_id"] for one in saver.list(None)}


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings of the log, and clear it."""
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return texts


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_it_runs_in_a_graph_with_and_without_a_checkpointer(
    durability: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It answers, sync and async, and says once that its own memory is not used."""
    for saver in (None, InMemorySaver()):
        refiner = remembering(durability=durability, name="memorable")
        for node in (refiner, lambda state, inner=refiner: {"messages": inner.invoke(state["messages"])}):
            graph = around(node, saver)
            for config in ({"configurable": {"thread_id": "1"}}, {"configurable": {"thread_id": "2"}}):
                assert graph.invoke(ASKED, config)["messages"][-1].text == "good"
                assert (await graph.ainvoke(ASKED, config))["messages"][-1].text == "good"
        (warning,) = warnings_of(caplog)
        assert "memorable runs inside a graph, where its own checkpointer is not used" in warning
        assert threads_of(refiner) == set()


def test_it_runs_in_a_tool_of_an_agent(caplog: pytest.LogCaptureFixture) -> None:
    """A tool of an agent without a checkpointer may ask it."""
    refiner = remembering()

    @tool
    def ask(question: str) -> str:
        """Ask."""
        return str(refiner.invoke(question).text)

    model = ScriptedModel([[ToolCall(name="ask", args={"question": "what?"})], "done"])
    messages = create_agent(model, [ask]).invoke(ASKED)["messages"]
    assert [message.text for message in messages[-2:]] == ["good", "done"]
    assert len(warnings_of(caplog)) == 1


def test_alone_it_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Outside of graphs its memory is used, and nothing is said."""
    refiner = remembering()
    refiner.invoke("what?", THREAD)
    assert refiner.invoke("and then?", THREAD).text == "good"
    assert len(refiner.graph.get_state(THREAD).values["messages"]) == 4
    around(remembering(checkpointer=None)).invoke(ASKED)
    assert warnings_of(caplog) == []


def test_nothing_can_be_resumed_in_a_graph_without_a_checkpointer() -> None:
    """None, which resumes a turn, is no question there."""
    refiner = remembering()
    with pytest.raises(InputError, match="cannot read None"):
        around(lambda _: refiner.invoke(None)).invoke(ASKED)


async def test_a_refiner_in_a_refiner_forgets_rejected_drafts() -> None:
    """Each attempt of the outer one asks the inner one on a thread of its own, as it asks an agent."""
    for saver in (None, InMemorySaver()):
        for wrapped in (False, True):
            inner = remembering()
            outer_judge = ScriptedJudge([(1, "once more"), 4], cycle=True)
            generator = inner.with_config(tags=["inner"]) if wrapped else inner
            outer = SelfRefine(generator, outer_judge, checkpointer=saver)
            assert outer.invoke("what?", THREAD).text == "good"
            assert (await outer.ainvoke("and?", THREAD)).text == "good"
            assert len(threads_of(inner)) == 4
            assert "1" not in threads_of(inner)
