"""The ways to ask a refiner, each typed by the form of the question."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, overload

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import RunnableConfig

from graphs import JudgeFailed, NotAccepted, Outcome, Overrides, Rejected, Unanswered
from judges import ConfigurationError
from refine.binding import BindsToGenerator
from refine.configured import acall_as_run, call_as_run
from refine.question import (
    ModelQuestion,
    RefineInput,
    RefineOutput,
    StateQuestion,
    StateUpdate,
    reply,
    reply_without_answer,
)


class AnswersQuestions(BindsToGenerator):
    """A runnable from a question to its accepted answer, or to the whole record of how it came about.

    Asked as a chat model it returns a message, asked as an agent or as a node of a graph an update of the state.
    """

    @abstractmethod
    def _with_overrides(self, config: RunnableConfig | None, context: object) -> RunnableConfig | None:
        """Return the config of a run that carries what its request changes."""

    @abstractmethod
    def _graph_input(
        self, value: RefineInput, evidence: Mapping[str, Any] | None, config: RunnableConfig | None
    ) -> Any:
        """Return a question as the loop takes it."""

    @abstractmethod
    def _outcome(self, graph_input: Any, config: RunnableConfig) -> Outcome:
        """Run the loop and record what came of it."""

    @abstractmethod
    async def _aoutcome(self, graph_input: Any, config: RunnableConfig) -> Outcome:
        """Run the loop without blocking and record what came of it."""

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """A question in any form."""
        return RefineInput

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """The answer, as a message or as an update of a graph's state."""
        return RefineOutput

    @overload
    def invoke(
        self,
        input: StateQuestion,
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> StateUpdate: ...

    @overload
    def invoke(
        self,
        input: ModelQuestion,
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> AIMessage: ...

    def invoke(
        self,
        input: RefineInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> RefineOutput:
        """Answer a question.

        Args:
            input: The question.
            config: Config of the run; callbacks, tags and metadata are passed on.
            evidence: Further evidence for the judge: fields of a `Sample`, for instance `retrieved_contexts`.
            context: What this request changes, an `Overrides` or a mapping of its settings; with a resume, from
                there on.
            unknown: Any other setting, which is refused.

        Raises:
            Unanswered: If no answer may be released: `GeneratorFailed`, or as the policy says `NotAccepted`
                or `JudgeFailed`; `outcome` holds the record.
            InputError: If there is nothing to answer, a reviewer's decision cannot be read or is not awaited, or
                the context cannot be read or goes beyond the bounds.
            ConcurrentTurn: If another turn runs on the thread, see `concurrent_turns`; as `ReviewPending`, if it
                waits for a human, see `on_new_question`.
            ConfigurationError: If there is any other setting; bind settings of a model to the generator.
        """
        _refuse(unknown)
        config = self._with_overrides(config, context)
        graph_input = self._graph_input(input, evidence, config)
        try:
            answer = call_as_run(self, self._answer, graph_input, config)
        except Rejected as rejected:
            return reply_without_answer(rejected, input, config)
        return reply(answer, input, config)

    @overload
    async def ainvoke(
        self,
        input: StateQuestion,
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> StateUpdate: ...

    @overload
    async def ainvoke(
        self,
        input: ModelQuestion,
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> AIMessage: ...

    async def ainvoke(
        self,
        input: RefineInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> RefineOutput:
        """Answer a question without blocking; otherwise as `invoke`."""
        _refuse(unknown)
        config = self._with_overrides(config, context)
        graph_input = self._graph_input(input, evidence, config)
        try:
            answer = await acall_as_run(self, self._aanswer, graph_input, config)
        except Rejected as rejected:
            return reply_without_answer(rejected, input, config)
        return reply(answer, input, config)

    def refine(
        self,
        input: RefineInput,  # noqa: A002 - as in `invoke`
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Answer a question and return the whole record.

        A run without an answer returns an outcome too: `answer` is then None, and `stop_reason` says why. It is an
        error only if the policy says `"raise"`.

        Raises:
            NotAccepted: If no attempt passed and `on_exhausted="raise"`.
            JudgeFailed: If the judge gave no verdict and `on_judge_error="raise"`.
            InputError: If there is nothing to answer.
        """
        outcomes: list[Outcome] = []
        config = self._with_overrides(config, context)

        def run(graph_input: Any, config: RunnableConfig) -> AIMessage | None:
            outcomes.append(self._outcome(graph_input, config))
            return outcomes[0].answer

        try:
            call_as_run(self, run, self._graph_input(input, evidence, config), config)
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
        context: Overrides | Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Answer a question without blocking and return the whole record; otherwise as `refine`."""
        outcomes: list[Outcome] = []
        config = self._with_overrides(config, context)

        async def run(graph_input: Any, config: RunnableConfig) -> AIMessage | None:
            outcomes.append(await self._aoutcome(graph_input, config))
            return outcomes[0].answer

        try:
            await acall_as_run(self, run, self._graph_input(input, evidence, config), config)
        except (NotAccepted, JudgeFailed):
            raise
        except Unanswered as unanswered:
            return unanswered.outcome
        return outcomes[0]

    @overload
    def stream(
        self,
        input: StateQuestion,
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> Iterator[StateUpdate]: ...

    @overload
    def stream(
        self,
        input: ModelQuestion,
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> Iterator[AIMessage]: ...

    def stream(
        self,
        input: RefineInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> Iterator[RefineOutput]:
        """Stream the answer, once it is accepted, as one chunk; progress is sent as custom events meanwhile."""
        _refuse(unknown)
        config = self._with_overrides(config, context)
        inputs = iter([self._graph_input(input, evidence, config)])
        try:
            for answer in self._transform_stream_with_config(inputs, self._stream_answer, config):
                yield _streamed(answer, input, config)
        except Rejected as rejected:
            yield reply_without_answer(rejected, input, config)

    @overload
    def astream(
        self,
        input: StateQuestion,
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> AsyncIterator[StateUpdate]: ...

    @overload
    def astream(
        self,
        input: ModelQuestion,
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> AsyncIterator[AIMessage]: ...

    async def astream(
        self,
        input: RefineInput,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        *,
        evidence: Mapping[str, Any] | None = None,
        context: Overrides | Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> AsyncIterator[RefineOutput]:
        """Stream the answer, once it is accepted; otherwise as `stream`."""
        _refuse(unknown)
        config = self._with_overrides(config, context)

        async def inputs() -> AsyncIterator[Any]:
            yield self._graph_input(input, evidence, config)

        try:
            async for answer in self._atransform_stream_with_config(inputs(), self._astream_answer, config):
                yield _streamed(answer, input, config)
        except Rejected as rejected:
            yield reply_without_answer(rejected, input, config)

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


def _refuse(unknown: Mapping[str, Any]) -> None:
    if unknown:
        raise ConfigurationError(
            f"SelfRefine takes no {sorted(unknown)} with a question; bind settings of the model to the generator, "
            f"SelfRefine(model.bind(...), judge)"
        )


def _release(outcome: Outcome) -> AIMessage:
    if outcome.answer is None:
        reason = f" ({outcome.detail})" if outcome.detail else ""
        raise Unanswered(f"the answer awaits a review{reason}; resume with a Command", outcome)
    return outcome.answer


def _streamed(answer: AIMessage, value: RefineInput, config: RunnableConfig | None) -> RefineOutput:
    """Return the answer in the form that matches the question; a message is streamed as one chunk."""
    output = reply(answer, value, config)
    return _chunk(output) if isinstance(output, AIMessage) else output


def _chunk(answer: AIMessage) -> AIMessageChunk:
    fields = answer.model_dump(exclude={"type"})
    return AIMessageChunk(**fields, chunk_position="last")
