"""A promise that labels keep alive, in simulated deployments; `python -m tests.bench.deployments` has more."""

from __future__ import annotations

import numpy as np
import pytest

from judges.certificate import IssuedCertificate, Subject
from judges.promise import Audit, AuditedPromise
from tests.bench.deployments import ALPHA, DELTA, Kind, figures_of

_DEPLOYMENTS = 30


@pytest.mark.parametrize("kind", ["sudden", "slow", "traffic"])
def test_a_promise_does_not_stand_on_labels_that_break_it(kind: Kind) -> None:
    """After a drift that breaks a fixed certificate, one kept alive ends in time, and shows fewer bad answers."""
    figures = figures_of(kind, _DEPLOYMENTS)
    assert figures.violations <= DELTA < figures.violations_fixed
    assert figures.bad < figures.bad_fixed
    assert figures.alarms >= 0.9


def test_evidence_against_a_promise_that_holds_is_rare() -> None:
    """Where exactly the tolerated share is bad, 600 looks raise the e-process's alarm with delta at most."""
    issued = IssuedCertificate.issue(
        subject=Subject(), threshold=4, alpha=ALPHA, delta=DELTA, delta_in_all=DELTA, method="sequence", good=3,
        runs=0, released=0, bad=0, labels=0, labels_digest="", rows=(), issued_at="", written_by="",
    )  # fmt: skip
    random, alarms, deployments = np.random.default_rng(7), 0, 150
    for _ in range(deployments):
        promise = AuditedPromise(issued)
        for bad in random.random(600) < ALPHA:
            promise.add(Audit(4, bad=bool(bad)))
        alarms += promise.standing.thresholds[0].highest >= 1 / DELTA
    assert alarms / deployments <= DELTA + 3 * (DELTA * (1 - DELTA) / deployments) ** 0.5
