"""What a model is shown of a very long draft and its evidence is bounded, and it says so; checks see all."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import BaseModel

from judges import ConfigurationError, Helpfulness, Judge, Panel, Sample, as_judge, load
from judges.messages import ToolCall
from judges.sample import excerpt_of
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.laws import for_every

LIMIT = 2_000
LONG = f"first words {'middle ' * 2_000}last words"
GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
NOTE = "characters are left out here"


class Grade(BaseModel):
    """A grade."""

    rating: int


def prompt_of(model: ScriptedModel) -> str:
    """Return the first prompt of a model as one text."""
    return "\n".join(str(message.text) for message in model.prompts[0])


def refine(judge: Any, **evidence: Any) -> None:
    """Let a judge rate a long draft with its evidence, and accept it."""
    refiner = SelfRefine(lambda _: LONG, judge, max_attempts=1, max_conversation_chars=LIMIT)
    outcome = refiner.refine("what?", evidence=evidence)
    assert outcome.passed, outcome.attempts[0].verdict
    assert outcome.answer is not None
    assert outcome.answer.text == LONG


def test_a_model_is_shown_begin_and_end_of_a_long_draft_and_its_evidence() -> None:
    """Each is within the bound, and a note says how much is left out in its middle."""
    model = ScriptedModel([GOOD], cycle=True)
    refine(Helpfulness(model))
    prompt = prompt_of(model)
    assert prompt.count(NOTE) == 1
    assert "first words" in prompt
    assert "last words" in prompt
    assert prompt.count("middle ") <= LIMIT // len("middle ")


def test_an_agent_that_judges_is_shown_the_excerpt() -> None:
    """It is sent the same as a judge's model, contexts and reference included."""
    model = ScriptedModel([[ToolCall(name="Grade", args={"rating": 4})]], cycle=True)
    agent = create_agent(model, response_format=ToolStrategy(Grade))
    refine(as_judge(agent), retrieved_contexts=[LONG, "short", LONG], reference=LONG, reference_contexts=[LONG])
    prompt = prompt_of(model)
    assert prompt.count(NOTE) == 5
    assert "short" in prompt
    assert prompt.count("middle ") <= 4 * LIMIT // len("middle ")


def test_a_check_sees_all_also_beside_judges_that_ask() -> None:
    """What costs nothing to read is read whole: a check in a panel, and a function."""
    seen: list[int] = []

    def look(response: str, retrieved_contexts: list[str]) -> bool:
        seen.extend([len(response), len(retrieved_contexts[0])])
        return True

    model = ScriptedModel([GOOD], cycle=True)
    length = load("length", at_least=len(LONG), unit="characters")
    refine(Panel([Helpfulness(model), length, look]), retrieved_contexts=[LONG])
    assert seen == [len(LONG), len(LONG)]
    assert NOTE in prompt_of(model)


class Echo(Judge):
    """A judge of a user's own, with a model."""

    name = "echo"

    def __init__(self, model: object) -> None:
        self._inner = Helpfulness(model)

    @property
    def models(self) -> Any:
        """The model."""
        return self._inner.models

    def deliberate(self, sample: Sample) -> Any:
        """Ask as the judge inside does."""
        return self._inner.deliberate(sample)


def test_a_judge_of_ones_own_with_a_model_is_bounded_too() -> None:
    """It need do nothing for it."""
    model = ScriptedModel([GOOD], cycle=True)
    refine(Echo(model))
    assert NOTE in prompt_of(model)


def test_outside_of_the_loop_nothing_is_left_out() -> None:
    """A judge that is called by itself shows what it is given."""
    model = ScriptedModel([GOOD], cycle=True)
    Helpfulness(model)(question="what?", answer=LONG)
    assert NOTE not in prompt_of(model)


def test_the_log_says_once_that_only_a_part_was_judged(caplog: pytest.LogCaptureFixture) -> None:
    """A warning holds the figures, no text, and the outcome's id; where a check alone judges there is none."""
    with caplog.at_level(logging.WARNING):
        refine(lambda answer: 4)
        assert caplog.records == []
        refiner = SelfRefine(
            lambda _: LONG, Helpfulness(ScriptedModel([GOOD], cycle=True)), max_conversation_chars=LIMIT
        )
        outcome = refiner.refine("what?")
        refiner.refine("what?")
    (line,) = [record.getMessage() for record in caplog.records]
    assert "a part of a very long draft" in line
    assert f"draft_characters={len(LONG)}" in line
    assert f"outcome_id='{outcome.id}'" in line
    assert "middle" not in line


@for_every("count, length", [(3, 10_000), (50, 100), (5_000, 40), (1, 100_000), (40, 2_000)])
def test_contexts_together_are_within_the_bound(count: int, length: int) -> None:
    """However many and long they are; of very many the last are left out, and a note says how many."""
    texts = [f"{number} {'x' * length}" for number in range(count)]
    contexts = excerpt_of(Sample.read(response="a", retrieved_contexts=texts), LIMIT).retrieved_contexts or ()
    assert sum(map(len, contexts)) <= LIMIT + 100
    assert contexts[0][:2] == texts[0][:2]
    noted = [text for text in contexts if "texts are left out here" in text]
    assert noted == (
        [f"[{count - len(contexts) + 1} texts are left out here, because all together are long]"] if noted else []
    )
    assert noted or len(contexts) == count


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
