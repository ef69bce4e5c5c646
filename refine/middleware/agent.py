"""`SelfRefineMiddleware`: the loop around the model calls of an agent."""

from __future__ import annotations

import atexit
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NotRequired, Self, TypeVar, Unpack
from uuid import uuid4
from weakref import WeakSet

from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    ToolCallRequest,
)
from langchain.agents.middleware.types import PrivateStateAttr
from langchain.agents.structured_output import StructuredOutputError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime
from langgraph.types import Command, GraphOutput

from graphs import Bounds, Outcome, Overrides, Policy, langgraph_private, outcome_of
from graphs.answers import without_reasoning
from graphs.drivers import Flow, RunContext, Transition, adrive, drive
from graphs.generators import RETURN_DIRECT, PerRequest
from graphs.graph import build_loop, input_judging
from graphs.outcome import InputError, add_outcome
from graphs.piece_loop import show_rest
from graphs.policy import Override, PolicySettings, fail_closed, policy_of
from graphs.questions import InputMode
from judges import ConfigurationError, as_judge, load
from judges.compose import JudgeLike
from judges.errors import shortened
from judges.first_guesses import HintsAtCalls
from judges.models.providers.langchain import chat_model
from judges.runtime.flow import in_thread
from judges.runtime.validation import naming_settings, whole_number
from refine.middleware.model_call import (
    ModelCall,
    OpenTurns,
    Response,
    Turn,
    answer_in,
    is_structured,
)
from refine.promise_watch import watch_promise
from refine.question import OutcomeListener
from refine.record import Recorder, open_record
from refine.record.rows import Origin

T = TypeVar("T")

_TOOL_CALL = "tool_call: the agent calls a tool, and is judged when it answers"
_NOT_THE_MODEL = "middleware: another middleware gave the answer, not the model"


def _hand_on(
    turn: Turn, response: Response | None, request: ModelRequest[Any], transition: Transition, context: RunContext
) -> ModelResponse[Any]:
    """Return a tool call for the agent, with a note that it was not judged.

    What the model thought of a rejected draft stays in the turn, where the model sees it again. Text beside the
    call that was released in pieces is judged; whoever read them gets the call as the end of that message.
    """
    refinement = turn.refinement
    assert isinstance(response, ModelResponse) and refinement is not None  # noqa: S101, PT018 - a model was asked
    reply = answer_in(response)
    original = reply if transition.update is None else transition.update["messages"][0]
    hides = bool(refinement.attempts) and not refinement.policy.keep_reasoning
    message = without_reasoning(original) if hides else original
    note = {
        "outcome_id": refinement.id,
        "passed": False,
        "stop_reason": "skipped",
        "detail": RETURN_DIRECT if _returns_directly(original, request) else _TOOL_CALL,
    }
    metadata = {**message.response_metadata, langgraph_private.SUMMARY: note}
    message = message.model_copy(update={"id": original.id or str(uuid4()), "response_metadata": metadata})
    if original is not reply:
        show_rest(message, str(message.text), refinement.refiner, context)
    turn.hand_on(message, original if hides else None)
    return ModelResponse([message if one is reply else one for one in response.result])


def _release_response(turn: Turn, outcome: Outcome) -> ModelResponse[Any]:
    """Return the answer as the model gave it, under the id and with the summary of the outcome's."""
    final = outcome.answer
    assert final is not None  # noqa: S101 - without an answer the loop raises
    response = turn.responses.get(outcome.released or 0)
    if isinstance(response, StructuredOutputError):
        raise response
    if response is None:
        return ModelResponse([final])
    original = answer_in(response)
    metadata = _with_inner_summary(final.response_metadata, original)
    if original.tool_calls:
        final = original.model_copy(update={"id": final.id, "response_metadata": metadata})
    elif metadata is not final.response_metadata:
        final = final.model_copy(update={"response_metadata": metadata})
    result = [final if reply is original else reply for reply in response.result]
    return ModelResponse(result, structured_response=response.structured_response)


def _with_inner_summary(metadata: dict[str, Any], answer: AIMessage) -> dict[str, Any]:
    """Return the metadata of a released answer, with the summary of a middleware inside that had released it."""
    inner = answer.response_metadata.get(langgraph_private.SUMMARY)
    if not inner:
        return metadata
    return {**metadata, langgraph_private.SUMMARY: {**metadata[langgraph_private.SUMMARY], "inner": inner}}


def _outcome_ids_in(state: Mapping[str, Any]) -> list[str]:
    """Return the ids of the outcomes that the released answer in an agent's state bears, the outermost first."""
    answer = _last_reply(state["messages"])
    summary = {} if answer is None else answer.response_metadata.get(langgraph_private.SUMMARY)
    ids = []
    while summary:
        ids += [summary["outcome_id"]] if "attempts" in summary else []
        summary = summary.get("inner")
    return ids


def _unjudged_outcome(state: Mapping[str, Any]) -> Outcome:
    """Return the outcome of an agent's result that the model did not give.

    Raises:
        InputError: If the turn has not ended.
    """
    *conversation, last = state["messages"] or (None,)
    waits = isinstance(last, AIMessage) and bool(last.tool_calls)
    if waits or last is None or last.type == "human" or state.get("__interrupt__"):
        raise InputError("the agent's turn has not ended, so there is no outcome yet; go on with it first")
    answer, detail = _ending_in(last)
    return Outcome(
        answer=answer, passed=False, stop_reason="skipped", detail=detail, conversation=tuple(conversation)
    )


def _ending_in(last: AnyMessage) -> tuple[AIMessage | None, str]:
    """Return the answer that the model did not give, if an agent's last message is one, and whose it is."""
    if isinstance(last, AIMessage):
        return last, _NOT_THE_MODEL
    failed = isinstance(last, ToolMessage) and last.status == "error"
    return None, f"{RETURN_DIRECT}, and the tool failed" if failed else RETURN_DIRECT


def _last_reply(messages: Sequence[AnyMessage]) -> AIMessage | None:
    """Return the last message, or the one before the results of its tool calls, if the assistant's."""
    last = next((message for message in reversed(messages) if message.type != "tool"), None)
    return last if isinstance(last, AIMessage) else None


def _returns_directly(message: AIMessage, request: ModelRequest[Any]) -> bool:
    """Check whether the agent ends with the results of the tools that a message calls."""
    direct = {tool.name for tool in request.tools if isinstance(tool, BaseTool) and tool.return_direct}
    return bool(direct) and all(call["name"] in direct for call in message.tool_calls)


_CHANNEL = "refine_turns"


def _merge_turns(turns: dict[str, Any], update: dict[str, Any]) -> dict[str, Any]:
    return {**turns, **update}


class RefineState(AgentState[Any]):
    """What the middleware adds to an agent's state: the turn's token and figures, by the middleware's name."""

    refine_turns: NotRequired[Annotated[dict[str, Any], PrivateStateAttr, _merge_turns]]


_OF_THE_AGENT = frozenset({"checkpointer", "context_schema", "durability", "store"})


def _policy_of(policy: Policy | None, settings: Mapping[str, Any]) -> Policy:
    """Return the policy of a middleware, given as one or as its settings.

    Raises:
        ConfigurationError: If a setting is unknown, out of range, or not for a middleware.
    """
    misplaced = sorted(settings.keys() & _OF_THE_AGENT)
    if misplaced:
        raise ConfigurationError(f"the agent has {', '.join(misplaced)}, not the middleware; give it to the agent")
    policy = policy_of(policy, settings)
    if policy.on_exhausted == "interrupt":
        raise ConfigurationError(
            "on_exhausted='interrupt' is not for a middleware, where resuming would repeat every model call; put "
            "the agent inside instead: SelfRefine(agent, judge, on_exhausted='interrupt', checkpointer=...)"
        )
    if policy.candidates > 1:
        raise ConfigurationError(
            f"candidates={policy.candidates} is not for a middleware, where each draft may call the agent's tools "
            f"first; put the agent inside instead: SelfRefine(agent, judge, candidates={policy.candidates})"
        )
    return policy


def _models_of(policy: Policy) -> dict[int, BaseChatModel]:
    """Return the chat models of a policy's overrides, by the attempt from which on they are used.

    Raises:
        ConfigurationError: If an override has something else, which could not use the agent's tools.
    """
    models: dict[int, BaseChatModel] = {}
    for number in policy.overrides:
        model = policy.override(number).model
        if isinstance(model, str):
            model = chat_model(model)
        if isinstance(model, BaseChatModel):
            models[number] = model
        elif model is not None:
            raise ConfigurationError(
                f"overrides of a middleware have a chat model or its 'provider:model' name, which the agent uses "
                f"with its tools, not {shortened(model)}"
            )
    return models


def _policy_of_calls(policy: Policy) -> Policy:
    """Return the policy of the loop itself, to which each model call of the agent gives its own generator."""
    overrides = {number: Override(temperature=policy.override(number).temperature) for number in policy.overrides}
    return policy.model_copy(update={"overrides": overrides})


_Init = TypeVar("_Init", bound=Callable[..., None])


def _taking_a_judge_alone(init: _Init) -> _Init:
    """Decorate the `__init__` of a middleware so that it says whose the model is where one is given.

    Raises:
        TypeError: If something beside the judge is given without a name.
    """

    @wraps(init)
    def alone(self: object, *parts: object, **settings: object) -> None:
        if len(parts) > 1 or "model" in settings:
            name = type(self).__name__
            raise TypeError(
                f"{name}(judge, ...) takes the judge alone, and settings by name; the model is the agent's: "
                f"create_agent(model, tools, middleware=[{name}(judge)])"
            )
        init(self, *parts, **settings)

    return alone  # type: ignore[return-value]  # as it wraps


class SelfRefineMiddleware(
    HintsAtCalls, AgentMiddleware[Any, Any, Any]
):  # fits into a list with those of any state and context
    """Judge the answers of an agent, and have them written again until one is accepted.

    A reply of the model that calls a tool goes to the agent, and the refinement goes on at the next model call, so
    that tools run again. `max_attempts` and all budgets count over the turn: the model calls since the user's last
    message, with those that call tools. A rejected draft and its feedback are seen by the model alone, in no
    history, stream, event or checkpoint. They are held in this process until the turn ends; a turn that goes on
    in another process keeps its counts, but not its drafts.

    The released message has the summary in `response_metadata["refine"]`; `outcome(result)` returns the whole
    record.

    Args:
        judge: A judge, a function, a judge's name, or a list of these (see `judges.as_judge`). It is shown the
            conversation up to the user's message and, as the trajectory, the tool calls and results since.
        policy: When to accept and when to stop, instead of `settings`. `on_exhausted="interrupt"` is for
            `SelfRefine(agent, judge)`; a model in `overrides` is a chat model or its name.
        bounds: How far a call of the agent may go with the `graphs.Overrides` in its `context`; None allows what
            is stricter or cheaper than the policy.
        on_outcome: Called with the `Outcome` of every turn that ended with an answer of the model or without
            any, sync or async. So is that of a turn with a refused draft which something else ended: at once
            where a tool raised or a middleware gave the answer, else as soon as that is seen, with a later turn
            or at the end of the process. What it raises is a WARNING of the logger `refine`.
        record: Where every turn is recorded: a file of JSON lines, the URL of a database, or an open record.
        name: Name of the middleware in the agent, in events and in the log; an agent takes a name once.
        max_turns: Most turns that are held at once, those that wait for a human included; of more, or of very
            long ones, the oldest lose their drafts, with a WARNING.
        max_outcomes: Number of turns, the last ones, of which `outcome(result)` knows the record.
        piece_judge: Under `release="pieces"`, what judges pieces, outright; see `SelfRefine`.
        input_judge: A judge of the user's message alone, asked once in a turn, before any tool is called; see
            `SelfRefine`.
        input_mode: `"beside"` asks it beside the first model call, `"before"` before it.
        settings: Settings of `Policy`, for instance `success_rating=4, max_attempts=3`.

    Raises:
        ConfigurationError: If a setting is unknown, out of range or not for an agent, or `judge` is unusable.
    """

    state_schema: type[Any] = RefineState
    _guesses_at = "a middleware"

    @_taking_a_judge_alone
    @naming_settings("SelfRefineMiddleware(judge), for instance SelfRefineMiddleware('length:at_most=80')")
    def __init__(
        self,
        judge: JudgeLike,
        *,
        policy: Policy | None = None,
        bounds: Bounds | None = None,
        on_outcome: Callable[[Outcome], object] | None = None,
        record: str | Path | Recorder | None = None,
        name: str = "SelfRefineMiddleware",
        max_turns: int = 1_000,
        max_outcomes: int = 100,
        piece_judge: object = None,
        input_judge: object = None,
        input_mode: InputMode = "beside",
        **settings: Unpack[PolicySettings],
    ) -> None:
        super().__init__()
        if type(self) is SelfRefineMiddleware and on_outcome is None and record is None:
            self.__class__ = _Unheard
        self.policy = _policy_of(policy, settings)
        self._name = name
        judge, questions = as_judge(judge), input_judging(input_judge, input_mode)
        self._loop = build_loop(
            PerRequest(),
            judge,
            _policy_of_calls(self.policy),
            name=name,
            bounds=bounds,
            piece_judge=piece_judge,
            questions=questions,
        )
        self._models = _models_of(self.policy)
        self._record = None if record is None else open_record(record)
        self._origin = Origin() if record is None else Origin.of(name, self._loop.judged_by, self.policy)
        self._watch = None if self.policy.certificate is None else watch_promise(self._record, self._loop)
        self._listener = OutcomeListener(on_outcome)
        self._turns = OpenTurns(
            max_turns=whole_number(max_turns, setting="max_turns"),
            max_outcomes=whole_number(max_outcomes, setting="max_outcomes"),
        )
        _with_open_turns.add(self)
        atexit.unregister(_report_at_exit)
        atexit.register(_report_at_exit)  # last, so that it comes before its record is closed

    @classmethod
    def grounded(cls, model: object, *, threshold: float = 1.0, **settings: Any) -> Self:
        """Return one that lets out only answers whose every sentence the tools' results, or contexts, support.

        It fails closed: of any other answer, of one that the judge gives no verdict on, and of one without
        evidence, the `fallback` text is left, or an error where none is given.

        Args:
            model: The judge's model, as `judges.load` takes it.
            threshold: The share of sentences that must be supported; a contradicted one is never forgiven.
            settings: Other settings of the class.

        Raises:
            ConfigurationError: If a setting lets another answer out, or cannot be used.
        """
        judge = load("groundedness", model=model, threshold=threshold)
        return cls(judge, **fail_closed(settings, called="grounded"))

    @property
    def name(self) -> str:
        """Name of the middleware in the agent."""
        return self._name

    def __repr__(self) -> str:
        settings = f"{self.policy.acceptance}, max_attempts={self.policy.max_attempts}"
        return f"SelfRefineMiddleware({self._loop.judge_name!r}, {settings})"

    def outcome(self, result: Mapping[str, Any] | GraphOutput[Any]) -> Outcome:
        """Return the record of the turn that led to an agent's result.

        Where an agent has several of this middleware, each returns its own; that of an inner one is the record of
        the answer that the outer one released.

        Of a result that was not judged, since a tool or another middleware gave it, the outcome says so: its
        `stop_reason` is `"skipped"`.

        Args:
            result: What the agent returned, a mapping with `messages`.

        Raises:
            InputError: If this is no result, the record is not held here any more, or never was, or the turn has
                not ended.
        """
        state = result.value if isinstance(result, GraphOutput) else result
        if not isinstance(state, Mapping) or "messages" not in state:
            raise InputError(
                f"outcome takes what the agent returned, a mapping with messages, not {shortened(state)}"
            )
        outcome_ids = _outcome_ids_in(state)
        held = filter(None, map(self._turns.outcome, outcome_ids))
        outcome = next(held, None) if outcome_ids else _unjudged_outcome(state)
        if outcome is None:
            raise InputError(
                f"the record of this result is not held: {self._name} holds the last max_outcomes of its own in "
                f"this process; on_outcome=... gets each as it ends"
            )
        return outcome

    def before_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin a turn, while the question stands in the state as it was asked."""
        del runtime
        for turn, outcome in self._take_over(state):
            self._report(outcome, turn)
        return self._hold(Turn.of(state["messages"]))

    async def abefore_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin a turn; as `before_agent`."""
        del runtime
        for turn, outcome in self._take_over(state):
            await self._areport(outcome, turn)
        return self._hold(Turn.of(state["messages"]))

    def _take_over(self, state: AgentState[Any]) -> Iterator[tuple[Turn, Outcome]]:
        """Yield the turns that ended elsewhere, also one that was left unfinished on this thread."""
        return _broken_off(self._turns.take_over(self._figures(state).get("token")))

    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """End a turn that the model did not end, with its refused drafts."""
        del runtime
        for turn, outcome in self._end_with(state):
            self._report(outcome, turn)

    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> None:
        """End a turn; as `after_agent`."""
        del runtime
        for turn, outcome in self._end_with(state):
            await self._areport(outcome, turn)

    def _end_with(self, state: AgentState[Any]) -> Iterator[tuple[Turn, Outcome]]:
        turn = self._turns.take(self._figures(state).get("token"))
        answer, detail = _ending_in(state["messages"][-1])
        outcome = None if turn is None else turn.end(detail, stop_reason="skipped", answer=answer)
        if turn is not None and outcome is not None:
            yield turn, outcome

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Return the answer that may be released, or a reply that calls a tool."""
        turn = self._open_turn(request)
        try:
            context = RunContext(get_config())
            call = self._model_call(turn, request, handler)
            transition = drive(self._steps(turn, call, request, context), context)
        except GraphBubbleUp:
            raise
        except BaseException as error:
            unanswered = _outcome_with(error, turn)
            if unanswered is not None:
                self._report(unanswered, turn)
            raise
        if transition.outcome is None:
            return self._with_figures(turn, _hand_on(turn, call.response, request, transition, context))
        self._report(transition.outcome, turn)
        return _release_response(turn, transition.outcome)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Return the answer that may be released, or a reply that calls a tool, without blocking."""
        turn = self._open_turn(request)
        try:
            context = RunContext(get_config())
            call = self._model_call(turn, request, handler)
            transition = await adrive(self._steps(turn, call, request, context), context)
        except GraphBubbleUp:
            raise
        except BaseException as error:
            unanswered = _outcome_with(error, turn)
            if unanswered is not None:
                await self._areport(unanswered, turn, waits=isinstance(error, Exception))
            raise
        if transition.outcome is None:
            return self._with_figures(turn, _hand_on(turn, call.response, request, transition, context))
        await self._areport(transition.outcome, turn)
        return _release_response(turn, transition.outcome)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], T]) -> T:
        """Call a tool; the context of the agent's call says nothing about agents that the tool calls."""
        try:
            with langgraph_private.inside_of(request.runtime.config):
                return handler(request)
        except GraphBubbleUp:
            raise
        except BaseException as error:
            for turn, outcome in self._broken_by(error, request.state):
                self._report(outcome, turn)
            raise

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[T]]
    ) -> T:
        """Call a tool without blocking; otherwise as `wrap_tool_call`."""
        try:
            with langgraph_private.inside_of(request.runtime.config):
                return await handler(request)
        except GraphBubbleUp:
            raise
        except BaseException as error:
            for turn, outcome in self._broken_by(error, request.state):
                await self._areport(outcome, turn, waits=isinstance(error, Exception))
            raise

    def _broken_by(self, error: BaseException, state: Mapping[str, Any]) -> Iterator[tuple[Turn, Outcome]]:
        """Yield the turn that a tool ended by raising, where a draft of it was refused."""
        turn = self._turns.take(self._figures(state).get("token"))
        outcome = None if turn is None else _outcome_with(error, turn)
        if turn is not None and outcome is not None:
            yield turn, outcome

    def _figures(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an agent's state holds of the turn; empty where it holds nothing."""
        figures: dict[str, Any] = (state.get(_CHANNEL) or {}).get(self._name) or {}
        return figures

    def _open_turn(self, request: ModelRequest[Any]) -> Turn:
        """Return the turn of a model call, brought up to date; it belongs to this call until the call ends."""
        messages, figures = request.state["messages"], self._figures(request.state)
        turn = self._turns.take(figures.get("token")) or Turn.of(messages, figures)
        turn.update(messages)
        return turn

    def _model_call(self, turn: Turn, request: ModelRequest[Any], handler: Callable[..., Any]) -> ModelCall:
        if self.policy.on_exhausted == "fallback" and is_structured(request):
            raise ConfigurationError(
                "on_exhausted='fallback' has no structured answer for an agent with response_format; use 'best' "
                "or 'raise'"
            )
        return ModelCall(turn, request, handler, models=self._models, silent=not self.policy.show_drafts)

    def _steps(
        self, turn: Turn, call: ModelCall, request: ModelRequest[Any], context: RunContext
    ) -> Flow[Transition]:
        """Go through the steps of the loop, until there is an answer or a tool is called."""
        loop = self._loop.with_generator(call)
        turn.resume(request.runtime.control)
        try:
            begun = turn.refinement or loop.begin({"messages": turn.conversation})
            refinement = turn.begin(loop.override(begun, context.overrides))
            if loop.releases_pieces and is_structured(request) and not refinement.held_back:
                refinement = replace(refinement, held_back="structured")
            while True:
                transition = yield from loop.step(turn.next_step, refinement, turn.conversation, context)
                turn.record(transition, call.response)
                refinement = transition.refinement
                if transition.goto is None:
                    break
        except GraphBubbleUp:  # a judge asks a human
            self._turns.put(turn)
            raise
        return transition

    def _with_figures(self, turn: Turn, response: ModelResponse[Any]) -> ExtendedModelResponse[Any]:
        """Hold an unfinished turn, and return a response with its figures for the agent's state."""
        update = self._hold(turn)
        ends = answer_in(response).response_metadata[langgraph_private.SUMMARY]["detail"] == RETURN_DIRECT
        if ends and isinstance(self, _Unheard):  # no hook of it would let go of the turn
            self._turns.take(turn.token)
        return ExtendedModelResponse(response, command=Command(update=update))

    def _hold(self, turn: Turn) -> dict[str, Any]:
        """Hold an unfinished turn, and return what the agent's state holds of it."""
        figures = turn.figures(can_resume=langgraph_private.has_checkpointer(get_config()))
        self._turns.put(turn)
        return {_CHANNEL: {self._name: figures}}

    def _origin_of(self, turn: Turn) -> Origin:
        """Return the origin of a turn, under the policy that its request made of ours."""
        settings = {} if turn.refinement is None else turn.refinement.overrides
        if self._watch is not None:
            self._watch.start()
        policy = self._loop.policy
        changed = Overrides.read(settings).applied_to(policy) if settings else policy
        return self._origin if changed is self.policy else self._origin.under(changed)

    def _report(self, outcome: Outcome, turn: Turn) -> None:
        """Hand an outcome to whoever wants it."""
        self._turns.add_outcome(outcome)
        if self._record is not None:
            self._record.add(outcome, self._origin_of(turn))
        self._listener.tell(outcome)

    def report_open_turns(self) -> None:
        """Report the drafts of the turns that are open, as at the end of the process, which loses them."""
        for turn, outcome in _broken_off(self._turns.take_over(all_of_them=True)):
            self._report(outcome, turn)

    async def _areport(self, outcome: Outcome, turn: Turn, *, waits: bool = True) -> None:
        """Hand an outcome to whoever wants it; without blocking, unless the call is cancelled and cannot wait."""
        self._turns.add_outcome(outcome)
        if self._record is not None and waits:
            await in_thread(self._record.add, outcome, self._origin_of(turn))
        elif self._record is not None:
            self._record.add(outcome, self._origin_of(turn))
        await self._listener.atell(outcome)


class _Unheard(SelfRefineMiddleware):
    """A middleware whose outcomes nobody takes: each hook is a node, which costs an agent a tenth of a turn."""

    after_agent: Any = AgentMiddleware.after_agent
    aafter_agent: Any = AgentMiddleware.aafter_agent


_Unheard.__name__ = _Unheard.__qualname__ = SelfRefineMiddleware.__name__  # what errors call it


def _outcome_with(error: BaseException, turn: Turn) -> Outcome | None:
    """Return the outcome of a turn that an error ends, which then has it; None where nothing was attempted."""
    refinement = turn.refinement
    if refinement is not None and refinement.attempts:
        add_outcome(error, refinement, turn.conversation, now=time.time())
    outcome = outcome_of(error)
    is_own = outcome is not None and refinement is not None and outcome.id == refinement.id
    return outcome if is_own else None


def _broken_off(turns: Iterable[Turn]) -> Iterator[tuple[Turn, Outcome]]:
    for turn in turns:
        outcome = turn.end("something outside of the model's calls ended the turn", stop_reason="broken_off")
        if outcome is not None:
            yield turn, outcome


_with_open_turns: WeakSet[SelfRefineMiddleware] = WeakSet()


def _report_at_exit() -> None:
    """Report what no process can go on with any more: the drafts of turns that were left open in this one."""
    for middleware in list(_with_open_turns):
        middleware.report_open_turns()
