"""Tool use without a reference: a verdict on each call, a missing one, and loops by rule."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import tool

from judges import ConfigurationError, load
from judges.prompting.prompts import language_of
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
ROME: Made = ("weather", {"city": "Rome"}, "dry")


@for_every(
    "uses, missing, score, phrase",
    [
        (["right", "right"], "", 1.0, ""),
        (["right", "needless"], "", 0.5, "not needed"),
        (["wrong_tool", "right"], "", 0.5, "wrong tool"),
        (["right", "wrong_arguments"], "", 0.5, "wrong arguments"),
        (["right", "repeated"], "", 0.5, "repeat earlier"),
        (["right", "right"], "Book the ferry.", 2 / 3, "missing: Book the ferry."),
        (["wrong_tool", "needless"], "Book the ferry.", 0.0, "missing: Book the ferry."),
    ],
)
async def test_each_call_has_a_verdict(uses: list[str], missing: str, score: float, phrase: str) -> None:
    """The score is the share of right calls; a missing one counts as one more. It passes only if all is right."""
    judge = load("tool_use", model=finding(*uses, missing=missing))
    sample = row(PORTO, ROME)
    for verdict in (judge(sample), await judge.acall(sample)):
        assert (verdict.score, verdict.passed, verdict.usage.calls) == (score, score == 1, 1)
        assert [item.value for item in verdict.items] == uses
        assert phrase in verdict.feedback
        assert bool(verdict.feedback) is (score < 1)


def test_loops_and_repetitions_are_found_by_rule() -> None:
    """The second equal call is marked for the model, from the third on it fails without being asked about."""
    model = finding("right", "repeated", "right")
    verdict = load("tool_use", model=model)(row(PORTO, PORTO, ROME, PORTO, PORTO))
    (shown,) = asked(model)
    assert [(one["number"], one.get("repeats")) for one in shown["calls"]] == [(1, None), (2, 1), (3, None)]
    assert [item.value for item in verdict.items] == ["right", "repeated", "right", "loop", "loop"]
    assert verdict.score == 2 / 5
    assert "go round in a loop" in verdict.feedback


def test_another_result_or_other_arguments_are_no_repetition() -> None:
    """A second try after an error, and a look at what has changed, are calls of their own."""
    model = finding("right", "right", "right")
    sample = row(("weather", {"city": "Porto"}, "error"), PORTO, ROME)
    assert load("tool_use", model=model)(sample).passed
    assert all("repeats" not in one for one in asked(model)[0]["calls"])
    assert [one["result"] for one in asked(model)[0]["calls"]] == ["error", "rain", "dry"]


def test_what_the_user_asks_for_again_is_no_loop() -> None:
    """The same call with the same result in another turn is a call of its own."""
    turn = [{"role": "user", "content": "Rain in Porto?"}, *row(PORTO)["trajectory"]]
    model = finding("right", "right", "right")
    verdict = load("tool_use", model=model)(user_input=turn * 3, response="Still.")
    assert verdict.passed
    assert all("repeats" not in one for one in asked(model)[0]["calls"])


def test_the_results_of_calls_made_at_once_are_told_apart() -> None:
    """By the calls' ids, or else in their order; a call without a result is shown without one."""
    calls = [{"name": name, "args": {}, "id": name} for name in "ab"]
    results = [{"role": "tool", "content": f"of {name}", "tool_call_id": name} for name in "ba"]
    plain = [{"name": name, "args": {}} for name in "abc"]
    for steps, expected in (
        ([{"role": "assistant", "tool_calls": calls}, *results], ["of a", "of b"]),
        (
            [{"role": "assistant", "tool_calls": plain}, *({"role": "tool", "content": text} for text in "xy")],
            ["x", "y", None],
        ),
    ):
        model = finding(*["right"] * len(expected))
        load("tool_use", model=model)(user_input="Hi?", response="Ho", trajectory=steps)
        assert [one.get("result") for one in asked(model)[0]["calls"]] == expected


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


def test_no_call_is_right_where_none_was_needed() -> None:
    """With known tools the model says whether one was; without, there is nothing to judge or to ask."""
    assert load("tool_use", model=finding(), tools=["weather"])(row()).score == 1
    assert load("tool_use", model=finding(missing="Look it up."), tools=["weather"])(row()).score == 0
    verdict = load("tool_use", model=finding())(row())
    assert (verdict.unscored, verdict.usage.calls) == ("undefined", 0)


def test_the_feedback_is_in_the_language_of_the_question() -> None:
    """Of every fault, loops included."""
    for language, question in {"zh": "厦门明天会下雨吗？", "ru": "Будет ли дождь в Сочи?"}.items():
        sample = row(PORTO, ROME, PORTO, PORTO, question=question)
        for fault in ("wrong_tool", "wrong_arguments", "needless", "repeated"):
            verdict = load("tool_use", model=finding("right", fault, "right"))(sample)
            assert all(language_of(line) == language for line in verdict.feedback.splitlines() if line[0] != "-")
            assert language_of(verdict.items[-1].rationale) == language


@pytest.mark.parametrize("tools", ["weather", {"name": "weather"}, [3], 3])
def test_tools_that_are_none_are_refused(tools: Any) -> None:
    """At construction, with what they should be."""
    with pytest.raises(ConfigurationError, match="tool"):
        load("tool_use", model=finding(), tools=tools)
