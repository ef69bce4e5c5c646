"""The loop as a LangGraph graph."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, Unpack, cast, get_args

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.channels import EphemeralValue
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Command, Interrupt, StateSnapshot
from typing_extensions import TypedDict  # pydantic cannot read the standard one on Python 3.11

from graphs import langgraph_private, turns
from graphs.candidates import CandidatesLoop
from graphs.certified_loop import CertificateWarning, check_certificate
from graphs.drivers import Flow, Messages, Node, RunContext, Transition, adrive, drive, handing_on, records_of
from graphs.generators import GeneratorLike
from graphs.loop import Loop
from graphs.outcome import InputError, Outcome, outcome_of
from graphs.overrides import Bounds, Overrides, overrides_in
from graphs.piece_loop import PieceLoop, whole_judge
from graphs.pieces import judges_of_pieces, may_release_pieces
from graphs.policy import Policy, PolicySettings, policy_of
from graphs.questions import InputJudging, InputMode
from graphs.refinement import Refinement, Status, evolve
from graphs.structure import is_structured
from judges.catalogue.names import named, one_judge
from judges.compose import JudgeLike
from judges.compose.of_question import as_input_judge
from judges.errors import ConfigurationError, shortened
from judges.first_guesses import HintsAtCalls
from judges.judge import Judge
from judges.models.providers.langchain import looks_like_chat_model
from judges.models.providers.openai import OpenAICompatible
from judges.runtime import flow
from judges.runtime.validation import SharedByCopies, naming_settings, warn_caller


class SelfJudgingWarning(UserWarning):
    """The generating model is also the judging model; models tend to favour their own answers."""


def build_loop(
    generator: object,
    judge: object,
    policy: Policy,
    *,
    name: str,
    bounds: Bounds | None = None,
    piece_judge: object = None,
    questions: InputJudging | None = None,
) -> Loop:
    """Return the loop around a generator and a judge, and warn if a model is to judge itself.

    Raises:
        ConfigurationError: If generator or judge is unusable, or the policy's certificate is about another loop.
    """
    if not isinstance(cast("object", name), str) or not name.strip():
        raise ConfigurationError(f"name is a text, not {shortened(name)}")
    if not isinstance(bounds, Bounds | None):
        raise ConfigurationError(
            f"bounds is a graphs.Bounds, for instance Bounds(max_attempts=5), not {shortened(bounds)}"
        )
    coerced = judge_for(generator, judge)
    if any(model.is_model(generator) for model in coerced.models):
        doubt = f"{coerced.name!r} asks the very model that generates; judges favour their own answers"
        warn_caller(doubt, SelfJudgingWarning)
    of_pieces = None if piece_judge is None else judge_for(generator, piece_judge)
    whole = whole_judge(coerced, of_pieces)
    for doubt in check_certificate(whole, policy, generator):
        warn_caller(doubt, CertificateWarning)
    may_release = may_release_pieces(policy, bounds, piece_judge, questions)
    held_back = "structured" if may_release and is_structured(generator) else ""
    if may_release and not held_back:
        parts = judges_of_pieces(coerced, of_pieces)
        if not policy.held_back:
            return PieceLoop(generator, coerced, policy, name=name, bounds=bounds, **parts)
    kind = Loop if policy.candidates == 1 else CandidatesLoop
    loop = kind(generator, whole, policy, name=name, bounds=bounds, questions=questions)
    return evolve(loop, held_back=held_back) if held_back else loop


def input_judging(
    judge: object, mode: InputMode, *, generator: object = None, model: object = None, remedy: str = ""
) -> InputJudging | None:
    """Return what asks an input judge, made from whatever `judges.as_judge` takes; None where there is none.

    Args:
        judge: The judge.
        mode: When it is asked.
        generator: The generator, which judges that are given by name ask where they have no model.
        model: The model that they ask.
        remedy: What to do where one needs a model and has none.

    Raises:
        ConfigurationError: If it is no judge of the question alone, or the mode is none.
    """
    if judge is None:
        return None
    default = generator if _is_model(generator) else None
    resolve = partial(named, model=model, default=default, remedy=remedy)
    return InputJudging(as_input_judge(judge, resolve=resolve), mode)


def judge_for(generator: object, judge: object) -> Judge:
    """Return the judge of a generator's answers; one given by its name asks the generator, where it has no model.

    Raises:
        ConfigurationError: If it is no judge, or it needs a model and the generator is none.
    """
    return one_judge(judge, default=generator if _is_model(generator) else None)


def _is_model(generator: object) -> bool:
    """Check whether a judge can ask the generator; a `SelfRefine` has a chat model's methods, and is a loop."""
    if isinstance(generator, str | OpenAICompatible):
        return True
    return looks_like_chat_model(generator) and not hasattr(generator, "arefine")


_Graph = CompiledStateGraph[Any, Any, Any, Any]

Checkpointer = BaseCheckpointSaver[Any] | bool | None
"""LangGraph's type of the same name, with the parameter that it leaves open."""

LoopCheckpointer = Checkpointer | Literal["inherit"]
"""Where a loop's state is saved; `"inherit"` says that the graph around, or the server, has a checkpointer."""


class LoopGraph(HintsAtCalls, SharedByCopies, CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose turns on one thread of a checkpointer never run at once in this process.

    All ways to run a graph come down to `stream` and `astream`, so what holds for every turn is seen to there: its
    place on the thread, its overrides, and that its steps are saved before the next one starts. A config's
    `recursion_limit` bounds the steps of an agent inside, never the loop, which its policy bounds.

    Invoked where no step is stored, streamed or traced, it runs all attempts in one step: that costs a third less.

    Args:
        loop: The loop that it runs.
        concurrent_turns: What becomes of a turn while another one runs on its thread; see `graphs.self_refine`.
        on_new_question: What becomes of a new question while the turn before waits for a human.
        in_one_step: Returns a graph of the same loop with all attempts in one node; None where a step of its own
            must be made of each call.
        settings: Those of LangGraph's class.
    """

    _guesses_at = "a graph"

    loop: Loop
    concurrent_turns: turns.ConcurrentTurns
    on_new_question: turns.OnNewQuestion
    in_one_step: Callable[[], _Graph] | None

    def __init__(
        self,
        *,
        loop: Loop,
        concurrent_turns: turns.ConcurrentTurns = "queue",
        on_new_question: turns.OnNewQuestion = "refuse",
        in_one_step: Callable[[], _Graph] | None = None,
        **settings: Any,
    ) -> None:
        if concurrent_turns not in get_args(turns.ConcurrentTurns):
            raise ConfigurationError(f"concurrent_turns is 'queue' or 'refuse', not {concurrent_turns!r}")
        if on_new_question not in get_args(turns.OnNewQuestion):
            raise ConfigurationError(f"on_new_question is 'refuse' or 'supersede', not {on_new_question!r}")
        super().__init__(**settings)
        self.loop = loop
        self.concurrent_turns = concurrent_turns
        self.on_new_question = on_new_question
        self.in_one_step = in_one_step

    @classmethod
    def of(cls, compiled: _Graph, **settings: Any) -> LoopGraph:
        """Return a compiled graph as one of this class, with its settings."""
        graph = cls(**settings, **vars(compiled))
        vars(graph).update(vars(compiled))  # what LangGraph set after it made the graph, and leaves out of a copy
        return graph

    def __reduce__(self) -> tuple[Any, ...]:
        raise ConfigurationError("a compiled graph is not pickled; make it by self_refine in each process")

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """Return the schema of a run's context, with its settings behind a reference.

        A LangGraph server drops silently what it does not find among a schema's own properties; where there are
        none it hands everything on, and a misspelt setting is an error.
        """
        schema = super().get_context_jsonschema()
        return schema and {"$ref": "#/$defs/Overrides", "$defs": {"Overrides": schema}}

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread; its `status` tells whether the turn is running, waiting or done."""
        return turns.with_status(super().get_state(config, subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread without blocking; otherwise as `get_state`."""
        return turns.with_status(await super().aget_state(config, subgraphs=subgraphs))

    def invoke(
        self,
        input: Any,  # noqa: A002 - LangGraph's name
        config: RunnableConfig | None = None,
        **settings: Any,
    ) -> Any:
        """Run a turn and return the state at its end; see LangGraph."""
        return super(LoopGraph, self._graph_for(input, config, settings)).invoke(input, config, **settings)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - LangGraph's name
        config: RunnableConfig | None = None,
        **settings: Any,
    ) -> Any:
        """Run a turn without blocking; otherwise as `invoke`."""
        return await super(LoopGraph, self._graph_for(input, config, settings)).ainvoke(input, config, **settings)

    def stream(
        self,
        input: Any,  # noqa: A002 - LangGraph's name
        config: RunnableConfig | None = None,
        **settings: Any,
    ) -> Iterator[Any]:
        """Stream a turn, once it is alone on its thread; see LangGraph."""
        config, settings = self._read(config, settings)
        thread = self._thread(config)
        shown_interrupts = flow.run(self._open_interrupts(input, config, thread), self.get_state)
        config = handing_on(config)
        with _keeping_outcome(config), turns.turn(thread, self.concurrent_turns, self.loop.policy.deadline_s):
            begin = self._begin(input, config, thread, shown_interrupts)
            input, config, decision = flow.run(begin, self.get_state)  # noqa: A001
            yield from super().stream(input, config, **settings)
            if decision is not None:
                turns.check_reached(input, decision)

    async def astream(
        self,
        input: Any,  # noqa: A002 - LangGraph's name
        config: RunnableConfig | None = None,
        **settings: Any,
    ) -> AsyncIterator[Any]:
        """Stream a turn without blocking; otherwise as `stream`."""
        config, settings = self._read(config, settings)
        thread = self._thread(config)
        shown_interrupts = await flow.arun(self._open_interrupts(input, config, thread), self.aget_state)
        config = handing_on(config)
        with _keeping_outcome(config):
            async with turns.aturn(thread, self.concurrent_turns, self.loop.policy.deadline_s):
                begun = await flow.arun(self._begin(input, config, thread, shown_interrupts), self.aget_state)
                input, config, decision = begun  # noqa: A001
                chunks: Any = super().astream(input, config, **settings)  # an async generator, typed as less
                async with aclosing(chunks):
                    async for chunk in chunks:
                        yield chunk
                if decision is not None:
                    turns.check_reached(input, decision)

    def _read(
        self, config: RunnableConfig | None, settings: Mapping[str, Any]
    ) -> tuple[RunnableConfig, dict[str, Any]]:
        """Return the config and the settings of a run: with its overrides, and durable unless it is said how much.

        A step limit is handed on to what runs inside.

        Raises:
            InputError: If no thread is named, or the overrides cannot be read or go too far.
        """
        config, settings = config or {}, dict(settings)
        if self._thread(config) == ():
            raise InputError(
                "the checkpointer keeps each conversation under a thread, and this call names none; give it the "
                "config {'configurable': {'thread_id': 'any text'}}"
            )
        context = settings.get("context")
        if isinstance(context, Overrides | Mapping):
            settings["context"] = None
            overrides: Overrides | None = Overrides.read(context)
        else:
            overrides = overrides_in(context)
        if overrides is not None:
            self.loop.check_overrides(overrides)
            config = langgraph_private.carry(config, langgraph_private.OVERRIDES, overrides)
        if langgraph_private.lacks_durability(settings, self._merged(config), self.checkpointer):
            settings["durability"] = "sync"
        inherited = ensure_config(self._merged(config))
        return langgraph_private.with_unlimited_loop(config, inherited), settings

    def _open_interrupts(
        self, turn_input: Any, config: RunnableConfig, thread: Hashable
    ) -> Generator[RunnableConfig, StateSnapshot, Sequence[Interrupt]]:
        """Return the interrupts that are open when a decision is made; yields the config of the state to read."""
        if not isinstance(turn_input, Command) or thread is None:
            return ()
        return (yield config).interrupts

    def _begin(
        self, turn_input: Any, config: RunnableConfig, thread: Hashable, shown_interrupts: Sequence[Interrupt]
    ) -> Generator[RunnableConfig, StateSnapshot, tuple[Any, RunnableConfig, turns.CarriedDecision | None]]:
        """Return input and config of a turn that may begin, and its decision; yields as `_open_interrupts`."""
        if not isinstance(turn_input, Mapping | Command | None):
            raise InputError(
                f"the graph takes {{'messages': [('user', 'Hello')]}}, and beside it evidence, not "
                f"{type(turn_input).__name__}; SelfRefine(generator, judge) takes a text, too"
            )
        if thread is None:
            return turn_input, config, None
        if turn_input is None:
            before = yield config
            if not (before.values or before.next):
                raise InputError(
                    "no question was asked on this thread, so there is no turn to go on with; ask one, or check "
                    "the thread_id"
                )
            return turn_input, config, None
        if isinstance(turn_input, Command):
            turns.check_decision(turn_input, (yield config).interrupts, shown_interrupts)
            decision = turns.CarriedDecision()
            return turn_input, langgraph_private.carry(config, langgraph_private.DECISION, decision), decision
        may_end_without = self.loop.can_await_human or self.loop.input_judge is not None
        if may_end_without and not langgraph_private.names_a_checkpoint(config):
            turn_input = turns.admit_question(turn_input, (yield config), self.on_new_question)
        return turn_input, config, None

    def _merged(self, config: RunnableConfig | None) -> RunnableConfig:
        return merge_configs(self.config, config) if self.config else config or {}

    def _thread(self, config: RunnableConfig) -> Hashable:
        return langgraph_private.thread_of(self._merged(config), self.checkpointer)

    def _graph_for(self, value: Any, config: RunnableConfig | None, settings: Mapping[str, Any]) -> LoopGraph:
        """Return the graph that a turn runs on: with all attempts in one step where nobody sees the steps."""
        is_plain = isinstance(value, Mapping) and settings.keys() <= _UNSEEN_SETTINGS
        if self.in_one_step is None or not is_plain or any(map(vars(self).get, _SEEN_ATTRIBUTES)):
            return self
        if langgraph_private.is_watched(self._merged(config)):
            return self
        one_step = vars(self.in_one_step())
        return evolve(self, **{name: one_step[name] for name in _STEPS})


@contextmanager
def _keeping_outcome(config: RunnableConfig) -> Iterator[None]:
    """Give an error that LangGraph raises for a step that was cancelled the outcome that the step's own has."""
    try:
        yield
    except BaseException as error:
        outcome = records_of(config).broken_off
        if isinstance(outcome, Outcome) and outcome_of(error) is None:
            vars(error)["outcome"] = outcome
        raise


_STEPS = ("nodes", "channels", "trigger_to_nodes")
"""Attributes of a compiled graph that say which steps it has."""

_SEEN_ATTRIBUTES = (
    "checkpointer",
    "debug",
    "interrupt_after_nodes",
    "interrupt_before_nodes",
    "retry_policy",
    "step_timeout",
)
"""Attributes of a compiled graph by which its steps are stored, shown, stopped at, repeated or timed."""

_UNSEEN_SETTINGS = frozenset({"context"})
"""Settings of a run that have nothing to do with its steps."""


_EDGES: dict[Node, dict[str, str]] = {
    "generate": {"judge": "", "finish": ""},
    "judge": {"generate": "augment", "finish": ""},
}
"""Targets of each node before the last, each with the label of the edge to it."""

_EDGES_OF_CANDIDATES: dict[Node, dict[str, str]] = {
    "generate": {"judge": "one draft", "generate": "augment", "finish": ""}
}
"""With several candidates the step `generate` judges too; where a single draft is made, the next step does."""


class NodeInput(TypedDict):
    """Input of a node of the loop: the conversation."""

    messages: Annotated[list[AnyMessage], add_messages]


class GraphInput(NodeInput, total=False):
    """Input of the graph: the conversation and, if there is any, evidence (fields of a sample)."""

    evidence: Annotated[dict[str, Any], EphemeralValue]


class GraphOutput(NodeInput):
    """Output of the graph: the conversation with the answer, and a summary without rejected text."""

    refine: dict[str, Any] | None


class _State(GraphInput, GraphOutput):
    status: Status
    refinement: dict[str, Any]


class _Entrance(Runnable[Any, str]):
    """The edge into the graph: starts the record."""

    name = "begin"

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        """Start the record and return the name of the edge."""
        config = config or {}
        begun = self._loop.begin(input)
        _write(self._loop.override(begun, RunContext(config).overrides), config)
        langgraph_private.write(config, langgraph_private.SUMMARY, None)
        langgraph_private.write(config, langgraph_private.STATUS, "running")
        return self.name

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        """Do the same; nothing blocks."""
        return self.invoke(input, config)


_ALL_ATTEMPTS: Literal["tries"] = "tries"
"""The node that makes all attempts, for use where no step is checkpointed."""


class _StepNode(Runnable[Any, Any]):
    """A node of the graph: runs one step of the loop, or all attempts.

    Args:
        name: The step, or the node of all attempts.
        loop: The loop.
        first: The node in which attempts begin.
    """

    def __init__(self, name: Node | Literal["tries"], loop: Loop, first: str) -> None:
        self.name = self._node = name
        self._loop = loop
        self._first = first

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the step, blocking."""
        config = config or {}
        context = RunContext(config)
        step = self._step(_load(context, self._loop), input["messages"], context)
        if self.name == "finish":  # the answer is announced in this step, so nothing may refuse it afterwards
            turns.check_current(config)
        with langgraph_private.leaving_the_graph(config):
            transition = drive(step, context)
        if self.name != "finish":
            turns.check_current(config)
        return self._apply(transition, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the step without blocking the event loop."""
        config = config or {}
        context = RunContext(config)
        step = self._step(_load(context, self._loop), input["messages"], context)
        if self.name == "finish":  # the answer is announced in this step, so nothing may refuse it afterwards
            await turns.acheck_current(config)
        with langgraph_private.leaving_the_graph(config):
            transition = await adrive(step, context)
        if self.name != "finish":
            await turns.acheck_current(config)
        return self._apply(transition, config)

    def _step(self, refinement: Refinement, messages: Messages, context: RunContext) -> Flow[Transition]:
        if self._node != _ALL_ATTEMPTS:
            return (yield from self._loop.step(self._node, refinement, messages, context))
        return Transition(refinement=(yield from self._loop.attempts(refinement, messages, context)))

    def _apply(self, transition: Transition, config: RunnableConfig) -> Any:
        _write(transition.refinement, config, transition.outcome)
        ended = self.name == "finish" and transition.goto is None
        status = "done" if ended else transition.refinement.status
        if self.name == "finish" or status != "running":  # until its last step a turn is running, stored as that
            langgraph_private.write(config, langgraph_private.STATUS, status)
        if self.name != "finish" and transition.refinement.stop_reason == "question_refused":
            refused = Outcome.of(transition.refinement, (), None, now=time.time()).summary()
            langgraph_private.write(config, langgraph_private.SUMMARY, refused)  # for the turn after this one
        decision = turns.CarriedDecision.of(config)
        if decision is not None:
            decision.error = transition.refusal
        if transition.goto is None:
            return transition.update
        return Command(goto=self._first if transition.goto == "generate" else transition.goto)


def _load(context: RunContext, loop: Loop) -> Refinement:
    """Return the record of a node's turn, with what the request of the run overrides."""
    config = context.config
    decision = turns.CarriedDecision.of(config)
    if decision is not None:
        decision.reached_a_step = True
    data = langgraph_private.read(config, langgraph_private.RECORD)
    written = recall_step(data, config)
    return loop.override(loop.read(data) if written is None else written.refinement, context.overrides)


class _StepRecord(NamedTuple):
    """What a step wrote: the record and, if it was the last step, the outcome."""

    refinement: Refinement
    outcome: Outcome | None


def recall_step(data: object, config: RunnableConfig) -> _StepRecord | None:
    """Return what a step of this run wrote as `data`; None where that comes from a checkpoint."""
    written: _StepRecord | None = records_of(config).written_as(data)
    return written


def _write(refinement: Refinement, config: RunnableConfig, outcome: Outcome | None = None) -> None:
    """Write the record: as plain data where it goes into a checkpoint, otherwise as it is."""
    is_kept = langgraph_private.carried(config, langgraph_private.RECORDS) is not None
    if is_kept and not langgraph_private.has_checkpointer(config):  # nor is a state updated by hand
        langgraph_private.write(config, langgraph_private.RECORD, refinement)
        return
    data = refinement.to_state()
    records_of(config).keep(data, _StepRecord(refinement, outcome))
    langgraph_private.write(config, langgraph_private.RECORD, data)


@naming_settings("self_refine(generator, judge), for instance self_refine(model, 'helpfulness')")
def self_refine(
    generator: GeneratorLike,
    judge: JudgeLike,
    *,
    policy: Policy | Mapping[str, Any] | None = None,
    checkpointer: LoopCheckpointer = None,
    store: BaseStore | None = None,
    name: str = "self_refine",
    concurrent_turns: turns.ConcurrentTurns = "queue",
    on_new_question: turns.OnNewQuestion = "refuse",
    bounds: Bounds | None = None,
    piece_judge: object = None,
    **settings: Unpack[PolicySettings],
) -> LoopGraph:
    """Compile the loop around a generator: generate, judge, augment, generate again, finish.

    The graph takes `{"messages": [...]}`, and `{"evidence": {...}}` where the judge is to see a reference or
    retrieved contexts (fields of a `Sample`). It appends one message, the answer, with a summary in its
    `response_metadata["refine"]`. It streams nothing of a rejected draft in any mode, and can be a node of another
    graph over messages.

    With a checkpointer each step is saved before the next one starts (`durability="sync"`), however the graph is
    run, unless the run, or that of the graph around, says otherwise. The state then has a `status`: `running`,
    `waiting` for a human, or `done`. A turn that broke off goes on with the input None.

    With `on_exhausted="interrupt"` it interrupts for a human, who resumes with `Command(resume="accept")`,
    `"reject"`, `{"answer": "the text to send"}`, or `{"feedback": "what to change"}` for another attempt, of which
    the policy's `max_revisions` says how many there may be. Any other decision is an `InputError` and can be given
    anew; so is one where none is awaited, since another reviewer was faster. Every decision is stored. After
    `"reject"` the turn is done and `Rejected` is raised; inside another graph nothing is raised, and that graph
    goes on with a summary in `refine` and no new message. The interrupt holds the draft under review, and
    LangGraph shows it wherever it shows interrupts (the modes `updates`, `values`, `tasks` and `debug`): hand a
    client the modes `messages` and `custom` alone.

    Of two turns at once on one thread of a checkpointer, the second waits or is refused, as `concurrent_turns`
    says, wherever in this process they run. Between processes, a turn whose thread was continued elsewhere ends in
    `ConcurrentTurn` at its next step. Turns that are stored within the same milliseconds can still miss each
    other, and `durability="exit"`, which stores only at the end, promises nothing between processes.

    A request may change limits of its turn, and bring criteria for the judge, by LangGraph's runtime context:
    `graph.invoke(question, config, context={"max_attempts": 2})`, see `Overrides`. A graph around passes them on
    under `refine` in a context of its own, or as an `Overrides`. Anything unknown, or beyond `bounds`, is an
    `InputError`. Given with a resume, they hold from there on. A context of another class is for the agent inside.

    Where an agent inside hands over to another node, by `Command(goto=..., graph=Command.PARENT)`, the graph
    around goes there, with the command's update less the drafts and feedback of earlier attempts. Nothing is
    judged then; an event `handover` says so, and a WARNING in the log where the update holds an answer.

    Args:
        generator: A chat model or its `"provider:model"` name, a runnable, a compiled agent graph, or a
            function of the list of messages, sync or async.
        judge: A judge, a function, a judge's name, or a list of these (see `judges.as_judge`). A judge that is
            given by name and asks a model, as `"helpfulness"`, asks the generator, if that is a chat model.
        policy: When to accept and when to stop, instead of `settings`: a `Policy`, or a mapping of its settings.
        checkpointer: Where LangGraph saves the state; requires a `thread_id` in the config. `"inherit"` says that
            the graph around, or the server, has one: `on_exhausted="interrupt"` needs this or a checkpointer.
        store: A LangGraph store, for the nodes of an agent that generates.
        name: Name of the graph, and of its run in a trace.
        concurrent_turns: What becomes of a turn while another one runs on its thread: `"queue"` lets it wait, at
            most for the policy's `deadline_s`; `"refuse"` raises `ConcurrentTurn` at once.
        on_new_question: What becomes of a new question while the turn before waits for a human: `"refuse"` raises
            `ReviewPending`; `"supersede"` drops the review, and the question under review leaves the conversation,
            as one does whose answer was rejected.
        bounds: How far a request may go with its `Overrides`; None allows what is stricter or cheaper than the
            policy.
        piece_judge: Under `release="pieces"`, what judges pieces, outright; the judge then judges the whole when
            its last piece is out. None takes what of the judge holds for a part of an answer.
        settings: Settings of `Policy`, for instance `success_rating=4, max_attempts=3`.

    Raises:
        ConfigurationError: If the generator or the judge is not valid, or the policy requires what they cannot do,
            or a human's decision without a checkpointer to wait with.
    """
    loop = build_loop(
        generator, judge, policy_of(policy, settings), name=name, bounds=bounds, piece_judge=piece_judge
    )
    return compile_loop(
        loop,
        checkpointer=checkpointer,
        store=store,
        name=name,
        concurrent_turns=concurrent_turns,
        on_new_question=on_new_question,
    )


def compile_loop(
    loop: Loop,
    *,
    checkpointer: LoopCheckpointer,
    store: BaseStore | None,
    name: str,
    concurrent_turns: turns.ConcurrentTurns = "queue",
    on_new_question: turns.OnNewQuestion = "refuse",
    single_node: bool = False,
) -> LoopGraph:
    """Compile the graph of a loop; `single_node` runs all attempts in one node, which costs less.

    Raises:
        ConfigurationError: If the policy asks a human, and there is no checkpointer to wait with.
    """
    if not isinstance(checkpointer, BaseCheckpointSaver | bool | None) and checkpointer != "inherit":
        raise ConfigurationError(
            f"checkpointer is a LangGraph checkpointer such as InMemorySaver(), or 'inherit', not "
            f"{shortened(checkpointer)}"
        )
    if loop.policy.on_exhausted == "interrupt" and not checkpointer:
        raise ConfigurationError(
            "on_exhausted='interrupt' waits for a human, which needs a checkpointer: give checkpointer=..., or "
            "checkpointer='inherit' where the graph around, or the server, has one"
        )
    compiled = _compiled(loop, checkpointer=checkpointer, store=store, name=name, single_node=single_node)
    can_be_one = not single_node and not loop.may_interrupt
    return LoopGraph.of(
        compiled,
        loop=loop,
        concurrent_turns=concurrent_turns,
        on_new_question=on_new_question,
        in_one_step=cache(partial(_compiled, loop, name=name, single_node=True)) if can_be_one else None,
    )


def _compiled(
    loop: Loop,
    *,
    name: str,
    checkpointer: LoopCheckpointer = None,
    store: BaseStore | None = None,
    single_node: bool = False,
) -> _Graph:
    graph = StateGraph(_State, context_schema=Overrides, input_schema=GraphInput, output_schema=GraphOutput)
    first: Node | Literal["tries"] = _ALL_ATTEMPTS if single_node else "generate"
    graph.add_conditional_edges(START, _Entrance(loop), {"begin": first})
    if single_node:
        graph.add_node(first, _StepNode(first, loop, first), input_schema=NodeInput)
        graph.add_edge(first, "finish")
    edges = _EDGES if loop.policy.candidates == 1 else {**_EDGES, **_EDGES_OF_CANDIDATES}
    for node, targets in () if single_node else edges.items():
        graph.add_node(node, _StepNode(node, loop, first), input_schema=NodeInput, destinations=targets)
    revisable = loop.policy.on_exhausted == "interrupt" and loop.policy.max_revisions > 0
    ends = {first: "revise", END: ""} if revisable else None
    graph.add_node("finish", _StepNode("finish", loop, first), input_schema=NodeInput, destinations=ends)
    graph.add_edge("finish", END)
    graph_checkpointer = None if checkpointer == "inherit" else checkpointer
    compiled = graph.compile(checkpointer=graph_checkpointer, store=store, name=name)
    langgraph_private.hide_record(compiled)
    return compiled
