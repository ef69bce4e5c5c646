"""The middleware among LangChain's own: what each place in the list means, row by row as docs/agents.md has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    LLMToolSelectorMiddleware,
    ModelCallLimitMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    dynamic_prompt,
)
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from graphs import GeneratorFailed, NotAccepted
from judges import Sample, Verdict
from judges.testing import ScriptedJudge, ScriptedModel
from refine.middleware import SelfRefineMiddleware
from tests.refine.agent_models import QUESTION, THREAD, both, calling, lookup

ERROR = "secret-host:5432"
NO_WAIT: dict[str, Any] = {"max_retries": 1, "initial_delay": 0.0, "jitter": False}


def texts(result: dict[str, Any]) -> list[str]:
    """Give the texts of a result's messages."""
    return [str(message.text) for message in result["messages"]]


def failing(*lines: object) -> ScriptedModel:
    """Make a model that answers as asked, and then fails for ever."""
    script = iter(lines)
    return ScriptedModel(lambda _: next(script, None) or RuntimeError(ERROR))


@both
def test_retries_inside(ask: Callable[..., Any]) -> None:
    """Each attempt is repeated where the model fails; by default, too, no error's text is judged or released."""
    model, judge = (
        ScriptedModel([RuntimeError(ERROR), "wrong", RuntimeError(ERROR), "right"]),
        ScriptedJudge([1, 4]),
    )
    retry = ModelRetryMiddleware(**NO_WAIT, on_failure="error")
    agent = create_agent(model, middleware=[SelfRefineMiddleware(judge), retry])
    assert texts(ask(agent)) == ["what is it?", "right"]
    for on_failure in ("error", "continue"):
        retry = ModelRetryMiddleware(**NO_WAIT, on_failure=on_failure)
        judge = ScriptedJudge([2])
        refining = SelfRefineMiddleware(judge)
        with pytest.raises(GeneratorFailed) as caught:
            ask(create_agent(failing(), middleware=[refining, retry]))
        assert ERROR not in str(caught.value)
        result = ask(create_agent(failing("first"), middleware=[refining, retry]))
        assert texts(result) == ["what is it?", "first"]
        assert ERROR not in repr((result, judge.samples, refining.outcome(result)))


def test_retries_outside() -> None:
    """They see only what fails on the first attempt, and repeat a turn that was not accepted."""
    retry = ModelRetryMiddleware(**NO_WAIT, on_failure="error")
    agent = create_agent(
        ScriptedModel([RuntimeError("x"), "right"]), middleware=[retry, SelfRefineMiddleware(ScriptedJudge([4]))]
    )
    assert texts(agent.invoke(QUESTION))[-1] == "right"
    model = ScriptedModel(["one"], cycle=True)
    strict = SelfRefineMiddleware(ScriptedJudge([1], cycle=True), max_attempts=2, on_exhausted="raise")
    with pytest.raises(NotAccepted):
        create_agent(model, middleware=[retry, strict]).invoke(QUESTION)
    assert len(model.prompts) == 4


@both
def test_fallback_inside_and_outside(ask: Callable[..., Any]) -> None:
    """Inside each attempt falls over to another model; outside the other model answers where quality fails."""
    first, second = failing("wrong"), ScriptedModel(["right"])
    refining = SelfRefineMiddleware(ScriptedJudge([1, 4]))
    result = ask(create_agent(first, middleware=[refining, ModelFallbackMiddleware(second)]))
    assert texts(result)[-1] == "right"
    assert len(refining.outcome(result).attempts) == 2
    first, second = ScriptedModel(["wrong", "worse"]), ScriptedModel(["right"])
    refining = SelfRefineMiddleware(ScriptedJudge([1, 1, 4]), max_attempts=2, on_exhausted="raise")
    result = ask(create_agent(first, middleware=[ModelFallbackMiddleware(second), refining]))
    assert texts(result)[-1] == "right"
    assert (len(first.prompts), len(refining.outcome(result).attempts)) == (2, 1)


@both
def test_a_limit_of_model_calls(ask: Callable[..., Any]) -> None:
    """It counts a turn's replies, not its attempts; its own message is not the model's, and is not judged."""
    model = ScriptedModel(["wrong", calling(1), "wrong", calling(2), "right"])
    refining = SelfRefineMiddleware(judge := ScriptedJudge([1, 1, 4]))
    limit = ModelCallLimitMiddleware(run_limit=2)
    agent = create_agent(model, [lookup], middleware=[refining, limit])
    result = ask(agent)
    assert (len(model.prompts), len(judge.samples)) == (4, 2)
    assert "limits exceeded" in texts(result)[-1]
    outcome = refining.outcome(result)
    assert (outcome.stop_reason, outcome.passed) == ("skipped", False)
    assert outcome.detail.startswith("middleware")


@pytest.mark.parametrize("inside", [True, False])
@both
def test_the_question_outlives_a_summary(ask: Callable[..., Any], inside: bool) -> None:  # noqa: FBT001 - a case
    """The judge sees the question and the tools' results as they were, also where a summary replaced them."""
    model = ScriptedModel([calling(1), calling(2), "wrong", calling(3), "right"])
    judge = ScriptedJudge([1, 4])
    summarizer = ScriptedModel(["SUMMARY"], cycle=True)
    summary = SummarizationMiddleware(summarizer, trigger=("messages", 3), keep=("messages", 1))
    refining = SelfRefineMiddleware(judge, augment="last_draft")
    agent = create_agent(model, [lookup], middleware=[refining, summary] if inside else [summary, refining])
    result = ask(agent)
    assert "SUMMARY" in texts(result)[0]
    assert {sample.question for sample in judge.samples} == {"what is it?"}
    assert [len(sample.trajectory) for sample in judge.samples] == [4, 6]
    assert len(refining.outcome(result).attempts) == 2
    continued = model.prompts[-1]
    places = [index for index, message in enumerate(continued) if message.text == "wrong"]
    assert places == [1]


@pytest.mark.parametrize("inside", [True, False])
def test_cleared_results_of_tools(inside: bool) -> None:  # noqa: FBT001 - a case
    """The model sees them cleared, the judge in full, on either side."""
    model = ScriptedModel([calling(1), calling(2), "right"])
    judge = ScriptedJudge([4])
    editing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=1)])
    refining = SelfRefineMiddleware(judge)
    create_agent(model, [lookup], middleware=[refining, editing] if inside else [editing, refining]).invoke(
        QUESTION
    )
    assert "[cleared]" in repr(model.prompts[-1])
    assert "[cleared]" not in repr(judge.samples)
    assert "about it 1" in repr(judge.samples)


@both
def test_personal_data(ask: Callable[..., Any]) -> None:
    """Of the question the judge sees what the agent's state has, of the answer what the model wrote."""
    judge = ScriptedJudge([4])
    redact = PIIMiddleware("email", apply_to_input=True, apply_to_output=True)
    refining = SelfRefineMiddleware(judge)
    agent = create_agent(ScriptedModel(["write to b@example.com"]), middleware=[redact, refining])
    result = ask(agent, {"messages": [HumanMessage("i am a@example.com")]})
    assert "example.com" not in repr(result)
    assert "a@example.com" not in repr(judge.samples)
    assert "b@example.com" in repr(judge.samples)
    assert refining.outcome(result).passed


@pytest.mark.parametrize("outside", [True, False])
@both
def test_a_human_in_the_loop(ask: Callable[..., Any], outside: bool) -> None:  # noqa: FBT001 - a case
    """Resuming after a tool call was approved repeats no model call."""
    model = ScriptedModel(["wrong", calling(1), "right"])
    human = HumanInTheLoopMiddleware(interrupt_on={"lookup": True})
    refining = SelfRefineMiddleware(ScriptedJudge([1, 4]))
    middleware: list[Any] = [human, refining] if outside else [refining, human]
    agent = create_agent(model, [lookup], middleware=middleware, checkpointer=InMemorySaver())
    assert "__interrupt__" in ask(agent, QUESTION, THREAD)
    result = ask(agent, Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert texts(result)[-1] == "right"
    assert len(model.prompts) == 3
    assert len(refining.outcome(result).attempts) == 2


@pytest.mark.parametrize("outside", [True, False])
def test_a_tool_selector_and_a_dynamic_prompt(outside: bool) -> None:  # noqa: FBT001 - a case
    """Outside they run once for a model call of the agent, inside once for every attempt."""
    runs = []

    @dynamic_prompt
    def system(_: Any) -> str:
        runs.append("prompt")
        return "Answer."

    selector = ScriptedModel([{"tools": ["lookup"]}], cycle=True)
    selecting = LLMToolSelectorMiddleware(model=selector)
    refining = SelfRefineMiddleware(ScriptedJudge([1, 1, 4]))
    others = [system, selecting]
    middleware: list[Any] = [*others, refining] if outside else [refining, *others]
    model = ScriptedModel(["one", "two", "three"])
    create_agent(model, [lookup], middleware=middleware).invoke(QUESTION)
    assert (len(runs), len(selector.prompts)) == ((1, 1) if outside else (3, 3))
    assert [prompt[0].text for prompt in model.prompts] == ["Answer."] * 3


def test_what_the_judge_is_shown_of_a_conversation() -> None:
    """The turns before, the question, and as the trajectory what happened since; nothing that the loop added."""

    def rate(sample: Sample) -> Verdict:
        return Verdict.rated(1 if sample.response == "wrong" else 4)

    judge = ScriptedJudge(rate)
    before = [HumanMessage("hi"), AIMessage("hello")]
    agent: Any = create_agent(ScriptedModel(["wrong", "right"]), middleware=[SelfRefineMiddleware(judge)])
    agent.invoke({"messages": [*before, HumanMessage("what is it?")]})
    assert [[message.content for message in sample.conversation] for sample in judge.samples] == [
        ["hi", "hello", "what is it?"]
    ] * 2
