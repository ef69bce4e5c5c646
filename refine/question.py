"""Questions in every form that a chat model, an agent or a node takes, and answers in the form to match."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NotRequired, Self, TypeVar, Unpack, overload
from uuid import UUID

from langchain_core.callbacks import CallbackManager
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    convert_to_messages,
)
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config
from langgraph.types import Command
from pydantic import BaseModel
from typing_extensions import TypedDict  # pydantic cannot read the standard one on Python 3.11

from graphs import (
    InputError,
    JudgeFailed,
    NotAccepted,
    Outcome,
    Overrides,
    Policy,
    Rejected,
    Unanswered,
    langchain_private,
    langgraph_private,
)
from graphs.structure import Schema, Structure, check_first, with_schema, with_settings, with_tools
from judges import ConfigurationError
from judges.errors import shortened
from judges.judge import waited_for
from judges.runtime.faults import logging_safely
from judges.sample import canonical_field
from refine.streaming import astream_pieces, stream_pieces

_Prompt = LanguageModelInput | Command[Any] | None
"""A question as a chat model takes it: text, messages or a prompt value; or a reviewer's `Command`.

Where a checkpointer keeps the conversation, None resumes an interrupted turn.
"""

_State = Mapping[str, Any]
"""A question as an agent takes it: a mapping with `messages`, for instance the state of a graph."""

_Question = _Prompt | _State
"""A question: text, messages, a prompt value, a mapping with `messages`; or a reviewer's `Command`."""

_KEYS = frozenset({"messages", "evidence", langgraph_private.SUMMARY})
_Config = RunnableConfig | None


class _Fields(TypedDict, total=False):
    """What a question may come with."""

    evidence: Mapping[str, Any] | None
    context: Overrides | Mapping[str, Any] | None


_FIELD_NAMES = _Fields.__annotations__.keys()


class _StateUpdate(TypedDict):
    """The answer to a question that came as a mapping: what a node of a graph writes to its state.

    Attributes:
        messages: The answer alone.
        refine: A summary of the attempts, where the mapping or the graph's state has that key.
    """

    messages: list[AnyMessage]
    refine: NotRequired[dict[str, Any] | None]


_RefineOutput = AIMessage | _StateUpdate
"""The answer: a message, or an update of the state where the question was a mapping."""


def _read_question(value: Any, evidence: Mapping[str, Any] | None, config: _Config) -> dict[str, Any]:
    """Return a question as the loop takes it: messages and, where there is any, evidence.

    Further keys of a graph's state are left alone; outside of a graph they are refused.

    Raises:
        InputError: If it cannot be read.
    """
    fields = _state_fields(value)
    if fields is None:
        return _with_evidence(_messages(value), evidence)
    unknown = sorted(map(str, set(fields) - _KEYS))
    if "messages" not in fields or (unknown and not langgraph_private.is_node(ensure_config(config))):
        raise InputError(
            f"a question given as a mapping has 'messages' and, if need be, 'evidence', not {unknown}"
        )
    return _with_evidence(_messages(fields["messages"]), evidence or fields.get("evidence"))


def _reply(answer: AIMessage, value: Any, config: _Config) -> _RefineOutput:
    """Return the answer in the form that matches the question `value`."""
    fields = _state_fields(value)
    if fields is None:
        return answer
    return _update(fields, config, [answer], answer.response_metadata.get(langgraph_private.SUMMARY))


def _reply_without_answer(rejected: Rejected, value: Any, config: _Config) -> _StateUpdate:
    """Return what a node of a graph writes where a reviewer rejected the answer: no message.

    The graph around then goes on, instead of waiting for ever at a node that failed.

    Raises:
        Rejected: If there is no such graph, or the question was not its state, so that an answer is needed.
    """
    fields = _state_fields(value)
    if fields is None or not langgraph_private.is_node(ensure_config(config)):
        raise rejected
    return _update(fields, config, [], rejected.outcome.summary())


def _update(
    fields: Mapping[str, Any], config: _Config, messages: list[AnyMessage], summary: dict[str, Any] | None
) -> _StateUpdate:
    """Return what to write to a state, with the summary where the state has a place for it."""
    key = langgraph_private.SUMMARY
    if key in fields or langgraph_private.has_channel(ensure_config(config), key):
        return {"messages": messages, "refine": summary}
    return {"messages": messages}


def _state_fields(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a state: a mapping, or an object of a pydantic class or dataclass with `messages`."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, PromptValue) or not hasattr(value, "messages"):
        return None
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None


def _with_evidence(messages: list[BaseMessage], evidence: Any) -> dict[str, Any]:
    return {"messages": messages} if evidence is None else {"messages": messages, "evidence": evidence}


def _messages(value: Any) -> list[BaseMessage]:
    if isinstance(value, str):
        return [HumanMessage(value)] if value.strip() else []
    if isinstance(value, PromptValue):
        return value.to_messages()
    if isinstance(value, BaseMessage):
        return [value]
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        raise InputError(f"cannot read {shortened(value)} as a question; give a text or a list of messages")
    try:
        return convert_to_messages(value)
    except (ValueError, NotImplementedError) as error:
        raise InputError(f"cannot read the messages: {str(error).splitlines()[0]}") from error


T = TypeVar("T")


class _Configured(Generic[T]):
    """A function of an input and a config, whose signature is there already.

    LangChain looks at the signature with each call, which takes longer than a small step of the loop.

    Args:
        function: The function.
    """

    __slots__ = ("_function",)
    __signature__: ClassVar[inspect.Signature] = inspect.signature(lambda input, config: (input, config))  # noqa: A006

    def __init__(self, function: Callable[..., T]) -> None:
        self._function = function

    def __call__(self, value: Any, /, **settings: Any) -> T:
        """Call the function with an input and, by name, its config."""
        return self._function(value, **settings)


def _call_as_run(
    runnable: Runnable[Any, Any],
    function: Callable[[Any, RunnableConfig], T],
    value: Any,
    config: _Config,
) -> T:
    """Call a function as a run of a runnable; where nobody sees runs, without what makes it one.

    In both cases the function runs in a copy of the context.
    """
    if langgraph_private.is_watched(_mapping(config)):
        result_shown: T = runnable._call_with_config(_Configured(function), value, config)  # noqa: SLF001 - LangChain's way
        return result_shown
    run_config = _unseen(config)

    def run() -> T:
        with langchain_private.use_config(run_config):
            return function(value, run_config)

    return copy_context().run(run)


async def _acall_as_run(
    runnable: Runnable[Any, Any],
    function: Callable[[Any, RunnableConfig], Coroutine[Any, Any, T]],
    value: Any,
    config: _Config,
) -> T:
    """Await a function as a run of a runnable; otherwise as `_call_as_run`."""
    if langgraph_private.is_watched(_mapping(config)):
        result_shown: T = await runnable._acall_with_config(_Configured(function), value, config)  # noqa: SLF001 - as above
        return result_shown
    run_config = _unseen(config)

    async def run() -> T:
        with langchain_private.use_config(run_config):
            return await function(value, run_config)

    return await asyncio.create_task(run(), context=copy_context())


_NOBODYS_RUN = UUID(int=0)
"""The run inside which an event may be dispatched, as LangChain demands, where nobody hears of it."""


def _mapping(config: _Config) -> RunnableConfig:
    if not isinstance(config, Mapping | None):
        raise InputError(
            f"config is a mapping such as {{'configurable': {{'thread_id': '1'}}}}, not {shortened(config)}"
        )
    return config or {}


def _unseen(config: _Config) -> RunnableConfig:
    """Return the config for the inside of a run that no handler sees."""
    run_config = ensure_config(config)
    run_config.pop("run_name", None)
    run_config.pop("run_id", None)
    run_config["callbacks"] = CallbackManager([], parent_run_id=_NOBODYS_RUN)
    return run_config


_log = logging.getLogger("refine")


class OutcomeListener:
    """Tells a user's function of outcomes; what it raises costs nobody an answer.

    Args:
        function: Called with each outcome, sync or async; None for nobody.

    Raises:
        ConfigurationError: If it is something else.
    """

    def __init__(self, function: Callable[[Outcome], object] | None) -> None:
        if function is not None and not callable(function):
            raise ConfigurationError(
                f"on_outcome is a function of one argument, or None, not {shortened(function)}"
            )
        self._function = function

    def tell(self, outcome: Outcome) -> None:
        """Tell of an outcome, blocking."""
        if self._function is not None:
            with _warn_only():
                waited_for(self._function(outcome))

    async def atell(self, outcome: Outcome) -> None:
        """Tell of an outcome without blocking."""
        if self._function is not None:
            with _warn_only():
                value = self._function(outcome)
                if inspect.isawaitable(value):
                    await value


@contextmanager
def _warn_only() -> Iterator[None]:
    """Log that a callback raised, instead of losing the answer."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it raised, the answer must go out
        with logging_safely():
            _log.warning("on_outcome raised %s; the answer is returned all the same", type(error).__name__)


class _BindsToGenerator(Runnable[Any, Any]):
    """A runnable around a generator, to which it binds as a chat model binds to itself."""

    policy: Policy

    @property
    @abstractmethod
    def generator(self) -> object:
        """The generator, as it was given."""

    @property
    @abstractmethod
    def judge(self) -> object:
        """The judge, as it was given."""

    @abstractmethod
    def around(self, **parts: object) -> Self:
        """Return the same with another `generator` or `judge`."""

    def bind(self, **kwargs: Any) -> Runnable[Any, Any]:
        """Return the same with settings bound to the generator, for instance `temperature=0.7`.

        `evidence=...` is bound to the call.

        Args:
            kwargs: Settings of the chat model or request fields of the direct client.

        Raises:
            ConfigurationError: If the generator is neither; then bind them to the model inside it.
        """
        of_call = {"evidence": kwargs.pop("evidence")} if "evidence" in kwargs else {}
        bound = self.around(generator=with_settings(self.generator, kwargs)) if kwargs else self
        return super(_BindsToGenerator, bound).bind(**of_call) if of_call else bound

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Self:
        """Return the same whose generator may call tools; a turn that calls one is returned unjudged.

        Args:
            tools: Tools in any form that the generator's own `bind_tools` takes.
            kwargs: Its settings, for instance `tool_choice="auto"`.

        Raises:
            ConfigurationError: If the generator is no chat model and no direct client: an agent has its tools.
        """
        return self.around(generator=with_tools(self.generator, tools, kwargs))

    def with_structured_output(
        self, schema: Schema, *, include_raw: bool = False, method: str = "json_schema", **kwargs: Any
    ) -> Runnable[Any, Any]:
        """Return a runnable to objects of a schema.

        The generator writes JSON by the schema. An answer that does not fit is refused without asking the judge,
        and asked for again; the judge judges the JSON.

        Args:
            schema: A pydantic class, a TypedDict, a dataclass, or a JSON schema.
            include_raw: Whether to return `{"raw": answer, "parsed": object, "parsing_error": error}`.
            method: `"json_schema"`, the only one: a call of a tool is no answer that can be judged.
            kwargs: Settings of the generator's own `with_structured_output`, for instance `strict=True`.

        Raises:
            ConfigurationError: If the generator is no chat model and no direct client, or the schema is none.
        """
        if method != "json_schema":
            raise ConfigurationError(
                f"method={method!r} gives no answer that can be judged; leave it at 'json_schema', or give "
                f"an agent with response_format=... as generator"
            )
        structure = Structure(schema)
        judge = check_first(structure, self.judge, success_rating=self.policy.success_rating)
        bound = self.around(generator=with_schema(self.generator, schema, kwargs), judge=judge)
        return bound | RunnableLambda(structure.read_with_raw if include_raw else structure.read)


class AnswersQuestions(_BindsToGenerator):
    """A runnable from a question to its accepted answer, or to the whole record of how it came about.

    Asked as a chat model it returns a message, asked as an agent or as a node of a graph an update of the state.
    """

    @abstractmethod
    def _with_overrides(self, config: _Config, context: object) -> RunnableConfig | None:
        """Return the config of a run that carries what its request changes."""

    @abstractmethod
    def _is_resumable(self, config: _Config) -> bool:
        """Check whether a checkpointer keeps the conversation, so that None resumes an interrupted turn."""

    @abstractmethod
    def _outcome(self, graph_input: Any, config: RunnableConfig) -> Outcome:
        """Run the loop and record what came of it."""

    @abstractmethod
    async def _aoutcome(self, graph_input: Any, config: RunnableConfig) -> Outcome:
        """Run the loop without blocking and record what came of it."""

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """A question in any form."""
        return _Question

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The answer, as a message or as an update of a graph's state."""
        return _RefineOutput

    if not TYPE_CHECKING:  # type checkers read LangChain's own

        def batch(self, inputs: Sequence[Any], *others: Any, **settings: Any) -> list[Any]:
            """Answer several questions at once, as every runnable of LangChain does."""
            return super().batch(_several(inputs), *others, **settings)

        async def abatch(self, inputs: Sequence[Any], *others: Any, **settings: Any) -> list[Any]:
            """Answer several questions at once without blocking."""
            return await super().abatch(_several(inputs), *others, **settings)

    @overload  # type: ignore[override]  # what else LangChain lets through is refused
    def invoke(self, input: _State, config: _Config = None, **fields: Unpack[_Fields]) -> _StateUpdate: ...

    @overload
    def invoke(self, input: _Prompt, config: _Config = None, **fields: Unpack[_Fields]) -> AIMessage: ...

    def invoke(
        self,
        input: _Question = None,  # noqa: A002 - LangChain's name
        config: _Config = None,
        **fields: Unpack[_Fields],
    ) -> _RefineOutput:
        """Answer a question.

        Args:
            input: The question.
            config: Config of the run; callbacks, tags and metadata are passed on.
            fields: `evidence`, further evidence for the judge: fields of a `Sample`, for instance
                `retrieved_contexts`; and `context`, what this request changes: an `Overrides` or a mapping of its
                settings; with a resume, from there on. Any other setting is refused.

        Raises:
            Unanswered: If no answer may be released: `GeneratorFailed`, or as the policy says `NotAccepted`
                or `JudgeFailed`; `outcome` holds the record.
            InputError: If there is nothing to answer, a reviewer's decision cannot be read or is not awaited, or
                the context cannot be read or goes beyond the bounds.
            ConcurrentTurn: If another turn runs on the thread, see `concurrent_turns`; as `ReviewPending`, if it
                waits for a human, see `on_new_question`.
            ConfigurationError: If there is any other setting; bind settings of a model to the generator.
        """
        question, config = self._begin(input, config, fields)
        try:
            answer = _call_as_run(self, self._answer, question, config)
        except Rejected as rejected:
            return _reply_without_answer(rejected, input, config)
        return _reply(answer, input, config)

    @overload  # type: ignore[override]  # what else LangChain lets through is refused
    async def ainvoke(self, input: _State, config: _Config = None, **fields: Unpack[_Fields]) -> _StateUpdate: ...

    @overload
    async def ainvoke(self, input: _Prompt, config: _Config = None, **fields: Unpack[_Fields]) -> AIMessage: ...

    async def ainvoke(
        self,
        input: _Question = None,  # noqa: A002 - LangChain's name
        config: _Config = None,
        **fields: Unpack[_Fields],
    ) -> _RefineOutput:
        """Answer a question without blocking; otherwise as `invoke`."""
        question, config = self._begin(input, config, fields)
        try:
            answer = await _acall_as_run(self, self._aanswer, question, config)
        except Rejected as rejected:
            return _reply_without_answer(rejected, input, config)
        return _reply(answer, input, config)

    def refine(
        self,
        input: _Question = None,  # noqa: A002 - as in `invoke`
        config: _Config = None,
        **fields: Unpack[_Fields],
    ) -> Outcome:
        """Answer a question and return the whole record.

        A run without an answer returns an outcome too: `answer` is then None, and `stop_reason` says why. It is an
        error only if the policy says `"raise"`.

        Raises:
            NotAccepted: If no attempt passed and `on_exhausted="raise"`.
            JudgeFailed: If the judge gave no verdict and `on_judge_error="raise"`.
            InputError: If there is nothing to answer.
        """
        question, config = self._begin(input, config, fields)
        outcomes: list[Outcome] = []

        def run(graph_input: Any, config: RunnableConfig) -> AIMessage | None:
            outcomes.append(self._outcome(graph_input, config))
            return outcomes[0].answer

        with _kept_unless_raised(outcomes):
            _call_as_run(self, run, question, config)
        return outcomes[0]

    async def arefine(
        self,
        input: _Question = None,  # noqa: A002 - as in `invoke`
        config: _Config = None,
        **fields: Unpack[_Fields],
    ) -> Outcome:
        """Answer a question without blocking and return the whole record; otherwise as `refine`."""
        question, config = self._begin(input, config, fields)
        outcomes: list[Outcome] = []

        async def run(graph_input: Any, config: RunnableConfig) -> AIMessage | None:
            outcomes.append(await self._aoutcome(graph_input, config))
            return outcomes[0].answer

        with _kept_unless_raised(outcomes):
            await _acall_as_run(self, run, question, config)
        return outcomes[0]

    @overload  # type: ignore[override]  # what else LangChain lets through is refused
    def stream(
        self, input: _State, config: _Config = None, **fields: Unpack[_Fields]
    ) -> Iterator[_StateUpdate]: ...

    @overload
    def stream(self, input: _Prompt, config: _Config = None, **fields: Unpack[_Fields]) -> Iterator[AIMessage]: ...

    def stream(
        self,
        input: _Question = None,  # noqa: A002 - LangChain's name
        config: _Config = None,
        **fields: Unpack[_Fields],
    ) -> Iterator[_RefineOutput]:
        """Stream the answer: once it is accepted, as one chunk, or under `release="pieces"` piece by piece.

        Progress is sent as custom events meanwhile. The chunks share one id and add up to the message.
        """
        question, config = self._begin(input, config, fields)
        try:
            transform = self._stream_pieces if self._streams_pieces(input) else self._stream_answer
            for answer in self._transform_stream_with_config(iter([question]), transform, config):
                yield _streamed(answer, input, config)
        except Rejected as rejected:
            yield _reply_without_answer(rejected, input, config)

    @overload  # type: ignore[override]  # what else LangChain lets through is refused
    def astream(
        self, input: _State, config: _Config = None, **fields: Unpack[_Fields]
    ) -> AsyncIterator[_StateUpdate]: ...

    @overload
    def astream(
        self, input: _Prompt, config: _Config = None, **fields: Unpack[_Fields]
    ) -> AsyncIterator[AIMessage]: ...

    async def astream(
        self,
        input: _Question = None,  # noqa: A002 - LangChain's name
        config: _Config = None,
        **fields: Unpack[_Fields],
    ) -> AsyncIterator[_RefineOutput]:
        """Stream the answer, once it is accepted; otherwise as `stream`."""
        question, config = self._begin(input, config, fields)

        async def questions() -> AsyncIterator[Any]:
            yield question

        try:
            transform = self._astream_pieces if self._streams_pieces(input) else self._astream_answer
            answers: Any = self._atransform_stream_with_config(questions(), transform, config)
            async with aclosing(answers):
                async for answer in answers:
                    yield _streamed(answer, input, config)
        except Rejected as rejected:
            yield _reply_without_answer(rejected, input, config)

    def _begin(self, value: _Question, config: _Config, fields: _Fields) -> tuple[Any, RunnableConfig | None]:
        """Return a question as the loop takes it, and the config with what the request changes.

        What resumes a turn stays as it is.
        """
        unknown = {name: field_value for name, field_value in fields.items() if name not in _FIELD_NAMES}
        if unknown:
            raise _refusal_of(unknown)
        context = fields.get("context")
        if context is not None:
            config = self._with_overrides(config, context)
        resumes = isinstance(value, Command) or (value is None and self._is_resumable(config))
        return value if resumes else _read_question(value, fields.get("evidence"), config), config

    def _answer(self, graph_input: Any, config: RunnableConfig) -> AIMessage:
        return _release(self._outcome(graph_input, config))

    async def _aanswer(self, graph_input: Any, config: RunnableConfig) -> AIMessage:
        return _release(await self._aoutcome(graph_input, config))

    def _stream_answer(
        self, inputs: Iterator[Any], run_manager: Any, config: RunnableConfig
    ) -> Iterator[AIMessage]:
        del run_manager
        yield self._answer(next(inputs), config)

    async def _astream_answer(
        self, inputs: AsyncIterator[Any], run_manager: Any, config: RunnableConfig
    ) -> AsyncIterator[AIMessage]:
        del run_manager
        yield await self._aanswer(await anext(inputs), config)

    def _streams_pieces(self, value: _Question) -> bool:
        """Check whether the answer goes out in pieces; an update of a state has one message."""
        return self.policy.release == "pieces" and _state_fields(value) is None

    def _stream_pieces(
        self, inputs: Iterator[Any], run_manager: Any, config: RunnableConfig
    ) -> Iterator[AIMessage]:
        del run_manager
        yield from stream_pieces(partial(self._answer, next(inputs)), config)

    async def _astream_pieces(
        self, inputs: AsyncIterator[Any], run_manager: Any, config: RunnableConfig
    ) -> AsyncIterator[AIMessage]:
        del run_manager
        pieces: Any = astream_pieces(partial(self._aanswer, await anext(inputs)), config)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece


@contextmanager
def _kept_unless_raised(outcomes: list[Outcome]) -> Iterator[None]:
    """Add the record of a run without an answer, whose error goes on only where the policy says "raise"."""
    try:
        yield
    except (NotAccepted, JudgeFailed):
        raise
    except Unanswered as unanswered:
        outcomes.append(unanswered.outcome)


def _several(questions: Any) -> Any:
    if isinstance(questions, str | bytes | Mapping) or hasattr(questions, "columns"):
        raise InputError("batch takes a list of questions, batch([question]); one alone is invoke(question)")
    return list(questions)  # a generator and a column of pandas are lists to their users


def _refusal_of(unknown: Mapping[str, Any]) -> ConfigurationError:
    name, value = next(iter(unknown.items()))
    hint = "bind settings of the model to the generator, SelfRefine(model.bind(...), judge)"
    if name in _QUESTIONS:
        hint = "the question comes first, without a name: invoke('What is new?')"
    elif name in _OF_CONFIG:
        config = "{'configurable': {'thread_id': '1'}}" if name in _THREADS else f"{{{name!r}: ...}}"
        hint = f"it belongs to the config: invoke(question, {config})"
    elif name in _MODES:
        hint = "stream(question) yields the accepted answer; the graph of self_refine(...) has LangGraph's modes"
    elif canonical_field(name) is not None:
        hint = f"evidence for the judge is given as invoke(question, evidence={{{name!r}: ...}})"
    elif name in Overrides.model_fields:
        hint = f"for one question it is invoke(question, context={{{name!r}: {shortened(value)}}})"
    return ConfigurationError(f"SelfRefine takes no {sorted(unknown)} with a question; {hint}")


_QUESTIONS = ("question", "query", "prompt", "messages", "message", "text", "user_input", "inputs")
"""What a question may be called."""

_THREADS = ("thread_id", "session_id", "conversation_id", "thread")
_MODES = ("stream_mode", "subgraphs", "durability", "version", "output_keys")
_OF_CONFIG = (
    *(*_THREADS, "callbacks", "tags", "metadata", "run_name", "run_id", "configurable", "recursion_limit"),
    "max_concurrency",
)
"""What belongs into the config of a run."""


def _release(outcome: Outcome) -> AIMessage:
    if outcome.answer is None:
        reason = f" ({outcome.detail})" if outcome.detail else ""
        raise Unanswered(f"the answer awaits a review{reason}; resume with a Command", outcome)
    return outcome.answer


def _streamed(answer: AIMessage, value: _Question, config: _Config) -> _RefineOutput:
    """Return the answer in the form that matches the question; a whole message is streamed as one chunk."""
    if isinstance(answer, AIMessageChunk):
        return answer
    output = _reply(answer, value, config)
    return _chunk(output) if isinstance(output, AIMessage) else output


def _chunk(answer: AIMessage) -> AIMessageChunk:
    fields = answer.model_dump(exclude={"type"})
    return AIMessageChunk(**fields, chunk_position="last")
