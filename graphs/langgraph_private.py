"""The hidden channel of the loop's state, and the muted configuration for calls inside a node.

Every input and output of a node is visible in some stream: `updates`, `values`, `debug`, `tasks`, or the events of
callbacks. Drafts are therefore neither input nor output: nodes read and write the channel `refinement` through the
functions that LangGraph puts into a node's config for its own readers and writers. The channel is checkpointed
like any other, but left out of what the graph streams and returns. Tests check this for every stream mode.

No other module of `graphs` or `refine` names anything private of LangGraph or LangChain. What is relied on here is
stated, fact by fact, in `tests/graphs/test_langgraph_contract.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import uuid4

from langchain_core.callbacks import (
    AsyncCallbackHandler,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManager,
    Callbacks,
    FileCallbackHandler,
    StdOutCallbackHandler,
    UsageMetadataCallbackHandler,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import DEFAULT_RECURSION_LIMIT as LANGCHAIN_LIMIT
from langchain_core.runnables.config import (
    ensure_config,
    var_child_runnable_config,
)
from langchain_core.tracers._streaming import _StreamingCallbackHandler  # the mixin of all stream handlers
from langchain_core.tracers.base import AsyncBaseTracer, BaseTracer
from langchain_core.tracers.context import _configure_hooks
from langchain_core.utils.env import env_var_is_set
from langgraph._internal._config import DEFAULT_RECURSION_LIMIT as LANGGRAPH_LIMIT
from langgraph._internal._config import recast_checkpoint_ns
from langgraph.callbacks import GraphCallbackHandler
from langgraph.errors import ParentCommand
from langgraph.pregel import Pregel
from langgraph.pregel._tools import _tool_call_writer
from langgraph.types import Command

from graphs.muting import run_task, without_tokens
from judges.errors import ConfigurationError
from judges.models.providers.llm_runs import is_observed

T = TypeVar("T")

RECORD = "refinement"
"""The hidden channel: the record of the refinement, drafts included."""

SUMMARY = "refine"
"""The visible channel: a summary of the record without any rejected text."""

STATUS = "status"
"""Another visible channel: whether the turn is running, waiting for a human, or done."""

_READ, _SEND, _CHECKPOINTER = "__pregel_read", "__pregel_send", "__pregel_checkpointer"
_DURABILITY, _SCRATCHPAD = "__pregel_durability", "__pregel_scratchpad"
_TASK, _POSITIONS = "__pregel_task_id", ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
_RUNTIME, _PROGRESS, _STEP_LIMIT = "__pregel_runtime", "__refine_progress", "__refine_step_limit"
_CALL, _RESUME = "__pregel_call", "__resume__"
_SILENCED, _DECISION, _OVERRIDES = "__refine_silenced", "__refine_decision", "__refine_overrides"
_RECORDS = "__refine_records"
_DURABILITY_SETTINGS = ("durability", "checkpoint_during")
"""Arguments of a run that say how soon it saves; the second one is deprecated."""

_LANGGRAPH_KEYS = ("__pregel_", "checkpoint_")
_OUTER_DURABILITY = "__refine_durability"
_OWN_KEYS = (_PROGRESS, _STEP_LIMIT, _DECISION, _OVERRIDES, _OUTER_DURABILITY, _RECORDS)
_GRAPH_KEYS = (*_LANGGRAPH_KEYS, *_OWN_KEYS)
_STREAM_KEYS = ("__pregel_stream", "__pregel_stream_messages_v2")

_DEFAULT_STEP_LIMITS = frozenset({LANGCHAIN_LIMIT, int(LANGGRAPH_LIMIT), 9_999})
"""Step limits that nobody asked for: LangChain's, LangGraph's, and the one that `create_agent` binds."""

_UNLIMITED_STEPS = 1_000_000_000
"""The step limit of the loop's own graph, which ends by itself."""

_OBSERVERS = frozenset(
    {
        AsyncCallbackHandler,
        BaseCallbackHandler,
        FileCallbackHandler,
        GraphCallbackHandler,
        StdOutCallbackHandler,
        UsageMetadataCallbackHandler,
    }
)
"""Handlers of the frameworks that are no tracers and yet show a client nothing, and the bases of users' own."""

_IDLE_CLOCK = "langgraph.pregel._retry._IdleProgressCallbackHandler"
"""Another one, in a private module: it restarts the clock of a node's idle timeout."""

_PREGEL = "langgraph.pregel.main"
"""The module of the functions by which a run writes to its custom stream."""


def hide_record(graph: Pregel[Any, Any, Any, Any]) -> None:
    """Leave the record out of everything that a compiled graph streams, returns or shows of its state."""
    graph.stream_channels = ["messages", SUMMARY, STATUS]


def read(config: RunnableConfig, channel: str) -> Any:
    """Return the value of a channel from inside a node; None if it is empty."""
    return config["configurable"][_READ]([channel]).get(channel)


def write(config: RunnableConfig, channel: str, value: object) -> None:
    """Write a channel from inside a node; LangGraph applies and stores the value when the node is done."""
    config["configurable"][_SEND]([(channel, value)])


def has_checkpointer(config: RunnableConfig) -> bool:
    """Check whether there is a checkpointer, so that written values must be plain data."""
    return config.get("configurable", {}).get(_CHECKPOINTER) is not None


class Position(NamedTuple):
    """The checkpoint that a node continues: the ids of its thread and its own."""

    checkpointer: Any
    thread_id: str
    checkpoint_id: str

    @property
    def newest(self) -> RunnableConfig:
        """The config that addresses the newest checkpoint of the thread."""
        return {"configurable": {"thread_id": self.thread_id, "checkpoint_ns": ""}}

    @property
    def own(self) -> RunnableConfig:
        """The config that addresses the checkpoint itself."""
        return {"configurable": {**self.newest["configurable"], "checkpoint_id": self.checkpoint_id}}


def checkpoint_of(config: RunnableConfig) -> Position | None:
    """Return what a node of an outermost graph continues.

    None means that there is no checkpointer, or that the graph is part of another one.
    """
    configurable = config.get("configurable", {})
    checkpointer, checkpoint_id = configurable.get(_CHECKPOINTER), configurable.get("checkpoint_map", {}).get("")
    if checkpointer is None or checkpoint_id is None or "|" in configurable.get("checkpoint_ns", ""):
        return None
    return Position(checkpointer, str(configurable.get("thread_id")), checkpoint_id)


def stores_steps(config: RunnableConfig) -> bool:
    """Check whether each step of a graph is stored as it ends, and not all of them when the graph does."""
    return config.get("configurable", {}).get(_DURABILITY) != "exit"


def lacks_durability(settings: Mapping[str, Any], config: RunnableConfig, checkpointer: object) -> bool:
    """Check whether a run has a checkpointer, and nobody said how soon it is to save.

    What a run of the graph around was told holds for the graphs inside it, too.

    Args:
        settings: What the run was given beside its input and config.
        config: The config of the run, merged with the graph's own.
        checkpointer: The graph's own checkpointer.
    """
    configurable = _configurable_of(config)
    if checkpointer is False or not configurable.get(_CHECKPOINTER, checkpointer):
        return False
    return _DURABILITY not in configurable and all(settings.get(name) is None for name in _DURABILITY_SETTINGS)


def names_a_checkpoint(config: RunnableConfig) -> bool:
    """Check whether a run begins at a checkpoint of its own choice, and not at the newest one of its thread."""
    return "checkpoint_id" in _configurable_of(config)


def with_overrides(config: RunnableConfig | None, overrides: object) -> RunnableConfig:
    """Return the config of a run that carries what its request overrides; None carries nothing."""
    if overrides is None:
        return config or {}
    configurable = (config or {}).get("configurable") or {}
    return {**(config or {}), "configurable": {**configurable, _OVERRIDES: overrides}}


def overrides_of(config: RunnableConfig) -> Any:
    """Return what the request of a run overrides; None where it overrides nothing."""
    return config.get("configurable", {}).get(_OVERRIDES)


def context_of(config: RunnableConfig) -> Any:
    """Return the runtime context of the graph that a node is part of, or of one around it; None without one."""
    return getattr(config.get("configurable", {}).get(_RUNTIME), "context", None)


def thread_of(config: RunnableConfig, checkpointer: object) -> Hashable:
    """Return what identifies, in this process, the thread on which an outermost graph is about to run.

    None means that it has none: there is no checkpointer, or the graph is part of another one, whose thread it is.
    A config that names a thread is not part of the surrounding graph, as LangGraph sees it.

    Args:
        config: The config of the run, merged with the graph's own.
        checkpointer: The graph's own checkpointer.
    """
    configurable = _configurable_of(config)
    saver, thread_id = configurable.get(_CHECKPOINTER, checkpointer), configurable.get("thread_id")
    if not saver or isinstance(saver, bool) or thread_id is None or _TASK in configurable:
        return None
    return os.getpid(), id(saver), str(thread_id)


def _configurable_of(config: RunnableConfig) -> dict[str, Any]:
    """Return the settings of a graph about to run, with those of a graph around unless it names a thread."""
    configurable = config.get("configurable") or {}
    if any(map(configurable.get, _POSITIONS)):
        return configurable
    ambient = var_child_runnable_config.get() or {}
    return {**(ambient.get("configurable") or {}), **configurable}


@dataclass
class Decision:
    """A decision that a run carries to the step that awaits it.

    Args:
        id: What tells it from every other.
        reached_a_step: Whether a step ran at all: none does where the thread was ended by somebody else meanwhile.
        error: What to raise once the run is stored.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    reached_a_step: bool = False
    error: Exception | None = None


def with_decision(config: RunnableConfig | None, decision: Decision) -> RunnableConfig:
    """Return the config of a run that carries a decision."""
    configurable = (config or {}).get("configurable") or {}
    return {**(config or {}), "configurable": {**configurable, _DECISION: decision}}


def decision_of(config: RunnableConfig) -> Decision | None:
    """Return the decision that a run carries; None where it carries none, or goes on after a crash."""
    value = config.get("configurable", {}).get(_DECISION)
    return value if isinstance(value, Decision) else None


class Records(Generic[T]):
    """The record that a run wrote last, and the plain data it wrote, which the next step need not read then."""

    def __init__(self) -> None:
        self._last: tuple[object, T] | None = None

    def keep(self, data: object, record: T) -> None:
        """Keep the record that was written as `data`."""
        self._last = data, record

    def of(self, data: object) -> T | None:
        """Return the record that was written as `data`, this very object; None for what came from a checkpoint."""
        return self._last[1] if self._last is not None and self._last[0] is data else None


def with_records(config: RunnableConfig | None) -> RunnableConfig:
    """Return the config of a run whose steps hand the record on within this process."""
    configurable = (config or {}).get("configurable") or {}
    if _RECORDS in configurable:
        return config or {}
    return {**(config or {}), "configurable": {**configurable, _RECORDS: Records()}}


def records_of(config: RunnableConfig) -> Records[Any]:
    """Return the records of a run; empty ones where it hands none on."""
    records = config.get("configurable", {}).get(_RECORDS)
    return records if isinstance(records, Records) else Records()


def is_interrupt_id(key: object) -> bool:
    """Check whether a key of a resume value has the form of an interrupt's id, as LangGraph does."""
    return isinstance(key, str) and re.fullmatch("[0-9a-f]{32}", key) is not None


def inherits_checkpointer(config: RunnableConfig) -> bool:
    """Check whether a graph called with this config has the checkpointer of the graph around it, even if none."""
    return _CHECKPOINTER in config.get("configurable", {})


def is_node(config: RunnableConfig) -> bool:
    """Check whether the config is that of a node of a graph, or of a call inside one."""
    return _READ in config.get("configurable", {})


def has_channel(config: RunnableConfig, channel: str) -> bool:
    """Check whether the graph whose node has this config has a channel of that name, empty or not."""
    if not is_node(config):
        return False
    try:
        read(config, channel)
    except KeyError:
        return False
    return True


def detached_config(config: RunnableConfig) -> RunnableConfig:
    """Return the config for a model or a judge: its events reach tracers, but none of the client's streams.

    All settings of the surrounding graph are removed.
    """
    configurable = config.get("configurable") or {}
    remaining = {key: value for key, value in configurable.items() if not key.startswith(_GRAPH_KEYS)}
    return _traced_config(config, {**remaining, _SILENCED: True})


def muted_config(config: RunnableConfig, *, silent: bool = True) -> RunnableConfig:
    """Return the config for a generator that may be a graph itself: muted, but part of the surrounding graph.

    An agent can thus interrupt and resume, with the checkpointer and the store of the graph. What a function
    pushes into the graph (`push_message`) is dropped, and its tasks run where they are called. The durability of
    the graph is set aside, since LangGraph fails in a graph without a checkpointer that inherits `"sync"`; see
    `durable_config`.

    Args:
        config: The config of the node.
        silent: Whether values written to LangGraph's stream writer are dropped.
    """
    configurable = config.get("configurable") or {}
    ours = (*_STREAM_KEYS, _STEP_LIMIT, _DECISION, _OVERRIDES, _RECORDS)
    remaining = {key: value for key, value in configurable.items() if key not in ours}
    if silent:
        remaining.pop(_PROGRESS, None)
        remaining[_SILENCED] = True
        runtime = remaining.get(_RUNTIME)
        if runtime is not None and not _writes_nothing(runtime.stream_writer):
            remaining[_RUNTIME] = runtime.override(stream_writer=_drop)
    if _DURABILITY in remaining:
        remaining[_OUTER_DURABILITY] = remaining.pop(_DURABILITY)
    remaining |= {_SEND: partial(_send_resumed, remaining.get(_SEND)), _CALL: run_task}
    return _traced_config(config, remaining)


def durable_config(config: RunnableConfig) -> RunnableConfig:
    """Return a muted config for a graph that is saved as the surrounding graph is, and as soon."""
    configurable = config.get("configurable") or {}
    if _OUTER_DURABILITY not in configurable:
        return config
    remaining = {key: value for key, value in configurable.items() if key != _OUTER_DURABILITY}
    return {**config, "configurable": {**remaining, _DURABILITY: configurable[_OUTER_DURABILITY]}}


def judging_config(config: RunnableConfig) -> RunnableConfig:
    """Return the config for a judge: muted, but in a graph a part of it, so that a judge can ask a human."""
    return muted_config(config) if is_node(config) else detached_config(config)


def unanswerable_interrupt(error: Exception) -> ConfigurationError | None:
    """Return the error to raise where a judge asks a human outside of any graph; None for any other error."""
    if not isinstance(error, KeyError) or error.args != (_SCRATCHPAD,):
        return None
    return ConfigurationError(
        "the judge stopped to ask a human, and nothing could resume it; give a checkpointer to the loop"
    )


def unsaved_config(config: RunnableConfig) -> RunnableConfig:
    """Return the config for one of several calls side by side: a part of the graph that no checkpointer saves.

    LangGraph tells the calls inside a node apart by their order, which is another one in each run. How soon to
    save is left out: a graph inside, with nothing to save to, would fail.
    """
    configurable = config.get("configurable") or {}
    if _CHECKPOINTER not in configurable:
        return config
    remaining = {name: value for name, value in configurable.items() if name != _DURABILITY}
    return {**config, "configurable": {**remaining, _CHECKPOINTER: None}}


def fresh_thread_config(config: RunnableConfig) -> RunnableConfig:
    """Return the config for a graph with a checkpointer of its own: a new thread, to forget rejected drafts.

    LangGraph's settings of the surrounding graph are removed.
    """
    configurable = config.get("configurable") or {}
    remaining = {key: value for key, value in configurable.items() if not key.startswith(_LANGGRAPH_KEYS)}
    return {**config, "configurable": {**remaining, "thread_id": str(uuid4())}}


def _traced_config(config: RunnableConfig, configurable: dict[str, Any]) -> RunnableConfig:
    traced: RunnableConfig = {
        "callbacks": [],
        "metadata": {},
        "configurable": configurable,
        "recursion_limit": _requested_limit(config) or int(LANGGRAPH_LIMIT),
    }
    manager = _manager(config, streaming=False)
    if manager is not None:
        traced |= {"callbacks": manager, "tags": config.get("tags", []), "metadata": config.get("metadata", {})}
    return traced


def _requested_limit(config: RunnableConfig) -> int | None:
    """Return the step limit that a caller set; None where there are only defaults of the frameworks."""
    limit: int | None = config.get("configurable", {}).get(_STEP_LIMIT, config.get("recursion_limit"))
    return None if limit is None or limit in _DEFAULT_STEP_LIMITS or limit >= _UNLIMITED_STEPS else limit


def with_unlimited_loop(config: RunnableConfig | None, inherited: RunnableConfig) -> RunnableConfig:
    """Return the config for the loop's own graph: a step limit bounds what is called inside, not the loop.

    Args:
        config: The config that the graph is called with.
        inherited: The same with what it inherits, from the graph itself and from a run around it.
    """
    unlimited: RunnableConfig = {**(config or {}), "recursion_limit": _UNLIMITED_STEPS}
    limit = _requested_limit(inherited)
    if limit is not None:
        unlimited["configurable"] = {**inherited.get("configurable", {}), _STEP_LIMIT: limit}
    return unlimited


def with_own_limit(config: RunnableConfig, own_limit: int | None) -> RunnableConfig:
    """Return the config for a runnable that was bound to a step limit, which holds unless a caller set another."""
    if own_limit is None or _requested_limit(config) is not None:
        return config
    return {**config, "recursion_limit": own_limit}


class leaving_the_graph:  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Pass a command of a generator for the graph around it on to the graph around the loop's.

    To the agent that gave the command `Command.PARENT` is the loop's graph, an inside that no agent knows of.

    Args:
        config: The config of the node that runs the generator.
    """

    __slots__ = ("_config",)

    def __init__(self, config: RunnableConfig) -> None:
        self._config = config

    def __enter__(self) -> None:
        """Do nothing yet."""

    def __exit__(self, kind: object, left: object, place: object) -> None:
        if not isinstance(left, ParentCommand):
            return
        command: Command[Any] = left.args[0]
        namespace = self._config["configurable"].get("checkpoint_ns", "")
        if command.graph in (namespace, recast_checkpoint_ns(namespace)):
            left.args = (replace(command, graph=Command.PARENT),)


def _drop(_: Any) -> None:
    """Discard the value."""


def _send_resumed(send: Callable[[Any], None] | None, writes: Sequence[tuple[str, Any]]) -> None:
    """Send what `interrupt` notes of a decision; discard messages and other values for the graph's channels."""
    resumed = [write for write in writes if write[0] == _RESUME]
    if resumed and send is not None:
        send(resumed)


def muted_config_with_progress(config: RunnableConfig) -> RunnableConfig:
    """Return the config for the loop's graph in a runnable: muted, but the outer streams receive its progress.

    A step limit bounds what is called inside, not the loop.
    """
    muted = with_overrides(durable_config(muted_config(config, silent=False)), overrides_of(config))
    limit = _requested_limit(config)
    muted["recursion_limit"] = _UNLIMITED_STEPS
    if limit is not None:
        muted["configurable"] = {**muted["configurable"], _STEP_LIMIT: limit}
    manager = _manager(config, streaming=True)
    if manager is not None or writer(config) is not None:
        outer: RunnableConfig = {**config, "callbacks": manager}
        muted["configurable"] = {**muted["configurable"], _PROGRESS: outer}
    return muted


def silenced(config: RunnableConfig) -> bool:
    """Check whether this run is inside a generator or judge of a loop that hides its drafts."""
    return _SILENCED in config.get("configurable", {})


def progress_configs(config: RunnableConfig) -> list[RunnableConfig]:
    """List the configs whose handlers receive progress events."""
    outer = config.get("configurable", {}).get(_PROGRESS)
    return [target for target in (config, outer) if target is not None and listeners(target)]


def writer(config: RunnableConfig) -> Callable[[Any], None] | None:
    """Return the writer of the custom stream of the graph or the surrounding graph; None where nobody reads it."""
    configurable = config.get("configurable", {})
    if _PROGRESS in configurable:
        return writer(configurable[_PROGRESS])
    own = configurable[_RUNTIME].stream_writer if _RUNTIME in configurable else None
    return None if own is None or _writes_nothing(own) else own


def _writes_nothing(own: Callable[[Any], None]) -> bool:
    """Check for the writer that LangGraph gives a run without a custom stream: it holds nothing to write to."""
    return getattr(own, "__module__", "") == _PREGEL and getattr(own, "__closure__", own) is None


def is_watched(config: RunnableConfig) -> bool:
    """Check whether anybody could see what a runnable called with this config does inside.

    That is a graph around it, or a callback handler of any origin.
    """
    own = ensure_config(config)
    inside = any(key.startswith(_GRAPH_KEYS) for key in own.get("configurable", ()))
    return inside or bool(listeners(own)) or is_observed()


def listeners(config: RunnableConfig) -> list[BaseCallbackHandler]:
    """List the callback handlers of a config."""
    callbacks = config.get("callbacks")
    return callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else list(callbacks or ())


def _manager(config: RunnableConfig, *, streaming: bool) -> BaseCallbackManager | None:
    """Return a manager of only the handlers that feed streams, or only the others; None if there are none.

    The others hear no tokens.
    """

    def select(handlers: Sequence[BaseCallbackHandler]) -> list[BaseCallbackHandler]:
        selected = [handler for handler in handlers if feeds_stream(handler) is streaming]
        return selected if streaming else [without_tokens(handler) for handler in selected]

    handlers = select(listeners(config))
    callbacks = config.get("callbacks")
    if not handlers or not isinstance(callbacks, BaseCallbackManager):
        return CallbackManager(handlers=handlers, inheritable_handlers=handlers) if handlers else None
    manager = callbacks.copy()
    manager.handlers, manager.inheritable_handlers = handlers, select(callbacks.inheritable_handlers)
    return manager


def muted_callbacks(callbacks: Callbacks) -> BaseCallbackManager | None:
    """Return the callbacks of a generator itself without handlers that feed streams, and deaf to tokens."""
    return None if callbacks is None else _manager({"callbacks": callbacks}, streaming=False)


def feeds_stream(handler: BaseCallbackHandler) -> bool:
    """Check whether a callback handler may show a client what it receives; if not, it keeps it, as a tracer does.

    A user's own class counts as its nearest ancestor among the frameworks' handlers. A handler of the frameworks
    that is not known to be a tracer or an observer counts as a stream, so that a new one is muted.
    """
    return _class_feeds_stream(handler.__class__)  # type: ignore[arg-type]  # mypy does not know that a class has a hash


@lru_cache(maxsize=256)
def _class_feeds_stream(kind: type) -> bool:
    if issubclass(kind, _StreamingCallbackHandler):
        return True
    for ancestor in kind.__mro__:
        module = ancestor.__module__
        if ".streaming" in module or module == _StreamingCallbackHandler.__module__:
            return True
        if issubclass(ancestor, BaseCallbackHandler) and module.startswith(("langchain_core.", "langgraph.")):
            known = ancestor in _OBSERVERS or f"{module}.{ancestor.__qualname__}" == _IDLE_CLOCK
            return not (known or issubclass(ancestor, BaseTracer | AsyncBaseTracer))
    return True


class use_config:  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Make every call in the block inherit `config` alone, instead of the config inherited so far.

    LangGraph merges the callbacks of a config with the inherited ones, so a config alone mutes nothing. Nor does
    it mute what reaches a client through other context variables: handlers that LangChain adds to every run
    (`register_configure_hook`), and the writer of a surrounding tool's output.
    """

    __slots__ = ("_config", "_muted", "_token")

    def __init__(self, config: RunnableConfig) -> None:
        self._config = config

    def __enter__(self) -> None:
        self._token = var_child_runnable_config.set(self._config)
        self._muted = [(variable, variable.set(value)) for variable, value in _audible()]

    def __exit__(self, *_: object) -> None:
        for variable, before in self._muted:
            variable.reset(before)
        var_child_runnable_config.reset(self._token)


def _audible() -> Iterator[tuple[ContextVar[Any], Any]]:
    """Yield the context variables through which a client would see drafts, each with a value that shows none."""
    if _tool_call_writer.get() is not None:
        yield _tool_call_writer, None
    for variable, _, kind, name in _configure_hooks:
        handler = variable.get()
        if handler is None and kind is not None and name is not None and env_var_is_set(name):
            handler = kind()
        if handler is not None and handler is not _SILENT:
            muted = _SILENT if feeds_stream(handler) else without_tokens(handler)
            if muted is not handler:
                yield variable, muted


_SILENT = BaseCallbackHandler()
"""A handler that does nothing, in the place of one that feeds a stream."""
