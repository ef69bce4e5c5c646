"""How many labels a certificate takes, by how they are made: `uv run --group dev python -m tests.bench.labels`.

Simulated: the labels after which four of five calibrations are certified, at 10 % tolerated and 95 % confidence.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from judges.offline.statistics import AssistedLabel, assisted_e_value, certify, e_value

ALPHA, DELTA, POWER = 0.1, 0.05, 0.8
_RESAMPLES, _MOST = 300, 1_200
_STEP, _BESIDE = 5, 4
_ERRORS = 0.1

Labels = tuple[NDArray[np.bool_], NDArray[np.float64]]
"""Whether each answer counts as bad, and how many labels it took, a row a calibration."""


@dataclass(frozen=True)
class Method:
    """A way to label and to test.

    Args:
        name: What it is called.
        label: Makes labels of answers that truly are bad, or not.
        delta: What the test may spend.
        is_anytime: Whether e-values are looked at after every few labels.
        halves: Whether a second judge must agree, which is taken to halve the share of bad answers.
        is_assisted: Whether the judge's doubts of labelled and of other answers are used, too.
    """

    name: str
    label: Callable[[NDArray[np.bool_], np.random.Generator], Labels]
    delta: float = DELTA
    is_anytime: bool = False
    halves: bool = False
    is_assisted: bool = False


def right(bad: NDArray[np.bool_], random: np.random.Generator) -> Labels:
    """Return labels without errors."""
    del random
    return bad, np.ones(bad.shape)


def one_in_ten_wrong(bad: NDArray[np.bool_], random: np.random.Generator) -> Labels:
    """Return labels of which one in ten is wrong."""
    return _said(bad, random), np.ones(bad.shape)


def adjudicated(bad: NDArray[np.bool_], random: np.random.Generator) -> Labels:
    """Return such labels; who is called bad is looked at by a second person, and by a third where they differ."""
    first, second, third = (_said(bad, random) for _ in range(3))
    return first & (second | third), np.add(1 + first.astype(float), first & ~second, dtype=np.float64)


def _said(bad: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.bool_]:
    return bad ^ (random.random(bad.shape) < _ERRORS)


METHODS = (
    Method("right labels, used once (`--once`)", right),
    Method("right labels that may be used again", right, delta=DELTA / 2),
    Method("looking after every fifth (`--method anytime`)", right, is_anytime=True),
    Method("the same, with the judge's doubts (`--method assisted`)", right, is_anytime=True, is_assisted=True),
    Method("one in ten labels wrong", one_in_ten_wrong),
    Method("the same, bad ones seen again, as `refine certify RECORD` does", adjudicated),
    Method("right labels, a second judge must agree (bad answers halved)", right, halves=True),
)


def labels_for(method: Method, rate: float, *, seed: int = 0) -> float | None:
    """Return the mean number of labels at which four of five calibrations are certified; None for too many."""
    random = np.random.default_rng(seed)
    true = random.random((_RESAMPLES, _MOST)) < (rate / 2 if method.halves else rate)
    bad, cost = method.label(true, random)
    counts, costs = bad.cumsum(axis=1), cost.cumsum(axis=1)
    doubts, others = _doubts(true, random), _doubts(random.random((*true.shape, _BESIDE)) < rate, random)
    stopped = np.zeros(_RESAMPLES, dtype=bool)
    for n in range(_STEP, _MOST + 1, _STEP):
        if method.is_assisted:
            certified = stopped.copy()
            for place in np.flatnonzero(~stopped):
                parts = (bad[place, :n].tolist(), doubts[place, :n].tolist(), others[place, :n].tolist())
                labels = [AssistedLabel(*one) for one in zip(*parts, strict=True)]
                certified[place] = assisted_e_value(labels, ALPHA) >= 1 / method.delta
        else:
            passing = {int(one): _is_certified(int(one), n, method) for one in np.unique(counts[:, n - 1])}
            certified = np.array([passing[int(one)] for one in counts[:, n - 1]])
        stopped = stopped | certified if method.is_anytime else certified
        if stopped.mean() >= POWER:
            return float(costs[:, n - 1].mean())
    return None


def _doubts(bad: NDArray[np.bool_], random: np.random.Generator) -> NDArray[np.float64]:
    """Return how bad a judge takes answers for: most bad ones for doubtful, most good ones for good."""
    return np.where(bad, random.beta(1.2, 1.5, bad.shape), random.beta(0.5, 6, bad.shape))


def _is_certified(bad: int, n: int, method: Method) -> bool:
    if method.is_anytime:
        return e_value(bad, n, ALPHA) >= 1 / method.delta
    return certify([(n, bad)], ALPHA, method.delta).certified is not None


RATES = (ALPHA / 4, ALPHA / 2, 0.75 * ALPHA)


def main() -> None:
    """Print the table of docs/trust.md."""
    sys.stdout.write("| labels | 2.5 % bad | 5 % | 7.5 % |\n| --- | --- | --- | --- |\n")
    for method in METHODS:
        found = (labels_for(method, rate) for rate in RATES)
        cells = ("more than 1,200" if one is None else f"{one:.0f}" for one in found)
        sys.stdout.write(f"| {method.name} | {' | '.join(cells)} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
