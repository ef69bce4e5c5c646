"""The loop as a LangGraph graph."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.channels import EphemeralValue
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, Command
from typing_extensions import TypedDict  # pydantic cannot read the standard one on Python 3.11

from graphs import langgraph_private
from graphs.best_of import BestOfLoop
from graphs.compiled import LoopGraph
from graphs.drivers import arun_attempts, arun_step, run_attempts, run_step
from graphs.loop import Loop, Node, Step, Transition
from graphs.policy import Policy
from graphs.refinement import Refinement
from graphs.turns import ConcurrentTurns, acheck_current, check_current
from judges.compose.panel import as_judge

Evidence = dict[str, Any]


_EDGES: dict[Node, dict[str, str] | None] = {
    "generate": {"judge": "", "finish": ""},
    "judge": {"generate": "augment", "finish": ""},
    "finish": None,
}
"""Targets of each node, each with the label of the edge to it."""

_EDGES_OF_CANDIDATES: dict[Node, dict[str, str] | None] = {
    "generate": {"judge": "one draft", "generate": "augment", "finish": ""}
}
"""With several candidates the step `generate` judges too; where a single draft is made, the next step does."""


class SelfJudgingWarning(UserWarning):
    """The generating model is also the judging model; models tend to favour their own answers."""


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
    refinement: dict[str, Any]


class _Entrance(Runnable[Any, str]):
    """The edge into the graph: starts the record."""

    name = "begin"

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        """Start the record and return the name of the edge."""
        config = config or {}
        _write(self._loop.begin(input), config)
        langgraph_private.write(config, langgraph_private.SUMMARY, None)
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
        refinement = _load(config, self._loop.policy)
        with langgraph_private.leaving_the_graph(config):
            attempted = run_attempts(self._loop, refinement, input["messages"], config)
        check_current(config)
        _write(attempted, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> None:  # noqa: A002
        """Run the attempts without blocking the event loop."""
        config = config or {}
        refinement = _load(config, self._loop.policy)
        with langgraph_private.leaving_the_graph(config):
            attempted = await arun_attempts(self._loop, refinement, input["messages"], config)
        await acheck_current(config)
        _write(attempted, config)


class _StepNode(Runnable[Any, Any]):
    """A node of the graph: runs one step of the loop."""

    def __init__(self, name: str, step: Step, policy: Policy) -> None:
        self.name = name
        self._step = step
        self._policy = policy

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the step, blocking."""
        config = config or {}
        refinement = _load(config, self._policy)
        if self.name == "finish":  # the answer is announced in this step, so nothing may refuse it afterwards
            check_current(config)
        with langgraph_private.leaving_the_graph(config):
            transition = run_step(self._step, refinement, input["messages"], config)
        if self.name != "finish":
            check_current(config)
        return _apply(transition, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Run the step without blocking the event loop."""
        config = config or {}
        refinement = _load(config, self._policy)
        if self.name == "finish":  # as above
            await acheck_current(config)
        with langgraph_private.leaving_the_graph(config):
            transition = await arun_step(self._step, refinement, input["messages"], config)
        if self.name != "finish":
            await acheck_current(config)
        return _apply(transition, config)


def _load(config: RunnableConfig, policy: Policy) -> Refinement:
    decision = langgraph_private.decision_of(config)
    if decision is not None:
        decision.reached_a_step = True
    return Refinement.read(langgraph_private.read(config, langgraph_private.RECORD), policy)


def _apply(transition: Transition, config: RunnableConfig) -> Any:
    _write(transition.refinement, config)
    return transition.update if transition.goto is None else Command(goto=transition.goto)


def _write(refinement: Refinement, config: RunnableConfig) -> None:
    """Write the record: as plain data where it goes into a checkpoint, otherwise as it is."""
    record = refinement.to_state() if langgraph_private.has_checkpointer(config) else refinement
    langgraph_private.write(config, langgraph_private.RECORD, record)


def self_refine(
    generator: object,
    judge: object,
    *,
    policy: Policy | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    name: str = "self_refine",
    concurrent_turns: ConcurrentTurns = "queue",
) -> LoopGraph:
    """Compile the loop around a generator: generate, judge, augment, generate again, finish.

    The graph takes `{"messages": [...]}`, and `{"evidence": {...}}` where the judge is to see a reference or
    retrieved contexts (fields of a `Sample`). It appends one message, the answer, with a summary in its
    `response_metadata["refine"]`. It streams nothing of a rejected draft in any mode, and can be a node of another
    graph over messages.

    With `on_exhausted="interrupt"` and a checkpointer it interrupts for a human, who resumes with
    `Command(resume="accept")`, `"reject"`, or `{"answer": "the text to send"}`. Any other decision is an
    `InputError` and can be given anew; so is one where none is awaited, since another reviewer was faster. The
    interrupt holds the draft under review, and LangGraph shows it wherever it shows interrupts (the modes
    `updates`, `values`, `tasks` and `debug`): hand a client the modes `messages` and `custom` alone.

    Of two turns at once on one thread of a checkpointer, the second waits or is refused, as `concurrent_turns`
    says, wherever in this process they run. Between processes, a turn whose thread was continued elsewhere ends in
    `ConcurrentTurn` at its next step. Turns that are stored within the same milliseconds can still miss each
    other, and `durability="exit"`, which stores only at the end, promises nothing between processes.

    Where an agent inside hands over to another node, by `Command(goto=..., graph=Command.PARENT)`, the graph
    around goes there, with the command's update less the drafts and feedback of earlier attempts. Nothing is
    judged then; an event `handover` says so, and a WARNING in the log where the update holds an answer.

    Args:
        generator: A chat model or its `"provider:model"` name, a runnable, a compiled agent graph, or a
            function of the list of messages, sync or async.
        judge: A judge, a function, or a list of judges (see `judges.as_judge`).
        policy: When to accept and when to stop; None uses the defaults of `Policy`.
        checkpointer: Where LangGraph saves the state; requires a `thread_id` in the config.
        store: A LangGraph store, for the nodes of an agent that generates.
        name: Name of the graph, and of its run in a trace.
        concurrent_turns: What becomes of a turn while another one runs on its thread: `"queue"` lets it wait, at
            most for the policy's `deadline_s`; `"refuse"` raises `ConcurrentTurn` at once.

    Raises:
        ConfigurationError: If the generator or the judge is not valid, or the policy requires what they cannot do.
    """
    loop = build_loop(generator, judge, policy or Policy(), name=name)
    return compile_loop(loop, checkpointer=checkpointer, store=store, name=name, concurrent_turns=concurrent_turns)


def build_loop(generator: object, judge: object, policy: Policy, *, name: str) -> Loop:
    """Return the loop around a generator and a judge, and warn if a model is to judge itself."""
    coerced = as_judge(judge)
    if any(model.is_model(generator) for model in coerced.models):
        warnings.warn(
            f"{coerced.name!r} asks the very model that generates; judges favour their own answers",
            SelfJudgingWarning,
            stacklevel=3,
        )
    kind = Loop if policy.candidates == 1 else BestOfLoop
    return kind(generator, coerced, policy, name=name)


def compile_loop(
    loop: Loop,
    *,
    checkpointer: Checkpointer,
    store: BaseStore | None,
    name: str,
    concurrent_turns: ConcurrentTurns = "queue",
    single_node: bool = False,
) -> LoopGraph:
    """Compile the graph of a loop; `single_node` runs all attempts in one node, which costs less."""
    graph = StateGraph(_State, input_schema=GraphInput, output_schema=GraphOutput)
    first = "tries" if single_node else "generate"
    graph.add_conditional_edges(START, _Entrance(loop), {"begin": first})
    if single_node:
        graph.add_node(first, _AttemptsNode(loop), input_schema=NodeInput)
        graph.add_edge(first, "finish")
    edges = _EDGES if loop.policy.candidates == 1 else {**_EDGES, **_EDGES_OF_CANDIDATES}
    for node, targets in edges.items():
        if node == "finish" or not single_node:
            step = _StepNode(node, loop.steps[node], loop.policy)
            graph.add_node(node, step, input_schema=NodeInput, destinations=targets)
    graph.add_edge("finish", END)
    compiled = graph.compile(checkpointer=checkpointer, store=store, name=name)
    langgraph_private.hide_record(compiled)
    return LoopGraph.of(compiled, concurrent_turns, loop.policy.deadline_s)
