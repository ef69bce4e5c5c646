"""A verdict keeps rating, score and pass mark consistent, or has the reason why there are none."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from judges import Unscored, Usage, Verdict


@pytest.mark.parametrize(("rating", "score"), [(1, 0), (2, 1 / 3), (3, 2 / 3), (4, 1)])
def test_a_native_rating_gives_the_score(rating: int, score: float) -> None:
    """A rating r means the score (r - 1) / 3 and passes from 3."""
    verdict = Verdict.rated(rating)
    assert (verdict.value, verdict.rating, verdict.score) == (rating, rating, score)
    assert verdict.passed is (rating >= 3)
    assert verdict.rated_natively


@pytest.mark.parametrize(
    ("score", "rating"),
    [(0, 1), (0.16, 1), (0.17, 2), (1 / 3, 2), (0.49, 2), (0.5, 3), (2 / 3, 3), (0.83, 3), (0.84, 4), (1, 4)],
)
def test_a_score_gives_the_rating(score: float, rating: int) -> None:
    """A score s means the rating 1 + round(3 s)."""
    verdict = Verdict.scored(score)
    assert (verdict.score, verdict.rating) == (score, rating)
    assert not verdict.rated_natively


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_score_passes_at_its_threshold(score: float, threshold: float) -> None:
    """The pass mark is reached, not exceeded; the rating is the rounded score."""
    verdict = Verdict.scored(score, threshold=threshold)
    assert verdict.passed is (score >= threshold)
    assert verdict.rating == 1 + round(3 * score)


@pytest.mark.parametrize(("passed", "rating"), [(True, 4), (False, 1)])
def test_a_check_gives_the_best_or_the_worst(passed: bool, rating: int) -> None:  # noqa: FBT001
    """Yes is 4 and 1.0, no is 1 and 0.0."""
    verdict = Verdict.checked(passed)
    assert (verdict.value, verdict.passed, verdict.rating, verdict.score) == (passed, passed, rating, passed)


@pytest.mark.parametrize("rating", [0, 5, -1, True, 4.0, "4", None])
def test_what_is_no_rating_is_refused(rating: Any) -> None:
    """A rating is an integer from 1 to 4; lookalikes are rejected."""
    with pytest.raises(ValueError, match="rating"):
        Verdict.rated(rating)


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan"), float("inf")])
def test_what_is_no_score_is_refused(score: float) -> None:
    """A score outside 0 to 1 is an error, never clamped."""
    with pytest.raises(ValueError, match="a score lies from 0 to 1, not"):
        Verdict.scored(score)


@pytest.mark.parametrize("reason", get_args(Unscored))
def test_unscored_is_no_score(reason: Unscored) -> None:
    """An unscored verdict has its reason and neither score, rating nor passed."""
    verdict = Verdict.without_score(reason, "why")
    assert (verdict.unscored, verdict.detail) == (reason, "why")
    assert (verdict.score, verdict.rating, verdict.passed, verdict.value) == (None, None, None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"score": 1.0, "rating": 4},
        {"unscored": "no_claims", "score": 0.0},
        {"unscored": "no_claims", "passed": False},
        {"unscored": "no_idea"},
    ],
    ids=repr,
)
def test_a_half_verdict_is_refused(fields: dict[str, Any]) -> None:
    """Score and rating without a pass mark are not enough, and none needs a known reason."""
    with pytest.raises(ValueError, match=r"verdict.* one$"):
        Verdict(**fields)


def test_a_native_rating_is_compared_as_it_is() -> None:
    """The gate of the loop counts for a native rating, not the judge's own pass mark."""
    verdict = Verdict.rated(3, success_rating=4)
    assert verdict.passed is False
    assert verdict.reaches(3)
    assert not verdict.reaches(4)


def test_a_score_must_also_reach_its_own_pass_mark() -> None:
    """A threshold fitted offline holds online: a good rating below it passes no gate."""
    assert not Verdict.scored(0.8, threshold=0.9).reaches(3)
    assert Verdict.scored(0.8, threshold=0.7).reaches(3)
    assert not Verdict.scored(0.4, threshold=0.3).reaches(3)


def test_a_level_of_another_scale_is_not_a_native_rating() -> None:
    """Level 3 of 1 to 5 happens to map onto rating 3, and still has to reach its own pass mark."""
    verdict = Verdict.scored(0.5, threshold=0.75, value=3)
    assert (verdict.value, verdict.rating) == (3, 3)
    assert not verdict.reaches(3)


@pytest.mark.parametrize("success_rating", [1, 2, 3, 4])
def test_unscored_opens_nothing(success_rating: int) -> None:
    """An unscored verdict passes no gate, not even the lowest."""
    assert not Verdict.without_score("judge_failed").reaches(success_rating)


VERDICTS = st.one_of(
    st.builds(Verdict.rated, st.sampled_from([1, 2, 3, 4]), feedback=st.text()),
    st.builds(Verdict.scored, st.floats(0, 1), subject=st.text(), usage=st.builds(Usage, cost=st.none())),
    st.builds(Verdict.checked, st.booleans(), model=st.none() | st.text(), latency_s=st.floats(0, 9)),
    st.builds(Verdict.without_score, st.sampled_from(get_args(Unscored)), raw=st.text()),
)


@given(VERDICTS, st.lists(VERDICTS, max_size=2))
def test_a_verdict_survives_json(verdict: Verdict, items: list[Verdict]) -> None:
    """A JSON round trip returns the same verdict, with the same types and the same result at every gate."""
    original = verdict.model_copy(update={"items": tuple(items)})
    restored = Verdict.model_validate_json(original.model_dump_json())
    assert restored == original
    assert type(restored.value) is type(original.value)
    assert [restored.reaches(mark) for mark in (1, 2, 3, 4)] == [original.reaches(mark) for mark in (1, 2, 3, 4)]


def test_a_verdict_is_frozen_and_takes_no_strange_field() -> None:
    """A verdict cannot be changed, and a misspelt field is an error."""
    with pytest.raises(ValidationError, match="frozen"):
        Verdict.checked(passed=True).feedback = "x"
    with pytest.raises(ValueError, match="a verdict has no 'reason'; it is rationale"):
        Verdict.checked(passed=True, reason="x")


def test_usages_add_up() -> None:
    """Calls, tokens and cost are summed, and `sum` works with a start."""
    usage = Usage(calls=1, input_tokens=10, output_tokens=5, cost=0.25)
    total = sum([usage, usage], Usage())
    assert total == Usage(calls=2, input_tokens=20, output_tokens=10, cost=0.5)
    assert total.tokens == 30


@pytest.mark.parametrize("costs", [(None, 0.5), (0.5, None), (None, None)])
def test_an_unknown_cost_stays_unknown(costs: tuple[float | None, float | None]) -> None:
    """A sum with an unknown part is unknown, not too low."""
    assert (Usage(calls=1, cost=costs[0]) + Usage(calls=1, cost=costs[1])).cost is None


@given(st.builds(Usage, calls=st.integers(0, 9), input_tokens=st.integers(0, 9), cost=st.none() | st.floats(0, 9)))
def test_nothing_adds_nothing(usage: Usage) -> None:
    """Adding what consumed nothing changes nothing, on either side; `bool` is whether anything was consumed."""
    assert usage + Usage() == usage
    assert not Usage()
    assert Usage() + usage == (usage or Usage())


@pytest.mark.parametrize("report", [None, -1, 10**12, float("nan"), float("inf"), "7", True, [7]])
def test_a_report_that_cannot_be_is_unknown(report: object) -> None:
    """Tokens that are missing, negative, absurd or no number are not taken, and never an error."""
    for usage in (Usage.of_call(report, 3), Usage.of_call(3, report)):
        assert (usage.calls, usage.tokens, usage.tokens_known, usage.cost) == (1, 3, False, None)
        assert not (usage + Usage.of_call(1, 2.0)).tokens_known
    assert Usage.of_call(1, 2.0) == Usage(calls=1, input_tokens=1, output_tokens=2, cost=None)


@pytest.mark.parametrize("field", ["calls", "input_tokens", "output_tokens", "cost"])
def test_nothing_is_used_less_than_not_at_all(field: str) -> None:
    """Negative counts are refused."""
    with pytest.raises(ValidationError, match=field):
        Usage.model_validate({field: -1})


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ({"rating": 2}, Verdict.rated(2)),
        ({"rating": 3, "feedback": "More."}, Verdict.rated(3, feedback="More.")),
        ({"score": 0.7}, Verdict.scored(0.7)),
        ({"passed": False}, Verdict.checked(False)),  # noqa: FBT003 - the result of the check
        ({"score": 1.0, "passed": True}, Verdict.scored(1.0)),
        ({"score": 0.8, "passed": False}, Verdict.scored(0.8, threshold=0.9)),
        ({"score": 0.2, "passed": True, "value": "low"}, Verdict.scored(0.2, threshold=0.1, value="low")),
        ({"rating": 3, "passed": False}, Verdict.rated(3, success_rating=4)),
        ({"rating": 4, "passed": True}, Verdict.rated(4)),
        ({"rating": 1, "passed": True}, Verdict.rated(1, success_rating=1)),
    ],
    ids=str,
)
def test_one_mark_implies_the_others(marks: dict[str, Any], expected: Verdict) -> None:
    """A verdict made from one mark, or from one and a pass mark, equals that of the constructor method."""
    assert Verdict(**marks) == expected


@pytest.mark.parametrize(
    "marks",
    [
        *({"rating": 5}, {"rating": True}, {"score": 1.5}, {"rating": 3, "score": 0.7}),
        *({"score": 1.5, "passed": True}, {"rating": 0, "passed": False}, {"rating": 4, "passed": False}),
        {"unscored": "undefined", "score": 1.0, "passed": True},
    ],
    ids=str,
)
def test_a_mark_out_of_range_or_half_given_is_refused(marks: dict[str, Any]) -> None:
    """Marks that cannot be completed are rejected, and two marks never lead to a guess at the third."""
    with pytest.raises(ValueError, match=r"Verdict\.checked\(True\) make one$"):
        Verdict(**marks)


@pytest.mark.parametrize(
    ("verdict", "passed"),
    [
        (Verdict.rated(4), True),
        (Verdict.rated(2), False),
        (Verdict.checked(passed=False), False),
        (Verdict.without_score("no_claims"), False),
    ],
)
def test_a_verdict_is_true_where_it_passed(verdict: Verdict, *, passed: bool) -> None:
    """`if judge(...)` asks whether the judge's pass mark was reached; an unscored verdict reached none."""
    assert bool(verdict) is passed
