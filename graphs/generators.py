"""Any generator, one shape: messages in, a draft out. Chat models, runnables, functions, agent graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, message_chunk_to_message
from langchain_core.prompts import BasePromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnableSequence
from langgraph.pregel import Pregel
from pydantic import JsonValue

from graphs import langgraph_private
from graphs.errors import DraftError
from judges.drive import waited_for
from judges.errors import BadSample, ConfigurationError
from judges.models.providers.langchain import chat_model, usage_of
from judges.runtime.blocking import in_thread
from judges.runtime.no_requests import check_allowed
from judges.sample import Sample
from judges.verdict import Usage

_ANSWERS = ("answer", "output", "response", "result", "text")
_CONTEXTS = ("retrieved_contexts", "context", "contexts", "source_documents", "documents")


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a generator made.

    Args:
        answer: The answer.
        steps: Messages before it: tool calls and tool results.
        evidence: Fields of a sample it handed over, for instance `retrieved_contexts`.
        calls: Each model call it made, as far as its messages tell: the model's name, and what the call consumed.
    """

    answer: AIMessage
    steps: tuple[AnyMessage, ...] = ()
    evidence: Mapping[str, JsonValue] = field(default_factory=dict)
    calls: tuple[tuple[str | None, Usage], ...] = ()


class Generator(Protocol):
    """Makes a draft of messages.

    Attributes:
        may_interrupt: Whether something inside may stop for a human, so that an attempt must be resumable.
    """

    may_interrupt: bool

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Make a draft, blocking until it is there."""
        ...

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Make a draft without blocking the event loop."""
        ...


def as_generator(given: object) -> Generator:
    """Accept a chat model, a `"provider:model"` name, a runnable, an agent graph, or a function of the messages.

    Raises:
        ConfigurationError: If it is none of these.
    """
    if isinstance(given, str) and ":" in given.strip(":"):
        return _NamedGenerator(given)
    if isinstance(given, Runnable):
        return _RunnableGenerator(given)
    if callable(given) and not isinstance(given, type):
        return _FunctionGenerator(given)
    raise ConfigurationError(
        f"cannot generate with {given!r}; give a chat model, a 'provider:model' name, a LangChain runnable, an "
        f"agent graph, or a function that takes the list of messages"
    )


class _RunnableGenerator:
    """Invokes a runnable: a chat model, a chain, or a compiled graph over messages."""

    def __init__(self, runnable: Runnable[Any, Any]) -> None:
        self._runnable = runnable
        self._is_graph = isinstance(runnable, Pregel)
        self._is_chat_model = _chat_model_in(runnable) is not None
        self.may_interrupt = not self._is_chat_model
        self._key = "messages" if self._is_graph else _prompt_variable(runnable)

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        self._check_allowed()
        made = self._runnable.invoke(self._input(prompt), self._config(config), **self._settings(temperature))
        return draft_of(made, prompt)

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        self._check_allowed()
        made = await self._runnable.ainvoke(
            self._input(prompt), self._config(config), **self._settings(temperature)
        )
        return draft_of(made, prompt)

    def _input(self, prompt: list[BaseMessage]) -> Any:
        return prompt if self._key is None else {self._key: prompt}

    def _config(self, config: RunnableConfig) -> RunnableConfig:
        """Give a graph with a memory of its own a fresh thread, so that it never remembers a rejected draft."""
        if not (isinstance(self._runnable, Pregel) and _has_own_memory(self._runnable)):
            return config
        return {**config, "configurable": {**_public(config), "thread_id": str(uuid4())}}

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
            getattr(function, "__call__", None)  # noqa: B004 - an object whose call is a coroutine function
        )

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        _no_temperature(temperature, self._name)
        if langgraph_private.listeners(config):
            made = self._traced().invoke(prompt, config)
        else:
            made = waited_for(self._function(list(prompt)))
        return draft_of(made, prompt)

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        _no_temperature(temperature, self._name)
        if langgraph_private.listeners(config):
            made = await self._traced().ainvoke(prompt, config)
        elif self._async:
            made = await _awaited(self._function(list(prompt)))
        else:
            made = await in_thread(self._function, list(prompt))
            made = await made if inspect.isawaitable(made) else made
        return draft_of(made, prompt)

    def _traced(self) -> RunnableLambda[Any, Any]:
        """Make a run of the call, for tracers."""

        async def arun(prompt: list[BaseMessage]) -> object:
            return await _awaited(self._function(prompt))

        def run(prompt: list[BaseMessage]) -> object:
            return waited_for(self._function(prompt))

        return RunnableLambda(run, arun if self._async else None, name=self._name)


class _NamedGenerator:
    """A chat model known by name, created when it is first used."""

    may_interrupt = False

    def __init__(self, name: str) -> None:
        self._name = name
        self._made: _RunnableGenerator | None = None

    @property
    def _generator(self) -> _RunnableGenerator:
        if self._made is None:
            self._made = _RunnableGenerator(chat_model(self._name))
        return self._made

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        return self._generator.draft(prompt, config, temperature)

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        return await self._generator.adraft(prompt, config, temperature)


def draft_of(made: object, prompt: Sequence[BaseMessage]) -> Draft:
    """Read what a generator returned as a draft.

    Raises:
        DraftError: If it is no answer.
        ConfigurationError: If a graph stopped for a human where nothing can resume it.
    """
    match made:
        case {"__interrupt__": _}:
            raise ConfigurationError(
                "the generator stopped to ask a human, and nothing could resume it; give the checkpointer to the "
                "loop, and an agent inside none of its own"
            )
        case AIMessageChunk():
            return _draft([_whole(made)])
        case AIMessage():
            return _draft([made])
        case str():
            return Draft(answer=AIMessage(made), calls=((None, Usage(calls=1)),))
        case {"messages": [*messages], **rest}:
            return _draft(_since_the_question(messages, prompt), _contexts(rest))
        case [*messages] if messages and all(isinstance(one, BaseMessage) for one in messages):
            return _draft(_since_the_question(messages, prompt))
        case Mapping():
            found = next((made[key] for key in _ANSWERS if made.get(key) is not None), None)
            if isinstance(found, str | AIMessage):
                drafted = draft_of(found, prompt)
                return Draft(
                    answer=drafted.answer, steps=drafted.steps, evidence=_contexts(made), calls=drafted.calls
                )
    raise DraftError(
        f"the generator returned {_shape_of(made)}, which is no answer; return a text, an AIMessage, a mapping "
        f"with 'messages', or one with 'answer' and, if there are any, 'context'"
    )


def _shape_of(made: object) -> str:
    """Describe what was returned, without any text in it."""
    if isinstance(made, Mapping):
        return f"a mapping with the keys {sorted(map(str, made))}"
    return repr(made) if made is None or isinstance(made, int | float) else f"a {type(made).__name__}"


def _draft(messages: Sequence[Any], evidence: Mapping[str, JsonValue] | None = None) -> Draft:
    if not messages or not isinstance(messages[-1], AIMessage):
        raise DraftError(
            "the generator's messages do not end with an answer; the last one must be an AIMessage that follows "
            "the question"
        )
    *steps, answer = messages
    spoken = [one for one in messages if isinstance(one, AIMessage)]
    calls = tuple((one.response_metadata.get("model_name"), usage_of(one)) for one in spoken)
    return Draft(answer=answer, steps=tuple(steps), evidence=evidence or {}, calls=calls)


def _whole(chunk: AIMessageChunk) -> AIMessage:
    whole = message_chunk_to_message(chunk)
    if not isinstance(whole, AIMessage):
        raise DraftError(f"the generator returned a {type(whole).__name__}, not an AIMessage")
    return whole


def _since_the_question(messages: list[Any], prompt: Sequence[BaseMessage]) -> list[Any]:
    """Keep what a graph added: all after the prompt, or after the last human message where it rewrote that."""
    known = len(prompt)
    if len(messages) > known and all(
        mine.type == theirs.type and mine.text == theirs.text
        for mine, theirs in zip(prompt, messages, strict=False)
    ):
        return messages[known:]
    asked = [place for place, one in enumerate(messages) if getattr(one, "type", "") == "human"]
    return messages[asked[-1] + 1 :] if asked else messages


def _contexts(made: Mapping[Any, Any]) -> dict[str, JsonValue]:
    """Read the texts the answer drew on, in any form a sample takes them; what cannot be read is none of them."""
    for found in filter(None, map(made.get, _CONTEXTS)):
        try:
            texts = Sample.read(retrieved_contexts=found).retrieved_contexts
        except BadSample:
            continue
        if texts:
            return {"retrieved_contexts": list(texts)}
    return {}


def _chat_model_in(runnable: object) -> BaseChatModel | None:
    """Find the chat model in a model, or in a binding of one."""
    while not isinstance(runnable, BaseChatModel):
        runnable = getattr(runnable, "bound", None)
        if runnable is None:
            return None
    return runnable


def _prompt_variable(runnable: object) -> str | None:
    """Name the variable that takes the messages, where a chain begins with a prompt template."""
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


def _has_own_memory(graph: Pregel[Any, Any, Any, Any]) -> bool:
    return graph.checkpointer is not None and not isinstance(graph.checkpointer, bool)


def _public(config: RunnableConfig) -> dict[str, Any]:
    given = config.get("configurable") or {}
    return {key: value for key, value in given.items() if not key.startswith(("__pregel_", "checkpoint"))}


def _no_temperature(temperature: float | None, name: str) -> None:
    if temperature is not None:
        raise ConfigurationError(
            f"temperature={temperature!r} can be overridden for a chat model, not for the function {name!r}; "
            f"override model=... with another function"
        )


async def _awaited(value: Any) -> object:
    return await value
