"""What the numbers mean that a function returns, and which marks contradict each other."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from langchain_core.runnables import RunnableLambda

from judges import Sample, Verdict, as_judge

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
    "marks",
    [
        {"rating": 4, "passed": False},
        {"rating": 1, "passed": True},
        {"score": 1.0, "passed": False},
        {"score": True, "passed": False},
        {"score": 0, "passed": True},
        {"rating": 4, "score": 0.1},
        {"rating": 1, "score": 1.0},
    ],
    ids=repr,
)
def test_marks_that_contradict_each_other_are_refused(marks: dict[str, object]) -> None:
    """Nobody knows which of them is meant; the error names them."""
    verdict = as_judge(lambda sample: marks)(ROW)
    assert verdict.unscored == "invalid_output"
    assert "contradict each other" in verdict.detail
    assert all(f"{name} {mark!r}" in verdict.detail for name, mark in marks.items())


@pytest.mark.parametrize(
    ("marks", "passed"),
    [
        ({"rating": 3, "passed": False}, False),
        ({"rating": 2, "passed": True}, True),
        ({"score": 0.9, "passed": False}, False),
        ({"rating": 4, "score": 0.8, "passed": True}, True),
        ({"rating": 2, "score": 0.5}, False),
    ],
    ids=repr,
)
def test_marks_of_another_pass_mark_are_taken(marks: dict[str, object], passed: bool) -> None:  # noqa: FBT001 - a parameter
    """A judge may be stricter or milder than the default."""

    def judge(sample: Sample) -> object:
        return marks

    assert as_judge(judge)(ROW).passed is passed


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
