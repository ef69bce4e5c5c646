"""One interface for all generators, from messages to a draft: chat models, runnables, functions, agent graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeGuard, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.prompts import BasePromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langgraph.pregel import Pregel

from graphs import langchain_private, langgraph_private
from graphs.direct import DirectGenerator
from graphs.drafts import Draft, draft_of, own_copy
from graphs.isolation import copy_messages
from judges.drive import waited_for
from judges.errors import ConfigurationError, shortened
from judges.models.providers.langchain import chat_model
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_fields import parsed_name
from judges.models.providers.openai_refusals import keeping_refusals
from judges.runtime.blocking import in_thread
from judges.runtime.no_requests import check_allowed


@runtime_checkable
class Generator(Protocol):
    """Generates a draft from messages.

    Attributes:
        may_interrupt: Whether a step inside may interrupt for a human, so that an attempt must be resumable.
    """

    may_interrupt: bool

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return a draft, blocking until it is complete."""
        ...

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return a draft without blocking the event loop."""
        ...


class PerRequest:
    """Stands in a loop whose generator comes with each request; see `Loop.with_generator`."""

    may_interrupt = False

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Refuse: the loop was run without a generator."""
        del prompt, config, temperature
        raise ConfigurationError("this loop has no generator of its own; run loop.with_generator(...)")

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Refuse, as `draft` does."""
        return self.draft(prompt, config, temperature)


def as_generator(candidate: object) -> Generator:
    """Wrap a chat model, a `"provider:model"` name, a runnable, an agent graph, or a function of the messages.

    Raises:
        ConfigurationError: If the candidate is none of these.
    """
    if isinstance(candidate, str) and parsed_name(candidate) is not None:
        return DirectGenerator(OpenAICompatible.named(candidate))
    if isinstance(candidate, str) and ":" in candidate.strip(":"):
        return _NamedGenerator(candidate)
    if isinstance(candidate, OpenAICompatible):
        return DirectGenerator(candidate)
    if isinstance(candidate, Runnable):
        return _RunnableGenerator(candidate)
    if _is_generator(candidate):
        return candidate
    if inspect.isgeneratorfunction(candidate) or inspect.isasyncgenfunction(candidate):
        return _RunnableGenerator(RunnableLambda(candidate))  # which adds up what is yielded
    if callable(candidate) and not isinstance(candidate, type):
        return _FunctionGenerator(candidate)
    raise ConfigurationError(
        f"cannot generate with {shortened(candidate)}; give a chat model, a 'provider:model' name, an "
        f"OpenAICompatible, a LangChain runnable, an agent graph, or a function that takes the list of messages"
    )


def _is_generator(candidate: object) -> TypeGuard[Generator]:
    """Check for a generator; `isinstance` takes longer, where one is made for each request."""
    return hasattr(candidate, "may_interrupt") and hasattr(candidate, "draft") and hasattr(candidate, "adraft")


class _RunnableGenerator:
    """Invokes a runnable: a chat model, a chain, or a compiled graph over messages."""

    def __init__(self, runnable: Runnable[Any, Any]) -> None:
        self._runnable = runnable
        self._is_graph = _graph_in(runnable) is not None
        self._is_chat_model = _chat_model_in(runnable) is not None
        self.may_interrupt = not self._is_chat_model
        self._is_saved = _is_saved(runnable)
        self._step_limit = _bound_step_limit(runnable)
        self._key = "messages" if self._is_graph else _prompt_variable(runnable)
        self._is_trusted = _only_reads(runnable)

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        self._check_allowed()
        own = self._config(config)
        runnable, model_input = _muted(self._runnable), self._input(prompt, own)
        with _inheriting(own, config):
            output = runnable.invoke(model_input, own, **self._settings(temperature))
        return self._draft_of(output, prompt)

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        self._check_allowed()
        own = self._config(config)
        runnable, model_input = _muted(self._runnable), self._input(prompt, own)
        with _inheriting(own, config):
            output = await runnable.ainvoke(model_input, own, **self._settings(temperature))
        return self._draft_of(output, prompt)

    def _input(self, prompt: list[BaseMessage], config: RunnableConfig) -> Any:
        is_read_only = self._is_trusted and not langchain_private.listeners(config)
        messages = prompt if is_read_only else copy_messages(prompt)
        return messages if self._key is None else {self._key: messages}

    def _draft_of(self, output: object, prompt: list[BaseMessage]) -> Draft:
        draft = draft_of(output, prompt)
        return draft if self._is_chat_model else own_copy(draft)

    def _config(self, config: RunnableConfig) -> RunnableConfig:
        """Return the config: a new thread for what has memory of its own, to forget rejected drafts.

        A runnable keeps the step limit it was bound to unless the caller set another.
        """
        if not self._is_chat_model and _has_own_memory(self._runnable):
            config = langgraph_private.fresh_thread_config(config)
        if self._is_saved:
            config = langgraph_private.durable_config(config)
        return langgraph_private.with_own_limit(config, self._step_limit)

    def _settings(self, temperature: float | None) -> dict[str, Any]:
        if temperature is None:
            return {}
        if not self._is_chat_model:
            raise ConfigurationError(
                f"temperature={temperature!r} can be overridden for a chat model, not for "
                f"{type(self._runnable).__name__}; override model=... with a generator of that temperature"
            )
        return {"temperature": temperature}

    def _check_allowed(self) -> None:
        model = _chat_model_in(self._runnable)
        if model is not None:
            check_allowed(type(model).__name__, model)


class _FunctionGenerator:
    """Calls a function of the messages, sync or async."""

    may_interrupt = True

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - `__call__` may be a coroutine function
        )

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        _reject_temperature(temperature, self._name)
        messages = copy_messages(prompt)
        if langchain_private.listeners(config):
            output = self._as_runnable().invoke(messages, config)
        else:
            output = waited_for(self._function(messages))
        return own_copy(draft_of(output, prompt))

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        _reject_temperature(temperature, self._name)
        messages = copy_messages(prompt)
        if langchain_private.listeners(config):
            output = await self._as_runnable().ainvoke(messages, config)
        else:
            output = await self._acall(messages)
        return own_copy(draft_of(output, prompt))

    async def _acall(self, messages: list[BaseMessage]) -> object:
        if self._async:
            return await _await_value(self._function(messages))
        output = await in_thread(self._function, messages)
        return await output if inspect.isawaitable(output) else output

    def _as_runnable(self) -> RunnableLambda[Any, Any]:
        """Return the function as a runnable, so that tracers record each call as a run."""

        async def arun(prompt: list[BaseMessage]) -> object:
            return await self._acall(prompt)

        def run(prompt: list[BaseMessage]) -> object:
            return waited_for(self._function(prompt))

        return RunnableLambda(run, arun, name=self._name)


class _NamedGenerator:
    """A chat model specified by name, created on first use."""

    may_interrupt = False

    def __init__(self, name: str) -> None:
        self._name = name
        self._cached: _RunnableGenerator | None = None

    @property
    def _generator(self) -> _RunnableGenerator:
        if self._cached is None:
            self._cached = _RunnableGenerator(chat_model(self._name))
        return self._cached

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        return self._generator.draft(prompt, config, temperature)

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        return await self._generator.adraft(prompt, config, temperature)


def _chat_model_in(runnable: object) -> BaseChatModel | None:
    """Return the chat model itself, or the one inside a binding; None where there is none."""
    bound = _unbound(runnable)
    return bound if isinstance(bound, BaseChatModel) else None


def _graph_in(runnable: object) -> Pregel[Any, Any, Any, Any] | None:
    """Return the compiled graph itself, or the one inside a binding; None where there is none."""
    bound = _unbound(runnable)
    return bound if isinstance(bound, Pregel) else None


def _unbound(runnable: object) -> object:
    """Return what is inside of bindings such as those of `with_config` and `with_retry`."""
    return _layers(runnable)[-1]


def _layers(runnable: object) -> list[object]:
    """Return a runnable, and what is bound in it, from the outside to the inside."""
    layers = [runnable]
    while not isinstance(layers[-1], BaseChatModel | Pregel) and getattr(layers[-1], "bound", None) is not None:
        layers.append(layers[-1].bound)  # type: ignore[attr-defined]  # checked in the line above
    return layers


def _bound_step_limit(runnable: object) -> int | None:
    """Return the step limit that `with_config` gave a runnable or what is bound in it; None where it gave none."""
    configs = (getattr(layer, "config", None) for layer in _layers(runnable))
    limits = (config.get("recursion_limit") for config in configs if isinstance(config, Mapping))
    return next((limit for limit in limits if isinstance(limit, int)), None)


def _inheriting(own: RunnableConfig, config: RunnableConfig) -> AbstractContextManager[None]:
    """Let a runnable inherit its own config, since bindings merge what they inherit with what they are given."""
    return nullcontext() if own is config else langchain_private.use_config(own)


def _muted(runnable: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return a runnable whose own handlers show no drafts: those of a chat model, a binding, a chain of these."""
    if isinstance(runnable, RunnableSequence):
        muted = [_muted(step) for step in runnable.steps]
        changed = any(ours is not theirs for ours, theirs in zip(muted, runnable.steps, strict=True))
        return RunnableSequence(*muted, name=runnable.name) if changed else runnable
    update: dict[str, Any] = {}
    if isinstance(runnable, RunnableBindingBase):
        bound = _muted(runnable.bound)
        update = {} if bound is runnable.bound else {"bound": bound}
        if bound_to := runnable.config.get("callbacks"):
            update["config"] = {**runnable.config, "callbacks": langchain_private.muted_callbacks(bound_to)}
    elif isinstance(runnable, BaseChatModel):
        own = runnable.callbacks
        runnable = keeping_refusals(runnable)
        update = {"callbacks": langchain_private.muted_callbacks(own)} if own else {}
    return runnable.model_copy(update=update) if update else runnable  # type: ignore[attr-defined]  # of pydantic


def _only_reads(runnable: object) -> bool:
    """Check whether a runnable is a chat model of LangChain's packages, which leave their messages as they are."""
    model = _chat_model_in(runnable)
    package = "" if model is None or model.callbacks else type(model).__module__.partition(".")[0]
    return package.startswith("langchain") or package == "judges"


def _prompt_variable(runnable: object) -> str | None:
    """Return the variable for the messages if a chain begins with a prompt template, otherwise None."""
    first = runnable.first if isinstance(runnable, RunnableSequence) else runnable
    if not isinstance(first, BasePromptTemplate):
        return None
    names = first.input_variables
    lists = [name for name in names if "list" in str(first.input_types.get(name, "")).lower()]
    if len(names) == 1 and lists:
        return names[0]
    raise ConfigurationError(
        f"the chain's prompt takes {sorted(names)}, so the loop cannot hand it the messages; use one "
        f"MessagesPlaceholder('messages') as its only variable, or wrap the chain in a function of the messages"
    )


def _is_saved(runnable: Runnable[Any, Any]) -> bool:
    """Check whether a runnable is a graph of which every part may be saved by the checkpointer around it."""
    graph = _graph_in(runnable)
    return graph is not None and not _declines(graph)


def _declines(runnable: object) -> bool:
    """Check whether a graph, or one that is a node in it, declines every checkpointer."""
    graph = _graph_in(runnable)
    if graph is None:
        return False
    return graph.checkpointer is False or any(_declines(node.bound) for node in graph.nodes.values())


def _has_own_memory(runnable: object) -> bool:
    """Check whether a graph, or a runnable with a `checkpointer` such as `SelfRefine`, has one of its own."""
    checkpointer = getattr(_unbound(runnable), "checkpointer", None)
    return checkpointer is not None and not isinstance(checkpointer, bool)


def _reject_temperature(temperature: float | None, name: str) -> None:
    if temperature is not None:
        raise ConfigurationError(
            f"temperature={temperature!r} can be overridden for a chat model, not for the function {name!r}; "
            f"override model=... with another function"
        )


async def _await_value(value: Any) -> object:
    return await value
