"""The door to LangChain: any chat model answers a judge's questions.

LangChain is imported when a model is first asked, never with this module.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from judges.errors import ConfigurationError
from judges.model import ModelRequest, ModelResponse
from judges.models.methods import Method, Plan, closed_schema, only, response_format
from judges.models.retry import status_of
from judges.runtime.no_requests import check_allowed
from judges.verdict import Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

RETRIES = 2
"""How often a failed transport is repeated for a model whose own client does not."""

_FINISH_REASONS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
_PROVIDER_PACKAGES = "install the provider's package, for instance selfrefine[openai], [anthropic] or [ollama]"


def looks_like_chat_model(given: object) -> bool:
    """Tell a chat model by what it can do, without importing LangChain."""
    return all(hasattr(given, name) for name in ("invoke", "ainvoke", "bind")) and any(
        hasattr(given, name) for name in ("bind_tools", "with_structured_output")
    )


class LangChainModel:
    """Ask a LangChain chat model.

    The reply is asked for as one forced tool call, built once per schema: LangChain's cheapest way. A model that
    has no tools, by its class, its profile or its provider's word, or that does not use them, is asked by JSON
    schema or for the object as text; what was learned is remembered. LangChain's own parsers are not used: they
    repair cut replies and take the first of two contradicting calls. For the same reason a judge's model never
    streams, whatever surrounds the call: LangChain completes the arguments of a streamed call that broke off. So
    a copy of the model is asked, which shares its client.

    Args:
        chat: The chat model, or a binding of one.
        temperature: Asked for where the model has a temperature that was left unset; None asks for nothing.
        method: `"tools"`, `"json_schema"` or `"text"`, and never another; None chooses as said above.

    Raises:
        ConfigurationError: If there is no such method; when first asked, if the model does not have it.
    """

    def __init__(self, chat: Any, *, temperature: float | None = 0.0, method: Method | None = None) -> None:
        self.chat = chat
        self._temperature = temperature
        self._method = method if method is None else only(method)[0]
        self._plan: Plan | None = None
        self._bindings: dict[tuple[type[BaseModel] | None, Plan], _Bound] = {}

    @cached_property
    def name(self) -> str:
        """Model name where the chat model tells one, else its class."""
        for attribute in ("model_name", "model"):
            value = getattr(self.chat, attribute, None)
            if isinstance(value, str) and value:
                return value
        return type(self.chat).__name__

    @cached_property
    def retries(self) -> int:
        """None on top of the client's own; a client that was told nothing (None) has some."""
        return RETRIES if getattr(self.chat, "max_retries", 0) == 0 else 0

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply."""
        check_allowed(self.name, self.chat)
        plan = self._planned(request)
        while True:
            try:
                reply = self._bound_to(request, plan).ask(request)
            except Exception as error:
                lesser = plan.conceding(status_of(error), str(error))
                if lesser is None:
                    raise
                plan = lesser
            else:
                return self._learned(request, plan, reply)

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        check_allowed(self.name, self.chat)
        plan = self._planned(request)
        while True:
            try:
                reply = await self._bound_to(request, plan).aask(request)
            except Exception as error:
                lesser = plan.conceding(status_of(error), str(error))
                if lesser is None:
                    raise
                plan = lesser
            else:
                return self._learned(request, plan, reply)

    def is_model(self, other: object) -> bool:
        """Tell whether `other` is the chat model asked here, or another handle on the same one."""
        mine, theirs = _unbound(self.chat).runnable, _unbound(other).runnable
        if theirs is mine:
            return True
        told = getattr(theirs, "model_name", None) or getattr(theirs, "model", None)
        return type(theirs) is type(mine) and isinstance(told, str) and told == self.name

    def _planned(self, request: ModelRequest) -> Plan:
        if self._plan is None:
            self._plan = Plan(self._methods(), self._temperature)
        return self._plan.as_text() if request.text else self._plan

    def _learned(self, request: ModelRequest, plan: Plan, reply: ModelResponse) -> ModelResponse:
        self._plan = plan.back_to(self._plan or plan) if request.text else plan.learning(reply)
        return reply

    def _methods(self) -> tuple[Method, ...]:
        """Choose the ways: those the model's class implements and its profile does not rule out."""
        chat = _unbound(self.chat).runnable
        profile = getattr(chat, "profile", None) or {}
        has: dict[Method, bool] = {
            "tools": _overrides(chat, "bind_tools"),
            "json_schema": _overrides(chat, "with_structured_output"),
            "text": True,
        }
        if self._method is not None:
            if not has[self._method]:
                raise ConfigurationError(f"{self.name} cannot be asked by {self._method!r}; choose another method")
            return (self._method,)
        ruled_out = {
            "tools": profile.get("tool_calling") is False or profile.get("tool_choice") is False,
            "json_schema": profile.get("structured_output") is False,
        }
        return tuple(method for method, there in has.items() if there and not ruled_out.get(method))

    def _bound_to(self, request: ModelRequest, plan: Plan) -> _Bound:
        key = (None if request.text else request.schema, plan)
        if key not in self._bindings:
            self._bindings[key] = self._bind(*key)
        return self._bindings[key]

    def _bind(self, schema: type[BaseModel] | None, plan: Plan) -> _Bound:
        given = _unbound(self.chat)
        chat = _quiet(given.runnable, plan.temperature)
        if schema is None or plan.method == "text":
            bound = _Bound(chat, {}, {})
        elif plan.method == "tools":
            bound = _unbound(chat.bind_tools([schema], tool_choice=schema.__name__))
        else:
            bound = _bound_by_schema(chat, schema)
        kept = {name: value for name, value in given.settings.items() if name not in ("tools", "tool_choice")}
        return _Bound(bound.runnable, {**kept, **bound.settings}, {**given.config, **bound.config})


@dataclass(frozen=True, slots=True)
class _Bound:
    """A runnable, and what it is called with: a binding laid open, which costs less to call than the binding."""

    runnable: Any
    settings: dict[str, Any]
    config: dict[str, Any]

    def ask(self, request: ModelRequest) -> ModelResponse:
        return _raw(self.runnable.invoke(_messages(request), self.config or None, **self.settings))

    async def aask(self, request: ModelRequest) -> ModelResponse:
        return _raw(await self.runnable.ainvoke(_messages(request), self.config or None, **self.settings))


def _unbound(chat: Any) -> _Bound:
    from langchain_core.runnables import RunnableBinding  # noqa: PLC0415 - loaded with the first request

    settings: dict[str, Any] = {}
    config: dict[str, Any] = {}
    while isinstance(chat, RunnableBinding):
        settings, config = {**chat.kwargs, **settings}, {**chat.config, **config}
        chat = chat.bound
    return _Bound(chat, settings, config)


def _bound_by_schema(chat: Any, schema: type[BaseModel]) -> _Bound:
    """Bind a schema in the provider's own way, without the parser that LangChain puts after the model."""
    from langchain_core.runnables import RunnableBinding, RunnableSequence  # noqa: PLC0415 - on demand

    whole = chat.with_structured_output(closed_schema(schema), method="json_schema")
    first = whole.first if isinstance(whole, RunnableSequence) else None
    if not isinstance(first, RunnableBinding):
        return _Bound(chat.with_structured_output(schema), {}, {})
    bound = _unbound(first)
    settings = {name: value for name, value in bound.settings.items() if name != "ls_structured_output_format"}
    told = settings.get("response_format")
    if isinstance(told, Mapping) and told.get("type") == "json_schema":
        settings["response_format"] = response_format(schema)
    return _Bound(bound.runnable, settings, bound.config)


class NamedModel:
    """A chat model known by a `"provider:model"` string, created when it is first asked.

    Args:
        name: The string.
        temperature: As for `LangChainModel`.
        method: As for `LangChainModel`.

    Attributes:
        retries: Ours alone: the client is created without any.
    """

    def __init__(self, name: str, *, temperature: float | None = 0.0, method: Method | None = None) -> None:
        self.name = name
        self._temperature = temperature
        self._method = method if method is None else only(method)[0]
        self.retries = RETRIES

    @cached_property
    def _model(self) -> LangChainModel:
        chat = chat_model(self.name, max_retries=0)
        return LangChainModel(chat, temperature=self._temperature, method=self._method)

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply."""
        return self._model.send(request)

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        return await self._model.asend(request)

    def is_model(self, other: object) -> bool:
        """Tell whether `other` is the same name, or a model of that name."""
        told = getattr(other, "model_name", None) or getattr(other, "model", None)
        return other == self.name or (isinstance(told, str) and told == self.name.partition(":")[2])


def chat_model(name: str, *, base_url: str | None = None, **settings: Any) -> BaseChatModel:
    """Create the chat model that a `"provider:model"` string names.

    Args:
        name: The string.
        base_url: Address of an OpenAI-compatible server that has the model; the provider is then OpenAI, may be
            left out of the name, and a key is needed only if the server asks for one.
        settings: What the provider's class takes, for instance `temperature=0.7`.

    Raises:
        ConfigurationError: If the provider is unknown, its package or its key is missing.
    """
    if base_url is not None:
        key = os.environ.get("OPENAI_API_KEY") or "none-needed"
        settings = {"api_key": key, **settings, "base_url": base_url}
        name = f"openai:{name.removeprefix('openai:')}"
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra, opened on demand
    except ImportError as error:
        raise ConfigurationError(f"to use the model {name!r} by name, {_PROVIDER_PACKAGES}") from error
    try:
        model: BaseChatModel = init_chat_model(name, **settings)
    except ImportError as error:
        raise ConfigurationError(f"the model {name!r} is not available: {_PROVIDER_PACKAGES}") from error
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigurationError(f"the model {name!r} cannot be set up: {reason}") from error
    return model


def _quiet(chat: Any, temperature: float | None) -> Any:
    """Give a copy of a model that does not stream and has a temperature, where it can and has not already."""
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 - loaded with the first request

    if not isinstance(chat, BaseChatModel):
        return chat
    changes: dict[str, object] = {}
    if _overrides(chat, "_stream") or _overrides(chat, "_astream"):
        changes["disable_streaming"] = True
    if temperature is not None and getattr(chat, "temperature", ...) is None:
        changes["temperature"] = temperature
    quiet = chat.model_copy(update=changes) if changes else chat
    if quiet is not chat and hasattr(quiet, "_create_chat_result"):
        _hand_on_arguments(quiet)
    return quiet


def _hand_on_arguments(chat: Any) -> None:
    """Let a copy of an OpenAI model hand on the raw arguments of tool calls.

    LangChain keeps only what it parsed, in which the last of two equal keys has won and the other is gone.
    """
    create = chat._create_chat_result  # noqa: SLF001 - where replies pass; partner packages override it, too

    def created(response: Any, *args: Any, **kwargs: Any) -> Any:
        result = create(response, *args, **kwargs)
        for generation, choice in zip(result.generations, _part(response, "choices") or (), strict=False):
            calls = _part(_part(choice, "message"), "tool_calls") or ()
            told = [{"function": {"arguments": _part(_part(call, "function"), "arguments")}} for call in calls]
            if told:
                generation.message.additional_kwargs["tool_calls"] = told
        return result

    object.__setattr__(chat, "_create_chat_result", created)  # pydantic lets no method be set otherwise


def _part(thing: Any, name: str) -> Any:
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _overrides(chat: object, method: str) -> bool:
    """Tell whether a model implements a method that LangChain's base class only declares."""
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 - loaded with the first request

    kind = type(chat)
    if isinstance(chat, BaseChatModel):
        return getattr(kind, method) is not getattr(BaseChatModel, method)
    return hasattr(chat, method)


def _messages(request: ModelRequest) -> list[BaseMessage]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage  # noqa: PLC0415 - on demand

    kinds = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}
    return [kinds[role](text) for role, text in request.messages]


def _raw(reply: Any) -> ModelResponse:
    if isinstance(reply, BaseModel) and not hasattr(reply, "response_metadata"):
        return ModelResponse(text=reply.model_dump_json())
    if isinstance(reply, Mapping):
        return ModelResponse(text=json.dumps(dict(reply), default=str))
    if reply is None or isinstance(reply, str):
        return ModelResponse(text=reply or "")
    told = reply.response_metadata or {}
    return ModelResponse(
        text=str(reply.text),
        calls=tuple(_calls(reply)),
        broken_calls=len(getattr(reply, "invalid_tool_calls", ())),
        finish_reason=_finish_reason(told),
        refusal=str(reply.additional_kwargs.get("refusal") or ""),
        usage=usage_of(reply),
        model=told.get("model_name") or told.get("model"),
    )


def _finish_reason(told: Mapping[str, Any]) -> str:
    """Read why the reply ended, under the name that the provider gives it."""
    incomplete = told.get("incomplete_details")
    given = [told.get(name) for name in _FINISH_REASONS]
    given.append(incomplete.get("reason") if isinstance(incomplete, Mapping) else None)
    return str(next((reason for reason in given if reason), ""))


def _calls(reply: Any) -> Iterator[tuple[str, str | dict[str, Any]]]:
    """Yield the tool calls, with their raw JSON where the provider handed it on: only it shows duplicate keys."""
    raw = reply.additional_kwargs.get("tool_calls")
    calls = getattr(reply, "tool_calls", ())
    told = raw if isinstance(raw, list) and len(raw) == len(calls) else [None] * len(calls)
    for call, one in zip(calls, told, strict=True):
        function = one.get("function") if isinstance(one, Mapping) else None
        arguments = function.get("arguments") if isinstance(function, Mapping) else None
        yield call["name"], arguments if isinstance(arguments, str) else call["args"]


def usage_of(message: Any) -> Usage:
    """Read what one reply consumed from the usage metadata of its message."""
    told = getattr(message, "usage_metadata", None) or {}
    return Usage(
        calls=1,
        input_tokens=told.get("input_tokens") or 0,
        output_tokens=told.get("output_tokens") or 0,
        cost=None,
    )
