"""Completeness by the parts of the question; relevance and faithfulness by the turns of a conversation."""

from __future__ import annotations

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel, raising
from tests.kit import asked, items

TALK = [
    {"role": "user", "content": "When does the museum open?"},
    {"role": "assistant", "content": "At ten."},
    {"role": "user", "content": "What does it cost?"},
    {"role": "assistant", "content": "Twelve euros."},
]


def parts(*verdicts: str) -> dict[str, object]:
    """Write a reply of the parts of a question."""
    return {"parts": [{"part": f"part {word}", "reason": f"why {word}", "verdict": word} for word in verdicts]}


def test_a_question_back_and_an_honest_abstention_deal_with_a_part() -> None:
    """They count as answered; what is passed over does not, and is what the feedback names."""
    model = ScriptedModel(
        [parts("answered", "asked_back", "declined"), parts("answered", "partly", "missing"), parts("missing")]
    )
    judge = load("completeness", model=model)
    with raising():
        full, half, none = (judge(question="?", answer=str(number)) for number in range(3))
    assert (full.score, full.passed, full.feedback) == (1, True, "")
    assert (half.score, half.passed, none.score) == (0.5, False, 0)
    assert [item.value for item in half.items] == ["answered", "partly", "missing"]
    assert half.feedback.splitlines()[1:] == ["- part partly - why partly", "- part missing - why missing"]


def test_a_question_has_at_least_one_part() -> None:
    """A reply without parts is asked for again, and counts as no verdict the second time."""
    model = ScriptedModel([parts(), parts("answered")])
    assert load("completeness", model=model)(question="?", answer="!").score == 1
    assert load("completeness", model=ScriptedModel([]))(question=" ", answer="!").unscored == "no_question"


@pytest.mark.parametrize("name", ["turn_relevancy", "turn_faithfulness"])
def test_each_answer_is_an_item_and_the_mean_or_the_worst_counts(name: str) -> None:
    """All answers are numbered in one call; the mean is their share, the worst is 0 if any fails."""
    model = ScriptedModel(lambda _: items(*(True, False)))
    with raising():
        mean = load(name, model=model)(messages=TALK, contexts=["It opens at ten."])
        worst = load(name, model=model, aggregate="worst")(messages=TALK, contexts=["It opens at ten."])
    assert (mean.score, worst.score, mean.passed, mean.usage.calls) == (0.5, 0, False, 1)
    assert [item.subject for item in mean.items] == ["At ten.", "Twelve euros."]
    assert "- Twelve euros. - reason 2" in mean.feedback
    numbered = [one for one in asked(model)[0]["conversation"] if "number" in one]
    assert [(one["number"], one["content"]) for one in numbered] == [(1, "At ten."), (2, "Twelve euros.")]
    with pytest.raises(ConfigurationError, match="aggregate is 'mean' or 'worst'"):
        load(name, model=model, aggregate="median")


def test_tool_results_are_evidence_of_faithfulness() -> None:
    """With a tool result no context is needed; with neither there is no score, and no call."""
    model = ScriptedModel([items(*(True,))])
    call = {"role": "assistant", "tool_calls": [{"name": "hours", "args": {}, "id": "1"}]}
    result = {"role": "tool", "content": "10-18", "tool_call_id": "1", "name": "hours"}
    judge = load("turn_faithfulness", model=model)
    with raising():
        assert judge(messages=[TALK[0], call, result, TALK[1]]).score == 1
    assert judge(messages=TALK).unscored == "no_contexts"
    assert len(model.prompts) == 1
