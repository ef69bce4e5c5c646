"""What certificates and bias reports promise, on simulated judges; slow, so it runs with SELFREFINE_SIMULATE=1."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

if not os.environ.get("SELFREFINE_SIMULATE"):
    pytest.skip("simulations take a minute; set SELFREFINE_SIMULATE=1", allow_module_level=True)

import numpy as np
from numpy.random import Generator

from judges.offline.statistics import BiasReport, bias_report, certify_runs

Runs = list[tuple[list[int], list[bool]]]

ALPHA, DELTA, ATTEMPTS, RUNS, RESAMPLES = 0.10, 0.05, 5, 300, 300


def recorded(random: Generator, runs: int, quality: float) -> Runs:
    """Simulate loops recorded until the rating was 4: hard questions get more tries from a fallible judge."""
    chances = random.beta(2.2 * quality, 2.2 * (1 - quality), runs)
    good = random.random((runs, ATTEMPTS)) < chances[:, None]
    latent = np.where(good, 1.6, 0.0) + random.normal(0, 1, (runs, ATTEMPTS))
    ratings = 1 + (latent > 0.0).astype(int) + (latent > 1.0) + (latent > 2.0)
    records: Runs = []
    for rated, is_good in zip(ratings.tolist(), good.tolist(), strict=True):
        length = rated.index(4) + 1 if 4 in rated else ATTEMPTS
        records.append((rated[:length], [not one for one in is_good[:length]]))
    return records


def bad_share(runs: Runs, threshold: int) -> tuple[float, int]:
    """Return the share of bad answers that a threshold releases, and how many it releases."""
    bad = []
    for ratings, wrong in runs:
        place = next((i for i, rating in enumerate(ratings) if rating >= threshold), None)
        if place is not None:
            bad.append(wrong[place])
    return (sum(bad) / len(bad) if bad else 0.0), len(bad)


def naive(runs: Runs) -> int | None:
    """Return the lowest threshold whose share of bad answers looks good enough."""
    return next((t for t in (2, 3, 4) if bad_share(runs, t)[0] <= ALPHA and bad_share(runs, t)[1]), None)


def certified(runs: Runs) -> int | None:
    """Return the threshold that the certificate allows."""
    threshold = certify_runs(runs, ALPHA, DELTA, max_attempts=ATTEMPTS).certified
    return None if threshold is None else int(threshold)


def broken(rule: Callable[[Runs], int | None], quality: float) -> float:
    """Return in which share of resamples a rule chooses a threshold that releases too many bad answers."""
    random = np.random.default_rng(7)
    truth = recorded(random, 60_000, quality)
    risks = {threshold: bad_share(truth, threshold)[0] for threshold in (2, 3, 4)}
    chosen = [rule(recorded(random, RUNS, quality)) for _ in range(RESAMPLES)]
    return sum(threshold is not None and risks[threshold] > ALPHA for threshold in chosen) / RESAMPLES


@pytest.mark.parametrize("quality", [0.55, 0.62, 0.7, 0.8])
def test_a_certificate_keeps_its_promise_where_the_naive_rule_does_not(quality: float) -> None:
    """The promise is broken in at most delta + 3 standard errors, for good and bad generators."""
    allowed = DELTA + 3 * (DELTA * (1 - DELTA) / RESAMPLES) ** 0.5
    assert broken(certified, quality) <= allowed


def test_the_naive_rule_breaks_the_promise() -> None:
    """Otherwise the simulation would prove nothing."""
    assert max(broken(naive, quality) for quality in (0.55, 0.62, 0.7, 0.8)) > 0.2


def report(random: Generator, *, lean: float, padding: float) -> BiasReport:
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
    return bias_report(
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
