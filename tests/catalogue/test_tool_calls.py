"""Tool calls are compared with those that were wanted: aligned in order, matched without, argument by argument."""

from __future__ import annotations

import itertools
import random
import time
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from judges import load
from judges.catalogue.parts.calls import CallComparison, _same_value, render_call
from judges.catalogue.parts.tables import matching, ordered_matching
from judges.messages import ToolCall
from judges.testing import ScriptedModel
from tests.kit import asked, items
from tests.laws import for_every

Call = dict[str, Any]


def call(name: str, **args: Any) -> Call:
    """Write a call as a dataset has it."""
    return {"name": name, "args": args}


def run(wanted: list[Call] | None, *turns: list[Call], **fields: Any) -> Call:
    """Write a sample of an agent that makes some calls in each of its turns, then answers."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How warm is it in Paris?"}]
    for calls in turns:
        messages += [{"role": "assistant", "content": "", "tool_calls": calls}, {"role": "tool", "content": "ok"}]
    messages.append({"role": "assistant", "content": "It is 75 degrees."})
    return {"user_input": messages, "reference_tool_calls": wanted, **fields}


PARIS, CONVERT = call("weather", location="Paris"), call("convert", f=75)
A, B, C = (call("do", what=one) for one in "abc")
VECTORS: dict[str, tuple[list[Call], list[Call]]] = {
    "perfect": ([PARIS, CONVERT], [PARIS, CONVERT]),
    "swapped": ([PARIS, CONVERT], [CONVERT, PARIS]),
    "missing": ([PARIS, CONVERT], [PARIS]),
    "extra": ([PARIS], [PARIS, CONVERT]),
    "text": ([CONVERT], [call("convert", f="75")]),
    "float": ([CONVERT], [call("convert", f=75.0)]),
    "argument": ([call("weather", location="Paris", unit="C")], [PARIS]),
    "bare": ([call("ping")], [call("ping", loud=True)]),
    "twice": ([PARIS], [PARIS, PARIS]),
    "empty": ([], []),
    "nothing made": ([PARIS], []),
    "nothing wanted": ([], [PARIS]),
    "paired wrongly": ([A, B], [B, C]),
    "true": ([call("set", on=1)], [call("set", on=True)]),
}


def scores_of(name: str, **settings: Any) -> tuple[float | None, ...]:
    """Give the scores of a vector: strict, flexible and F1."""
    wanted, made = VECTORS[name]
    judges = (
        load("ragas.tool_call_accuracy", **settings),
        load("ragas.tool_call_accuracy", strict_order=False, **settings),
        load("ragas.tool_call_f1", **settings),
    )
    return tuple(judge(run(wanted, *([one] for one in made))).score for judge in judges)


@for_every(
    "name, compat, corrected",
    [
        ("perfect", (1, 1, 1), (1, 1, 1)),
        ("swapped", (0, 1, 1), (0.5, 1, 1)),
        ("missing", (0, 0, 0.6667), (0.5, 0.5, 2 / 3)),
        ("extra", (0, 0, 0.6667), (0.5, 0.5, 2 / 3)),
        ("text", (1, 1, 0), (0, 0, 0)),
        ("float", (0, 0, 1), (1, 1, 1)),
        ("argument", (0.5, 0.5, 0), (0.5, 0.5, 0)),
        ("bare", (0, 0, 0), (1, 1, 0)),
        ("twice", (0, 0, 1), (0.5, 0.5, 2 / 3)),
        ("empty", (1, 1, 0), (1, 1, 1)),
        ("nothing made", (0, 0, 0), (0, 0, 0)),
        ("nothing wanted", (0, 0, 0), (0, 0, 0)),
        ("paired wrongly", (0, 0, 0.5), (0.5, 0.5, 0.5)),
        ("true", (0, 0, 1), (0, 0, 0)),
    ],
)
def test_scores_are_those_of_the_reference_or_give_partial_credit(
    name: str, compat: tuple[float, float, float], corrected: tuple[float, float, float]
) -> None:
    """Compat as ragas 0.4.3; else aligned argument scores / the more of the calls, and F1 of multisets."""
    assert scores_of(name, variant="compat") == pytest.approx(compat, abs=1e-12)
    assert scores_of(name) == pytest.approx(corrected, abs=1e-12)


@for_every(
    "one, other, strictly, leniently",
    [
        (75, 75.0, True, True),
        (75, "75", False, True),
        (75.0, " 75 ", False, True),
        ("75.0", "75", False, True),
        (1, True, False, False),
        (0, False, False, False),
        (True, "True", False, True),
        (None, "null", False, True),
        (None, False, False, False),
        ("", None, False, False),
        ("a", "A", False, False),
        ("nan", "NaN", False, False),
        ([1, 2], [1.0, 2.0], True, True),
        ([1, 2], [2, 1], False, False),
        ([True], [1], False, False),
        ({"a": [{"b": 1}], "c": 2}, {"c": 2.0, "a": [{"b": 1.0}]}, True, True),
        ({"a": "1"}, {"a": 1}, False, True),
        ({}, [], False, False),
        ([["a", 1]], {"a": 1}, False, False),
        (10**400, 10**400, True, True),
        ("北京", "北京", True, True),
    ],
)
def test_values_are_equal_as_json(one: Any, other: Any, strictly: bool, leniently: bool) -> None:  # noqa: FBT001
    """Numbers by value, true and false apart from numbers, texts as texts unless told to be lenient."""
    assert (_same_value(one, other), _same_value(other, one)) == (strictly, strictly)
    assert (_same_value(one, other, lenient=True), _same_value(other, one, lenient=True)) == (leniently, leniently)


def close(wanted: Any, given: Any) -> float:
    """Give full marks for the same text in other letters."""
    return 1.0 if str(wanted).casefold() == str(given).casefold() else 0.25


@pytest.mark.parametrize(
    ("metric", "score"),
    [
        (None, 0.0),
        (close, 0.625),
        ({"city": close}, 0.5),
        ({"weather": close}, 0.625),
        ({"weather": {"unit": close}}, 0.125),
        ({"other": close}, 0.0),
        ({}, 0.0),
    ],
)
@for_every("variant", ["corrected", "compat"])
def test_arguments_may_be_compared_otherwise(metric: Any, score: float, variant: str) -> None:
    """By one function, or by functions for a tool, for a tool's argument, or for an argument of any tool."""
    judge = load("tool_call_accuracy", arg_comparison_metric=metric, variant=variant)
    wanted, made = [call("weather", city="PARIS", unit=1)], [call("weather", city="Paris", unit=2)]
    assert judge(run(wanted, made)).score == score


def test_compat_compares_arguments_as_texts() -> None:
    """The function sees what ragas shows it: the values as Python writes them."""
    seen = []

    def compare(wanted: Any, given: Any) -> bool:
        seen.append((wanted, given))
        return True

    judge = load("tool_call_accuracy", arg_comparison_metric=compare, variant="compat")
    assert judge(run([call("f", a=None)], [call("f", a=[1.0])])).score == 1
    assert set(seen) == {("None", "[1.0]")}


@for_every("given", [1.5, -0.1, float("nan"), "yes", None])
def test_a_comparison_out_of_range_is_no_verdict(given: Any) -> None:
    """What is no number from 0 to 1 scores nothing."""
    judge = load("tool_call_accuracy", arg_comparison_metric=lambda wanted, made: given)
    assert judge(run([PARIS], [call("weather", location="Rome")])).unscored == "judge_failed"


def test_pairing_finds_the_heaviest() -> None:
    """Against all permutations, on many small tables; every row or every column is paired."""
    random_ = random.Random(5)
    for _ in range(300):
        rows, columns = random_.randint(1, 5), random_.randint(1, 5)
        weights = [[random_.choice([0, 1 / 3, 0.5, 1]) for _ in range(columns)] for _ in range(rows)]
        found = matching(weights)
        wide = weights if rows <= columns else [list(one) for one in zip(*weights, strict=True)]
        best = max(
            sum(line[place] for line, place in zip(wide, places, strict=False))
            for places in itertools.permutations(range(max(rows, columns)), min(rows, columns))
        )
        assert len(found) == min(rows, columns)
        assert sum(weights[row][column] for row, column in found) == pytest.approx(best)


def test_a_common_subsequence_never_crosses() -> None:
    """Rows and columns rise together, and nothing that cannot be paired is."""
    random_ = random.Random(6)
    for _ in range(300):
        weights = [[random_.choice([None, 0, 0.5, 1]) for _ in range(6)] for _ in range(5)]
        found = ordered_matching(weights)
        assert all(one[0] < other[0] and one[1] < other[1] for one, other in itertools.pairwise(found))
        assert all(weights[row][column] is not None for row, column in found)
    assert ordered_matching([]) == matching([]) == matching([[]]) == []


@for_every("ordered", [True, False])
def test_two_hundred_calls_are_compared_at_once(ordered: bool) -> None:  # noqa: FBT001
    """Even where every call is of the same tool and no two are the same."""
    random_ = random.Random(7)
    calls = [ToolCall(name="f", args={one: random_.randrange(9) for one in "abcdef"}) for _ in range(400)]
    began = time.process_time()
    CallComparison().align(calls[:200], calls[200:], ordered=ordered)
    assert time.process_time() - began < 2


def test_thousands_of_calls_made_as_wanted_are_no_trouble() -> None:
    """What is the same at both ends is not searched through."""
    calls = [call("f", number=number) for number in range(3000)]
    verdict = load("tool_call_accuracy")(run(calls, [*calls[:1500], PARIS, *calls[1500:]]))
    assert (verdict.score, verdict.items[-1].value) == (3000 / 3001, "surplus")


@for_every("strict_order", [True, False])
def test_too_many_calls_are_unscored(strict_order: bool) -> None:  # noqa: FBT001
    """Rather than compared for minutes."""
    wanted, made = ([call("f", a=place + number) for number in range(2000)] for place in (0, 5000))
    assert load("tool_call_accuracy", strict_order=strict_order)(run(wanted, made)).unscored == "undefined"


def test_long_arguments_are_cut_where_they_are_shown() -> None:
    """A megabyte in an argument, with blanks or without, leaves the feedback readable."""
    for text in ("слово " * 200_000, "字" * 1_000_000):
        verdict = load("tool_call_accuracy", reveal_reference=True)(run([call("f", text=text, more="x")], []))
        assert len(verdict.feedback) < 300
        assert 'more="x"' in verdict.feedback


def test_a_call_is_written_as_code() -> None:
    """Values are JSON; braces and emoji stay as they are, and a line stays a line."""
    shown = render_call(ToolCall(name="f", args={"a": {"b": [None, True]}, "c": "{x}\n🙂", "d": 1.0}))
    assert shown == 'f(a={"b": [null, true]}, c="{x}\\n🙂", d=1.0)'


Made = tuple[str, dict[str, Any], str | None]


def row(*made: Made, question: str = "Will it rain in Porto?", **fields: Any) -> dict[str, Any]:
    """Write a sample in which these calls are made, one after the other, with these results."""
    steps: list[dict[str, Any]] = []
    for number, (name, args, result) in enumerate(made):
        steps.append({"role": "assistant", "tool_calls": [{"name": name, "args": args, "id": str(number)}]})
        if result is not None:
            steps.append({"role": "tool", "content": result, "tool_call_id": str(number)})
    return {"user_input": question, "response": "It will.", "trajectory": steps, **fields}


def finding(*uses: str, missing: str = "") -> ScriptedModel:
    """Make a model with a verdict on each call."""
    return ScriptedModel(
        [{**items(*uses), "reason": "so it is", "complete": not missing, "feedback": missing}] * 2
    )


PORTO: Made = ("weather", {"city": "Porto"}, "rain")


@tool
def ferry(hour: int) -> str:
    """Books a ferry."""
    return str(hour)


class Deck(Enum):
    """Where one may sit."""

    UPPER = "upper"
    LOWER = "lower"


class Guest(BaseModel):
    """Somebody who travels."""

    name: str
    age: Annotated[int, Field(ge=0)]


@tool
def seats(deck: Deck, guests: list[Guest], meal: Literal["none"] = "none") -> str:
    """Books seats."""
    return f"{deck} {guests} {meal}"


@for_every(
    "tools, fields, expected",
    [
        (["weather"], {}, ["weather"]),
        ([{"name": "weather", "parameters": {}}], {}, [{"name": "weather", "parameters": {}}]),
        (
            [ferry],
            {"tools": ["x"]},
            [
                {
                    "name": "ferry",
                    "description": "Books a ferry.",
                    "parameters": {
                        "description": "Books a ferry.",
                        "properties": {"hour": {"title": "Hour", "type": "integer"}},
                        "required": ["hour"],
                        "title": "ferry",
                        "type": "object",
                    },
                }
            ],
        ),
        (None, {"tools": ["weather"]}, ["weather"]),
        (None, {"tool_definitions": {"name": "weather"}}, [{"name": "weather"}]),
        (None, {}, None),
    ],
)
def test_the_tools_are_shown_where_they_are_known(tools: Any, fields: dict[str, Any], expected: Any) -> None:
    """From the setting, or else from the metadata of the sample."""
    model = finding("right")
    load("tool_use", model=model, tools=tools)(row(PORTO, **fields))
    assert asked(model)[0].get("tools") == expected


ANN = {"name": "Ann", "age": 8}


@for_every(
    "changed, fault",
    [
        ({}, ""),
        ({"deck": "middle"}, '`deck` is "middle" and should be: "upper", "lower".'),
        ({"guests": [ANN, {"name": "Bo", "age": -1}]}, "should be: {age: >= 0}."),
        ({"guests": [{"name": "Bo"}]}, "should be: {age: ...}."),
        ({"guests": ["Ann"]}, "should be: object."),
        ({"meal": "fish"}, 'should be: "none".'),
        ({"guests": None}, "should be: array."),
    ],
)
def test_arguments_are_held_against_the_definition_of_a_langchain_tool(
    changed: dict[str, Any], fault: str
) -> None:
    """Choices that a reference names, bounds, and what stands in lists and objects; what is required is missed."""
    judge = load("tool_permission", tools=[seats])
    (item,) = judge(row(("seats", {"deck": "upper", "guests": [ANN], **changed}, "done"))).items
    assert (item.passed, (item.rationale or "")[-len(fault) :] if fault else "") == (not fault, fault)
    assert judge(row(("seats", {"deck": "upper"}, "done"))).items[0].rationale == "`guests` is missing."
