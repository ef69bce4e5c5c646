"""What stands in, around a draft, for what would show it: callback handlers, and tasks of the graph.

A handler of the user's own hears starts, ends and errors, as a tracer must, but no tokens.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import lru_cache, partial
from threading import Thread
from typing import Any, cast

from langchain_core.callbacks import BaseCallbackHandler

from judges.drive import waited_for

_TOKEN_EVENTS = ("on_llm_new_token", "on_stream_event")
_FRAMEWORKS = ("langchain_core.", "langgraph.")


def without_tokens(handler: BaseCallbackHandler) -> BaseCallbackHandler:
    """Return a handler that hears all but the tokens of a model; the handler itself if tokens mean nothing to it.

    A token cannot be taken back, so a handler that passes tokens on would show a draft before it is judged.
    """
    kind: type = type(handler)
    if kind is _WithoutTokens or not _hears_tokens(handler):
        return handler
    return cast("BaseCallbackHandler", _WithoutTokens(handler))


def _hears_tokens(handler: BaseCallbackHandler) -> bool:
    own = getattr(handler, "__dict__", {})
    return any(event in own for event in _TOKEN_EVENTS) or _class_hears_tokens(type(handler))  # type: ignore[arg-type]  # mypy does not know that a class has a hash


@lru_cache(maxsize=256)
def _class_hears_tokens(kind: type) -> bool:
    """Check whether a class handles tokens by code that is not of the frameworks."""
    owners = [next((cls for cls in kind.__mro__ if event in vars(cls)), None) for event in _TOKEN_EVENTS]
    return any(owner is not None and not owner.__module__.startswith(_FRAMEWORKS) for owner in owners)


class _WithoutTokens:
    """Stands in for a handler: the same class, attributes and identity, but events of tokens do nothing."""

    __slots__ = ("_handler",)

    def __init__(self, handler: BaseCallbackHandler) -> None:
        object.__setattr__(self, "_handler", handler)

    @property  # type: ignore[misc]  # read only: what `isinstance` asks for
    def __class__(self) -> Any:
        return type(self._handler)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._handler, name)
        if name in _TOKEN_EVENTS:
            return _adiscard if inspect.iscoroutinefunction(value) else _discard
        return value

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._handler, name, value)

    def __eq__(self, other: object) -> bool:
        return self._handler is getattr(other, "_handler", other)

    def __hash__(self) -> int:
        return id(self._handler)


def _discard(*_: object, **__: object) -> None:
    """Do nothing with a token."""


async def _adiscard(*_: object, **__: object) -> None:
    """Do nothing with a token."""


def run_task(function: Callable[..., Any], arguments: tuple[Any, Any], **_: object) -> Awaitable[Any]:
    """Run a task of LangGraph's functional API beside the graph, which would stream its result.

    Args:
        function: The task's function, sync or async.
        arguments: Its positional and its keyword arguments.

    Returns:
        A future, to be awaited or asked for its `result()`.
    """
    args, kwargs = arguments
    run = partial(function, *args, **kwargs)
    if inspect.iscoroutinefunction(function):
        with suppress(RuntimeError):
            return asyncio.get_running_loop().create_task(run())
    future = _TaskFuture()
    Thread(target=copy_context().run, args=(_settle, future, run), daemon=True, name="refine-task").start()
    return future


class _TaskFuture(Future[Any]):
    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()


def _settle(future: Future[Any], run: Callable[[], Any]) -> None:
    try:
        future.set_result(waited_for(run()))
    except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
        future.set_exception(error)
