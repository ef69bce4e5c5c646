"""A promise that labels keep alive, in simulated deployments; `python -m tests.bench.deployments` has more."""

from __future__ import annotations

import math

import numpy as np
import pytest

from judges.certificate import IssuedCertificate
from judges.promise import Audit, AuditedPromise
from tests.bench.deployments import ALPHA, DELTA, Kind, figures_of
from tests.loops.recorded import certified, issued

_DEPLOYMENTS = 30


@pytest.mark.parametrize("kind", ["sudden", "slow", "traffic"])
def test_a_promise_does_not_stand_on_labels_that_break_it(kind: Kind) -> None:
    """After a drift that breaks a fixed certificate, one kept alive ends in time, and shows fewer bad answers."""
    figures = figures_of(kind, _DEPLOYMENTS)
    assert figures.violations <= DELTA < figures.violations_fixed
    assert figures.bad < figures.bad_fixed
    assert figures.alarms >= 0.9


@pytest.mark.parametrize(("released", "bad"), [(400, 30), (1_000, 84)])
def test_a_certificate_that_is_only_just_one_does_not_stand_on_labels_that_break_it(
    released: int, bad: int
) -> None:
    """Its promise has ended when its labels and the audits are bad in more than alpha of cases, and else lasts."""
    issuing = issued(alpha=ALPHA, delta=DELTA, rows=(certified(4, released, bad),))
    later = 0.17
    until = math.ceil((ALPHA * released - bad) / (later - ALPHA))
    assert _standing(issuing, rate=later, audits=until) <= DELTA
    assert _standing(issuing, rate=bad / released, audits=until) >= 0.8


def _standing(certificate: IssuedCertificate, *, rate: float, audits: int) -> float:
    """Return the share of deployments in which a promise stands after audits, a look after each."""
    random, standing, deployments = np.random.default_rng(7), 0, 100
    for _ in range(deployments):
        promise = AuditedPromise(certificate)
        for bad in random.random(audits) < rate:
            promise.add(Audit(4, bad=bool(bad)))
        standing += promise.threshold is not None
    return standing / deployments


def test_evidence_against_a_promise_that_holds_is_rare() -> None:
    """Where exactly the tolerated share is bad, 600 looks raise the e-process's alarm with delta at most."""
    certificate = issued(alpha=ALPHA, delta=DELTA)
    random, alarms, deployments = np.random.default_rng(7), 0, 150
    for _ in range(deployments):
        promise = AuditedPromise(certificate)
        for bad in random.random(600) < ALPHA:
            promise.add(Audit(4, bad=bool(bad)))
        alarms += promise.standing.thresholds[0].highest >= 1 / DELTA
    assert alarms / deployments <= DELTA + 3 * (DELTA * (1 - DELTA) / deployments) ** 0.5
