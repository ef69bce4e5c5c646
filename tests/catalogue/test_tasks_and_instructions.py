"""Task completion and instruction following: each task and each instruction an item, with what is left to do."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import asked
from tests.laws import for_every

CHAT: dict[str, Any] = {
    "user_input": [
        {"role": "system", "content": "Never name prices."},
        {"role": "user", "content": "Book the ferry, and write two sentences about it."},
    ],
    "trajectory": [
        {"role": "assistant", "tool_calls": [{"name": "book", "args": {}, "id": "1"}]},
        {"role": "tool", "content": "booked", "tool_call_id": "1"},
    ],
    "response": "Booked. It costs 9.",
}


def tasks(*states: str) -> dict[str, Any]:
    """Write a reply about tasks."""
    listed = [
        {"task": f"task {n}", "reason": f"why {n}", "verdict": state, "left": "" if state == "done" else f"do {n}"}
        for n, state in enumerate(states, 1)
    ]
    return {"tasks": listed}


def kept(*verdicts: str) -> dict[str, Any]:
    """Write a reply about instructions."""
    listed = [
        {"number": n, "reason": f"why {n}", "verdict": one, "change": f"change {n}" if one == "broken" else ""}
        for n, one in enumerate(verdicts, 1)
    ]
    return {"items": listed}


@for_every(
    "states, score, passed, left",
    [
        (["done"], 1.0, True, []),
        (["done", "partly"], 0.75, True, ["- task 2: do 2"]),
        (["partly", "open"], 0.25, False, ["- task 1: do 1", "- task 2: do 2"]),
        (["open"], 0.0, False, ["- task 1: do 1"]),
    ],
)
async def test_completion_is_graded_and_says_what_is_left(
    states: list[str],
    score: float,
    passed: bool,  # noqa: FBT001 - a case
    left: list[str],
) -> None:
    """The mean over the tasks; what is left stands in the feedback, task by task. One call."""
    model = ScriptedModel([tasks(*states)] * 2)
    judge = load("task_completion", model=model)
    for verdict in (judge(CHAT), await judge.acall(CHAT)):
        assert (verdict.score, verdict.passed, verdict.usage.calls) == (score, passed, 1)
        assert [item.value for item in verdict.items] == states
        assert verdict.feedback.splitlines()[1:] == left
        assert bool(verdict.feedback) is bool(left)
    shown = asked(model)[0]["conversation"]
    assert [one["role"] for one in shown] == ["system", "user", "assistant", "tool", "assistant"]


def test_a_task_may_be_set_and_none_is_unscored() -> None:
    """The task of the setting is shown; where the user wants nothing, there is nothing to complete."""
    model = ScriptedModel([tasks("done")])
    load("TaskCompletionMetric", model=model, task="Book the ferry.")(CHAT)
    assert asked(model)[0]["task"] == "Book the ferry."
    assert load("task_completion", model=ScriptedModel([tasks()]))(CHAT).unscored == "no_question"
    with pytest.raises(ConfigurationError, match="task says in words"):
        load("task_completion", model=model, task=" ")


@for_every(
    "verdicts, score, lines",
    [
        (["kept", "kept"], 1.0, []),
        (["kept", "not_applicable"], 1.0, []),
        (["broken", "kept"], 0.5, ["- Never name prices. - change 1"]),
        (["broken", "not_applicable"], 0.0, ["- Never name prices. - change 1"]),
        (["not_applicable", "not_applicable"], None, []),
    ],
)
async def test_each_instruction_is_an_item(verdicts: list[str], score: float | None, lines: list[str]) -> None:
    """The share of those that apply; found in one call and checked in another, or given and checked in one."""
    instructions = ["Never name prices.", "Write two sentences."]
    for settings in ({}, {"instructions": instructions}):
        replies = [kept(*verdicts)] if settings else [{"instructions": [*instructions, " "]}, kept(*verdicts)]
        judge = load("instruction_following", model=ScriptedModel(replies * 2), **settings)
        for verdict in (judge(CHAT), await judge.acall(CHAT)):
            assert (verdict.score, verdict.usage.calls) == (score, len(replies))
            assert judge.explain().calls == str(len(replies))
            assert verdict.passed is (None if score is None else score == 1)
            assert [item.value for item in verdict.items] == verdicts
            assert verdict.feedback.splitlines()[1:] == lines
            assert verdict.unscored == (None if score is not None else "no_guidelines")


def test_the_system_prompt_is_read_and_steps_are_not() -> None:
    """The instructions are listed from the conversation alone, so that the answer cannot change them."""
    model = ScriptedModel([{"instructions": ["Be brief."]}, kept("kept")])
    load("PromptAlignmentMetric", model=model)(CHAT)
    found, checked = asked(model)
    assert [one["role"] for one in found["conversation"]] == ["system", "user"]
    assert checked["instructions"] == [{"number": 1, "instruction": "Be brief."}]
    assert checked["answer"] == CHAT["response"]


def test_without_instructions_there_is_nothing_to_follow() -> None:
    """A greeting has none: one call, no score."""
    verdict = load("instruction_following", model=ScriptedModel([{"instructions": []}]))(CHAT)
    assert (verdict.unscored, verdict.usage.calls) == ("no_guidelines", 1)


@pytest.mark.parametrize("instructions", ["", [], [" "], [3], 3])
def test_faulty_instructions_are_refused(instructions: Any) -> None:
    """At construction."""
    with pytest.raises(ConfigurationError, match="instructions is a text or a list"):
        load("instruction_following", model=ScriptedModel([]), instructions=instructions)


def test_a_faulty_list_is_asked_for_again() -> None:
    """An instruction left out: once more, then unscored."""
    model = ScriptedModel([kept("kept"), kept("kept")])
    verdict = load("instruction_following", model=model, instructions=["a", "b"])(CHAT)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)
