"""The compiled graph of the loop.

It runs one turn at a time on each thread of a checkpointer, and makes no steps of what nobody can see as steps.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Literal, get_args

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, merge_configs
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Interrupt, StateSnapshot

from graphs import carried, langgraph_private
from graphs.admission import OnNewQuestion, admitted, with_status
from graphs.loop import Loop
from graphs.overrides import Overrides, overrides_in
from graphs.turns import ConcurrentTurns, aturn, check_decision, check_reached, turn
from judges.errors import ConfigurationError
from judges.runtime import flow
from judges.runtime.pickling import SharedByCopies

Graph = CompiledStateGraph[Any, Any, Any, Any]

Checkpointer = BaseCheckpointSaver[Any] | bool | None
"""LangGraph's type of the same name, with the parameter that it leaves open."""

LoopCheckpointer = Checkpointer | Literal["inherit"]
"""Where a loop's state is saved; `"inherit"` says that the graph around, or the server, has a checkpointer."""


class LoopGraph(SharedByCopies, CompiledStateGraph[Any, Any, Any, Any]):
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

    loop: Loop
    concurrent_turns: ConcurrentTurns
    on_new_question: OnNewQuestion
    in_one_step: Callable[[], Graph] | None

    def __init__(
        self,
        *,
        loop: Loop,
        concurrent_turns: ConcurrentTurns = "queue",
        on_new_question: OnNewQuestion = "refuse",
        in_one_step: Callable[[], Graph] | None = None,
        **settings: Any,
    ) -> None:
        if concurrent_turns not in get_args(ConcurrentTurns):
            raise ConfigurationError(f"concurrent_turns is 'queue' or 'refuse', not {concurrent_turns!r}")
        if on_new_question not in get_args(OnNewQuestion):
            raise ConfigurationError(f"on_new_question is 'refuse' or 'supersede', not {on_new_question!r}")
        super().__init__(**settings)
        self.loop = loop
        self.concurrent_turns = concurrent_turns
        self.on_new_question = on_new_question
        self.in_one_step = in_one_step

    @classmethod
    def of(cls, compiled: Graph, **settings: Any) -> LoopGraph:
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
        return with_status(super().get_state(config, subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread without blocking; otherwise as `get_state`."""
        return with_status(await super().aget_state(config, subgraphs=subgraphs))

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
        seen = flow.run(self._open_interrupts(input, config, thread), self.get_state)
        config = carried.with_records(config) if self._is_saved(config) else config
        with turn(thread, self.concurrent_turns, self.loop.policy.deadline_s):
            input, config, decision = flow.run(self._begin(input, config, thread, seen), self.get_state)  # noqa: A001
            yield from super().stream(input, config, **settings)
            if decision is not None:
                check_reached(input, decision)

    async def astream(
        self,
        input: Any,  # noqa: A002 - LangGraph's name
        config: RunnableConfig | None = None,
        **settings: Any,
    ) -> AsyncIterator[Any]:
        """Stream a turn without blocking; otherwise as `stream`."""
        config, settings = self._read(config, settings)
        thread = self._thread(config)
        seen = await flow.arun(self._open_interrupts(input, config, thread), self.aget_state)
        config = carried.with_records(config) if self._is_saved(config) else config
        async with aturn(thread, self.concurrent_turns, self.loop.policy.deadline_s):
            input, config, decision = await flow.arun(self._begin(input, config, thread, seen), self.aget_state)  # noqa: A001
            chunks: Any = super().astream(input, config, **settings)  # an async generator, typed as less
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk
            if decision is not None:
                check_reached(input, decision)

    def _read(
        self, config: RunnableConfig | None, settings: Mapping[str, Any]
    ) -> tuple[RunnableConfig, dict[str, Any]]:
        """Return the config and the settings of a run: with its overrides, and durable unless it is said how much.

        A step limit is handed on to what runs inside.

        Raises:
            InputError: If the overrides cannot be read or go too far.
        """
        config, settings = config or {}, dict(settings)
        context = settings.get("context")
        if isinstance(context, Overrides | Mapping):
            settings["context"] = None
            overrides: Overrides | None = Overrides.read(context)
        else:
            overrides = overrides_in(context)
        if overrides is not None:
            self.loop.check_overrides(overrides)
            config = carried.with_overrides(config, overrides)
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
        self, turn_input: Any, config: RunnableConfig, thread: Hashable, seen: Sequence[Interrupt]
    ) -> Generator[RunnableConfig, StateSnapshot, tuple[Any, RunnableConfig, carried.Decision | None]]:
        """Return input and config of a turn that may begin, and its decision; yields as `_open_interrupts`."""
        if thread is None or turn_input is None:
            return turn_input, config, None
        if isinstance(turn_input, Command):
            check_decision(turn_input, (yield config).interrupts, seen)
            decision = carried.Decision()
            return turn_input, carried.with_decision(config, decision), decision
        if self.loop.may_wait and not langgraph_private.names_a_checkpoint(config):
            turn_input = admitted(turn_input, (yield config), self.on_new_question)
        return turn_input, config, None

    def _merged(self, config: RunnableConfig | None) -> RunnableConfig:
        return merge_configs(self.config, config) if self.config else config or {}

    def _is_saved(self, config: RunnableConfig) -> bool:
        return langgraph_private.is_saved(self._merged(config), self.checkpointer)

    def _thread(self, config: RunnableConfig) -> Hashable:
        return langgraph_private.thread_of(self._merged(config), self.checkpointer)

    def _graph_for(self, value: Any, config: RunnableConfig | None, settings: Mapping[str, Any]) -> LoopGraph:
        """Return the graph that a turn runs on: with all attempts in one step where nobody sees the steps."""
        is_plain = isinstance(value, Mapping) and settings.keys() <= _UNSEEN_SETTINGS
        if self.in_one_step is None or not is_plain or any(map(vars(self).get, _SEEN_ATTRIBUTES)):
            return self
        if langgraph_private.is_watched(self._merged(config)):
            return self
        graph = object.__new__(type(self))
        one_step = vars(self.in_one_step())
        vars(graph).update(vars(self), **{name: one_step[name] for name in _STEPS})
        return graph


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
