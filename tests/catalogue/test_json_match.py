"""JSON by field: exact by default, a judge by path, lists in order or by the best pairing."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from judges import Verdict, as_judge, load
from judges.testing import ScriptedModel
from tests.kit import asked
from tests.laws import for_every


def judged(expected: Any, actual: Any, **settings: Any) -> Verdict:
    """Compare two values."""
    row = {"user_input": "Extract it.", "response": json.dumps(actual), "reference": json.dumps(expected)}
    return load("json_match", **settings)(row)


def near(answer: str, reference: str) -> float:
    """Compare two numbers."""
    return 1.0 if answer == reference else 0.5 if abs(float(answer) - float(reference)) < 2 else 0.0


async def test_a_field_may_have_a_judge_of_its_own() -> None:
    """With the field's value as the answer and the expected one as the reference; in lists for each element."""
    expected, actual = {"n": 5, "items": [{"t": 1}, {"t": 2}]}, {"n": 6, "items": [{"t": 2}, {"t": 9}]}
    row = {"response": json.dumps(actual), "reference": json.dumps(expected)}
    judge = load("json_match", fields={"$.n": near, "items[*].t": as_judge(near, name="near")})
    for verdict in (judge(row), await judge.acall(row)):
        assert [item.score for item in verdict.items] == [0.5, 0.5, 0.0]
        assert [item.subject for item in verdict.items] == ["n", "items[0].t", "items[1].t"]
        assert verdict.score == pytest.approx(1 / 3)
    assert "no field to judge at z" in load("json_match", fields={"z": near})(row).detail


async def test_the_calls_are_those_of_the_fields_judges() -> None:
    """As the explanation says; all fields are asked about, with their own values alone."""
    reply = {"rationale": "so", "verdict": True, "feedback": ""}
    model = ScriptedModel([reply] * 8)
    tone = load("databricks.custom", model=model, criteria="Is the answer kind?")
    judge = load("json_match", fields={"text": tone, "notes[]": tone})
    assert judge.explain().calls == "1 + 1; for each element of notes[]"
    assert [one.name for one in judge.models] == [one.name for one in tone.models] * 2
    value = {"text": "Thank you!", "notes": ["a", "b"]}
    row = {"user_input": "Hi?", "response": json.dumps(value), "reference": json.dumps(value)}
    for verdict in (judge(row), await judge.acall(row)):
        assert (verdict.score, verdict.usage.calls) == (1, 3)
    assert {str(one["answer"]) for one in asked(model)} == {"Thank you!", "a", "b"}


def test_a_field_that_cannot_be_judged_leaves_all_unscored() -> None:
    """With the reason of its judge, and its path."""
    silent = as_judge(lambda answer: Verdict.without_score("undefined", "no telling"), name="silent")
    verdict = judged({"a": 1}, {"a": 1}, fields={"a": silent})
    assert (verdict.unscored, verdict.detail) == ("undefined", "field 'a': no telling")


@for_every(
    "response, reference, unscored, score",
    [
        ("not JSON", '{"a": 1}', None, 0.0),
        ("NaN", '{"a": 1}', None, 0.0),
        ("[" * 100_000, "[]", None, 0.0),
        ('{"a": 1}', "not JSON", "invalid_sample", None),
        ('{"a": 1}', None, "no_reference", None),
        (" ", "{}", "no_response", None),
    ],
)
def test_what_is_no_json(response: str, reference: str | None, unscored: str | None, score: float | None) -> None:
    """In the answer it is wrong; in the reference nothing can be judged."""
    verdict = load("json_match")(response=response, reference=reference)
    assert (verdict.unscored, verdict.score) == (unscored, score)


def test_long_and_deep_values_are_compared_in_time() -> None:
    """Equal elements need no pairing; too many that differ are unscored at once."""
    began = time.process_time()
    many = [{"n": number} for number in range(3_000)]
    assert judged(many, many[::-1], lists="same_elements").score == 1
    assert (
        judged(many, [{"n": -number} for number in range(1, 3_000)], lists="same_elements").unscored == "undefined"
    )
    text = "[" * 700 + "]" * 700
    assert load("json_match")(response=text, reference=text).unscored in (None, "undefined")
    assert time.process_time() - began < 4
