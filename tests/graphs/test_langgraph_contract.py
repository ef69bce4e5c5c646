"""What LangGraph and LangChain do that `graphs.langgraph_private` relies on, one fact a test.

The graphs here are the smallest that show the fact, none of them ours. Where a test fails after an upgrade, its
name says what the frameworks no longer do.
"""

from __future__ import annotations

import ast
import asyncio
import copy
import importlib
import pickle
import pkgutil
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypedDict, get_args

import langchain_core
import langgraph
import pytest
from langchain.agents import create_agent
from langchain_core._api import LangChainBetaWarning, LangChainDeprecationWarning
from langchain_core.callbacks import (
    AsyncCallbackHandler,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManager,
    StreamingStdOutCallbackHandler,
    UsageMetadataCallbackHandler,
)
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langchain_core.tracers.base import AsyncBaseTracer, BaseTracer
from langchain_core.tracers.context import _configure_hooks, register_configure_hook
from langgraph._internal import _constants
from langgraph._internal._config import DEFAULT_RECURSION_LIMIT
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.config import get_stream_writer
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.func import task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import push_message
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolRuntime
from langgraph.pregel._tools import _tool_call_writer
from langgraph.types import Command, StreamMode, interrupt
from langsmith.run_helpers import _TRACING_ENABLED, tracing_context
from langsmith.utils import tracing_is_enabled
from pydantic import RootModel, ValidationError

from graphs import langchain_private, langgraph_private
from judges.testing import ScriptedModel
from tests.kit import Way, both_ways

Graph = CompiledStateGraph[Any, Any, Any, Any]

ROOT = Path(__file__).resolve().parents[2]
MARK = "Xq7Zdraft"
ASKED: dict[str, Any] = {"shown": "question"}
THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
MODES: tuple[Any, ...] = (*get_args(StreamMode), "tools")
"""Every mode of LangGraph; `tools` is not among the declared ones."""


class Input(TypedDict, total=False):
    """Input of graphs and nodes."""

    shown: str


class State(Input, total=False):
    """State of the graphs: one channel for everybody, one that is hidden."""

    hidden: str


Work = Callable[[RunnableConfig], dict[str, Any] | None]
"""What a node does with its config."""


class Node(Runnable[Any, Any]):
    """A node that works on its config."""

    def __init__(self, work: Work, returned: Any = None) -> None:
        self.name = "node"
        self._work = work
        self._returned = returned

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Work."""
        update = self._work(config or {})
        return update if self._returned is None else self._returned

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Work; nothing blocks."""
        return self.invoke(input, config)


def chain(*steps: Work, entrance: Work | None = None, **settings: Any) -> Graph:
    """Compile a graph of nodes in a row, named 0, 1, ...; `entrance` works on the edge into it."""
    graph = StateGraph(State, input_schema=Input, output_schema=Input)
    for number, step in enumerate(steps):
        graph.add_node(str(number), Node(step), input_schema=Input)
        graph.add_edge(str(number), str(number + 1) if number + 1 < len(steps) else END)
    if entrance is None:
        graph.add_edge(START, "0")
    else:
        graph.add_conditional_edges(START, Node(entrance, "in"), {"in": "0"})
    made: Graph = graph.compile(**settings)
    return made


def around(node: Any, checkpointer: Any = None) -> Graph:
    """Compile a graph around one node, which may be a graph."""
    graph = StateGraph(Input)
    graph.add_node("outer", node)
    graph.add_edge(START, "outer")
    made: Graph = graph.compile(checkpointer=checkpointer)
    return made


def hiding(*steps: Work, **settings: Any) -> Graph:
    """Compile a graph that streams one of its two channels."""
    made = chain(*steps, **settings)
    made.stream_channels = ["shown"]
    return made


def write(value: str) -> Work:
    """Make a node that writes the hidden channel, and the shown one as nodes do."""

    def work(config: RunnableConfig) -> dict[str, Any]:
        langgraph_private.write(config, "hidden", value)
        return {"shown": "answer"}

    return work


def read(into: list[Any]) -> Work:
    """Make a node that notes the value of the hidden channel."""
    return lambda config: into.append(langgraph_private.read(config, "hidden"))


def configs(into: list[RunnableConfig]) -> Work:
    """Make a node that notes its config."""
    return into.append


def config_of_a_node(**settings: Any) -> RunnableConfig:
    """Return the config that a node of a graph receives."""
    seen: list[RunnableConfig] = []
    chain(configs(seen), **settings).invoke(ASKED, THREAD)
    return seen[0]


# Where private names stand


PRIVATE_KEYS = ("__pregel", "checkpoint_")
FRAMEWORKS = ("langchain", "langchain_core", "langgraph")


def private_names(source: str) -> list[str]:
    """List what a module names that is private to LangGraph or LangChain: keys, modules, names and attributes."""
    return [found for node in ast.walk(ast.parse(source)) for found in _private(node)]


def _private(node: ast.AST) -> list[str]:
    match node:
        case ast.Constant(value=str() as text) if text.startswith(PRIVATE_KEYS):
            return [text]
        case ast.ImportFrom(module=str() as module, names=names) if module.split(".")[0] in FRAMEWORKS:
            paths = [f"{module}.{name.name}" for name in names]
        case ast.Import(names=names):
            paths = [name.name for name in names if name.name.split(".")[0] in FRAMEWORKS]
        case ast.Attribute(attr="stream_channels"):
            return ["stream_channels"]
        case _:
            return []
    return [path for path in paths if "._" in path]


def test_private_names_stand_in_two_modules() -> None:
    """No other module of ours names a key, a module or a class that LangGraph or LangChain keep to themselves."""
    files = [file for room in ("graphs", "refine") for file in sorted((ROOT / room).rglob("*.py"))]
    found = {str(file.relative_to(ROOT)): private_names(file.read_text(encoding="utf-8")) for file in files}
    assert found.pop("graphs/langgraph_private.py")
    handlers = found.pop("graphs/langchain_private.py")
    assert handlers
    assert not any(name.startswith(PRIVATE_KEYS) for name in handlers)
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "x['__pregel_read']",
        "x.startswith(('__pregel_', 'y'))",
        "if 'checkpoint_ns' in x: pass",
        "from langchain_core.tracers._streaming import x",
        "from langgraph.pregel import _loop",
        "def f():\n    import langgraph._internal",
        "x.stream_channels = []",
    ],
)
def test_a_private_name_is_found_wherever_it_stands(source: str) -> None:
    """The law above can fail."""
    assert len(private_names(source)) == 1


# Channels


def test_a_node_reads_and_writes_any_channel_through_its_config() -> None:
    """The callables that read and send channels are in the config of a node, whatever its input is limited to."""
    seen: list[Any] = []
    chain(write(MARK), read(seen)).invoke(ASKED)
    assert seen == [MARK]


async def test_a_node_reads_and_writes_any_channel_through_its_config_async() -> None:
    """They are there in the async driver, too."""
    seen: list[Any] = []
    await chain(write(MARK), read(seen)).ainvoke(ASKED)
    assert seen == [MARK]


def test_an_empty_channel_is_read_as_none() -> None:
    """Reading a channel that was never written raises nothing."""
    seen: list[Any] = []
    chain(read(seen)).invoke(ASKED)
    assert seen == [None]


def test_what_is_sent_is_applied_when_the_node_is_done() -> None:
    """The node itself still reads the value from before."""
    seen: list[Any] = []

    def work(config: RunnableConfig) -> None:
        write("second")(config)
        read(seen)(config)

    chain(write("first"), work, read(seen)).invoke(ASKED)
    assert seen == ["first", "second"]


def test_what_is_sent_by_a_node_that_fails_is_not_applied() -> None:
    """After an error the channel has the value from before."""

    def work(config: RunnableConfig) -> None:
        write("second")(config)
        raise ArithmeticError

    saver = InMemorySaver()
    with pytest.raises(ArithmeticError):
        chain(write("first"), work, checkpointer=saver).invoke(ASKED, THREAD)
    assert stored(saver)["hidden"] == "first"


def test_what_is_sent_on_an_edge_is_applied_before_the_node() -> None:
    """A conditional edge receives a config like a node's, and what it sends is there for the node it leads to."""
    seen: list[Any] = []
    chain(read(seen), entrance=write(MARK)).invoke(ASKED)
    assert seen == [MARK]


def stored(saver: InMemorySaver) -> dict[str, Any]:
    """Return the values of the channels in the latest checkpoint."""
    last = saver.get_tuple(THREAD)
    assert last is not None
    return last.checkpoint["channel_values"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_is_sent_is_checkpointed(durability: Any) -> None:
    """A channel that no stream shows is stored like any other."""
    saver = InMemorySaver()
    hiding(write(MARK), checkpointer=saver).invoke(ASKED, THREAD, durability=durability)
    assert stored(saver)["hidden"] == MARK


def test_what_was_sent_is_read_after_an_interrupt() -> None:
    """A resumed graph reads from its checkpoint what was sent before."""
    seen: list[Any] = []
    made = hiding(write(MARK), lambda _: interrupt("?"), read(seen), checkpointer=InMemorySaver())
    made.invoke(ASKED, THREAD)
    assert seen == []
    made.invoke(Command(resume={"shown": "yes"}), THREAD)
    assert seen == [MARK]


# Streams


Seen = list[Any]


def streamed(made: Graph, mode: Any) -> Seen:
    """List what a mode streams."""
    return list(made.stream(ASKED, THREAD, stream_mode=mode))


async def astreamed(made: Graph, mode: Any) -> Seen:
    """List what a mode streams, async."""
    return [part async for part in made.astream(ASKED, THREAD, stream_mode=mode)]


async def streams(make: Callable[[], Graph]) -> dict[str, Seen]:
    """List what every mode streams, sync and async, each of a fresh graph."""
    blocking = {mode: streamed(make(), mode) for mode in MODES}
    return blocking | {f"async {mode}": await astreamed(make(), mode) for mode in MODES}


async def test_no_mode_shows_a_channel_outside_stream_channels() -> None:
    """Neither as a value, nor as a write of a node, nor in a checkpoint; other channels are shown."""
    seen = await streams(lambda: hiding(write(MARK), write(MARK), checkpointer=InMemorySaver()))
    assert [mode for mode, parts in seen.items() if MARK in repr(parts)] == []
    assert {"values", "updates", "debug", "tasks", "checkpoints"} <= {mode for mode in seen if seen[mode]}


async def test_modes_show_a_channel_inside_stream_channels() -> None:
    """The fact above depends on the setting: without it these modes show the channel."""
    seen = await streams(lambda: chain(write(MARK), write(MARK), checkpointer=InMemorySaver()))
    shown = {mode.removeprefix("async ") for mode, parts in seen.items() if MARK in repr(parts)}
    assert {"values", "updates", "debug", "tasks", "checkpoints"} <= shown


def test_no_state_shows_a_channel_outside_stream_channels() -> None:
    """Neither the state of a thread nor its history shows it."""
    made = hiding(write(MARK), write(MARK), checkpointer=InMemorySaver())
    made.invoke(ASKED, THREAD)
    history = list(made.get_state_history(THREAD))
    assert "answer" in repr(history)
    assert MARK not in repr((made.get_state(THREAD), history))


def test_no_output_has_a_channel_outside_the_output_schema() -> None:
    """A graph returns the channels of its output schema."""
    assert chain(write(MARK)).invoke(ASKED) == {"shown": "answer"}


async def test_no_event_shows_what_is_sent() -> None:
    """Events of callbacks show inputs and outputs; what a node sends is neither."""
    made = hiding(write(MARK), write(MARK), entrance=write(MARK))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LangChainBetaWarning)
        seen = [event async for event in made.astream_events(ASKED, version="v2")]
    assert {"on_chain_start", "on_chain_stream", "on_chain_end"} <= {event["event"] for event in seen}
    assert MARK not in repr(seen)


# Keys of a config


def constants(prefix: str) -> dict[str, str]:
    """Return LangGraph's own constants whose names begin with a prefix."""
    return {name: value for name, value in vars(_constants).items() if name.startswith(prefix)}


def test_langgraphs_keys_have_the_known_prefixes() -> None:
    """So removing these removes the surrounding graph; the id of the thread is the caller's."""
    known = langgraph_private._LANGGRAPH_KEYS
    others = [key for key in constants("CONFIG_KEY_").values() if not key.startswith(known)]
    assert others == ["thread_id"]


def test_the_keys_of_a_node_have_the_known_prefixes() -> None:
    """Nothing else of LangGraph's is put into the config of a node."""
    keys = config_of_a_node(checkpointer=InMemorySaver())["configurable"]
    assert [key for key in keys if not key.startswith(langgraph_private._LANGGRAPH_KEYS)] == ["thread_id"]


def test_the_stream_keys_are_all_that_langgraph_has() -> None:
    """A nested graph streams through these keys; an upgrade that adds one is noticed."""
    assert set(constants("CONFIG_KEY_STREAM").values()) == set(langgraph_private._STREAM_KEYS)


NESTED: dict[str, tuple[Callable[[RunnableConfig], RunnableConfig], bool]] = {
    "with the stream keys": (lambda config: config, True),
    "without": (
        lambda config: {
            "configurable": {
                key: value
                for key, value in config["configurable"].items()
                if key not in langgraph_private._STREAM_KEYS
            }
        },
        False,
    ),
}


@both_ways
@pytest.mark.parametrize("kind", NESTED)
async def test_a_nested_graph_streams_through_the_stream_keys(kind: str, way: Way) -> None:
    """With the keys in its config it feeds the streams of the surrounding graph, without them none."""
    change, heard = NESTED[kind]
    inner = chain(lambda _: {"shown": MARK}, lambda _: {"shown": "answer"})

    class Outer(Node):
        async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
            return await inner.ainvoke(ASKED, change(config or {}))

    made = around(Outer(lambda config: inner.invoke(ASKED, change(config))))
    modes: Any = ["values", "updates", "debug", "tasks", "checkpoints"]
    if way == "sync":
        seen = list(made.stream(ASKED, stream_mode=modes, subgraphs=True))
    else:
        seen = [part async for part in made.astream(ASKED, stream_mode=modes, subgraphs=True)]
    assert (MARK in repr(seen)) is heard


@pytest.mark.parametrize(
    ("outer", "inner"),
    [(False, None), (True, None), (False, True), (True, True), (True, False)],
    ids=["none", "inherited", "of the inner graph alone", "of both", "declined"],
)
def test_a_checkpointer_that_stores_what_a_node_writes_is_in_its_config(outer: bool, inner: bool | None) -> None:  # noqa: FBT001 - parameters
    """A nested graph has that of the surrounding one or none, whatever it was compiled with."""
    seen: list[RunnableConfig] = []
    savers = [InMemorySaver(), InMemorySaver()]
    nested = chain(configs(seen), checkpointer=savers[1] if inner else inner)
    around(nested, savers[0] if outer else None).invoke(ASKED, THREAD)
    namespaces = [one.config["configurable"]["checkpoint_ns"] for saver in savers for one in saver.list(None)]
    assert langgraph_private.has_checkpointer(seen[0]) is outer
    assert outer or not any(namespaces)


@pytest.mark.parametrize("saver", [None, InMemorySaver()], ids=["none", "own"])
def test_a_checkpointer_is_in_the_config_of_a_node_where_there_is_one(saver: InMemorySaver | None) -> None:
    """The key is there without one, and holds nothing then."""
    assert langgraph_private.has_checkpointer(config_of_a_node(checkpointer=saver)) is (saver is not None)


# The runtime and its writer


def runtime_of(config: RunnableConfig) -> Any:
    """Return the runtime of a node."""
    return config["configurable"][langgraph_private._RUNTIME]


def test_the_runtime_of_a_node_writes_to_the_custom_stream() -> None:
    """The runtime in the config of a node has the writer of the graph's stream."""
    made = chain(lambda config: runtime_of(config).stream_writer("told"))
    assert list(made.stream(ASKED, stream_mode="custom")) == ["told"]


def test_where_nobody_streams_the_writer_closes_over_nothing() -> None:
    """The writer of a graph that is invoked, or streamed in another mode, counts as none."""
    writers: list[Any] = []
    made = chain(lambda config: writers.append(langgraph_private.writer(config)))
    made.invoke(ASKED)
    list(made.stream(ASKED, stream_mode="updates"))
    asyncio.run(made.ainvoke(ASKED))
    assert writers == [None] * 3
    list(made.stream(ASKED, stream_mode="custom"))
    list(made.stream(ASKED, stream_mode=["values", "custom"]))
    assert all(map(callable, writers[3:]))


def test_an_overridden_writer_takes_the_streams_place() -> None:
    """What is called with the changed runtime writes to the new writer; the node's own runtime stays."""
    events: list[Any] = []

    def work(config: RunnableConfig) -> None:
        runtime = runtime_of(config).override(stream_writer=events.append)
        with langchain_private.use_config({"configurable": {langgraph_private._RUNTIME: runtime}}):
            get_stream_writer()("inside")
        runtime_of(config).stream_writer("outside")

    assert list(chain(work).stream(ASKED, stream_mode="custom")) == ["outside"]
    assert events == ["inside"]


def test_a_nested_graph_without_stream_keys_writes_to_nobody() -> None:
    """With them its nodes write to the custom stream of the surrounding graph, without them to none."""
    inner = chain(lambda config: runtime_of(config).stream_writer("told"))

    def work(config: RunnableConfig) -> None:
        with langchain_private.use_config({"configurable": {langgraph_private._RUNTIME: runtime_of(config)}}):
            inner.invoke(ASKED)

    assert len(list(around(inner).stream(ASKED, stream_mode="custom", subgraphs=True))) == 1
    assert list(chain(work).stream(ASKED, stream_mode="custom", subgraphs=True)) == []


async def test_a_run_without_a_custom_stream_has_a_writer_that_holds_nothing() -> None:
    """So it is known that nobody reads; with a custom stream, here or around, the writer is known as one."""
    known: list[bool] = []

    def work(config: RunnableConfig) -> None:
        known.append(langgraph_private.writer(config) is None)

    graph = chain(work)
    graph.invoke(ASKED)
    await graph.ainvoke(ASKED)
    list(graph.stream(ASKED, stream_mode=["updates", "messages", "values"]))
    around(graph).invoke(ASKED)
    assert known == [True] * 4
    known.clear()
    list(graph.stream(ASKED, stream_mode=["custom"]))
    assert [part async for part in graph.astream(ASKED, stream_mode="custom")] == []
    list(around(graph).stream(ASKED, stream_mode="custom", subgraphs=True))
    assert known == [False] * 3


# Callbacks


def test_callbacks_of_a_node_are_a_manager() -> None:
    """The config of a node has a manager that lists the handlers the graph was called with."""
    handler, seen = BaseCallbackHandler(), list[RunnableConfig]()
    chain(configs(seen)).invoke(ASKED, {"callbacks": [handler]})
    assert isinstance(seen[0]["callbacks"], BaseCallbackManager)
    assert seen[0]["callbacks"].handlers == [handler]


def test_a_handler_is_removed_from_the_copy_of_a_manager() -> None:
    """The copy keeps the run it belongs to, tags and other handlers; the manager it was copied from keeps all."""
    one, other = BaseCallbackHandler(), BaseCallbackHandler()
    manager = CallbackManager([one, other], [one, other], tags=["t"], inheritable_tags=["t"])
    copy = manager.copy()
    copy.remove_handler(one)
    assert (copy.handlers, copy.inheritable_handlers) == ([other], [other])
    assert (copy.parent_run_id, copy.tags) == (manager.parent_run_id, ["t"])
    assert (manager.handlers, manager.inheritable_handlers) == ([one, other], [one, other])


class Names(BaseCallbackHandler):
    """Notes the names of the runs that begin."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_chain_start(self, *_: Any, **kwargs: Any) -> None:
        """Note a name."""
        self.heard.append(kwargs["name"])


def test_a_graph_adds_inherited_callbacks_to_those_of_its_config() -> None:
    """So a config without handlers alone does not mute a graph."""
    names, inner = Names(), chain(lambda _: None, name="inner")
    muted: RunnableConfig = {"callbacks": CallbackManager([])}
    chain(lambda _: inner.invoke(ASKED, muted), name="outer").invoke(ASKED, {"callbacks": [names]})
    assert "inner" in names.heard


def test_a_graph_inherits_what_the_context_variable_holds() -> None:
    """A config set there, without handlers, does mute a graph."""
    names, inner = Names(), chain(lambda _: None, name="inner")

    def work(_: RunnableConfig) -> None:
        with langchain_private.use_config({"configurable": {}}):
            inner.invoke(ASKED)

    chain(work, name="outer").invoke(ASKED, {"callbacks": [names]})
    assert "outer" in names.heard
    assert "inner" not in names.heard


async def _drained(parts: AsyncIterator[Any]) -> None:
    async for _ in parts:
        pass


async def _drained_v3(made: Graph) -> None:
    run = await made.astream_events(ASKED, version="v3")
    await _drained(aiter(run))


DOORS: dict[str, Callable[[Graph], list[Any]] | Callable[[Graph], Awaitable[None]]] = {
    "messages": lambda made: list(made.stream(ASKED, stream_mode="messages")),
    "async messages": lambda made: _drained(made.astream(ASKED, stream_mode="messages")),
    "tools": lambda made: streamed(made, "tools"),
    "events v1": lambda made: _drained(made.astream_events(ASKED, version="v1")),
    "events v2": lambda made: _drained(made.astream_events(ASKED, version="v2")),
    "events v3": lambda made: list(made.stream_events(ASKED, version="v3")),
    "async events v3": _drained_v3,
    "log": lambda made: _drained(made.astream_log(ASKED)),
}
"""The streams that are fed by a callback handler."""


@pytest.mark.filterwarnings(
    f"ignore::{LangChainBetaWarning.__module__}.{LangChainBetaWarning.__name__}",
    f"ignore::{LangChainDeprecationWarning.__module__}.{LangChainDeprecationWarning.__name__}",
)
@pytest.mark.parametrize("door", DOORS)
async def test_the_handlers_that_a_stream_adds_are_known_as_streams(door: str) -> None:
    """Each of these streams is fed by handlers in the config of a node, and all of them are muted."""
    seen: list[RunnableConfig] = []
    opened = DOORS[door](chain(configs(seen)))
    if not isinstance(opened, list):
        await opened
    handlers = langchain_private.listeners(seen[0])
    assert handlers
    assert [handler for handler in handlers if not langchain_private.feeds_stream(handler)] == []


HANDLERS: dict[str, Literal["stream", "tracer"]] = {
    "langchain_core.callbacks.base.AsyncCallbackHandler": "tracer",
    "langchain_core.callbacks.base.BaseCallbackHandler": "tracer",
    "langchain_core.callbacks.file.FileCallbackHandler": "tracer",
    "langchain_core.callbacks.stdout.StdOutCallbackHandler": "tracer",
    "langchain_core.callbacks.streaming_stdout.StreamingStdOutCallbackHandler": "stream",
    "langchain_core.callbacks.usage.UsageMetadataCallbackHandler": "tracer",
    "langchain_core.tracers.base.AsyncBaseTracer": "tracer",
    "langchain_core.tracers.base.BaseTracer": "tracer",
    "langchain_core.tracers.evaluation.EvaluatorCallbackHandler": "tracer",
    "langchain_core.tracers.event_stream._AstreamEventsCallbackHandler": "stream",
    "langchain_core.tracers.langchain.LangChainTracer": "tracer",
    "langchain_core.tracers.log_stream.LogStreamCallbackHandler": "stream",
    "langchain_core.tracers.root_listeners.AsyncRootListenersTracer": "tracer",
    "langchain_core.tracers.root_listeners.RootListenersTracer": "tracer",
    "langchain_core.tracers.run_collector.RunCollectorCallbackHandler": "tracer",
    "langchain_core.tracers.stdout.ConsoleCallbackHandler": "tracer",
    "langchain_core.tracers.stdout.FunctionCallbackHandler": "tracer",
    "langgraph.callbacks.GraphCallbackHandler": "tracer",
    "langgraph.pregel._messages.StreamMessagesHandler": "stream",
    "langgraph.pregel._messages.StreamMessagesHandlerV2": "stream",
    "langgraph.pregel._retry._IdleProgressCallbackHandler": "tracer",
    "langgraph.pregel._tools.StreamToolCallHandler": "stream",
}
"""What every callback handler of the frameworks is. A new one is muted until it is entered here and, if it shows a
client nothing, among the observers of `langgraph_private`."""


def handlers_of(package: ModuleType) -> dict[str, type]:
    """Return all classes of callback handlers in a package, by their full names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):  # an extra of the package
                importlib.import_module(module.name)
    found = {f"{kind.__module__}.{kind.__qualname__}": kind for kind in below(BaseCallbackHandler)}
    return {
        name: kind
        for name, kind in found.items()
        if name.startswith(f"{package.__name__}.") and kind.__module__ in sys.modules
    }


def below(kind: type[Any]) -> Iterator[type[Any]]:
    """Yield a class and all classes derived from it."""
    yield kind
    for derived in kind.__subclasses__():
        yield from below(derived)


def test_every_handler_of_the_frameworks_is_known() -> None:
    """Each is classified as the table says, and the table knows each."""
    found = handlers_of(langchain_core) | handlers_of(langgraph)
    given = {name: langchain_private._class_feeds_stream(kind) for name, kind in found.items()}
    wrong = {name: stream for name, stream in given.items() if HANDLERS.get(name) != ("tracer", "stream")[stream]}
    assert wrong == {}
    assert len(found) > 15


class Own(BaseCallbackHandler):
    """A handler of the user's own."""


class OwnAsync(AsyncCallbackHandler):
    """An async one."""


class OwnTracer(BaseTracer):
    """A tracer."""

    def _persist_run(self, run: Any) -> None: ...


class OwnAsyncTracer(AsyncBaseTracer):
    """An async one."""

    async def _persist_run(self, run: Any) -> None: ...


class OwnUsage(Own, UsageMetadataCallbackHandler):
    """An observer, by a class of the user's own."""


class Printing(StreamingStdOutCallbackHandler):
    """A handler that prints every token."""


class Tapping(Own, _StreamingCallbackHandler[Any]):
    """A stream by its mixin, behind a class that is none."""

    def tap_output_aiter(self, run_id: Any, output: Any) -> Any:
        """Do nothing."""

    def tap_output_iter(self, run_id: Any, output: Any) -> Any:
        """Do nothing."""


class TappingTracer(OwnTracer, Tapping):
    """A tracer that is a stream, as that of the log is."""


class Later(BaseCallbackHandler):
    """A handler that the frameworks may have one day."""

    __module__ = "langgraph.pregel._later"


class LaterTracer(BaseTracer):
    """A tracer of theirs."""

    __module__ = "langchain_core.tracers.later"

    def _persist_run(self, run: Any) -> None: ...


class Elsewhere(AsyncCallbackHandler):
    """A stream of another package, as LangChain's older ones are."""

    __module__ = "langchain_classic.callbacks.streaming_aiter"


class Shapeless:
    """An object that is no callback handler."""


@pytest.mark.parametrize("kind", [Own, OwnAsync, OwnTracer, OwnAsyncTracer, OwnUsage, LaterTracer])
def test_what_keeps_what_it_hears_is_a_tracer(kind: type) -> None:
    """A handler of the user's own, and every tracer."""
    assert not langchain_private._class_feeds_stream(kind)


@pytest.mark.parametrize(
    "kind",
    [
        Printing,
        type("PrintingTracer", (Printing, OwnTracer), {}),
        Tapping,
        TappingTracer,
        Later,
        type("MineOfLater", (Later,), {}),
        Elsewhere,
        Shapeless,
    ],
)
def test_what_may_show_what_it_hears_is_a_stream(kind: type) -> None:
    """Every stream, what is derived from one, and whatever is not known."""
    assert langchain_private._class_feeds_stream(kind)


# Ways around the callbacks


def test_langchain_adds_handlers_of_context_variables_to_every_run() -> None:
    """The registered variables stand in one list; a handler put into one hears runs without being in a config."""
    variable: ContextVar[Any] = ContextVar("variable", default=None)
    hooks, names = [*_configure_hooks], Names()
    register_configure_hook(variable, inheritable=True)
    try:
        assert [hook for hook in _configure_hooks if hook not in hooks] == [(variable, True, None, None)]
        token = variable.set(names)
        chain(lambda _: None, name="heard").invoke(ASKED)
        variable.reset(token)
    finally:
        _configure_hooks[:] = hooks
    assert "heard" in names.heard


def test_langsmith_reads_of_its_context_whether_tracing_is_switched() -> None:
    """`tracing_is_enabled` takes a context, of which it reads `enabled` alone, the variable's value."""
    for switched in (True, False):
        with tracing_context(enabled=switched):
            assert _TRACING_ENABLED.get() is switched
        assert tracing_is_enabled({"enabled": switched}) is switched
    assert tracing_is_enabled({"enabled": None}) == tracing_is_enabled()


def test_the_writer_of_a_tools_output_is_a_context_variable() -> None:
    """What a tool emits goes to the writer that the variable holds, whichever tool set it."""
    emitted: list[Any] = []
    runtime: ToolRuntime[Any, Any] = ToolRuntime({}, None, {}, lambda _: None, None, None)
    token = _tool_call_writer.set(emitted.append)
    runtime.emit_output_delta("heard")
    _tool_call_writer.reset(token)
    runtime.emit_output_delta("not heard")
    assert emitted == ["heard"]


def test_a_node_pushes_messages_through_its_config() -> None:
    """`push_message` writes through the function that nodes write with, and reads callbacks and metadata."""
    sent: list[Any] = []
    config: Any = {"callbacks": [], "metadata": {}, "configurable": {"__pregel_send": sent.extend}}
    with langchain_private.use_config(config):
        push_message(AIMessage("pushed", id="1"))
    assert [(channel, message.text) for channel, message in sent] == [("messages", "pushed")]


def test_a_task_is_called_through_the_config() -> None:
    """A task is handed, with its arguments, to a function of the config that returns a future."""
    calls: list[Any] = []

    def call(function: Callable[..., Any], arguments: Any, **_: Any) -> Any:
        calls.append(arguments)
        return function(*arguments[0], **arguments[1])

    config: Any = {"callbacks": [], "configurable": {"__pregel_call": call}}
    with langchain_private.use_config(config):
        result: object = double(2, by=3)
    assert result == 6
    assert calls == [((2,), {"by": 3})]


@task
def double(number: int, by: int) -> int:
    """Multiply."""
    return number * by


# Interrupts


def test_an_interrupt_is_known_by_its_class() -> None:
    """`interrupt` raises what must not be taken for a failure of the generator, and is an ordinary exception."""
    caught: list[Exception] = []

    def work(_: RunnableConfig) -> None:
        try:
            interrupt("?")
        except Exception as error:
            caught.append(error)
            raise

    chain(work, checkpointer=InMemorySaver()).invoke(ASKED, THREAD)
    assert [isinstance(error, GraphInterrupt) for error in caught] == [True]
    assert issubclass(GraphInterrupt, GraphBubbleUp)


def test_an_interrupted_graph_says_so_in_its_output() -> None:
    """What waits for a human is distinguished from an answer by a key of the output."""
    output = chain(lambda _: interrupt("?"), checkpointer=InMemorySaver()).invoke(ASKED, THREAD)
    assert [one.value for one in output["__interrupt__"]] == ["?"]


def test_a_decision_that_does_not_fit_may_be_given_anew() -> None:
    """A decision is checked against its schema before it is stored, so that a mistyped one does not stay."""
    decisions: list[Any] = []

    class Decision(RootModel[Literal["yes", "no"]]):
        pass

    made = chain(
        lambda _: decisions.append(interrupt("?", response_schema=Decision)), checkpointer=InMemorySaver()
    )
    made.invoke(ASKED, THREAD)
    with pytest.raises(ValidationError):
        made.invoke(Command(resume="yse"), THREAD)
    made.invoke(Command(resume="yes"), THREAD)
    assert [decision.root for decision in decisions] == ["yes"]


def test_a_node_knows_the_checkpoint_that_it_continues() -> None:
    """The config of a node of an outermost graph names the checkpointer, and the newest checkpoint as its own."""
    seen: list[RunnableConfig] = []
    saver = InMemorySaver()
    newest: list[str] = []

    def note(config: RunnableConfig) -> None:
        seen.append(config)
        newest.extend(stored.checkpoint["id"] for stored in [saver.get_tuple(THREAD)] if stored is not None)

    chain(note, note, checkpointer=saver).invoke(ASKED, THREAD, durability="sync")
    positions = [langgraph_private.checkpoint_of(config) for config in seen]
    assert [position and position.checkpoint_id for position in positions] == newest
    assert newest == sorted(set(newest))
    assert all(position is not None and position.checkpointer is saver for position in positions)
    assert {position.thread_id for position in positions if position is not None} == {"1"}


@pytest.mark.parametrize(("durability", "stored"), [("sync", True), ("async", True), ("exit", False)])
def test_a_node_knows_whether_steps_are_stored(durability: Any, stored: bool) -> None:  # noqa: FBT001 - a case
    """The config of a node shows how soon LangGraph stores what the node did."""
    seen: list[RunnableConfig] = []
    chain(configs(seen), checkpointer=InMemorySaver()).invoke(ASKED, THREAD, durability=durability)
    assert [langgraph_private.stores_steps(config) for config in seen] == [stored]


def test_a_durability_that_was_set_holds_inside_too() -> None:
    """A graph inside another finds it in its config, and finds none where nobody set one."""
    for durability in (None, "sync", "async", "exit"):
        seen: list[RunnableConfig] = []
        outer = around(chain(configs(seen)), InMemorySaver())
        outer.invoke(ASKED, THREAD, durability=durability)
        lacks = [langgraph_private.lacks_durability({}, config, None) for config in seen]
        assert lacks == [durability is None]
    for name in langgraph_private._DURABILITY_SETTINGS:
        assert not langgraph_private.lacks_durability({name: True}, THREAD, InMemorySaver())


def test_a_durability_without_a_checkpointer_is_warned_of() -> None:
    """So it is set only where a checkpointer is in the config, or else the graph has one of its own."""
    with pytest.warns(UserWarning, match="no effect when no checkpointer is present"):
        chain(write(MARK)).invoke(ASKED, durability="async")
    for none in (None, False):
        assert not langgraph_private.lacks_durability({}, {}, none)
    assert langgraph_private.lacks_durability({}, THREAD, InMemorySaver())


def test_a_graph_that_is_not_saved_fails_if_it_inherits_a_durability() -> None:
    """So what runs inside the loop does not inherit the loop's; an upgrade that mends this is noticed."""
    outer = around(chain(write(MARK), checkpointer=False), InMemorySaver())
    with pytest.raises(AttributeError, match="_put_checkpoint_fut"):
        outer.invoke(ASKED, THREAD, durability="sync")
    assert outer.invoke(ASKED, THREAD)["shown"] == "answer"


def test_a_node_knows_the_context_of_the_run() -> None:
    """A graph inside another has the context of the one around, unless it was given one of its own."""
    seen: list[RunnableConfig] = []
    inner = chain(configs(seen))
    around(inner).invoke(ASKED, context={"user": "1"})
    inner.invoke(ASKED)
    around(Node(lambda config: inner.invoke(ASKED, config, context="own"))).invoke(ASKED, context={"user": "1"})
    assert [langgraph_private.context_of(config) for config in seen] == [{"user": "1"}, None, "own"]


def test_what_we_put_into_a_config_is_not_stored() -> None:
    """Keys that begin with two underscores reach the nodes, but not the metadata of a checkpoint."""
    saver, seen = InMemorySaver(), list[RunnableConfig]()
    config = langgraph_private.carry(THREAD, langgraph_private.OVERRIDES, MARK)
    chain(configs(seen), checkpointer=saver).invoke(ASKED, config)
    assert [langgraph_private.carried(config, langgraph_private.OVERRIDES) for config in seen] == [MARK]
    assert MARK not in repr(list(saver.list(THREAD)))


def test_a_graph_inside_another_has_no_checkpoint_or_thread_of_its_own() -> None:
    """A node's config shows whether its graph is part of another, whose task it then is."""
    seen: list[RunnableConfig] = []
    around(chain(configs(seen)), InMemorySaver()).invoke(ASKED, THREAD)
    (config,) = seen
    assert langgraph_private.checkpoint_of(config) is None
    assert langgraph_private.thread_of(config, InMemorySaver()) is None


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_of_two_writes_of_one_task_a_checkpointer_keeps_the_first(kind: str) -> None:
    """A claim that is stored as a task's write belongs to whoever stored it first."""
    with ExitStack() as stack:
        saver: Any = (
            InMemorySaver() if kind == "memory" else stack.enter_context(SqliteSaver.from_conn_string(":memory:"))
        )
        chain(read([]), checkpointer=saver).invoke(ASKED, THREAD)
        newest = saver.get_tuple(THREAD).config
        for claim in ("first", "second"):
            saver.put_writes(newest, [("claim", claim)], "claim")
        assert ("claim", "claim", "first") in saver.get_tuple(newest).pending_writes
        assert "second" not in str(saver.get_tuple(newest).pending_writes)


def test_all_ways_to_run_a_graph_come_down_to_stream_and_astream() -> None:
    """A graph of a class that overrides the two runs through them, whatever it is called by."""
    used: list[str] = []

    class Watched(CompiledStateGraph[Any, Any, Any, Any]):
        def stream(self, *arguments: Any, **settings: Any) -> Iterator[Any]:
            used.append("stream")
            yield from super().stream(*arguments, **settings)

        async def astream(self, *arguments: Any, **settings: Any) -> AsyncIterator[Any]:
            used.append("astream")
            async for chunk in super().astream(*arguments, **settings):
                yield chunk

    graph = chain(read([]))
    watched = Watched(**vars(graph))

    async def run() -> None:
        await watched.ainvoke(ASKED)
        async for _ in watched.astream_events(ASKED, version="v2"):
            pass

    watched.invoke(ASKED)
    watched.batch([ASKED])
    asyncio.run(run())
    assert used == ["stream", "stream", "astream", "astream"]


# Step limits


def test_the_step_limits_that_nobody_set_are_known() -> None:
    """A runnable fills in LangChain's, a graph LangGraph's or none, and an agent binds one of its own."""
    limits: list[int] = []

    def work(_: Any, config: RunnableConfig) -> None:
        limits.append(config["recursion_limit"])

    RunnableLambda(work).invoke(0)
    chain(lambda config: limits.append(config.get("recursion_limit", DEFAULT_RECURSION_LIMIT))).invoke(ASKED)
    agent = create_agent(ScriptedModel([""]))
    limits.append((agent.config or {})["recursion_limit"])
    assert frozenset(limits) == langgraph_private._DEFAULT_STEP_LIMITS


def test_a_step_limit_in_the_config_of_a_call_outweighs_the_bound_one() -> None:
    """One that is inherited does not; so what nobody set must not be in the config of a call."""
    limits: list[int] = []
    bound = chain(lambda config: limits.append(config["recursion_limit"])).with_config(recursion_limit=50)
    with langchain_private.use_config({"recursion_limit": 40}):
        bound.invoke(ASKED, {"recursion_limit": 30})
        bound.invoke(ASKED)
    assert limits == [30, 50]


def test_fields_that_one_may_guess_are_in_no_copy_of_a_message() -> None:
    """The answer says what to use instead, and is a message like any other: equal, copied, stored and changed."""
    plain = AIMessage("Hello", id="1")
    answer = langchain_private.with_hints(plain.model_copy())
    with pytest.raises(AttributeError, match=r"refine\(question\) returns the record"):
        _ = answer.rating  # type: ignore[attr-defined]  # the guess
    with pytest.raises(AttributeError, match=r"has no attribute 'xyzzy'$"):
        _ = answer.xyzzy  # type: ignore[attr-defined]  # as above
    copies = [answer, answer.model_copy(), copy.copy(answer), copy.deepcopy(answer)]
    pickled = pickle.loads(pickle.dumps(answer))  # noqa: S301 - our own
    copies += [pickled, AIMessage(**answer.model_dump())]
    assert copies == [plain] * 6
    assert [(repr(one), one.model_dump_json()) for one in copies] == [(repr(plain), plain.model_dump_json())] * 6
    assert b"Guesses" not in pickle.dumps(answer)
    assert not hasattr(answer, "rating")
    answer.rating = 4  # type: ignore[attr-defined]  # as messages allow
    assert answer.rating == answer.model_dump()["rating"] == 4  # type: ignore[attr-defined]  # as above


def test_a_value_is_handed_to_a_later_question_and_the_run_says_how_it_was_resumed() -> None:
    """The value stays until the step ends, and no question asks twice for it; the loop of a run has its input."""
    resumed: list[bool] = []

    def ask(config: RunnableConfig) -> dict[str, str]:
        resumed.append(langgraph_private._is_resumed_by_command(config["configurable"]))
        return {"shown": " ".join(str(interrupt(number)) for number in range(3))}

    graph = around(chain(ask), InMemorySaver())
    graph.invoke(ASKED, THREAD)
    decisions: list[Command[Any] | None] = [Command(resume="a"), None]
    for decision in decisions:
        waiting = graph.invoke(decision, THREAD)["__interrupt__"]
    assert waiting[0].value == 2
    graph.invoke(Command(resume={waiting[0].id: "b"}), THREAD)
    assert graph.get_state(THREAD).values["shown"] == "a a b"
    assert resumed == [False, True, False, True]


def test_the_question_is_read_while_interrupt_puts_it() -> None:
    """It is the variable `value` of `interrupt`, whose frame is there while it asks for an answer."""
    assert interrupt.__code__.co_varnames[0] == "value"
    assert "get_null_resume" in interrupt.__code__.co_names
