"""The hidden channel of the loop's state, and the quiet configuration for what runs inside a node.

Whatever a node takes in or gives back is visible in some stream: `updates`, `values`, `debug`, `tasks`, or the
events of callbacks. So drafts are neither. Nodes read and write the channel `refinement` through the functions
that LangGraph puts into a node's config for its own readers and writers; the channel is checkpointed like any
other, and left out of what the graph streams and returns. Tests look at every stream mode to hold this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler  # the mixin of all stream handlers

CHANNEL = "refinement"
EVIDENCE = "evidence"

_READ, _SEND = "__pregel_read", "__pregel_send"
_STREAMS = ("__pregel_stream", "__pregel_stream_messages_v2")


def read(config: RunnableConfig, channel: str) -> Any:
    """Read a channel from inside a node; None where it holds nothing."""
    return config["configurable"][_READ]([channel]).get(channel)


def write(config: RunnableConfig, channel: str, value: Mapping[str, Any]) -> None:
    """Write a channel from inside a node; it is applied, and stored, when the node is done."""
    config["configurable"][_SEND]([(channel, value)])


def quiet(config: RunnableConfig) -> RunnableConfig:
    """Make the config for a generator or judge: what it does reaches tracers, but no stream of the client's.

    Everything else is kept, a checkpointer included, so that an agent may still interrupt and resume.
    """
    callbacks = config.get("callbacks")
    handlers = _handlers(callbacks)
    kept = [one for one in handlers if not isinstance(one, _StreamingCallbackHandler)]
    given = config.get("configurable") or {}
    silent: RunnableConfig = {
        "configurable": {key: value for key, value in given.items() if key not in _STREAMS},
        "recursion_limit": config.get("recursion_limit", 10_000),
    }
    if kept and isinstance(callbacks, BaseCallbackManager):
        manager = callbacks.copy()
        for handler in handlers:
            if handler not in kept:
                manager.remove_handler(handler)
        silent |= {"callbacks": manager, "tags": config.get("tags", []), "metadata": config.get("metadata", {})}
    return silent


def _handlers(callbacks: Any) -> list[BaseCallbackHandler]:
    if isinstance(callbacks, BaseCallbackManager):
        return callbacks.handlers
    return list(callbacks or ())


@contextmanager
def inside(config: RunnableConfig) -> Iterator[None]:
    """Let everything called in the block inherit `config`, also where nobody passes it on."""
    token = var_child_runnable_config.set(config)
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)
