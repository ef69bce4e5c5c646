"""Measure what the loop costs: `uv run --group dev python -m tests.bench`.

One answer is two refused drafts and an accepted one: three generations and three judgements by LangChain chat
models that reply at once. The bare loop makes the same calls in plain Python, with `with_structured_output` built
once. Given is the CPU time of this process, and its ratio to the bare loop of the same kind (async or sync), all
in one run and taken in turns, so that the ratios hold where the microseconds do not.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiosqlite
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pydantic import BaseModel, Field, PrivateAttr

from graphs import Policy, self_refine
from judges import Helpfulness
from refine import SelfRefine

QUESTION = "How do I undo my last git commit but keep the changes?"
RATINGS = (2, 2, 4)


class Assessment(BaseModel):
    """Assessment of an answer."""

    rationale: str = Field(description="your reasons")
    rating: int = Field(description="1 to 4")
    feedback: str = Field(description="what to change")


class InstantModel(BaseChatModel):
    """A chat model that replies at once: with a tool call where a tool is bound, else with text."""

    _ratings: Any = PrivateAttr(default_factory=lambda: itertools.cycle(RATINGS))

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return self._reply(kwargs)

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return self._reply(kwargs)

    def _reply(self, settings: dict[str, Any]) -> ChatResult:
        if "tools" not in settings:
            return ChatResult(generations=[ChatGeneration(message=AIMessage("Use git reset --soft HEAD~1."))])
        assessed = {"rationale": "Reasons.", "rating": next(self._ratings), "feedback": "Say more."}
        call = {"name": "Assessment", "args": assessed, "id": "1", "type": "tool_call"}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=[call]))])


class BareLoop:
    """The same calls in plain Python."""

    def __init__(self) -> None:
        self._generator = InstantModel()
        self._judge = InstantModel().with_structured_output(Assessment)

    def run(self) -> AIMessage:
        prompt: list[BaseMessage] = [HumanMessage(QUESTION)]
        while True:
            draft = self._generator.invoke(prompt)
            verdict = self._judge.invoke([HumanMessage(f"Assess: {draft.text}")])
            if verdict.rating >= RATINGS[-1]:  # type: ignore[union-attr]  # an Assessment
                return draft
            prompt = [HumanMessage(QUESTION), draft, HumanMessage(verdict.feedback)]  # type: ignore[union-attr]

    async def arun(self) -> AIMessage:
        prompt: list[BaseMessage] = [HumanMessage(QUESTION)]
        while True:
            draft = await self._generator.ainvoke(prompt)
            verdict = await self._judge.ainvoke([HumanMessage(f"Assess: {draft.text}")])
            if verdict.rating >= RATINGS[-1]:  # type: ignore[union-attr]  # an Assessment
                return draft
            prompt = [HumanMessage(QUESTION), draft, HumanMessage(verdict.feedback)]  # type: ignore[union-attr]


def refiner(**settings: Any) -> SelfRefine:
    """Make the loop that is measured."""
    return SelfRefine(InstantModel(), Helpfulness(InstantModel()), success_rating=4, **settings)


def thread() -> Any:
    """Make the config of a conversation of its own."""
    return {"configurable": {"thread_id": uuid4().hex}}


def measure(systems: dict[str, Callable[[], object]], *, rounds: int, answers: int) -> dict[str, list[float]]:
    """Measure microseconds of CPU per answer, round after round, each round all systems in turn."""
    figures: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(rounds + 1):
        for name, answer in systems.items():
            started = time.process_time()
            for _ in range(answers):
                answer()
            if number:  # the first round warms up
                figures[name].append((time.process_time() - started) / answers * 1e6)
    return figures


def table(kind: str, figures: dict[str, list[float]]) -> str:
    """Write one table; the first system is what the others are compared with."""
    bare = statistics.median(next(iter(figures.values())))
    lines = [f"{kind:<34}{'CPU us':>9}{'quartiles':>16}{'ratio':>8}"]
    for name, each in figures.items():
        low, middle, high = statistics.quantiles(each, n=4)
        lines.append(f"{name:<34}{middle:>9.0f}{f'{low:.0f}-{high:.0f}':>16}{middle / bare:>8.2f}")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="rounds of every system (default 15)")
    parser.add_argument("--answers", type=int, default=20, help="answers per round and system (default 20)")
    options = parser.parse_args()
    os.environ["LANGSMITH_TRACING"] = "false"
    bare, plain = BareLoop(), refiner()
    graph = self_refine(InstantModel(), Helpfulness(InstantModel()), policy=Policy(success_rating=4))
    question = {"messages": [HumanMessage(QUESTION)]}
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        saver = SqliteSaver(sqlite3.connect(Path(folder) / "sync.db", check_same_thread=False))
        stored = refiner(checkpointer=saver, durability="exit")

        async def open_saver() -> AsyncSqliteSaver:
            return AsyncSqliteSaver(await aiosqlite.connect(Path(folder) / "async.db"))

        asaver = runner.run(open_saver())
        astored = refiner(checkpointer=asaver, durability="exit")
        asynchronous = measure(
            {
                "bare loop": lambda: runner.run(bare.arun()),
                "SelfRefine": lambda: runner.run(plain.ainvoke(QUESTION)),
                "self_refine, the graph": lambda: runner.run(graph.ainvoke(question)),
                "SelfRefine, SQLite, exit": lambda: runner.run(astored.ainvoke(QUESTION, thread())),
            },
            rounds=options.rounds,
            answers=options.answers,
        )
        synchronous = measure(
            {
                "bare loop": bare.run,
                "SelfRefine": lambda: plain.invoke(QUESTION),
                "self_refine, the graph": lambda: graph.invoke(question),
                "SelfRefine, SQLite, exit": lambda: stored.invoke(QUESTION, thread()),
            },
            rounds=options.rounds,
            answers=options.answers,
        )
        runner.run(asaver.conn.close())
        saver.conn.close()
    print(table("async", asynchronous), table("sync", synchronous), sep="\n\n")


if __name__ == "__main__":
    main()
