"""What each policy of a chain releases on recorded loops: ratings, scores, or an escalation of judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from judges.errors import ConfigurationError, shortened
from judges.offline.statistics import replay_run
from judges.offline.statistics.weighted import Release
from judges.offline.trust.calibration import CalibrationRun
from judges.verdict import HIGHEST, LOWEST

RATINGS = (4, 3, 2)
SCORES = tuple(round(0.95 - 0.05 * step, 2) for step in range(10))
ESCALATION = ((5, 4), (4, 4), (4, 3), (3, 3))
"""Nested policies of a cheap and a strong judge, strictest first; 5 is never."""

Policy = float | tuple[float, ...]
Cut = Literal["success_rating", "max_attempts", "patience"]


@dataclass(kw_only=True)
class Tally:
    """What one policy comes to on the calibration runs.

    Args:
        policy: The policy.
        released: Answers released.
        bad: Those that are bad or have no label.
        unlabelled: Those that have no label.
        attempts: Attempts made.
        cuts: Runs that the record ends too soon for this policy, by the setting that ended them.
        decided: Of an escalation: runs that each judge releases, and last those for people.
        cost: Of an escalation: cost of judging; None where unknown.
        releases: The answers released, with what they weigh; one without a label does all harm.
        silent: The same of runs that release nothing, which do none.
    """

    policy: Policy
    released: int = 0
    bad: int = 0
    unlabelled: int = 0
    attempts: int = 0
    cuts: dict[str, int] = field(default_factory=dict)
    decided: list[int] = field(default_factory=list)
    cost: float | None = None
    releases: list[Release] = field(default_factory=list)
    silent: list[Release] = field(default_factory=list)

    def add(self, run: CalibrationRun, attempt: int | None) -> None:
        """Count a run, and the attempt that it releases, from 1; None for none."""
        if attempt is None:
            self.silent.append(Release(0.0, run.weight, run.question_id))
            return
        bad, loss = run.bad[attempt - 1], run.losses[attempt - 1]
        self.released += 1
        self.bad += bad is not False
        self.unlabelled += bad is None
        self.releases.append(Release(1.0 if loss is None else loss, run.weight, run.question_id))


def tally_thresholds(
    runs: Sequence[CalibrationRun],
    thresholds: Sequence[float],
    *,
    judge: str,
    on_scores: bool,
    max_attempts: int,
    patience: int | None,
) -> list[Tally]:
    """Replay recorded loops under each threshold."""
    tallies = []
    for threshold in thresholds:
        tally = Tally(policy=threshold)
        for run in runs:
            marks = run.marks(judge)
            compared = [mark.score if on_scores else mark.effective for mark in marks]
            replayed = replay_run(compared, threshold, max_attempts, patience, scores=run.progress(judge))
            tally.attempts += replayed.attempts
            cut = run.ended_before(replayed.released, replayed.attempts, max_attempts)
            if replayed.end == "censored" and cut is not None:
                tally.cuts[cut] = tally.cuts.get(cut, 0) + 1
            tally.add(run, replayed.released)
        tallies.append(tally)
    return tallies


def release_gain(
    runs: Sequence[CalibrationRun], thresholds: Sequence[float], judge: str, max_attempts: int
) -> float:
    """Return how much more often loops release an answer than their first attempts do; 1 where that is unknown.

    Of several thresholds the smallest gain is returned, at least 1.
    """
    gains = []
    for threshold in thresholds:
        replays = [
            [replay_run([mark.effective for mark in run.marks(judge)], int(threshold), n) for run in runs]
            for n in (1, max_attempts)
        ]
        first, whole = (sum(one.released is not None for one in replayed) for replayed in replays)
        if first:
            gains.append(whole / first)
    return max(1.0, min(gains, default=1.0))


def tally_escalation(
    runs: Sequence[CalibrationRun], chain: Sequence[Sequence[float]], *, judges: Sequence[str]
) -> list[Tally]:
    """Return what joint policies release: the first judge in order whose rating suffices, else people decide.

    Raises:
        ConfigurationError: If a policy has another number of thresholds than there are judges, or acceptance is
            not nested from one policy to the next.
    """
    _check_nested(chain, judges)
    tallies = []
    for policy in chain:
        tally = Tally(policy=tuple(policy), decided=[0] * (len(judges) + 1))
        costs: list[float | None] = []
        for run in runs:
            ratings = [run.marks(judge)[0].effective for judge in judges]
            stage = next(
                (
                    place
                    for place, (rating, least) in enumerate(zip(ratings, policy, strict=True))
                    if rating is not None and rating >= least
                ),
                len(judges),
            )
            tally.decided[stage] += 1
            tally.attempts += 1
            asked = [judge for judge, least in zip(judges, policy, strict=True) if least <= HIGHEST][: stage + 1]
            costs += [run.marks(judge)[0].cost for judge in asked]
            tally.add(run, 1 if stage < len(judges) else None)
        known = [cost for cost in costs if cost is not None]
        tally.cost = sum(known) if known and len(known) == len(costs) else None
        tallies.append(tally)
    return tallies


def _check_nested(chain: Sequence[Sequence[float]], judges: Sequence[str]) -> None:
    for policy in chain:
        if len(policy) != len(judges) or not all(LOWEST <= least <= HIGHEST + 1 for least in policy):
            raise ConfigurationError(
                f"a policy has the least rating from each of {len(judges)} judges, 5 for never, not "
                f"{shortened(policy)}"
            )
    for stricter, laxer in pairwise(chain):
        if any(after > before for before, after in zip(stricter, laxer, strict=True)):
            raise ConfigurationError(
                f"the chain goes from strict to lax: {shortened(tuple(laxer))} follows "
                f"{shortened(tuple(stricter))} and refuses what that releases"
            )


def checked_thresholds(thresholds: Sequence[float] | None, *, on_scores: bool) -> list[float]:
    """Return the thresholds of a chain, strictest first.

    Raises:
        ConfigurationError: If there are none, or one is out of range.
    """
    chosen = sorted(set(thresholds if thresholds is not None else SCORES if on_scores else RATINGS), reverse=True)
    fits = (
        all(0 <= one <= 1 for one in chosen)
        if on_scores
        else all(one in range(LOWEST, HIGHEST + 1) for one in chosen)
    )
    if not chosen or not fits:
        scale = "scores from 0 to 1" if on_scores else "ratings from 1 to 4"
        raise ConfigurationError(f"thresholds are {scale}, not {shortened(thresholds)}")
    return [float(one) for one in chosen]
