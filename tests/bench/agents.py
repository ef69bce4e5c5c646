"""Measure what the middleware costs an agent: `uv run --group dev python -m tests.bench.agents`.

The answer is accepted at once. Compared is the same agent without the middleware, followed by one bare call of the
same judge model. Given is the CPU time of this process for one answer, and its ratio, all in one run and taken in
turns; in async code thirty answers one after the other in one event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from pydantic import PrivateAttr

from judges import Helpfulness
from refine.middleware import SelfRefineMiddleware
from tests.bench.__main__ import QUESTION, Assessment, InstantModel, measure, table

TURNS = 30


class Accepting(InstantModel):
    """A judge model that accepts every answer."""

    _ratings: Any = PrivateAttr(default_factory=lambda: itertools.repeat(4))


class Agents:
    """The agent with the middleware, and without it but with a bare call of a judge."""

    def __init__(self) -> None:
        self._judge = Accepting().with_structured_output(Assessment)
        self._bare: Any = create_agent(InstantModel())
        refining: Any = SelfRefineMiddleware(Helpfulness(Accepting()), success_rating=4)
        self._refining: Any = create_agent(InstantModel(), middleware=[refining])
        self._question = {"messages": [HumanMessage(QUESTION)]}

    def bare(self) -> None:
        answer = self._bare.invoke(self._question)["messages"][-1]
        self._judge.invoke([HumanMessage(f"Assess: {answer.text}")])

    async def abare(self) -> None:
        answer = (await self._bare.ainvoke(self._question))["messages"][-1]
        await self._judge.ainvoke([HumanMessage(f"Assess: {answer.text}")])

    def refining(self) -> None:
        self._refining.invoke(self._question)

    async def arefining(self) -> None:
        await self._refining.ainvoke(self._question)


def repeated(answer: Callable[[], Awaitable[None]], runner: asyncio.Runner) -> Callable[[], object]:
    """Return what answers several times, one answer after the other."""

    async def repeat() -> None:
        for _ in range(TURNS):
            await answer()

    return lambda: runner.run(repeat())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of every system (default 15)")
    options = parser.parse_args()
    os.environ["LANGSMITH_TRACING"] = "false"
    agents = Agents()
    blocking: dict[str, Callable[[], object]] = {
        "agent and a bare judge call": agents.bare,
        "agent with the middleware": agents.refining,
    }
    waiting = {"agent and a bare judge call": agents.abare, "agent with the middleware": agents.arefining}
    with asyncio.Runner() as runner:
        systems = {name: repeated(answer, runner) for name, answer in waiting.items()}
        figures = measure(systems, rounds=options.rounds, answers=1)
    per_answer = {name: [each / TURNS for each in all_figures] for name, all_figures in figures.items()}
    print(table("agent, async", per_answer))
    print()
    print(table("agent, sync", measure(blocking, rounds=options.rounds, answers=TURNS)))


if __name__ == "__main__":
    main()
