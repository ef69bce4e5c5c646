"""Which callback handlers show a client what they hear, and how they are muted around a draft.

No other module of `graphs` or `refine` names anything private of LangChain; what is relied on is stated in
`tests/graphs/test_langgraph_contract.py`. The keys of LangGraph stand in `graphs.langgraph_private`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar, Token, copy_context
from copy import copy
from functools import lru_cache, partial
from hashlib import sha256
from threading import Thread
from typing import Any, NamedTuple, cast
from uuid import UUID

from langchain_core.caches import BaseCache
from langchain_core.callbacks import (
    AsyncCallbackHandler,
    BaseCallbackHandler,
    BaseCallbackManager,
    CallbackManager,
    Callbacks,
    FileCallbackHandler,
    StdOutCallbackHandler,
    UsageMetadataCallbackHandler,
)
from langchain_core.callbacks.manager import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, Generation, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tracers._streaming import (  # the mixins of all stream handlers
    _StreamingCallbackHandler,
    _V2StreamingCallbackHandler,
)
from langchain_core.tracers.base import AsyncBaseTracer, BaseTracer
from langchain_core.tracers.context import _configure_hooks, register_configure_hook
from langchain_core.utils.env import env_var_is_set
from langgraph.callbacks import GraphCallbackHandler
from langgraph.constants import TAG_NOSTREAM
from langgraph.pregel._tools import _tool_call_writer

from judges.errors import ConfigurationError
from judges.first_guesses import guesses
from judges.judge import waited_for

_TOKEN_EVENTS = ("on_llm_new_token", "on_stream_event")
_FRAMEWORKS = ("langchain_core.", "langgraph.")


class _Guesses(dict[str, Any]):
    """The further fields of a message: none, but what to use instead of those that one may guess.

    A copy, also by pickling, is a plain dictionary, so that nothing of this is stored anywhere.
    """

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return name in guesses("an answer") or super().__contains__(name)

    def __missing__(self, name: str) -> Any:
        if name not in guesses("an answer"):
            raise KeyError(name)
        raise AttributeError(f"'AIMessage' object has no attribute {name!r}; {guesses('an answer')[name]}")

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def with_hints(answer: AIMessage) -> AIMessage:
    """Return an answer, which from now on says what to use instead of fields that one may guess."""
    if not answer.__pydantic_extra__:
        object.__setattr__(answer, "__pydantic_extra__", _Guesses())
    return answer


def without_tokens(handler: BaseCallbackHandler) -> BaseCallbackHandler:
    """Return a handler that hears all but the tokens of a model; the handler itself if tokens mean nothing to it.

    A token cannot be taken back, so a handler that passes tokens on would show a draft before it is judged.
    """
    kind: type = type(handler)
    if kind is _WithoutTokens or not _hears_tokens(handler):
        return handler
    return cast("BaseCallbackHandler", _WithoutTokens(handler))


def _hears_tokens(handler: BaseCallbackHandler) -> bool:
    attributes = getattr(handler, "__dict__", {})
    return any(event in attributes for event in _TOKEN_EVENTS) or _class_hears_tokens(type(handler))  # type: ignore[arg-type]  # mypy does not know that a class has a hash


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


_OBSERVERS = frozenset(
    {
        AsyncCallbackHandler,
        BaseCallbackHandler,
        FileCallbackHandler,
        GraphCallbackHandler,
        StdOutCallbackHandler,
        UsageMetadataCallbackHandler,
    }
)
"""Handlers of the frameworks that are no tracers and yet show a client nothing, and the bases of users' own."""

_IDLE_CLOCK = "langgraph.pregel._retry._IdleProgressCallbackHandler"
"""Another one, in a private module: it restarts the clock of a node's idle timeout."""


def listeners(config: RunnableConfig) -> list[BaseCallbackHandler]:
    """List the callback handlers of a config."""
    callbacks = config.get("callbacks")
    return callbacks.handlers if isinstance(callbacks, BaseCallbackManager) else list(callbacks or ())


def manager_of(config: RunnableConfig, *, streaming: bool) -> BaseCallbackManager | None:
    """Return a manager of only the handlers that feed streams, or only the others; None if there are none.

    The others hear no tokens.
    """
    listening = listeners(config)
    if not listening:
        return None

    def select(handlers: Sequence[BaseCallbackHandler]) -> list[BaseCallbackHandler]:
        selected = [handler for handler in handlers if feeds_stream(handler) is streaming]
        return selected if streaming else [without_tokens(handler) for handler in selected]

    handlers = select(listening)
    callbacks = config.get("callbacks")
    if not handlers or not isinstance(callbacks, BaseCallbackManager):
        return CallbackManager(handlers=handlers, inheritable_handlers=handlers) if handlers else None
    manager = callbacks.copy()
    manager.handlers, manager.inheritable_handlers = handlers, select(callbacks.inheritable_handlers)
    return manager


class HeardTokens(BaseCallbackHandler, _StreamingCallbackHandler[Any]):
    """Has chat models that are called inside write their answers in chunks, and hears these.

    As in LangGraph's stream of messages, a model tagged `nostream` is not heard; nor is one that is asked for a
    form, as a middleware asks which tools to choose from.

    Args:
        on_start: Called when a model begins an answer.
        on_chunk: Called with each chunk of it.
    """

    run_inline = True
    raise_error = True

    def __init__(self, on_start: Callable[[], None], on_chunk: Callable[[AIMessageChunk], None]) -> None:
        self._on_start, self._on_chunk = on_start, on_chunk
        self._heard: UUID | None = None

    def on_chat_model_start(self, *_: Any, run_id: UUID, tags: list[str] | None = None, **fields: Any) -> None:
        """Begin to hear an answer."""
        if "ls_structured_output_format" in (fields.get("options") or {}) or TAG_NOSTREAM in (tags or ()):
            return
        self._heard = run_id
        self._on_start()

    def on_llm_new_token(self, *_: Any, run_id: UUID, chunk: Any = None, **__: Any) -> None:
        """Hear a chunk."""
        message = getattr(chunk, "message", None)
        if run_id == self._heard and isinstance(message, AIMessageChunk):
            self._on_chunk(message)

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """Return what a run yields as it is."""
        del run_id
        return output

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Return what a run yields as it is."""
        del run_id
        return output


class _HeardReply(NamedTuple):
    """What a model replied.

    Args:
        task: The task of a graph in which it was asked; empty outside of any.
        prompt: The messages, or the texts, that it was asked.
        generations: What it replied.
    """

    task: str
    prompt: Sequence[object]
    generations: list[Any]

    def to_plain(self) -> list[Any]:
        """Return it as data that a checkpoint holds: with a digest of the prompt, and messages or texts."""
        replies = [getattr(one, "message", one.text) for one in self.generations]
        return [self.task, _digest_of(dumps(list(map(_nameless, self.prompt)))), replies]


class HeardReplies(BaseCallbackHandler):
    """Keeps what models reply that are called inside, each with its prompt, for as long as one draft takes.

    Where `again` says what they replied before a human was asked, a model that is asked the same, and has no
    `RepliesAgain`, is asked, and its reply taken for the earlier one: whoever decided did so on that. One whose
    reply is read as it comes keeps the new one.

    It is no callback of the config, since what runs inside would take it for somebody who listens.

    Attributes:
        is_decided: Tells whether a human has decided on what the task made that runs now.
        is_saved: Whether a checkpoint holds the replies where a human is asked about them. Otherwise a loop
            inside, which may go on without its earlier calls, is not given them again.
    """

    run_inline = raise_error = True

    def __init__(self) -> None:
        self.replies: list[_HeardReply] = []
        self.again = RepliesAgain((), before=None)
        self.is_decided: Callable[[], bool] = lambda: False
        self.is_saved = True
        self._started: dict[UUID, tuple[str, Sequence[Sequence[object]]]] = {}
        self._streamed: set[UUID] = set()
        self.outer = _heard.get()

    @classmethod
    def of(cls, config: RunnableConfig) -> HeardReplies | None:
        """Return the one that hears what is called with a config; None where none does."""
        heard: HeardReplies | None = config.get("configurable", {}).get(HEARD)
        return heard

    def hearing(self, config: RunnableConfig) -> RunnableConfig:
        """Return a config by which it hears what is called with it."""
        return {**config, "configurable": {**config.get("configurable", {}), HEARD: self}}

    @property
    def digest(self) -> str:
        """Tells these replies from all others, in whichever order they came; empty before the first."""
        replies = [repr(list(map(_content_of, reply.generations))) for reply in self.replies]
        return sha256("".join(sorted(replies)).encode(errors="surrogatepass")).hexdigest() if replies else ""

    def on_chat_model_start(
        self, *started: Any, run_id: UUID, metadata: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Note the prompts of a call."""
        self._started[run_id] = (metadata or {}).get("langgraph_checkpoint_ns", ""), started[1]

    on_llm_start = on_chat_model_start

    def on_llm_new_token(self, *_: Any, run_id: UUID, **__: Any) -> None:
        """Note that a reply is read while it is written."""
        self._streamed.add(run_id)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Keep a reply, also for a loop around.

        Raises:
            ConfigurationError: If a human decided on another reply, which cannot be given again.
        """
        task, prompts = self._started.pop(run_id, ("", ()))
        chain, new = [self], []
        while chain[-1].outer is not None:
            chain.append(chain[-1].outer)
        for prompt, generations in zip(prompts, response.generations, strict=False):
            reply = _HeardReply(task, prompt, generations)
            remembering = [heard for heard in chain if heard.again.is_open and (heard is self or heard.is_saved)]
            is_about_it = any(heard.again.is_open_in(task) for heard in remembering)
            is_given_again = any(heard._give_again(reply, run_id) for heard in remembering)  # noqa: SLF001 - its own
            if is_about_it and not is_given_again and self.is_decided():
                raise ConfigurationError(
                    "a human has decided on a reply that the model does not give again, as it is asked something "
                    "else, or its reply is streamed; ask the human in a node of its own, as after_model does"
                )
            new.append(reply._replace(generations=list(map(_copied, generations))))
        for heard in chain:
            heard.replies += new

    def _give_again(self, reply: _HeardReply, run_id: UUID) -> bool:
        """Put an earlier reply to the same prompt into the place of a new one; False where there is none."""
        earlier = self.again.lookup(dumps(list(map(_nameless, reply.prompt))), "")
        pairs = list(zip(reply.generations, earlier or (), strict=False))
        if run_id in self._streamed and any(_content_of(new) != _content_of(streamed) for new, streamed in pairs):
            return False
        for new, streamed in pairs:
            vars(new).update(vars(streamed))  # the object that the caller reads, too
        return earlier is not None


HEARD = "__refine_heard"
"""Key of a config's `configurable`."""

_heard: ContextVar[HeardReplies | None] = ContextVar("graphs.heard_replies", default=None)
register_configure_hook(_heard, inheritable=True)


def _copied(generation: Any) -> Any:
    """Return a copy, since who gets a reply may write into its message."""
    twin = copy(generation)
    if hasattr(twin, "message"):
        twin.message = copy(twin.message)
    return twin


def _content_of(generation: Any) -> object:
    message = getattr(generation, "message", None)
    if message is None:
        return generation.text
    return message.content, [(call["name"], call["args"]) for call in getattr(message, "tool_calls", ())]


def _digest_of(prompt: str) -> str:
    return sha256(prompt.encode(errors="surrogatepass")).hexdigest()


class RepliesAgain(BaseCache):
    """Has a chat model whose cache it is give replies again, each once, where it is asked the same.

    Args:
        replies: The replies, as `_HeardReply.to_plain` returns them.
        before: The model's own cache.
    """

    def __init__(self, replies: Iterable[Sequence[Any]], *, before: BaseCache | bool | None) -> None:
        self.before = before
        self._replies = list(replies)

    @property
    def is_open(self) -> bool:
        """True if a reply is left."""
        return bool(self._replies)

    def is_open_in(self, task: str) -> bool:
        """Check whether a reply of a task is left."""
        return any(reply_task == task for reply_task, _, _ in self._replies)

    def lookup(self, prompt: str, llm_string: str) -> list[Any] | None:
        """Return the reply to a prompt; None has the model asked."""
        del llm_string
        digest = _digest_of(prompt)
        index = next(
            (index for index, (_, reply_digest, _) in enumerate(self._replies) if reply_digest == digest), None
        )
        return None if index is None else list(map(_generation_of, self._replies.pop(index)[2]))

    def update(self, prompt: str, llm_string: str, return_val: object) -> None:
        """Keep nothing that is new."""

    def clear(self, **_: Any) -> None:
        """Forget all replies."""
        self._replies = []


def _generation_of(reply: Any) -> Generation:
    """Return a generation of its own for a message or a text."""
    return Generation(text=reply) if isinstance(reply, str) else ChatGeneration(message=copy(reply))


def replying_again(model: BaseChatModel, replies: Sequence[Sequence[Any]]) -> BaseChatModel:
    """Return a chat model that gives these replies again, and none that a loop around would have given again."""
    model_cache = model.cache.before if isinstance(model.cache, RepliesAgain) else model.cache
    cache = RepliesAgain(replies, before=model_cache) if replies else model_cache
    return model if cache is model.cache else model.model_copy(update={"cache": cache})


def _nameless(message: Any) -> Any:
    """Return a message without its id, as a model's cache is asked for it."""
    return message.model_copy(update={"id": None}) if getattr(message, "id", None) is not None else message


def hearing(config: RunnableConfig, handler: BaseCallbackHandler) -> use_config:
    """Make every call in a block inherit a config, and tell a handler of what it does."""
    callbacks = config.get("callbacks")
    manager = callbacks.copy() if isinstance(callbacks, BaseCallbackManager) else CallbackManager(handlers=[])
    for one in (*(callbacks if isinstance(callbacks, list) else ()), handler):
        manager.add_handler(one)
    return use_config({**config, "callbacks": manager})


class TokenRun:
    """Shows handlers released text as they are shown the tokens of a chat model.

    Args:
        managers: Managers of the handlers that show tokens, each with the run inside which it is.
        name: Name of the run.
        message_id: Id of the message that the text is part of.
    """

    def __init__(self, managers: Sequence[CallbackManager], name: str, message_id: str) -> None:
        self._managers = managers
        self._name = name
        self._id = message_id
        self._runs: list[CallbackManagerForLLMRun] = []

    @classmethod
    def under(cls, configs: Sequence[RunnableConfig], name: str, message_id: str) -> TokenRun | None:
        """Return one for the handlers of configs; None where none of them shows tokens."""
        managers = [manager for config in configs if (manager := _token_manager(config)) is not None]
        return cls(managers, name, message_id) if managers else None

    def send(self, text: str) -> None:
        """Show a text."""
        self.show(AIMessageChunk(content=text, id=self._id))

    def show(self, chunk: AIMessageChunk) -> None:
        """Show a chunk of the message."""
        for manager in self._managers if not self._runs else ():
            self._runs += manager.on_chat_model_start({"name": self._name}, [[]], name=self._name)
        for run in self._runs:
            run.on_llm_new_token(str(chunk.text), chunk=ChatGenerationChunk(message=chunk))

    def end(self) -> None:
        """End the run, if anything was shown."""
        for run in self._runs:
            run.on_llm_end(LLMResult(generations=[[ChatGeneration(message=AIMessage("", id=self._id))]]))
        self._runs = []


def _token_manager(config: RunnableConfig) -> CallbackManager | None:
    """Return the manager of the handlers that show tokens.

    One of the stream's version 3 hears no chunks, and would take the message that ends them for one without text:
    it shows the whole message when that is recorded.
    """
    handlers = [
        one
        for one in listeners(config)
        if (feeds_stream(one) or _hears_tokens(one)) and not isinstance(one, _V2StreamingCallbackHandler)
    ]
    if not handlers:
        return None
    callbacks = config.get("callbacks")
    manager = callbacks if isinstance(callbacks, BaseCallbackManager) else None
    return CallbackManager(
        handlers=handlers,
        inheritable_handlers=handlers,
        parent_run_id=None if manager is None else manager.parent_run_id,
        tags=list(config.get("tags") or ()),
        metadata={**(manager.metadata if manager is not None else {}), **(config.get("metadata") or {})},
    )


def mute_callbacks(callbacks: Callbacks) -> BaseCallbackManager | None:
    """Return the callbacks of a generator itself without handlers that feed streams, and deaf to tokens."""
    return None if callbacks is None else manager_of({"callbacks": callbacks}, streaming=False)


def feeds_stream(handler: BaseCallbackHandler) -> bool:
    """Check whether a callback handler may show a client what it receives; if not, it keeps it, as a tracer does.

    A user's own class counts as its nearest ancestor among the frameworks' handlers. A handler of the frameworks
    that is not known to be a tracer or an observer counts as a stream, so that a new one is muted.
    """
    return _class_feeds_stream(handler.__class__)  # type: ignore[arg-type]  # mypy does not know that a class has a hash


@lru_cache(maxsize=256)
def _class_feeds_stream(kind: type) -> bool:
    if issubclass(kind, _StreamingCallbackHandler):
        return True
    for ancestor in kind.__mro__:
        module = ancestor.__module__
        if ".streaming" in module or module == _StreamingCallbackHandler.__module__:
            return True
        if issubclass(ancestor, BaseCallbackHandler) and module.startswith(("langchain_core.", "langgraph.")):
            is_idle = ancestor in _OBSERVERS or f"{module}.{ancestor.__qualname__}" == _IDLE_CLOCK
            return not (is_idle or issubclass(ancestor, BaseTracer | AsyncBaseTracer))
    return True


class use_config:  # noqa: N801 - named like a function, as what is used in a `with` statement is
    """Make every call in the block inherit `config` alone, instead of the config inherited so far.

    LangGraph merges the callbacks of a config with the inherited ones, so a config alone mutes nothing. Nor does
    it mute what reaches a client through other context variables: handlers that LangChain adds to every run
    (`register_configure_hook`), and the writer of a surrounding tool's output.
    """

    __slots__ = ("_config", "_muted", "_token")

    def __init__(self, config: RunnableConfig) -> None:
        self._config = config

    def __enter__(self) -> None:
        self._token = var_child_runnable_config.set(self._config)
        self._muted = _mute()
        heard = self._config.get("configurable", {}).get(HEARD)
        if heard is not None:
            self._muted.append((_heard, _heard.set(heard)))

    def __exit__(self, *_: object) -> None:
        for variable, before in self._muted:
            variable.reset(before)
        var_child_runnable_config.reset(self._token)


def _mute() -> list[tuple[ContextVar[Any], Token[Any]]]:
    """Set the context variables through which a client would see drafts, and return how each is set back."""
    muted: list[tuple[ContextVar[Any], Token[Any]]] = []
    if _tool_call_writer.get() is not None:
        muted.append((_tool_call_writer, _tool_call_writer.set(None)))
    for variable, _, kind, name in _configure_hooks:
        handler = variable.get()
        if handler is None and kind is not None and name is not None and env_var_is_set(name):
            handler = kind()
        if handler is not None and handler is not _SILENT:
            deaf = _SILENT if feeds_stream(handler) else without_tokens(handler)
            if deaf is not handler:
                muted.append((variable, variable.set(deaf)))
    return muted


_SILENT = BaseCallbackHandler()
"""A handler that does nothing, in the place of one that feeds a stream."""
