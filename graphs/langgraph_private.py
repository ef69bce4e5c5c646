"""The hidden channel of the loop's state, and the quiet configuration for what runs inside a node.

Whatever a node takes in or gives back is visible in some stream: `updates`, `values`, `debug`, `tasks`, or the
events of callbacks. So drafts are neither. Nodes read and write the channel `refinement` through the functions
that LangGraph puts into a node's config for its own readers and writers; the channel is checkpointed like any
other, and left out of what the graph streams and returns. Tests look at every stream mode to hold this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager, CallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler  # the mixin of all stream handlers

RECORD = "refinement"
"""The hidden channel: the record of the refinement, drafts included."""

SUMMARY = "refine"
"""The visible channel: a summary of the record without any rejected text."""

_READ, _SEND, _CHECKPOINTER = "__pregel_read", "__pregel_send", "__pregel_checkpointer"
_RUNTIME, _PROGRESS = "__pregel_runtime", "__refine_progress"
_GRAPHS_OWN = ("__pregel_", "checkpoint_", _PROGRESS)
_STREAMS = ("__pregel_stream", "__pregel_stream_messages_v2")


def read(config: RunnableConfig, channel: str) -> Any:
    """Read a channel from inside a node; None where it holds nothing."""
    return config["configurable"][_READ]([channel]).get(channel)


def write(config: RunnableConfig, channel: str, value: object) -> None:
    """Write a channel from inside a node; it is applied, and stored, when the node is done."""
    config["configurable"][_SEND]([(channel, value)])


def has_checkpointer(config: RunnableConfig) -> bool:
    """Tell whether there is a checkpointer, so that what is written must be plain data."""
    return config.get("configurable", {}).get(_CHECKPOINTER) is not None


def detached_config(config: RunnableConfig) -> RunnableConfig:
    """Make the config for a model or a judge: what it does reaches tracers, but no stream of the client's.

    Nothing of the graph around it is left.
    """
    given = config.get("configurable") or {}
    kept = {key: value for key, value in given.items() if not key.startswith(_GRAPHS_OWN)}
    return _heard_by_tracers(config, kept)


def muted_config(config: RunnableConfig, *, silent: bool = True) -> RunnableConfig:
    """Make the config for a generator that may be a graph itself: quiet, but still inside the graph around it.

    So an agent may interrupt and resume, with the checkpointer and the store of the graph.

    Args:
        config: The config of the node.
        silent: Whether what is written to LangGraph's stream writer is dropped.
    """
    given = config.get("configurable") or {}
    kept = {key: value for key, value in given.items() if key not in _STREAMS}
    if silent and _RUNTIME in kept:
        kept[_RUNTIME] = kept[_RUNTIME].override(stream_writer=_drop)
    return _heard_by_tracers(config, kept)


def _heard_by_tracers(config: RunnableConfig, configurable: dict[str, Any]) -> RunnableConfig:
    made: RunnableConfig = {
        "configurable": configurable,
        "recursion_limit": config.get("recursion_limit", 10_000),
    }
    manager = _manager(config, streaming=False)
    if manager is not None:
        made |= {"callbacks": manager, "tags": config.get("tags", []), "metadata": config.get("metadata", {})}
    return made


def _drop(_: Any) -> None:
    """Write to nobody."""


def muted_config_with_progress(config: RunnableConfig) -> RunnableConfig:
    """Make the config for a graph inside a runnable: quiet, but the outer streams hear of its progress."""
    made = muted_config(config, silent=False)
    manager = _manager(config, streaming=True)
    if manager is not None or writer(config) is not None:
        outer: RunnableConfig = {**config, "callbacks": manager}
        made["configurable"] = {**made["configurable"], _PROGRESS: outer}
    return made


def progress_configs(config: RunnableConfig) -> list[RunnableConfig]:
    """List the configs whose handlers are to hear of progress."""
    outer = config.get("configurable", {}).get(_PROGRESS)
    return [one for one in (config, outer) if one is not None and listeners(one)]


def writer(config: RunnableConfig) -> Callable[[Any], None] | None:
    """Find the writer of the custom stream of the graph, or of the graph around it; None outside of graphs."""
    given = config.get("configurable", {})
    if _PROGRESS in given:
        return writer(given[_PROGRESS])
    return given[_RUNTIME].stream_writer if _RUNTIME in given else None


def listeners(config: RunnableConfig) -> list[BaseCallbackHandler]:
    """List the handlers that hear what happens under a config."""
    callbacks = config.get("callbacks")
    return callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else list(callbacks or ())


def _manager(config: RunnableConfig, *, streaming: bool) -> BaseCallbackManager | None:
    """Keep the handlers that feed streams, or the others; None where there are none."""
    heard = [one for one in listeners(config) if isinstance(one, _StreamingCallbackHandler) is streaming]
    given = config.get("callbacks")
    if not heard or not isinstance(given, BaseCallbackManager):
        return CallbackManager(handlers=heard, inheritable_handlers=heard) if heard else None
    manager = given.copy()
    for handler in given.handlers:
        if handler not in heard:
            manager.remove_handler(handler)
    return manager


@contextmanager
def use_config(config: RunnableConfig) -> Iterator[None]:
    """Let everything called in the block inherit `config`, and nothing else that was inherited before.

    LangGraph merges the callbacks of a config with the inherited ones, so a config alone silences nothing.
    """
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
