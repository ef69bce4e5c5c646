"""A custom judge takes a criterion, a kind of reply and the columns to show."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import asked

ROW: dict[str, Any] = {
    "user_input": "Where is my parcel?",
    "response": "It arrives on Monday.",
    "reference": "It arrives on Tuesday.",
    "expected_facts": ["Tuesday"],
    "retrieved_contexts": ["Parcels arrive on Tuesdays."],
    "tone": "formal",
}


def said(verdict: object, feedback: str = "Change it.") -> dict[str, Any]:
    """Write a reply."""
    return {"rationale": "Because.", "verdict": verdict, "feedback": feedback}


@pytest.mark.parametrize(
    ("answer", "verdict", "score"),
    [
        (bool, True, 1.0),
        (bool, False, 0.0),
        ("bool", True, 1.0),
        (["rude", "neutral", "kind"], "neutral", 0.5),
        (("rude", "kind"), "rude", 0.0),
        ({"rude": 0, "plain": 0.7, "kind": 1}, "plain", 0.7),
        ((1, 5), 1, 0.0),
        ([1, 5], 4, 0.75),
        ((-1, 1), 0, 0.5),
        ((0, 100), 100, 1.0),
    ],
)
async def test_the_reply_is_of_the_kind_named(answer: object, verdict: object, score: float) -> None:
    """The value is on the judge's own scale; one call, sync and async."""
    judge = load("databricks.custom", criteria="Kind?", answer=answer, model=ScriptedModel([said(verdict)] * 2))
    for given in (judge(ROW), await judge.acall(ROW)):
        assert (given.value, given.score, given.passed) == (verdict, score, score >= 0.5)
        assert type(given.value) is type(verdict)
        assert (given.rationale, given.feedback) == ("Because.", "" if score == 1 else "Change it.")
        assert given.usage.calls == 1


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (bool, 1),
        (bool, "yes"),
        (("rude", "kind"), "Kind"),
        (("rude", "kind"), True),
        ((0, 1), True),
        ((1, 5), 6),
        ((1, 5), 3.0),
        ((1, 5), "3"),
    ],
)
def test_another_reply_is_no_reply(answer: object, verdict: object) -> None:
    """It is asked for once more, and then unscored."""
    judge = load("custom_judge", criteria="Kind?", answer=answer, model=ScriptedModel([said(verdict)], cycle=True))
    given = judge(ROW)
    assert (given.unscored, given.usage.calls) == ("invalid_output", 2)


def test_both_variants_give_the_same() -> None:
    """There is nothing to reproduce but the reply."""
    for variant in ("corrected", "compat"):
        judge = load("mlflow.make_judge", criteria="?", model=ScriptedModel([said("yes")] * 2), variant=variant)
        assert judge(ROW).unscored == "invalid_output"


def test_variables_name_columns_and_nothing_else() -> None:
    """What is judged stands in the data; the criterion names it."""
    model = ScriptedModel([said(verdict=True)])
    criteria = "Does {{ outputs }} answer $inputs in the tone {{tone}}? It costs $5, not {{ }} or $price."
    load("databricks.custom", criteria=criteria, model=model)({**ROW, "response": "{{ inputs }} $inputs"})
    assert asked(model) == [{"outputs": "{{ inputs }} $inputs", "inputs": ROW["user_input"], "tone": "formal"}]
    told = model.prompts[0][0].text
    assert "Does `outputs` answer `inputs` in the tone `tone`? It costs $5, not {{ }} or $price." in told


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ("inputs", ROW["user_input"]),
        ("question", ROW["user_input"]),
        ("response", ROW["response"]),
        ("reference", ROW["reference"]),
        ("contexts", ROW["retrieved_contexts"]),
        ("expected_facts", ["Tuesday"]),
        ("expectations", {"reference": ROW["reference"], "expected_facts": ["Tuesday"]}),
        (
            "conversation",
            [{"role": "user", "content": ROW["user_input"]}, {"role": "assistant", "content": ROW["response"]}],
        ),
        ("tone", "formal"),
    ],
)
def test_columns_are_read_by_any_of_their_names(column: str, shown: object) -> None:
    """Those of mlflow, of a sample's fields, and of its metadata."""
    model = ScriptedModel([said(verdict=True)])
    load("custom_judge", criteria="Good?", columns=[column], model=model)(ROW)
    assert asked(model) == [{column: shown}]


def test_the_trace_is_what_came_before_the_answer() -> None:
    """Tool calls and their results."""
    call = {"role": "assistant", "tool_calls": [{"name": "track", "args": {}, "id": "1"}]}
    result = {"role": "tool", "content": "Monday", "tool_call_id": "1"}
    model = ScriptedModel([said(verdict=True)])
    load("custom_judge", criteria="Is $trace sound?", model=model)({**ROW, "trajectory": [call, result]})
    assert [one["role"] for one in asked(model)[0]["trace"]] == ["assistant", "tool"]


def test_without_variables_all_there_is_is_shown() -> None:
    """Conversation, documents, reference and answer."""
    model = ScriptedModel([said(verdict=True)])
    load("custom_judge", criteria="Good?", model=model)(ROW)
    assert list(asked(model)[0]) == ["conversation", "documents", "reference", "answer"]


@pytest.mark.parametrize(
    ("criteria", "fields", "reason"),
    [
        ("Good?", {"response": ""}, "no_response"),
        ("Is $outputs good?", {"response": " "}, "no_response"),
        ("Is $inputs good?", {"user_input": ""}, "no_question"),
        ("Is {{ reference }} good?", {"reference": None}, "no_reference"),
        ("Is {{ contexts }} good?", {"retrieved_contexts": []}, "no_contexts"),
        ("Is {{ guidelines }} good?", {}, "no_guidelines"),
        ("Is {{ rubrics }} good?", {}, "no_rubrics"),
        ("Is $trace good?", {}, "undefined"),
        ("Is {{ mood }} good?", {}, "undefined"),
        ("Is $expectations good?", {"reference": None, "expected_facts": None}, "no_reference"),
    ],
)
def test_a_column_that_is_not_there_is_unscored(criteria: str, fields: dict[str, Any], reason: str) -> None:
    """The reason says what is missing, and nothing is asked."""
    verdict = load("custom_judge", criteria=criteria, model=ScriptedModel([]))({**ROW, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


def test_examples_are_shown_before_the_question() -> None:
    """Each as the model is shown a case, with its reply; feedback may be left out."""
    examples = [({"outputs": "Go away."}, {"rationale": "It is rude.", "verdict": "rude"})]
    model = ScriptedModel([said("kind")])
    load("custom_judge", criteria="How is $outputs?", answer=["rude", "kind"], examples=examples, model=model)(ROW)
    _, case, reply, _ = model.prompts[0]
    assert '"outputs": "Go away."' in case.text
    assert reply.text == '{"rationale":"It is rude.","verdict":"rude","feedback":""}'


def test_the_judge_tells_what_it_needs() -> None:
    """The columns, as fields of a sample."""
    judge = load("custom_judge", criteria="Is $outputs right for {{ tone }}?", model=ScriptedModel([]))
    assert judge.explain().needs == ("response", "tone")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"criteria": " "}, "criteria says in words"),
        ({"criteria": None}, "criteria says in words"),
        ({"answer": int}, "answer is bool, labels"),
        ({"answer": "kind"}, "answer is bool, labels"),
        ({"answer": []}, "answer is bool, labels"),
        ({"answer": {}}, "answer is bool, labels"),
        ({"answer": ["kind"]}, "answer is bool, labels"),
        ({"answer": ["kind", "kind"]}, "answer is bool, labels"),
        ({"answer": ["kind", ""]}, "answer is bool, labels"),
        ({"answer": (5, 1)}, "answer is bool, labels"),
        ({"answer": (1, 102)}, "at most 101 whole numbers"),
        ({"answer": (True, 5)}, "answer is bool, labels"),
        ({"answer": {"kind": 2}}, "labels to scores from 0 to 1"),
        ({"answer": {1: 0.5}}, "labels to scores from 0 to 1"),
        ({"columns": "inputs"}, "columns lists names"),
        ({"columns": []}, "columns lists names"),
        ({"columns": [1]}, "columns lists names"),
        ({"criteria": "Is $outputs good?", "columns": ["inputs"]}, "criteria speaks of 'outputs'"),
        ({"examples": [({"colour": 1, "response": 2}, {})]}, "an example"),
        ({"examples": [({"response": "a"}, {"rationale": "b", "verdict": "yes"})]}, "field 'verdict'"),
        ({"examples": [({}, said(verdict=True))]}, "nothing to judge"),
        ({"examples": [({"user_input": "a"}, said(verdict=True))]}, "there is no answer to judge"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], told: str) -> None:
    """The error says what is wanted."""
    with pytest.raises(ConfigurationError, match=told):
        load("custom_judge", model=ScriptedModel([]), **{"criteria": "Good?", **settings})
