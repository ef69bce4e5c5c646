"""The loop as a LangGraph graph."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.channels import EphemeralValue
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, Command
from typing_extensions import TypedDict  # pydantic cannot read the standard one on Python 3.11

from graphs import langgraph_private
from graphs.drivers import arun_attempts, arun_step, run_attempts, run_step
from graphs.loop import Loop, Node, Step, Transition
from graphs.policy import Policy
from graphs.refinement import Refinement
from judges.compose.panel import as_judge

Evidence = dict[str, Any]


_EDGES: dict[Node, dict[str, str] | None] = {
    "generate": {"judge": "", "finish": ""},
    "judge": {"generate": "augment", "finish": ""},
    "finish": None,
}
"""The nodes, and where each may go, with what happens on the way."""


class SelfJudgingWarning(UserWarning):
    """The model that generates is also the one that judges, and tends to like its own answers."""


class NodeInput(TypedDict):
    """What a node of the loop is shown: the conversation."""

    messages: Annotated[list[AnyMessage], add_messages]


class GraphInput(NodeInput, total=False):
    """What the graph takes in: the conversation and, if there is any, evidence (fields of a sample)."""

    evidence: Annotated[Evidence, EphemeralValue]


class Answered(NodeInput):
    """What the graph gives back: the conversation with the answer, and a summary without rejected text."""

    refine: dict[str, Any] | None


class _State(GraphInput, Answered):
    refinement: dict[str, Any]


class _Entrance(Runnable[Any, str]):
    """The edge into the graph: begins the record."""

    name = "begin"

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        """Begin, and name the way to go."""
        config = config or {}
        _write(self._loop.begin(input), config)
        langgraph_private.write(config, langgraph_private.SUMMARY, None)
        return self.name

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> str:  # noqa: A002
        """Begin; nothing blocks."""
        return self.invoke(input, config)


class _AttemptsNode(Runnable[Any, Any]):
    """A node that generates and judges until there is nothing more to try, for where no step is checkpointed."""

    name = "tries"

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> None:  # noqa: A002
        """Try, blocking."""
        config = config or {}
        recorded = _recorded(config, self._loop.policy)
        _write(run_attempts(self._loop, recorded, input["messages"], config), config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> None:  # noqa: A002
        """Try without blocking the event loop."""
        config = config or {}
        recorded = _recorded(config, self._loop.policy)
        _write(await arun_attempts(self._loop, recorded, input["messages"], config), config)


class _StepNode(Runnable[Any, Any]):
    """A node of the graph: takes one step of the loop."""

    def __init__(self, name: str, decide: Step, policy: Policy) -> None:
        self.name = name
        self._decide = decide
        self._policy = policy

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Take the step, blocking."""
        config = config or {}
        recorded = _recorded(config, self._policy)
        return _carried_out(run_step(self._decide, recorded, input["messages"], config), config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Take the step without blocking the event loop."""
        config = config or {}
        recorded = _recorded(config, self._policy)
        return _carried_out(await arun_step(self._decide, recorded, input["messages"], config), config)


def _recorded(config: RunnableConfig, policy: Policy) -> Refinement:
    return Refinement.read(langgraph_private.read(config, langgraph_private.RECORD), policy)


def _carried_out(transition: Transition, config: RunnableConfig) -> Any:
    _write(transition.refinement, config)
    return transition.update if transition.goto is None else Command(goto=transition.goto)


def _write(refinement: Refinement, config: RunnableConfig) -> None:
    """Keep the record: as plain data where it goes into a checkpoint, else as it is."""
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
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Compile the loop around a generator: generate, judge, augment, generate again, finish.

    The graph takes `{"messages": [...]}`, and `{"evidence": {...}}` where the judge is to see a reference or
    retrieved contexts (fields of a `Sample`). It appends one message, the answer, with a summary in its
    `response_metadata["refine"]`. It streams nothing of a rejected draft in any mode, and stands as a node in
    another graph over messages.

    With `on_exhausted="interrupt"` and a checkpointer it stops for a human, who resumes with
    `Command(resume="accept")`, `"reject"`, or `{"answer": "the text to send"}`.

    Args:
        generator: A chat model or its `"provider:model"` name, a runnable, a compiled agent graph, or a
            function of the list of messages, sync or async.
        judge: A judge, a function, or a list of judges (see `judges.as_judge`).
        policy: When to accept and when to stop; None takes the defaults of `Policy`.
        checkpointer: Where LangGraph keeps the state; give a `thread_id` in the config then.
        store: A LangGraph store, for nodes of an agent inside.
        name: Name of the graph, and of its run in a trace.

    Raises:
        ConfigurationError: If the generator or the judge is none, or the policy asks for what they cannot do.
    """
    loop = loop_of(generator, judge, policy or Policy())
    return compiled(loop, checkpointer=checkpointer, store=store, name=name)


def loop_of(generator: object, judge: object, policy: Policy) -> Loop:
    """Make the loop of what a user gave, and warn where a model is to judge itself."""
    spoken = as_judge(judge)
    if any(model.is_model(generator) for model in spoken.models):
        warnings.warn(
            f"{spoken.name!r} asks the very model that generates; judges favour their own answers",
            SelfJudgingWarning,
            stacklevel=3,
        )
    return Loop(generator, spoken, policy)


def compiled(
    loop: Loop, *, checkpointer: Checkpointer, store: BaseStore | None, name: str, whole: bool = False
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Compile the graph of a loop; a `whole` one tries in a single node, which costs less than a node a step."""
    graph = StateGraph(_State, input_schema=GraphInput, output_schema=Answered)
    first = "tries" if whole else "generate"
    graph.add_conditional_edges(START, _Entrance(loop), {"begin": first})
    if whole:
        graph.add_node(first, _AttemptsNode(loop), input_schema=NodeInput)
        graph.add_edge(first, "finish")
    for node, targets in _EDGES.items():
        if node == "finish" or not whole:
            step = _StepNode(node, loop.steps[node], loop.policy)
            graph.add_node(node, step, input_schema=NodeInput, destinations=targets)
    graph.add_edge("finish", END)
    made = graph.compile(checkpointer=checkpointer, store=store, name=name)
    made.stream_channels = ["messages", langgraph_private.SUMMARY]
    return made
