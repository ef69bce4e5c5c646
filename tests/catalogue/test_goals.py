"""Agent goal accuracy: the user's goal is reached at the end of the conversation, or it is not."""

from __future__ import annotations

from typing import Any

import pytest

from judges import Panel, load
from judges.testing import ScriptedModel
from tests.kit import Shown, asked, replying

BOOKING: dict[str, Any] = {
    "user_input": [
        {"role": "user", "content": "Book me a table at a Chinese restaurant for 8 pm."},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "find", "args": {"cuisine": "Chinese"}}]},
        {"role": "tool", "content": "Golden Dragon, Jade Palace"},
        {"role": "assistant", "content": "Golden Dragon or Jade Palace?"},
        {"role": "user", "content": "Golden Dragon."},
    ],
    "trajectory": [
        {"role": "assistant", "content": "", "tool_calls": [{"name": "book", "args": {"hour": 20}}]},
        {"role": "tool", "content": "booked"},
    ],
    "response": "Your table at Golden Dragon is booked.",
    "reference": "A table is booked at one of the Chinese restaurants at 8 pm.",
}
WITH, WITHOUT = "ragas.agent_goal_accuracy_with_reference", "ragas.agent_goal_accuracy_without_reference"
both = pytest.mark.parametrize("name", [WITH, WITHOUT])


def agent(
    verdict: object, *, feedback: str = "Book it.", goal: str = "a table", end: str = "booked"
) -> ScriptedModel:
    """Make a model that finds this goal and end state, and this verdict on them."""

    def reply(data: Shown) -> dict[str, Any]:
        judged = {"reason": "because", "verdict": verdict, "feedback": feedback}
        if "user_messages" in data:
            return {"user_goal": goal}
        if "goal" in data:
            return {"end_state": end, **judged}
        return judged if "desired_outcome" in data else {"user_goal": goal, "end_state": end}

    return replying(reply)


@both
@pytest.mark.parametrize(("verdict", "score"), [(True, 1.0), (False, 0.0)])
async def test_the_score_is_the_verdict(name: str, verdict: bool, score: float) -> None:  # noqa: FBT001
    """1 or 0, in two calls, sync and async."""
    judge = load(name, model=agent(verdict))
    for found in (judge(BOOKING), await judge.acall(BOOKING)):
        assert (found.score, found.value, found.usage.calls) == (score, verdict, 2)
        assert found.rationale == "Wanted: a table\nBrought about: booked\nbecause"
        assert found.feedback == ("" if verdict else "Book it.")


@both
@pytest.mark.parametrize(("verdict", "score"), [("1", 1.0), ("0", 0.0)])
def test_compat_takes_the_marks_of_the_reference(name: str, verdict: str, score: float) -> None:
    """As ragas does: the text "1" or "0", in two calls."""
    found = load(name, model=agent(verdict), variant="compat")(BOOKING)
    assert (found.score, found.passed, found.usage.calls) == (score, score == 1, 2)


@both
@pytest.mark.parametrize(
    ("variant", "verdict"),
    [
        ("corrected", "1"),
        ("corrected", 1),
        ("corrected", "true"),
        ("compat", 1),
        ("compat", "2"),
        ("compat", True),
    ],
)
def test_other_verdicts_are_refused(name: str, variant: str, verdict: object) -> None:
    """Asked for again, then unscored."""
    found = load(name, model=agent(verdict), variant=variant)(BOOKING)
    assert (found.unscored, found.usage.calls) == ("invalid_output", 3)


def test_the_goal_is_told_from_the_users_messages_alone() -> None:
    """Nothing the agent said or did can lower it; then everything is held against it."""
    model = agent(verdict=True)
    load(WITHOUT, model=model)(BOOKING)
    first, second = asked(model)
    assert first == {"user_messages": ["Book me a table at a Chinese restaurant for 8 pm.", "Golden Dragon."]}
    assert second["goal"] == "a table"
    assert {"role": "assistant", "tool_calls": [{"name": "book", "args": {"hour": 20}}]} in second["conversation"]
    assert second["conversation"][-2:] == [
        {"role": "tool", "content": "booked"},
        {"role": "assistant", "content": "Your table at Golden Dragon is booked."},
    ]


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_the_outcome_is_told_without_seeing_the_reference(variant: str) -> None:
    """Then the two are compared, and nothing else is shown."""
    model = agent("1" if variant == "compat" else True)
    load(WITH, model=model, variant=variant)(BOOKING)
    first, second = asked(model)
    assert list(first) == ["conversation"]
    assert BOOKING["reference"] not in str(first)
    assert second == {"desired_outcome": BOOKING["reference"], "arrived_outcome": "booked"}


def test_compat_without_reference_compares_with_the_goal() -> None:
    """Both told from the whole conversation, as in ragas."""
    model = agent("1")
    load(WITHOUT, model=model, variant="compat")(BOOKING)
    first, second = asked(model)
    assert list(first) == ["conversation"]
    assert second == {"desired_outcome": "a table", "arrived_outcome": "booked"}


def test_both_of_a_panel_keep_their_names_and_share_the_outcome() -> None:
    """In compat three calls instead of four."""
    model = agent("1")
    verdict = Panel([load(name, model=model, variant="compat") for name in (WITH, WITHOUT)])(BOOKING)
    assert [one.judge for one in verdict.items] == [WITH, WITHOUT]
    assert len(model.prompts) == 3


@both
def test_a_goal_that_is_not_reached_always_has_feedback(name: str) -> None:
    """Where the model has none, what was brought about so far is told, and never the reference."""
    feedback = load(name, model=agent(verdict=False, feedback=" "))(BOOKING).feedback
    assert feedback == "The goal is not reached yet. Brought about so far: booked"


@both
def test_a_blank_goal_or_end_state_is_refused(name: str) -> None:
    """There would be nothing to compare."""
    for blank in ({"goal": " "}, {"end": ""}):
        found = load(name, model=agent(verdict=True, **blank))(BOOKING)
        assert (found.unscored, found.detail) == ("invalid_output", "user_goal and end_state must not be blank")


@both
@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response": " "}, "no_response"),
        ({"user_input": "Hi", "response": None, "trajectory": ()}, "no_response"),
        ({"user_input": None}, "no_question"),
        ({"user_input": " "}, "no_question"),
    ],
)
def test_nothing_to_judge_is_unscored(name: str, variant: str, fields: dict[str, Any], reason: str) -> None:
    """Before anything is spent."""
    found = load(name, model=agent(verdict=True), variant=variant)({**BOOKING, **fields})
    assert (found.unscored, found.usage.calls) == (reason, 0)


@pytest.mark.parametrize("reference", [None, "", " "])
def test_with_a_reference_means_with_a_reference(reference: str | None) -> None:
    """Without one, only the other judge speaks."""
    sample = {**BOOKING, "reference": reference}
    assert load(WITH, model=agent(verdict=True))(sample).unscored == "no_reference"
    assert load(WITHOUT, model=agent(verdict=True))(sample).score == 1


def test_a_run_that_ends_with_a_tool_call_is_judged() -> None:
    """An agent need not speak to have done something."""
    sample = {**BOOKING, "response": None}
    assert load(WITHOUT, model=agent(verdict=True))(sample).score == 1


def test_the_plain_name_is_the_one_without_reference() -> None:
    """Every conversation can be judged by it."""
    assert load("agent_goal_accuracy", model=agent(verdict=True)).name == WITHOUT
    assert load("AgentGoalAccuracyWithReference", model=agent(verdict=True)).name == WITH


@pytest.mark.parametrize(
    ("question", "said"), [("订一张桌子", "目标尚未达成"), ("Закажи столик", "Цель ещё не достигнута")]
)
def test_the_feedback_is_in_the_language_of_the_question(question: str, said: str) -> None:
    """Chinese and Russian."""
    judge = load(WITHOUT, model=agent(verdict=False, feedback=""))
    assert judge(user_input=question, response="{...} 🙂").feedback.startswith(said)
