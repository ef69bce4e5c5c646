"""How soon a loop saves: each step before the next one starts, unless somebody says otherwise."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

from graphs import self_refine
from graphs.graph import LoopGraph
from refine import SelfRefine

ROOT = Path(__file__).resolve().parents[2]
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
ASKED: dict[str, Any] = {"messages": [("user", "what?")]}
SYNC = ["saved", "saved", "called", "saved", "called", "saved", "called", "saved", "called", "saved", "saved"]
"""Begin is saved twice, as input and as a step; then each of two attempts calls twice, and the answer is saved."""

EXIT = ["called"] * 4 + ["saved"]


class SlowSaver(InMemorySaver):
    """Saves slowly, so that what does not wait for it is seen to overtake it."""

    def __init__(self, events: list[str]) -> None:
        super().__init__()
        self._events = events

    def put(self, config: RunnableConfig, *rest: Any) -> RunnableConfig:
        """Save a checkpoint, and note the loop's own."""
        time.sleep(0.005)
        saved = super().put(config, *rest)
        if not self._is_nested or config["configurable"]["checkpoint_ns"]:
            self._events.append("saved")
        return saved

    async def aput(self, config: RunnableConfig, *rest: Any) -> RunnableConfig:
        """Save without blocking, as far as this test is concerned."""
        return self.put(config, *rest)

    _is_nested = False

    def of_nested(self) -> SlowSaver:
        """Note only what graphs inside save."""
        self._is_nested = True
        return self


def parts(events: list[str]) -> dict[str, Any]:
    """Return a generator and a judge that note their calls and take two attempts."""
    ratings = iter([1, 4])

    def generate(_: Sequence[BaseMessage]) -> str:
        events.append("called")
        return f"answer {len(events)}"

    def judge(response: str) -> int:
        events.append("called")
        return next(ratings)

    return {"generator": generate, "judge": judge}


def around(node: Any, saver: SlowSaver | None, **settings: Any) -> Any:
    """Compile a graph of one node."""
    graph = StateGraph(MessagesState)
    graph.add_node("inner", node)
    graph.add_edge(START, "inner")
    return graph.compile(**{"checkpointer": saver and saver.of_nested(), **settings})


async def consume(chunks: Any) -> None:
    """Read a stream to its end."""
    async for _ in chunks:
        pass


WAYS: dict[str, Callable[[Any], Any]] = {
    "invoke": lambda graph: graph.invoke(ASKED, THREAD),
    "stream": lambda graph: list(graph.stream(ASKED, THREAD, stream_mode=["updates", "messages"])),
    "batch": lambda graph: graph.batch([ASKED], [THREAD]),
    "with_config": lambda graph: graph.with_config(tags=["a"]).invoke(ASKED, THREAD),
    "copy": lambda graph: graph.copy({"name": "other"}).invoke(ASKED, THREAD),
    "ainvoke": lambda graph: graph.ainvoke(ASKED, THREAD),
    "astream": lambda graph: consume(graph.astream(ASKED, THREAD)),
    "astream_events": lambda graph: consume(graph.astream_events(ASKED, THREAD, version="v2")),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_graph_saves_each_step_before_the_next(way: str) -> None:
    """Nothing overtakes the saving of a step, whichever way the graph is run."""
    events: list[str] = []
    graph = self_refine(**parts(events), checkpointer=SlowSaver(events))
    result = WAYS[way](graph)
    if hasattr(result, "__await__"):
        await result
    assert events == SYNC


@pytest.mark.parametrize("node", ["graph", "refiner", "function"])
async def test_so_does_a_loop_inside_another_graph(node: str) -> None:
    """With the checkpointer of the graph around, too; that graph's own steps are its own business."""
    for asynchronous in (False, True):
        events: list[str] = []
        refiner = SelfRefine(**parts(events))
        nodes = {
            "graph": self_refine(**parts(events)),
            "refiner": refiner,
            "function": lambda state, refiner=refiner: {"messages": refiner.invoke(state["messages"])},
        }
        outer = around(nodes[node], SlowSaver(events))
        if asynchronous:
            await outer.ainvoke(ASKED, THREAD)
        else:
            outer.invoke(ASKED, THREAD)
        assert events == SYNC


async def test_who_asks_for_less_gets_it() -> None:
    """A durability that is set holds: of the run, of the refiner, and of the run of a graph around."""
    events: list[str] = []
    self_refine(**parts(events), checkpointer=SlowSaver(events)).invoke(ASKED, THREAD, durability="exit")
    assert events == EXIT
    events.clear()
    graph = self_refine(**parts(events), checkpointer=SlowSaver(events))
    await graph.ainvoke(ASKED, THREAD, durability="exit")
    assert events == EXIT
    events.clear()
    SelfRefine(**parts(events), checkpointer=SlowSaver(events), durability="exit").invoke("what?", THREAD)
    assert events == EXIT
    for inner in (self_refine, SelfRefine):
        events.clear()
        around(inner(**parts(events)), SlowSaver(events)).invoke(ASKED, THREAD, durability="exit")
        assert events == ["called"] * 4
    events.clear()
    outer = around(self_refine(**parts(events)), SlowSaver(events))
    await outer.ainvoke(ASKED, THREAD, durability="async")
    assert sorted(events) == sorted(SYNC)


def test_a_graph_inside_that_declines_to_be_saved_runs() -> None:
    """LangGraph fails in a graph without a checkpointer that inherits a durability, so it does not inherit one."""
    declining = around(lambda _: {"messages": [("assistant", "answer")]}, None, checkpointer=False)
    nesting = around(declining, None)
    for generator in (declining, nesting, lambda messages: declining.invoke({"messages": messages})):
        for loop in (self_refine, SelfRefine):
            graph = loop(generator, lambda response: 4, checkpointer=InMemorySaver())
            assert graph.invoke(ASKED, THREAD)["messages"][-1].text == "answer"


def test_without_a_checkpointer_nothing_is_said_of_durability() -> None:
    """LangGraph warns of a durability that has no effect, and a warning is an error here."""
    for checkpointer in (None, False):
        graph = self_refine(**parts([]), checkpointer=checkpointer)
        assert graph.invoke(ASKED)["messages"][-1].text.startswith("answer")


# The graphs of langgraph.json


def served() -> dict[str, LoopGraph]:
    """Make the graphs that langgraph.json names, as a server does: with its own checkpointer."""
    settings = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
    graphs = {}
    for name, place in settings["graphs"].items():
        file, _, factory = place.partition(":")
        assert (ROOT / file).is_file()
        module = import_module(file.removeprefix("./").removesuffix(".py").replace("/", "."))
        graphs[name] = getattr(module, factory)().copy({"checkpointer": InMemorySaver()})
    assert all((ROOT / folder).is_dir() for folder in settings["dependencies"])
    return graphs


async def test_the_graphs_of_langgraph_json_run() -> None:
    """Each factory makes a graph that answers, takes overrides, and shows no draft; one asks a human."""
    question: Any = {"messages": [{"role": "user", "content": "What is the weather in Paris right now?"}]}
    graphs = served()
    assert set(graphs) == {"reviewed", "weather"}
    ended = await graphs["weather"].ainvoke(question, THREAD, context={"max_attempts": 2})
    assert ended["messages"][-1].text.startswith("It is ")
    assert len(ended["refine"]["attempts"]) <= 2
    reviewed = graphs["reviewed"]
    state = await reviewed.ainvoke(question, THREAD)
    assert "__interrupt__" in state
    assert (await reviewed.aget_state(THREAD)).values["status"] == "waiting"
    ended = await reviewed.ainvoke(Command(resume={"answer": "By hand."}), THREAD)
    assert ended["messages"][-1].text == "By hand."


def test_a_server_hands_on_every_setting_of_a_context() -> None:
    """A server drops what is not among a schema's own properties, so the schema has them behind a reference."""
    schema = self_refine(lambda _: "a", lambda response: 4).get_context_jsonschema()
    assert schema is not None
    assert "properties" not in schema
    assert schema["$ref"] == "#/$defs/Overrides"
    assert {"max_attempts", "guidelines"} <= schema["$defs"]["Overrides"]["properties"].keys()
