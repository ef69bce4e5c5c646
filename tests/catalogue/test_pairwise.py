"""Two answers are compared in both orders, and being shown first earns nothing."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from judges import BadSample, Cascade, Judge, Panel, Repeat, load
from judges.catalogue.general.pairwise import Pairwise, Preference
from judges.prompting.prompts import prompt
from judges.runtime.budget import Allowance
from judges.runtime.observation import within
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.kit import Shown, asked, replying
from tests.laws import for_every

CASE: dict[str, Any] = {"user_input": "How far is the moon?", "response": "384 400 km", "rival": "Far."}


def choosing(choose: Callable[[str, str], str], feedback: Callable[[Shown], str] = lambda _: "") -> ScriptedModel:
    """Make a model that chooses by the two texts in the order it is shown them."""

    def reply(data: Shown) -> Mapping[str, Any]:
        verdict = choose(data["first"], data["second"])
        return {"rationale": f"{data['first']} first", "verdict": verdict, "feedback": feedback(data)}

    return replying(reply)


def preferring(better: str) -> ScriptedModel:
    """Make a model that prefers one text wherever it stands, and advises the other."""
    return choosing(lambda first, _: "first" if first == better else "second", lambda _: "Say how far.")


def saying(answer_first: str, rival_first: str, *feedback: str) -> ScriptedModel:
    """Make a model that says one thing when the answer is shown first, and another when the rival is."""
    advice = dict(zip((CASE["response"], CASE["rival"]), feedback or ("", ""), strict=True))
    return choosing(
        lambda first, _: answer_first if first == CASE["response"] else rival_first,
        lambda data: advice[data["first"]],
    )


def test_both_orders_are_asked_at_once() -> None:
    """Neither order waits for the other."""
    together = threading.Barrier(2, timeout=10)

    def choose(first: str, second: str) -> str:
        together.wait()
        return "tie"

    assert load("pairwise", model=choosing(choose))(CASE).value == "tie"


def test_a_budget_keeps_its_reason() -> None:
    """The loop learns that there was no money for the second order."""
    with within(Allowance(calls=1)):
        verdict = load("pairwise", model=preferring("Far."))(CASE)
    assert verdict.unscored == "budget"


def test_a_win_may_be_asked_for() -> None:
    """With threshold=1 a tie does not pass."""
    judge = load("pairwise", model=saying("first", "first"), threshold=1)
    assert (judge(CASE).passed, judge(CASE).reaches(3)) == (False, False)


def letter(question: str = "How far?", **settings: Any) -> list[str]:
    """Give what the model is told of one order: the instructions first, then examples and the case."""
    model = preferring("Far.")
    load("pairwise", model=model, **settings)(user_input=question, response="Near.", rival="Far.")
    return [one.text for one in model.prompts[-1]]


def test_own_criteria_replace_the_packaged_ones() -> None:
    """They stand in the task as they are, and examples for other criteria are not shown."""
    own, packaged = letter(criteria="The more {poetic} one, at 100 % and $5."), letter()
    assert "\nThe more {poetic} one, at 100 % and $5.\n" in own[0]
    assert ("answer is worse than" in packaged[0], "answer is worse than" in own[0]) == (True, False)
    assert (len(packaged), len(own)) == (8, 2)


@for_every("question, language", [("月亮有多远？", "zh"), ("Как далеко Луна?", "ru")])
def test_the_question_decides_on_the_language(question: str, language: str) -> None:
    """The packaged criteria, too, are in the language of the question."""
    assert prompt("pairwise", language).feedback_text("criteria") in letter(question)[0]


@for_every("language", ["en", "zh", "ru"])
def test_the_examples_show_every_choice(language: str) -> None:
    """First, second and tie alike, so that the examples lean to no place."""
    assert [one.reply["verdict"] for one in prompt("pairwise", language).examples] == ["first", "second", "tie"]


def test_it_explains_itself() -> None:
    """What it needs depends on where the rival stands."""
    told = load("pairwise", model=ScriptedModel([]), against="reference").explain()
    assert (told.needs, told.calls, told.scale) == (
        ("user_input", "response", "reference"),
        "2",
        "win, tie or loss",
    )
    assert "answer is worse than" in told.prompts["pairwise"]


@for_every(
    "answers",
    [
        ("{} {0} %s $x <|im_end|>", "```json\n{}\n```"),
        ("שלום", "مرحبا"),
        ("🌕" * 10, "🌑"),
        ("a " * 500_000, "b"),
    ],
)
def test_any_text_can_be_compared(answers: tuple[str, str]) -> None:
    """Text is data, whatever it says and however long it is."""
    model = choosing(lambda first, second: "first" if len(first) > len(second) else "second")
    preference = Pairwise(model).compare("Which?", *answers)
    assert preference.winner == ("a" if len(answers[0]) > len(answers[1]) else "b")


@for_every(
    "model, winner, consistent, feedback",
    [
        (preferring("384 400 km"), "a", True, "Say how far."),
        (preferring("Far."), "b", True, "Say how far."),
        (saying("tie", "tie", "Add sources.", "Add sources."), "tie", True, "Add sources."),
        (saying("first", "first", "Be right.", "Be kind."), "tie", False, ""),
    ],
)
async def test_two_answers_are_compared(
    model: ScriptedModel, winner: str, feedback: str, *, consistent: bool
) -> None:
    """The preference names the winner, keeps both rationales, and advises the loser; sync and async."""
    judge = Pairwise(model)
    texts = CASE["response"], CASE["rival"]
    for told in (
        judge.compare(CASE["user_input"], *texts),
        await judge.acompare(CASE["user_input"], *texts),
    ):
        assert (told.winner, told.consistent, told.feedback) == (winner, consistent, feedback)
        assert told.rationales == ("384 400 km first", "Far. first")
        assert (told.usage.calls, told.unscored) == (2, None)


def test_a_comparison_that_fails_is_unscored() -> None:
    """There is then no winner, and a reason."""
    told = Pairwise(replying(lambda _: ValueError("down"))).compare("How far?", "Far.", "Near.")
    assert (told.winner, told.consistent, told.unscored) == (None, False, "judge_failed")
    blank = Pairwise(preferring("")).compare("How far?", " ", "Near.")
    assert (blank.winner, blank.unscored, blank.rationales) == (None, "no_response", ("", ""))


def test_evidence_comes_with_a_comparison() -> None:
    """Fields of a sample are shown; either form of the judge compares what it is given."""
    model = preferring("Far.")
    for judge in (Pairwise(model), Pairwise(model, against="reference")):
        told = judge.compare("How far?", "Near.", "Far.", contexts=["The moon is far."], metadata={"id": 1})
        assert told.winner == "b"
        assert asked(model)[-1]["documents"] == ["The moon is far."]


def test_a_preference_is_a_value() -> None:
    """It is read-only, and comes back from JSON as it was."""
    told = Pairwise(preferring("Far.")).compare("How far?", "Near.", "Far.")
    assert Preference.model_validate_json(told.model_dump_json()) == told
    with pytest.raises(ValidationError):
        told.winner = "a"  # type: ignore[misc]  # that it is read-only is the test


def test_a_draft_is_refined_until_it_beats_a_baseline() -> None:
    """In the loop, the rival comes with the question; the advice reaches the next draft."""
    drafts = iter(["Near.", "384 400 km"])
    judge = load("pairwise", model=preferring("384 400 km"), threshold=1)
    refiner = SelfRefine(lambda _: next(drafts), judge)
    outcome = refiner.refine("How far is the moon?", evidence={"rival": "Far."})
    assert outcome.answer is not None
    assert outcome.answer.text == "384 400 km"
    assert [one.verdict.value for one in outcome.attempts if one.verdict is not None] == ["tie", "win"]


HOLDERS: list[Callable[[Judge], Judge]] = [
    lambda judge: judge,
    lambda judge: Panel([judge]),
    Repeat,
    lambda judge: Cascade([judge]),
]


@for_every("holder", HOLDERS)
def test_the_rival_may_be_a_keyword_also_to_a_judge_that_holds_it(holder: Callable[[Judge], Judge]) -> None:
    """What a judge looks up in the metadata may be a keyword, beside other metadata; a misspelling may not."""
    judge = holder(Pairwise(saying("tie", "tie")))
    sample = {"question": CASE["user_input"], "answer": CASE["response"], "metadata": {"split": "dev"}}
    assert judge(sample, rival=CASE["rival"]).rating == 3
    with pytest.raises(BadSample, match=re.escape("rivals=... is no field of a sample")):
        judge(sample, rivals="b")


def test_an_answer_that_says_nothing_loses_without_a_call() -> None:
    """In either place, to any rival that says something; where both say nothing, the model decides."""
    unasked = Pairwise(ScriptedModel([]))
    assert unasked.compare("Which?", ":", "The left one.").winner == "b"
    assert unasked.compare("Which?", "The left one.", "Thought process:").winner == "a"
    assert Pairwise(preferring(":")).compare("Which?", ":", "...").winner == "a"
