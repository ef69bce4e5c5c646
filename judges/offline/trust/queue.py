"""Which of many answers a person labels next."""

from __future__ import annotations

from collections.abc import Sequence

from judges.offline.trust.calibration import with_labels
from judges.offline.trust.certifying import GOOD
from judges.offline.trust.choosing import to_estimate
from judges.offline.trust.queueing import labels_to_certify
from judges.offline.trust.rows import JudgedRow, judge_among


def choose_rows(
    rows: Sequence[JudgedRow], labels: Sequence[JudgedRow] = (), *, budget: int, seed: int = 0
) -> list[JudgedRow]:
    """Return the rows whose labels are worth most.

    Of recorded loops: a simple random sample of them, and every answer in it that a success rating of 4, 3 or 2
    would release, as a certificate needs them. Of other rows: by the judge's rating, as many of each as make the
    pass rate most exact.

    Args:
        rows: All rows.
        labels: The labels that there are besides those in the rows.
        budget: Labels to be given.
        seed: Seed of the choice.

    Raises:
        ConfigurationError: If no row has a verdict, or rows have those of several judges.
    """
    judge = judge_among(rows, None)
    known = with_labels(rows, labels)[0] if labels else rows
    if any(row.attempt is not None and row.outcome_id is not None for row in rows):
        chosen = labels_to_certify(known, budget=budget, seed=seed)
    else:
        chosen = to_estimate(known, judge, budget=budget, good=GOOD, seed=seed)
    return [label.row for label in chosen]
