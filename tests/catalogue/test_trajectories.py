"""Trajectories: the match modes of openevals and ADK without a model, and the judgement of a model."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from judges import ConfigurationError, load
from tests.laws import for_every

Calls = list[dict[str, Any]]


def call(name: str, **args: Any) -> dict[str, Any]:
    """Write a call."""
    return {"name": name, "args": args}


A, B, C, D = (call(name, x=1) for name in "abcd")


def messages(*steps: Calls) -> list[dict[str, Any]]:
    """Write one message of the assistant for each step."""
    return [{"role": "assistant", "content": "", "tool_calls": step} for step in steps]


def judged(mode: str, actual: list[Calls], expected: list[Calls] | Calls, **settings: Any) -> Any:
    """Match calls with a reference: of messages if it has lists in it, else a plain list of calls."""
    plain = all(isinstance(step, dict) for step in expected)
    reference = {"reference_tool_calls": expected} if plain else {"reference_trajectory": messages(*expected)}
    row = {"user_input": "Plan it.", "response": "Done.", "trajectory": messages(*actual), **reference}
    return load("trajectory_match", mode=mode, **settings)(row)


MODES = ("strict", "unordered", "subset", "superset", "in_order", "any_order")


@for_every(
    "actual, expected, passing",
    [
        ([[A], [B]], [[A], [B]], "strict unordered subset superset in_order any_order"),
        ([[B], [A]], [[A], [B]], "unordered subset superset any_order"),
        ([[A], [C], [B]], [[A], [B]], "superset in_order any_order"),
        ([[C], [B], [A]], [[A], [B]], "superset any_order"),
        ([[A]], [[A], [B]], "subset"),
        ([[A], [A], [B]], [[A], [B]], "superset in_order any_order"),
        ([[A], [B]], [[A], [A], [B]], "subset"),
        ([[B, A]], [[A, B]], "strict unordered subset superset in_order any_order"),
        ([[B, A], [C]], [A, B, C], "strict unordered subset superset in_order any_order"),
        ([[B, A]], [[A], [B]], "unordered subset superset in_order any_order"),
        ([[A], [B]], [[A, B]], "unordered subset superset in_order any_order"),
        ([[B], [A], [C]], [[A, B], [C]], "unordered subset superset in_order any_order"),
        ([[C, D], [B, A]], [A, B], "superset in_order any_order"),
        ([[C], [A, B]], [C, B, A, D], "subset"),
        ([], [[A]], "subset"),
        ([], [], "strict unordered subset superset in_order any_order"),
        ([[D]], [[]], "superset in_order any_order"),
    ],
)
def test_each_mode_passes_what_it_should(actual: list[Calls], expected: Any, passing: str) -> None:
    """Calls of one message are a set in every mode; what fails names a fault."""
    for mode in MODES:
        verdict = judged(mode, actual, expected)
        assert verdict.passed is (mode in passing.split()), mode
        assert verdict.value is verdict.passed
        assert bool(verdict.feedback) is not verdict.passed
        assert verdict.usage.calls == 0


@for_every(
    "rule, made, expected, passes",
    [
        ("exact", {"a": 1}, {"a": 1.0}, True),
        ("exact", {"a": 1}, {"a": "1"}, False),
        ("exact", {"a": 1, "b": 2}, {"a": 1}, False),
        ("ignore", {"z": 9}, {"a": 1}, True),
        ("subset", {"a": 1}, {"a": 1, "b": 2}, True),
        ("subset", {"a": 1, "b": 2}, {"a": 1}, False),
        ("superset", {"a": 1, "b": 2}, {"a": 1}, True),
        ("superset", {"a": 1}, {"a": 1, "b": 2}, False),
        (["a"], {"a": 1, "b": 2}, {"a": 1, "b": 3}, True),
        (["o.id"], {"o": {"id": 1, "t": 2}}, {"o": {"id": 1, "t": 3}}, True),
        (["o.id"], {"o": {"id": 2}}, {"o": {"id": 1}}, False),
        (["o.id"], {}, {"o": {"id": 1}}, False),
        (lambda made, expected: made["a"] > expected["a"], {"a": 2}, {"a": 1}, True),
        (lambda made, expected: made["a"] > expected["a"], {"a": 1}, {"a": 2}, False),
    ],
)
def test_arguments_are_compared_by_a_rule(rule: Any, made: Any, expected: Any, passes: bool) -> None:  # noqa: FBT001
    """For all tools, or for one by its name alone."""
    actual, reference = [[call("t", **made)]], [call("t", **expected)]
    for mode in MODES:
        assert judged(mode, actual, reference, arguments=rule).passed is passes
        other = judged(mode, actual, reference, arguments="ignore", arguments_by_tool={"t": rule})
        assert other.passed is passes
        assert passes or "`" in other.feedback


@for_every(
    "fields, reason",
    [
        ({}, "no_reference"),
        ({"reference_trajectory": "a then b"}, "invalid_sample"),
        ({"reference_trajectory": [{"role": "king", "content": ""}]}, "invalid_sample"),
        ({"reference_tool_calls": [A], "response": None}, "no_response"),
        ({"reference_tool_calls": [call("a", x=n) for n in range(600)]}, "undefined"),
    ],
)
def test_what_cannot_be_matched_is_unscored(fields: dict[str, Any], reason: str) -> None:
    """With the reason; too many calls are not compared for minutes."""
    many = messages([call("b", x=n) for n in range(600)]) if reason == "undefined" else []
    row = {"user_input": "Hi", "response": "Ho", "trajectory": many, **fields}
    assert load("trajectory_match")(row).unscored == reason


def test_other_names_and_faulty_settings() -> None:
    """Modes are known under ADK's names, the judge under its rivals'; a wrong setting says what is right."""
    for mode in ("EXACT", "exact", "IN_ORDER", "ANY_ORDER"):
        assert judged(mode, [[A], [B]], [A, B]).passed
    for name in ("create_trajectory_match_evaluator", "tool_trajectory_avg_score"):
        assert load(name).name == "trajectory_match"
    for settings, message in {
        (("mode", "loose"),): "mode is 'strict'",
        (("arguments", "some"),): "arguments is one of exact",
        (("arguments", ()),): "arguments is one of exact",
        (("arguments_by_tool", "exact"),): "arguments_by_tool maps names",
        (("lenient", "yes"),): "lenient is",
    }.items():
        with pytest.raises(ConfigurationError, match=message):
            load("trajectory_match", **dict(settings))


def test_rows_of_openevals_hold_both_trajectories() -> None:
    """`outputs` and `reference_outputs` as lists of messages, in OpenAI's form or LangChain's."""

    def chat(*names: str) -> list[dict[str, Any]]:
        calls = [{"id": n, "type": "function", "function": {"name": n, "arguments": '{"x": 1}'}} for n in names]
        return [
            {"role": "user", "content": "What is the weather?"},
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "content": "80 degrees", "tool_call_id": names[0]},
            {"role": "assistant", "content": "It is 80 degrees."},
        ]

    langchain = [
        AIMessage(content="", tool_calls=[{**A, "id": "1"}, {**B, "id": "2"}]),
        AIMessage(content="Done."),
    ]
    for reference, passes in ((chat("b", "a"), True), (chat("a"), False), (langchain, True)):
        for name in ("reference_outputs", "reference_trajectory"):
            row = {"outputs": chat("a", "b"), name: reference}
            verdict = load("trajectory_match")(row)
            assert verdict.passed is passes, (name, verdict)


def test_many_calls_that_differ_are_a_mismatch_still() -> None:
    """What is too long to be aligned within seconds fails without the faults by name."""
    expected, actual = ([call("a", x=n) for n in range(start, start + 400)] for start in (0, 1_000))
    verdict = judged("unordered", [actual], expected)
    assert (verdict.value, verdict.passed, verdict.items) == (False, False, ())
    assert "differ in many places" in verdict.feedback
    assert "too many" in verdict.detail
