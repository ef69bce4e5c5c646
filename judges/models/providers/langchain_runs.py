"""The chat model of LangChain's that a call of the direct client is made by where a handler listens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Generic, Self, TypeVar
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult, LLMResult
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers.context import register_configure_hook
from pydantic import PrivateAttr

from judges.model import LlmRun
from judges.models.providers.langchain import usage_of
from judges.models.providers.openai_messages import PROVIDER
from judges.runtime.budget import Allowance, CallStopped, Refused
from judges.runtime.observation import current, observing
from judges.verdict import Usage

_handler: ContextVar[BaseCallbackHandler | None] = ContextVar("judges.langchain_calls", default=None)
register_configure_hook(_handler, inheritable=True)


def count_calls_on(allowance: Allowance) -> Token[BaseCallbackHandler | None]:
    """Claim each model call from an allowance, and let no tool begin after its deadline, until this is reset."""
    return _handler.set(_CallCounter(allowance))


class _CallCounter(BaseCallbackHandler):
    """Claims calls as they begin, and charges them as they end; those that a judge's driver counts are its own."""

    raise_error = True
    run_inline = True
    hears_no_direct_call = True
    """The direct client claims its own calls, so that none is made through LangChain for this handler's sake."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._names: dict[UUID, str | None] = {}

    def on_chat_model_start(
        self, serialized: dict[str, Any] | None, messages: object, *, run_id: UUID, **details: Any
    ) -> None:
        """Claim a call."""
        del serialized, messages
        self._begin(run_id, details.get("metadata"))

    def on_llm_start(
        self, serialized: dict[str, Any] | None, prompts: list[str], *, run_id: UUID, **details: Any
    ) -> None:
        """Claim a call."""
        del serialized, prompts
        self._begin(run_id, details.get("metadata"))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Charge a call that was answered."""
        if run_id in self._names:
            name = self._names.pop(run_id)
            usage, model = _usage_in(response)
            self._allowance.add(usage, model, run_id, requested=name)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Charge a call that failed."""
        del error
        if run_id in self._names:
            del self._names[run_id]
            self._allowance.fail(run_id)

    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, **_: Any) -> None:
        """Let a tool begin, unless the deadline has passed."""
        del serialized, input_str
        with _stopping():
            self._allowance.check()

    def _begin(self, run_id: UUID, metadata: Mapping[str, Any] | None) -> None:
        if current.get().is_counted:
            return
        with _stopping():
            self._allowance.take(run_id)
        name = (metadata or {}).get("ls_model_name")
        self._names[run_id] = name if isinstance(name, str) else None


@contextmanager
def _stopping() -> Iterator[None]:
    try:
        yield
    except Refused as refusal:
        raise CallStopped(str(refusal)) from None


def _usage_in(response: LLMResult) -> tuple[Usage, str | None]:
    """Return what a call consumed, and the name of the model that answered."""
    generation = next((first for generations in response.generations for first in generations), None)
    if isinstance(generation, ChatGeneration):
        metadata = generation.message.response_metadata or {}
        return usage_of(generation.message), metadata.get("model_name") or metadata.get("model")
    output = response.llm_output or {}
    tokens = output.get("token_usage")
    tokens = tokens if isinstance(tokens, Mapping) else {}
    return Usage.of_call(tokens.get("prompt_tokens"), tokens.get("completion_tokens")), output.get("model_name")


T = TypeVar("T")


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
        with observing(is_counted=True):
            self.invoke(list(self._details.messages()), self._config())
        return self._results[0]

    async def arun(self) -> T:
        """Make the call without blocking."""
        with observing(is_counted=True):
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
        ls_params = {f"ls_{name}": self._details.fields.get(name) for name in ("temperature", "max_tokens")}
        set_by_user = {name: value for name, value in ls_params.items() if value is not None}
        return {**super()._get_ls_params(stop=stop, **kwargs), **set_by_user, "ls_provider": PROVIDER}

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        assert self._call is not None  # noqa: S101 - `of` was given it for `run`
        return self._result(self._call())

    async def _agenerate(self, *_: Any, **__: Any) -> ChatResult:
        assert self._acall is not None  # noqa: S101 - `of` was given it for `arun`
        return self._result(await self._acall())

    def _result(self, result: T) -> ChatResult:
        self._results.append(result)
        message: AIMessage = self._details.answer(result)
        output = {"model_name": message.response_metadata.get("model_name"), "model_provider": PROVIDER}
        return ChatResult(generations=[ChatGeneration(message=message)], llm_output=output)
