"""The loop as a LangGraph graph."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, Unpack

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.channels import EphemeralValue
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.base import BaseStore
from langgraph.types import Command
from typing_extensions import TypedDict  # pydantic cannot read the standard one on Python 3.11

from graphs import carried, langgraph_private
from graphs.admission import OnNewQuestion
from graphs.building import build_loop
from graphs.compiled import Graph, LoopCheckpointer, LoopGraph
from graphs.drivers import arun_attempts, arun_step, run_attempts, run_step
from graphs.loop import Loop
from graphs.outcome import Outcome
from graphs.overrides import Bounds, Overrides
from graphs.policy import Policy, policy_of
from graphs.policy_settings import PolicySettings
from graphs.refinement import Refinement, Status
from graphs.step import Node, Transition
from graphs.turns import ConcurrentTurns, acheck_current, check_current
from judges.errors import ConfigurationError, shortened

Evidence = dict[str, Any]


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

    evidence: Annotated[Evidence, EphemeralValue]


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
        _write(self._loop.overridden(self._loop.begin(input), config), config)
        langgraph_private.write(config, langgraph_private.SUMMARY, None)
        langgraph_private.write(config, langgraph_private.STATUS, "running")
        return self.name

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        """Do the same; nothing blocks."""
        return self.invoke(input, config)


class _AttemptsNode(Runnable[Any, Any]):
    """A node that runs all attempts, for use where no step is checkpointed."""

    name = "tries"

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> None:  # noqa: A002
        """Run the attempts, blocking."""
        config = config or {}
        refinement = _load(config, self._loop)
        with langgraph_private.leaving_the_graph(config):
            attempted = run_attempts(self._loop, refinement, input["messages"], config)
        check_current(config)
        _write(attempted, config)
        _write_status(attempted.status, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> None:  # noqa: A002
        """Run the attempts without blocking the event loop."""
        config = config or {}
        refinement = _load(config, self._loop)
        with langgraph_private.leaving_the_graph(config):
            attempted = await arun_attempts(self._loop, refinement, input["messages"], config)
        await acheck_current(config)
        _write(attempted, config)
        _write_status(attempted.status, config)


class _StepNode(Runnable[Any, Any]):
    """A node of the graph: runs one step of the loop.

    Args:
        name: The step.
        loop: The loop.
        first: The node in which attempts begin.
    """

    def __init__(self, name: Node, loop: Loop, first: str) -> None:
        self.name = name
        self._step = loop.steps[name]
        self._loop = loop
        self._first = first

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the step, blocking."""
        config = config or {}
        refinement = _load(config, self._loop)
        if self.name == "finish":  # the answer is announced in this step, so nothing may refuse it afterwards
            check_current(config)
        with langgraph_private.leaving_the_graph(config):
            transition = run_step(self._step, refinement, input["messages"], config)
        if self.name != "finish":
            check_current(config)
        return self._apply(transition, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the step without blocking the event loop."""
        config = config or {}
        refinement = _load(config, self._loop)
        if self.name == "finish":  # as above
            await acheck_current(config)
        with langgraph_private.leaving_the_graph(config):
            transition = await arun_step(self._step, refinement, input["messages"], config)
        if self.name != "finish":
            await acheck_current(config)
        return self._apply(transition, config)

    def _apply(self, transition: Transition, config: RunnableConfig) -> Any:
        _write(transition.refinement, config, transition.outcome)
        ended = self.name == "finish" and transition.goto is None
        _write_status("done" if ended else transition.refinement.status, config, always=self.name == "finish")
        decision = carried.decision_of(config)
        if decision is not None:
            decision.error = transition.refusal
        if transition.goto is None:
            return transition.update
        return Command(goto=self._first if transition.goto == "generate" else transition.goto)


def _load(config: RunnableConfig, loop: Loop) -> Refinement:
    decision = carried.decision_of(config)
    if decision is not None:
        decision.reached_a_step = True
    data = langgraph_private.read(config, langgraph_private.RECORD)
    written = written_as(data, config)
    return loop.overridden(loop.read(data) if written is None else written.refinement, config)


class Written(NamedTuple):
    """What a step wrote: the record and, if it was the last step, the outcome."""

    refinement: Refinement
    outcome: Outcome | None


def written_as(data: object, config: RunnableConfig) -> Written | None:
    """Return what a step of this run wrote as `data`; None where that comes from a checkpoint."""
    written: Written | None = carried.records_of(config).of(data)
    return written


def _write(refinement: Refinement, config: RunnableConfig, outcome: Outcome | None = None) -> None:
    """Write the record: as plain data where it goes into a checkpoint, otherwise as it is."""
    if not langgraph_private.has_checkpointer(config):
        langgraph_private.write(config, langgraph_private.RECORD, refinement)
        return
    data = refinement.to_state()
    carried.records_of(config).keep(data, Written(refinement, outcome))
    langgraph_private.write(config, langgraph_private.RECORD, data)


def _write_status(status: Status, config: RunnableConfig, *, always: bool = False) -> None:
    """Write the status where it changed: until its last step a turn is running, and stored as that."""
    if always or status != "running":
        langgraph_private.write(config, langgraph_private.STATUS, status)


def self_refine(
    generator: object,
    judge: object,
    *,
    policy: Policy | Mapping[str, Any] | None = None,
    checkpointer: LoopCheckpointer = None,
    store: BaseStore | None = None,
    name: str = "self_refine",
    concurrent_turns: ConcurrentTurns = "queue",
    on_new_question: OnNewQuestion = "refuse",
    bounds: Bounds | None = None,
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
        settings: Settings of `Policy`, for instance `success_rating=4, max_attempts=3`.

    Raises:
        ConfigurationError: If the generator or the judge is not valid, or the policy requires what they cannot do,
            or a human's decision without a checkpointer to wait with.
    """
    loop = build_loop(generator, judge, policy_of(policy, settings), name=name, bounds=bounds)
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
    concurrent_turns: ConcurrentTurns = "queue",
    on_new_question: OnNewQuestion = "refuse",
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
) -> Graph:
    graph = StateGraph(_State, context_schema=Overrides, input_schema=GraphInput, output_schema=GraphOutput)
    first = "tries" if single_node else "generate"
    graph.add_conditional_edges(START, _Entrance(loop), {"begin": first})
    if single_node:
        graph.add_node(first, _AttemptsNode(loop), input_schema=NodeInput)
        graph.add_edge(first, "finish")
    edges = _EDGES if loop.policy.candidates == 1 else {**_EDGES, **_EDGES_OF_CANDIDATES}
    for node, targets in () if single_node else edges.items():
        graph.add_node(node, _StepNode(node, loop, first), input_schema=NodeInput, destinations=targets)
    revisable = loop.policy.on_exhausted == "interrupt" and loop.policy.max_revisions > 0
    ends = {first: "revise", END: ""} if revisable else None
    graph.add_node("finish", _StepNode("finish", loop, first), input_schema=NodeInput, destinations=ends)
    graph.add_edge("finish", END)
    own = None if checkpointer == "inherit" else checkpointer
    compiled = graph.compile(checkpointer=own, store=store, name=name)
    langgraph_private.hide_record(compiled)
    return compiled
