"""One interface for all generators, from messages to a draft: chat models, runnables, functions, agent graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, closing, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, message_chunk_to_message
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.prompts import BasePromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langgraph.pregel import Pregel
from pydantic import JsonValue

from graphs import langchain_private, langgraph_private
from graphs.answers import Draft, check_whole
from graphs.augment import copy_message, copy_messages
from graphs.outcome import DraftError
from graphs.refinement import GeneratorPrompt
from graphs.structure import tool_result_in, with_answer_last
from judges.errors import BadSample, ConfigurationError, shortened
from judges.judge import waited_for
from judges.models.providers.langchain import chat_model, keeping_refusals, usage_of
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_messages import MessageDict, answer_of, to_dicts, to_messages
from judges.models.providers.openai_replies import model_in, usage_in
from judges.models.providers.openai_settings import names_direct_client
from judges.runtime.flow import in_thread
from judges.runtime.validation import ban, check_allowed
from judges.sample import Sample
from judges.verdict import Usage

T = TypeVar("T")

RETURN_DIRECT = "return_direct: the result of a tool is the answer"
"""The detail of an outcome whose answer a tool gave, which is handed on unjudged."""


_ANSWER_KEYS = ("answer", "output", "response", "result", "text")
_CONTEXT_KEYS = ("retrieved_contexts", "context", "contexts", "source_documents", "documents")


@dataclass(frozen=True, slots=True)
class Delta:
    """What a generator has written since the last one.

    Args:
        text: The text; empty for reasoning, or for what tells of the reply alone.
        is_call: Whether a tool is called, so that there may be no answer to judge.
        calls: As of a draft, as far as the generator says it already.
        is_anew: Whether the answer begins anew with it: what was written before is none of it.
    """

    text: str = ""
    is_call: bool = False
    calls: tuple[tuple[str | None, Usage], ...] = ()
    is_anew: bool = False


OnDelta = Callable[[Delta], None]
"""Takes what a generator has written; raises to have it stop."""


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What a generator is asked for.

    Args:
        prompt: The messages to answer.
        config: What calls inside inherit; a direct client finds it in the context.
        temperature: The temperature; None is the generator's own.
        on_delta: Told of the draft while it is written; None, and where the generator does not write in chunks,
            where nobody reads along.
    """

    prompt: list[BaseMessage]
    config: RunnableConfig
    temperature: float | None = None
    on_delta: OnDelta | None = None


def _copy_draft(draft: Draft) -> Draft:
    """Return a draft that shares nothing with a generator which may use its messages again."""
    return replace(draft, answer=copy_message(draft.answer), steps=tuple(copy_messages(draft.steps)))


def _draft_of(output: object, prompt: Sequence[BaseMessage]) -> Draft:
    """Convert the output of a generator to a draft.

    Raises:
        DraftError: If the output is not an answer.
        ConfigurationError: If a graph stopped for a human where nothing can resume it.
    """
    match output:
        case {"__interrupt__": _}:
            raise ConfigurationError(
                "the generator stopped to ask a human, and nothing could resume it; give the checkpointer to the "
                "loop, and an agent inside none of its own"
            )
        case AIMessageChunk():
            return _draft([_whole_message(output)])
        case AIMessage():
            return _draft([output])
        case str():
            return Draft(answer=AIMessage(output), calls=((None, Usage(calls=1, tokens_known=False)),))
        case {"messages": [*messages], **rest}:
            new = with_answer_last(_new_messages(messages, prompt), rest.get("structured_response"))
            return _draft(new, _contexts(rest))
        case [*messages] if messages and all(isinstance(message, BaseMessage) for message in messages):
            return _draft(_new_messages(messages, prompt))
        case Mapping():
            answer = next((output[key] for key in _ANSWER_KEYS if output.get(key) is not None), None)
            if isinstance(answer, str | AIMessage):
                draft = _draft_of(answer, prompt)
                return replace(draft, evidence=_contexts(output))
    raise DraftError(
        f"the generator returned {_shape_of(output)}, which is no answer; return a text, an AIMessage, a mapping "
        f"with 'messages', or one with 'answer' and, if there are any, 'context'"
    )


def _shape_of(output: object) -> str:
    """Describe an output without quoting its texts."""
    if isinstance(output, Mapping):
        return f"a mapping with the keys {sorted(map(str, output))}"
    return repr(output) if output is None or isinstance(output, int | float) else f"a {type(output).__name__}"


def _draft(messages: Sequence[Any], evidence: Mapping[str, JsonValue] | None = None) -> Draft:
    replies = [message for message in messages if isinstance(message, AIMessage)]
    calls = tuple([(reply.response_metadata.get("model_name"), usage_of(reply)) for reply in replies])
    if replies and messages[-1] is replies[-1]:
        check_whole(replies[-1])
        return Draft(answer=replies[-1], steps=tuple(messages[:-1]), evidence=evidence or {}, calls=calls)
    result = tool_result_in(messages)
    if result is None:
        raise DraftError(
            "the generator's messages do not end with an answer; the last one must be an AIMessage that follows "
            "the question"
        )
    answer, fault = result
    draft = Draft(answer=answer, steps=tuple(messages), evidence=evidence or {}, calls=calls)
    return replace(draft, fault=fault) if fault else replace(draft, skip_reason=RETURN_DIRECT)


def _whole_message(chunk: AIMessageChunk) -> AIMessage:
    message = message_chunk_to_message(chunk)
    if not isinstance(message, AIMessage):
        raise DraftError(f"the generator returned a {type(message).__name__}, not an AIMessage")
    return message


def _new_messages(messages: list[Any], prompt: Sequence[BaseMessage]) -> list[Any]:
    """Return the messages after the prompt, or after the last human message where the graph rewrote the prompt."""
    length = len(prompt)
    if len(messages) > length and all(
        ours.type == theirs.type and ours.text == theirs.text
        for ours, theirs in zip(prompt, messages, strict=False)
    ):
        return messages[length:]
    questions = [index for index, message in enumerate(messages) if getattr(message, "type", "") == "human"]
    return messages[questions[-1] + 1 :] if questions else messages


def _contexts(output: Mapping[Any, Any]) -> dict[str, JsonValue]:
    """Return the retrieved contexts of an output, in any form that a sample accepts; skip unreadable values."""
    for value in filter(None, map(output.get, _CONTEXT_KEYS)):
        try:
            texts = Sample.read(retrieved_contexts=value).retrieved_contexts
        except BadSample:
            continue
        if texts:
            return {"retrieved_contexts": list(texts)}
    return {}


_OF_A_STREAM = ("stream", "stream_options")
"""Fields of a request that say how its reply is sent, which is the client's matter."""


class _DirectGenerator:
    """Asks a direct client, whose request fields are bound to it.

    Args:
        client: The client.
    """

    may_interrupt = False
    writes_in_chunks = True

    def __init__(self, client: OpenAICompatible) -> None:
        self.client = client
        self.asks = client.name

    def draft(self, request: DraftRequest) -> Draft:
        """Return a draft, blocking until it is complete; with `on_delta`, tell of it while it is written."""
        return self._draft(self.client.chat(**self._call(request)))

    async def adraft(self, request: DraftRequest) -> Draft:
        """Return a draft without blocking the event loop; otherwise as `draft`."""
        return self._draft(await self.client.achat(**self._call(request)))

    def _call(self, draft_request: DraftRequest) -> dict[str, Any]:
        """Return the request; in a stream it asks vLLM to go on with what the assistant has begun, if it has."""
        request = _request(_dicts(draft_request.prompt), draft_request.temperature)
        on_delta = draft_request.on_delta
        if on_delta is None:
            return {"request": request}
        goes_on = GOES_ON if draft_request.prompt[-1].type == "ai" else {}
        return {"request": {**request, **goes_on}, "on_chunk": lambda chunk: on_delta(delta_of(chunk))}

    def _draft(self, completion: dict[str, Any]) -> Draft:
        return _draft_of_completion(completion, self.client.name)


GOES_ON: Mapping[str, JsonValue] = {"continue_final_message": True, "add_generation_prompt": False}
"""Fields of a request whose last message is the beginning of the answer, as vLLM has them."""


def delta_of(chunk: Mapping[str, Any]) -> Delta:
    """Return what a chunk of a chat completion adds to its first choice."""
    choices = chunk.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    delta = first.get("delta") if isinstance(first, dict) and not first.get("index") else None
    if not isinstance(delta, dict):
        return Delta()
    text = delta.get("content")
    is_call = bool(delta.get("tool_calls") or delta.get("function_call"))
    return Delta(text if isinstance(text, str) else "", is_call)


class RequestGenerator(_DirectGenerator):
    """Answers one raw chat-completions request, for a door that must lose nothing of it.

    The first attempt sends the request as it came, whatever fields it has; a retry sends it with the messages
    that a retry adds, in the form of chat completions. Whether the reply is sent as a stream is the client's
    matter: the request's `stream` and `stream_options` are left out.

    Args:
        client: The client; its own fields go after those of the request.
        request: The request, with `messages`.
        headers: Headers to send with it, for instance the caller's own key.

    Raises:
        ConfigurationError: If `messages` are none of chat completions; on the first use of `conversation`.
    """

    writes_in_chunks = False

    def __init__(
        self,
        client: OpenAICompatible,
        request: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(client)
        self._request = {name: value for name, value in request.items() if name not in _OF_A_STREAM}
        self._headers = headers

    @cached_property
    def conversation(self) -> list[BaseMessage]:
        """The request's messages as LangChain's: the question for the loop."""
        return to_messages(self._request.get("messages") or ())

    def _call(self, draft_request: DraftRequest) -> dict[str, Any]:
        """Return the request with its headers; it is not sent as a stream."""
        added = draft_request.prompt[len(self.conversation) :]
        messages = self._request.get("messages") or []
        messages = [*messages, *to_dicts(added)] if added else messages
        return {
            "request": {**self._request, **_request(messages, draft_request.temperature)},
            "headers": self._headers,
        }

    def _draft(self, completion: dict[str, Any]) -> Draft:
        return _draft_of_completion(completion, str(self._request.get("model") or self.client.name))


def _dicts(prompt: list[BaseMessage]) -> list[MessageDict]:
    """Return a prompt's messages; the conversation is converted once for all attempts."""
    if not isinstance(prompt, GeneratorPrompt):
        return to_dicts(prompt)
    conversation = prompt.conversation
    converted = prompt.memo.recall("chat completions", conversation, lambda: to_dicts(conversation))
    return [*converted, *to_dicts(prompt.added)] if prompt.added else converted


def _request(messages: list[MessageDict], temperature: float | None) -> dict[str, Any]:
    return {"messages": messages} if temperature is None else {"messages": messages, "temperature": temperature}


def _draft_of_completion(completion: dict[str, Any], model: str) -> Draft:
    """Return a chat completion as a draft, which holds the completion as the endpoint sent it.

    Args:
        completion: The completion.
        model: Name of the model, where the completion gives none.
    """
    usage = usage_in(completion)
    return Draft(
        answer=answer_of(completion, model), raw=completion, calls=((model_in(completion) or model, usage),)
    )


class AsyncGenerator(Protocol):
    """Generates a draft from messages, without blocking the event loop.

    Attributes:
        may_interrupt: Whether a step inside may interrupt for a human, so that an attempt must be resumable.

    One that knows the name of the model that it asks has it as `asks`, for errors. One whose `writes_in_chunks` is
    true tells the request's `on_delta` of the draft while it is written.
    """

    may_interrupt: bool

    async def adraft(self, request: DraftRequest) -> Draft:
        """Return a draft without blocking the event loop."""
        ...


@runtime_checkable
class Generator(AsyncGenerator, Protocol):
    """Generates a draft from messages, blocking or not."""

    def draft(self, request: DraftRequest) -> Draft:
        """Return a draft, blocking until it is complete."""
        ...


class PerRequest:
    """Stands in a loop whose generator comes with each request; see `Loop.with_generator`."""

    may_interrupt = False

    def draft(self, request: DraftRequest) -> Draft:
        """Refuse: the loop was run without a generator."""
        del request
        raise ConfigurationError("this loop has no generator of its own; run loop.with_generator(...)")

    async def adraft(self, request: DraftRequest) -> Draft:
        """Refuse, as `draft` does."""
        return self.draft(request)


GeneratorLike: TypeAlias = str | OpenAICompatible | Runnable[Any, Any] | Callable[..., object] | AsyncGenerator
"""What generates wherever a generator is taken: see `as_generator`."""


def as_generator(candidate: object) -> AsyncGenerator:
    """Wrap a chat model, a `"provider:model"` name, a runnable, an agent graph, or a function of the messages.

    Raises:
        ConfigurationError: If the candidate is none of these.
    """
    if _is_generator(candidate):
        return candidate
    if names_direct_client(candidate):
        return _DirectGenerator(OpenAICompatible.named(candidate))
    if isinstance(candidate, str) and ":" in candidate.strip(":"):
        return _NamedGenerator(candidate)
    if isinstance(candidate, OpenAICompatible):
        return _DirectGenerator(candidate)
    if isinstance(candidate, Runnable):
        return _RunnableGenerator(candidate)
    if inspect.isgeneratorfunction(candidate) or inspect.isasyncgenfunction(candidate):
        return _RunnableGenerator(RunnableLambda(candidate))  # which adds up what is yielded
    if callable(candidate) and not isinstance(candidate, type):
        _check_takes_messages(candidate)
        return _FunctionGenerator(candidate)
    raise ConfigurationError(
        f"cannot generate with {shortened(candidate)}; give a chat model, a 'provider:model' name, an "
        f"OpenAICompatible, a LangChain runnable, an agent graph, or a function that takes the list of messages"
    )


def _check_takes_messages(function: Callable[..., object]) -> None:
    """Check that a function can be called with the messages alone, as far as its signature tells.

    Raises:
        ConfigurationError: If it cannot.
    """
    try:
        inspect.signature(function).bind([])
    except ValueError:  # some functions written in C have no signature
        return
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise ConfigurationError(
            f"the generator {name!r} is called with the list of messages, and cannot be ({error}); "
            f"write def {name}(messages): ..."
        ) from None


def check_temperature(generator: AsyncGenerator, temperature: float | None) -> None:
    """Check that a generator can be asked at another temperature, as far as it tells; None is its own.

    Raises:
        ConfigurationError: If it cannot.
    """
    check: Callable[[float], None] | None = getattr(generator, "check_temperature", None)
    if temperature is not None and check is not None:
        check(temperature)


def _is_generator(candidate: object) -> TypeGuard[AsyncGenerator]:
    """Check for a generator; `isinstance` takes longer, where one is made for each request."""
    return hasattr(candidate, "may_interrupt") and hasattr(candidate, "adraft")


class _RunnableGenerator:
    """Invokes a runnable: a chat model, a chain, or a compiled graph over messages."""

    def __init__(self, runnable: Runnable[Any, Any]) -> None:
        self._runnable = runnable
        self._is_graph = _graph_in(runnable) is not None
        chat = _chat_model_in(runnable)
        self._is_chat_model = chat is not None
        self.asks = str(getattr(chat, "model_name", None) or getattr(chat, "model", None) or "")
        self.may_interrupt = not self._is_chat_model
        self._is_saved = self._is_graph and not _declines(runnable)
        self._step_limit = _bound_step_limit(runnable)
        self._key = "messages" if self._is_graph else _prompt_variable(runnable)
        self._is_trusted = _only_reads(runnable)

    def draft(self, request: DraftRequest) -> Draft:
        runnable, runnable_input, inner_config, settings = self._call(request)
        with _inheriting(inner_config, request.config):
            if request.on_delta is None:
                return self._draft_of(runnable.invoke(runnable_input, inner_config, **settings), request.prompt)
            stream: Any = runnable.stream(runnable_input, inner_config, **settings)
            with closing(stream):
                chunks = [_pass_on(chunk, request.on_delta) for chunk in stream]
        return self._draft_of(_sum_of(chunks), request.prompt)

    async def adraft(self, request: DraftRequest) -> Draft:
        runnable, runnable_input, inner_config, settings = self._call(request)
        with _inheriting(inner_config, request.config):
            if request.on_delta is None:
                return self._draft_of(
                    await runnable.ainvoke(runnable_input, inner_config, **settings), request.prompt
                )
            stream: Any = runnable.astream(runnable_input, inner_config, **settings)
            async with aclosing(stream):
                chunks = [_pass_on(chunk, request.on_delta) async for chunk in stream]
        return self._draft_of(_sum_of(chunks), request.prompt)

    @property
    def writes_in_chunks(self) -> bool:
        """True if its answer can be read while it is written; a graph streams states instead."""
        return not self._is_graph

    def _call(self, request: DraftRequest) -> tuple[Runnable[Any, Any], Any, RunnableConfig, dict[str, Any]]:
        """Return what is invoked, with which input, config and settings."""
        model = _chat_model_in(self._runnable) if ban.depth else None
        if model is not None:
            check_allowed(type(model).__name__, model)
        inner_config = self._config(request.config)
        is_read_only = self._is_trusted and not inner_config.get("callbacks")
        messages = request.prompt if is_read_only else copy_messages(request.prompt)
        check_temperature(self, request.temperature)
        settings = {} if request.temperature is None else {"temperature": request.temperature}
        return (
            _muted(self._runnable),
            messages if self._key is None else {self._key: messages},
            inner_config,
            settings,
        )

    def _draft_of(self, output: object, prompt: list[BaseMessage]) -> Draft:
        draft = _draft_of(output, prompt)
        return draft if self._is_chat_model else _copy_draft(draft)

    def _config(self, config: RunnableConfig) -> RunnableConfig:
        """Return the config: a new thread for what has memory of its own, to forget rejected drafts.

        A runnable keeps the step limit it was bound to unless the caller set another.
        """
        if not self._is_chat_model and _has_own_memory(self._runnable):
            config = langgraph_private.fresh_thread_config(config)
        if self._is_saved:
            config = langgraph_private.durable_config(config)
        if self._step_limit is not None:
            config = langgraph_private.with_own_limit(config, self._step_limit)
        return config

    def check_temperature(self, temperature: float) -> None:
        """Check that it can be asked at another temperature.

        Raises:
            ConfigurationError: If it is no chat model, but a chain, a choice or fallbacks around some.
        """
        if not self._is_chat_model:
            raise ConfigurationError(
                f"temperature={temperature!r} can be overridden for a chat model, not for "
                f"{type(self._runnable).__name__}; override model=... with a generator of that temperature"
            )


def _pass_on(chunk: T, on_delta: OnDelta) -> T:
    """Tell of a chunk, and return it."""
    on_delta(delta_in(chunk))
    return chunk


def delta_in(chunk: object) -> Delta:
    """Return what a chunk of a runnable's stream adds to its answer."""
    if isinstance(chunk, str):
        return Delta(chunk)
    if not isinstance(chunk, AIMessage):
        return Delta()
    calls = getattr(chunk, "tool_call_chunks", None) or chunk.tool_calls
    has_usage = chunk.usage_metadata is not None
    name = chunk.response_metadata.get("model_name")
    return Delta(str(chunk.text), bool(calls), ((name, usage_of(chunk)),) if has_usage else ())


def _sum_of(chunks: Sequence[Any]) -> object:
    """Return what a runnable returns whose stream holds these chunks."""
    if chunks and all(isinstance(chunk, AIMessageChunk) for chunk in chunks):
        return add_ai_message_chunks(chunks[0], *chunks[1:]) if len(chunks) > 1 else chunks[0]
    total: Any = None
    for chunk in chunks:
        try:
            total = chunk if total is None else total + chunk
        except TypeError:
            total = chunk
    return total


class _FunctionGenerator:
    """Calls a function of the messages, sync or async."""

    may_interrupt = True

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)
        self._async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - `__call__` may be a coroutine function
        )

    def draft(self, request: DraftRequest) -> Draft:
        check_temperature(self, request.temperature)
        messages = copy_messages(request.prompt)
        if langchain_private.listeners(request.config):
            output = self._as_runnable().invoke(messages, request.config)
        else:
            output = self._call(messages)
        return _copy_draft(_draft_of(output, request.prompt))

    async def adraft(self, request: DraftRequest) -> Draft:
        check_temperature(self, request.temperature)
        messages = copy_messages(request.prompt)
        if langchain_private.listeners(request.config):
            output = await self._as_runnable().ainvoke(messages, request.config)
        else:
            output = await self._acall(messages)
        return _copy_draft(_draft_of(output, request.prompt))

    def check_temperature(self, temperature: float) -> None:
        """Refuse: a function has no temperature."""
        raise ConfigurationError(
            f"temperature={temperature!r} can be overridden for a chat model, not for the function "
            f"{self._name!r}; override model=... with another function"
        )

    def _call(self, messages: list[BaseMessage]) -> object:
        return waited_for(self._function(messages))

    async def _acall(self, messages: list[BaseMessage]) -> object:
        output: Any = self._function(messages) if self._async else await in_thread(self._function, messages)
        return await output if inspect.isawaitable(output) else output

    def _as_runnable(self) -> RunnableLambda[Any, Any]:
        """Return the function as a runnable, so that tracers record each call as a run."""
        return RunnableLambda(self._call, self._acall, name=self._name)


class _NamedGenerator:
    """A chat model specified by name, created on first use."""

    may_interrupt = False
    writes_in_chunks = True

    def __init__(self, name: str) -> None:
        self._name = self.asks = name
        self._cached: _RunnableGenerator | None = None

    @property
    def _generator(self) -> _RunnableGenerator:
        if self._cached is None:
            self._cached = _RunnableGenerator(chat_model(self._name))
        return self._cached

    def draft(self, request: DraftRequest) -> Draft:
        return self._generator.draft(request)

    async def adraft(self, request: DraftRequest) -> Draft:
        return await self._generator.adraft(request)


def _chat_model_in(runnable: object) -> BaseChatModel | None:
    """Return the chat model itself, or the one inside a binding; None where there is none."""
    bound = _layers(runnable)[-1]
    return bound if isinstance(bound, BaseChatModel) else None


def _graph_in(runnable: object) -> Pregel[Any, Any, Any, Any] | None:
    """Return the compiled graph itself, or the one inside a binding; None where there is none."""
    bound = _layers(runnable)[-1]
    return bound if isinstance(bound, Pregel) else None


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


def _inheriting(inner_config: RunnableConfig, config: RunnableConfig) -> AbstractContextManager[None]:
    """Let a runnable inherit its own config, since bindings merge what they inherit with what they are given."""
    return nullcontext() if inner_config is config else langchain_private.use_config(inner_config)


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


def _declines(runnable: object) -> bool:
    """Check whether a graph, or one that is a node in it, declines every checkpointer."""
    graph = _graph_in(runnable)
    if graph is None:
        return False
    return graph.checkpointer is False or any(_declines(node.bound) for node in graph.nodes.values())


def _has_own_memory(runnable: object) -> bool:
    """Check whether a graph, or a runnable with a `checkpointer` such as `SelfRefine`, has one of its own."""
    checkpointer = getattr(_layers(runnable)[-1], "checkpointer", None)
    return checkpointer is not None and not isinstance(checkpointer, bool)


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
            update["config"] = {**runnable.config, "callbacks": langchain_private.mute_callbacks(bound_to)}
    elif isinstance(runnable, BaseChatModel):
        model_callbacks = runnable.callbacks
        if getattr(runnable, "streaming", False):
            runnable = keeping_refusals(runnable)
        update = {"callbacks": langchain_private.mute_callbacks(model_callbacks)} if model_callbacks else {}
    return runnable.model_copy(update=update) if update else runnable  # type: ignore[union-attr]  # of pydantic
