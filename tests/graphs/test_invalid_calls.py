"""Calls of tools that cannot be read: rejected with feedback of their own, by one rule in every door."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, InvalidToolCall
from langchain_core.tools import tool
from pydantic import BaseModel

from graphs import NotAccepted, Outcome
from judges import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware

QUESTION: Any = {"messages": [("user", "what is it?")]}
FEEDBACK = "The call of a tool could not be read"


class Report(BaseModel):
    """A report."""

    text: str


@tool
def lookup(subject: str) -> str:
    """Look a subject up."""
    return f"about {subject}"


def broken(text: str = "", *, name: str = "lookup", **fields: Any) -> AIMessage:
    """Return an answer that calls a tool with arguments which were never ended."""
    call = InvalidToolCall(name=name, args='{"subject": ', id="1", error="not JSON", type="invalid_tool_call")
    return AIMessage(text, invalid_tool_calls=[call], **fields)


def by_refiner(model: ScriptedModel, judge: ScriptedJudge, **settings: Any) -> Outcome:
    """Ask a model inside a refiner."""
    return SelfRefine(model, judge, **settings).refine("what is it?")


def by_agent_inside(model: ScriptedModel, judge: ScriptedJudge, **settings: Any) -> Outcome:
    """Ask an agent inside a refiner, without blocking."""
    return asyncio.run(SelfRefine(create_agent(model, [lookup]), judge, **settings).arefine("what is it?"))


def by_middleware(model: ScriptedModel, judge: ScriptedJudge, **settings: Any) -> Outcome:
    """Ask an agent with the middleware."""
    refining = SelfRefineMiddleware(judge, **settings)
    agent = create_agent(model, [lookup], middleware=[refining])
    return refining.outcome(agent.invoke(QUESTION))


@pytest.mark.parametrize("door", [by_refiner, by_agent_inside, by_middleware])
def test_a_call_that_cannot_be_read_is_asked_for_again(door: Any) -> None:
    """No judge is asked, the feedback says what is wrong, and in the end the best answer there is goes out."""
    for text in ("", "Let me look that up."):
        model, judge = ScriptedModel([broken(text), "It is a cat."]), ScriptedJudge([4])
        outcome = door(model, judge, augment="last_draft")
        assert [attempt.kind for attempt in outcome.attempts] == ["invalid_tool_call", "text"]
        assert (outcome.stop_reason, len(judge.samples)) == ("accepted", 1)
        assert FEEDBACK in str(model.prompts[1][-1].text)
        assert [message.text for message in model.prompts[1]][1:-1] == ([text] if text else [])
    outcome = door(ScriptedModel(["A dog.", broken()]), ScriptedJudge([2]), max_attempts=2)
    assert (outcome.answer.text, outcome.stop_reason, outcome.detail) == ("A dog.", "max_attempts", "")
    outcome = door(ScriptedModel([broken()], cycle=True), ScriptedJudge([]), max_attempts=2, success_rating=1)
    assert (outcome.stop_reason, outcome.passed) == ("max_attempts", False)
    assert outcome.detail == "the answer calls a tool in a way that cannot be read"
    assert outcome.answer.invalid_tool_calls
    outcome = door(ScriptedModel([broken("A cat, I think.")]), ScriptedJudge([3]), max_attempts=1)
    assert (outcome.stop_reason, outcome.answer.text) == ("accepted", "A cat, I think.")
    with pytest.raises(NotAccepted):
        door(ScriptedModel([broken()]), ScriptedJudge([]), max_attempts=1, on_exhausted="raise")


def test_beside_a_call_that_can_be_read_the_agent_goes_on() -> None:
    """The tool runs, and the model is told by the agent of the call that could not be read."""
    call = {"name": "lookup", "args": {"subject": "it"}, "id": "2", "type": "tool_call"}
    model = ScriptedModel([broken(tool_calls=[call]), "wrong", "A cat."])
    refining = SelfRefineMiddleware(ScriptedJudge([1, 4]))
    agent = create_agent(model, [lookup], middleware=[refining])
    result = agent.invoke(QUESTION)
    assert [attempt.text for attempt in refining.outcome(result).attempts] == ["wrong", "A cat."]
    for prompt in model.prompts[1:]:
        assert sorted(str(message.text)[:9] for message in prompt if message.type == "tool") == [
            "Tool call",
            "about it",
        ]
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "tool", "ai"]


def test_instead_of_a_structured_answer_it_is_never_released() -> None:
    """The feedback speaks of the call, not of a plain text, nor of a text that is no JSON."""
    answers: list[tuple[Any, Any]] = [
        (ToolStrategy(Report), ToolCall(name="Report", args={"text": "a cat"}, id="2")),
        (ProviderStrategy(Report), '{"text": "a cat"}'),
    ]
    for strategy, answer in answers:
        model = ScriptedModel([broken(name="Report"), answer])
        refining = SelfRefineMiddleware(ScriptedJudge([4]))
        agent = create_agent(model, [lookup], middleware=[refining], response_format=strategy)
        result = agent.invoke(QUESTION)
        assert result["structured_response"] == Report(text="a cat")
        assert FEEDBACK in str(model.prompts[1][-1].text)


def test_where_the_answer_was_cut_off_the_feedback_says_that() -> None:
    """A call is most often broken because the reply was too long."""
    model = ScriptedModel([broken(response_metadata={"finish_reason": "length"}), "A cat."])
    outcome = SelfRefine(model, ScriptedJudge([4])).refine("what is it?")
    assert outcome.attempts[0].kind == "cut"
    assert "Keep the answer short." in str(model.prompts[1][-1].text)


@pytest.mark.parametrize(
    ("question", "part"), [("这是什么？", "无法读取工具调用"), ("Что это такое?", "Вызов инструмента не читается")]
)
def test_the_feedback_is_in_the_language_of_the_question(question: str, part: str) -> None:
    """As with every feedback of the loop itself."""
    model = ScriptedModel([broken(), "x"])
    SelfRefine(model, ScriptedJudge([4])).invoke(question)
    assert part in str(model.prompts[1][-1].text)
