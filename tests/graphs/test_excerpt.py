"""What a judge is shown of a long conversation and of long tool results is bounded, and it says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from judges import ConfigurationError, Helpfulness, Sample, as_judge
from judges.testing import ScriptedModel
from refine import SelfRefine

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}


def judged(generator: Any, messages: list[AnyMessage], **policy: Any) -> Sample:
    """Refine an answer, and return the sample that the judge saw."""
    samples: list[Sample] = []

    @as_judge
    def look(sample: Sample) -> bool:
        samples.append(sample)
        return True

    outcome = SelfRefine(generator, look, **policy).refine(messages)
    assert outcome.passed
    assert len(outcome.conversation) == len(messages)
    return samples[0]


def talk(turns: int) -> list[AnyMessage]:
    """Return a conversation of many messages, with a system message first and a question last."""
    messages: list[AnyMessage] = [SystemMessage("Be kind.")]
    for turn in range(turns):
        messages += [HumanMessage(f"question {turn} {'x' * 200}"), AIMessage(f"answer {turn} {'y' * 250}")]
    return [*messages, HumanMessage("And the last?")]


def size(sample: Sample) -> int:
    """Return how many characters of conversation and steps a judge is shown."""
    return len(json.dumps([message.model_dump(exclude_defaults=True) for message in sample.messages]))


def test_the_middle_of_a_long_conversation_is_left_out() -> None:
    """Its beginning, its end and the last question stay, and a note in the gap says how much is missing."""
    messages = talk(300)
    sample = judged(ScriptedModel(["draft"]), messages)
    assert size(sample) < 115_000
    contents = [message.content for message in sample.conversation]
    assert contents[:2] == ["Be kind.", messages[1].content]
    assert contents[-1] == sample.question == "And the last?"
    assert contents[-2] == messages[-2].content
    (note,) = [content for content in contents if "left out" in content]
    assert f"[{len(messages) - len(contents) + 1} messages" in note


def test_a_model_that_judges_is_reported() -> None:
    """The note stands in the judge's prompt; the bound is a setting."""
    model = ScriptedModel([GOOD])
    SelfRefine(ScriptedModel(["draft"]), Helpfulness(model), max_conversation_chars=2_000).refine(talk(50))
    prompt = "".join(str(message.text) for message in model.prompts[0])
    assert "messages are left out here" in prompt
    assert "question 20 " not in prompt


@pytest.mark.parametrize("turns", [0, 1, 50])
def test_a_short_conversation_is_shown_whole(turns: int) -> None:
    """Nothing is left out, and nothing noted."""
    messages = talk(turns)
    sample = judged(ScriptedModel(["draft"]), messages)
    assert [message.content for message in sample.conversation] == [message.content for message in messages]


def test_one_long_question_is_cut_in_its_middle() -> None:
    """So is each long message of several; the question stays the question."""
    text = f"begin {'x' * 500_000} end"
    alone = judged(ScriptedModel(["draft"]), [HumanMessage(text)])
    assert (alone.question[:6], alone.question[-4:], len(alone.question) <= 100_000) == ("begin ", " end", True)
    assert "characters are left out here" in alone.question
    messages: list[AnyMessage] = [
        HumanMessage(text),
        AIMessage(text),
        HumanMessage(text),
        ToolMessage("seen", tool_call_id="1"),
    ]
    sample = judged(ScriptedModel(["draft"]), messages)
    assert size(sample) < 115_000
    assert sample.question.startswith("begin ")
    assert sample.steps[-1].content == "seen"


def test_tool_results_of_an_attempt_are_cut() -> None:
    """All calls stay; long results and arguments are cut in their middle, without harm to short ones."""

    def generate(messages: list[AnyMessage]) -> dict[str, Any]:
        steps: list[AnyMessage] = []
        for number, result in enumerate(["short", f"first {'x' * 400_000} last", "z" * 300_000]):
            call = {"name": "look", "args": {"at": "w" * 60_000 if number == 1 else "here"}, "id": str(number)}
            steps += [AIMessage("", tool_calls=[call]), ToolMessage(result, tool_call_id=str(number))]
        return {"messages": [*messages, *steps, AIMessage("draft")]}

    sample = judged(generate, [HumanMessage("what?")])
    results = [step.content for step in sample.steps if step.role == "tool"]
    assert results[0] == "short"
    assert (results[1][:6], results[1][-5:]) == ("first ", " last")
    assert len([step for step in sample.steps if step.tool_calls]) == 3
    assert size(sample) < 115_000


def test_very_many_steps_are_bounded_too() -> None:
    """Where results cannot be cut enough, the middle of the steps is left out."""

    def generate(messages: list[AnyMessage]) -> dict[str, Any]:
        steps: list[AnyMessage] = []
        for number in range(2_000):
            call = {"name": "look", "args": {"at": "here"}, "id": str(number)}
            steps += [AIMessage("", tool_calls=[call]), ToolMessage("seen", tool_call_id=str(number))]
        return {"messages": [*messages, *steps, AIMessage("draft")]}

    sample = judged(generate, [HumanMessage("what?")])
    assert any("messages are left out here" in step.content for step in sample.steps)
    assert size(sample) < 250_000


@pytest.mark.parametrize("limit", [0, 999, 1.5, None, "many"])
def test_the_bound_is_a_whole_number_from_1000(limit: Any) -> None:
    """Any other is refused by name."""
    with pytest.raises(ConfigurationError, match="max_conversation_chars"):
        SelfRefine(ScriptedModel(["draft"]), lambda _: True, max_conversation_chars=limit)
