"""What certificates and bias reports promise, on simulated judges; slow, so it runs with SELFREFINE_SIMULATE=1."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

if not os.environ.get("SELFREFINE_SIMULATE"):
    pytest.skip("simulations take a minute; set SELFREFINE_SIMULATE=1", allow_module_level=True)

import numpy as np
from numpy.random import Generator

from judges.offline import statistics as st
from judges.offline.statistics.certificates import Release

Runs = list[tuple[list[int], list[bool]]]

DELTA, ATTEMPTS, RUNS, RESAMPLES = 0.05, 5, 300, 300


def recorded(random: Generator, runs: int) -> Runs:
    """Simulate loops recorded until the rating was 4: hard questions get more tries from a fallible judge.

    Of single answers that pass about 8 % (from 4) and 16 % (from 3) are bad, of loops of five about 12 % and 23 %.
    """
    chances = random.beta(0.63, 0.37, runs)
    good = random.random((runs, ATTEMPTS)) < chances[:, None]
    latent = np.where(good, 1.5, 0.0) + random.normal(0, 1, (runs, ATTEMPTS))
    ratings = 1 + (latent > 0.0).astype(int) + (latent > 0.6) + (latent > 1.4)
    records: Runs = []
    for rated, is_good in zip(ratings.tolist(), good.tolist(), strict=True):
        length = rated.index(4) + 1 if 4 in rated else ATTEMPTS
        records.append((rated[:length], [not one for one in is_good[:length]]))
    return records


def released(runs: Runs, threshold: int, attempts: int) -> tuple[int, int]:
    """Return how many answers a threshold releases within some attempts, and how many of them are bad."""
    bad = []
    for ratings, wrong in runs:
        place = next((i for i, rating in enumerate(ratings[:attempts]) if rating >= threshold), None)
        if place is not None:
            bad.append(wrong[place])
    return len(bad), sum(bad)


def naive(runs: Runs, alpha: float, attempts: int) -> int | None:
    """Return the lowest threshold whose share of bad answers looks good enough."""
    counts = {threshold: released(runs, threshold, attempts) for threshold in (2, 3, 4)}
    return next((t for t, (n, bad) in counts.items() if n and bad / n <= alpha), None)


def naive_on_first_attempts(runs: Runs, alpha: float) -> int | None:
    """Look at single answers, and then release loops."""
    return naive(runs, alpha, 1)


def naive_on_loops(runs: Runs, alpha: float) -> int | None:
    """Look at what loops release, without a test."""
    return naive(runs, alpha, ATTEMPTS)


def exact_on_first_attempts(runs: Runs, alpha: float) -> int | None:
    """Test single answers exactly, and then release loops."""
    return chosen(st.certify({t: released(runs, t, 1) for t in (4, 3, 2)}, alpha, DELTA))


def certified(runs: Runs, alpha: float) -> int | None:
    """Return the threshold that the certificate allows."""
    return chosen(st.certify_runs(runs, alpha, DELTA, max_attempts=ATTEMPTS))


def chosen(certificate: st.Certificate) -> int | None:
    """Return the certified threshold."""
    return None if certificate.certified is None else int(certificate.certified)


def broken(rule: Callable[[Runs, float], int | None], alpha: float) -> tuple[float, float]:
    """Return in which share of resamples a rule chooses a threshold that breaks the promise, and any threshold."""
    random = np.random.default_rng(7)
    truth = recorded(random, 60_000)
    counts = {threshold: released(truth, threshold, ATTEMPTS) for threshold in (2, 3, 4)}
    risks = {threshold: bad / n for threshold, (n, bad) in counts.items()}
    choices = [rule(recorded(random, RUNS), alpha) for _ in range(RESAMPLES)]
    wrong = sum(threshold is not None and risks[threshold] > alpha for threshold in choices)
    return wrong / RESAMPLES, sum(threshold is not None for threshold in choices) / RESAMPLES


@pytest.mark.parametrize("alpha", [0.10, 0.20])
def test_a_certificate_keeps_its_promise_where_naive_rules_do_not(alpha: float) -> None:
    """It breaks in at most delta + 3 standard errors of 300 resamples; rules without loops, or tests, break it."""
    shares = {
        rule.__name__: broken(rule, alpha)
        for rule in (naive_on_first_attempts, naive_on_loops, exact_on_first_attempts, certified)
    }
    assert shares["certified"][0] <= DELTA + 3 * (DELTA * (1 - DELTA) / RESAMPLES) ** 0.5
    assert shares["naive_on_first_attempts"][0] > 0.5
    assert shares["naive_on_loops"][0] > DELTA
    assert shares["exact_on_first_attempts"][0] > DELTA


def test_a_certificate_is_often_issued_where_it_holds() -> None:
    """With a tolerance well above what is true a threshold is nearly always certified."""
    wrong, any_threshold = broken(certified, 0.20)
    assert wrong <= DELTA
    assert any_threshold >= 0.9


def report(random: Generator, *, lean: float, padding: float) -> st.BiasReport:
    """Report on a simulated judge: 150 pairs in both orders and 100 probes of each kind."""
    gap = random.normal(0, 1, 150)
    orders = [np.sign(gap + lean + random.normal(0, 1, 150)), np.sign(-gap + lean + random.normal(0, 1, 150))]

    def probes(shift: float) -> list[tuple[float, float]]:
        quality = random.normal(2.5, 0.8, 100)

        def rate(extra: float) -> list[float]:
            return list(np.clip(np.round(quality + extra + random.normal(0, 0.4, 100)), 1, 4).tolist())

        return list(zip(rate(0), rate(shift), strict=True))

    human = random.integers(1, 5, 150)
    own = [
        [*map(float, np.clip(np.round(random.normal(2.7, 0.8) + random.normal(0, 0.5, 4)), 1, 4))]
        for _ in range(100)
    ]
    return st.bias_report(
        position=list(zip(*(order.tolist() for order in orders), strict=True)),
        verbosity=probes(padding),
        cues={"authority": probes(0)},
        self_preference=own,
        leniency=[(float(h), float(np.clip(h + random.choice([-1, 0, 0, 1]), 1, 4))) for h in human if 1 < h < 4],
    )


def test_an_unbiased_judge_is_rarely_flagged_and_a_biased_one_usually() -> None:
    """At most 7.5 % of 400 reports flag an unbiased judge; at least 80 % flag a lean and a taste for padding."""
    random = np.random.default_rng(3)
    unbiased = sum(bool(report(random, lean=0, padding=0).flagged) for _ in range(400)) / 400
    biased = sum(
        {"position", "verbosity"} <= set(report(random, lean=0.5, padding=0.5).flagged) for _ in range(100)
    )
    assert unbiased <= 0.075
    assert biased >= 80


def test_runs_of_the_same_questions_are_no_independent_evidence() -> None:
    """Five runs a question that fail together: the bound by question holds, a test over runs does not."""
    random = np.random.default_rng(11)
    kept = broken = 0
    for _ in range(RESAMPLES):
        bad = random.random(60) < 0.1  # the share tolerated, so that any certificate is false
        releases = [
            Release(float(is_bad), 1.0, place) for place, is_bad in enumerate(bad.tolist()) for _ in range(5)
        ]
        kept += st.certify_weighted([releases], 0.1, DELTA).certified is not None
        broken += st.certify([(300, 5 * int(bad.sum()))], 0.1, DELTA).certified is not None
    assert kept / RESAMPLES <= DELTA + 3 * (DELTA * (1 - DELTA) / RESAMPLES) ** 0.5
    assert broken / RESAMPLES > 0.15
