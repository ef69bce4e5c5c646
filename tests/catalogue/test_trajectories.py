"""Trajectories: the match modes of openevals and ADK without a model, and the judgement of a model."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from judges import ConfigurationError, load
from judges.prompting.prompts import language_of
from judges.testing import ScriptedModel
from tests.kit import asked
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


def test_pairs_move_to_make_room() -> None:
    """A call that fits two expected ones is paired with the one that no other fits."""
    expected = [call("t", a=1), call("t", a=1, b=2)]
    actual = [[call("t", a=1, b=2, c=3)], [call("t", a=1, c=3)]]
    for mode in ("unordered", "superset", "subset"):
        assert judged(mode, actual, expected, arguments="superset").passed
    assert not judged("strict", actual, expected, arguments="superset").passed
    assert judged("in_order", [[*actual[0], *actual[1]]], expected, arguments="superset").passed


def test_the_feedback_names_the_faults_and_keeps_the_reference() -> None:
    """Wrong arguments, surplus and misplaced calls are named; what was expected only if it may be told."""
    actual, expected = [[call("find", city="Rome")], [B]], [call("find", city="Paris"), C]
    verdict = judged("strict", actual, expected)
    assert "find" in verdict.feedback
    assert "b(x=1)" in verdict.feedback
    assert "Paris" not in verdict.feedback
    assert "Paris" in verdict.rationale
    assert "Paris" in judged("strict", actual, expected, reveal_reference=True).feedback
    assert {item.value for item in verdict.items} == {"wrong_arguments", "missing", "surplus"}
    grouping = judged("strict", [[A], [B]], [[A, B]])
    assert "in one message" in grouping.feedback


def test_the_feedback_is_in_the_language_of_the_question() -> None:
    """In Chinese and Russian, too, of the grouping as well."""
    for language, question in {"zh": "请安排一下这次旅行。", "ru": "Спланируй поездку."}.items():
        row = {"user_input": question, "response": "ok", "trajectory": messages([A], [B])}
        for reference in ([[A, B]], [[C]]):
            verdict = load("trajectory_match")({**row, "reference_trajectory": messages(*reference)})
            assert language_of(verdict.feedback) == language


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


@pytest.mark.parametrize(
    ("label", "score", "passed"),
    [("sound", 1, True), ("wasteful", 2 / 3, True), ("flawed", 1 / 3, False), ("wrong", 0, False)],
)
async def test_a_model_judges_the_way(label: str, score: float, passed: bool) -> None:  # noqa: FBT001 - a case
    """In four degrees, in one call; the reference is shown where there is one, as it was given."""
    row = {"user_input": "Plan it.", "response": "Done.", "trajectory": messages([A], [B])}
    reply = {"rationale": "because", "verdict": label, "feedback": "Do C first."}
    references: dict[str, Any] = {"reference_trajectory": messages([A, B]), "reference_tool_calls": [A]}
    for key, reference in {**references, "": None}.items():
        model = ScriptedModel([reply, reply])
        judge = load("trajectory_accuracy", model=model)
        for verdict in (judge({**row, key: reference}), await judge.acall({**row, key: reference})):
            assert (verdict.value, verdict.score, verdict.passed, verdict.usage.calls) == (label, score, passed, 1)
            assert verdict.feedback == ("" if score == 1 else "Do C first.")
        shown = asked(model)[0]
        assert ("reference_trajectory" in shown) is bool(key)
        assert [one["role"] for one in shown["conversation"]] == ["user", "assistant", "assistant", "assistant"]


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


def test_a_reference_without_calls_is_one() -> None:
    """An agent that should call nothing is judged; with compat strict compares messages as openevals does."""
    ask = {"role": "user", "content": "Hello."}
    greeting, more = {"role": "assistant", "content": "Hi."}, {"role": "assistant", "content": "Anything else?"}
    call_a = messages([A])
    for mode in ("strict", "unordered", "subset", "superset"):
        judge = load("trajectory_match", mode=mode)
        row = {"outputs": [ask, greeting], "reference_outputs": [ask, greeting]}
        assert judge(row).passed
        called = {"outputs": [ask, *call_a, greeting], "reference_outputs": [ask, greeting]}
        assert judge(called).passed is (mode == "superset")
    longer = {"outputs": [ask, *call_a, greeting, more], "reference_outputs": [ask, *call_a, greeting]}
    assert load("trajectory_match")(longer).passed
    verdict = load("trajectory_match", variant="compat")(longer)
    assert verdict.passed is False
    assert "messages are missing or surplus" in verdict.feedback
    assert load("trajectory_match", variant="compat")({**longer, "outputs": longer["reference_outputs"]}).passed
