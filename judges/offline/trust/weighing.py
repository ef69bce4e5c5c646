"""The test of each policy of a chain: exact on counts, or a bound where answers have weights or graded harm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from judges.errors import ConfigurationError, shortened
from judges.offline.statistics import certify, certify_weighted
from judges.offline.statistics.certificates import AnyMethod, Certificate
from judges.offline.trust.calibration import CalibrationRun
from judges.offline.trust.chains import Tally
from judges.offline.trust.labels import Harm
from judges.offline.trust.rows import JudgedRow
from judges.verdict import HIGHEST, LOWEST

_RATINGS = range(LOWEST, HIGHEST + 1)


def harm_of(harm: Mapping[int, float] | Sequence[float] | None, method: AnyMethod) -> Harm | None:
    """Return the harm of answers rated 1, 2, 3 and 4; a rating that a mapping leaves out does none.

    Raises:
        ConfigurationError: If it is out of range, falls short for a better rating, or the test is exact.
    """
    if harm is None:
        return None
    if method != "weighted":
        raise ConfigurationError(f"harm is for method='weighted' (--method weighted), not {method!r}")
    if isinstance(harm, Mapping):
        strangers = [name for name in harm if name not in _RATINGS]
        losses = [] if strangers else [float(harm.get(rating, 0.0)) for rating in _RATINGS]
    else:
        losses = [float(loss) for loss in harm]
    falls = losses == sorted(losses, reverse=True)
    if len(losses) != len(_RATINGS) or not falls or not all(0 <= loss <= 1 for loss in losses):
        raise ConfigurationError(
            f"harm is 0 to 1 for each of the ratings 1 to 4, the worse the more, for instance "
            f"{{1: 1.0, 2: 0.5}} (--harm 1,0.5,0,0), not {shortened(harm)}"
        )
    return losses[0], losses[1], losses[2], losses[3]


def check_weights(rows: Sequence[JudgedRow], method: AnyMethod, largest_weight: float | None) -> None:
    """Check that rows with weights get a test that takes them.

    Raises:
        ConfigurationError: If they do not, or `largest_weight` stands beside an exact test, or is not above 0.
    """
    if method != "weighted" and any(row.weight != 1 for row in rows):
        raise ConfigurationError(
            "the rows have weights, and an exact certificate needs a simple random sample of runs, without any: "
            "take the weaker test, method='weighted' (--method weighted)"
        )
    if largest_weight is not None and (method != "weighted" or largest_weight <= 0):
        raise ConfigurationError(
            f"largest_weight is above 0, and for method='weighted' (--method weighted), not "
            f"{shortened(largest_weight)} with {method!r}"
        )


def heaviest_question(runs: Sequence[CalibrationRun]) -> float:
    """Return the largest sum of weights that the runs of a question have."""
    sums: dict[str, float] = {}
    for run in runs:
        sums[run.question_id] = sums.get(run.question_id, 0.0) + run.weight
    return max(sums.values(), default=1.0)


def weight_notes(runs: Sequence[CalibrationRun], method: AnyMethod, largest_weight: float | None) -> list[str]:
    """Say by what losses are scaled, where that was not fixed before and questions differ."""
    if method != "weighted" or largest_weight is not None or heaviest_question(runs) == 1:
        return []
    note = (
        f"a question weighs at most {heaviest_question(runs):g}, as in these runs; the promise is strict if that "
        f"was fixed before labels were seen (largest_weight, --largest-weight)"
    )
    return [note]


def tested_policies(
    tallies: Sequence[Tally],
    runs: Sequence[CalibrationRun],
    *,
    alpha: float,
    delta: float,
    method: AnyMethod,
    per_question: bool,
    largest_weight: float | None,
) -> tuple[Certificate, list[tuple[int, int]]]:
    """Return the outcome of the test, and what each policy releases and how much of it is bad.

    Raises:
        ConfigurationError: If a question weighs more than was fixed.
    """
    counts = [(len(runs) if per_question else tally.released, tally.bad) for tally in tallies]
    if method != "weighted":
        return certify(counts, alpha, delta, method=method), counts
    heaviest = heaviest_question(runs)
    if largest_weight is not None and largest_weight < heaviest:
        raise ConfigurationError(
            f"largest_weight={largest_weight:g} is exceeded: the runs of a question weigh {heaviest:g} together"
        )
    chain = [[*tally.releases, *(tally.silent if per_question else ())] for tally in tallies]
    return certify_weighted(chain, alpha, delta, largest=largest_weight or heaviest), counts
