"""What follows a refusal in the library: masks, other attempts, no answer; by judge, and in an agent."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent

from graphs import NotAccepted, Policy
from graphs.policy import OnRefusal
from judges import ConfigurationError, Panel, Pattern, as_judge, load
from judges.testing import ScriptedModel
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware

PIN = Pattern(forbidden=r"\d{4}", name="pin")


def test_what_is_masked_is_named_and_never_repeated() -> None:
    """Personal data, secrets and patterns have masks by kind, and places; a panel has those of all that refuse."""
    answer = "Mail bob.miller@gmail.com, the pin is 4711."
    panel = Panel([PIN, load("pii_leakage", kinds=["email"])])
    verdict = panel(question="?", answer=answer)
    assert verdict.replacement == "Mail [EMAIL], the pin is [REMOVED]."
    assert {(one.kind, answer[one.start : one.end]) for one in verdict.masked} == {
        ("email", "bob.miller@gmail.com"),
        ("removed", "4711"),
    }
    strict = Panel([PIN, as_judge(lambda answer: (len(answer) < 9, "Be short."), name="short", returns="check")])
    assert strict(question="?", answer=answer).replacement is None


def test_a_mended_answer_costs_no_call_and_keeps_nothing_beside_its_text() -> None:
    """One call of the generator is made; the attempt is `mended`; its summary names what is masked."""
    refiner = SelfRefine(ScriptedModel(["The pin is 4711."]), PIN, on_refusal="mend", max_attempts=1)
    outcome = refiner.refine("?")
    assert (outcome.text, outcome.passed, outcome.usage.calls) == ("The pin is [REMOVED].", True, 1)
    assert [(one.kind, one.number) for one in outcome.attempts] == [("text", 1), ("mended", 2)]
    assert outcome.summary()["attempts"][1]["masked"] == ["removed"]
    assert "is 4711" not in str(outcome.summary())


def test_masks_that_break_json_are_not_made() -> None:
    """Where the answer is JSON and would be none with its masks, another answer is asked for."""
    model = ScriptedModel(['{"pin": 4711}', '{"pin": null}'])
    assert SelfRefine(model, PIN, on_refusal="mend").refine("?").text == '{"pin": null}'
    mended = SelfRefine(ScriptedModel(['{"pin": "4711"}']), PIN, on_refusal="mend").refine("?")
    assert mended.text == '{"pin": "[REMOVED]"}'


def test_each_judge_has_its_own_way() -> None:
    """A member that blocks goes before one that retries, and that before one that mends; a name must be one."""
    short = as_judge(lambda answer: (len(answer) < 30, "Be short."), name="short", returns="check")
    ways: dict[str, OnRefusal] = {"pin": "mend", "short": "block"}
    long = "A long answer that has a pin, 4711."
    with pytest.raises(NotAccepted) as blocked:
        SelfRefine(ScriptedModel([long]), [PIN, short], on_refusal=ways).refine("?")
    assert blocked.value.outcome.stop_reason == "blocked"
    retried = SelfRefine(ScriptedModel([long, "Short."]), [PIN, short], on_refusal={"pin": "mend"}).refine("?")
    assert [one.kind for one in retried.attempts] == ["text", "text"]
    with pytest.raises(ConfigurationError, match=r"pni.*there are panel, pin, short"):
        SelfRefine(ScriptedModel([long]), [PIN, short], on_refusal={"pni": "mend"})
    with pytest.raises(ConfigurationError, match="candidates"):
        Policy(on_refusal="mend", candidates=2)


def test_a_draft_that_was_to_be_mended_is_never_the_best() -> None:
    """Where no attempt passes, neither the draft nor its masked form is released as the best there is."""
    no_masks = Pattern(forbidden="REMOVED", name="no_masks")
    with pytest.raises(NotAccepted):
        SelfRefine(ScriptedModel(["4711"] * 3), [PIN, no_masks], on_refusal="mend").refine("?")
    assert SelfRefine(ScriptedModel(["4711"] * 3), PIN).refine("?").text == "4711"


def test_an_agent_gets_the_mended_answer() -> None:
    """The middleware returns the masked text as the agent's last message, after one call of its model."""
    middleware = SelfRefineMiddleware(PIN, on_refusal="mend")
    agent: Any = create_agent(ScriptedModel(["The pin is 4711."]), middleware=[middleware])
    result = agent.invoke({"messages": [("user", "?")]})
    assert result["messages"][-1].text == "The pin is [REMOVED]."
    assert "is 4711" not in str(result)
