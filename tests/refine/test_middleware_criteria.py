"""Criteria and evidence that one call of an agent brings in its runtime context, within bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from graphs import Bounds, InputError, Overrides, self_refine
from judges import BadSample, Judge, Length, Sample, ToolCall, Verdict
from judges.authoring import Deliberation, Entry
from judges.catalogue.general.rubric import Rubric
from judges.testing import ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware
from tests.refine.agent_models import QUESTION, THREAD, both

EXPECTED = "Fifteen degrees Celsius, measured at noon by the station in the park."
RULES = Bounds(max_criteria_chars=40)


class Grade(BaseModel):
    """A grade."""

    rationale: str
    rating: int


@tool
def weigh(text: str) -> str:
    """Weigh a text."""
    return str(len(text))


@both
def test_free_text_criteria_reach_a_rubric(ask: Callable[..., Any]) -> None:
    """As `criteria` or `guidelines`, for that call alone, and no further than the bounds allow."""
    reply = {"rationale": "r", "rating": 4, "feedback": ""}
    levels = {1: "not at all", 2: "hardly", 3: "mostly", 4: "in all"}
    grader = ScriptedModel([reply], cycle=True)
    judge = Rubric(grader, criteria="Does it answer the question?", levels=levels, own_guidelines=True)
    agent = create_agent(ScriptedModel(["x"], cycle=True), middleware=[SelfRefineMiddleware(judge, bounds=RULES)])
    contexts: list[Any] = [{"criteria": "Name the unit."}, Overrides(guidelines=["Name the unit."]), None]
    for context in contexts:
        ask(agent, context=context)
    assert ["Name the unit." in prompt[-1].text for prompt in grader.prompts] == [True, True, False]
    with pytest.raises(InputError, match=r"at most 40 characters of guidelines \(given 41 characters\)"):
        ask(agent, context={"criteria": "x" * 41})
    with pytest.raises(InputError, match="criteria is another name of guidelines"):
        ask(agent, context={"criteria": "x", "guidelines": "y"})
    unread = SelfRefineMiddleware(Rubric(grader, criteria="c", levels=levels), bounds=RULES)
    with pytest.raises(InputError, match=r"Rubric\(..., own_guidelines=True\)"):
        ask(create_agent(ScriptedModel(["x"]), middleware=[unread]), context={"criteria": "x"})


def test_every_kind_of_judge_may_read_them() -> None:
    """A grader that is an agent with tools, a function with an optional parameter, and one of a whole sample."""
    seen: list[Any] = []

    def optional(response: str, guidelines: Any = None) -> int:
        seen.append(guidelines)
        return len(response)

    def whole(sample: Sample) -> int:
        seen.append(sample.guidelines)
        return 4

    script = [
        ToolCall(name="weigh", args={"text": "x"}, id="1"),
        ToolCall(name="Grade", args={"rationale": "r", "rating": 4}, id="2"),
    ]
    model = ScriptedModel(script)
    grader = create_agent(model, [weigh], response_format=ToolStrategy(Grade))
    for judge in (optional, whole, grader):
        agent = create_agent(ScriptedModel(["four"]), middleware=[SelfRefineMiddleware(judge, bounds=RULES)])
        agent.invoke(QUESTION, context=Overrides(criteria="Be brief."))
    assert [tuple(rules) for rules in seen] == [("Be brief.",)] * 2
    assert "Be brief." in str(model.prompts[0][-1].text)


class Strict(Judge):
    """A judge of its own class that may read guidelines."""

    name = "strict"
    entry = Entry(name="strict", asks="Is it kind?", needs=("response",), reads=("guidelines",))

    def deliberate(self, sample: Sample) -> Deliberation:
        """Rate by whether there are guidelines."""
        yield ()
        return Verdict.rated(4 if sample.guidelines else 1)


def test_a_judge_of_its_own_class_says_what_it_reads() -> None:
    """Alone and in a panel; one whose entry does not say so is refused."""
    judges: list[Any] = [Strict(), [Strict(), lambda response: 4]]
    for judge in judges:
        agent = create_agent(ScriptedModel(["x"]), middleware=[SelfRefineMiddleware(judge, bounds=RULES)])
        answer = agent.invoke(QUESTION, context=Overrides(criteria="Be brief."))["messages"][-1]
        assert answer.response_metadata["refine"]["passed"]
    agent = create_agent(ScriptedModel(["x"]), middleware=[SelfRefineMiddleware(Length(at_least=1), bounds=RULES)])
    with pytest.raises(InputError, match="reads no guidelines"):
        agent.invoke(QUESTION, context=Overrides(criteria="Be brief."))


@both
def test_evidence_is_for_the_judge_alone(ask: Callable[..., Any]) -> None:
    """The judge gets contexts and reference under any of their names, also where a tool ran; the model none."""
    seen: list[Sample] = []

    def rate(sample: Sample) -> tuple[int, str]:
        seen.append(sample)
        return (4, "") if sample.answer == "15 °C" else (1, f"Wrong. Expected: {EXPECTED}")

    script = ["cold", ToolCall(name="weigh", args={"text": "air"}, id="1"), "15 °C"]
    model = ScriptedModel(script)
    refining, saver = SelfRefineMiddleware(rate), InMemorySaver()
    agent = create_agent(model, [weigh], middleware=[refining], checkpointer=saver)
    context = {"evidence": {"ground_truth": EXPECTED, "contexts": ["The station says 15."]}}
    result = ask(agent, QUESTION, THREAD, context=context)
    assert [(sample.reference, list(sample.retrieved_contexts or ())) for sample in seen] == [
        (EXPECTED, ["The station says 15."])
    ] * 2
    assert EXPECTED not in str(model.prompts)
    assert EXPECTED not in repr(result)
    assert EXPECTED.encode() not in repr((saver.storage, saver.writes, saver.blobs)).encode()
    assert refining.outcome(result).evidence["reference"] == EXPECTED


def test_evidence_by_the_other_doors() -> None:
    """A refiner and its graph take it, too; what cannot be read, or belongs elsewhere, is an error at once."""
    seen: list[str | None] = []

    def rate(sample: Sample) -> int:
        seen.append(sample.reference)
        return 4

    model = ScriptedModel(["x"], cycle=True)
    context = {"evidence": {"reference": EXPECTED}}
    SelfRefine(model, rate).invoke("what?", evidence={"reference": "another"}, context=context)
    saver = InMemorySaver()
    graph: Any = self_refine(model, rate, checkpointer=saver)
    state = graph.invoke(QUESTION, THREAD, context=context)
    assert seen == [EXPECTED, EXPECTED]
    assert EXPECTED not in repr(state)
    assert EXPECTED not in repr(model.prompts)
    count = len(model.prompts)
    wrong: list[tuple[Any, type[Exception], str]] = [
        ({"refrence": "x"}, BadSample, "did you mean reference"),
        ({"guidelines": "Be kind."}, InputError, "holds no guidelines: .* given beside it"),
        ("a text", InputError, "evidence"),
        ({"question": "another?"}, InputError, "holds no question: question and answer are there"),
    ]
    for evidence, error, message in wrong:
        agent: Any = create_agent(model, middleware=[SelfRefineMiddleware(rate, bounds=RULES)])
        for call in (graph.invoke, agent.invoke):
            with pytest.raises(error, match=message):
                call(QUESTION, THREAD, context={"evidence": evidence})
    bounds = {0: "no evidence", 5: "at most 5 characters of evidence", None: ""}
    for limit, message in bounds.items():
        refiner = SelfRefine(model, rate, bounds=Bounds(max_evidence_chars=limit))
        if message:
            with pytest.raises(InputError, match=rf"a request may bring {message} \(given 6 characters\)"):
                refiner.invoke("what?", context={"evidence": {"reference": "Celsia"}})
    assert len(model.prompts) == count


def test_evidence_holds_over_a_review_and_may_be_given_anew() -> None:
    """A turn that waited goes on with it, in another process too, or with what comes with the resume."""
    seen: list[Sample] = []

    def rate(sample: Sample) -> int:
        seen.append(sample)
        return 2

    saver = InMemorySaver()
    model = ScriptedModel(
        ["x", "y", "y"]
    )  # the same draft is judged again, since it is held against something else

    def graph() -> Any:
        policy = {"max_attempts": 1, "on_exhausted": "interrupt", "max_revisions": 2}
        return self_refine(model, rate, policy=policy, checkpointer=saver)

    graph().invoke(QUESTION, THREAD, context={"evidence": {"reference": "a", "contexts": ["b"]}})
    graph().invoke(Command(resume={"feedback": "again"}), THREAD)
    graph().invoke(Command(resume={"feedback": "again"}), THREAD, context={"evidence": {"reference": "c"}})
    assert [(sample.reference, list(sample.retrieved_contexts or ())) for sample in seen] == [
        ("a", ["b"]),
        ("a", ["b"]),
        ("c", ["b"]),
    ]
