"""The plain functions at their edges: the smallest samples, exact ties, and which argument a wrong call names."""

import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from judges.certificate import CertifiedRow, Subject, aligned_lines
from judges.offline import statistics as st
from judges.offline.statistics.certificates import _fallback, questions_needed
from judges.offline.statistics.comparing import sample_test
from judges.offline.statistics.correction import labels_alone
from judges.offline.statistics.intervals import bounded_interval, clopper_pearson, paired_interval
from judges.offline.statistics.judge_agreement import rating_figures
from judges.offline.statistics.replay import curve_intervals

RATED = [1, 2, 3, 4] * 10
PASSED = [1, 0] * 10

CALLS: dict[Callable[..., Any], tuple[Any, ...]] = {
    partial(st.agreement, resamples=20): (RATED, RATED),
    st.certify: ({4: (40, 0)},),
    st.certify_runs: ([([4], [False])] * 40,),
    st.certify_weighted: ([[(0.0, 1.0, number) for number in range(40)]],),
    st.confidence_sequence: (1, 3),
    partial(st.n_pairs, sd=1.0): (0.1,),
    st.ppi_mean: ([0.1, 0.2] * 10, [0.2, 0.1] * 10, [0.3, 0.4] * 10),
    st.ppi_rate: (PASSED, PASSED, PASSED),
    st.rogan_gladen: (1, 10, 100, 200, 199, 200),
    st.stratified_rate: ([0.5, 0.5], 100, [10, 10], [5, 6]),
    st.win_rate: (["AB", "AA"],),
    bounded_interval: ([0.1, 0.4],),
    clopper_pearson: (1, 3),
    paired_interval: ([0.1, -0.4],),
    st.wilson: (1, 3),
}
"""A call that is right, for the functions that take a share: a level, an alpha or a delta."""


@pytest.mark.parametrize("function", CALLS)
def test_a_wrong_share_is_named(function: Callable[..., Any]) -> None:
    """A level, an alpha or a delta that is not between 0 and 1 is refused under its own name."""
    names = {"level", "alpha", "delta"} & set(inspect.signature(function).parameters)
    assert names
    function(*CALLS[function])
    for name in names:
        for value in (-2, 1, 95):
            with pytest.raises(ValueError, match=rf"\b{name}\b.* between 0 and 1.*{value}"):
                function(*CALLS[function], **{name: value})


def test_nothing_to_count_is_undefined_and_not_zero() -> None:
    """Empty and single samples have a reason, and no figure that looks like one."""
    empty = st.rank_metrics([], [])
    assert (empty.n, empty.auc, empty.average_precision, empty.brier, empty.ece) == (0, None, None, None, None)
    assert (empty.reason, st.rank_metrics([1], [0.5]).average_precision) == ("too_few", 1.0)
    none = st.replay_runs([], 3, 2)
    assert (none.runs, none.attempts, none.release_rate, none.mean_attempts, none.exact) == (
        0,
        0,
        None,
        None,
        True,
    )
    assert st.win_rate(["AB"]).low is st.win_rate(["AB"]).high is st.win_rate(["AB"]).se is None
    assert (st.win_rate([]).value, st.win_rate([".."]).excluded) == (None, 1)
    assert labels_alone([0.4]).low is None
    assert st.pass_at_attempt([], 3) == []
    assert curve_intervals([], []) == []
    assert sample_test([{"kind": "a"}], [True]) is sample_test([{}, {}], [True, False]) is None
    assert st.spearman([1, 2], [2, 1]) is None
    assert st.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)


def test_bias_tests_of_one_probe_have_no_spread() -> None:
    """A single probe has an effect and no standard error; ratings that length explains wholly have no figures."""
    one = st.bias_report(self_preference=[(4, 3, 3, 3)])["self-preference"]
    assert (one.effect, one.figures["se"], one.reason, one.p) == (1.0, None, "too_few", None)
    two = st.bias_report(self_preference=[(4, 3, 3, 3), (3, 3, 3, 3)])["self-preference"]
    assert two.figures["se"] == pytest.approx(0.5)
    assert two.figures["p"] == pytest.approx(1.0)
    flat = st.bias_report(length=(RATED, RATED, [3] * 40, [0.1 * row for row in range(40)]))["length"]
    assert isinstance(flat, st.BiasTest)
    assert (flat.reason, flat.figures, flat.effect) == ("not_identified", {}, None)


def test_a_pass_at_attempt_has_an_error_until_all_passed() -> None:
    """Greenwood's error is undefined once every run at risk passes, and the curve is 1 there."""
    half, all_of_them = st.pass_at_attempt([[1, 4], [4], [1, 4]], 3)
    assert (half.at_risk, half.passed) == (3, 1)
    assert half.cumulative == pytest.approx(1 / 3)
    assert half.se == pytest.approx(math.sqrt(2 / 27))
    assert (all_of_them.at_risk, all_of_them.cumulative, all_of_them.se) == (2, 1.0, None)


def test_the_curve_of_passes_has_an_interval_for_each_attempt() -> None:
    """It lies around the curve, rises with it, is narrower at a lower level, and resamples whole questions."""
    ended, passed = [1, 2, 3, 3] * 10, [True, True, True, False] * 10
    wide, narrow = (curve_intervals(ended, passed, level=level, resamples=400) for level in (0.95, 0.5))
    for (low, high), (lower, higher), share in zip(wide, narrow, (0.25, 0.5, 0.75), strict=True):
        assert 0 < low < lower <= share <= higher < high < 1
    assert [low for low, _ in wide] == sorted(low for low, _ in wide)
    assert wide[0] == pytest.approx(st.wilson(10, 40), abs=0.03)
    together = curve_intervals(ended, passed, clusters=[row // 20 for row in range(40)], resamples=400)
    assert together[0] == pytest.approx((0.25, 0.25))  # both halves are alike
    apart = curve_intervals(ended, passed, clusters=[row % 4 for row in range(40)], resamples=400)
    assert apart[0][1] - apart[0][0] > wide[0][1] - wide[0][0]
    assert curve_intervals([1, 2], [False, False], resamples=20) == [(0.0, 0.0), (0.0, 0.0)]


def test_an_interval_of_a_win_rate_stays_within_0_and_1() -> None:
    """Few pairs that nearly all fall to one side have an interval that is cut off at the end of the scale."""
    high, low = st.win_rate(["AA", "AA", "AA", "AT"]), st.win_rate(["BB", "BB", "BB", "BT"])
    assert (high.high, low.low) == (1.0, 0.0)
    assert high.low == pytest.approx(1 - low.high) if low.high is not None else False


def test_equal_length_differences_leave_nothing_to_adjust() -> None:
    """Answers whose lengths all differ by as much say nothing about length."""
    preferences: Sequence[float] = [0.2, 0.8] * 10
    assert st.length_adjusted(preferences, [10] * 20, [15] * 20).reason == "zero_variance"


def test_a_mean_is_corrected_by_a_single_further_score() -> None:
    """One unlabelled row has no spread of its own; its own and the labelled rows' scores give one."""
    labels, scores = [0.1 * row for row in range(10)] * 2, [0.1 * row + 0.05 for row in range(10)] * 2
    one = st.ppi_mean(labels, scores, [0.5])
    assert one.value is not None
    assert one.low is not None
    assert one.low < one.value


def test_promises_hold_exactly_at_their_bounds() -> None:
    """As many cases as just suffice do, one fewer do not, and a policy that releases nothing proves nothing."""
    for mean, alpha in ((0.0, 0.1), (0.02, 0.1)):
        needed = questions_needed(alpha, 0.05, mean)
        assert needed is not None
        assert st.hoeffding_bentkus(mean, needed, alpha) <= 0.05 < st.hoeffding_bentkus(mean, needed - 1, alpha)
        assert questions_needed(alpha, st.hoeffding_bentkus(mean, needed, alpha), mean) == needed
    assert questions_needed(0.1, 0.05, 0.1) is None
    least = st.labels_needed(0.1, 0.05)
    assert least == 29
    assert st.certify({4: (29, 0)}, 0.1, 0.05).certified == 4
    assert st.certify({4: (28, 0)}, 0.1, 0.05).certified is None
    nothing = st.certify({4: (0, 0)}, 0.1, 0.05, method="fallback")
    assert (nothing.certified, nothing.rows[0].status, nothing.rows[0].p) == (None, "refused", 1.0)
    assert _fallback([0.05, 0.05], 0.1) == [True, True]
    assert _fallback([0.051, 0.05], 0.1) == [False, True]


def test_the_alarm_statistic_by_hand() -> None:
    """Without a share worth an alarm it takes twice the certified one, or half way to 1 where that is less."""
    assert st.e_cusum([1, 0, 1], 0.1) == pytest.approx([2, 2 * 8 / 9, 4 * 8 / 9])
    assert st.e_cusum([1, 0], 0.8) == pytest.approx([0.9 / 0.8, 0.9 / 0.8 * 0.1 / 0.2])


def test_weights_and_levels_of_figures_about_ratings() -> None:
    """Whole numbers, and truth values, are read as the ratings and the weights that they are."""
    figures = rating_figures([1, 2, 3, 4], [1, 2, 3, 3], weights=[1, 1, 1, 3], resamples=50)
    assert figures["exact"].value == pytest.approx(0.5)
    assert figures["mean_difference"].value == pytest.approx(-0.5)
    lazy = st.alt_test([[4, 1] * 20] * 3, [4, 1] * 20)
    assert (lazy.passed, lazy.winning_rate, lazy.rows) == (True, 1.0, {0: 40, 1: 40, 2: 40})


def test_each_public_statistic_says_what_it_returns() -> None:
    """Every function of the package has a docstring that begins with a verb, and a return type."""
    functions = [getattr(st, name) for name in st.__all__]
    plain = [one for one in functions if inspect.isfunction(one)]
    assert len(plain) > 30
    lacking = [one.__name__ for one in plain if not one.__doc__ or "return" not in one.__annotations__]
    assert not lacking


def test_rows_of_a_certificate_as_they_are_printed() -> None:
    """Cells are aligned to the right of the first; a mark stands where there is nothing to say."""
    assert list(aligned_lines([("from", "n"), ("4", "120"), ("3.5", "7")])) == [
        "from    n",
        "4     120",
        "3.5     7",
    ]
    row = CertifiedRow(
        policy=(4, 5), released=0, bad=0, status="too_few", broken=1, first_good=8, broken_upper=0.25
    )
    assert (row.policy_text, row.breaks_text) == (
        "4 / never",
        "1 of 8 good first answers come out bad, at most 25.0%",
    )


def test_what_a_retry_shows_is_compared_once() -> None:
    """Where what the generator is shown changed, the setting behind it is not named a second time."""
    before = Subject(judge_digest="a", policy={"feedback": "x", "augment": "one", "max_attempts": 2})
    after = Subject(judge_digest="a", policy={"feedback": "y", "augment": "two", "max_attempts": 3})
    assert before.changes(after) == [
        "what the generator is shown on a retry (augment) changed",
        "max_attempts was 2 and is 3",
    ]
    assert st.mcnemar(0, 0) == 1.0


def test_random_sign_patterns_are_counted_to_the_last() -> None:
    """Differences that cancel are no finding, however many patterns are drawn at once."""
    assert st.sign_flip([1.0, -1.0] * 20, flips=200) == 1.0
    assert st.sign_flip([1.0, -1.0] * 20_000, flips=300) == 1.0
    assert st.sign_flip([1.0] * 40, flips=200) == pytest.approx(1 / 201)
    assert st.sign_flip([1.0, 1.0, -1.0]) == 1.0


def test_arms_are_compared_with_what_they_began_with_and_with_the_baseline() -> None:
    """Of each arm what it mended and broke, over the rows of which enough is known."""
    first = [False, False, False, True, True, None]
    arms: dict[str, list[bool | None]]
    arms = {"again": [True, False, False, True, False, True], "told": [True, True, None, True, True, True]}
    effects = st.arm_effects(first, arms, baseline="again")
    assert (effects["again"].own.n, effects["again"].own.mended, effects["again"].own.broken) == (5, 1, 1)
    assert (effects["told"].own.n, effects["told"].own.mended, effects["told"].own.broken) == (4, 2, 0)
    assert (effects["again"].beside, effects["again"].p) == (None, None)
    beside = effects["told"].beside
    assert beside is not None
    assert (beside.n, beside.mended, beside.broken) == (5, 2, 0)
    apart = st.arm_effects(first, arms, baseline="again", clusters=list("aabbcc"))
    assert apart["told"].own.n == 4


def test_what_a_few_rows_say_is_told_as_it_is() -> None:
    """Ties, single labels, equal answers and a second judgement that ends early have the figures they should."""
    even = st.bias_report(cues={"authority": [(2, 3), (3, 2)] * 15})["authority"]
    assert even.p == pytest.approx(0.5722, abs=1e-4)  # of 30 changes at most 15 down
    assert (labels_alone([0.4]).n, labels_alone([0.4]).value) == (1, 0.4)
    assert paired_interval([0.0] * 18) == pytest.approx((-0.1056, 0.1056), abs=1e-3)
    changes = st.gains([[1, 2, 3], [2, 4]], [[2, 2], [2]])
    assert [(gain.n, gain.mean, gain.unbiased, gain.rejudged) for gain in changes] == [
        (2, 1.5, 1.0, 2),
        (1, 1.0, 1.0, 1),
    ]
    low, high = st.confidence_sequence(3, 20)
    assert st.confidence_sequence(17, 20) == pytest.approx((1 - high, 1 - low))
    assert st.confidence_sequence(0, 10**6)[1] < 1e-4 < 1 - 1e-4 < st.confidence_sequence(10**6, 10**6)[0]
    rate = st.ppi_rate([1, 1, 0, 0] * 5, [1, 0, 0, 0] * 5, [1, 0] * 10)
    assert rate.correlation == pytest.approx(1 / math.sqrt(3))
    with pytest.raises(ValueError, match=r"labels are levels of the scale \(1, 2\), not 1 and 3"):
        st.cohen_kappa([1], [3], levels=(1, 2))
    with pytest.raises(ValueError, match=r"^method is"):
        st.certify({4: (40, 0)}, method="x")  # type: ignore[arg-type]
