"""Checks and functions: what they say without a model, what numbers mean, and which marks contradict."""

from __future__ import annotations

import functools
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.runnables import RunnableLambda

from judges import (
    ConfigurationError,
    JsonValid,
    Judge,
    Length,
    NumericRange,
    Pattern,
    Sample,
    Usage,
    Verdict,
    as_judge,
)

MINUS = "\N{MINUS SIGN}"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "celsius": {"type": "number", "minimum": -90}},
    "required": ["city"],
}


@pytest.mark.parametrize(
    ("check", "answer", "feedback"),
    [
        (Length(at_most=5), "12345", ""),
        (Length(at_most=5), "123456", "Write at most 5 characters; there are 6."),
        (Length(at_least=5), "12345", ""),
        (Length(at_least=5), "1234", "Write at least 5 characters; there are 4."),
        (Length(at_least=1), "", "Write at least 1 characters; there are 0."),
        (Length(at_most=3, unit="words"), " one  two\nthree ", ""),
        (Length(at_most=2, unit="words"), "one two three", "Write at most 2 words; there are 3."),
        (Length(at_most=2, unit="words"), "one - two", ""),
        (Length(at_most=5, unit="words"), "我有 2 只猫。", ""),
        (Length(at_most=4, unit="words"), "我有 2 只猫。", "Write at most 4 words; there are 5."),
        (Length(at_most=2), "你好", ""),
        (Length(at_most=0), "", ""),
        (Pattern(required=r"\d"), "15 C", ""),
        (Pattern(required=r"\d"), "warm", r"Use what matches '\\d'."),
        (Pattern(contains="| a |"), "warm", "Use the text '| a |'."),
        (Pattern(forbidden="sorry"), "Sorry.", ""),
        (Pattern(forbidden="sorry", ignore_case=True), "Sorry.", "Do not use the word 'sorry'."),
        (Pattern(required=["a", "b"], forbidden="c"), "ac", "Use the word 'b'. Do not use the word 'c'."),
        (Pattern(required=r"\bsalt\b"), "pepper", "Use the word 'salt'."),
        (Pattern(required=r"salt|sea salt\."), "pepper", "Use the text 'salt' or 'sea salt.'."),
        (Pattern(excludes="as an AI", ignore_case=True), "As an AI, no.", "Do not use the text 'as an AI'."),
        (Pattern(required="x"), "", "Use the word 'x'."),
        (JsonValid(), ' {"a": [1, null]}\n', ""),
        (JsonValid(), "3", ""),
        (JsonValid(), "", "Reply with one valid JSON value and nothing around it."),
        (
            JsonValid(),
            "```json\n{}\n```",
            "Reply with one valid JSON value and nothing around it; leave out the ``` fence.",
        ),
        (
            JsonValid(SCHEMA),
            "Paris",
            "Reply with one valid JSON value with the keys 'city', 'celsius' and nothing around it.",
        ),
        (Pattern(contains=["salt", "1.5"]), "pepper, 125", "Use the word 'salt'. Use the text '1.5'."),
        (Pattern(contains="salt", ignore_case=True), "Salt and pepper.", ""),
        (JsonValid(), "{} {}", "Reply with one valid JSON value and nothing around it."),
        (JsonValid(), "[NaN]", "Reply with one valid JSON value and nothing around it."),
        (JsonValid(), "[" * 100_000, "Reply with one valid JSON value and nothing around it."),
        (JsonValid(SCHEMA), '{"city": "Paris", "celsius": 15}', ""),
        (JsonValid(SCHEMA), "{}", "Add the key 'city'."),
        (
            JsonValid(SCHEMA),
            '{"city": 5, "celsius": -255}',
            "At $.celsius: -255 is less than the minimum of -90. At $.city: 5 is not of type 'string'.",
        ),
        (NumericRange(at_least=-90, at_most=60), "15 C", ""),
        (NumericRange(at_least=-90, at_most=60), "-255 C", "Check -255: a number from -90 to 60 is expected."),
        (NumericRange(at_least=1), "0.5", "Check 0.5: a number of at least 1 is expected."),
        (
            NumericRange(at_most=1_234_567),
            "9,999,999",
            "Check 9,999,999: a number of at most 1234567 is expected.",
        ),
        (NumericRange(at_most=1), "", "Give a number of at most 1."),
        (NumericRange(at_most=1), "none", "Give a number of at most 1."),
        (NumericRange(at_most=0), "2, 0", "Check 2: a number of at most 0 is expected."),
        (
            NumericRange(at_most=0),
            "7 8",
            " ".join(f"Check {n}: a number of at most 0 is expected." for n in (7, 8)),
        ),
        (NumericRange(at_most=1, which="first"), "1 then 5", ""),
        (NumericRange(at_most=1, which="last"), "5 then 1", ""),
        (NumericRange(at_most=1, which="last"), "1 then 5", "Check 5: a number of at most 1 is expected."),
    ],
)
def test_a_check_says_what_to_change(check: Judge, answer: str, feedback: str) -> None:
    """An answer that keeps the rule gets a 4; one that breaks it a 1 and an instruction to mend it."""
    verdict = check(answer=answer)
    assert (verdict.feedback, verdict.passed, verdict.rating) == (feedback, not feedback, 1 if feedback else 4)
    assert verdict.rationale == (feedback or "Every rule is kept.")
    assert verdict.usage == Usage()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("It is 15.", 15),
        ("-255 C", -255),
        (f"{MINUS}40 C", -40),
        ("+3", 3),
        ("1,234", 1234),
        ("1,234,567.5", 1234567.5),
        ("$5", 5),
        ("(7)", 7),
        ("50%", 50),
        ("3.25", 3.25),
        (".5", 0.5),
        ("-.5", -0.5),
        ("6.02e23", 6.02e23),
        ("1E-3", 0.001),
        (f"1e{MINUS}3", 0.001),
        ("5kg", 5),
        ("巴黎现在15度", 15),
        ("零下-5度", -5),
        ("Температура \N{EN DASH} 15", 15),
        ("\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT FIVE}", 15),
    ],
)
def test_a_number_is_read_as_people_write_it(text: str, number: float) -> None:
    """Signs, thousands, decimals, exponents and scripts without blanks are understood."""
    assert NumericRange(at_least=number, at_most=number)(answer=text).passed


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("10-20", [10, 20]),
        ("B12 and x2", []),
        ("v1.2.3", []),
        ("1,2345", [1, 2345]),
        ("1, 2", [1, 2]),
        ("Ду15", []),
    ],
)
def test_what_is_no_number_is_left_alone(text: str, numbers: list[float]) -> None:
    """A range is no negative number, a name with digits is none, and a list is not thousands."""
    feedback = NumericRange(at_most=-1)(answer=text).feedback
    assert feedback.count("Check ") == len(numbers)
    assert all(f"Check {number}:" in feedback for number in numbers)


@given(st.integers(-(10**15), 10**15), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_read_back(number: int, fraction: float) -> None:
    """Any number is found as Python writes it, a whole one also with commas between thousands."""
    check = NumericRange(at_least=number, at_most=number)
    assert check(answer=f"It is {number:,}.").passed
    assert check(answer=f"It is {number}.").passed
    assert NumericRange(at_least=fraction, at_most=fraction)(answer=f"{fraction!r} it is").passed


@given(st.text(), st.integers(0, 20), st.integers(0, 20))
def test_length_is_that_of_the_answer(answer: str, least: int, more: int) -> None:
    """Both bounds belong to what is allowed."""
    assert Length(at_least=least, at_most=least + more)(answer=answer).passed is (
        least <= len(answer) <= least + more
    )


@pytest.mark.parametrize(
    "check", [Length(at_most=99), Pattern(required="x"), JsonValid(), NumericRange(at_most=1)]
)
async def test_without_an_answer_there_is_no_verdict(check: Judge) -> None:
    """A missing answer is unscored, not wrong; an empty one is checked like any other."""
    verdicts = [check(question="Why?"), await check.acall(question="Why?")]
    assert [one.unscored for one in verdicts] == ["no_response", "no_response"]
    assert check(question="Why?", answer="").unscored is None


def test_at_most_five_faults_are_listed() -> None:
    """A reply that is wrong all over does not drown the next prompt."""
    check = JsonValid({"items": {"type": "string"}})
    assert check(answer="[1, 2, 3, 4, 5, 6, 7]").feedback.count("At $") == 5
    assert NumericRange(at_most=0)(answer="1 2 2 3 4 5 6 7").feedback.count("Check") == 5


def test_a_long_value_does_not_hide_what_is_wrong_with_it() -> None:
    """The loop tells a generator the beginning of a feedback alone."""
    feedback = JsonValid({"type": "object"})(answer=str(list(range(5000)))).feedback
    assert (feedback.startswith("At $: [0, 1, "), feedback.endswith("... is not of type 'object'.")) == (
        True,
        True,
    )
    assert len(feedback) < 150


def test_a_schema_with_a_reference_that_leads_nowhere_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not fetched either: a schema cut out of an OpenAPI file has many."""
    monkeypatch.setattr("urllib.request.urlopen", lambda *_: pytest.fail("a schema was fetched"))
    for reference in ("#/components/schemas/City", "http://127.0.0.1:9/city.json"):
        verdict = JsonValid({"$ref": reference})(answer="{}")
        assert verdict.unscored == "judge_failed"
        assert f"refers to {reference.removeprefix('#')!r}, which it does not hold" in verdict.detail


def test_a_check_has_a_name_of_its_own() -> None:
    """Checks are distinguished by name."""
    checks = [Length(at_most=9, name="short"), Length(at_most=9), JsonValid(), NumericRange(at_most=1)]
    assert [one(answer="1").judge for one in checks] == ["short", "length", "json", "numeric_range"]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Length, {"at_least": -1}, "at_least is a whole number from 0, not -1"),
        (Length, {"at_least": 5, "at_most": 4}, "not from 5 to 4"),
        (Length, {"unit": "lines"}, "unit is 'characters' or 'words', not 'lines'"),
        (Pattern, {}, "give at least one text or pattern"),
        (Pattern, {"required": "("}, "not a regular expression among"),
        (Pattern, {"forbidden": [5]}, "not a regular expression among"),
        (JsonValid, {"schema": {"type": "strange"}}, "not a JSON schema: 'strange'"),
        (JsonValid, {"schema": "object"}, "a JSON schema is a mapping, not 'object'"),
        (Length, {}, "any length would pass; give at_least=..., from 1, at_most=... or both"),
        (Length, {"at_least": 0, "unit": "words"}, "any length would pass"),
        (Length, {"at_most": 5, "unit": "lines"}, "unit is 'characters' or 'words', not 'lines'"),
        (
            Pattern,
            {"required": ""},
            "not a regular expression among ('',): write texts such as 'as an AI', none",
        ),
        (Pattern, {"forbidden": ["x", b"y"]}, "not a regular expression among ('x', b'y'): write texts"),
        (
            Pattern,
            {"forbidden": re.compile(b"y")},
            "not a regular expression among (re.compile(b'y'),): write texts",
        ),
        (Pattern, {"forbidden": 5}, "a pattern is a regular expression, or a list of them, not 5"),
        (Pattern, {"required": re.compile("x"), "ignore_case": True}, "not a regular expression among"),
        *(
            (Pattern, {"contains": texts}, "contains is a list of texts, none empty")
            for texts in (5, [""], [3], "")
        ),
        (NumericRange, {}, "give at_least=..., at_most=... or both"),
        (NumericRange, {"at_least": "abc"}, "at_least is a finite number, not 'abc'"),
        (NumericRange, {"at_least": 1, "at_most": float("nan")}, "at_most is a finite number, not nan"),
        (NumericRange, {"at_most": True}, "at_most is a finite number, not True"),
        (NumericRange, {"at_least": 2, "at_most": 1}, "at_most=1 lies below at_least=2"),
        (NumericRange, {"at_least": 2, "which": "best"}, "which is 'all', 'first' or 'last', not 'best'"),
    ],
)
def test_a_check_set_up_wrongly_is_refused(kind: type[Judge], settings: dict[str, Any], message: str) -> None:
    """A setting that cannot work is an error at once, showing it and what is expected."""
    with pytest.raises(ConfigurationError) as caught:
        kind(**settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("check", "bad", "good"),
    [
        (Length(at_most=3, feedback="Be brief."), "too long", "ok"),
        (Pattern(required=r"\d", feedback="Be brief."), "none", "1"),
        (JsonValid(feedback="Be brief."), "no", "{}"),
        (NumericRange(at_most=3, feedback="Be brief."), "5", "2"),
    ],
)
def test_feedback_may_be_in_ones_own_words(check: Judge, bad: str, good: str) -> None:
    """It takes the place of the rule, which stays in the rationale; an answer that passes is told nothing."""
    assert (check(answer=bad).feedback, check(answer=good).feedback) == ("Be brief.", "")
    assert check(answer=bad).rationale not in ("", "Be brief.")


ROW = {"question": "Why?", "answer": "Because."}


def annotated(number: Any) -> list[Callable[..., Any]]:
    """Return functions that are checks by their annotation."""

    def plain(answer: str) -> bool:
        return number  # type: ignore[no-any-return]  # as a user may

    async def later(answer: str) -> bool:
        return number  # type: ignore[no-any-return]

    def literal(answer: str) -> Literal[0, 1]:
        return number  # type: ignore[no-any-return]

    def paired(answer: str) -> tuple[bool, str]:
        return number, "say please"

    def of_numpy(answer: str) -> np.bool_:
        return number  # type: ignore[no-any-return]

    def bound(answer: str, word: str) -> bool:
        return number  # type: ignore[no-any-return]

    return [plain, later, literal, paired, of_numpy, functools.partial(bound, word="please")]


def rating(number: Any) -> list[Callable[..., Any]]:
    """Return functions whose numbers are ratings by their annotation, whatever their names and docstrings say."""

    def check_tone(answer: str) -> int:
        """Check the tone."""
        return number  # type: ignore[no-any-return]

    def paired(answer: str) -> tuple[int, str]:
        return number, "say please"

    return [check_tone, paired]


def open_ones(number: Any) -> list[Callable[..., Any]]:
    """Return functions that say nothing of their numbers."""

    def is_polite(answer):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - as a user may
        """Check that the answer is polite."""
        return number

    def politeness(answer: str) -> Any:
        """Rate the politeness from 1 to 4."""
        return number

    return [is_polite, politeness, lambda answer: number, lambda answer: (number, "say please")]


async def test_one_and_zero_of_a_check_mean_yes_and_no() -> None:
    """A function that answers yes or no may do so by a number, Python's or numpy's, sync and async."""
    for one, zero in ((1, 0), (np.int64(1), np.int64(0)), (True, False), (np.True_, np.False_)):
        for passing, failing in zip(annotated(one), annotated(zero), strict=True):
            for verdict in (as_judge(passing)(ROW), await as_judge(passing).acall(ROW)):
                assert (verdict.passed, verdict.rating, verdict.value) == (True, 4, True)
            assert (as_judge(failing)(ROW).passed, as_judge(failing)(ROW).rating) == (False, 1)


def test_one_of_a_function_that_rates_is_the_lowest_rating() -> None:
    """It is annotated so, and has no 0."""
    for function in rating(1):
        assert as_judge(function)(ROW).rating == 1
    for function in rating(0):
        assert as_judge(function)(ROW).unscored == "invalid_output"


def test_the_caller_may_say_what_the_numbers_mean() -> None:
    """Of functions, of runnables and of copies, as an annotation does."""
    for function in open_ones(1):
        assert as_judge(function, returns="check")(ROW).passed is True
        assert as_judge(function, returns="rating")(ROW).rating == 1
    runnable: RunnableLambda[Any, Any] = RunnableLambda(lambda row: 1, name="row")
    assert as_judge(runnable, returns="check")(ROW).rating == 4
    assert as_judge(runnable, returns="rating")(ROW).rating == 1
    copied = pickle.loads(pickle.dumps(as_judge(one_of_a_module, returns="check")))  # noqa: S301 - its own
    assert copied(ROW).passed is True


def one_of_a_module(answer: str) -> Any:
    """Return 1."""
    return 1


def test_one_and_zero_that_nothing_explains_are_refused() -> None:
    """Neither a name nor a docstring decides a score; the error says what to write."""
    for number in (0, 1, np.int64(1)):
        for function in open_ones(number):
            verdict = as_judge(function)(ROW)
            assert verdict.unscored == "invalid_output"
            assert "annotate it `-> bool`" in verdict.detail
            assert 'returns="check"' in verdict.detail
    assert [as_judge(function)(ROW).rating for function in open_ones(3)] == [3, 3, 3, 3]


def test_no_optimisation_of_python_changes_a_verdict() -> None:
    """Without docstrings, as `python -OO` runs, the same functions get the same verdicts."""
    code = (
        "from judges import as_judge\n"
        "def check(answer):\n    'Check the tone.'\n    return 1\n"
        "def tone(answer):\n    'Tone of the answer.'\n    return 1\n"
        "def yes(answer) -> bool:\n    'Tone of the answer.'\n    return 1\n"
        "for one in (check, tone, yes):\n    verdict = as_judge(one)(answer='x')\n"
        "    print(verdict.rating, verdict.unscored)\n"
    )
    outputs = [
        subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True).stdout
        for flags in ((), ("-OO",))
    ]
    assert outputs == ["None invalid_output\nNone invalid_output\n4 None\n"] * 2


def test_a_check_returns_no_ratings() -> None:
    """Another number of a check is refused, and the error says how to return ratings, and names every form."""
    for function in annotated(3)[:2]:
        verdict = as_judge(function)(ROW)
        assert verdict.unscored == "invalid_output"
        assert "annotate it `-> int` to return ratings" in verdict.detail
        for form in ("Verdict", "True or False", "1 to 4", "0.0 to 1.0", "mapping", "pair", "`-> bool`"):
            assert form in verdict.detail


SCALARS: list[tuple[object, dict[str, object]]] = [
    (np.bool_(1), {"rating": 4, "value": True}),
    (np.bool_(0), {"rating": 1, "value": False}),
    (np.int64(3), {"rating": 3, "value": 3}),
    (np.uint8(2), {"rating": 2}),
    (np.float32(0.5), {"score": 0.5, "rating": 3}),
    (np.float64(1), {"score": 1.0, "rating": 4}),
    (np.array(2), {"rating": 2}),
    ((np.int32(2), "f"), {"rating": 2, "feedback": "f"}),
    ({"rating": np.int64(2)}, {"rating": 2}),
    ({"score": np.float32(0.25), "passed": np.bool_(1)}, {"score": 0.25, "passed": True}),
]


@pytest.mark.parametrize(("scalar", "expected"), SCALARS, ids=[repr(scalar) for scalar, _ in SCALARS])
def test_scalars_of_numpy_are_read_like_pythons(scalar: object, expected: dict[str, object]) -> None:
    """A number of numpy, alone, in a pair or in a mapping, means what Python's means, and goes into JSON."""
    verdict = as_judge(lambda sample: scalar)(ROW)
    assert {name: getattr(verdict, name) for name in expected} == expected
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


@pytest.mark.parametrize("number", [np.int64(0), np.int64(5), np.float32("nan"), np.array([1, 2]), np.float64(2)])
def test_other_numbers_of_numpy_are_refused(number: object) -> None:
    """What Python's number could not be, numpy's cannot, nor can an array."""
    assert as_judge(lambda sample: number)(ROW).unscored == "invalid_output"


@dataclass
class Grade:
    """A grade that is a dataclass."""

    rating: int
    rationale: str = ""


def test_a_dataclass_is_read_as_a_mapping() -> None:
    """Its fields are marks as the keys of a mapping are."""
    verdict = as_judge(lambda sample: Grade(2, "too short"))(ROW)
    assert (verdict.rating, verdict.feedback) == (2, "too short")


@pytest.mark.parametrize(
    ("marks", "passed"),
    [
        ({"rating": 4, "passed": False}, None),
        ({"rating": 1, "passed": True}, None),
        ({"score": 1.0, "passed": False}, None),
        ({"score": True, "passed": False}, None),
        ({"score": 0, "passed": True}, None),
        ({"rating": 4, "score": 0.1}, None),
        ({"rating": 1, "score": 1.0}, None),
        ({"rating": 3, "passed": False}, False),
        ({"rating": 2, "passed": True}, True),
        ({"score": 0.9, "passed": False}, False),
        ({"rating": 4, "score": 0.8, "passed": True}, True),
        ({"rating": 2, "score": 0.5}, False),
    ],
    ids=repr,
)
def test_marks_that_contradict_each_other_are_refused(marks: dict[str, object], passed: bool | None) -> None:  # noqa: FBT001 - a parameter
    """Nobody knows which is meant, and the error names them; a judge stricter or milder than usual is taken."""
    verdict = as_judge(lambda sample: marks)(ROW)
    assert (verdict.passed, verdict.unscored) == (passed, "invalid_output" if passed is None else None)
    if passed is None:
        assert "contradict each other" in verdict.detail
        assert all(f"{name} {mark!r}" in verdict.detail for name, mark in marks.items())


class _Validator:
    """A validator as guardrails-ai makes them: what `validate` returns has an `outcome`."""

    def validate(self, value: str, metadata: dict[str, Any]) -> SimpleNamespace:
        if value in metadata.get("banned", ()):
            return SimpleNamespace(outcome="fail", error_message="Say it kindly.", fix_value="kindly")
        return SimpleNamespace(outcome="pass" if value else "unknown")


async def test_a_validator_of_guardrails_is_a_judge() -> None:
    """Its message is the feedback, its fix the replacement, the sample's metadata its own; sync and async."""
    judge = as_judge(_Validator())
    sample = Sample(response="rude", metadata={"banned": ["rude"]})
    for verdict in (judge(sample), await judge.acall(sample)):
        assert (verdict.passed, verdict.feedback, verdict.replacement) == (False, "Say it kindly.", "kindly")
    assert (judge.name, judge(answer="kind").passed) == ("_validator", True)
    unread = judge(answer="")
    assert unread.unscored == "invalid_output"
    assert "PassResult or FailResult" in unread.detail
    assert as_judge([_Validator(), lambda answer: 4])(sample).replacement == "kindly"
