"""The arithmetic of agreement, certificates, corrections, comparisons and replay, against other software."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special

from judges.offline import statistics as st
from tests.loops.recorded import V_B


def digits(text: str) -> list[int]:
    """Read one number a character."""
    return [int(character) for character in text]


def numbers(text: str) -> list[float]:
    """Read numbers between spaces."""
    return [float(number) for number in text.split()]


def close(value: object, expected: object, tolerance: float = 1e-9) -> None:
    """Check a value, or several, against what other software gives."""
    assert value == pytest.approx(expected, abs=tolerance, rel=0)


HUMAN, JUDGE = digits("44321433214423143241"), digits("43331443224433142243")
WEIGHTS = digits("11211121111121111113")
SCORES = numbers(".95 .80 .70 .62 .10 .90 .85 .66 .35 .40 .97 .88 .60 .72 .05 .93 .45 .30 .90 .65")
GOOD = [rating >= 3 for rating in HUMAN]
RATERS = [
    digits("443322114433221144332211443322114433"),
    digits("443222114433211144432211443322124433"),
    digits("433322114443221144332111443322114443"),
]
STAND_IN = digits("443322124433221144322211443222114433")


def recorded_runs() -> list[tuple[list[int | None], list[bool | None]]]:
    """Read recorded loops: ratings, and whether a human calls each answer good or bad."""
    halves = [record.rstrip("*").split("|") for record in V_B]
    return [
        ([None if c == "." else int(c) for c in ratings], [c == "b" for c in labels]) for ratings, labels in halves
    ]


def test_agreement_of_a_judge_and_a_human() -> None:
    """Every figure of the report is that of scikit-learn, irrCAC, scipy and statsmodels."""
    result = st.agreement(HUMAN, JUDGE, scores=SCORES, resamples=200)
    expected = {
        "exact": 0.65,
        "within_one": 0.95,
        "mean_difference": 0.2,
        "kappa": 0.5205479452054794,
        "kappa_linear": 0.6595744680851063,
        "kappa_quadratic": 0.7802197802197802,
        "pass_kappa": 0.5652173913043478,
        "ac1": 0.633027522936,
        "mcc": 0.5790660241435861,
        "precision": 0.7857142857142857,
        "tpr": 0.9166666666666666,
        "tnr": 0.625,
        "npv": 0.8333333333333334,
        "f1": 0.8461538461538461,
        "balanced_accuracy": 0.7708333333333333,
        "auc": 0.96875,
        "average_precision": 0.9833333333333335,
        "brier": 0.11218,
    }
    close({name: result[name].value for name in expected}, expected)
    for name in expected:
        figure = result[name]
        low, value, high = (number or 0.0 for number in (figure.low, figure.value, figure.high))
        assert low <= value <= high, name
        assert low < high, name
        assert figure.n, name
        assert figure.method, name
    close((result["precision"].low, result["precision"].high), (0.4920243229515281, 0.9534207121101327))
    assert result.monotone
    assert not result.kappa_paradox
    assert len(str(result).splitlines()) <= 14


def test_what_has_no_value_says_why() -> None:
    """Unscored rows count in coverage alone, one class has no kappa, and no number stands in for either."""
    result = st.agreement([4, 4, 4, None, 4], [4, 4, None, 4, 4], resamples=50)
    assert (result.n, result.labelled, result.coverage) == (3, 4, 0.75)
    assert result["pass_kappa"].value is None
    assert result["pass_kappa"].reason == "one_class"
    assert result["tnr"].reason == "one_class"
    assert result["exact"].value == 1
    assert st.agreement([], [])["exact"].reason == "too_few"
    assert st.cohen_kappa([1, 1], [1, 1]) is None
    assert st.krippendorff_alpha([(2, 2), (2, 2)]) is None
    assert st.sign_flip([]) is None
    assert st.cluster_se([1.0]) is None
    assert st.win_rate([]).reason == "too_few"
    with pytest.raises(ValueError, match="a rating is one of"):
        st.agreement([5], [4])


@pytest.mark.parametrize(
    ("human", "judge", "paradox"),
    [
        pytest.param([4] * 95 + [1] * 5, [4] * 92 + [1] * 3 + [4] * 4 + [1], True, id="rare-and-agreeing"),
        pytest.param([4] * 98 + [1] * 2, [4] * 60 + [1] * 38 + [4, 1], False, id="they-disagree"),
        pytest.param([4] * 60 + [1] * 40, [1] * 20 + [4] * 60 + [1] * 20, False, id="bad-rows-are-common"),
        pytest.param([4] * 90 + [1] * 10, [4] * 90 + [1] * 10, False, id="kappa-is-high"),
        pytest.param([1] * 95 + [4] * 5, [1] * 92 + [4] * 3 + [1] * 4 + [4], False, id="good-rows-are-rare"),
        pytest.param([4] * 20, [4] * 20, False, id="no-kappa"),
    ],
)
def test_a_kappa_paradox_needs_a_low_kappa_good_rows_and_agreement(
    human: list[int], judge: list[int], *, paradox: bool
) -> None:
    """A low kappa means what it says where bad rows are common, or the judge disagrees; else AC1 is shown, too."""
    found = st.agreement(human, judge, resamples=50)
    assert (found.kappa_paradox, "see AC1" in str(found)) == (paradox, paradox)


def test_kappa_and_rank_metrics_take_weights() -> None:
    """Design weights enter kappa, AUC and Brier score as scikit-learn has them."""
    kinds: tuple[Any, ...] = ("none", "linear", "quadratic")
    weighted = [st.cohen_kappa(HUMAN, JUDGE, weighting=kind, weights=WEIGHTS) for kind in kinds]
    close(weighted, [0.4021739130434784, 0.5218579234972678, 0.6428571428571429])
    metrics, by_rating = st.rank_metrics(GOOD, SCORES, weights=WEIGHTS), st.rank_metrics(GOOD, JUDGE)
    close((metrics.auc, metrics.brier), (0.961038961038961, 0.142444))
    close((by_rating.auc, by_rating.average_precision), (0.890625, 0.9007936507936508))
    close(st.rank_metrics(GOOD, SCORES).ece, 0.194)
    null = st.rank_metrics(GOOD, SCORES, resamples=100).ece_null
    assert null is not None
    assert 0.1 < null < 0.5
    close(
        [f(HUMAN, JUDGE) for f in (st.pearson, st.spearman, st.kendall_tau)],
        [0.8035356202714724, 0.8156992245946606, 0.7432168614416532],
    )


def test_agreement_of_several_raters() -> None:
    """Alpha is that of the package krippendorff, AC1 and AC2 those of irrCAC, with missing ratings too."""
    three = ["443", "43.", "333", "232", "112", "444", "3.4", "332", "222", ".11", "44.", "434", "12.", "..3"]
    tables: dict[str, list[Any]] = {
        "two": list(zip(HUMAN, JUDGE, strict=True)),
        "three": [[None if c == "." else int(c) for c in unit] for unit in three],
    }
    alphas = {"two": [0.5293103448275862, 0.8057959183673469, 0.7838137472283814]}
    alphas["three"] = [0.375886524822695, 0.7796303131556453, 0.793265465935787]
    coefficients = {"two": [0.538461538462, 0.694267515924, 0.815950920245]}
    coefficients["three"] = [0.356667786362, 0.625513276759, 0.818835370237]
    metrics: tuple[Any, ...] = ("nominal", "ordinal", "interval")
    kinds: tuple[Any, ...] = ("none", "linear", "quadratic")
    for name, units in tables.items():
        close([st.krippendorff_alpha(units, metric=metric) for metric in metrics], alphas[name])
        close([st.gwet_ac(units, weighting=kind) for kind in kinds], coefficients[name], 1e-11)


def test_whether_a_judge_may_stand_in_for_a_rater() -> None:
    """The alternative annotator test passes or not as published, and skips raters with few rows by name."""
    results: list[st.AltTest] = [st.alt_test(RATERS, STAND_IN, epsilon=epsilon) for epsilon in (0.2, 0.1)]
    close(list(results[0].p_values.values()), [0.00868419135200229, 0.0021039168419619892, 0.0021039168419619892])
    close(list(results[1].p_values.values()), [0.3617093056690209, 0.04734140000077145, 0.04734140000077145])
    assert [(r.passed, r.winning_rate) for r in results] == [(True, 1.0), (False, 0.0)]
    close(results[0].advantage, 0.9166666666666666)
    assert st.alt_test(RATERS, STAND_IN, scoring="rmse").winning_rate == 1.0
    short = st.alt_test([rater[:20] for rater in RATERS], STAND_IN[:20])
    assert short.reason == "too_few"
    assert short.skipped == (0, 1, 2)
    assert short.passed is None
    close(st.human_likeness(RATERS, STAND_IN), -0.2607645151513647)


def test_intervals_of_proportions_and_means() -> None:
    """Wilson, Clopper-Pearson, BCa over all resamples, and the standard error over clusters."""
    close(st.clopper_pearson(11, 14), (0.4920243229515281, 0.9534207121101327))
    close(st.wilson(13, 20), (0.43285427668523624, 0.818808175898918))
    means = [sum(draw) / 5 for draw in product((0, 1, 1, 2, 5), repeat=5)]
    interval = st.bca(means, 1.8, [(9 - x) / 4 for x in (0, 1, 1, 2, 5)])
    assert interval is not None
    close((interval.low, interval.high), (0.8, 3.9591461180788428))
    close((interval.bias, interval.acceleration), (0.07667763102009066, 0.0758736843922756))
    questions = [[1, 0], [1, 1, 1], [0], [1, 0, 1]]

    def rate(group: Sequence[Sequence[int]]) -> float:
        return sum(map(sum, group)) / sum(map(len, group))

    left_out = [rate(questions[:i] + questions[i + 1 :]) for i in range(4)]
    interval = st.bca([rate(draw) for draw in product(questions, repeat=4)], rate(questions), left_out)
    assert interval is not None
    close((interval.low, interval.high), (0.3333333333333333, 0.9166666666666666))
    flat = [float(value) for question in questions for value in question]
    clusters = [number for number, question in enumerate(questions) for _ in question]
    close(st.cluster_se(flat, clusters), 0.1600182888495769)
    figure = st.bootstrap(flat, clusters=clusters, resamples=500)
    assert figure.n == 4
    assert figure.note == "indicative"
    assert 0 < (figure.low or 0) < (figure.value or 0) < (figure.high or 0) < 1


def test_a_bootstrap_that_often_has_no_value_says_so() -> None:
    """Where the statistic is undefined in many resamples, the interval is the percentile one and says it."""
    figure = st.bootstrap([0, 0, 0, 1], lambda rows: float(rows.mean()) if rows.any() else None, resamples=200)
    assert "percentile" in figure.method
    assert "without a value" in figure.method
    assert st.bootstrap([0, 1], resamples=50, seed=1) == st.bootstrap([0, 1], resamples=50, seed=1)


def test_tests_of_a_difference() -> None:
    """Sign flips are exact for few differences and sampled for many; McNemar is statsmodels'."""
    differences = [a - b for a, b in zip(digits("434234134234"), digits("334124233132"), strict=True)]
    pairs = [i // 2 for i in range(12)]
    close((st.sign_flip(differences), st.sign_flip(differences, clusters=pairs)), (0.109375, 0.15625))
    close(st.cluster_se(differences, pairs), 0.22360679774997896)
    many = st.sign_flip([0.3 * (-1) ** i + 0.1 for i in range(60)])
    assert many is not None
    assert 0.001 < many < 0.1
    table = {(9, 2): 0.0654296875, (15, 6): 0.0783538818359375, (5, 5): 1, (0, 0): 1, (1, 0): 1}
    close([st.mcnemar(b, c) for b, c in table], list(table.values()))
    close(st.mcnemar(9, 2, mid_p=True), 0.03857421875)
    close(st.mcnemar([1] * 9 + [0] * 2 + [1], [0] * 9 + [1] * 2 + [1]), 0.0654296875)


def test_mid_p_of_many_questions_is_a_probability() -> None:
    """Between the exact tail and the next smaller one, also where the number of orders is no float any more."""
    for b, c in ((560, 480), (700, 500), (30_000, 29_000), (1_200, 0)):
        exact, mid = st.mcnemar(b, c), st.mcnemar(b, c, mid_p=True)
        assert 0.4 * exact <= mid <= exact, (b, c)
    close(st.mcnemar(700, 500, mid_p=True), 7.287284355532414e-09, 1e-18)


def test_the_bounds_of_a_win_rate_count_questions_as_it_does() -> None:
    """Without an excluded pair they are the win rate itself, however many pairs a question has."""
    full = st.win_rate(["AA"] * 9 + ["BB"], clusters=["q"] * 9 + ["r"])
    assert (full.lowest, full.value, full.highest) == (0.5, 0.5, 0.5)
    partial = st.win_rate(["AA"] * 8 + ["..", "BB"], clusters=["q"] * 9 + ["r"])
    close((partial.lowest, partial.value, partial.highest), (4 / 9, 0.5, 0.5))


def test_rows_that_all_agree_leave_doubt_about_the_next_ones() -> None:
    """Of twenty equal ratings Wilson's interval is given, not one of no width; over questions, if repeated."""
    same = st.agreement(digits("4321" * 5), digits("4321" * 5))
    for name in ("exact", "within_one", "agreement"):
        close((same[name].value, same[name].low), (1, st.wilson(20, 20)[0]))
    never = st.agreement(digits("4" * 20), digits("1" * 20), clusters=[row // 2 for row in range(20)])
    close((never["within_one"].value, never["within_one"].high), (0, st.wilson(0, 10)[1]))


def test_win_rates() -> None:
    """A pair counts with the mean of its two orders; a missing order is used or excluded, and said."""
    result = st.win_rate(["AA", "AB", "BB", "AT", "AA", "TT", "BA", "AA", "BB", "AA"])
    close((result.value, result.se, result.flips), (0.625, 0.125, 0.3))
    partial = st.win_rate(["A.", "..", (0, None), "BB"])
    assert (partial.single, partial.excluded, partial.n) == (2, 1, 3)
    close((partial.lowest, partial.highest), (0.25, 0.5))
    with pytest.raises(ValueError, match="two orders"):
        st.win_rate(["A"])


def test_length_adjusted_win_rates() -> None:
    """The adjusted win rate is the one of statsmodels' fractional regression; without overlap there is none."""
    preferences = numbers("1 0 .5 1 0 0 1 .75 .25 0 1 .5 0 1 .1 .9 0 1 .4 .6")
    first = numbers("300 450 200 500 800 650 300 420 510 900 350 400 700 260 620 310 880 330 470 390")
    second = numbers("420 300 260 700 400 500 560 450 380 420 640 390 350 480 300 520 610 450 410 430")
    result = st.length_adjusted(preferences, first, second, resamples=50)
    close(
        (result.value, result.slope, result.intercept),
        (0.5405589230151328, -4.6220922698781255, 0.16259294621319246),
    )
    close((result.raw, result.sd), (0.5, 234.3248981536892))
    assert st.length_adjusted(preferences, first, [1000.0] * 20).reason == "no_overlap"
    hard = st.length_adjusted(
        preferences, first, second, difficulty=[0.0, 1.0] * 10, anchors=[(1, 0, 0.1)], resamples=20
    )
    assert hard.value is not None
    assert 0 < hard.value < 1


def test_a_length_controlled_table() -> None:
    """In the form of AlpacaEval 2: 805 items with difficulties, gamed baselines; one system is always longer."""
    random = np.random.default_rng(11)
    gamma, base = random.normal(0, 1.3, 805), random.lognormal(7, 0.4, 805)
    anchors = [
        (x, float(hard), float(special.expit(0.9 * x + 0.6 * hard)))
        for x in (-0.9, 0.9)
        for hard in random.normal(0, 1.3, 100)
    ]
    misses = []
    for quality in np.linspace(-3, 0.5, 4):
        lengths = base * random.lognormal(0.9 if quality > 0 else 0.1, 0.3, 805)
        x = np.tanh((base - lengths) / (base - lengths).std(ddof=1))
        wins = special.expit(-0.9 * x + 0.8 * gamma + quality + random.normal(0, 1, 805))
        rows = (one.tolist() for one in (wins, base, lengths))
        found = st.length_adjusted(*rows, difficulty=gamma.tolist(), anchors=anchors, resamples=3)
        own, other = np.column_stack([x, gamma, np.ones(805)]), np.array([(a, b, 0.0) for a, b, _ in anchors])
        gamed = np.array([preference for *_, preference in anchors])

        def unlikely(beta: Any, own: Any = own, other: Any = other, gamed: Any = gamed, wins: Any = wins) -> float:
            """Return the negative log likelihood, written independently, and with baselines of weight 0.1."""
            one, two = own @ beta, other @ beta
            return float(
                (np.logaddexp(0, one) - wins * one).sum() + 0.1 * (np.logaddexp(0, two) - gamed * two).sum()
            )

        best = optimize.minimize(unlikely, np.zeros(3), method="BFGS").x
        expected = special.expit(best[1] * gamma + best[2]).mean()
        assert found.value is not None
        misses.append(100 * abs(found.value - expected))
    assert max(misses) <= 0.15
    assert sum(misses) / len(misses) <= 0.06


def test_many_tests_at_once() -> None:
    """Adjusted p-values are those of Holm, Benjamini-Hochberg and Benjamini-Yekutieli, in the order given."""
    p = numbers(".001 .008 .039 .041 .042 .06 .074 .205 .212 .216")
    close(st.holm(p), numbers(".01 .072 .312 .312 .312 .312 .312 .615 .615 .615"))
    close(
        st.benjamini_hochberg(p), [*numbers(".01 .04 .084 .084 .084 .1"), 0.1057142857142857, 0.216, 0.216, 0.216]
    )
    close(st.benjamini_yekutieli(p)[0], 0.02928968253968254)
    shuffled = p[5:] + p[:5]
    assert st.holm(shuffled) == st.holm(p)[5:] + st.holm(p)[:5]
    assert st.holm([]) == []


def test_how_many_questions_a_comparison_needs() -> None:
    """The planner's numbers are those of Connor's formula and of the paired and unpaired z-tests."""
    planned = [
        st.n_pairs(0.03, discordance=0.2),
        st.n_pairs(0.03, discordance=0.1),
        st.n_pairs(0.05, discordance=0.2),
    ]
    close(planned, [1741.8357629868751, 869.7361463761334, 625.5473178337214], 1e-8)
    close((st.n_pairs(0.03, sd=0.45), st.n_per_arm(0.8, 0.83)), (1765.997940228545, 2625.8863200139153), 1e-8)
    with pytest.raises(ValueError, match="either discordance"):
        st.n_pairs(0.03)


def test_figures_that_hold_at_any_look() -> None:
    """Confidence sequences, e-values and the alarm statistic have their published values."""
    expected = {
        (0, 10): (0, 0.3769873509906774),
        (8, 10): (0.3424786084177963, 0.9906062402332216),
        (45, 50): (0.7134621031268706, 0.9841525898093346),
        (180, 200): (0.8121922307784393, 0.9571711141221997),
    }
    for (successes, n), interval in expected.items():
        close(st.confidence_sequence(successes, n), interval, 1e-8)
    assert st.confidence_sequence(0, 0) == (0, 1)
    evidence = {(0, 29): 6.776947462777713, (0, 43): 20.887534920767465, (2, 60): 3.969701477431166}
    evidence |= {(9, 150): 2.130524363157591, (20, 150): 0.12337985805666586}
    close([st.e_value(b, n, 0.1) for b, n in evidence], list(evidence.values()))
    assert next(n for n in range(100) if st.e_value(0, n, 0.1) >= 20) == 43
    path = numbers(".888888889 2 1.777777778 3.555555556 7.111111111 6.320987654 12.641975309 25.283950617")
    close(st.e_cusum([0, 1, 0, 1, 1, 0, 1, 1], 0.1), path, 1e-8)


def test_bets_that_ask_the_judge() -> None:
    """They come to what fractions come to, and bad answers that a judge foresees weigh less."""
    labels = [(False, 0.2, (0.4, 0.0)), (True, 0.9, (0.1, 0.1)), (False, 0.0, ())]
    close(st.assisted_e_value([st.AssistedLabel(*one) for one in labels], 0.1), 19969412291 / 26667792000)
    assert st.assisted_e_value([], 0.1) == 1
    foreseen = [st.AssistedLabel(n % 20 == 0, float(n % 20 == 0), (0.05,) * 4) for n in range(200)]
    unforeseen = [one._replace(doubt=0.05) for one in foreseen]
    assert st.assisted_e_value(foreseen, 0.1) > 1.5 * st.assisted_e_value(unforeseen, 0.1)
    with pytest.raises(ValueError, match="doubt is a number from 0 to 1"):
        st.assisted_e_value([st.AssistedLabel(bad=False, doubt=1.5)], 0.1)
    with pytest.raises(ValueError, match="assisted is for"):
        st.certify({4: (43, 0)}, method="assisted")


@pytest.mark.parametrize("judge", ["right", "upside down"])
def test_bets_are_fair_however_wrong_the_judge_is(judge: str) -> None:
    """Of 300 teams just above alpha who look after every 50 labels at most delta and 3 standard errors certify."""
    random = np.random.default_rng(4)
    certified = 0
    for _ in range(300):
        bad = random.random((200, 5)) < 0.1
        doubts = np.where(bad == (judge == "right"), random.beta(2, 2, bad.shape), random.beta(0.5, 5, bad.shape))
        labels = [
            st.AssistedLabel(bool(b[0]), float(d[0]), tuple(d[1:])) for b, d in zip(bad, doubts, strict=True)
        ]
        certified += any(st.assisted_e_value(labels[:n], 0.1) >= 20 for n in (50, 100, 150, 200))
    assert certified / 300 <= 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


def test_certificates() -> None:
    """A threshold is certified in order from the strictest, by the exact test; nothing certified is an outcome."""
    p_values = {(0, 29): 0.04710128697246242, (2, 60): 0.053045081815992726, (9, 150): 0.060046222763010915}
    for (bad, released), p in p_values.items():
        row = st.certify({4: (released, bad)}).rows[0]
        close(row.p, p)
        assert row.status == ("certified" if p <= 0.05 else "refused")
        assert (row.upper or 0) <= 0.1 or row.status == "refused"
    close(st.certify([(60, 2)]).rows[0].upper, 0.10123589492416163)
    chain = st.certify({2: (200, 60), 3: (150, 5), 4: (20, 0)})
    assert [row.status for row in chain.rows] == ["too_few", "certified", "refused"]
    assert chain.certified == 3
    nothing = st.certify({4: (60, 2), 3: (100, 7)})
    assert nothing.certified is None
    assert [row.status for row in nothing.rows] == ["refused", "not_tested"]
    close(nothing.reachable_alpha, 0.10123589492416163)
    assert "not certified" in str(nothing)
    assert "certified: success rating 3" in str(chain)
    assert st.certify({4: (300, 29), 3: (300, 5)}, method="fallback").certified == 3
    assert st.certify({4: (43, 0)}, method="anytime").certified == 4
    assert st.certify({4: (40, 0)}, method="anytime").certified is None
    with pytest.raises(ValueError, match="bad <= released"):
        st.certify({4: (3, 5)})


def test_a_chain_that_is_looked_at_is_begun_at_one_policy_alone() -> None:
    """While few answers are rated 4, a 3 needs more evidence, so that all looks err with delta at most together.

    Of 100 teams who looked after each label of a judge that knows nothing, and seldom says 4, 6.5 were told at
    some look, at confidence 95 %, that a rating keeps the promise: each rating that is begun at has its errors.
    """
    looks: list[tuple[dict[float, tuple[int, int]], float | None]]
    looks = [({4: (28, 0), 3: (n, 0)}, certified) for n, certified in ((43, None), (68, None), (69, 3))]
    looks += [({4: (43, 0), 3: (60, 0)}, None), ({4: (44, 0), 3: (60, 0)}, 3), ({4: (44, 0), 3: (60, 4)}, 4)]
    for counts, certified in looks:
        assert st.certify(counts, method="anytime").certified == certified, counts
    assert st.certify({4: (28, 0), 3: (40, 0)}).certified == 3, "a test that is made once is begun where it can be"


def test_certificates_of_recorded_loops() -> None:
    """The unit is the run and the label that of the answer the policy would release."""
    expected = {
        (4, 4): (12, 2, 0.5583457484799997),
        (3, 4): (14, 3, 0.6981898836377598),
        (2, 4): (14, 8, 0.99961807044608),
        (4, 2): (7, 1, 0.5767167999999998),
        (3, 2): (11, 2, 0.6174015487999999),
    }
    for (threshold, most), (released, bad, p) in expected.items():
        row = st.certify_runs(recorded_runs(), 0.2, 0.999, [threshold], most).rows[0]
        assert (row.released, row.bad) == (released, bad)
        close(row.p, p)
        assert row.release_rate == released / 15
        assert row.mean_attempts is not None
    unlabelled = st.certify_runs([([4], [None]), ([4], [])], thresholds=[4])
    assert unlabelled.rows[0].bad == 2
    assert st.certify_runs(recorded_runs(), risk="per_question", thresholds=[4]).rows[0].released == 15
    assert st.certify_runs([], thresholds=[4]).certified is None


def test_risks_of_graded_or_clustered_harm() -> None:
    """Hoeffding-Bentkus has its published values, and the weighted risk reduces to it."""
    expected = {(0.0375, 80, 0.1): 0.09597236086015473, (2 / 60, 60, 0.1): 0.1426451311097065}
    expected[20 / 120, 120, 0.2] = 0.5834641025960995
    close([st.hoeffding_bentkus(*case) for case in expected], list(expected.values()))
    close(st.weighted_risk([1.0] * 2 + [0.0] * 58), 0.1426451311097065)
    together = st.weighted_risk([1.0] * 2 + [0.0] * 58, clusters=[i // 2 for i in range(60)])
    assert together > 0.1426451311097065


def test_how_many_labels_a_certificate_needs() -> None:
    """The fewest labels, and those for 80 % power, are those of the published table."""
    assert [st.labels_needed(alpha, 0.05) for alpha in (0.02, 0.05, 0.1, 0.15, 0.2)] == [149, 59, 29, 19, 14]
    assert [st.labels_needed(0.1, 0.05, rate) for rate in (0.025, 0.05, 0.075)] == [76, 203, 869]
    assert st.labels_needed(0.1, 0.05, 0.2) is None


def test_rates_corrected_by_known_errors() -> None:
    """Rogan-Gladen with Lang and Reiczigel's interval; a judge without information identifies nothing."""
    first, second = st.rogan_gladen(780, 1000, 28, 40, 147, 160), st.rogan_gladen(400, 1000, 140, 200, 180, 200)
    close((first.value, first.low, first.high), (0.7757575757575759, 0.6842982616244533, 0.8582665433989958))
    close((second.value, second.low, second.high), (0.1666666666666667, 0.05635072484160894, 0.2627330257859588))
    assert st.rogan_gladen(500, 1000, 20, 40, 20, 40).reason == "not_identified"
    assert "do not transfer" in st.rogan_gladen(990, 1000, 90, 100, 90, 100).note


def test_rates_and_means_corrected_by_labels() -> None:
    """PPI++ is ppi-python's in the reference variant, and the small-sample variants by default."""
    labels, verdicts = digits("110111011110111011010111"), digits("110111111110111111011101")
    rest = digits("1111011101111011111101110111011111011110111101110111111011")
    reference = st.ppi_rate(labels, verdicts, rest, variant="reference")
    close((reference.value, reference.weight), (0.741044776119403, 0.3895522388059702))
    close((reference.low, reference.high), (0.5844000196251775, 0.8976895326136283))
    trusting, human = st.ppi_rate(labels, verdicts, rest, weight=1), st.ppi_rate(labels, verdicts, rest, weight=0)
    close(
        (trusting.value, trusting.low, trusting.high), (0.7270114942528735, 0.5379501058196459, 0.9160728826861011)
    )
    close((human.value, human.low, human.high), (0.75, 0.5767620219562902, 0.9232379780437098))
    default = st.ppi_rate(labels, verdicts, rest)
    close((default.value, default.weight), (0.7317531928565691, 0.3709537069265575))
    close((default.low, default.high), (0.5750786994350234, 0.8884276862781149))
    assert default.note == "indicative"
    assert default.human is not None
    assert default.effective is not None
    assert st.ppi_rate(labels[:9], verdicts[:9], rest).reason == "too_few"


def test_means_corrected_by_labels() -> None:
    """Means, weighted means and differences of two systems are ppi-python's; the default is cross-fitted."""
    labels, scores = numbers(".9 .2 .7 1 .4 .8 .6 .1 .95 .5"), numbers(".8 .4 .7 .9 .6 .9 .5 .3 .9 .7")
    rest = numbers(".9 .7 .8 .4 .6 .95 .3 .85 .75 .5 .65 .9 .2 .8 .7")
    reference = st.ppi_mean(labels, scores, rest, level=0.9, variant="reference")
    close((reference.value, reference.weight), (0.6126322963998602, 0.7103110800419435))
    close((reference.low, reference.high), (0.5019345325047812, 0.7233300602949392))
    design = [1, 1, 2, 1, 1, 1, 2, 1, 1, 1]
    weighted = st.ppi_mean(labels, scores, rest, level=0.9, variant="reference", weights=design)
    close(
        (weighted.value, weighted.low, weighted.high), (0.6254413488177093, 0.5042090337995713, 0.7466736638358474)
    )
    default = st.ppi_mean(labels, scores, rest, level=0.9)
    close((default.value, default.weight), (0.612965021427243, 0.832175104760991))
    close((default.low, default.high), (0.4788965323774943, 0.7470335104769916))

    def difference(first: str, second: str) -> list[float]:
        return [a - b for a, b in zip(digits(first), digits(second), strict=True)]

    gap = st.ppi_mean(
        difference("110111011110", "100110011110"),
        difference("110111111110", "110110011010"),
        difference("111011110111011110111011", "110011010111011010111010"),
        variant="reference",
    )
    close((gap.value, gap.weight), (0.15229885057471265, 0.1724137931034482))
    close((gap.low, gap.high), (-0.05338777970859493, 0.35798548085802023))


def test_labels_by_stratum() -> None:
    """The stratified rate, its interval and Neyman's shares."""
    shares, labelled, passed = [0.10, 0.15, 0.25, 0.50], [8, 10, 12, 20], [1, 5, 10, 20]
    figure = st.stratified_rate(shares, 1200, labelled, passed)
    close((figure.value, figure.low, figure.high), (0.7958333333333334, 0.7103615284977297, 0.8813051381689371))
    close(st.neyman(shares, labelled, passed, 40), [5.1937, 10.4521, 13.7310, 10.6232], 1e-4)


def test_replays_of_recorded_loops() -> None:
    """Every other policy ends each run as it would have, or as censored where the record ends first."""
    ratings = [run for run, _ in recorded_runs()]
    expected = {
        (4, 4, None): ((12, 2, 0, 1), 38),
        (3, 4, None): ((14, 1, 0, 0), 29),
        (2, 4, None): ((14, 1, 0, 0), 19),
        (4, 2, None): ((7, 8, 0, 0), 26),
        (4, 4, 2): ((11, 0, 3, 1), 35),
        (4, 4, 1): ((7, 0, 7, 1), 28),
    }
    for policy, (ends, attempts) in expected.items():
        summary = st.replay_runs(ratings, *policy)
        counted = tuple(summary.ends.get(end, 0) for end in ("pass", "exhausted", "patience", "censored"))
        assert (counted, summary.attempts) == (ends, attempts), policy
    assert st.replay_run([2, None, 4], 4, 4, 1).end == "patience"
    assert st.replay_run([], 4, 4).end == "censored"
    assert st.replay_runs([], 3, 3).release_rate is None


def test_curves_and_gains_of_recorded_loops() -> None:
    """Passes by attempt, raw changes, and how much the best attempt beats the last."""
    ratings = [run for run, _ in recorded_runs()]
    curve = st.pass_at_attempt(ratings, 4)
    assert [(point.at_risk, point.passed) for point in curve] == [(15, 4), (11, 3), (7, 2), (5, 3)]
    cumulative = [0.2666666666666666, 0.4666666666666666, 0.6190476190476191, 0.8476190476190476]
    close([point.cumulative for point in curve], cumulative)
    changes = st.gains(ratings)
    assert [(gain.n, gain.regressions) for gain in changes] == [(10, 1), (6, 0), (5, 0)]
    close([gain.mean for gain in changes], [0.6, 0.1666666666666667, 1.2])
    assert st.gains([[2, 4]], rejudged=[[3]])[0].unbiased == 1
    mean, share = st.best_and_last([digits("32"), digits("243"), digits("11")])
    close((mean.value, share.value), (0.6666666666666666, 0.6666666666666666))


def test_replays_with_exploration() -> None:
    """Runs that went on after a pass give an unbiased estimate, and bounds where there are too few."""
    logs = [digits(run) for run in ["3", "34", "23", "1222", "4", "2324", "3", "224", "334", "13"]]
    explored = st.replay_runs(logs, 4, 4, recorded_threshold=3, exploration=0.25, least_effective=0)
    close(explored.release_rate, (0.5, 0.9))
    close((explored.horvitz_thompson, explored.hajek), (2.6, 26 / 27))
    short = st.replay_runs(logs, 4, 2, recorded_threshold=3, exploration=0.25)
    close(short.release_rate, (0.2, 0.4))
    close(short.horvitz_thompson, 0.5)
    assert short.hajek is None


def test_a_bias_report() -> None:
    """Leans, robustness and self-preference have their published figures; too little data flags nothing."""
    report = st.bias_report(
        position=["FF"] * 9 + ["SS"] * 2 + ["FS"] * 29,
        robustness={"typos": list(zip("ABABBAABBABA", "ABBBBAABAABA", "ABABBAABBABB", strict=True))},
        self_preference=list(zip(*map(digits, ("434243", "334233", "323242", "324243")), strict=True)),
    )
    close((report["position"].effect, report["position"].figures["p"]), (0.175, 0.0654296875))
    robust = report["typos (robustness)"].figures
    close((robust["robustness"], robust["consistency"]), (0.8333333333333334, 0.9166666666666666))
    own = report["self-preference"]
    close((own.effect, own.figures["se"], own.figures["p"]), (0.6666666666666666, 0.210818510677892, 0.125))
    assert report.flagged == ()
    assert own.reason == "too_few"
    assert "not tested, there are fewer than 20 cases that differ" in str(report)


def test_a_bias_is_flagged_only_with_enough_evidence() -> None:
    """A strong lean is flagged, a tiny change is small, and an observation with one rater is an association."""
    random = Random(1)
    ratings = [random.randint(1, 4) for _ in range(200)]
    report = st.bias_report(
        position=["FF"] * 60 + ["SS"] * 10 + ["FS"] * 30,
        verbosity=[(rating, rating) for rating in ratings],
        leniency=[(rating, min(4, rating + 1)) for rating in ratings],
        length=(ratings, ratings, None, [random.random() for _ in ratings]),
    )
    assert report.flagged == ("position", "leniency")
    assert report["verbosity"].finding == "small"
    assert report["length"].finding == "association"


def test_the_instrumental_regression() -> None:
    """Coefficients are those of statsmodels' IV2SLS, with errors robust to unequal variance."""
    x = numbers(".5 -.2 .9 .1 -1.1 .7 1.3 -.4 .2 -.6 1.0 .3 .8 -.1 -1.4 .6 -.9 -.3 .4 1.1")
    fit = st.instrumental(JUDGE, HUMAN, digits("43321434214422143341"), x)
    assert fit is not None
    close(fit.coefficients, (1.4784769074166146, 0.49686101839357943, 0.7252089103520106))
    close(fit.errors, (0.20439716883511017, 0.06730772611564553, 0.08940963219246185))


def test_an_unknown_name_is_an_attribute_error_as_everywhere() -> None:
    """Names are looked up when they are first used."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = st.nothing


def test_numbers_that_are_none_are_refused() -> None:
    """A figure is never made of NaN, None, or counts that cannot be; counts may be numpy's."""
    bad = [float("nan"), None, float("inf")]
    for number in bad:
        for compute in (
            lambda x: st.bootstrap([1.0, x]),
            lambda x: st.sign_flip([1.0, x]),
            lambda x: st.cluster_se([1.0, x]),
            lambda x: st.length_adjusted([1, 0], [1, 2], [x, 1]),
        ):
            with pytest.raises(ValueError, match=r"are finite numbers, but number \d is "):
                compute(number)
    with pytest.raises(ValueError, match="a result is A, B, T"):
        st.win_rate([(float("nan"), 1)])
    for wins, n in ((0, 0), (5, 3), (-1, 3)):
        with pytest.raises(ValueError, match="counts satisfy 0 <= wins <= n"):
            st.wilson(wins, n)
    assert st.mcnemar(np.int64(9), np.int64(2)) == st.mcnemar(9, 2)
