"""Tool calls whose arguments do not fit the tool's schema are rejected in words, without a judge."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import tool

from graphs import structure
from graphs.structure import misfit_of
from judges.testing import ScriptedModel
from refine.middleware import SelfRefineMiddleware
from tests.guarding import guarding, rates
from tests.model_server import Asked, Wire, serving
from tests.server.apis import DIALECTS, body_in, reply_in, tools_in
from tests.server.evasions import PATHS

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["C", "F"]}},
    "required": ["city"],
    "additionalProperties": False,
}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "city is missing"),
    ({"city": 1}, "city"),
    ({"city": "Rome", "days": "two"}, "days"),
    ({"city": "Rome", "unit": "K"}, "unit"),
    ({"city": "Rome", "country": "IT"}, "country"),
]


@pytest.mark.parametrize("has_extra", [True, False])
@pytest.mark.parametrize(("arguments", "named"), WRONG)
def test_what_is_wrong_is_said(
    arguments: dict[str, Any], named: str, *, has_extra: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the extra and without it the feedback names tool and argument; what fits has none."""
    if not has_extra:
        monkeypatch.setattr(structure, "_validator_class", lambda: None)
    said = misfit_of([{"name": "look", "args": arguments}], {"look": SCHEMA})
    assert said.startswith("The call of the tool look does not fit its schema: ")
    assert named in said
    fitting = {"city": "Rome", "days": 2, "unit": "C"}
    assert not misfit_of([{"name": "look", "args": fitting}], {"look": SCHEMA})


def test_a_call_is_made_again() -> None:
    """The model is told what was wrong, and its next call goes out; a last one that is wrong has not passed."""

    def call(asked: Asked) -> Wire:
        told = b"city is missing" in asked["raw"]
        return reply_in(asked, "", call={"city": "Rome"} if told else {"place": "Rome"})

    guards: dict[str, Any] = {"usual": {}, "once": {"max_attempts": 1}}
    guards["unchecked"] = {"policy": {"check_tool_calls": False}}
    with serving(call) as upstream, guarding(upstream.url, guards=guards) as guard:
        for dialect in DIALECTS:
            body = {**body_in(dialect), **tools_in(dialect, SCHEMA)}
            good, bad, unchecked = (
                guard.post(PATHS[dialect], body, headers={"x-refine-guard": name}) for name in guards
            )
            kinds = [attempt["kind"] for attempt in good.json()["refine"]["attempts"]]
            assert (kinds, good.json()["refine"]["stop_reason"]) == (["invalid_tool_call", "tool_call"], "skipped")
            assert "city" in good.text
            assert (bad.status_code, bad.json()["refine"]["passed"]) == (200, False)
            assert unchecked.json()["refine"]["stop_reason"] == "skipped"


def test_an_agents_call_is_made_again() -> None:
    """The tool runs once, with arguments that fit."""
    seen: list[str] = []

    @tool
    def look(city: str) -> str:
        """Look at the weather."""
        seen.append(city)
        return "sunny"

    def calling(**arguments: Any) -> AIMessage:
        return AIMessage("", tool_calls=[{"name": "look", "args": arguments, "id": "c", "type": "tool_call"}])

    model = ScriptedModel([calling(place="Rome"), calling(city="Rome"), "good"])
    agent: Any = create_agent(model, [look], middleware=[SelfRefineMiddleware(rates)])
    result = agent.invoke({"messages": [("user", "How is Rome?")]})
    assert seen == ["Rome"]
    assert result["messages"][-1].text == "good"
    assert "place" not in str(result["messages"])
