"""The deadline counts the time in which the loop runs, by the monotonic clock."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt

from graphs import Policy, self_refine
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from tests.kit import Clock

THREAD: Any = {"configurable": {"thread_id": "1"}}


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
@pytest.mark.parametrize("settings", [{}, {"checkpointer": InMemorySaver()}])
def test_a_change_of_the_computers_clock_changes_nothing(
    jump_s: float, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day forth or back in the midst of a question neither ends it nor makes it take a day."""
    real_time, drafts = time.time, iter(["draft", "another"])

    def generate(_: object) -> str:
        monkeypatch.setattr(time, "time", lambda: real_time() + jump_s)
        return next(drafts)

    refiner = SelfRefine(generate, ScriptedJudge([1, 4]), deadline_s=30, **settings)
    outcome = refiner.refine("what?", THREAD)
    assert (outcome.stop_reason, len(outcome.attempts)) == ("accepted", 2)
    assert outcome.latency_s < 20


def test_the_deadline_holds_over_attempts_that_are_checkpointed(clock: Clock) -> None:
    """The time of each step counts, although the record is plain data between them."""

    def generate(_: object) -> str:
        clock.ahead_s += 15_000
        return "draft"

    graph = self_refine(
        generate,
        ScriptedJudge([1], cycle=True),
        policy=Policy(deadline_s=40_000, max_attempts=9),
        checkpointer=InMemorySaver(),
    )
    state = graph.invoke({"messages": [("user", "what?")]}, THREAD)
    assert state["refine"]["stop_reason"] == "deadline"
    assert len(state["refine"]["attempts"]) == 3


def test_a_humans_time_does_not_count(clock: Clock) -> None:
    """An agent that stops for a human has its whole time left when it goes on; nor does a review count."""

    @tool
    def send(to: str) -> str:
        """Send something, if a human agrees."""
        return f"{interrupt(to)} {to}"

    call = {"name": "send", "args": {"to": "Ada"}, "id": "1"}
    agent = create_agent(ScriptedModel([AIMessage("", tool_calls=[call]), "done"]), [send])
    refiner = SelfRefine(
        agent,
        ScriptedJudge([1]),
        deadline_s=1_500,
        max_attempts=1,
        on_exhausted="interrupt",
        checkpointer=InMemorySaver(),
    )
    assert refiner.refine("send it", THREAD).stop_reason == "interrupted"
    clock.ahead_s += 1_600
    waiting = refiner.refine(Command(resume="sent to"), THREAD)
    assert (waiting.stop_reason, waiting.detail) == ("interrupted", "max_attempts")
    assert waiting.usage.calls == 2
    clock.ahead_s += 300
    outcome = refiner.refine(Command(resume="accept"), THREAD)
    assert outcome.answer is not None
    assert outcome.latency_s < 300


def test_over_a_resume_only_running_time_counts(clock: Clock, tmp_path: Path) -> None:
    """A turn that broke off goes on, in another process too, with the time that was left."""
    calls: list[int] = []

    def generate(_: object) -> str:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return f"draft {len(calls)}"

    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        first = SelfRefine(generate, ScriptedJudge([1]), deadline_s=500, checkpointer=saver)
        with pytest.raises(KeyboardInterrupt):
            first.refine("what?", THREAD)
    clock.ahead_s += 600
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        second = SelfRefine(generate, ScriptedJudge([4]), deadline_s=500, checkpointer=saver)
        outcome = second.refine(None, THREAD)
    assert (outcome.stop_reason, len(outcome.attempts)) == ("accepted", 2)
