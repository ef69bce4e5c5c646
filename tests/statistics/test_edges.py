"""The plain functions at their edges and on wrong, odd and very large input: one clear line or a defined value."""

import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from judges.certificate import CertifiedRow, Subject, aligned_lines
from judges.offline import align
from judges.offline import statistics as st
from judges.offline.statistics.certificates import _fallback, questions_needed
from judges.offline.statistics.comparing import sample_test
from judges.offline.statistics.correction import labels_alone
from judges.offline.statistics.intervals import bounded_interval, clopper_pearson, paired_interval
from judges.offline.statistics.judge_agreement import rating_figures
from judges.offline.statistics.replay import curve_intervals, replay_each
from judges.offline.trust.certify import CertifySettings
from tests.laws import for_every

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


@for_every("function", CALLS)
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
    assert [(figure.reason, figure.n) for figure in st.best_and_last([[None]])] == [("too_few", 0)] * 2
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
    assert st.human_likeness([[4, 1] * 20] * 4, [4, 1] * 20) is None
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
    few = (st.length_adjusted(preferences[:n], [1, 5][:n], [3, 2][:n], resamples=9).reason for n in (1, 2))
    assert [reason == "too_few" for reason in few] == [True, False]


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
    alone = labels_alone([0.4])
    assert (alone.n, alone.value, alone.method) == (1, 0.4, "labels alone")
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


NAN = math.nan
RATERS = [[4, 1] * 20] * 3
SPREAD = [0.1 * i for i in range(40)]


def wrong(function: Callable[..., object], *arguments: object, **settings: object) -> Callable[[], object]:
    """Return a call that a type checker would refuse."""
    return partial(function, *arguments, **settings)


WRONG: list[tuple[Callable[[], object], str]] = [
    (wrong(st.holm, [0.5, 1.5]), "a p-value is a number from 0 to 1, not 1.5"),
    (wrong(replay_each, [[1], [2]], 4, 2, scores=[[0.1]]), "shorter"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], weights=[1, 2]), r"weights has a value for each row.*3, 2"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], weights=[1, -2, 3]), "weights are numbers at least 0.*1 is -2"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], weights=[0, 0, 0]), "weights are all 0"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], scores=[0.1, 0.2]), "scores has a value for each row"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], scores=[0.1, 0.2, NAN], resamples=9), "scores are finite numbers"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], clusters="ab"), "clusters has a value for each row"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], resamples=0), "resamples is at least 1, not 0"),
    (wrong(st.agreement, 5, 5), "human is a list, not 5"),
    (wrong(st.agreement, [5], 5), "judge is a list, not 5"),
    (wrong(st.cohen_kappa, [1, 2], [1, 2], weighting="cubic"), "weighting is 'none', 'linear' or 'quadratic'"),
    (wrong(st.cohen_kappa, [1, 2], [1, 2], weights=[NAN, 1]), "weights are finite numbers"),
    (wrong(st.krippendorff_alpha, [[NAN, 1], [1, 2]]), "ratings are finite numbers.*nan"),
    (wrong(st.krippendorff_alpha, ["43", "33"]), "the ratings of a unit is a list, not '43'"),
    (wrong(st.gwet_ac, [[5, 1]]), r"ratings are levels of the scale \(1, 2, 3, 4\).*not 5"),
    (wrong(st.rank_metrics, [1, 0], [NAN, 0.5]), "scores are finite numbers"),
    (wrong(st.rank_metrics, [2, 0], [0.4, 0.5]), "labels are True or False.*2.0"),
    (wrong(st.alt_test, [*RATERS[:2], [1] * 39], [1] * 40), "their lengths are 40, 40, 40, 39"),
    (wrong(st.alt_test, RATERS, [1] * 40, epsilon=1), "epsilon is 0 or more and below 1"),
    (wrong(st.alt_test, RATERS, [1] * 40, least_rows=1), "least_rows is at least 2"),
    (wrong(st.certify, {4: (29.5, 0)}), "a count of policy 4 is a whole number, not 29.5"),
    (wrong(st.certify, 5), "counts is a list, not 5"),
    (wrong(st.certify, {4: 29}), r"the counts of a policy are \(released, bad\); policy 4 has 29"),
    (wrong(st.certify, {"4": (29, 0)}), "success ratings are finite numbers"),
    (wrong(st.certify, [(29, 0)], "0.1"), "alpha lies between 0 and 1"),
    (wrong(st.certify_runs, [4] * 40), "a run is .*run 0 is 4"),
    (wrong(st.certify_runs, [([4], ["good"])] * 40), "bad is True, False, or None.*'good'"),
    (wrong(st.certify_runs, [([4], [False])] * 40, risk="x"), "risk is 'released' or 'per_question'"),
    (wrong(st.certify_runs, [([4], [False])] * 40, max_attempts=1.5), "max_attempts is a whole number"),
    (wrong(st.n_pairs, 0.1, discordance=1.5), "discordance is at least the gain, 0.1, and at most 1; not 1.5"),
    (wrong(st.n_pairs, -0.2, discordance=0.1), "discordance is at least the gain, 0.2, and at most 1; not 0.1"),
    (wrong(st.mcnemar, [1, 0, 1], [1, 0]), "."),
    (wrong(st.e_value, 1.5, 10, 0.1), "a count is a whole number, not 1.5"),
    (wrong(st.replay_run, "334", 3, 3), "ratings is a list, not '334'"),
    (wrong(st.replay_run, [NAN], 3, 3), "a rating is a number, or None where it is unscored; not nan"),
    (wrong(st.replay_run, [3], None, 3), "threshold is a rating"),
    (wrong(st.ppi_rate, [0.5] * 10, [1] * 10, [1]), "labels are True or False"),
    (wrong(st.ppi_rate, [1] * 10, [1] * 10, [1, NAN]), "unlabelled are finite numbers"),
    (wrong(st.ppi_rate, [1] * 10, [1] * 10, [1], variant="x"), "variant is 'default' or 'reference'"),
    (wrong(st.ppi_mean, [None] + [0.4] * 9, [0.5] * 10, [0.5]), "labels are finite numbers.*None; leave it out"),
    (
        wrong(
            st.ppi_mean, [0.1] * 10, [0.5] * 10, [0.2], weights=[1] * 10, variant="reference", clusters=[1] * 10
        ),
        "either clusters or weights",
    ),
    (wrong(st.bias_report, position=["XX"]), "a pair has a place for each order.*'XX'"),
    (wrong(st.bias_report, position=["FFF"]), "a pair has a place for each order"),
    (wrong(st.bias_report, verbosity=[(3, NAN)] * 30), "ratings before and after verbosity are finite numbers"),
    (wrong(st.bias_report, verbosity=[3] * 30), "are rows of 2 numbers, not 3"),
    (wrong(st.bias_report, verbosity=[(3, 3)], cues={"verbosity": [(3, 4)]}), "verbosity was tested twice"),
    (wrong(st.bias_report, robustness={"a": [(None, "B", "A")]}), "none missing"),
    (wrong(st.bias_report, self_preference=[(4, 3, 3)] * 30), "are rows of 4 numbers"),
    (wrong(st.bias_report, length=([1] * 40, [1] * 40)), "length is .judge, rater, second rater or None"),
    (lambda: st.rank_metrics([1, 0], [0.2]), "give a label and a score of each row"),
    (lambda: st.agreement(RATED, RATED[1:]), "give a human's and the judge's label of each row"),
    (lambda: st.ppi_mean([1, 2], [1], [3]), "give a label and a score of each labelled row"),
    (lambda: replay_each([[1, 4]], 4, 2, scores=[[0.1]]), "scores has a score or None for each rating"),
    (lambda: st.arm_effects([True], {"a": [True], "b": [True, False]}, baseline="a"), "has 2 rows"),
    (lambda: st.bias_report(length=([1, 2], [1, 2], None, [0.1])), "length has the judge's ratings"),
    (lambda: st.bias_report(self_preference=[(1, 2)]), "ratings for self-preference"),
    (lambda: st.bias_report(leniency=[(1, 2, 3)]), "ratings by human and judge"),  # type: ignore[list-item]
    (lambda: st.stratified_rate([0.5, 0.4], 9, [1, 1], [1, 0]), "every stratum needs a label"),
    (lambda: st.stratified_rate([0.5, 0.5], 9, [1, 0], [1, 0]), "every stratum needs a label"),
    (lambda: st.n_per_arm(0.5, 1.5), "two different pass rates from 0 to 1, not 0.5 and 1.5"),
    (lambda: st.n_per_arm(-0.5, 0.5), "not -0.5 and 0.5"),
    (lambda: st.n_per_arm(0.5, 0.5), "two different"),
    (lambda: st.bias_report(cues=[(1, 2)]), "cues has its probes by name"),  # type: ignore[arg-type]
    (lambda: st.bias_report(robustness=[(1, 2, 3)]), "robustness has its probes by name"),  # type: ignore[arg-type]
    (lambda: CertifySettings(alpha=1.0), "alpha lies between 0 and 1.*not 1.0"),
    (lambda: CertifySettings(delta=0.0), "delta lies between 0 and 1.*not 0.0"),
    (lambda: st.certify({4: (3, 1)}, breaks={4: (3, 1)}), "breaks and break_at_most are given together"),
    (lambda: st.certify({4: (3, 1)}, break_at_most=0.1), "breaks and break_at_most are given together"),
    (lambda: st.certify({4: (3, 1)}, breaks={4: (3, 1)}, break_at_most=2), "break_at_most lies between 0 and 1"),
]


@for_every("call, message", WRONG)
def test_wrong_input_gets_one_line(call: Callable[[], object], message: str) -> None:
    """Wrong input raises a ValueError of one line that names what was given."""
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_strong_evidence_does_not_overflow() -> None:
    """Thousands of labels give a finite e-value, and a certificate, on either side of alpha."""
    assert st.certify({4: (3500, 10), 3: (8000, 200)}, 0.2, 0.05).certified == 3
    assert math.isfinite(st.e_value(0, 10**6, 0.1))
    assert st.e_value(500, 1000, 0.01) == pytest.approx(0.0020162926130153466, rel=1e-9)  # by its series
    assert st.e_value(10**5, 10**5, 0.1) == pytest.approx(1 / 100_001, rel=1e-9)  # the integral of (p / alpha)^n


def test_thresholds_may_be_scores() -> None:
    """Recorded loops are certified on a grid of scores as on ratings."""
    runs = [([0.97], [False])] * 40
    assert st.certify_runs(runs, thresholds=[0.95, 0.8]).certified == 0.8


def test_a_rate_without_errors_is_not_certain_where_questions_repeat() -> None:
    """No bad pass in 40 questions leaves an exact bound above 0, also where questions have several rows."""
    human, judge, questions = [4, 1] * 40, [4, 1] * 40, [i // 2 for i in range(80)]
    found = st.agreement(human, judge, clusters=questions, resamples=50)
    assert found["bad_among_passes"].high == pytest.approx(1 - 0.05 ** (1 / 40))
    assert found["tpr"].low == pytest.approx(0.025 ** (1 / 40))
    assert found["agreement"].low == pytest.approx(0.9123, abs=1e-3)  # Wilson, 40 of 40 questions


def test_only_ties_are_reported() -> None:
    """Where people are divided on every row, the report says so and does not fail."""
    labels = [{"by": "ann", "rating": 4}, {"by": "bob", "rating": 1}]
    rows = [{"user_input": f"q{i}", "response": "a", "rating": 4, "labels": labels} for i in range(12)]
    assert "of every row as many people say good as bad" in align(rows).report()


def test_a_bias_of_length_needs_questions() -> None:
    """A single question identifies no bias of length; what was not tested is named with what was."""
    columns = RATED, RATED, [2, 1, 4, 3] * 10, SPREAD
    assert st.bias_report(length=columns, clusters=[1] * 40)["length"].reason == "too_few"
    with pytest.raises(KeyError, match="'position' was not tested; tested were: length"):
        _ = st.bias_report(length=columns)["position"]
