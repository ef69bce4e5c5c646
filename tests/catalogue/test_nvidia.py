"""NVIDIA's metrics ask two graders with tasks of their own, and take the mean of their ratings."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.prompting.prompts import LANGUAGES, prompt
from judges.testing import ScriptedModel
from tests.kit import Shown, asked, replying

ACCURACY, RELEVANCE, GROUNDEDNESS = (
    "nvidia.answer_accuracy",
    "nvidia.context_relevance",
    "nvidia.response_groundedness",
)
EINSTEIN: dict[str, Any] = {
    "user_input": "When was Einstein born?",
    "response": "He was born in 1879.",
    "reference": "Albert Einstein was born on 14 March 1879.",
    "retrieved_contexts": ["Albert Einstein was born on 14 March 1879.", " ", "He was a physicist."],
}
every_judge = pytest.mark.parametrize("name", [ACCURACY, RELEVANCE, GROUNDEDNESS])
both_variants = pytest.mark.parametrize("variant", ["corrected", "compat"])


def is_second(data: Shown) -> bool:
    """Tell the second grader by the order of its data."""
    return tuple(data) not in {
        ("question", "answer", "reference"),
        ("question", "contexts"),
        ("contexts", "answer"),
    }


def grading(first: object, second: object, *, advice: tuple[str, str] = ("A.", "B.")) -> ScriptedModel:
    """Make a model whose graders give these ratings; an exception is raised instead."""

    def reply(data: Shown) -> dict[str, Any] | Exception:
        turn = is_second(data)
        rating = second if turn else first
        if isinstance(rating, Exception):
            return rating
        return {"rationale": f"Because {rating}.", "rating": rating, "feedback": advice[turn]}

    return replying(reply)


@both_variants
@pytest.mark.parametrize(
    ("name", "ratings", "score"),
    [
        (ACCURACY, (4, 4), 1.0),
        (ACCURACY, (4, 2), 0.75),
        (ACCURACY, (2, 2), 0.5),
        (ACCURACY, (0, 4), 0.5),
        (ACCURACY, (0, 0), 0.0),
        (RELEVANCE, (2, 1), 0.75),
        (RELEVANCE, (2, 2), 1.0),
        (RELEVANCE, (0, 1), 0.25),
        (GROUNDEDNESS, (2, 2), 1.0),
        (GROUNDEDNESS, (1, 0), 0.25),
        (GROUNDEDNESS, (0, 2), 0.5),
    ],
)
async def test_the_score_is_the_mean_of_both_ratings(
    name: str, ratings: tuple[int, int], score: float, variant: Any
) -> None:
    """Rating / highest, averaged, in two calls, sync and async; each grader's verdict is kept."""
    judge = load(name, model=grading(*ratings), variant=variant)
    for verdict in (judge(EINSTEIN), await judge.acall(EINSTEIN)):
        assert (verdict.score, verdict.value, verdict.usage.calls) == (score, score, 2)
        assert tuple(one.value for one in verdict.items) == ratings


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("nv_accuracy", ACCURACY),
        ("answer_accuracy", ACCURACY),
        ("AnswerAccuracy", ACCURACY),
        ("ragas.answer_accuracy", ACCURACY),
        ("ragas.nv_accuracy", ACCURACY),
        ("nvidia.nv_accuracy", ACCURACY),
        ("nv_context_relevance", RELEVANCE),
        ("ContextRelevance", RELEVANCE),
        ("ragas.context_relevance", RELEVANCE),
        ("nvidia.nv_context_relevance", RELEVANCE),
        ("nv_response_groundedness", GROUNDEDNESS),
        ("ResponseGroundedness", GROUNDEDNESS),
        ("ragas.response_groundedness", GROUNDEDNESS),
        ("nvidia.nv_response_groundedness", GROUNDEDNESS),
    ],
)
def test_they_go_by_the_names_of_the_reference(alias: str, name: str) -> None:
    """Every spelling loads the judge."""
    assert load(alias, model=grading(0, 0)).name == name


@every_judge
def test_the_graders_have_tasks_of_their_own(name: str) -> None:
    """The questions are worded apart, in every language, and each item says who gave it."""
    pack = name.partition(".")[2]
    model = grading(2, 2)
    verdict = load(name, model=model)(EINSTEIN)
    assert [one.judge for one in verdict.items] == [pack, f"{pack}_second"]
    assert len({messages[0].text for messages in model.prompts}) == 2
    assert all(prompt(pack, one).task != prompt(f"{pack}_second", one).task for one in LANGUAGES)


@pytest.mark.parametrize(
    ("name", "order"),
    [
        (ACCURACY, ["question", "answer", "reference"]),
        (RELEVANCE, ["question", "contexts"]),
        (GROUNDEDNESS, ["contexts", "answer"]),
    ],
)
def test_only_the_order_is_swapped(name: str, order: list[str]) -> None:
    """Both graders see the same texts under the same names; blank contexts are left out."""
    model = grading(2, 2)
    load(name, model=model)(EINSTEIN)
    first, second = sorted(asked(model), key=is_second)
    assert (list(first), list(second)) == (order, order[::-1])
    assert first == second
    assert first.get("answer") in (None, EINSTEIN["response"])
    assert first.get("reference") in (None, EINSTEIN["reference"])
    assert first.get("contexts") in (None, [EINSTEIN["retrieved_contexts"][0], EINSTEIN["retrieved_contexts"][2]])


@both_variants
@pytest.mark.parametrize("broken", ["first", "second"])
def test_one_failed_grader_leaves_the_other(broken: str, variant: Any) -> None:
    """Whichever it is, the valid rating counts, and the failure is an unscored item."""
    ratings = (7, 2) if broken == "first" else (2, 7)
    verdict = load(ACCURACY, model=grading(*ratings), variant=variant)(EINSTEIN)
    assert (verdict.score, verdict.usage.calls) == (0.5, 3)
    assert sorted(one.unscored or "" for one in verdict.items) == ["", "invalid_output"]
    assert verdict.detail == "one of two graders gave no valid rating"


@both_variants
@every_judge
def test_two_failed_graders_are_unscored(name: str, variant: Any) -> None:
    """Never a NaN: the reason is that of the failure."""
    verdict = load(name, model=grading("no", "no"), variant=variant)(EINSTEIN)
    assert (verdict.score, verdict.unscored, len(verdict.items)) == (None, "invalid_output", 2)
    assert verdict.raw
    verdict = load(name, model=grading(OSError("gone"), OSError("gone")), variant=variant)(EINSTEIN)
    assert (verdict.score, verdict.unscored) == (None, "judge_failed")


@pytest.mark.parametrize("rating", [1, 3, 5, -2, 10, 2024, "4", "4.0", 4.0, True, None])
def test_a_rating_is_one_of_the_set(rating: object) -> None:
    """Neither 1 and 3, nor what merely looks like a rating, is taken for one."""
    verdict = load(ACCURACY, model=grading(rating, rating))(EINSTEIN)
    assert verdict.unscored == "invalid_output"


@pytest.mark.parametrize("rating", [3, 4, 10, 12, "2", 2.0, True, "0 out of 2"])
@pytest.mark.parametrize("name", [RELEVANCE, GROUNDEDNESS])
def test_no_digit_is_searched_in_text(name: str, rating: object) -> None:
    """The other two take 0, 1 and 2."""
    assert load(name, model=grading(rating, rating))(EINSTEIN).unscored == "invalid_output"


@pytest.mark.parametrize(
    ("ratings", "flagged"), [((0, 4), True), ((4, 0), True), ((2, 4), False), ((0, 0), False)]
)
def test_opposite_ratings_are_flagged(ratings: tuple[int, int], flagged: bool) -> None:  # noqa: FBT001 - a case
    """0 against the highest is told as low confidence."""
    verdict = load(ACCURACY, model=grading(*ratings))(EINSTEIN)
    told = "low confidence: the graders disagree, 0 against 4"
    assert verdict.detail == (told if flagged else "")


@pytest.mark.parametrize(
    ("ratings", "advice", "feedback"),
    [
        ((2, 0), ("Name the day.", "Add the month."), "Name the day.\nAdd the month."),
        ((2, 2), ("Name the day.", " Name the day. "), "Name the day."),
        ((4, 2), ("Nice.", "Name the day."), "Name the day."),
        ((4, 4), ("Nice.", "Nice."), ""),
    ],
)
def test_the_feedback_is_that_of_the_graders_who_found_fault(
    ratings: tuple[int, int], advice: tuple[str, str], feedback: str
) -> None:
    """Praise is dropped, and nothing is said twice."""
    verdict = load(ACCURACY, model=grading(*ratings, advice=advice))(EINSTEIN)
    assert verdict.feedback == feedback
    assert all(f"Because {rating}." in verdict.rationale for rating in ratings)


def test_the_feedback_on_contexts_is_for_the_retriever() -> None:
    """It says first that no rewrite of the answer can mend it; none where all is good."""
    verdict = load(RELEVANCE, model=grading(1, 2, advice=("Search for the day.", "")))(EINSTEIN)
    assert verdict.feedback == f"{prompt('retriever', 'en').feedback['note']}\nSearch for the day."
    assert load(RELEVANCE, model=grading(2, 2))(EINSTEIN).feedback == ""


@pytest.mark.parametrize(
    ("name", "fields", "score"),
    [
        (RELEVANCE, {"user_input": " "}, 0.0),
        (RELEVANCE, {"retrieved_contexts": []}, 0.0),
        (RELEVANCE, {"retrieved_contexts": [" ", ""]}, 0.0),
        (RELEVANCE, {"user_input": "what about cats and dogs", "retrieved_contexts": ["cats"]}, 0.0),
        (RELEVANCE, {"user_input": "cats", "retrieved_contexts": [" cats "]}, 0.0),
        (GROUNDEDNESS, {"response": ""}, 0.0),
        (GROUNDEDNESS, {"retrieved_contexts": None}, 0.0),
        (GROUNDEDNESS, {"response": " a physicist "}, 1.0),
        (GROUNDEDNESS, {"response": "a\nb", "retrieved_contexts": ["a", "b"]}, 1.0),
    ],
)
def test_compat_takes_the_shortcuts_of_the_reference(name: str, fields: dict[str, Any], score: float) -> None:
    """What ragas decides without a model costs no call, and a 0 still says what to do."""
    verdict = load(name, model=grading(1, 1), variant="compat")({**EINSTEIN, **fields})
    assert (verdict.value, verdict.score, verdict.usage.calls) == (score, score, 0)
    assert bool(verdict.feedback) == (score == 0)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        (RELEVANCE, {"user_input": "what about cats and dogs", "retrieved_contexts": ["cats"]}),
        (GROUNDEDNESS, {"response": "a physicist"}),
    ],
)
def test_corrected_has_no_shortcut(name: str, fields: dict[str, Any]) -> None:
    """Shared words decide nothing: the graders do."""
    verdict = load(name, model=grading(1, 2))({**EINSTEIN, **fields})
    assert (verdict.score, verdict.usage.calls) == (0.75, 2)


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        (ACCURACY, {"response": " "}, "no_response"),
        (ACCURACY, {"reference": ""}, "no_reference"),
        (ACCURACY, {"user_input": ""}, "no_question"),
        (RELEVANCE, {"user_input": ""}, "no_question"),
        (RELEVANCE, {"retrieved_contexts": [" "]}, "no_contexts"),
        (GROUNDEDNESS, {"response": None}, "no_response"),
        (GROUNDEDNESS, {"retrieved_contexts": []}, "no_contexts"),
    ],
)
def test_nothing_to_judge_is_unscored(name: str, fields: dict[str, Any], reason: str) -> None:
    """What is missing is told, without a call."""
    verdict = load(name, model=grading(2, 2))({**EINSTEIN, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


def test_the_threshold_decides() -> None:
    """A mean of 0.75 passes at 0.5, and fails at 0.8."""
    passed = [load(ACCURACY, model=grading(4, 2), threshold=one)(EINSTEIN).passed for one in (0.5, 0.8)]
    assert passed == [True, False]


def test_a_question_in_chinese_is_put_in_chinese() -> None:
    """The packs follow the language of the question."""
    model = grading(2, 2)
    load(ACCURACY, model=model)(user_input="爱因斯坦哪年出生？", response="1879 年。", reference="1879 年。")
    wanted = {prompt(f"answer_accuracy{one}", "zh").task for one in ("", "_second")}
    assert all(any(task in messages[0].text for task in wanted) for messages in model.prompts)
