"""JSON by field: exact by default, a judge by path, lists in order or by the best pairing."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from judges import ConfigurationError, Verdict, as_judge, load
from judges.prompting.prompts import language_of
from judges.testing import ScriptedModel
from tests.kit import asked
from tests.laws import for_every


def judged(expected: Any, actual: Any, **settings: Any) -> Verdict:
    """Compare two values."""
    row = {"user_input": "Extract it.", "response": json.dumps(actual), "reference": json.dumps(expected)}
    return load("json_match", **settings)(row)


def states(verdict: Verdict) -> dict[str, object]:
    """Give what became of each field that is not as it should be."""
    return {item.subject: item.value for item in verdict.items if not item.passed}


@for_every(
    "expected, actual, score, faults",
    [
        ({"a": 1, "b": "x"}, {"b": "x", "a": 1.0}, 1.0, {}),
        ({"a": 1, "b": 2}, {"a": 1, "b": "2"}, 0.5, {"b": "different"}),
        ({"a": 1, "b": 2}, {"a": 1}, 0.5, {"b": "missing"}),
        ({"a": 1}, {"a": 1, "b": 2}, 0.5, {"b": "extra"}),
        ({"a": {"b": 1, "c": 2}, "d": None}, {"a": {"b": 1, "c": 3}, "d": None}, 2 / 3, {"a.c": "different"}),
        ({"a": True}, {"a": 1}, 0.0, {"a": "different"}),
        ([1, 2], [2, 1], 0.0, {"[0]": "different", "[1]": "different"}),
        ([1, 2], [1], 0.5, {"[1]": "missing"}),
        ({"a": [{"n": 1}, {"n": 2}]}, {"a": [{"n": 1}, {"n": 3}]}, 0.5, {"a[1].n": "different"}),
        ({"a": []}, {"a": {}}, 0.0, {"a": "different"}),
        ({}, {}, 1.0, {}),
        ([], [], 1.0, {}),
        ("x", "x", 1.0, {}),
        (1, 2, 0.0, {"$": "different"}),
    ],
)
def test_fields_are_compared_exactly(expected: Any, actual: Any, score: float, faults: dict[str, str]) -> None:
    """Each value counts the same, wherever it stands; it passes only if all agree."""
    verdict = judged(expected, actual)
    assert (verdict.score, verdict.passed, states(verdict)) == (score, score == 1, faults)
    assert bool(verdict.feedback) is bool(faults)
    assert verdict.usage.calls == 0


A, B, C = ({"name": name, "year": year} for name, year in (("Ann", 1), ("Bob", 2), ("Cid", 3)))


@for_every(
    "lists, expected, actual, score",
    [
        ("same_elements", [A, B], [B, A], 1.0),
        ("same_elements", [A, B], [B, A, C], 4 / 5),
        ("same_elements", [A, B, C], [B, A], 4 / 5),
        ("same_elements", [A, B], [{"name": "Bob", "year": 9}, A], 0.75),
        ("superset", [A, B], [C, B, A], 1.0),
        ("superset", [A, B], [B], 2 / 3),
        ("subset", [A, B, C], [C, A], 1.0),
        ("subset", [A], [A, B], 2 / 3),
        ("ordered", [A, B], [B, A], 0.0),
        ("same_elements", [1, 1, 2], [2, 1, 1], 1.0),
        ("same_elements", [1, 1], [1, 2], 0.5),
        ("same_elements", {"a": [[1, 2], [3]]}, {"a": [[3], [2, 1]]}, 1.0),
        (
            "same_elements",
            [{"t": [1, 2], "n": 1}, {"t": [3, 4], "n": 2}],
            [{"t": [4, 3], "n": 2}, {"t": [2], "n": 1}],
            5 / 6,
        ),
    ],
)
def test_lists_are_matched_in_order_or_by_the_best_pairing(
    lists: str, expected: Any, actual: Any, score: float
) -> None:
    """An element without a partner counts as one field, unless this way of matching allows it."""
    assert judged(expected, actual, lists=lists).score == pytest.approx(score)


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


def test_fields_may_be_ignored() -> None:
    """By their paths, or all that are not expected."""
    expected, actual = {"a": 1, "t": 2, "i": [{"x": 1, "y": 2}]}, {"a": 1, "t": 3, "i": [{"x": 1, "y": 3}], "z": 0}
    assert judged(expected, actual, ignore=["t", "i[].y"], allow_extra=True).score == 1
    assert states(judged(expected, actual, ignore=["t"])) == {"i[0].y": "different", "z": "extra"}


def test_the_feedback_names_fields_and_keeps_what_is_expected() -> None:
    """Unless it may be told; in the language of the question."""
    expected, actual = {"a": "Paris", "b": 1}, {"a": "Rome", "c": 2}
    verdict = judged(expected, actual)
    assert verdict.feedback.splitlines()[1::2] == ["- b", "- a", "- c"]
    assert "Paris" in verdict.rationale
    assert "Paris" in judged(expected, actual, reveal_reference=True).feedback
    for language, question in {"zh": "请提取城市。", "ru": "Извлеки город."}.items():
        row = {"user_input": question, "reference": json.dumps(expected)}
        for response in (json.dumps(actual), "no JSON"):
            feedback = load("json_match")({**row, "response": response}).feedback
            assert language_of(feedback.splitlines()[0]) == language


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


@for_every(
    "settings, message",
    [
        ({"fields": ["a"]}, "fields maps paths"),
        ({"fields": {"a": 3}}, "cannot make a judge"),
        ({"fields": {" ": near}}, "a path is a text"),
        ({"lists": "best"}, "lists is 'ordered'"),
        ({"ignore": "a"}, "ignore is a list"),
        ({"allow_extra": 1}, "allow_extra is"),
        ({"reveal_reference": "no"}, "reveal_reference is"),
    ],
)
def test_faulty_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """At construction, in one line."""
    with pytest.raises(ConfigurationError, match=message):
        load("json_match", **settings)


def test_an_answer_may_stand_in_a_code_fence() -> None:
    """As chat models write JSON; the judge `json` says whether that is allowed."""
    fenced = '```json\n{"a": 1}\n```'
    assert load("json_match")(answer=fenced, reference='{"a": 1}').score == 1
    assert load("json_match")(answer=f"Here: {fenced}", reference='{"a": 1}').score == 0
