"""Intervals of mean scores and pass rates: over questions, and as wide as they say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from judges.offline import compare_runs, evaluate
from judges.offline.statistics.intervals import _student, bounded_interval, paired_interval, wilson

Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]]
"""Draws the values of questions: simulations by questions."""


def passes(share: float, repeats: int) -> Draw:
    """Return pass rates of questions that are all as hard."""
    return lambda random, size: random.binomial(repeats, share, size) / repeats


def varied_passes(a: float, b: float, repeats: int) -> Draw:
    """Return pass rates of questions that are differently hard."""
    return lambda random, size: random.binomial(repeats, random.beta(a, b, size)) / repeats


def ratings(shares: list[float], repeats: int) -> Draw:
    """Return mean scores of questions whose answers are rated 1 to 4 with these shares."""
    return lambda random, size: random.multinomial(repeats, shares, size) @ (np.arange(4) / 3) / repeats


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize(
    ("mean", "draw"),
    [
        (0.8, passes(0.8, 1)),
        (0.95, passes(0.95, 1)),
        (0.9, passes(0.9, 10)),
        (0.8, varied_passes(4, 1, 10)),
        (0.95, varied_passes(9.5, 0.5, 10)),
        (0.95, varied_passes(0.95, 0.05, 10)),
        (0.97, varied_passes(0.97, 0.03, 10)),
        (2 / 3, ratings([0.1, 0.2, 0.3, 0.4], 1)),
        (2.56 / 3, ratings([0.02, 0.05, 0.28, 0.65], 1)),
        (2.56 / 3, ratings([0.02, 0.05, 0.28, 0.65], 5)),
    ],
)
def test_an_interval_covers_what_it_says(n: int, mean: float, draw: Draw) -> None:
    """At 95 % the true mean lies in 92 to 97 of 100 intervals, within the simulation's error of half a point."""
    values = draw(np.random.default_rng(n), (1_500, n)).tolist()
    intervals = np.array([bounded_interval(of_run) for of_run in values])
    assert 0.915 <= ((intervals[:, 0] <= mean) & (mean <= intervals[:, 1])).mean() <= 0.975
    assert (intervals[:, 1] > intervals[:, 0]).all()


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize(("before", "after", "alike"), [(0.8, 0.85, 0.0), (0.95, 0.97, 0.0), (0.8, 0.85, 0.5)])
def test_an_interval_of_differences_covers_where_few_differ(
    n: int, before: float, after: float, alike: float
) -> None:
    """Of pass rates that differ on few questions at least 92 of 100 intervals hold the true difference."""
    random = np.random.default_rng(n)
    first, other, is_alike = random.random((3, 1_000, n))
    gaps = (np.where(is_alike < alike, first, other) < after).astype(float) - (first < before)
    intervals = np.array([paired_interval(of_run) for of_run in gaps.tolist()])
    true = after - before
    assert ((intervals[:, 0] <= true) & (true <= intervals[:, 1])).mean() >= 0.92


def test_equal_values_have_a_width_and_passes_have_wilsons_interval() -> None:
    """Nothing is known for sure from 20 answers; and the quantile of t is that of scipy."""
    assert bounded_interval([1.0] * 20) == wilson(20, 20)
    assert bounded_interval([1.0] * 15 + [0.0] * 5) == pytest.approx(wilson(15, 20))
    low, high = bounded_interval([2 / 3] * 20)
    assert 0.01 < high - low < 0.1
    for freedom in (1, 2, 3, 10, 200):
        assert _student(freedom, 0.975) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.01)


def test_rows_of_one_question_count_as_one() -> None:
    """Ten answers to each of 20 questions are 20 cases, by text or `question_id`; of one question they are 200."""
    rows = [{"question": f"q {n % 20}", "answer": "long" if n % 20 < 4 else "s"} for n in range(200)]
    summary = evaluate(rows, "length:at_most=3")["length"]
    assert (summary.scored, summary.questions) == (200, 20)
    assert summary.mean == pytest.approx(0.8)
    assert summary.passed_interval == pytest.approx(wilson(16, 20))
    named = [{**row, "question": f"q {n}", "question_id": n % 20} for n, row in enumerate(rows)]
    assert evaluate(named, "length:at_most=3")["length"].mean_interval == summary.mean_interval
    single = evaluate([{**row, "question": "q"} for row in rows], "length:at_most=3")["length"]
    assert single.questions is None
    assert single.passed_interval == pytest.approx(wilson(160, 200))
    uneven = [{"question": "a", "answer": "s"}, *({"question": "b", "answer": "long"} for _ in range(3))]
    assert evaluate(uneven, "length:at_most=3")["length"].mean == 0.5


def test_two_runs_are_compared_by_question() -> None:
    """Of two runs side by side each question counts once, however often it is asked."""
    asked = ["a", "b", "b", "b", "c"]
    first, second = (
        evaluate([{"question": q, "answer": "s" if q in good else "long"} for q in asked], "length:at_most=3")
        for good in ("a", "abc")
    )
    change = compare_runs(first, second)["length"]
    assert [change.mean_a, change.mean_b] == pytest.approx([1 / 3, 1])
    assert [change.difference.value, change.win_rate.value] == pytest.approx([2 / 3, 2.5 / 3])
    assert (change.wins, change.difference.n, change.test) == (4, 3, "McNemar, exact")
