"""Groundedness on tool results as well as contexts: faithfulness, groundedness, hallucination."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from judges import ConfigurationError, Panel, load
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.kit import Shown, asked, items, replying
from tests.laws import for_every

JUDGES = ("ragas.faithfulness", "databricks.groundedness", "hallucination")
CALL = {"name": "weather", "args": {"city": "Porto"}, "id": "1"}
STEPS: list[dict[str, Any]] = [
    {"role": "assistant", "tool_calls": [CALL]},
    {"role": "tool", "content": "9 degrees", "tool_call_id": "1"},
]
RESULT = {"tool": "weather", "called_with": {"city": "Porto"}, "returned": "9 degrees"}
ROW = {"user_input": "How warm is it in Porto?", "response": "It is 9 degrees in Porto."}


def finding(*verdicts: str) -> ScriptedModel:
    """Make a model that finds a claim for each verdict."""
    claims = [f"claim {n}" for n, _ in enumerate(verdicts, 1)]

    def reply(data: Shown) -> dict[str, Any]:
        return {"claims": claims} if "text" in data else items(*verdicts)

    return replying(reply)


def premises(name: str, fields: dict[str, Any], **settings: Any) -> Any:
    """Give the contexts that the model was shown, or why there is no verdict."""
    model = finding("supported")
    verdict = load(name, model=model, **settings)({**ROW, **fields})
    return verdict.unscored or asked(model)[-1]["contexts"]


@for_every("name", JUDGES)
def test_tool_results_are_evidence(name: str) -> None:
    """Beside the contexts, or in place of them; with the call, and once; the same text is not shown twice."""
    again = [*STEPS, {"role": "user", "content": "And now?"}]
    orphans = [{"role": "tool", "name": "clock", "content": "noon"}, {"role": "tool", "content": "1 May"}]
    for fields, expected in (
        ({"retrieved_contexts": ["Porto is a city."]}, ["Porto is a city."]),
        ({"retrieved_contexts": ["Porto is a city."], "trajectory": STEPS}, ["Porto is a city.", RESULT]),
        ({"trajectory": STEPS}, [RESULT]),
        ({"trajectory": [*STEPS, *STEPS]}, [RESULT]),
        ({"retrieved_contexts": ["9 degrees"], "trajectory": STEPS}, ["9 degrees"]),
        ({"trajectory": orphans}, [{"tool": "clock", "returned": "noon"}, {"returned": "1 May"}]),
        ({"user_input": [{"role": "user", "content": "Warm?"}, *again]}, [RESULT]),
        ({"trajectory": [STEPS[0], {"role": "tool", "content": " "}]}, "no_contexts"),
        ({}, "no_contexts"),
    ):
        assert premises(name, fields) == expected
    assert premises(name, {"trajectory": STEPS}, tool_results=False) == "no_contexts"
    assert premises(name, {"trajectory": STEPS, "retrieved_contexts": ["a"]}, tool_results=False) == ["a"]


def test_without_tool_results_the_contexts_are_shown_as_ever() -> None:
    """Blank ones too, by the judges that show them, whatever the setting says."""
    for name, expected in zip(JUDGES, (["", "a"], ["a"], ["", "a"]), strict=True):
        for settings in ({}, {"tool_results": True}, {"tool_results": False}):
            assert premises(name, {"retrieved_contexts": ["", "a"]}, **settings) == expected


@for_every("name", JUDGES)
def test_compat_reads_contexts_alone(name: str) -> None:
    """As the sources do; to ask for both is refused, like any other setting that is none."""
    row = {**ROW, "trajectory": STEPS}
    verdict = load(name, model=finding("supported"), variant="compat")(row)
    assert (verdict.unscored, verdict.usage.calls) == ("no_contexts", 0)
    with pytest.raises(ConfigurationError, match="leave tool_results out"):
        load(name, model=finding(), variant="compat", tool_results=True)
    with pytest.raises(ConfigurationError, match="tool_results is"):
        load(name, model=finding(), tool_results="yes")


def test_calls_made_at_once_keep_their_results() -> None:
    """By their ids, or else in their order."""
    calls = [{"name": name, "args": {}, "id": name} for name in "ab"]
    results = [{"role": "tool", "content": f"of {name}", "tool_call_id": name} for name in "ba"]
    steps = [{"role": "assistant", "tool_calls": calls}, *results]
    assert [one["tool"] for one in premises("faithfulness", {"trajectory": steps})] == ["b", "a"]
    plain = [{"role": "assistant", "tool_calls": [{"name": name, "args": {}} for name in "ab"]}]
    steps = [*plain, *({"role": "tool", "content": text} for text in "xy")]
    shown = premises("faithfulness", {"trajectory": steps})
    assert [(one["tool"], one["returned"]) for one in shown] == [("a", "x"), ("b", "y")]


@for_every(
    "verdicts, value, passed",
    [
        (["supported"], 0.0, True),
        (["supported", "absent"], 0.5, False),
        (["contradicted", "absent"], 1.0, False),
    ],
)
def test_hallucination_is_low_when_things_are_good(verdicts: list[str], value: float, passed: bool) -> None:  # noqa: FBT001
    """The share of claims that nothing supports; it passes when there is none."""
    judge = load("HallucinationMetric", model=finding(*verdicts))
    verdict = judge({**ROW, "trajectory": STEPS})
    assert (verdict.value, verdict.score, verdict.passed) == (value, 1 - value, passed)
    assert bool(verdict.feedback) is not passed
    assert judge.explain().better == "low"


def test_a_panel_asks_once_for_faithfulness_and_hallucination() -> None:
    """They share both questions."""
    model = finding("supported", "absent")
    judges = {name: load(name, model=model) for name in ("faithfulness", "hallucination")}
    verdict = Panel(judges)({**ROW, "trajectory": STEPS})
    assert verdict.usage.calls == len(model.prompts) == 2
    assert [item.score for item in verdict.items] == [0.5, 0.5]


def test_in_the_loop_the_results_of_an_agent_count() -> None:
    """Whatever its tools returned on the way to the answer, with no contexts at all."""

    def agent(state: Any) -> dict[str, Any]:
        del state
        call = AIMessage(content="", tool_calls=[{"name": "weather", "args": {"city": "Porto"}, "id": "1"}])
        result = ToolMessage(content="9 degrees", tool_call_id="1", name="weather")
        return {"messages": [call, result, AIMessage(content="It is 9 degrees in Porto.")]}

    model = finding("supported")
    outcome = SelfRefine(agent, load("hallucination", model=model), max_attempts=1).refine("How warm is Porto?")
    assert outcome.stop_reason == "accepted"
    assert asked(model)[-1]["contexts"] == [RESULT]
