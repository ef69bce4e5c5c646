"""Which answers people are to label: for a certificate of recorded loops, or for a pass rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from judges.offline.statistics import replay_run
from judges.offline.trust.beside import labels_for
from judges.offline.trust.calibration import of_one_loop, one_per_question, runs_of, with_labels
from judges.offline.trust.certifying import GOOD, recorded_attempts
from judges.offline.trust.chains import checked_thresholds
from judges.offline.trust.choosing import NextLabel, to_certify, to_estimate, to_estimate_actively
from judges.offline.trust.rows import Source, judge_among, read_judged


def labels_to_estimate(
    rows: Source,
    labels: Source | None = None,
    *,
    judge: str | None = None,
    sampling: Literal["by_rating", "active"] = "by_rating",
    good: float = GOOD,
    budget: int = 80,
    seed: int = 0,
) -> list[NextLabel]:
    """Return the rows whose labels make a pass rate most exact.

    Args:
        rows: Judged rows; see `align`.
        labels: Labels so far; by default those beside the file of rows.
        judge: The judge, where rows have verdicts of several.
        sampling: `"by_rating"`: as many of each rating as it is worth; again as labels come in. `"active"`: each
            row with a probability that grows with how unsure the judge is of it; once.
        good: Least human rating that is good.
        budget: Most labels, or of an active sample the expected number.
        seed: Seed of the draw.

    Raises:
        ConfigurationError: If rows or labels cannot be used, or an active sample was drawn before.
    """
    judged, _ = with_labels(read_judged(rows), labels_for(rows, labels)[0])
    choose = to_estimate if sampling == "by_rating" else to_estimate_actively
    return choose(judged, judge_among(judged, judge), budget=budget, good=good, seed=seed)


def labels_to_certify(
    attempts: Source,
    labels: Source | None = None,
    *,
    thresholds: Sequence[float] | None = None,
    max_attempts: int | None = None,
    patience: int | None = None,
    judge: str | None = None,
    good: float = GOOD,
    budget: int = 80,
    seed: int = 0,
) -> list[NextLabel]:
    """Return the answers to label: of a random sample of runs, whatever some threshold would release.

    Args:
        attempts: Recorded attempts; see `certify`.
        labels: Labels so far; by default those beside the file of attempts.
        thresholds: Success ratings to choose from, 4, 3 and 2 by default.
        max_attempts: Most attempts of the loop; by default as recorded.
        patience: Patience of the loop; by default as recorded.
        judge: The judge, where rows have verdicts of several.
        good: Least human rating that is good.
        budget: Most labels.
        seed: Seed of the sample.

    Raises:
        ConfigurationError: If rows or labels cannot be used.
    """
    rows, _ = with_labels(read_judged(attempts), labels_for(attempts, labels)[0])
    name = judge_among(rows, judge)
    recorded, subject, _ = of_one_loop(runs_of(rows, good=good, split=None))
    runs = one_per_question(recorded)
    most = recorded_attempts(rows, subject, max_attempts, independent=False)
    waits = subject.patience if patience is None else patience
    released = [
        [
            replay_run(
                [mark.effective for mark in run.marks(name)],
                int(threshold),
                most,
                waits,
                scores=run.progress(name),
            ).released
            for run in runs
        ]
        for threshold in checked_thresholds(thresholds, on_scores=False)
    ]
    return to_certify(runs, released, budget=budget, seed=seed)
