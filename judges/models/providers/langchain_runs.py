"""The chat model of LangChain's that a call of the direct client is made by where a handler listens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Self, TypeVar

from langchain_core.callbacks import (
    AsyncCallbackManagerForLLMRun,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManagerForLLMRun,
)
from langchain_core.globals import get_debug
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import _configure_hooks, tracing_v2_callback_var
from langchain_core.utils.env import env_var_is_set
from langsmith._internal._context import _TRACING_ENABLED
from langsmith.utils import tracing_is_enabled
from pydantic import PrivateAttr

from judges.models.providers.langchain_calls import CallCounter
from judges.models.providers.llm_run import LlmRun
from judges.models.providers.openai_messages import PROVIDER
from judges.runtime import budget

T = TypeVar("T")


def anybody_listens() -> bool:
    """Check whether LangChain would find a handler for a call made here, as it does itself, but at less cost."""
    config = var_child_runnable_config.get()
    callbacks = None if config is None else config.get("callbacks")
    if callbacks and (not isinstance(callbacks, BaseCallbackManager) or callbacks.handlers):
        return True
    for variable, _, kind, name in _configure_hooks:
        handler = variable.get()
        if handler is not None and not _is_idle(handler):
            return True
        if handler is None and kind is not None and name is not None and env_var_is_set(name):
            return True
    if tracing_v2_callback_var.get() is not None or get_debug():
        return True
    return bool(tracing_is_enabled({"enabled": _TRACING_ENABLED.get()}))  # all it reads of that context


def _is_idle(handler: BaseCallbackHandler) -> bool:
    """Check whether a handler does nothing: one that stands for a muted one, or counts what is counted here."""
    return type(handler) is BaseCallbackHandler or isinstance(handler, CallCounter)


class ObservedModel(BaseChatModel, Generic[T]):
    """Makes one call, and lets LangChain tell its handlers of it."""

    model: str
    disable_streaming: bool = True
    cache: bool | None = False
    _details: LlmRun[T] = PrivateAttr()
    _call: Callable[[], T] | None = PrivateAttr(default=None)
    _acall: Callable[[], Awaitable[T]] | None = PrivateAttr(default=None)
    _results: list[T] = PrivateAttr(default_factory=list)

    @classmethod
    def of(
        cls,
        details: LlmRun[T],
        *,
        call: Callable[[], T] | None = None,
        acall: Callable[[], Awaitable[T]] | None = None,
    ) -> Self:
        """Return a model for a call, blocking or not."""
        model = cls(model=details.model)
        model._details, model._call, model._acall = details, call, acall
        return model

    def run(self) -> T:
        """Make the call, and return what it returned."""
        with budget.counted():
            self.invoke(list(self._details.messages()), self._config())
        return self._results[0]

    async def arun(self) -> T:
        """Make the call without blocking."""
        with budget.counted():
            await self.ainvoke(list(self._details.messages()), self._config())
        return self._results[0]

    @property
    def _llm_type(self) -> str:
        return PROVIDER

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return {"model": self.model}

    def _config(self) -> Any:
        inherited = var_child_runnable_config.get() or {}
        tags = [*(inherited.get("tags") or ()), *self._details.tags]
        return {"tags": tags} if tags else None

    def _get_invocation_params(self, stop: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        del stop, kwargs
        return {"_type": PROVIDER, "model": self.model, **self._details.fields}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        own = {f"ls_{name}": self._details.fields.get(name) for name in ("temperature", "max_tokens")}
        set_by_user = {name: value for name, value in own.items() if value is not None}
        return {**super()._get_ls_params(stop=stop, **kwargs), **set_by_user, "ls_provider": PROVIDER}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del messages, stop, run_manager, kwargs
        assert self._call is not None  # noqa: S101 - `of` was given it for `run`
        return self._result(self._call())

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del messages, stop, run_manager, kwargs
        assert self._acall is not None  # noqa: S101 - `of` was given it for `arun`
        return self._result(await self._acall())

    def _result(self, result: T) -> ChatResult:
        self._results.append(result)
        message: AIMessage = self._details.answer(result)
        output = {"model_name": message.response_metadata.get("model_name"), "model_provider": PROVIDER}
        return ChatResult(generations=[ChatGeneration(message=message)], llm_output=output)
