"""Scripted test doubles for tests and demos: a chat model, embeddings, a judge. No key, no network."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import lru_cache
from typing import Any, ClassVar, Generic, TypeVar

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field

from judges.compose.coerce import verdict_of
from judges.errors import ConfigurationError, shortened
from judges.first_guesses import HintsAtGuesses, names_of
from judges.judge import Judge
from judges.messages import ToolCall
from judges.models.retry import pause
from judges.requests import Deliberation
from judges.runtime.observation import observing
from judges.runtime.validation import naming_settings, no_model_requests
from judges.sample import Sample

__all__ = [
    "Likely",
    "ScriptedEmbeddings",
    "ScriptedJudge",
    "ScriptedModel",
    "no_model_requests",
    "no_waiting",
    "raising",
]


__getattr__ = names_of(__name__, __all__)


T = TypeVar("T")


@contextmanager
def no_waiting() -> Iterator[list[float]]:
    """Skip the waits between retries of a failed transport in this block; yields their lengths in seconds."""
    waits: list[float] = []
    token = pause.set(waits.append)
    try:
        yield waits
    finally:
        pause.reset(token)


def raising() -> observing:
    """Let errors of a judge's own code through in a `with` block; else they become unscored verdicts."""
    return observing(raises_faults=True)


class _Script(Generic[T]):
    """Lines in order, each used once, for any number of threads, or a function of lines; and the calls so far."""

    def __init__(self, lines: Any, *, cycle: bool, owner: str) -> None:
        if not callable(lines) and not isinstance(lines, Iterable):
            raise ConfigurationError(f"the script of {owner!r} is a list of lines, or a function, not {lines!r}")
        lines = [lines] if isinstance(lines, str | Mapping | BaseModel) else lines  # one line, by itself
        self._make: Callable[[Any], T] | None = lines if callable(lines) else None
        self._lines: Sequence[T] = () if callable(lines) else tuple(lines)
        self._position = 0
        self._cycle = cycle
        self._owner = owner
        self._lock = threading.Lock()
        self.calls: list[tuple[list[BaseMessage], dict[str, Any]]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def in_turn(self) -> bool:
        return self._make is None

    @property
    def source(self) -> Sequence[T] | Callable[[Any], T]:
        return self._lines if self._make is None else self._make

    def line(self, request: Any) -> T:
        if self._make is not None:
            return self._make(request)
        with self._lock:
            position = self._position % len(self._lines) if self._cycle and self._lines else self._position
            self._position += 1
        if position < len(self._lines):
            return self._lines[position]
        raise ConfigurationError(
            f"the script of {self._owner!r} has run out after {len(self._lines)} lines; "
            f"give it more, or cycle=True"
        )


def _empty_reply() -> dict[str, Any]:
    return {"rationale": "", "rating": None, "feedback": ""}


@dataclass(frozen=True)
class Likely:
    """A line of a script: a reply whose rating was as likely as it says, where the judge asks for that.

    A judge that asks for the rating alone, as `Quick` does, gets the likeliest one.

    Args:
        shares: How likely each rating was, as it is written: `{1: 0.1, 2: 0.1, 3: 0.2, 4: 0.6}`.
        reply: The other fields of the reply, in their order, and the rating where it is not the likeliest.
        field: Name of the field that holds the rating.
    """

    shares: Mapping[Any, float]
    reply: Mapping[str, Any] = dataclass_field(default_factory=_empty_reply)
    field: str = "rating"

    def message(self, settings: Mapping[str, Any], *, is_short: bool) -> AIMessage:
        """Return the message, with log-probabilities where the settings of the call ask for them."""
        likeliest = max(self.shares, key=lambda one: self.shares[one])
        field_value = self.reply.get(self.field)
        fields = {**self.reply, self.field: likeliest if field_value is None else field_value}
        text = str(likeliest) if is_short else json.dumps(fields, ensure_ascii=False)
        mark = json.dumps(fields[self.field])
        head = "" if is_short else text[: text.index(f'"{self.field}": ') + len(self.field) + 4]
        rating = text if is_short else mark
        metadata = {"logprobs": {"content": self._tokens(head, rating, text[len(head) + len(rating) :])}}
        return AIMessage(text, response_metadata=metadata if settings.get("logprobs") else {})

    def _tokens(self, head: str, rating: str, tail: str) -> list[dict[str, Any]]:
        written = {one if isinstance(one, str) else json.dumps(one): share for one, share in self.shares.items()}
        tops = [{"token": one, "logprob": math.log(share)} for one, share in written.items() if share > 0]
        log_probability = math.log(written.get(rating, 1.0) or 1.0)
        tokens = [{"token": rating, "logprob": log_probability, "top_logprobs": tops}]
        before, behind = ({"token": part, "logprob": 0.0, "top_logprobs": []} for part in (head, tail))
        return [*([before] if head else []), *tokens, *([behind] if tail else [])]


class ScriptedModel(HintsAtGuesses, BaseChatModel, arbitrary_types_allowed=True):
    """A real LangChain chat model whose replies come from a script.

    A line of the script is one of: a text; an `AIMessage`; a `ToolCall` or a list of them; a mapping or a
    pydantic object for a structured reply (sent as a call of the bound tool, or as JSON text where no tool is
    bound); a `Likely`, a reply with the probabilities of its ratings; an exception, which is raised. Instead of
    lines, pass a function from the messages to a line.

    Tokens are counted as blank-separated words, so that budgets and totals have something to count.

    Args:
        script: The lines, one line by itself, or the function.
        cycle: Whether to start again after the last line.
        name: Model name, as reported in replies.
        delay_s: Seconds to wait before each reply.

    Attributes:
        prompts: The messages of every call so far, in order.
        settings: The keyword settings of every call so far (temperature, tool choice, ...), in order.
    """

    _guesses_at: ClassVar[str] = "a scripted model"
    model_name: str = "scripted"
    temperature: float | None = None
    delay_s: float = 0.0
    max_tokens: int | None = None
    logprobs: bool | None = None
    streaming: bool = False
    scripted: bool = True
    # No private attribute, which pydantic finds by `__getattr__`: each look-up would cost as much as a call.
    lines: Any = Field(default=None, exclude=True, repr=False)

    @naming_settings(
        "ScriptedModel(['first reply', 'second reply'])",
        **dict.fromkeys(("responses", "replies", "messages", "answers", "outputs", "lines"), "script"),
    )
    def __init__(
        self,
        script: Sequence[object] | Callable[[list[BaseMessage]], object],
        *,
        cycle: bool = False,
        name: str = "scripted",
        delay_s: float = 0.0,
    ) -> None:
        super().__init__()
        self.model_name, self.delay_s = name, delay_s
        self.lines = _Script(script, cycle=cycle, owner=name)

    @property
    def model(self) -> str:
        """Name of the model, as `model_name`."""
        return self.model_name

    @property
    def prompts(self) -> list[list[BaseMessage]]:
        """The messages of every call so far, in order."""
        return [messages for messages, _ in list(self.lines.calls)]

    @property
    def settings(self) -> list[dict[str, Any]]:
        """The keyword settings of every call so far, in order."""
        return [settings for _, settings in list(self.lines.calls)]

    @property
    def replies_in_turn(self) -> bool:
        """True if the replies are lines, of which the next one is for whoever asks next."""
        return bool(self.lines.in_turn)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools; structured lines of the script are then sent as a call of the chosen tool."""
        formatted = [
            deepcopy(_describe(tool)) if isinstance(tool, type) else convert_to_openai_tool(tool) for tool in tools
        ]
        return self.bind(tools=formatted, tool_choice=tool_choice, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.delay_s:
            time.sleep(self.delay_s)
        return self._result(messages, kwargs)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        return self._result(messages, kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        if self.delay_s:
            time.sleep(self.delay_s)
        for chunk in _chunks(self._reply(messages, kwargs)):
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _result(self, messages: list[BaseMessage], settings: dict[str, Any]) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages, settings))])

    def _reply(self, messages: list[BaseMessage], settings: dict[str, Any]) -> AIMessage:
        reply_settings = {} if self.temperature is None else {"temperature": self.temperature}
        script = self.lines
        script.calls.append((list(messages), {**reply_settings, **settings}))
        line = script.line(messages)
        if isinstance(line, BaseException) or (isinstance(line, type) and issubclass(line, BaseException)):
            raise line
        if isinstance(line, Likely):
            message = line.message(settings, is_short=self.max_tokens == 1)
        else:
            message = _message(line, settings)
        message.response_metadata.setdefault("model_name", self.model_name)
        if message.usage_metadata is None:
            message.usage_metadata = _word_usage(messages, message)
        return message


@lru_cache(maxsize=256)
def _describe(tool: type) -> dict[str, Any]:
    """Return a schema as a tool; kept, since writing it takes longer than all else that a scripted call does."""
    return convert_to_openai_tool(tool)


def _message(line: object, settings: Mapping[str, Any]) -> AIMessage:
    """Return a line as a message; always a new one, so that calls never share it."""
    match line:
        case AIMessage():
            return line.model_copy(deep=True)
        case str():
            return AIMessage(line)
        case ToolCall():
            return _call_message([line])
        case BaseModel():
            return _structured_message(line.model_dump(mode="json"), settings)
        case Mapping():
            return _structured_message(dict(line), settings)
        case [ToolCall(), *_]:
            return _call_message([call for call in line if isinstance(call, ToolCall)])
        case _:
            raise ConfigurationError(
                f"a script's line is a text, an AIMessage, tool calls, a mapping or an exception, not "
                f"{shortened(line)}"
            )


def _call_message(calls: Sequence[ToolCall]) -> AIMessage:
    tool_calls = [
        {"name": call.name, "args": call.args, "id": call.id or f"call_{number}", "type": "tool_call"}
        for number, call in enumerate(calls, 1)
    ]
    return AIMessage("", tool_calls=tool_calls)


def _structured_message(value: dict[str, Any], settings: Mapping[str, Any]) -> AIMessage:
    tools = settings.get("tools") or ()
    names = [str(tool["function"]["name"]) for tool in tools if "function" in tool]
    if not names:
        return AIMessage(json.dumps(value, ensure_ascii=False))
    chosen = next((name for name in names if name == settings.get("tool_choice")), names[0])
    return _call_message([ToolCall(name=chosen, args=value)])


def _chunks(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """Split a message's text after each blank; tool calls and usage go with the last chunk."""
    *first, last = [*message.text.split(" ")]
    for word in first:
        yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))
    yield ChatGenerationChunk(
        message=AIMessageChunk(
            content=last,
            additional_kwargs=message.additional_kwargs,
            chunk_position="last",
            tool_call_chunks=[
                {
                    "name": call["name"],
                    "args": json.dumps(call["args"]),
                    "id": call["id"],
                    "index": index,
                    "type": "tool_call_chunk",
                }
                for index, call in enumerate(message.tool_calls)
            ],
            response_metadata=message.response_metadata,
            usage_metadata=message.usage_metadata,
        )
    )


def _word_usage(prompt: Sequence[BaseMessage], reply: AIMessage) -> UsageMetadata:
    input_tokens = sum(len(message.text.split()) for message in prompt)
    output_tokens = len(reply.text.split()) + sum(
        len(json.dumps(call["args"]).split()) + 1 for call in reply.tool_calls
    )
    return UsageMetadata(
        input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
    )


class ScriptedEmbeddings(Embeddings):
    """Real LangChain embeddings whose vectors come from a script.

    Args:
        script: The vector of each text, or a function from a text to its vector. An exception in place of a vector
            is raised.
        name: Model name.

    Attributes:
        batches: The texts of every request so far, in order.
    """

    scripted: ClassVar[bool] = True

    def __init__(
        self, script: Mapping[str, object] | Callable[[str], object], *, name: str = "scripted-embeddings"
    ) -> None:
        self.model = name
        self._script = script
        self._batches: list[list[str]] = []

    @property
    def batches(self) -> list[list[str]]:
        """The texts of every request so far, in order."""
        return [list(texts) for texts in self._batches]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts; raises `ConfigurationError` for a text that is not in the script."""
        self._batches.append(list(texts))
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of texts without using a thread."""
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of one text without using a thread."""
        return self.embed_query(text)

    def _vector(self, text: str) -> list[float]:
        if not callable(self._script) and text not in self._script:
            raise ConfigurationError(f"the script of {self.model!r} has no vector for {shortened(text)}")
        line = self._script(text) if callable(self._script) else self._script[text]
        if isinstance(line, BaseException) or (isinstance(line, type) and issubclass(line, BaseException)):
            raise line
        if isinstance(line, str) or not isinstance(line, Sequence):
            raise ConfigurationError(f"a vector is a list of numbers or an exception, not {shortened(line)}")
        return [float(number) for number in line]


class ScriptedJudge(Judge):
    """A judge whose verdicts come from a script.

    A line is a `Verdict`, anything a function under `judges.as_judge` may return (a rating from 1 to 4, True or
    False, a score, a pair with the feedback, a mapping), or an exception, which becomes an unscored verdict.
    Instead of lines, pass a function from the sample to a line.

    Args:
        script: The lines, one line by itself, or the function.
        cycle: Whether to start again after the last line.
        name: The judge's name.

    Attributes:
        samples: The samples judged so far, in order.
    """

    def __init__(
        self,
        script: Sequence[object] | Callable[[Sample], object],
        *,
        cycle: bool = False,
        name: str = "scripted",
    ) -> None:
        self.name = name
        self._script: _Script[object] = _Script(script, cycle=cycle, owner=name)
        self._samples: list[Sample] = []

    @property
    def samples(self) -> list[Sample]:
        """The samples judged so far, in order."""
        return list(self._samples)

    def fingerprint_parts(self) -> tuple[object, ...]:
        """Return what its verdicts depend on: the name and the script, not how far that was read."""
        return self.name, self._script.source

    def deliberate(self, sample: Sample) -> Deliberation:
        """Return the next line as a verdict."""
        yield from ()
        self._samples.append(sample)
        line = self._script.line(sample)
        if isinstance(line, BaseException) or (isinstance(line, type) and issubclass(line, BaseException)):
            raise line
        return verdict_of(line, judge=self.name, returns="rating")
