"""Which of many answers a person labels next."""

from __future__ import annotations

from collections.abc import Sequence

from judges.offline.statistics import replay_run
from judges.offline.trust.calibration import CalibrationRun, runs_of
from judges.offline.trust.choosing import to_certify, to_estimate
from judges.offline.trust.rows import JudgedRow, judge_among

_GOOD = 3
_THRESHOLDS = (4, 3, 2)


def choose_rows(rows: Sequence[JudgedRow], *, budget: int, seed: int = 0) -> list[JudgedRow]:
    """Return the rows whose labels are worth most.

    Of recorded loops: a simple random sample of them, and every answer in it that a success rating of 4, 3 or 2
    would release, as a certificate needs them. Of other rows: by the judge's rating, as many of each as make the
    pass rate most exact.

    Args:
        rows: All rows, with the labels that there are.
        budget: Labels to be given.
        seed: Seed of the choice.

    Raises:
        ConfigurationError: If no row has a verdict, or rows have those of several judges.
    """
    judge = judge_among(rows, None)
    if not any(row.attempt is not None and row.outcome_id is not None for row in rows):
        return [chosen.row for chosen in to_estimate(rows, judge, budget=budget, good=_GOOD, seed=seed)]
    runs = runs_of(rows, good=_GOOD, split=None)
    released = [[_released(run, judge, threshold) for run in runs] for threshold in _THRESHOLDS]
    return [chosen.row for chosen in to_certify(runs, released, budget=budget, seed=seed)]


def _released(run: CalibrationRun, judge: str, threshold: int) -> int | None:
    ratings = [mark.effective for mark in run.marks(judge)]
    return replay_run(ratings, threshold, max(1, len(ratings))).released
