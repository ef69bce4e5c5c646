"""`as_judge` turns a function, an evaluator, a runnable or a list into a judge, and rejects the rest."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel

from judges import ConfigurationError, Length, Sample, Verdict, as_judge
from judges.testing import ScriptedJudge, ScriptedModel

ROW = {"question": "Why?", "answer": "Because."}


class Grade(BaseModel):
    """A structured reply as a runnable may return it."""

    score: float
    reasoning: str


RETURNS: list[tuple[object, dict[str, object]]] = [
    (Verdict.rated(2, feedback="f"), {"rating": 2, "feedback": "f"}),
    (True, {"rating": 4, "passed": True, "value": True}),
    (False, {"rating": 1, "passed": False, "value": False}),
    (3, {"rating": 3, "passed": True, "value": 3}),
    (0.4, {"rating": 2, "passed": False, "score": 0.4}),
    (1.0, {"rating": 4, "passed": True, "score": 1.0}),
    ((2, "f"), {"rating": 2, "feedback": "f"}),
    ((False, "f"), {"rating": 1, "feedback": "f"}),
    ({"rating": 4}, {"rating": 4}),
    ({"rating": 2, "rationale": "r", "feedback": "f"}, {"rating": 2, "rationale": "r", "feedback": "f"}),
    ({"score": 0.9, "passed": False}, {"rating": 4, "passed": False}),
    ({"score": 1}, {"rating": 4, "score": 1}),
    ({"score": 0}, {"rating": 1, "score": 0}),
    ({"key": "k", "score": True, "comment": "c"}, {"rating": 4, "rationale": "c", "feedback": ""}),
    ({"key": "k", "score": False, "comment": "c"}, {"rating": 1, "rationale": "c", "feedback": "c"}),
    ({"passed": True, "explanation": "e"}, {"rating": 4, "rationale": "e"}),
    (Grade(score=0.2, reasoning="r"), {"score": 0.2, "rationale": "r", "feedback": "r"}),
]


@pytest.mark.parametrize(("returned", "expected"), RETURNS, ids=[repr(returned) for returned, _ in RETURNS])
def test_what_a_function_may_return(returned: object, expected: dict[str, object]) -> None:
    """Every documented return value is read as the verdict it means."""

    def judge(sample: Sample) -> object:
        return returned

    verdict = as_judge(judge)(ROW)
    assert {name: getattr(verdict, name) for name in expected} == expected
    assert (verdict.judge, verdict.unscored) == ("judge", None)


@pytest.mark.parametrize(
    "returned",
    [
        None,
        "good",
        0,
        5,
        1.5,
        float("nan"),
        [],
        (3, 4),
        {},
        {"rating": 3.0},
        {"rating": True},
        {"rating": "3"},
        {"score": 3},
        {"score": "high"},
        {"passed": 1},
        {"score": {"rating": 3}},
        object,
    ],
    ids=repr,
)
def test_what_is_no_verdict_is_unscored(returned: object) -> None:
    """An unusable result is `invalid_output`, never a low rating; the detail says what to return."""
    verdict = as_judge(lambda sample: returned, name="mine")(ROW)
    assert verdict.unscored == "invalid_output"
    assert verdict.detail.startswith("'mine' returned ")
    assert "return a Verdict" in verdict.detail


def test_the_detail_never_shows_judged_text() -> None:
    """An object that holds the answer is named by its type alone."""
    verdict = as_judge(lambda sample: sample)(ROW)
    assert verdict.detail.startswith("'function' returned a Sample, which is no verdict")
    assert "Because." not in verdict.detail


def test_a_failing_function_is_unscored() -> None:
    """An exception is `judge_failed`, and its text, which may quote the answer, is not repeated."""

    def broken(sample: Sample) -> bool:
        raise RuntimeError(sample.answer)

    verdict = as_judge(broken)(ROW)
    assert (verdict.unscored, verdict.detail) == ("judge_failed", "RuntimeError in broken")


async def polite(answer: str) -> bool:
    """Judge, async."""
    return "please" in answer


class Grader:
    """Judges by a method, sync or async."""

    def __init__(self, word: str) -> None:
        self.word = word

    def has(self, answer: str) -> bool:
        """Judge by one field."""
        return self.word in answer

    async def ahas(self, answer: str) -> bool:
        """Judge by one field, async."""
        return self.word in answer


class Has(Grader):
    """A callable object."""

    def __call__(self, answer: str) -> bool:
        """Judge by one field."""
        return self.has(answer)


class AsyncHas(Grader):
    """A callable object that is async."""

    async def __call__(self, answer: str) -> bool:
        """Judge by one field, async."""
        return self.has(answer)


def has(answer: str, *, word: str) -> bool:
    """Judge by a word that is bound beforehand."""
    return word in answer


async def ahas(word: str, answer: str) -> bool:
    """Judge by a word that is bound beforehand, async."""
    return word in answer


CALLABLES = [
    (lambda answer: "please" in answer, "function"),
    (lambda sample: "please" in sample.answer, "function"),
    (lambda *samples: "please" in samples[0].answer, "function"),
    (polite, "polite"),
    (Grader("please").has, "has"),
    (Grader("please").ahas, "ahas"),
    (Has("please"), "has"),
    (AsyncHas("please"), "asynchas"),
    (functools.partial(has, word="please"), "has"),
    (functools.partial(ahas, "please"), "ahas"),
    (functools.partial(functools.partial(ahas, word="please")), "ahas"),
    (RunnableLambda(lambda row: "please" in row["response"], name="row"), "row"),
]


@pytest.mark.parametrize(("candidate", "name"), CALLABLES)
@pytest.mark.parametrize(("answer", "rating"), [("Yes, please.", 4), ("No.", 1)])
async def test_every_callable_judges_sync_and_async(
    candidate: object, name: str, answer: str, rating: int
) -> None:
    """Functions, methods, callable objects, partials and runnables judge alike, sync and async."""
    judge = as_judge(candidate)
    verdicts = (judge(answer=answer), await judge.acall(answer=answer))
    assert [verdict.rating for verdict in verdicts] == [rating, rating]
    assert (judge.name, verdicts[0].judge) == (name, name)


def test_a_function_is_called_by_the_names_of_fields() -> None:
    """Parameters of any dialect receive their value: text for question and answer, else the field."""
    seen: dict[str, object] = {}

    def judge(question: str, response: str, contexts: Sequence[str], messages: list[Any], rubrics: object) -> bool:
        seen.update(question=question, response=response, contexts=contexts, messages=messages, rubrics=rubrics)
        return True

    as_judge(judge)(messages=[("user", "Why?"), ("assistant", "Because.")], context="One.")
    assert seen == {
        "question": "Why?",
        "response": "Because.",
        "contexts": ("One.",),
        "messages": [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}],
        "rubrics": None,
    }


def test_a_default_stands_where_the_sample_has_nothing() -> None:
    """It is left out, not overwritten by None; a required one receives None; what a partial binds stays."""
    seen: list[object] = []

    def judge(answer: str, contexts: Sequence[str] | None, reference: str = "none", strict: bool = True) -> bool:  # noqa: FBT001, FBT002
        seen.extend([contexts, reference, strict])
        return answer == reference

    as_judge(judge)(ROW)
    assert seen == [None, "none", True]
    assert as_judge(functools.partial(judge, reference="Because."))({**ROW, "reference": "No."}).passed


def test_an_openevals_evaluator_is_a_judge() -> None:
    """Keyword-only `inputs`, `outputs`, `reference_outputs` and surplus keywords are openevals' signature."""

    def exact(
        *, inputs: str, outputs: str, reference_outputs: str | None = None, **kwargs: Any
    ) -> Mapping[str, Any]:
        return {"key": "exact", "score": outputs == reference_outputs, "comment": f"asked {inputs}"}

    verdict = as_judge(exact)(question="2+2?", answer="5", reference="4")
    assert (verdict.judge, verdict.passed, verdict.rationale) == ("exact", False, "asked 2+2?")


def test_a_runnable_receives_the_row_as_json() -> None:
    """A runnable gets plain data under the canonical names."""
    seen: list[dict[str, Any]] = []

    def judge(row: dict[str, Any]) -> int:
        seen.append(row)
        return 4

    as_judge(RunnableLambda(judge))(ROW)
    assert seen[0]["user_input"] == "Why?"
    assert seen[0]["response"] == "Because."
    assert all(value is not None for value in seen[0].values())


def test_a_judge_is_returned_as_it_is() -> None:
    """Nothing is wrapped twice; a LangChain sequence that ends in a verdict is taken like any other runnable."""
    judge = ScriptedJudge([3])
    assert as_judge(judge) is judge
    chain = (
        ChatPromptTemplate.from_template("Rate {response}")
        | ScriptedModel(["4"])
        | (lambda reply: int(reply.text))
    )
    assert as_judge(chain)(ROW).rating == 4


def test_a_list_becomes_a_strict_panel() -> None:
    """Several judges are a panel whose strictest member decides; a name that is given replaces its own."""
    judge = as_judge([Length(at_most=99), lambda answer: 2])
    verdict = judge(ROW)
    assert (judge.name, verdict.rating) == ("panel", 2)
    assert [item.judge for item in verdict.items] == ["length", "function"]
    assert as_judge(lambda sample: 4, name="kind")(ROW).judge == "kind"
    assert as_judge([Length(at_most=99)], name="all").name == "all"


def keyword(*, grade: int) -> int:
    """Take a keyword that no sample has."""
    return grade


def nothing() -> bool:
    """Take nothing."""
    return True


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (lambda answer, colour: bool(answer and colour), "colour.* name no field of a sample"),
        (lambda first, second: bool(first and second), "first.* name no field of a sample"),
        (nothing, "nothing.* name no field of a sample"),
        (keyword, "grade.* name no field of a sample"),
        (None, "give a judge, a function.* a list of these$"),
        (3, "give a judge, a function.* a list of these$"),
        ({}, r"give a judge, a function.*; of judges by name, give Panel\(\{...\}\)$"),
        (Length, r"give a judge, a function.*; of a class, give Length\(...\)$"),
        (ScriptedModel([]), "Helpfulness"),
    ],
)
def test_what_is_no_judge_is_refused(candidate: object, message: str) -> None:
    """At once, in a line that names the parameter, or shows the value and says what to pass."""
    with pytest.raises(ConfigurationError, match=message):
        as_judge(candidate)
