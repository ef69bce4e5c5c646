"""What a model is shown of a very long draft and its evidence is bounded, and it says so; checks see all."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from pydantic import BaseModel

from judges import Helpfulness, Judge, Panel, Sample, as_judge, load
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
