"""The middleware inside `create_deep_agent`.

`deepagents` is in no group, since it holds back versions of others; with it the tests run by
`uv run --group dev --with deepagents pytest tests/refine/test_middleware_deep.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from judges.testing import ScriptedModel
from refine.middleware import SelfRefineMiddleware
from tests.graphs.test_streams import ASKED, GOOD, MARK, older, opened, strict
from tests.laws import for_every
from tests.refine.agent_models import ATTEMPTS, drafts, lookup, tool_script
from tests.refine.test_middleware_streams import FEEDBACK, WAYS

FEW = drafts()[-5:]
"""As many as fit into the 25 steps that some doors allow."""

deepagents = pytest.importorskip("deepagents")
pytestmark = older


def deep_agent(scouting: ScriptedModel | None = None) -> Any:
    """Make a deep agent that refuses marked drafts, with a subagent that does so too, of a model of its own."""
    call = {
        "name": "task",
        "args": {"description": "look", "subagent_type": "scout"},
        "id": "1",
        "type": "tool_call",
    }
    refining = SelfRefineMiddleware(strict(), max_attempts=ATTEMPTS)
    scout = {
        "name": "scout",
        "description": "looks",
        "system_prompt": "Look.",
        "model": scouting or ScriptedModel(drafts()),
        "tools": [lookup],
        "middleware": [SelfRefineMiddleware(strict(), max_attempts=ATTEMPTS)],
    }
    model = ScriptedModel([AIMessage("", tool_calls=[call]), *tool_script(FEW)])
    return deepagents.create_deep_agent(model, [lookup], middleware=[refining], subagents=[scout])


@for_every("door", WAYS)
async def test_nothing_of_a_rejected_draft_is_seen(door: str) -> None:
    """Neither the agent's drafts nor its subagent's are seen, through any door."""
    seen = repr(await opened(door, deep_agent()))
    assert MARK not in seen
    assert FEEDBACK not in seen
    assert GOOD in seen


def test_both_agents_refine() -> None:
    """The subagent's model is asked until its answer is good; the outer agent's record has its own drafts."""
    scouting = ScriptedModel(drafts())
    deep_agent(scouting).invoke(ASKED)
    assert len(scouting.prompts) == ATTEMPTS
    refining = SelfRefineMiddleware(strict(), max_attempts=ATTEMPTS)
    agent = deepagents.create_deep_agent(ScriptedModel(tool_script(FEW)), [lookup], middleware=[refining])
    assert len(refining.outcome(agent.invoke(ASKED)).attempts) == len(FEW)
