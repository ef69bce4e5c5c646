"""Client of LangChain: any chat model answers a judge's questions.

LangChain is imported with the first request, never with this module.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from judges.errors import ConfigurationError, one_line, shortened, unfit
from judges.messages import MediaKind, langchain_content
from judges.model import ModelRequest, ModelResponse, PromptRole
from judges.models.likelihood import ALTERNATIVES, NOT_GIVEN, REFUSED, tokens_in, with_ratings
from judges.models.prompt_and_reply import finish_reason_of
from judges.models.providers.http import checked_address
from judges.models.providers.llama import serve_locally
from judges.models.providers.openai_settings import address_for, local_name, parsed_name
from judges.models.retry import status_of
from judges.models.structured import (
    KEYWORDS,
    Method,
    RequestPlan,
    Sizes,
    checked_methods,
    closed_schema,
    digit_format,
    forced_tool,
    response_format,
)
from judges.runtime import flow
from judges.runtime.observation import seconds_left
from judges.runtime.validation import SharedByCopies, ban, check_allowed, check_picklable
from judges.verdict import Usage

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

_HOOK = "_create_chat_result"
"""All replies of chat completions pass it; partner packages have it, too, and override it."""


def _drops_arguments(chat: object) -> bool:
    """Check whether a model is one of LangChain's OpenAI models, or works like one: it drops raw arguments."""
    return any(
        _HOOK in vars(kind) or kind.__module__.partition(".")[0] == "langchain_openai"
        for kind in type(chat).__mro__
    )


def _keep_raw_arguments(chat: Any) -> None:
    """Patch a model to keep the raw arguments of tool calls in its messages.

    Args:
        chat: A copy of the user's model; it is changed.
    """
    create = getattr(chat, _HOOK, None)
    if create is None:
        return

    def create_with_arguments(response: Any, *args: Any, **kwargs: Any) -> Any:
        result = create(response, *args, **kwargs)
        choices = _part(response, "choices") or ()
        if len(choices) == len(result.generations):
            for generation, choice in zip(result.generations, choices, strict=True):
                _keep(generation.message, _part(_part(choice, "message"), "tool_calls") or ())
        return result

    object.__setattr__(chat, _HOOK, create_with_arguments)  # pydantic forbids setattr here


def _keep(message: Any, calls: Any) -> None:
    raw = [{"function": {"arguments": _part(_part(call, "function"), "arguments")}} for call in calls]
    if raw:
        message.additional_kwargs["tool_calls"] = raw


def _raw_arguments(message: Any) -> list[Any]:
    """List the arguments of a message's tool calls as they were received: JSON text where the message has it.

    Args:
        message: A LangChain message; what a provider left in it may have any shape.
    """
    calls = message.additional_kwargs.get("tool_calls")
    if isinstance(calls, list):
        return [_part(_part(call, "function"), "arguments") for call in calls]
    blocks = message.content if isinstance(message.content, list) else ()
    return [_part(block, "arguments") for block in blocks if _part(block, "type") == "function_call"]


def _part(whole: Any, name: str) -> Any:
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)


RETRIES = 2
"""How often a failed transport is repeated for a model whose own client does not retry."""

_NAME_IT = "name it, as in 'openai:gpt-5-mini', and each process takes the key from its environment"
_PROVIDER_PACKAGES = "install the provider's package, for instance selfrefine[openai], [anthropic] or [ollama]"

_NAMING = "a model is named by provider and model, for instance 'openai:gpt-5-mini'"


def looks_like_chat_model(candidate: object) -> bool:
    """Check by its methods whether `candidate` is a chat model, without importing LangChain."""
    return all(hasattr(candidate, name) for name in ("invoke", "ainvoke", "bind")) and (
        _has_method(candidate, "bind_tools") or _has_method(candidate, "with_structured_output")
    )


def _has_method(candidate: object, name: str) -> bool:
    """Check whether a thing has a method, also where looking for it fails.

    A LangChain model with fallbacks reads the method's annotations first, which may name what its module imports
    for type checkers alone.
    """
    try:
        return hasattr(candidate, name)
    except Exception:  # noqa: BLE001 - whatever else than AttributeError comes of a method that is there
        return True


class LangChainModel(SharedByCopies):
    """Ask a LangChain chat model.

    The reply is requested as one forced tool call, built once per schema: LangChain's cheapest method. A model
    without tools, by its class, its profile or its provider's errors, or one that ignores them, is asked by JSON
    schema or for the object as text from then on. LangChain's own parsers are not used: they repair cut replies
    and take the first of two contradicting calls. For the same reason a judge's model never streams, even inside
    a streaming application: LangChain completes the arguments of a streamed call that broke off. So a copy of the
    model is asked, which shares its client.

    Args:
        chat: The chat model, or a binding of one.
        temperature: Sampling temperature for models that set none; None keeps the provider's default.
        method: `"tools"`, `"json_schema"` or `"text"`, without fallback; None chooses as described above.

    Raises:
        ConfigurationError: If there is no such method; on the first request, if the model does not have it.
    """

    def __init__(self, chat: Any, *, temperature: float | None = 0.0, method: Method | None = None) -> None:
        self.chat = chat
        self.replies_in_turn = getattr(chat, "replies_in_turn", False) is True
        self._temperature = temperature
        self._method = method if method is None else checked_methods(method)[0]
        self._plan: RequestPlan | None = None
        self._rated_plans: dict[bool, RequestPlan] = {}
        self._alternatives: int | None = None
        self._bindings: dict[tuple[type[BaseModel] | None, RequestPlan, Sizes, int | None], _Binding] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        check_picklable(self.chat, f"the chat model {self.name!r}", _NAME_IT)
        return partial(LangChainModel, temperature=self._temperature, method=self._method), (self.chat,)

    @cached_property
    def name(self) -> str:
        """Model name if the chat model has one, else its class."""
        for attribute in ("model_name", "model"):
            value = getattr(self.chat, attribute, None)
            if isinstance(value, str) and value:
                return value
        return type(self.chat).__name__

    @cached_property
    def retries(self) -> int:
        """0 where the client retries by itself, as it also does with `max_retries=None`."""
        return RETRIES if getattr(self.chat, "max_retries", 0) == 0 else 0

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply."""
        exchange = self._exchange(request)
        return flow.run(exchange, lambda plan: self._binding(request, plan).send(request))

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        return await flow.arun(self._exchange(request), lambda plan: self._binding(request, plan).asend(request))

    def _exchange(self, request: ModelRequest) -> Generator[RequestPlan, ModelResponse, ModelResponse]:
        """Yield plans until the model replies to one, asking for less where it knows less."""
        if ban.depth:
            check_allowed(self.name, self.chat)
        is_rated = request.is_rated or bool(request.digits)
        plan = self._rated_plan_for(request) if is_rated else self._plan_for(request)
        while True:
            try:
                response = yield plan
            except Exception as error:
                lesser = plan.after_error(status_of(error), str(error))
                if lesser is None:
                    raise
                plan = lesser
            else:
                remember = self._remember_rated_plan if is_rated else self._remember_plan
                return remember(request, plan, response)

    def is_model(self, other: object) -> bool:
        """Check whether `other` is this chat model, or another handle on the same one."""
        mine, theirs = _unwrap(self.chat).runnable, _unwrap(other).runnable
        if theirs is mine or getattr(mine, "scripted", False):
            return theirs is mine  # two scripts are two models, whatever they are called
        other_name = getattr(theirs, "model_name", None) or getattr(theirs, "model", None)
        return type(theirs) is type(mine) and isinstance(other_name, str) and other_name == self.name

    def takes(self, kind: MediaKind) -> bool:
        """True if the model may be sent images, or audio: unless its profile says that it does not take them."""
        profile = getattr(_unwrap(self.chat).runnable, "profile", None) or {}
        return profile.get(f"{kind}_inputs") is not False

    def _plan_for(self, request: ModelRequest) -> RequestPlan:
        if self._plan is None:
            keywords = KEYWORDS if _drops_arguments(_unwrap(self.chat).runnable) else ()
            self._plan = RequestPlan(self._methods(), self._temperature, keywords=keywords)
        return self._plan.as_text() if request.text else self._plan

    def _remember_plan(self, request: ModelRequest, plan: RequestPlan, response: ModelResponse) -> ModelResponse:
        self._plan = plan.settings_on(self._plan or plan) if request.text else plan.after_response(response)
        return response

    def _rated_plan_for(self, request: ModelRequest) -> RequestPlan:
        """Return the plan for a request that asks how likely each rating was.

        No provider tells that of a tool's arguments, so that a schema or the prompt alone asks for the object.
        """
        chat = _unwrap(self.chat).runnable
        if self._alternatives is None:
            self._alternatives = ALTERNATIVES if _gives_logprobs(chat) else 0
        if not (self._alternatives or request.digits):
            return self._plan_for(request)
        plan = self._rated_plans.get(bool(request.digits))
        if plan is None:
            methods = tuple(method for method in self._methods() if method != "tools") or self._methods()
            keywords = KEYWORDS if _drops_arguments(chat) else ()
            plan = RequestPlan(methods, self._temperature, keywords=keywords)
            plan = plan if not request.digits else plan.for_digit(is_enforced=_drops_arguments(chat))
        return replace(plan, logprobs=self._alternatives, digits=request.digits)

    def _remember_rated_plan(
        self, request: ModelRequest, plan: RequestPlan, response: ModelResponse
    ) -> ModelResponse:
        if self._alternatives or request.digits:
            working_plan = plan if request.digits else plan.after_response(response)
            self._rated_plans[bool(request.digits)] = replace(working_plan, logprobs=0, digits=())
        else:
            self._remember_plan(request, plan, response)
        self._alternatives = plan.logprobs
        return response

    def _methods(self) -> tuple[Method, ...]:
        """Return the methods that the model's class implements and its profile does not rule out."""
        chat = _unwrap(self.chat).runnable
        profile = getattr(chat, "profile", None) or {}
        implemented: dict[Method, bool] = {
            "tools": _overrides(chat, "bind_tools"),
            "json_schema": _overrides(chat, "with_structured_output"),
            "text": True,
        }
        if self._method is not None:
            if not implemented[self._method]:
                raise ConfigurationError(f"{self.name} cannot be asked by {self._method!r}; choose another method")
            return (self._method,)
        ruled_out = {
            "tools": profile.get("tool_calling") is False or profile.get("tool_choice") is False,
            "json_schema": profile.get("structured_output") is False,
        }
        return tuple(method for method, present in implemented.items() if present and not ruled_out.get(method))

    def _binding(self, request: ModelRequest, plan: RequestPlan) -> _Binding:
        schema = None if request.text else request.schema
        key = (schema, plan, request.sizes, request.most_items)
        if key not in self._bindings:
            self._bindings[key] = self._bind(schema, plan).narrowed(request, plan)
        return self._bindings[key]

    def _bind(self, schema: type[BaseModel] | None, plan: RequestPlan) -> _Binding:
        unwrapped_chat = _unwrap(self.chat)
        chat = _without_streaming(unwrapped_chat.runnable, plan.temperature)
        if plan.digits:
            bound = _bind_digit(chat, plan)
        elif schema is None or plan.method == "text":
            bound = _Binding(chat, {}, {})
        elif plan.method == "tools":
            bound = _unwrap(chat.bind_tools([schema], tool_choice=schema.__name__))
        else:
            bound = _bind_schema(chat, schema)
        settings = {
            name: value for name, value in unwrapped_chat.settings.items() if name not in ("tools", "tool_choice")
        }
        settings, config = {**settings, **bound.settings}, {**unwrapped_chat.config, **bound.config}
        reason = NOT_GIVEN
        if plan.logprobs:
            settings |= {"logprobs": True, "top_logprobs": plan.logprobs}
        elif _gives_logprobs(unwrapped_chat.runnable):
            reason = REFUSED
        else:
            reason = f"LangChain's {type(unwrapped_chat.runnable).__name__} gives no logprobs"
        raw_only = _drops_arguments(unwrapped_chat.runnable)
        return _Binding(bound.runnable, settings, config, raw_only=raw_only, no_logprobs=reason)


@dataclass(frozen=True, slots=True)
class _Binding:
    """A runnable, and its settings and config apart from it, which costs less to call than a LangChain binding.

    Args:
        runnable: The model, or what stands for it.
        settings: Keyword arguments of every call.
        config: Config of every call.
        raw_only: Whether parsed arguments of a tool call count for nothing without their raw text.
        no_logprobs: Why a reply has no logprobs, if it has none.
    """

    runnable: Any
    settings: dict[str, Any]
    config: dict[str, Any]
    raw_only: bool = False
    no_logprobs: str = NOT_GIVEN

    def narrowed(self, request: ModelRequest, plan: RequestPlan) -> _Binding:
        """Return the same with a schema that says how many items and how long texts a reply has, if one may."""
        plan_key = (request.schema, request.sizes, plan.keywords, request.most_items)
        settings: dict[str, Any] = {}
        if request.text or not plan.keywords:
            return self
        if plan.method == "tools" and _is_function(self.settings.get("tools")):
            settings = {"tools": forced_tool(*plan_key)["tools"]}
        elif plan.method == "json_schema" and "response_format" in self.settings:
            settings = {"response_format": response_format(*plan_key)}
        return replace(self, settings={**self.settings, **settings})

    def send(self, request: ModelRequest) -> ModelResponse:
        ask = partial(self.runnable.invoke, _messages(request), self.config or None, **self.settings)
        seconds = seconds_left()
        reply: Any = ask() if seconds is None else flow.call_within(seconds, ask)
        return self._read(reply, request)

    async def asend(self, request: ModelRequest) -> ModelResponse:
        asking = self.runnable.ainvoke(_messages(request), self.config or None, **self.settings)
        reply = await flow.acall_within(seconds_left(), asking)
        return self._read(reply, request)

    def _read(self, reply: Any, request: ModelRequest) -> ModelResponse:
        response = _response(reply, raw_only=self.raw_only)
        if not (request.is_rated or request.digits):
            return response
        response = replace(response, has_reasoned=_has_reasoned(reply))
        tokens = tokens_in(getattr(reply, "response_metadata", None) or {})
        return with_ratings(response, request, tokens, reason=self.no_logprobs)


def _is_function(tools: Any) -> bool:
    """Check whether tools are one function in the form of chat completions."""
    is_one = isinstance(tools, list) and len(tools) == 1 and isinstance(tools[0], Mapping)
    return is_one and set(tools[0]) == {"type", "function"}


def _unwrap(chat: Any) -> _Binding:
    from langchain_core.runnables import RunnableBinding  # noqa: PLC0415 - loaded with the first request

    settings: dict[str, Any] = {}
    config: dict[str, Any] = {}
    while isinstance(chat, RunnableBinding):
        settings, config = {**chat.kwargs, **settings}, {**chat.config, **config}
        chat = chat.bound
    return _Binding(chat, settings, config)


def _bind_schema(chat: Any, schema: type[BaseModel]) -> _Binding:
    """Bind a schema as the provider does, without the parser that LangChain puts after the model."""
    from langchain_core.runnables import RunnableBinding, RunnableSequence  # noqa: PLC0415 - on demand

    whole = chat.with_structured_output(closed_schema(schema), method="json_schema")
    first = whole.first if isinstance(whole, RunnableSequence) else None
    if not isinstance(first, RunnableBinding):
        return _Binding(chat.with_structured_output(schema), {}, {})
    bound = _unwrap(first)
    settings = {name: value for name, value in bound.settings.items() if name != "ls_structured_output_format"}
    provider_format = settings.get("response_format")
    if isinstance(provider_format, Mapping) and provider_format.get("type") == "json_schema":
        settings["response_format"] = response_format(schema)
    return _Binding(bound.runnable, settings, bound.config)


def _bind_digit(chat: Any, plan: RequestPlan) -> _Binding:
    """Bind what keeps a reply to one digit: the shortest length, and a schema where it may be enforced."""
    names = [name for name in ("max_tokens", "max_output_tokens", "num_predict") if name in _fields_of(chat)]
    if names and plan.most:
        chat = chat.model_copy(update={names[0]: plan.most})
        if _drops_arguments(chat):
            _keep_raw_arguments(chat)
    format_ = {"response_format": digit_format(plan.digits)} if plan.method == "json_schema" else {}
    return _Binding(chat, format_, {})


def _has_reasoned(reply: Any) -> bool:
    """Return whether the model reasoned before it replied, as its message says, or the text shows."""
    usage = getattr(reply, "usage_metadata", None) or {}
    details = usage.get("output_token_details")
    blocks = reply.content if isinstance(getattr(reply, "content", None), list) else ()
    return bool(
        getattr(reply, "additional_kwargs", {}).get("reasoning_content")
        or (isinstance(details, Mapping) and details.get("reasoning"))
        or any(_part(block, "type") in ("reasoning", "thinking") for block in blocks)
        or str(getattr(reply, "text", "")).lstrip().startswith("<think>")
    )


def _gives_logprobs(chat: object) -> bool:
    """Return whether LangChain's client of a model can ask for logprobs: it has a setting for it."""
    return "logprobs" in _fields_of(chat)


def _fields_of(chat: object) -> Collection[str]:
    return getattr(type(chat), "model_fields", ())


class NamedModel:
    """A chat model by its `"provider:model"` string, created with the first request.

    Args:
        name: The string.
        temperature: As for `LangChainModel`.
        method: As for `LangChainModel`.

    Attributes:
        retries: Those of the driver alone: the client is created without retries.
    """

    def __init__(self, name: str, *, temperature: float | None = 0.0, method: Method | None = None) -> None:
        self.name = name
        self._temperature = temperature
        self._method = method if method is None else checked_methods(method)[0]
        self.retries = RETRIES

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_model"}  # which holds the key

    @cached_property
    def _model(self) -> LangChainModel:
        chat = chat_model(self.name, max_retries=0)
        return LangChainModel(chat, temperature=self._temperature, method=self._method)

    def connect(self) -> None:
        """Create the client now.

        Raises:
            ConfigurationError: If it cannot be, for instance since its key or its package is missing.
        """
        _ = self._model

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request and wait for the reply."""
        return self._model.send(request)

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking."""
        return await self._model.asend(request)

    def is_model(self, other: object) -> bool:
        """Check whether `other` is the same name, or a model of that name."""
        other_name = getattr(other, "model_name", None) or getattr(other, "model", None)
        return other == self.name or (isinstance(other_name, str) and other_name == self.name.partition(":")[2])


def chat_model(name: str, *, base_url: str | None = None, **settings: Any) -> BaseChatModel:
    """Create the chat model that a `"provider:model"` string names.

    Args:
        name: The string.
        base_url: Address of an OpenAI-compatible server that has the model; the provider is then OpenAI, may be
            left out of the name, and a key is needed only if the server asks for one. A name of the form
            `"openai-compatible:MODEL@BASE_URL"` holds it; `"local:smollm2"` starts its own on this machine.
        settings: Arguments of the provider's class, for instance `temperature=0.7`.

    Raises:
        ConfigurationError: If the provider is unknown, its package or its key is missing, or `base_url` is no
            address.
    """
    _check_name(name)
    parts = parsed_name(name)
    if parts is not None:
        name, base_url = parts[0], base_url or address_for(name, parts[1])
    elif local_name(name) is not None:
        if base_url is not None:
            raise ConfigurationError(f"{name!r} is on this machine and has no address; leave out base_url")
        server = serve_locally(name)
        settings, base_url = {**_without_proxies(), "api_key": server.key, **settings}, server.address
    if base_url is not None:
        checked_address(base_url)
        key = os.environ.get("OPENAI_API_KEY") or "none-needed"
        settings = {"api_key": key, **settings, "base_url": base_url}
        name = f"openai:{name.removeprefix('openai:')}"
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 - an extra, imported on demand
    except ImportError as error:
        raise ConfigurationError(f"to use the model {name!r} by name, {_PROVIDER_PACKAGES}") from error
    try:
        model: BaseChatModel = init_chat_model(name, **settings)
    except ImportError as error:
        raise ConfigurationError(f"the model {name!r} is not available: {_PROVIDER_PACKAGES}") from error
    except Exception as error:
        reason = one_line(str(error).partition("\n")[0] or type(error).__name__)
        hint = f"; {_NAMING}" if "provider" in reason else ""
        raise ConfigurationError(f"the model {shortened(name)} cannot be set up: {reason}{hint}") from error
    return model


def _without_proxies() -> dict[str, Any]:
    """Return settings by which a client asks this machine itself, whatever proxy the environment names."""
    try:
        from openai import DefaultAsyncHttpxClient, DefaultHttpxClient  # noqa: PLC0415 - an extra, on demand
    except ImportError:  # said better where the model is made
        return {}
    return {
        "http_client": DefaultHttpxClient(trust_env=False),
        "http_async_client": DefaultAsyncHttpxClient(trust_env=False),
        "openai_proxy": None,
    }


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not all(part.strip() for part in name.split(":", 1)):
        raise unfit(f"{_NAMING}", name)


def _without_streaming(chat: Any, temperature: float | None) -> Any:
    """Return a model without streaming and with `temperature` if it set none: a copy if anything changes."""
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 - loaded with the first request

    if not isinstance(chat, BaseChatModel):
        return chat
    changes: dict[str, object] = {}
    if _overrides(chat, "_stream") or _overrides(chat, "_astream"):
        changes["disable_streaming"] = True
    if temperature is not None and getattr(chat, "temperature", ...) is None:
        changes["temperature"] = temperature
    patched = _drops_arguments(chat)
    copy = chat.model_copy(update=changes) if changes or patched else chat
    if patched:
        _keep_raw_arguments(copy)
    return copy


def _overrides(chat: object, method: str) -> bool:
    """Check whether a model implements a method that LangChain's base class only declares."""
    from langchain_core.language_models import BaseChatModel  # noqa: PLC0415 - loaded with the first request

    kind = type(chat)
    if isinstance(chat, BaseChatModel):
        return getattr(kind, method) is not getattr(BaseChatModel, method)
    return hasattr(chat, method)


def _messages(request: ModelRequest) -> list[BaseMessage]:
    kinds = _message_kinds()
    if not request.attached:
        return [kinds[role](text) for role, text in request.messages]
    return [kinds[role](langchain_content(content)) for role, content in request.contents()]


@cache
def _message_kinds() -> Mapping[PromptRole, Callable[[Any], BaseMessage]]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage  # noqa: PLC0415 - on demand

    return {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}


def _response(reply: Any, *, raw_only: bool) -> ModelResponse:
    if isinstance(reply, BaseModel) and not hasattr(reply, "response_metadata"):
        return ModelResponse(text=reply.model_dump_json())
    if isinstance(reply, Mapping):
        return ModelResponse(text=json.dumps(dict(reply), default=str))
    if reply is None or isinstance(reply, str):
        return ModelResponse(text=reply or "")
    metadata = reply.response_metadata or {}
    return ModelResponse(
        text=str(reply.text),
        calls=tuple(_calls(reply, raw_only=raw_only)),
        broken_calls=len(getattr(reply, "invalid_tool_calls", ())),
        finish_reason=finish_reason_of(metadata),
        refusal=str(reply.additional_kwargs.get("refusal") or ""),
        usage=usage_of(reply),
        model=metadata.get("model_name") or metadata.get("model"),
    )


def _calls(reply: Any, *, raw_only: bool) -> Iterator[tuple[str, str | dict[str, Any] | None]]:
    """Yield the tool calls, with their raw JSON where there is any: only it shows duplicate keys."""
    calls = getattr(reply, "tool_calls", ())
    raw = _raw_arguments(reply) if calls else []
    for number, call in enumerate(calls):
        arguments = raw[number] if len(raw) == len(calls) else None
        if isinstance(arguments, str):
            yield call["name"], arguments
        elif raw_only and not isinstance(arguments, Mapping):  # a mapping: the provider itself sent no text
            yield call["name"], None
        else:
            yield call["name"], call["args"]


def usage_of(message: Any) -> Usage:
    """Return what one reply consumed, from the usage metadata of its message."""
    metadata = getattr(message, "usage_metadata", None)
    metadata = metadata if type(metadata) is dict or isinstance(metadata, Mapping) else {}
    details = metadata.get("input_token_details")
    cached = details.get("cache_read") if isinstance(details, Mapping) else None
    return Usage.of_call(metadata.get("input_tokens"), metadata.get("output_tokens"), cached)


M = TypeVar("M")

_REFUSAL_HOOK = "_convert_chunk_to_generation_chunk"
"""All chunks of chat completions pass it; partner packages have it, too, and override it."""


def keeping_refusals(chat: M) -> M:
    """Return a copy of a streaming OpenAI model that keeps refusals; any other model as it is."""
    convert = getattr(chat, _REFUSAL_HOOK, None) if getattr(chat, "streaming", False) else None
    if convert is None:
        return chat

    def convert_with_refusal(chunk: Any, *args: Any, **kwargs: Any) -> Any:
        converted = convert(chunk, *args, **kwargs)
        refusal = _refusal_in(chunk)
        if refusal and converted is not None:
            converted.message.additional_kwargs.setdefault("refusal", refusal)
        return converted

    copy: M = chat.model_copy()  # type: ignore[attr-defined]  # a LangChain model, since it has the hook
    object.__setattr__(copy, _REFUSAL_HOOK, convert_with_refusal)  # pydantic forbids setattr here
    return copy


def _refusal_in(chunk: Any) -> object:
    """Return the piece of a refusal that a chunk holds; of a stream of the beta API it is one level deeper."""
    for level in (chunk, chunk.get("chunk") if isinstance(chunk, Mapping) else None):
        choices = level.get("choices") if isinstance(level, Mapping) else None
        delta = choices[0].get("delta") if isinstance(choices, list) and choices else None
        if isinstance(delta, Mapping) and delta.get("refusal"):
            return delta["refusal"]
    return None
