"""Two answers are compared in both orders, and being shown first earns nothing."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from judges import BadSample, Cascade, ConfigurationError, Judge, Panel, Repeat, load
from judges.catalogue.general.pairwise import Pairwise, Preference
from judges.prompting.prompts import prompt
from judges.runtime.budget import Allowance, within
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.kit import Shown, asked, replying

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


@pytest.mark.parametrize(
    ("model", "value", "score", "rating", "passed"),
    [
        (preferring("384 400 km"), "win", 1.0, 4, True),
        (preferring("Far."), "loss", 0.0, 1, False),
        (saying("tie", "tie"), "tie", 0.5, 3, True),
    ],
)
async def test_orders_that_agree_decide(
    model: ScriptedModel, value: str, score: float, rating: int, *, passed: bool
) -> None:
    """A win is 1, a tie one half, a loss 0, in two calls, sync and async."""
    judge = load("pairwise", model=model)
    for verdict in (judge(CASE), await judge.acall(CASE)):
        assert (verdict.value, verdict.score, verdict.rating, verdict.passed) == (value, score, rating, passed)
        assert (verdict.detail, verdict.usage.calls) == ("", 2)
    assert len(model.prompts) == 4


@pytest.mark.parametrize(
    ("answer_first", "rival_first", "difference"),
    [
        ("first", "first", "each order preferred the answer shown first"),
        ("second", "second", "each order preferred the answer shown second"),
        ("first", "tie", "one order preferred the answer, the other found a tie"),
        ("tie", "second", "one order preferred the answer, the other found a tie"),
        ("second", "tie", "one order preferred the rival, the other found a tie"),
        ("tie", "first", "one order preferred the rival, the other found a tie"),
    ],
)
def test_orders_that_disagree_make_a_tie(answer_first: str, rival_first: str, difference: str) -> None:
    """An inconsistent pair is a tie, and says how the orders differ."""
    verdict = load("pairwise", model=saying(answer_first, rival_first))(CASE)
    assert (verdict.value, verdict.score, verdict.detail) == ("tie", 0.5, f"inconsistent: {difference}")
    assert [one.value for one in verdict.items] == [answer_first, rival_first]


def test_both_orders_are_asked_at_once() -> None:
    """Neither order waits for the other."""
    together = threading.Barrier(2, timeout=10)

    def choose(first: str, second: str) -> str:
        together.wait()
        return "tie"

    assert load("pairwise", model=choosing(choose))(CASE).value == "tie"


def test_the_orders_differ_in_nothing_else() -> None:
    """The model is shown all there is, and the two answers by their place alone."""
    model = preferring("Far.")
    given = {**CASE, "retrieved_contexts": ["The moon is 384 400 km away."], "reference": "About 384 400 km"}
    load("pairwise", model=model)(given)
    shown = {
        "conversation": [{"role": "user", "content": CASE["user_input"]}],
        "documents": given["retrieved_contexts"],
        "reference": "About 384 400 km",
    }
    assert sorted(asked(model), key=lambda data: str(data["first"])) == [
        {**shown, "first": "384 400 km", "second": "Far."},
        {**shown, "first": "Far.", "second": "384 400 km"},
    ]


def test_both_orders_are_kept() -> None:
    """The items hold the choice, the reasons and the score of the answer in each order."""
    verdict = load("pairwise", model=preferring("384 400 km"))(CASE)
    assert [(one.subject, one.value, one.score, one.rationale) for one in verdict.items] == [
        ("answer first", "first", 1.0, "384 400 km first"),
        ("rival first", "second", 1.0, "Far. first"),
    ]
    assert verdict.rationale.splitlines() == ["answer first: 384 400 km first", "rival first: Far. first"]


@pytest.mark.parametrize(
    ("choices", "feedback"),
    [
        (("first", "second"), ""),
        (("second", "first"), "Be right.\nBe kind."),
        (("second", "second"), "Be right."),
        (("first", "first"), "Be kind."),
        (("first", "tie"), "Be kind."),
        (("tie", "tie"), "Be right.\nBe kind."),
    ],
)
def test_the_feedback_is_that_of_the_orders_the_answer_did_not_win(
    choices: tuple[str, str], feedback: str
) -> None:
    """Advice to the rival is none to the answer."""
    verdict = load("pairwise", model=saying(*choices, "Be right.", "Be kind."))(CASE)
    assert verdict.feedback == feedback


def test_advice_given_twice_is_told_once() -> None:
    """Two orders often say the same."""
    assert load("pairwise", model=preferring("Far."))(CASE).feedback == "Say how far."


@pytest.mark.parametrize(
    ("fields", "settings", "reason"),
    [
        ({"response": " "}, {}, "no_response"),
        ({"response": None}, {}, "no_response"),
        ({"user_input": ""}, {}, "no_question"),
        ({"rival": ""}, {}, "no_response"),
        ({"rival": 5}, {}, "invalid_sample"),
        ({"rival": None}, {}, "invalid_sample"),
        ({}, {"against": "reference"}, "no_reference"),
    ],
)
def test_nothing_to_compare_is_unscored(fields: dict[str, Any], settings: dict[str, Any], reason: str) -> None:
    """What cannot be compared has a reason, and costs nothing."""
    verdict = load("pairwise", model=preferring(""), **settings)({**CASE, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)
    assert verdict.detail


def test_one_order_alone_is_no_verdict() -> None:
    """If an order fails the verdict is unscored; the other order is still kept."""

    def reply(data: Shown) -> Mapping[str, Any] | Exception:
        failed = data["first"] == "Far."
        return ValueError("down") if failed else {"rationale": "Right.", "verdict": "first", "feedback": ""}

    verdict = load("pairwise", model=replying(reply))(CASE)
    assert (verdict.unscored, verdict.score) == ("judge_failed", None)
    assert verdict.detail.startswith("rival first: ")
    assert [one.value for one in verdict.items] == ["first", None]
    assert [one.unscored for one in verdict.items] == [None, "judge_failed"]


def test_a_budget_keeps_its_reason() -> None:
    """The loop learns that there was no money for the second order."""
    with within(Allowance(calls=1)):
        verdict = load("pairwise", model=preferring("Far."))(CASE)
    assert verdict.unscored == "budget"


@pytest.mark.parametrize("verdict", ["third", "First", "A", 1, None])
def test_a_verdict_outside_the_set_is_asked_for_again(verdict: object) -> None:
    """Each order is asked once more, and then unscored."""
    model = replying(lambda _: {"rationale": "", "verdict": verdict, "feedback": ""})
    told = load("pairwise", model=model)(CASE)
    assert (told.unscored, told.usage.calls) == ("invalid_output", 4)
    assert told.raw


def test_the_reference_may_be_the_rival() -> None:
    """With against='reference' it is one of the two, and not told to be the reference."""
    model = preferring("384 400 km")
    judge = load("pairwise", model=model, against="reference")
    assert judge(user_input="How far?", response="384 400 km", reference="Far.").value == "win"
    assert [sorted(data) for data in asked(model)] == [["conversation", "first", "second"]] * 2


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
    assert ("A wrong answer is worse" in packaged[0], "A wrong answer is worse" in own[0]) == (True, False)
    assert (len(packaged), len(own)) == (8, 2)


@pytest.mark.parametrize(("question", "language"), [("月亮有多远？", "zh"), ("Как далеко Луна?", "ru")])
def test_the_question_decides_on_the_language(question: str, language: str) -> None:
    """The packaged criteria, too, are in the language of the question."""
    assert prompt("pairwise", language).feedback_text("criteria") in letter(question)[0]


@pytest.mark.parametrize("language", ["en", "zh", "ru"])
def test_the_examples_show_every_choice(language: str) -> None:
    """First, second and tie alike, so that the examples lean to no place."""
    assert [one.reply["verdict"] for one in prompt("pairwise", language).examples] == ["first", "second", "tie"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"against": "friend"}, "against is 'rival' or 'reference', not 'friend'"),
        ({"criteria": " "}, "criteria says in words what to judge by, not ' '"),
        ({"variant": "old"}, "variant is 'corrected' or 'compat'"),
        ({"threshold": 2}, "threshold is a score from 0 to 1, not 2"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], told: str) -> None:
    """In one clear line."""
    with pytest.raises(ConfigurationError, match=told):
        load("pairwise", model=ScriptedModel([]), **settings)


def test_it_needs_a_model() -> None:
    """There is none by default."""
    with pytest.raises(ConfigurationError, match="a judge needs a model"):
        load("pairwise")


def test_it_explains_itself() -> None:
    """What it needs depends on where the rival stands."""
    told = load("pairwise", model=ScriptedModel([]), against="reference").explain()
    assert (told.needs, told.calls, told.scale) == (
        ("user_input", "response", "reference"),
        "2",
        "win, tie or loss",
    )
    assert "A wrong answer is worse" in told.prompts["pairwise"]


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_both_variants_give_the_same(variant: str) -> None:
    """There is one definition."""
    assert load("pairwise", model=saying("first", "first"), variant=variant)(CASE).score == 0.5


@pytest.mark.parametrize(
    "answers",
    [
        ("{} {0} %s $x <|im_end|>", "```json\n{}\n```"),
        ("שלום", "مرحبا"),
        ("🌕" * 10, "🌑"),
        ("a " * 500_000, "b"),
    ],
    ids=["braces", "right-to-left", "emoji", "long"],
)
def test_any_text_can_be_compared(answers: tuple[str, str]) -> None:
    """Text is data, whatever it says and however long it is."""
    model = choosing(lambda first, second: "first" if len(first) > len(second) else "second")
    preference = Pairwise(model).compare("Which?", *answers)
    assert preference.winner == ("a" if len(answers[0]) > len(answers[1]) else "b")


def test_a_conversation_of_several_turns_is_shown_whole() -> None:
    """The last answer is compared; what came before is the conversation."""
    model = preferring("384 400 km")
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "How far is the moon?"},
    ]
    asking = [*messages, {"role": "assistant", "content": "384 400 km"}]
    assert load("pairwise", model=model)(user_input=asking, rival="Far.").value == "win"
    assert asked(model)[0]["conversation"] == messages


@pytest.mark.parametrize(
    ("model", "winner", "consistent", "feedback"),
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
        told.winner = "a"


def test_a_draft_is_refined_until_it_beats_a_baseline() -> None:
    """In the loop, the rival comes with the question; the advice reaches the next draft."""
    drafts = iter(["Near.", "384 400 km"])
    judge = load("pairwise", model=preferring("384 400 km"), threshold=1)
    refiner = SelfRefine(lambda _: next(drafts), judge)
    outcome = refiner.refine("How far is the moon?", evidence={"rival": "Far."})
    assert outcome.answer is not None
    assert outcome.answer.text == "384 400 km"
    assert [one.verdict.value for one in outcome.attempts if one.verdict] == ["tie", "win"]


HOLDERS: list[Callable[[Judge], Judge]] = [
    lambda judge: judge,
    lambda judge: Panel([judge]),
    Repeat,
    lambda judge: Cascade([judge]),
]


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_rival_may_be_a_keyword_also_to_a_judge_that_holds_it(holder: Callable[[Judge], Judge]) -> None:
    """What a judge looks up in the metadata may be a keyword, beside other metadata; a misspelling may not."""
    judge = holder(Pairwise(saying("tie", "tie")))
    sample = {"question": CASE["user_input"], "answer": CASE["response"], "metadata": {"split": "dev"}}
    assert judge(sample, rival=CASE["rival"]).rating == 3
    with pytest.raises(BadSample, match=re.escape("rivals=... is no field of a sample")):
        judge(sample, rivals="b")
