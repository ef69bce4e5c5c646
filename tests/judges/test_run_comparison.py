"""Comparing two evaluations of the same questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from judges import ConfigurationError
from judges.offline import Evaluation, compare, compare_runs, evaluate


def run(scores: Sequence[float | None], *, question: str = "question", judge: str = "good") -> Evaluation:
    """Make an evaluation whose rows have these scores."""
    rows = [{"question": f"{question} {i}", "answer": "x" * (i % 7 + 1)} for i in range(len(scores))]
    left = iter(scores)
    return evaluate(rows, {judge: lambda sample: next(left)}, max_concurrency=1)


def test_a_real_change_is_told_from_chance() -> None:
    """Twelve questions more pass and one fewer: significant; of three more, one fewer: it may be chance."""
    before, after = [0.0] * 12 + [1.0] * 28, [1.0] * 12 + [1.0] * 27 + [0.0]
    change = compare_runs(run(before), run(after))["good"]
    assert change.test == "McNemar, exact"
    assert change.p == pytest.approx(0.00341796875)
    assert change.is_real
    assert (change.wins, change.losses, change.ties) == (12, 1, 27)
    assert change.regressions == (39,)
    assert change.difference.value == pytest.approx(11 / 40)
    assert change.questions_needed is not None
    small = compare_runs(run([0.0] * 3 + [1.0] * 10), run([1.0] * 12 + [0.0]))["good"]
    assert not small.is_real
    assert "may be chance" in str(compare_runs(run([0.0] * 3 + [1.0] * 10), run([1.0] * 12 + [0.0])))


def test_graded_scores_are_compared_by_sign_flips() -> None:
    """Scores between 0 and 1 take the sign-flip test and the bootstrap interval; unscored rows are excluded."""
    before = [0.1, 0.5, None, 0.3, 0.2, 0.4, 0.9, 0.3]
    after = [0.4, 0.6, 0.9, None, 0.5, 0.4, 0.8, 0.9]
    change = compare(run(before), run(after))["good"]
    assert change.test.startswith("sign flips")
    assert change.excluded == 2
    assert (change.wins, change.losses, change.ties) == (4, 1, 1)
    assert change.difference.low is not None
    assert change.p is not None
    assert 0.05 < change.p < 0.5


def test_several_judges_are_one_family() -> None:
    """p-values are raised by Holm over all judges, and judges of one run alone are named."""

    def both(first: float, second: float) -> Evaluation:
        rows = [{"question": str(i), "answer": "a"} for i in range(10)]
        judges: dict[str, Any] = {"x": lambda sample: first, "y": lambda sample: second}
        return evaluate(rows, judges)

    comparison = compare_runs(both(0.2, 0.5), both(0.4, 0.5), names=("old", "new"))
    assert comparison["x"].p == pytest.approx(2 / 1024)
    assert comparison["x"].adjusted_p == pytest.approx(4 / 1024)
    assert comparison["y"].p == 1
    same = comparison["y"].difference
    assert same.low is not None
    assert same.low < -0.2  # ten equal questions are not all there are
    assert "+0.000 (95 %: -0.278 to +0.278)" in str(comparison)
    assert "new against old" in str(comparison)
    other = compare_runs(both(0.2, 0.5), evaluate([{"question": "0", "answer": "a"}], {"x": lambda s: 1.0}))
    assert (other.only_a, other.other_rows) == (("y",), ("9 rows are missing",))


def test_runs_that_cannot_be_compared_are_refused() -> None:
    """Other questions, other judges, or rows that were not kept are refused in one line."""
    with pytest.raises(ConfigurationError, match="no question in common"):
        compare_runs(run([1.0]), run([1.0], question="other"))
    with pytest.raises(ConfigurationError, match="no judge in common"):
        compare_runs(run([1.0]), run([1.0], judge="bad"))
    rows = [{"question": "q", "answer": "a"}]
    with pytest.raises(ConfigurationError, match="keep_rows=True"):
        compare_runs(evaluate(rows, {"good": lambda s: 1.0}, keep_rows=False), run([1.0]))


def test_rows_are_paired_by_what_they_ask() -> None:
    """A missing row or another order costs no pair; rows without a question have their place alone."""
    rows = [{"question": f"q {i % 7}", "answer": "a" * (i % 5)} for i in range(14)]
    judge = {"long": lambda sample: len(sample.answer) / 4}
    whole = evaluate(rows, judge)
    for other, changes in ((rows[:3] + rows[4:], ("1 row is missing",)), (rows[::-1], ())):
        comparison = compare_runs(whole, evaluate(other, judge))
        assert comparison.other_rows == changes
        assert comparison["long"].difference.n == 7
    moved = compare_runs(whole, evaluate([*rows[:13], {"question": "q 6", "answer": ""}, rows[0]][1:], judge))
    assert 12 in moved["long"].regressions
    assert moved.other_rows == ()
    alone = [{"answer": "a" * (i % 5)} for i in range(10)]
    change = compare_runs(evaluate(alone, judge), evaluate(alone[::-1], judge))["long"]
    assert change.difference.n == 10
    assert change.difference.low is not None


def test_rows_that_one_run_could_not_score_are_said() -> None:
    """The report counts rows that are left out."""
    assert "2 scored in one run alone" in str(compare(run([0.1, None, 0.3]), run([None, 0.2, 0.4])))
