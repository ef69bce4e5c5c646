"""Groundedness on tool results as well as contexts: faithfulness, groundedness, hallucination."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, ToolMessage

from judges import load
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.kit import Shown, asked, items, replying

CALL = {"name": "weather", "args": {"city": "Porto"}, "id": "1"}
STEPS: list[dict[str, Any]] = [
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "content": "9 degrees", "tool_call_id": "1"},
]
RESULT = {"tool": "weather", "called_with": {"city": "Porto"}, "returned": "9 degrees"}
ROW = {"user_input": "How warm is it in Porto?", "response": "It is 9 degrees in Porto."}


def finding(*verdicts: str) -> ScriptedModel:
    """Make a model that finds a claim for each verdict."""
    claims = [f"claim {n}" for n, _ in enumerate(verdicts, 1)]

    def reply(data: Shown) -> dict[str, Any]:
        return {"claims": claims} if "text" in data else items(*verdicts)

    return replying(reply)


def test_in_the_loop_the_results_of_an_agent_count() -> None:
    """Whatever its tools returned on the way to the answer, with no contexts at all."""

    def agent(state: Any) -> dict[str, Any]:
        del state
        call = AIMessage(content="", tool_calls=[{"name": "weather", "args": {"city": "Porto"}, "id": "1"}])
        result = ToolMessage(content="9 degrees", tool_call_id="1", name="weather")
        return {"messages": [call, result, AIMessage(content="It is 9 degrees in Porto.")]}

    model = finding("supported")
    outcome = SelfRefine(agent, load("hallucination", model=model), max_attempts=1).refine("How warm is Porto?")
    assert outcome.stop_reason == "accepted"
    assert asked(model)[-1]["contexts"] == [RESULT]
