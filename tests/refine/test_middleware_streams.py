"""Nothing of a rejected draft leaves an agent with the middleware, whichever way it is called or streamed."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite import SqliteSaver

from judges.testing import ScriptedModel
from refine.middleware import SelfRefineMiddleware
from tests.graphs.test_streams import ASKED, DOORS, GOOD, MARK, MODES, older, opened, strict
from tests.laws import for_every
from tests.refine.agent_models import AGENTS, ATTEMPTS, drafts

FEEDBACK = "you said"
"""How the strict judge's feedback begins."""

WAYS = [door for door in DOORS if door.partition(" ")[2] not in MODES]
"""Every door; those of one stream mode each are left out, since others stream all modes at once."""


@older
@pytest.mark.parametrize("kind", AGENTS)
@for_every("door", WAYS)
async def test_nothing_of_a_rejected_draft_is_seen(door: str, kind: str) -> None:
    """A client sees the accepted answer and nothing of the drafts and the feedback before it."""
    seen = repr(await opened(door, AGENTS[kind]()))
    assert MARK not in seen
    assert FEEDBACK not in seen
    assert GOOD in seen or door == "stream_events v3 messages"


@pytest.mark.parametrize("kind", AGENTS)
def test_no_byte_of_a_rejected_draft_is_stored(kind: str, tmp_path: Path) -> None:
    """Neither states and their history nor the raw bytes of the checkpoints hold anything of a draft."""
    path = tmp_path / "agent.db"
    connection = sqlite3.connect(path, check_same_thread=False)
    agent = AGENTS[kind](checkpointer=SqliteSaver(connection))
    config: RunnableConfig = {"configurable": {"thread_id": "1"}}
    seen = list(agent.stream(ASKED, config, stream_mode=list(MODES), subgraphs=True, durability="sync"))
    state, history = agent.get_state(config, subgraphs=True), list(agent.get_state_history(config))
    stored = "\n".join(connection.iterdump()).encode() + _blobs(connection)
    connection.close()
    assert GOOD in repr(seen)
    assert GOOD.encode() in stored
    for mark in (MARK, FEEDBACK):
        assert mark not in repr((seen, state, history))
        assert mark.encode() not in stored + path.read_bytes()


def _blobs(connection: sqlite3.Connection) -> bytes:
    rows = [*connection.execute("select checkpoint, metadata from checkpoints")]
    rows += connection.execute("select value from writes")
    return b"".join(cell if isinstance(cell, bytes) else str(cell).encode() for row in rows for cell in row)


@pytest.mark.parametrize("kind", AGENTS)
async def test_the_answer_is_streamed_once_and_whole(kind: str) -> None:
    """In mode `messages` the answer comes once, in one piece, with the id it has in the history."""
    agent: Any = AGENTS[kind]()
    streamed = [
        message
        async for _, (message, _) in agent.astream(ASKED, stream_mode="messages", subgraphs=True)
        if message.type == "ai" and GOOD in repr(message)
    ]
    assert len(streamed) == 1
    assert streamed[0].response_metadata["refine"]["stop_reason"] == "accepted"


async def test_drafts_are_shown_on_request_as_progress() -> None:
    """With `show_drafts` each draft is a progress event; the messages stay free of it."""
    refining = SelfRefineMiddleware(strict(), max_attempts=ATTEMPTS, show_drafts=True)
    agent: Any = create_agent(ScriptedModel(drafts()), middleware=[refining])
    seen: dict[str, list[Any]] = {"custom": [], "messages": []}
    async for mode, part in agent.astream(ASKED, stream_mode=["custom", "messages"]):
        seen[mode].append(part)
    assert repr(seen["custom"]).count(f"wrong {MARK} 1") >= 1
    assert MARK not in repr(seen["messages"])
    assert [event["event"] for event in seen["custom"]].count("verdict") == ATTEMPTS
