"""The face of the product: `SelfRefine`, a runnable that stands wherever a chat model or an agent stood."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage, convert_to_messages
from langchain_core.prompt_values import PromptValue
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, Command, Durability

from graphs import InputError, JudgeFailed, NotAccepted, Outcome, Policy, Refinement, Unanswered, langgraph_private
from graphs.drivers import RunResult, arun, run
from graphs.graph import compiled, loop_of
from judges import ConfigurationError
from refine.recording import Record

RefineInput = LanguageModelInput | Mapping[str, Any] | Command[Any] | None
"""What may be asked: text, messages, a prompt value, a mapping with `messages`, or a reviewer's `Command`.

Where a checkpointer keeps the conversation, None goes on with a turn that died.
"""

_OUTPUT = ["messages", langgraph_private.SUMMARY, langgraph_private.RECORD]


class SelfRefine(Runnable[RefineInput, AIMessage]):
    """Refine a generator's answers until a judge accepts them.

    A LangChain runnable from a question to the accepted answer. The answer's `response_metadata["refine"]`
    sums up how it came about; `refine` and `arefine` give the whole `Outcome`. Nothing of a rejected draft
    reaches what is returned or streamed. Progress goes out as custom events named `refine.*`.

    Args:
        generator: A chat model or its `"provider:model"` name, a runnable, a compiled agent graph, or a
            function of the list of messages, sync or async.
        judge: A judge, a function, or a list of judges (see `judges.as_judge`).
        policy: When to accept and when to stop, where it is not given as settings.
        checkpointer: A LangGraph checkpointer, for conversations with memory and for reviews by a human; give
            `{"configurable": {"thread_id": ...}}` as config then.
        store: A LangGraph store, for nodes of an agent inside.
        record: File of JSON lines to which every attempt is appended as a sample.
        durability: How soon LangGraph writes a checkpoint: `"sync"` repeats at most one call after a crash,
            `"exit"` keeps only what stands when the answer is there, and is fastest.
        name: Name of the run in a trace.
        settings: Settings of `Policy`, for instance `success_rating=4, max_attempts=3`.

    Raises:
        ConfigurationError: If a setting is unknown or out of range, or generator or judge is none.
    """

    def __init__(
        self,
        generator: object,
        judge: object,
        *,
        policy: Policy | None = None,
        checkpointer: Checkpointer = None,
        store: BaseStore | None = None,
        record: str | Path | None = None,
        durability: Durability = "sync",
        name: str = "SelfRefine",
        **settings: Any,
    ) -> None:
        if policy is not None and settings:
            raise ConfigurationError(f"give policy=... or settings, not both (given also {sorted(settings)})")
        self.name = name
        self.policy = policy or Policy(**settings)
        self._loop = loop_of(generator, judge, self.policy)
        whole = durability == "exit" and not self._loop.may_interrupt
        self.graph = compiled(self._loop, checkpointer=checkpointer, store=store, name=f"{name} loop", whole=whole)
        self._record = None if record is None else Record(record)
        self._durability: dict[str, Any] = {} if not checkpointer else {"durability": durability}

    def invoke(
        self,
        input: RefineInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> AIMessage:
        """Answer a question.

        Args:
            input: The question.
            config: Config of the run; callbacks, tags and metadata are passed on.
            evidence: What else the judge is to see: fields of a `Sample`, for instance `retrieved_contexts`.
            unknown: Nothing: any other setting is refused.

        Raises:
            Unanswered: If no answer may be released: `GeneratorFailed`, or as the policy says `NotAccepted`
                or `JudgeFailed`; `outcome` holds the record.
            InputError: If there is nothing to answer.
            ConfigurationError: If there is any other setting: those of a model are bound to the generator.
        """
        _refuse(unknown)
        return self._call_with_config(self._answer, self._asked(input, evidence), config)  # type: ignore[arg-type]  # it finds out that a config is taken

    async def ainvoke(
        self,
        input: RefineInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> AIMessage:
        """Answer a question without blocking; otherwise as `invoke`."""
        _refuse(unknown)
        return await self._acall_with_config(self._aanswer, self._asked(input, evidence), config)  # type: ignore[arg-type]  # as above

    def refine(
        self,
        input: RefineInput,  # noqa: A002 - as in `invoke`
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Answer a question and give the whole record.

        A run that ends without an answer ends with an outcome too: `answer` is then None, and `stop_reason`
        says why. Only where the policy says `"raise"` is there an error.

        Raises:
            NotAccepted: If no attempt passed and `on_exhausted="raise"`.
            JudgeFailed: If the judge gave no verdict and `on_judge_error="raise"`.
            InputError: If there is nothing to answer.
        """
        outcomes: list[Outcome] = []

        def run(asked: Any, config: RunnableConfig) -> AIMessage | None:
            outcomes.append(self._outcome(asked, config))
            return outcomes[0].answer

        try:
            self._call_with_config(run, self._asked(input, evidence), config)  # type: ignore[arg-type]  # as in `invoke`
        except (NotAccepted, JudgeFailed):
            raise
        except Unanswered as unanswered:
            return unanswered.outcome
        return outcomes[0]

    async def arefine(
        self,
        input: RefineInput,  # noqa: A002 - as in `invoke`
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Answer a question without blocking and give the whole record; otherwise as `refine`."""
        outcomes: list[Outcome] = []

        async def run(asked: Any, config: RunnableConfig) -> AIMessage | None:
            outcomes.append(await self._aoutcome(asked, config))
            return outcomes[0].answer

        try:
            await self._acall_with_config(run, self._asked(input, evidence), config)  # type: ignore[arg-type]  # as above
        except (NotAccepted, JudgeFailed):
            raise
        except Unanswered as unanswered:
            return unanswered.outcome
        return outcomes[0]

    def stream(
        self,
        input: RefineInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> Iterator[AIMessage]:
        """Stream the answer, once it is accepted, as one chunk; progress meanwhile goes out as custom events."""
        _refuse(unknown)
        asked = iter([self._asked(input, evidence)])
        yield from self._transform_stream_with_config(asked, self._streamed, config)

    async def astream(
        self,
        input: RefineInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> AsyncIterator[AIMessage]:
        """Stream the answer, once it is accepted; otherwise as `stream`."""
        _refuse(unknown)

        async def asked() -> AsyncIterator[Any]:
            yield self._asked(input, evidence)

        async for chunk in self._atransform_stream_with_config(asked(), self._astreamed, config):
            yield chunk

    def _answer(self, asked: Any, config: RunnableConfig) -> AIMessage:
        return _released(self._outcome(asked, config))

    async def _aanswer(self, asked: Any, config: RunnableConfig) -> AIMessage:
        return _released(await self._aoutcome(asked, config))

    def _outcome(self, asked: Any, config: RunnableConfig) -> Outcome:
        try:
            if self._needs_graph(asked, config):
                told = langgraph_private.muted_config_with_progress(config)
                with langgraph_private.use_config(told):
                    outcome = self._read(self.graph.invoke(asked, told, output_keys=_OUTPUT, **self._durability))
            else:
                outcome = _summed_up(run(self._loop, asked, config), asked)
        except Unanswered as unanswered:
            self._write(unanswered.outcome)
            raise
        self._write(outcome)
        return outcome

    async def _aoutcome(self, asked: Any, config: RunnableConfig) -> Outcome:
        try:
            if self._needs_graph(asked, config):
                told = langgraph_private.muted_config_with_progress(config)
                with langgraph_private.use_config(told):
                    state = await self.graph.ainvoke(asked, told, output_keys=_OUTPUT, **self._durability)
                outcome = self._read(state)
            else:
                outcome = _summed_up(await arun(self._loop, asked, config), asked)
        except Unanswered as unanswered:
            await self._awrite(unanswered.outcome)
            raise
        await self._awrite(outcome)
        return outcome

    def _needs_graph(self, asked: Any, config: RunnableConfig) -> bool:
        """Tell whether there is anything to checkpoint or resume; if not, the steps run without the graph."""
        return (
            bool(self.graph.checkpointer)
            or langgraph_private.has_checkpointer(config)
            or isinstance(asked, Command)
        )

    def _asked(self, given: RefineInput | None, evidence: Mapping[str, Any] | None) -> Any:
        """Read what was asked as the graph's input; None goes on with a turn that died, where one is kept."""
        resumes = given is None and bool(self.graph.checkpointer)
        return given if resumes or isinstance(given, Command) else _question(given, evidence)

    def _streamed(
        self, asked: Iterator[Any], run_manager: Any, config: RunnableConfig
    ) -> Iterator[AIMessageChunk]:
        del run_manager
        yield _chunk(self._answer(next(asked), config))

    async def _astreamed(
        self, asked: AsyncIterator[Any], run_manager: Any, config: RunnableConfig
    ) -> AsyncIterator[AIMessageChunk]:
        del run_manager
        yield _chunk(await self._aanswer(await anext(asked), config))

    def _read(self, state: Mapping[str, Any]) -> Outcome:
        """Make the outcome of the graph's final state."""
        refinement = Refinement.read(state[langgraph_private.RECORD], self.policy)
        if state.get(langgraph_private.SUMMARY) is None:
            return _waiting(refinement, state["messages"])
        *conversation, answer = state["messages"]
        return Outcome.of(refinement, conversation, answer, now=time.time())

    def _write(self, outcome: Outcome) -> None:
        if self._record is not None:
            self._record.add(outcome)

    async def _awrite(self, outcome: Outcome) -> None:
        if self._record is not None:
            await asyncio.to_thread(self._record.add, outcome)


def _refuse(unknown: Mapping[str, Any]) -> None:
    if unknown:
        raise ConfigurationError(
            f"SelfRefine takes no {sorted(unknown)} with a question; bind settings of the model to the generator, "
            f"SelfRefine(model.bind(...), judge)"
        )


def _question(given: Any, evidence: Mapping[str, Any] | None) -> dict[str, Any]:
    messages: Any = given
    if isinstance(given, Mapping):
        strange = sorted(set(given) - {"messages", "evidence"})
        if "messages" not in given or strange:
            raise InputError(
                f"a question given as a mapping has 'messages' and, if need be, 'evidence', not {strange}"
            )
        messages, evidence = given["messages"], evidence or given.get("evidence")
    question = {"messages": _messages(messages)}
    return question if evidence is None else {**question, "evidence": dict(evidence)}


def _messages(given: Any) -> list[BaseMessage]:
    if isinstance(given, str):
        return convert_to_messages([("user", given)]) if given.strip() else []
    if isinstance(given, PromptValue):
        return given.to_messages()
    if isinstance(given, BaseMessage):
        return [given]
    if not isinstance(given, Sequence):
        raise InputError(f"cannot read {given!r} as a question; give a text or a list of messages")
    try:
        return convert_to_messages(given)
    except (ValueError, NotImplementedError) as error:
        raise InputError(f"cannot read the messages: {str(error).splitlines()[0]}") from error


def _released(outcome: Outcome) -> AIMessage:
    if outcome.answer is None:
        raise Unanswered(f"the answer awaits a review ({outcome.detail}); resume with a Command", outcome)
    return outcome.answer


def _chunk(answer: AIMessage) -> AIMessageChunk:
    fields = answer.model_dump(exclude={"type"})
    return AIMessageChunk(**fields, chunk_position="last")


def _summed_up(ended: RunResult, asked: Mapping[str, Any]) -> Outcome:
    if ended.answer is None:
        return _waiting(ended.refinement, asked["messages"])
    return Outcome.of(ended.refinement, asked["messages"], ended.answer, now=time.time())


def _waiting(refinement: Refinement, conversation: Sequence[AnyMessage]) -> Outcome:
    """Sum up a run that waits for a human: `detail` tells why it stopped trying."""
    outcome = Outcome.of(refinement, conversation, None, now=time.time())
    return outcome.model_copy(update={"stop_reason": "interrupted", "detail": refinement.stop_reason or ""})
