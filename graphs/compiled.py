"""The compiled graph of the loop, which runs one turn at a time on each thread of a checkpointer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import aclosing
from typing import Any, get_args

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from graphs import langgraph_private
from graphs.turns import ConcurrentTurns, aturn, check_decision, check_reached, turn
from judges.errors import ConfigurationError
from judges.runtime.pickling import SharedByCopies

Graph = CompiledStateGraph[Any, Any, Any, Any]


class LoopGraph(SharedByCopies, CompiledStateGraph[Any, Any, Any, Any]):
    """A compiled graph whose turns on one thread of a checkpointer never run at once in this process.

    All ways to run a graph come down to `stream` and `astream`, so the place of a turn is taken there.

    Args:
        concurrent_turns: What becomes of a turn while another one runs on its thread; see `graphs.self_refine`.
        longest_wait_s: Longest wait for it in seconds, or None.
        settings: Those of LangGraph's class.
    """

    concurrent_turns: ConcurrentTurns
    longest_wait_s: float | None

    def __init__(
        self, *, concurrent_turns: ConcurrentTurns, longest_wait_s: float | None = None, **settings: Any
    ) -> None:
        if concurrent_turns not in get_args(ConcurrentTurns):
            raise ConfigurationError(f"concurrent_turns is 'queue' or 'refuse', not {concurrent_turns!r}")
        super().__init__(**settings)
        self.concurrent_turns = concurrent_turns
        self.longest_wait_s = longest_wait_s

    @classmethod
    def of(cls, compiled: Graph, concurrent_turns: ConcurrentTurns, longest_wait_s: float | None) -> LoopGraph:
        """Return a compiled graph as one of this class."""
        graph = cls(concurrent_turns=concurrent_turns, longest_wait_s=longest_wait_s, **vars(compiled))
        vars(graph).update(vars(compiled))  # what LangGraph set after it made the graph, and leaves out of a copy
        return graph

    def __reduce__(self) -> tuple[Any, ...]:
        raise ConfigurationError("a compiled graph is not pickled; make it by self_refine in each process")

    def stream(
        self,
        input: Any,  # noqa: A002 - LangGraph's name
        config: RunnableConfig | None = None,
        **settings: Any,
    ) -> Iterator[Any]:
        """Stream a turn, once it is alone on its thread; see LangGraph."""
        decision: langgraph_private.Decision | None = None
        with turn(self._thread(config), self.concurrent_turns, self.longest_wait_s):
            if isinstance(input, Command) and self._thread(config) is not None:
                check_decision(input, self.get_state(config or {}).interrupts)
                decision = langgraph_private.Decision()
                config = langgraph_private.with_decision(config, decision)
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
        decision: langgraph_private.Decision | None = None
        async with aturn(self._thread(config), self.concurrent_turns, self.longest_wait_s):
            if isinstance(input, Command) and self._thread(config) is not None:
                check_decision(input, (await self.aget_state(config or {})).interrupts)
                decision = langgraph_private.Decision()
                config = langgraph_private.with_decision(config, decision)
            chunks: Any = super().astream(input, config, **settings)  # an async generator, typed as less
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk
            if decision is not None:
                check_reached(input, decision)

    def _thread(self, config: RunnableConfig | None) -> Hashable:
        return langgraph_private.thread_of(merge_configs(self.config, config), self.checkpointer)
