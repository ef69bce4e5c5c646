"""A callback handler that sees every call of a model or a tool which LangChain makes in a block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.tracers.context import register_configure_hook

from judges.models.providers.langchain import usage_of
from judges.runtime import budget
from judges.runtime.budget import Allowance, CallStopped, Refused
from judges.runtime.context import setting
from judges.verdict import Usage

_handler: ContextVar[BaseCallbackHandler | None] = ContextVar("judges.langchain_calls", default=None)
register_configure_hook(_handler, inheritable=True)


def observing(allowance: Allowance) -> setting[BaseCallbackHandler | None]:
    """Claim each model call of a `with` block from an allowance, and let no tool begin after its deadline."""
    return setting(_handler, CallCounter(allowance))


class CallCounter(BaseCallbackHandler):
    """Claims calls as they begin, and charges them as they end; those that a judge's driver counts are its own."""

    raise_error = True
    run_inline = True

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
            self._allowance.add(usage, model or name, run_id)

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
        if budget.is_counted():
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
