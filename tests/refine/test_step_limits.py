"""The step limit of a config bounds an agent inside where somebody set it, and never the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph

from graphs import GeneratorFailed, self_refine
from judges.messages import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

ASKED: dict[str, Any] = {"messages": [("user", "count")]}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"checkpointer": InMemorySaver()},
    {"checkpointer": InMemorySaver(), "durability": "exit"},
]
THREAD: dict[str, Any] = {"configurable": {"thread_id": "1"}}


@tool
def step(number: int) -> str:
    """Do a step."""
    return f"step {number}"


def agent(calls: int, **settings: Any) -> Any:
    """Make an agent that calls a tool so many times, and then answers."""
    turns: list[Any] = [[ToolCall(name="step", args={"number": number})] for number in range(calls)]
    return create_agent(ScriptedModel([*turns, "counted"], cycle=True), [step], **settings)


def bare(calls: int) -> Any:
    """Make a graph without a limit of its own, which takes so many steps."""

    def work(state: Any) -> dict[str, Sequence[AnyMessage]]:
        done = sum(message.type == "ai" for message in state["messages"])
        return {"messages": [AIMessage("counted" if done + 1 >= calls else f"step {done}")]}

    graph = StateGraph(MessagesState)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges(
        "work", lambda state: "__end__" if state["messages"][-1].text == "counted" else "work"
    )
    return graph.compile()


def answering(inner: Any) -> Callable[[list[AnyMessage]], Any]:
    """Wrap a graph into a function of the messages."""
    return lambda messages: inner.invoke({"messages": messages})


GENERATORS: dict[str, Callable[[], Any]] = {
    "agent": lambda: agent(12),
    "bound": lambda: agent(12).with_config(recursion_limit=1_000),
    "retried": lambda: agent(12).with_retry(),
    "bound with settings": lambda: agent(12).with_config(recursion_limit=1_000).bind(),
    "bare": lambda: bare(30),
    "function": lambda: answering(agent(12)),
    "function of a bare graph": lambda: answering(bare(30)),
    "chain": lambda: RunnableLambda(lambda messages: {"messages": messages}) | agent(12),
}


async def doors(refiner: SelfRefine, config: Any) -> list[str]:
    """Return what each entrance answers."""
    chain: Runnable[Any, Any] = RunnableLambda(lambda text: text) | refiner
    return [
        refiner.invoke("count", config).text,
        (await refiner.ainvoke("count", config)).text,
        next(iter(refiner.stream("count", config))).text,
        chain.invoke("count", config).text,
        (await chain.ainvoke("count", config)).text,
    ]


@pytest.mark.parametrize("kind", GENERATORS)
async def test_an_agent_inside_takes_as_many_steps_as_alone(kind: str) -> None:
    """LangChain's default of 25 is no limit for it, with a checkpointer or without, traced or not."""
    for number, settings in enumerate(SETTINGS):
        refiner = SelfRefine(GENERATORS[kind](), ScriptedJudge([4], cycle=True), **settings)
        traced = (False, True) if kind == "agent" else (number % 2 == 1,)
        for callbacks in ([BaseCallbackHandler()] if one else [] for one in traced):
            assert await doors(refiner, {**THREAD, "callbacks": callbacks}) == ["counted"] * 5


async def test_an_agent_keeps_the_limit_it_was_bound_to() -> None:
    """Its own limit is what stops it, in a plain run, with a checkpointer, and in a graph."""
    ways: list[Callable[[Any], Any]] = [
        lambda limited: limited,
        lambda limited: limited.bind(),
        lambda limited: limited.with_retry(stop_after_attempt=1),
    ]
    for settings in SETTINGS:
        for way in ways:
            refiner = SelfRefine(way(agent(12).with_config(recursion_limit=7)), ScriptedJudge([4]), **settings)
            with pytest.raises(GeneratorFailed) as raised:
                await refiner.ainvoke("count", {"configurable": {"thread_id": "1"}})
            assert isinstance(raised.value.__cause__, GraphRecursionError)
    graph = StateGraph(MessagesState)
    graph.add_node("chat", SelfRefine(agent(12).with_config(recursion_limit=7), ScriptedJudge([4])))
    graph.add_edge(START, "chat")
    with pytest.raises(GeneratorFailed):
        graph.compile().invoke({"messages": [HumanMessage("count")]})


async def test_a_limit_that_is_set_reaches_the_agent() -> None:
    """A limit in the config stops the agent; the loop goes on to what it does without an answer."""
    for settings in SETTINGS:
        refiner = SelfRefine(agent(12), ScriptedJudge([4], cycle=True), **settings)
        with pytest.raises(GeneratorFailed):
            refiner.invoke("count", {"configurable": {"thread_id": "1"}, "recursion_limit": 8})
        with pytest.raises(GeneratorFailed):
            await refiner.with_config(recursion_limit=8).ainvoke("count", {"configurable": {"thread_id": "2"}})
        config: Any = {"configurable": {"thread_id": "3"}, "recursion_limit": 40}
        assert refiner.invoke("count", config).text == "counted"


async def test_the_loop_takes_as_many_attempts_as_the_policy_allows() -> None:
    """No step limit ends the loop: neither a default nor a small one, plain, with a checkpointer or in a chain."""
    for settings in (
        {},
        {"checkpointer": InMemorySaver()},
        {"checkpointer": InMemorySaver(), "durability": "exit"},
    ):
        judge = ScriptedJudge([*[(1, "again")] * 11, 4], cycle=True)
        refiner = SelfRefine(lambda _: "good", judge, max_attempts=12, **settings)
        assert await doors(refiner, {"configurable": {"thread_id": "1"}}) == ["good"] * 5
        assert await doors(refiner, {"configurable": {"thread_id": "1"}, "recursion_limit": 3}) == ["good"] * 5


def test_a_graph_of_the_loop_hands_on_the_limit_alike() -> None:
    """In `self_refine` an agent keeps its own limit, in a chain, too, unless another is set."""
    chain = RunnableLambda(lambda state: state) | self_refine(agent(12), ScriptedJudge([4], cycle=True))
    assert chain.invoke(ASKED)["messages"][-1].text == "counted"
    with pytest.raises(GeneratorFailed):
        self_refine(agent(12), ScriptedJudge([4])).invoke(ASKED, {"recursion_limit": 8})


@pytest.mark.parametrize("checkpointed", [False, True])
async def test_a_graph_of_the_loop_takes_as_many_attempts_as_the_policy_allows(*, checkpointed: bool) -> None:
    """No step limit ends it, neither a default nor a small one: alone, in a chain, as a node, called by a node."""
    saver = InMemorySaver() if checkpointed else None

    def loop() -> Any:
        judge = ScriptedJudge([*[(1, "again")] * 19, 4], cycle=True)
        return self_refine(lambda _: "good", judge, max_attempts=20, checkpointer=saver)

    def node(made: Any) -> Any:
        graph = StateGraph(MessagesState)
        graph.add_node("chat", made)
        graph.add_edge(START, "chat")
        return graph.compile()

    made = loop()
    ways = [
        made,
        RunnableLambda(lambda state: state) | made,
        node(made),
        node(lambda state: made.invoke({"messages": state["messages"]})),
        made.with_config(recursion_limit=4),
    ]
    for number, way in enumerate(ways):
        for limit in ({}, {"recursion_limit": 5}):
            config: Any = {"configurable": {"thread_id": f"{number} {limit}"}, **limit}
            assert way.invoke(ASKED, config)["messages"][-1].text == "good"
            config = {"configurable": {"thread_id": f"async {number} {limit}"}, **limit}
            assert (await way.ainvoke(ASKED, config))["messages"][-1].text == "good"
    with pytest.raises(GeneratorFailed):
        self_refine(agent(12), ScriptedJudge([4])).with_config(recursion_limit=8).invoke(ASKED)
