"""A stage for killed processes: takes turns on a thread in children of its own, and kills them where asked to.

Run as a program it reads one turn a line, as JSON, and prints how its child ended. Everything is loaded once, so a
child starts in milliseconds; it shares nothing with another one but the checkpointer and a file of calls.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.types import Command

from graphs import Policy, Rejected, self_refine

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
QUESTION: dict[str, Any] = {"messages": [("user", "what?")]}


class Stage:
    """One turn in one process.

    Args:
        turn: `saver` (`sqlite`, `async sqlite` or `postgres`), `place` (a path or a connection string), `calls`
            (the file that counts), `ratings` of the drafts, `reviews` (whether a human decides in the end),
            `agent` (whether a graph of two steps generates),
            `resume` (`question`, `nothing`, or a decision), and `kill`: a point, and how often it is passed
            before.
    """

    def __init__(self, turn: dict[str, Any]) -> None:
        self._turn = turn
        self._left = dict([turn["kill"]]) if turn.get("kill") else {}

    def point(self, name: str) -> None:
        """Die here, if this is the place and the time."""
        if name in self._left:
            if self._left[name] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left[name] -= 1

    def call(self, kind: str) -> int:
        """Count a call of a kind, and return how many there were of it; the process may die within it."""
        path = Path(self._turn["calls"])
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{kind}\n")
        self.point("call")
        return path.read_text(encoding="utf-8").count(kind)

    def run(self) -> None:
        """Take the turn, and print nothing."""
        with self._saver() as saver:
            graph = self._graph(saver)
            graph.invoke(self._input(), THREAD)
        self.point("end")

    async def arun(self) -> None:
        """Take the turn without blocking."""
        async with self._asaver() as saver:
            await self._graph(saver).ainvoke(self._input(), THREAD)

    def _input(self) -> Any:
        resume = self._turn["resume"]
        return {"question": QUESTION, "nothing": None}.get(str(resume), Command(resume=resume))

    def _graph(self, saver: Any) -> Any:
        ratings = self._turn["ratings"]

        def generate(messages: Sequence[BaseMessage]) -> str:
            self.call("generate")
            drafts = sum(message.type == "ai" for message in messages)
            return "revised" if "reviewed" in str(messages[-1].text) else f"draft after {drafts}"

        def judge(response: str) -> int:
            self.call("judge")
            return int(ratings[response])

        def plan(_: MessagesState) -> dict[str, Any]:
            self.call("plan")
            return {}

        def write(state: MessagesState) -> dict[str, Any]:
            return {"messages": [("assistant", generate(state["messages"]))]}

        steps: Any = StateGraph(MessagesState)
        agent = steps.add_sequence([plan, write]).set_entry_point("plan").compile()
        interrupts: Any = "interrupt" if self._turn.get("reviews") else "best"
        policy = Policy(max_attempts=3, on_exhausted=interrupts, augment="all_drafts")
        generator = agent if self._turn.get("agent") else generate
        return self_refine(generator, judge, policy=policy, checkpointer=saver)

    @contextmanager
    def _saver(self) -> Iterator[Any]:
        kinds: dict[str, Any] = {"sqlite": SqliteSaver, "postgres": PostgresSaver}
        with kinds[self._turn["saver"]].from_conn_string(self._turn["place"]) as saver:
            saver.setup()
            for name in ("put", "put_writes"):
                setattr(saver, name, self._around(name, getattr(saver, name)))
            yield saver

    @asynccontextmanager
    async def _asaver(self) -> AsyncIterator[Any]:
        async with AsyncSqliteSaver.from_conn_string(self._turn["place"]) as saver:
            yield saver

    def _around(self, name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def killing(*arguments: Any, **settings: Any) -> Any:
            self.point(f"before {name}")
            result = write(*arguments, **settings)
            self.point(f"after {name}")
            return result

        return killing


def take(turn: dict[str, Any]) -> int:
    """Take a turn in a child, and return its exit status: -9 where it was killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            stage = Stage(turn)
            if turn["saver"].startswith("async"):
                asyncio.run(stage.arun())
            else:
                stage.run()
            status = 0
        except Rejected:  # the turn is done
            status = 0
        except Exception as error:  # noqa: BLE001 - shown by the parent's test
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    warnings.simplefilter("error")
    for line in sys.stdin:
        sys.stdout.write(f"{take(json.loads(line))}\n")
        sys.stdout.flush()
