"""The plain functions on wrong, odd and very large input: one clear line or a defined value, never NaN."""

import math
from collections.abc import Callable
from functools import partial

import pytest

from judges.offline import align
from judges.offline import statistics as st
from judges.offline.statistics.replay import replay_each
from judges.offline.trust.certify import CertifySettings

NAN = math.nan
RATED = [1, 2, 3, 4] * 10
RATERS = [[4, 1] * 20] * 3
SPREAD = [0.1 * i for i in range(40)]


def wrong(function: Callable[..., object], *arguments: object, **settings: object) -> Callable[[], object]:
    """Return a call that a type checker would refuse."""
    return partial(function, *arguments, **settings)


WRONG: list[tuple[Callable[[], object], str]] = [
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], weights=[1, 2]), r"weights has a value for each row.*3, 2"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], weights=[1, 2, 3, 4]), "weights has a value for each row"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], weights=[1, -2, 3]), "weights are numbers at least 0.*1 is -2"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], weights=[0, 0, 0]), "weights are all 0"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], scores=[0.1, 0.2]), "scores has a value for each row"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], scores=[0.1, 0.2, NAN], resamples=9), "scores are finite numbers"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], clusters="ab"), "clusters has a value for each row"),
    (wrong(st.agreement, [1, 2, 3], [1, 2, 3], level=95), r"level lies between 0 and 1.*not 95"),
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
    (wrong(st.alt_test, RATERS, [1] * 40, epsilon=2), "epsilon is 0 or more and below 1"),
    (wrong(st.alt_test, RATERS, [1] * 40, least_rows=1), "least_rows is at least 2"),
    (wrong(st.certify, {4: (29.5, 0)}), "a count of policy 4 is a whole number, not 29.5"),
    (wrong(st.certify, 5), "counts is a list, not 5"),
    (wrong(st.certify, {4: 29}), r"the counts of a policy are \(released, bad\); policy 4 has 29"),
    (wrong(st.certify, {"4": (29, 0)}), "success ratings are finite numbers"),
    (wrong(st.certify, [(29, 0)], "0.1"), "alpha lies between 0 and 1"),
    (wrong(st.certify_weighted, [[]], delta=2), "delta lies between 0 and 1"),
    (wrong(st.certify_runs, [4] * 40), "a run is .*run 0 is 4"),
    (wrong(st.certify_runs, [([4], ["good"])] * 40), "bad is True, False, or None.*'good'"),
    (wrong(st.certify_runs, [([4], [False])] * 40, risk="x"), "risk is 'released' or 'per_question'"),
    (wrong(st.certify_runs, [([4], [False])] * 40, max_attempts=1.5), "max_attempts is a whole number"),
    (wrong(st.n_pairs, 0.1, discordance=1.5), "discordance is at least the gain, 0.1, and at most 1; not 1.5"),
    (wrong(st.n_pairs, -0.2, discordance=0.1), "discordance is at least the gain, 0.2, and at most 1; not 0.1"),
    (wrong(st.mcnemar, [1, 0, 1], [1, 0]), "."),
    (wrong(st.e_value, 1.5, 10, 0.1), "a count is a whole number, not 1.5"),
    (wrong(st.confidence_sequence, 1, 3, level=95), "level lies between 0 and 1"),
    (wrong(st.replay_run, "334", 3, 3), "ratings is a list, not '334'"),
    (wrong(st.replay_run, [NAN], 3, 3), "a rating is a number, or None where it is unscored; not nan"),
    (wrong(st.replay_run, [3], None, 3), "threshold is a rating"),
    (wrong(st.rogan_gladen, 1, 10, 100, 200, 199, 200, level=95), "level lies between 0 and 1"),
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
]


@pytest.mark.parametrize(("call", "message"), WRONG)
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


def test_a_bias_of_length_needs_information_and_questions() -> None:
    """A constant second rater, or a single question, identifies no bias of length."""
    columns = [1, 2, 3, 4] * 10, [1, 2, 3, 4] * 10, [3] * 40, SPREAD
    assert st.bias_report(length=columns)["length"].reason == "not_identified"
    columns = [1, 2, 3, 4] * 10, [1, 2, 3, 4] * 10, [2, 1, 4, 3] * 10, SPREAD
    assert st.bias_report(length=columns, clusters=[1] * 40)["length"].reason == "too_few"
    with pytest.raises(KeyError, match="'position' was not tested; tested were: length"):
        _ = st.bias_report(length=columns)["position"]
