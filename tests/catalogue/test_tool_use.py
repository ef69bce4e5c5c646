"""Tool use without a reference: a verdict on each call, a missing one, and loops by rule."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import tool

from judges import load
from judges.testing import ScriptedModel
from tests.kit import asked, items
from tests.laws import for_every

Made = tuple[str, dict[str, Any], str | None]


def row(*made: Made, question: str = "Will it rain in Porto?", **fields: Any) -> dict[str, Any]:
    """Write a sample in which these calls are made, one after the other, with these results."""
    steps: list[dict[str, Any]] = []
    for number, (name, args, result) in enumerate(made):
        steps.append({"role": "assistant", "tool_calls": [{"name": name, "args": args, "id": str(number)}]})
        if result is not None:
            steps.append({"role": "tool", "content": result, "tool_call_id": str(number)})
    return {"user_input": question, "response": "It will.", "trajectory": steps, **fields}


def finding(*uses: str, missing: str = "") -> ScriptedModel:
    """Make a model with a verdict on each call."""
    return ScriptedModel(
        [{**items(*uses), "reason": "so it is", "complete": not missing, "feedback": missing}] * 2
    )


PORTO: Made = ("weather", {"city": "Porto"}, "rain")


@tool
def ferry(hour: int) -> str:
    """Books a ferry."""
    return str(hour)


@for_every(
    "tools, fields, expected",
    [
        (["weather"], {}, ["weather"]),
        ([{"name": "weather", "parameters": {}}], {}, [{"name": "weather", "parameters": {}}]),
        (
            [ferry],
            {"tools": ["x"]},
            [
                {
                    "name": "ferry",
                    "description": "Books a ferry.",
                    "parameters": {"hour": {"title": "Hour", "type": "integer"}},
                }
            ],
        ),
        (None, {"tools": ["weather"]}, ["weather"]),
        (None, {"tool_definitions": {"name": "weather"}}, [{"name": "weather"}]),
        (None, {}, None),
    ],
)
def test_the_tools_are_shown_where_they_are_known(tools: Any, fields: dict[str, Any], expected: Any) -> None:
    """From the setting, or else from the metadata of the sample."""
    model = finding("right")
    load("tool_use", model=model, tools=tools)(row(PORTO, **fields))
    assert asked(model)[0].get("tools") == expected
