"""Structured answers of an agent are judged, asked for again, and released as the agent's own objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import (
    ProviderStrategy,
    StructuredOutputValidationError,
    ToolStrategy,
)
from langchain_core.messages import AIMessage

from graphs import Unanswered
from judges import ConfigurationError
from judges.messages import ToolCall
from judges.testing import ScriptedJudge, ScriptedModel
from refine.middleware import SelfRefineMiddleware
from tests.refine.agent_models import QUESTION, Report, both, calling, lookup

STRATEGIES: dict[str, Any] = {
    "tool": ToolStrategy(Report),
    "tool, errors raised": ToolStrategy(Report, handle_errors=False),
    "provider": ProviderStrategy(Report),
}
each = pytest.mark.parametrize("strategy", STRATEGIES)


def report(strategy: str, text: str) -> object:
    """Give a report in the form of a strategy."""
    if strategy == "provider":
        return AIMessage(Report(text=text).model_dump_json())
    return ToolCall(name="Report", args={"text": text})


def misfit(strategy: str) -> object:
    """Give an answer that does not fit the schema."""
    return AIMessage('{"nothing": 1}') if strategy == "provider" else ToolCall(name="Report", args={"nothing": 1})


def agent_of(script: list[object], refining: SelfRefineMiddleware, strategy: str, tools: Any = (lookup,)) -> Any:
    """Make an agent with structured answers."""
    return create_agent(ScriptedModel(script), tools, middleware=[refining], response_format=STRATEGIES[strategy])


@each
@both
def test_a_structured_answer_is_judged_and_asked_for_again(ask: Callable[..., Any], strategy: str) -> None:
    """The judge reads JSON, a tool may run meanwhile, and what is released is the last object."""
    script = [calling(1), report(strategy, "-300 °C"), calling(2), report(strategy, "15 °C")]
    judge = ScriptedJudge([1, 4])
    refining = SelfRefineMiddleware(judge)
    result = ask(agent_of(script, refining, strategy))
    assert result["structured_response"] == Report(text="15 °C")
    assert ["-300 °C" in (sample.response or "") for sample in judge.samples] == [True, False]
    assert judge.samples[0].response.replace(" ", "") == '{"text":"-300°C"}'  # type: ignore[union-attr]
    assert "-300 °C" not in repr(result)
    assert refining.outcome(result).stop_reason == "accepted"


@each
def test_the_object_is_that_of_the_released_attempt(strategy: str) -> None:
    """Where the first of two was the better one, its object is returned."""
    script = [report(strategy, "first"), report(strategy, "second")]
    refining = SelfRefineMiddleware(ScriptedJudge([2, 1]), max_attempts=2)
    result = agent_of(script, refining, strategy).invoke(QUESTION)
    assert result["structured_response"] == Report(text="first")
    assert "second" not in repr(result)


@each
@pytest.mark.parametrize("tools", [(), (lookup,)])
@both
def test_an_answer_that_does_not_fit_is_a_rejected_draft(
    ask: Callable[..., Any], tools: Any, strategy: str
) -> None:
    """No judge is asked about it, the model is told what is wrong, and it is never released."""
    refining = SelfRefineMiddleware(judge := ScriptedJudge([1]), max_attempts=2)
    agent = agent_of([misfit(strategy), report(strategy, "fits")], refining, strategy, tools)
    result = ask(agent)
    assert result["structured_response"] == Report(text="fits")
    assert len(judge.samples) == 1
    assert "nothing" not in repr(result["messages"])
    first = refining.outcome(result).attempts[0]
    assert first.rating == 1
    assert "Failed to parse structured output" in first.feedback
    refining = SelfRefineMiddleware(ScriptedJudge([1]), max_attempts=2)
    result = ask(agent_of([report(strategy, "fits"), misfit(strategy)], refining, strategy, tools))
    assert result["structured_response"] == Report(text="fits")
    with pytest.raises(Unanswered) as caught:
        ask(
            agent_of(
                [misfit(strategy)] * 2, SelfRefineMiddleware(ScriptedJudge([]), max_attempts=2), strategy, tools
            )
        )
    assert len(caught.value.outcome.attempts) == 2


def test_plain_text_instead_of_an_object_is_rejected() -> None:
    """An agent that wants an object would otherwise end without one, or ask for ever."""
    for tools in ((), (lookup,)):
        refining = SelfRefineMiddleware(ScriptedJudge([4]))
        result = agent_of(["just text", report("tool", "fits")], refining, "tool", tools).invoke(QUESTION)
        assert result["structured_response"] == Report(text="fits")
        assert "just text" not in repr(result)


@pytest.mark.parametrize("settings", [{"shadow": True}, {"sample_rate": 0}])
def test_where_nothing_is_decided_nothing_changes(settings: Any) -> None:
    """What does not fit is what it would be without the middleware: an error, or asked for again by the agent."""
    refining = SelfRefineMiddleware(ScriptedJudge([1], cycle=True), **settings)
    with pytest.raises(StructuredOutputValidationError):
        agent_of([misfit("provider")], refining, "provider").invoke(QUESTION)
    result = agent_of([misfit("tool"), report("tool", "fits")], refining, "tool").invoke(QUESTION)
    assert result["structured_response"] == Report(text="fits")
    assert len(result["messages"]) == 5


def test_a_fallback_text_is_refused() -> None:
    """A text is no object, so the setting is refused before anything is asked."""
    model = ScriptedModel([])
    refining = SelfRefineMiddleware(ScriptedJudge([]), on_exhausted="fallback", fallback="sorry")
    with pytest.raises(ConfigurationError, match="response_format"):
        create_agent(model, middleware=[refining], response_format=ToolStrategy(Report)).invoke(QUESTION)
    assert model.prompts == []


@each
def test_a_refusal_is_not_pressed(strategy: str) -> None:
    """A model that declines instead of giving an object is not asked again, and nothing is released."""
    refusal = AIMessage("I cannot do that.", additional_kwargs={"refusal": "I cannot do that."})
    model = ScriptedModel([refusal, report(strategy, "x")])
    refining = SelfRefineMiddleware(ScriptedJudge([]))
    agent = create_agent(model, middleware=[refining], response_format=STRATEGIES[strategy])
    with pytest.raises(Unanswered, match="refusal"):
        agent.invoke(QUESTION)
    assert len(model.prompts) == 1
