"""Every figure of every statistic on fixed data, beside what it was: a change of any one is seen, and meant.

Values of other software stand in the other modules; here each function says everything it returns. After a change
that is meant, `python -m tests.statistics.test_figures` writes `figures.json` anew: read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from judges.offline import statistics as st
from judges.offline.compare import _binomial
from judges.offline.statistics.certificates import Release, _fallback, questions_needed
from tests.figures import differences, plain, read, write
from tests.laws import for_every

FILE = Path(__file__).with_name("figures.json")
SPREAD = Random(5)
HUMAN = [SPREAD.choice([1, 2, 3, 4, 4]) for _ in range(60)]
JUDGE = [min(4, max(1, one + SPREAD.choice([-1, 0, 0, 0, 1]))) for one in HUMAN]
GAPPED = [None if n % 13 == 5 else one for n, one in enumerate(JUDGE)]
SCORES = [round(0.2 * one + SPREAD.random() / 5, 3) for one in JUDGE]
DESIGN = [1 + n % 3 for n in range(60)]
QUESTIONS = [n // 2 for n in range(60)]
GOOD = [one >= 3 for one in HUMAN]
PASSED = [one >= 3 for one in JUDGE]
LENGTHS = [SPREAD.randint(20, 400) for _ in range(60)]
OTHERS = [SPREAD.randint(20, 400) for _ in range(60)]
PREFERRED = [SPREAD.choice([0, 0.5, 1, 1]) for _ in range(60)]
RATERS = [[min(4, max(1, one + SPREAD.choice([-1, 0, 0, 0, 0]))) for one in HUMAN] for _ in range(3)]
UNITS = [*map(list, zip(*RATERS, strict=True)), [4, None, 3], [2, None, None]]
RUNS: list[list[int | None]] = [
    [2, 3], [4], [3, 1, 2, 4], [None, 3], [1, 2, 2], [3, 4], [2], [1, 1, 1, 1], [4, 2], [2, 4], [1, None, 4]
]  # fmt: skip
BAD: list[list[bool | None]] = [[one is None or one < 4 for one in run] for run in RUNS]
LABELS = [SPREAD.random() for _ in range(40)]
SCORED = [min(1.0, max(0.0, one + (SPREAD.random() - 0.5) / 3)) for one in LABELS]
REST = [SPREAD.random() for _ in range(90)]
CHANCES = st.active_probabilities([0.1 + 0.02 * n for n in range(40)], 15)
DRAWN = [one if n % 3 else None for n, one in enumerate(LABELS)]
RELEASES = [Release(0.25 * (n % 9 == 0), 1 + n % 2, n // 2) for n in range(240)]
LAX = [*RELEASES, *(Release(1.0, 1.0, 1_000 + n) for n in range(60))]
PAIRS = ["FF", "SS", "FS", "SF", "TT", "FT", "TS", "FF", "SF", "FS"] * 3
SIDES = [(1.0, 0.0), (0.5, 1.0), (None, 1.0), (0.0, 0.0)] * 8
FAMILY = [[SPREAD.randint(1, 4) for _ in range(4)] for _ in range(60)]
CUES = [(one, min(4, one + SPREAD.choice([0, 0, 1]))) for one in HUMAN]
PROBES = [(one, one if SPREAD.random() < 0.8 else -one, one if SPREAD.random() < 0.9 else -one) for one in HUMAN]
LOGS = [[3], [3, 4], [2, 3], [1, 2, 2, 2], [4], [2, 3, 2, 4], [3], [2, 2, 4], [3, 3, 4], [1, 3]]

CALLS: dict[str, Callable[[], object]] = {
    "agreement": lambda: st.agreement(HUMAN, GAPPED, scores=SCORES, weights=DESIGN, resamples=60, seed=3),
    "agreement plain": lambda: st.agreement(HUMAN, JUDGE, resamples=60, level=0.9, good=4),
    "agreement clusters": lambda: st.agreement(HUMAN, JUDGE, scores=SCORES, clusters=QUESTIONS, resamples=60),
    "agreement of one class": lambda: st.agreement([4] * 20, [4] * 20, resamples=20),
    "agreement of few": lambda: st.agreement([4, 1], [4, 2], resamples=20),
    "agreement report": lambda: str(st.agreement(HUMAN, GAPPED, scores=SCORES, resamples=60)),
    "rank metrics": lambda: st.rank_metrics(GOOD, SCORES, weights=DESIGN, resamples=50, seed=2),
    "rank metrics of ratings": lambda: st.rank_metrics(GOOD, JUDGE),
    "rank metrics of one class": lambda: [
        st.rank_metrics([one] * 4, [0.1, 0.2, 0.9, 0.9]) for one in (True, False)
    ],
    "kappas": lambda: [st.cohen_kappa(HUMAN, JUDGE, weighting=one) for one in ("none", "linear", "quadratic")],
    "correlations": lambda: [one(HUMAN, SCORES) for one in (st.pearson, st.spearman, st.kendall_tau)],
    "constant": lambda: [one([1, 1, 1], [1, 2, 3]) for one in (st.pearson, st.spearman, st.kendall_tau)],
    "alphas": lambda: [st.krippendorff_alpha(UNITS, metric=one) for one in ("nominal", "ordinal", "interval")],
    "gwet": lambda: [st.gwet_ac(UNITS, weighting=one) for one in ("none", "linear", "quadratic")],
    "alt test": lambda: st.alt_test(RATERS, JUDGE),
    "alt test of scores": lambda: st.alt_test(RATERS, JUDGE, scoring="rmse", epsilon=0.1, least_rows=20),
    "human likeness": lambda: st.human_likeness(RATERS, JUDGE),
    "intervals": lambda: [
        one(*case)
        for one in (st.wilson, st.clopper_pearson, st.confidence_sequence)
        for case in ((0, 12), (3, 12), (11, 12), (12, 12))
    ],
    "narrow": lambda: [one(3, 12, level=0.8) for one in (st.wilson, st.clopper_pearson, st.confidence_sequence)],
    "bootstrap": lambda: st.bootstrap(SCORES, resamples=80, seed=4),
    "bootstrap of clusters": lambda: st.bootstrap(SCORES, clusters=QUESTIONS, resamples=80, level=0.9),
    "bootstrap of medians": lambda: st.bootstrap(SCORES, lambda one: float(one.max()), resamples=80),
    "errors": lambda: [st.cluster_se(SCORES), st.cluster_se(SCORES, QUESTIONS), st.cluster_se([1.0])],
    "sign flip": lambda: [
        st.sign_flip(LABELS, flips=99),
        st.sign_flip([0.2, -0.1, 0.3, 0.1, 0.2]),
        st.sign_flip([]),
    ],
    "sign flip of clusters": lambda: st.sign_flip(
        [one - 0.45 for one in LABELS], clusters=[n // 2 for n in range(40)], flips=200, seed=1
    ),
    "sign flip of many": lambda: st.sign_flip([one - 0.45 for one in REST], flips=200, seed=1),
    "mcnemar": lambda: [st.mcnemar(b, c, mid_p=mid) for b, c in ((3, 9), (0, 0), (5, 5)) for mid in (False, True)],
    "win rate": lambda: st.win_rate(["AA", "BB", "AB", "BA", "TT", "AT", "T.", ".."] * 4),
    "win rate of sides": lambda: st.win_rate(SIDES, clusters=[n // 4 for n in range(32)], level=0.9, seed=2),
    "length adjusted": lambda: st.length_adjusted(PREFERRED, LENGTHS, OTHERS, resamples=20, seed=1),
    "length adjusted with more": lambda: st.length_adjusted(
        PREFERRED, LENGTHS, OTHERS, difficulty=SCORES, clusters=QUESTIONS, resamples=20, level=0.9
    ),
    "length adjusted with anchors": lambda: st.length_adjusted(
        PREFERRED, LENGTHS, OTHERS, anchors=[(0.5, 100, 100), (1.0, 200, 100)] * 5, resamples=20
    ),
    "many tests": lambda: [
        one([0.001, 0.04, 0.03, 0.2, 0.9]) for one in (st.holm, st.benjamini_hochberg, st.benjamini_yekutieli)
    ],
    "plans": lambda: [
        st.n_pairs(0.03, discordance=1.0),
        st.n_pairs(-0.2, discordance=0.2),
        st.n_pairs(0.1, sd=0.4, power=0.9),
        st.n_pairs(0.1, sd=0.4, alpha=0.01),
        st.n_per_arm(0.8, 0.7, alpha=0.1, power=0.7),
    ],
    "binomial draws": lambda: [_binomial(n, p, Random(n)) for n in (0, 1, 7, 900) for p in (0.0, 0.3, 0.5, 0.77)],
    "exact certificate": lambda: st.certify({4: (5, 0), 3: (200, 8), 2: (300, 50), 1: (400, 90)}, 0.1, 0.05),
    "fallback certificate": lambda: st.certify({4: (300, 29), 3: (300, 5), 2: (300, 12)}, method="fallback"),
    "anytime certificate": lambda: st.certify({4: (43, 0), 3: (60, 2)}, 0.2, 0.1, method="anytime"),
    "certificate of counts": lambda: st.certify([(0, 0), (300, 12), (320, 90)]),
    "certificate report": lambda: [str(st.certify({4: (43, 0)})), str(st.certify({4: (10, 3)}))],
    "certificate of runs": lambda: st.certify_runs(list(zip(RUNS, BAD, strict=True)) * 6, 0.4),
    "certificate of impatient runs": lambda: st.certify_runs(
        list(zip(RUNS, BAD, strict=True)) * 6, 0.4, 0.1, (4, 3), 4, patience=1, risk="per_question"
    ),
    "weighted certificate": lambda: st.certify_weighted({4: RELEASES, 3: LAX, 2: LAX}, 0.2, 0.05),
    "weighted certificate with a largest": lambda: st.certify_weighted(
        [RELEASES[:20], RELEASES], 0.2, largest=9.0
    ),
    "weighted certificate of none": lambda: st.certify_weighted([[], LAX]),
    "weighted risks": lambda: [
        st.weighted_risk([one.loss for one in RELEASES], 0.2, weights=[one.weight for one in RELEASES]),
        st.weighted_risk(
            [one.loss for one in RELEASES], 0.2, clusters=[one.question for one in RELEASES], largest=3
        ),
        st.weighted_risk([0.0] * 10, 0.2),
        st.weighted_risk([1.0] * 10, 0.2),
        st.weighted_risk([], 0.2),
    ],
    "hoeffding bentkus": lambda: [
        st.hoeffding_bentkus(*one) for one in ((0.0, 30, 0.1), (0.3, 30, 0.1), (1.0, 3, 0.9))
    ],
    "e values": lambda: [st.e_value(*one) for one in ((0, 10, 0.1), (3, 10, 0.1), (10, 10, 0.5), (0, 0, 0.1))],
    "cusum": lambda: [st.e_cusum([0, 0, 1, 1, 1, 0], 0.1), st.e_cusum([True, False] * 3, 0.1, 0.4)],
    "labels needed": lambda: [
        st.labels_needed(),
        st.labels_needed(0.2, 0.1, 0.1),
        st.labels_needed(0.1, 0.05, 0.0),
    ],
    "questions needed": lambda: [questions_needed(0.1, 0.05, one) for one in (0.0, 0.02, 0.095, 0.2)],
    "fallback": lambda: [
        _fallback([0.01, 0.5, 0.02, 0.03], 0.1),
        _fallback([], 0.1),
        _fallback([0.05, 0.06], 0.1),
    ],
    "rogan gladen": lambda: [
        st.rogan_gladen(780, 1000, 28, 40, 147, 160, level=0.9),
        st.rogan_gladen(5, 10, 2, 4, 2, 4),
        st.rogan_gladen(990, 1000, 90, 100, 90, 100),
        st.rogan_gladen(2, 1000, 39, 40, 150, 160),
    ],
    "rates": lambda: [
        st.ppi_rate(GOOD, PASSED, [one > 0.4 for one in REST], variant=variant, weight=weight)
        for variant in ("default", "reference")
        for weight in (None, 0.0, 0.5, 1.0)
    ],
    "means": lambda: [
        st.ppi_mean(LABELS, SCORED, REST, variant=variant, weight=weight, level=0.9)
        for variant in ("default", "reference")
        for weight in (None, 0.0, 1.0)
    ],
    "means of clusters": lambda: st.ppi_mean(LABELS, SCORED, REST, clusters=[n // 2 for n in range(40)]),
    "means of weights": lambda: st.ppi_mean(
        LABELS, SCORED, REST, weights=[1 + n % 2 for n in range(40)], variant="reference"
    ),
    "means of few": lambda: st.ppi_mean(LABELS[:4], SCORED[:4], REST),
    "active": lambda: [
        CHANCES,
        st.active_mean(SCORED, DRAWN, CHANCES),
        st.active_probabilities([0.0, 0.0, 0.0], 2),
    ],
    "active of clusters": lambda: st.active_mean(
        SCORED, DRAWN, CHANCES, level=0.9, clusters=[n // 2 for n in range(40)]
    ),
    "strata": lambda: [
        st.stratified_rate([0.2, 0.8], 500, [20, 30], [5, 30], level=0.9),
        st.neyman([0.2, 0.8], [20, 30], [5, 30], 50),
    ],
    "replays": lambda: [
        st.replay_runs(RUNS, threshold, attempts, patience, bad=BAD)
        for threshold, attempts, patience in ((4, 4, None), (3, 2, None), (4, 4, 1), (2, 3, 2))
    ],
    "replay of a run": lambda: [st.replay_run(run, 4, 3, 2) for run in RUNS],
    "replay of scores": lambda: st.replay_run([2, 3, 4], 0.6, 3, scores=[0.2, None, 0.7]),
    "explored": lambda: st.replay_runs(LOGS, 4, 4, recorded_threshold=3, exploration=0.25, least_effective=0),
    "explored little": lambda: st.replay_runs(LOGS, 4, 2, recorded_threshold=3, exploration=0.25),
    "curve": lambda: [st.pass_at_attempt(RUNS, 4), st.pass_at_attempt([], 4)],
    "gains": lambda: [st.gains(RUNS), st.gains([[2, 4], [1, 3]], rejudged=[[3], [2]]), st.best_and_last(RUNS)],
    "biases": lambda: st.bias_report(
        position=PAIRS * 3,
        verbosity=CUES,
        cues={"authority": CUES, "format": CUES[:8]},
        robustness={"typos": PROBES},
        self_preference=FAMILY,
        leniency=list(zip(HUMAN, JUDGE, strict=True)),
        seed=2,
        length=(JUDGE, HUMAN, RATERS[0], [one / 100 for one in LENGTHS]),
    ),
    "biases by clusters": lambda: st.bias_report(
        position=[(1.0, -1.0), (0.0, 1.0), (1.0, 1.0)] * 20, self_preference=FAMILY, clusters=QUESTIONS
    ),
    "bias of length by clusters": lambda: st.bias_report(
        length=(JUDGE, HUMAN, RATERS[0], [one / 100 for one in LENGTHS]), clusters=QUESTIONS
    ),
    "bias of nothing": lambda: st.bias_report(position=[], verbosity=[], robustness={"x": []}, self_preference=[]),
    "bias report": lambda: str(st.bias_report(position=PAIRS * 9, leniency=CUES, verbosity=CUES[:3])),
    "benefit": lambda: [
        st.loop_benefit([False] * 40 + [True] * 60, [True] * wins + [False] * (43 - wins) + [True] * 57)
        for wins in (22, 5, 3, 0)
    ],
    "benefit by questions": lambda: st.judged_together(
        [
            st.loop_benefit(
                [False, False, True, True] * 10,
                [True, False, True, True] * 10,
                clusters=[n // 2 for n in range(40)],
            )
        ]
        * 3
    ),
    "gap": lambda: st.rise_gap(
        [(False, True)] * 20,
        [(False, True)] * 8 + [(True, True)] * 12,
        clusters=[n // 2 for n in range(20)],
    ),
    "instrumental": lambda: st.instrumental(
        JUDGE, HUMAN, RATERS[0], [one / 100 for one in LENGTHS], clusters=QUESTIONS
    ),
}


BEFORE = read(FILE)


@for_every("name", CALLS)
def test_no_figure_changes_unnoticed(name: str) -> None:
    """Values, intervals, counts, methods, reasons and notes are those on file; every difference is listed."""
    assert differences(BEFORE[name], plain(CALLS[name]()), name) == []


def test_every_figure_on_file_is_calculated() -> None:
    """What is calculated no more is taken off the file."""
    assert sorted(BEFORE) == sorted(CALLS)


if __name__ == "__main__":
    write(FILE, {name: call() for name, call in CALLS.items()})
