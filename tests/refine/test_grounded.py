"""What goes out is supported by evidence: the presets fail closed, whatever fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from graphs import InputError, Unanswered, self_refine
from judges import ConfigurationError, Panel, Repeat, ToolCall, as_judge
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine, SelfRefineMiddleware
from tests.laws import for_every

ASKED: Any = {"messages": [("user", "How warm is it?")]}
CONTEXTS = {"retrieved_contexts": ["It is 15 degrees."]}


def finding(*verdicts: str) -> ScriptedModel:
    """Make a judge's model that finds the answers' one sentence supported, contradicted or absent, in turn."""
    found = [{"items": [{"number": 1, "reason": "r", "verdict": verdict}]} for verdict in verdicts]
    return ScriptedModel(found, cycle=True, name="critic")


def test_only_a_supported_answer_goes_out() -> None:
    """A contradicted or an absent claim is written anew; where none is supported there is an error."""
    writer = ScriptedModel(["It is 20 degrees.", "It is 15 degrees."], cycle=True)
    refiner = SelfRefine.grounded(writer, finding("contradicted", "supported"))
    outcome = refiner.refine("How warm?", evidence=CONTEXTS)
    assert (outcome.text, outcome.passed, len(outcome.attempts)) == ("It is 15 degrees.", True, 2)
    for verdict in ("contradicted", "absent"):
        with pytest.raises(Unanswered):
            SelfRefine.grounded(writer, finding(verdict)).refine("How warm?", evidence=CONTEXTS)


@pytest.mark.parametrize("critic", [finding("supported"), ScriptedModel([RuntimeError("down")] * 9)])
def test_no_evidence_and_no_verdict_let_nothing_out(critic: ScriptedModel) -> None:
    """The fallback is left, or an error; the evidence is missing in the one case, the judge in the other."""
    evidence = None if critic.model_name == "critic" else CONTEXTS
    writer = ScriptedModel(["It is 15 degrees."], cycle=True)
    with pytest.raises(Unanswered):
        SelfRefine.grounded(writer, critic).refine("How warm?", evidence=evidence)
    fallback = SelfRefine.grounded(writer, critic, fallback="I do not know.")
    assert fallback.refine("How warm?", evidence=evidence).text == "I do not know."


@pytest.mark.parametrize("looks_up", [True, False])
def test_an_agent_answers_by_what_its_tools_returned(looks_up: bool, caplog: Any) -> None:  # noqa: FBT001
    """A tool's result is evidence, of which no WARNING says that it is missing; without one nothing goes out."""

    def measure() -> str:
        """Measure."""
        return "15 degrees"

    calls = [ToolCall(name="measure", args={})] if looks_up else []
    refining = SelfRefineMiddleware.grounded(finding("supported"), fallback="I do not know.")
    agent = create_agent(ScriptedModel([*calls, "It is 15 degrees."]), [measure], middleware=[refining])
    answer = agent.invoke(ASKED)["messages"][-1].text
    assert answer == ("It is 15 degrees." if looks_up else "I do not know.")
    assert ["judge needs evidence" in line for line in caplog.messages].count(True) == (0 if looks_up else 1)


@for_every(
    "opening",
    [
        {"on_judge_error": "accept"},
        {"on_exhausted": "best"},
        {"shadow": True},
        {"sample_rate": 0.5},
        {"skip": len},
    ],
)
def test_no_setting_opens_the_gate(opening: dict[str, Any]) -> None:
    """What would let out an answer that nobody accepted is refused at construction, at both doors."""
    makers: list[Callable[..., object]] = [SelfRefine.grounded, SelfRefineMiddleware.grounded]
    for make in makers:
        with pytest.raises(ConfigurationError, match="grounded releases accepted answers alone"):
            make(finding(), **opening)


@for_every("success_rating", [1, 2, 3])
def test_a_panels_refusal_is_no_rating_for_a_lower_gate(success_rating: Any) -> None:
    """Neither one that lacks a member nor one by a member's own pass mark; what members rated is a rating."""
    down = as_judge(lambda response: 1 / 0, name="safety")
    mark = as_judge(lambda response: {"score": 0.9, "passed": False}, name="mark")
    helpful = ScriptedJudge([2], cycle=True, name="helpful")
    settings: Any = {"success_rating": success_rating, "max_attempts": 1}
    for members in ([helpful, ScriptedJudge([2], cycle=True), down], [helpful, mark]):
        assert not SelfRefine(lambda _: "a", Panel(members), **settings).refine("what?").passed
    both = Panel([helpful, ScriptedJudge([3], cycle=True)])
    assert SelfRefine(lambda _: "a", both, **settings).refine("what?").passed == (success_rating < 3)


def test_on_outcome_hears_of_every_question(caplog: Any) -> None:
    """Also of one without an answer; what it raises costs nobody an answer, and an outcome has its text."""
    heard: list[Any] = []
    judge = ScriptedJudge([2, 4])
    refiner = SelfRefine(lambda _: "a", judge, max_attempts=1, on_exhausted="raise", on_outcome=heard.append)
    with pytest.raises(Unanswered):
        refiner.invoke("what?")
    refiner.invoke("what?")
    assert [(one.text, one.passed) for one in heard] == [("", False), ("a", True)]
    raising = SelfRefine(lambda _: "a", ScriptedJudge([4]), on_outcome=lambda _: 1 / 0)
    assert raising.invoke("what?").text == "a"
    assert "on_outcome raised ZeroDivisionError" in caplog.text


@for_every("config", [None, {}, {"configurable": {}}, {"configurable": {"checkpoint_ns": ""}}])
async def test_a_checkpointer_without_a_thread_is_one_line(config: Any) -> None:
    """It says what to give, at either door, whatever else the config has."""
    settings: Any = {"checkpointer": InMemorySaver()}
    refiner = SelfRefine(lambda _: "a", ScriptedJudge([4]), **settings)
    graph = self_refine(lambda _: "a", ScriptedJudge([4]), **settings)
    for call in (lambda: refiner.invoke("what?", config), lambda: graph.invoke(ASKED, config)):
        with pytest.raises(InputError, match="under a thread, and this call names none"):
            call()
    with pytest.raises(InputError, match="'thread_id': 'any text'"):
        await refiner.ainvoke("what?", config)


def test_a_repeats_refusal_that_lacks_runs_is_no_rating_for_a_lower_gate() -> None:
    """Two of five runs failed, and with the one that says 1 they would have outvoted the two that say 2."""
    replies = iter([2, 2, 1, None, None])
    unsure = Repeat(as_judge(lambda response: next(replies), returns="rating"), 5)
    outcome = SelfRefine(lambda _: "a draft", unsure, success_rating=2, max_attempts=1).refine("what?")
    verdict = outcome.attempts[0].verdict
    assert verdict is not None
    assert (outcome.passed, verdict.passed, verdict.rating) == (False, False, 2)
