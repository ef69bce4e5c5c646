"""Model calls and LangChain: what its callback handlers see of our calls, and what we count of its own.

Calls of the direct client are runs that handlers see: start, end with usage, error. Where nobody listens a call
costs nothing more; where somebody does, it is made by a chat model of LangChain's for which it stands, so that
handlers, tags, metadata and configuration are LangChain's own. Calls that a chain, an agent or a function makes
pass no driver of ours, so a handler claims each from the allowance before it is made, and charges what it consumed
after it. LangChain is not imported unless it already is: without it nothing can be called or heard through it.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Token
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from judges.messages import openai_content
from judges.model import LlmRun, ModelRequest, ModelResponse
from judges.runtime.budget import Allowance, CallStopped
from judges.runtime.observation import current, observing

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

T = TypeVar("T")

_LANGCHAIN = "langchain_core.runnables.config"


def is_observed() -> bool:
    """Check whether any handler listens to calls made here; none can where LangChain is not loaded."""
    return _LANGCHAIN in sys.modules and _listens()()


@cache
def _listens() -> Callable[[], bool]:
    """Return a check whether LangChain would find a handler here, as it does itself, but at less cost."""
    from langchain_core.callbacks import BaseCallbackHandler, BaseCallbackManager  # noqa: PLC0415 - loaded already
    from langchain_core.globals import get_debug  # noqa: PLC0415 - loaded already
    from langchain_core.runnables.config import var_child_runnable_config  # noqa: PLC0415 - loaded already
    from langchain_core.tracers.context import _configure_hooks, tracing_v2_callback_var  # noqa: PLC0415 - loaded already
    from langchain_core.utils.env import env_var_is_set  # noqa: PLC0415 - loaded already
    from langsmith.run_helpers import _TRACING_ENABLED  # noqa: PLC0415 - loaded already
    from langsmith.utils import tracing_is_enabled  # noqa: PLC0415 - loaded already

    def anybody_listens() -> bool:
        config = var_child_runnable_config.get()
        callbacks = None if config is None else config.get("callbacks")
        if callbacks and (not isinstance(callbacks, BaseCallbackManager) or callbacks.handlers):
            return True
        for variable, _, kind, name in _configure_hooks:
            handler = variable.get()
            is_idle = type(handler) is BaseCallbackHandler or getattr(handler, "hears_no_direct_call", False)
            if handler is not None and not is_idle:
                return True
            if handler is None and kind is not None and name is not None and env_var_is_set(name):
                return True
        return (
            tracing_v2_callback_var.get() is not None
            or get_debug()
            or bool(tracing_is_enabled({"enabled": _TRACING_ENABLED.get()}))
        )

    return anybody_listens


def observed(run: LlmRun[T], call: Callable[[], T]) -> T:
    """Make a call as a run of LangChain's."""
    from judges.models.providers.langchain_runs import ObservedModel  # noqa: PLC0415 - imports LangChain

    return ObservedModel.of(run, call=call).run()


async def aobserved(run: LlmRun[T], call: Callable[[], Awaitable[T]]) -> T:
    """Make a call as a run of LangChain's without blocking."""
    from judges.models.providers.langchain_runs import ObservedModel  # noqa: PLC0415 - imports LangChain

    return await ObservedModel.of(run, acall=call).arun()


def run_of_judging(model: str, request: ModelRequest) -> LlmRun[ModelResponse]:
    """Return what handlers are told of a judge's request, which no stream shows to a client."""

    def messages() -> Sequence[BaseMessage]:
        from judges.models.providers.openai_messages import to_messages  # noqa: PLC0415 - imports LangChain

        return to_messages(
            [{"role": role, "content": openai_content(content)} for role, content in request.contents()]
        )

    def answer(response: ModelResponse) -> AIMessage:
        from judges.models.providers.openai_messages import answer_of_response  # noqa: PLC0415 - as above

        return answer_of_response(response, model)

    return LlmRun(model=model, messages=messages, answer=answer, tags=("nostream",))


def run_of_chat(model: str, fields: Mapping[str, Any]) -> LlmRun[dict[str, Any]]:
    """Return what handlers are told of a request for an answer."""

    def messages() -> Sequence[BaseMessage]:
        from judges.models.providers.openai_messages import to_messages  # noqa: PLC0415 - imports LangChain

        return to_messages(fields["messages"])

    def answer(completion: dict[str, Any]) -> AIMessage:
        from judges.models.providers.openai_messages import answer_of  # noqa: PLC0415 - as above

        return answer_of(completion, model)

    others = {name: value for name, value in fields.items() if name != "messages"}
    return LlmRun(model=str(fields.get("model", model)), messages=messages, answer=answer, fields=others)


class metered:  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Count the calls made in a `with` block on an allowance, and stop the block at a call that is refused.

    Args:
        allowance: The allowance, used for one block; None is one without limits of its own, which only counts.

    Raises:
        judges.runtime.budget.Refused: If a call was refused, in place of whatever became of it inside.
    """

    __slots__ = ("_allowance", "_counting", "_observing")

    def __init__(self, allowance: Allowance | None = None) -> None:
        self._allowance = allowance

    def __enter__(self) -> Allowance:
        outer = current.get().allowance
        run_allowance = self._allowance or Allowance(prices=None if outer is None else outer.prices)
        self._allowance = run_allowance.inside(outer)
        self._observing = observing(allowance=run_allowance)
        self._observing.__enter__()
        self._counting: Token[Any] | None = None
        if _LANGCHAIN in sys.modules:
            from judges.models.providers.langchain_runs import count_calls_on  # noqa: PLC0415 - imports LangChain

            self._counting = count_calls_on(run_allowance)
        return run_allowance

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        allowance, counting = self._allowance, self._counting
        assert allowance is not None  # noqa: S101 - the block has begun
        if counting is not None:
            counting.var.reset(counting)
        self._observing.__exit__(kind, error, place)
        if error is None:
            allowance.release()
            return
        allowance.close()
        if allowance.refusal is not None and isinstance(error, Exception | CallStopped | BaseExceptionGroup):
            raise allowance.refusal from None
