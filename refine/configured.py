"""Calls of a function with a config, as LangChain makes them: as a run that callback handlers see."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from langchain_core.callbacks import CallbackManager
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from graphs import langchain_private, langgraph_private

T = TypeVar("T")


class Configured(Generic[T]):
    """A function of an input and a config, whose signature is there already.

    LangChain looks at the signature with each call, which takes longer than a small step of the loop.

    Args:
        function: The function.
    """

    __slots__ = ("_function",)
    __signature__: ClassVar[inspect.Signature] = inspect.signature(lambda input, config: (input, config))  # noqa: A006

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function

    def __call__(self, value: Any, /, **settings: Any) -> T:
        """Call the function with an input and, by name, its config."""
        return self._function(value, **settings)


def call_as_run(
    runnable: Runnable[Any, Any],
    function: Callable[[Any, RunnableConfig], T],
    value: Any,
    config: RunnableConfig | None,
) -> T:
    """Call a function as a run of a runnable; where nobody sees runs, without what makes it one.

    In both cases the function runs in a copy of the context.
    """
    if langgraph_private.is_watched(config or {}):
        seen: T = runnable._call_with_config(Configured(function), value, config)  # noqa: SLF001 - LangChain's way
        return seen
    own = _unseen(config)

    def run() -> T:
        with langchain_private.use_config(own):
            return function(value, own)

    return copy_context().run(run)


async def acall_as_run(
    runnable: Runnable[Any, Any],
    function: Callable[[Any, RunnableConfig], Coroutine[Any, Any, T]],
    value: Any,
    config: RunnableConfig | None,
) -> T:
    """Await a function as a run of a runnable; otherwise as `call_as_run`."""
    if langgraph_private.is_watched(config or {}):
        seen: T = await runnable._acall_with_config(Configured(function), value, config)  # noqa: SLF001 - as above
        return seen
    own = _unseen(config)

    async def run() -> T:
        with langchain_private.use_config(own):
            return await function(value, own)

    return await asyncio.create_task(run(), context=copy_context())


_NOBODYS_RUN = UUID(int=0)
"""The run inside which an event may be dispatched, as LangChain demands, where nobody hears of it."""


def _unseen(config: RunnableConfig | None) -> RunnableConfig:
    """Return the config for the inside of a run that no handler sees."""
    own = ensure_config(config)
    own.pop("run_name", None)
    own.pop("run_id", None)
    own["callbacks"] = CallbackManager([], parent_run_id=_NOBODYS_RUN)
    return own
