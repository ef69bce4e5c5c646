"""Simulated deployments under a certificate: the world drifts, labels tell, and what went out is counted.

`uv run --group dev python -m tests.bench.deployments` prints the table of docs/trust.md.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby, islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from judges.certificate import CertifiedRow, IssuedCertificate, Subject
from judges.offline.statistics import certify
from judges.promise import Audit, AuditedPromise

Kind = Literal["none", "sudden", "slow", "traffic"]
KINDS: tuple[Kind, ...] = ("none", "sudden", "slow", "traffic")

Answers = tuple[NDArray[np.int_], NDArray[np.bool_]]
"""Ratings of what is released, 0 for nothing, and whether it is bad."""

ALPHA, DELTA = 0.1, 0.05
_ATTEMPTS = 3
_CALIBRATION = 400
_QUESTIONS = 2_500
_AUDITED = 0.25
_SLOWLY, _STEP = 800, 50
_BAD_AT_FIRST = (0.12, 0.7)
"""Share of bad answers, to easy questions and to hard ones."""

_RATED_GOOD = (0.15, 0.35, 0.5)
_RATED_BAD, _RATED_BAD_LATER = (0.86, 0.09, 0.05), (0.3, 0.6, 0.1)
"""How a judge rates good and bad answers at most 2, 3 and 4; a bad one later, when its model is another."""

_HARD, _HARD_LATER = 0.15, 0.95
_GOOD = 3


@dataclass(frozen=True)
class World:
    """What is true of the questions, the answers and the judge at a time."""

    hard: float
    rated_bad: tuple[float, ...]

    def risk(self, threshold: int, least: int | None = None) -> tuple[float, float]:
        """Return how many questions get a released answer, and how many of these are bad, exactly.

        With `least` of answers that are rated so well alone.
        """
        released, bad, least = 0.0, 0.0, least or threshold
        for share, wrong in zip((1 - self.hard, self.hard), _BAD_AT_FIRST, strict=True):
            passing, counted = (
                wrong * sum(self.rated_bad[one - 2 :]) + (1 - wrong) * sum(_RATED_GOOD[one - 2 :])
                for one in (threshold, least)
            )
            ever = 1 - (1 - passing) ** _ATTEMPTS
            released += share * ever * counted / passing
            bad += share * ever * wrong * sum(self.rated_bad[least - 2 :]) / passing
        return released, bad / released

    def answer(self, n: int, threshold: int, random: np.random.Generator) -> Answers:
        """Return the ratings of what is released, 0 for nothing, and whether it is bad."""
        wrong = np.where(random.random(n) < self.hard, _BAD_AT_FIRST[1], _BAD_AT_FIRST[0])[:, None]
        bad = random.random((n, _ATTEMPTS)) < wrong
        drawn = random.random((n, _ATTEMPTS))
        at_most_2 = np.where(bad, self.rated_bad[0], _RATED_GOOD[0])
        at_most_3 = np.where(bad, sum(self.rated_bad[:2]), sum(_RATED_GOOD[:2]))
        ratings = 2 + (drawn >= at_most_2).astype(int) + (drawn >= at_most_3)
        passing = ratings >= threshold
        first = passing.argmax(axis=1)
        rows = np.arange(n)
        return np.where(passing.any(axis=1), ratings[rows, first], 0), bad[rows, first]


BEFORE = World(_HARD, _RATED_BAD)


def world_at(kind: Kind, question: int, begins: int) -> World:
    """Return what is true when a question is asked."""
    gone = (question - begins) // _STEP * _STEP
    if kind == "none" or gone < 0:
        return BEFORE
    if kind == "traffic":
        return World(_HARD_LATER, _RATED_BAD)
    share = 1.0 if kind == "sudden" else min(1.0, gone / _SLOWLY)
    mixed = tuple(
        (1 - share) * now + share * later for now, later in zip(_RATED_BAD, _RATED_BAD_LATER, strict=True)
    )
    return World(_HARD, mixed)


def calibrated(random: np.random.Generator) -> IssuedCertificate | None:
    """Return a certificate of a calibration before the drift; None where nothing was certified."""
    ratings, bad = BEFORE.answer(_CALIBRATION, 4, random)
    laxer, bad_laxer = BEFORE.answer(_CALIBRATION, 3, random)
    counts: dict[float, tuple[int, int]] = {
        4: (int((ratings > 0).sum()), int(bad[ratings > 0].sum())),
        3: (int((laxer > 0).sum()), int(bad_laxer[laxer > 0].sum())),
    }
    result = certify(counts, ALPHA, DELTA)
    if result.certified is None:
        return None
    unknown: dict[str, Any] = {
        "release_rate": None,
        "release_interval": None,
        "mean_attempts": None,
        "shares": (),
    }
    names = ("policy", "released", "bad", "rate", "upper", "p", "e", "status")
    rows = tuple(CertifiedRow(**unknown, **{name: getattr(row, name) for name in names}) for row in result.rows)
    return IssuedCertificate.issue(
        subject=Subject(), threshold=result.certified, alpha=ALPHA, delta=DELTA, delta_in_all=DELTA,
        method="sequence", good=_GOOD, runs=_CALIBRATION, released=0, bad=0, labels=_CALIBRATION, labels_digest="",
        rows=rows, issued_at="2026-01-01T00:00:00+00:00", written_by="simulation",
    )  # fmt: skip


@dataclass(frozen=True)
class Deployment:
    """What came of one.

    Args:
        violates_fixed: Whether, at some look, the labels that the promise of a threshold rests on, those of its
            released answers and the audits that reach it, are of answers of which more than alpha are bad on
            average, under a certificate that stays as it is.
        violates: The same while the promise stands, under one that labels move.
        bad_fixed: Share of bad ones among the answers released under the fixed certificate.
        bad: The same under the one that labels move.
        alarm_after: Questions from the drift to the first alarm; None where there was none.
        is_needless: Whether there was an alarm while the promise held.
        released: Share of the fixed certificate's released answers that the other one released under its promise.
    """

    violates_fixed: bool
    violates: bool
    bad_fixed: float
    bad: float
    alarm_after: int | None
    is_needless: bool
    released: float


def deploy(kind: Kind, seed: int) -> Deployment | None:
    """Simulate one deployment, with a look after each label; None where nothing was certified."""
    random = np.random.default_rng([seed, KINDS.index(kind)])
    issued = calibrated(random)
    if issued is None or issued.threshold is None:
        return None
    taken, begins = int(issued.threshold), int(random.integers(500, 1_000))
    worlds = _worlds(kind, begins)
    is_audited = random.random(_QUESTIONS) < _AUDITED
    answers = {own: _answers(worlds, own, random) for own in (3, 4)}
    ratings, bad = answers[taken]
    fixed, live = (
        _keep(issued, promise, worlds, answers, is_audited) for promise in (None, AuditedPromise(issued))
    )
    return Deployment(
        violates_fixed=fixed.worst > ALPHA,
        violates=live.worst > ALPHA,
        bad_fixed=float(bad[ratings > 0].mean()),
        bad=float(np.mean(live.released)),
        alarm_after=next((question - begins for question, _ in live.alarms if question >= begins), None),
        is_needless=any(worlds[question].risk(own)[1] <= ALPHA for question, own in live.alarms),
        released=len(live.released) / int((ratings > 0).sum()),
    )


@dataclass
class _Kept:
    """What a promise came to: answers under it, the highest mean risk at a look after which it stood, alarms."""

    released: list[bool]
    alarms: list[tuple[int, int]]
    worst: float = 0.0


def _keep(
    issued: IssuedCertificate,
    promise: AuditedPromise | None,
    worlds: Sequence[World],
    answers: Mapping[int, Answers],
    is_audited: NDArray[np.bool_],
) -> _Kept:
    """Go through the questions under a promise that labels move, or None for one that stays as it is."""
    kept, own = _Kept([], []), int(issued.threshold or 0)
    labels = {int(row.policy): row.released for row in issued.rows if isinstance(row.policy, float)}
    risks = {threshold: BEFORE.risk(threshold)[1] * released for threshold, released in labels.items()}
    for question, world in enumerate(worlds):
        rating, wrong = (column[question] for column in answers[own])
        if not rating:
            continue
        kept.released.append(bool(wrong))
        if not is_audited[question]:
            continue
        for threshold in (one for one in labels if own <= one <= rating):
            labels[threshold] += 1
            risks[threshold] += world.risk(own, threshold)[1]
        if promise is not None:
            promise.add(Audit(int(rating), bad=bool(wrong)))
            if promise.threshold != own:
                kept.alarms.append((question, own))
            if promise.threshold is None:
                break
            own = int(promise.threshold)
        kept.worst = max(kept.worst, risks[own] / labels[own])
    return kept


def _worlds(kind: Kind, begins: int) -> list[World]:
    later = world_at(kind, _QUESTIONS, begins)
    return [
        world_at(kind, question, begins) if kind == "slow" else BEFORE if question < begins else later
        for question in range(_QUESTIONS)
    ]


def _answers(worlds: Sequence[World], threshold: int, random: np.random.Generator) -> Answers:
    """Return ratings and faults of what is released, question by question; runs of one world at once."""
    parts = [
        world.answer(len(list(run)), threshold, random) for world, run in groupby(worlds, key=lambda world: world)
    ]
    return np.concatenate([ratings for ratings, _ in parts]), np.concatenate([bad for _, bad in parts])


@dataclass(frozen=True)
class Figures:
    """What came of many deployments of one kind: shares of them, medians of the rest."""

    kind: Kind
    violations_fixed: float
    violations: float
    bad_fixed: float
    bad: float
    alarms: float
    needless: float
    delay: float
    released: float

    def __str__(self) -> str:
        shares = (self.violations_fixed, self.violations, self.bad_fixed, self.bad, self.alarms, self.needless)
        delay = "-" if np.isnan(self.delay) else f"{self.delay:.0f}"
        return f"| {' | '.join((self.kind, *(f'{one:.1%}' for one in shares), delay, f'{self.released:.0%}'))} |"


def figures_of(kind: Kind, deployments: int, *, seed: int = 0) -> Figures:
    """Return what comes of many deployments; those in which nothing was certified have none."""
    drawn = (deploy(kind, seed + number) for number in count())
    each = list(islice((one for one in drawn if one is not None), deployments))
    delays = [one.alarm_after for one in each if one.alarm_after is not None]
    return Figures(
        kind=kind,
        violations_fixed=float(np.mean([one.violates_fixed for one in each])),
        violations=float(np.mean([one.violates for one in each])),
        bad_fixed=float(np.median([one.bad_fixed for one in each])),
        bad=float(np.median([one.bad for one in each])),
        alarms=len(delays) / len(each),
        needless=float(np.mean([one.is_needless for one in each])),
        delay=float("nan") if kind == "none" or not delays else float(np.median(delays)),
        released=float(np.mean([one.released for one in each])),
    )


_HEAD = (
    "| drift | violations, fixed | violations, kept alive | bad released, fixed | bad released, kept alive "
    "| alarms | needless ones | questions to the alarm | released beside fixed |"
)


def main(deployments: int) -> None:
    """Print what is true before and after each drift, and the table."""
    for kind in KINDS:
        both = ((threshold, BEFORE, world_at(kind, _QUESTIONS, 0)) for threshold in (4, 3))
        lines = (f"from {one}: {old.risk(one)[1]:.1%} bad, then {new.risk(one)[1]:.1%}" for one, old, new in both)
        sys.stdout.write(f"{kind}: {'; '.join(lines)}\n")
    sys.stdout.write(f"\n{_HEAD}\n{'| --- ' * 9}|\n")
    for kind in KINDS:
        sys.stdout.write(f"{figures_of(kind, deployments)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
