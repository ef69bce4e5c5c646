"""A graph that nobody watches runs its attempts in one step, and comes to the same as one whose steps are seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, get_usage_metadata_callback
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.graph import START, MessagesState, StateGraph

from graphs import NotAccepted, Policy, self_refine
from graphs.graph import LoopGraph
from judges.testing import ScriptedModel

ASKED: dict[str, Any] = {"messages": [("user", "what?")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}

Run = Callable[[LoopGraph], Any]


class Places:
    """A judge that notes in which node of the graph it is asked, and accepts the second answer."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def __call__(self, response: str) -> int:
        """Rate an answer."""
        place = get_config()["configurable"]["checkpoint_ns"]
        self.nodes.append(place.rpartition("|")[2].partition(":")[0])
        return 4 if response == "two" else 1


def graph_of(judge: Any, generator: Any = None, **settings: Any) -> LoopGraph:
    """Make a graph that needs two attempts."""
    return self_refine(generator or ScriptedModel(["one", "two"], cycle=True), judge, **settings)


def changed(graph: LoopGraph, **attributes: Any) -> LoopGraph:
    """Set attributes of a compiled graph, as a user may."""
    for name, value in attributes.items():
        setattr(graph, name, value)
    return graph


def inside(graph: LoopGraph) -> Any:
    """Run a graph as the node of another one."""
    around: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    around.add_node("inner", graph)
    around.add_edge(START, "inner")
    return around.compile().invoke(ASKED)


def with_usage_counted(graph: LoopGraph) -> Any:
    """Run a graph where a handler comes from a context variable."""
    with get_usage_metadata_callback():
        return graph.invoke(ASKED)


UNWATCHED: dict[str, Run] = {
    "invoke": lambda graph: graph.invoke(ASKED),
    "ainvoke": lambda graph: asyncio.run(graph.ainvoke(ASKED)),
    "batch": lambda graph: graph.batch([ASKED])[0],
    "a limit of steps": lambda graph: graph.invoke(ASKED, {"recursion_limit": 7}),
    "with a config": lambda graph: graph.with_config(tags=["a"]).invoke(ASKED, {"metadata": {"user": "b"}}),
}
WATCHED: dict[str, Run] = {
    "a handler": lambda graph: graph.invoke(ASKED, {"callbacks": [BaseCallbackHandler()]}),
    "a handler, async": lambda graph: asyncio.run(graph.ainvoke(ASKED, {"callbacks": [BaseCallbackHandler()]})),
    "a bound handler": lambda graph: graph.with_config(callbacks=[BaseCallbackHandler()]).invoke(ASKED),
    "a handler of the context": with_usage_counted,
    "a stream": lambda graph: list(graph.stream(ASKED, stream_mode="values"))[-1],
    "updates": lambda graph: graph.invoke(ASKED, stream_mode="updates")[-1]["finish"],
    "a graph around": inside,
    "a breakpoint": lambda graph: graph.invoke(ASKED, interrupt_after=["nowhere"]),
    "a time limit of steps": lambda graph: changed(graph, step_timeout=9).invoke(ASKED),
}


def test_steps_are_made_where_they_can_be_seen() -> None:
    """The judge is asked in a node of its own there, else in the one of all attempts; the answer is the same."""
    for how, run in (UNWATCHED | WATCHED).items():
        judge = Places()
        answer = run(graph_of(judge))["messages"][-1]
        assert judge.nodes == (["tries"] * 2 if how in UNWATCHED else ["judge"] * 2), how
        assert answer.text == "two", how
        attempts = answer.response_metadata["refine"]["attempts"]
        assert [attempt["rating"] for attempt in attempts] == [1, 4], how


def test_steps_are_stored() -> None:
    """With a checkpointer, given at first or set later, there is a checkpoint of each step."""
    later = changed(graph_of(Places()), checkpointer=InMemorySaver())
    for graph in (graph_of(Places(), checkpointer=InMemorySaver()), later):
        assert graph.invoke(ASKED, THREAD)["messages"][-1].text == "two"
        assert len(list(graph.get_state_history(THREAD))) > len(("judge", "generate", "judge", "finish"))


def test_a_generator_that_may_stop_for_a_human_has_a_step_of_its_own() -> None:
    """So has any function, which may be anything inside."""
    judge, answers = Places(), iter(["one", "two"])
    assert graph_of(judge, lambda messages: next(answers)).invoke(ASKED)["messages"][-1].text == "two"
    assert judge.nodes == ["judge"] * 2


def test_errors_are_the_same() -> None:
    """What no attempt passes ends in the same error, seen or not."""
    graph = graph_of(lambda response: False, policy=Policy(on_exhausted="raise", max_attempts=2))
    for config in ({}, {"callbacks": [BaseCallbackHandler()]}):
        with pytest.raises(NotAccepted) as caught:
            graph.invoke(ASKED, config)  # type: ignore[arg-type]  # two configs of one type
        assert [attempt.text for attempt in caught.value.outcome.attempts] == ["one", "two"]
