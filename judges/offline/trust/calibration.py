"""Recorded loops with labels, as a certificate is calibrated on them: one run for each question."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from judges.certificate import Kind, Subject
from judges.errors import ConfigurationError, shortened
from judges.offline.statistics.certificates import AssistedLabel, Release
from judges.offline.statistics.intervals import clopper_pearson
from judges.offline.statistics.replay import Replay, breaks_of, replay_each
from judges.offline.trust.rows import (
    Harm,
    JudgedAnswer,
    JudgeMark,
    Opinion,
    is_bad,
    judge_among,
    lower_median,
    usable,
)
from judges.verdict import HIGHEST, LOWEST

_ENDS_BEFORE = {
    "accepted": "success_rating",
    "max_attempts": "max_attempts",
    "no_progress": "patience",
}
"""The setting of the loop that ended a run which another policy would have continued, by stop reason."""


@dataclass(frozen=True, kw_only=True)
class CalibrationRun:
    """One recorded loop.

    Args:
        rows: Its attempts, in order.
        bad: Whether people call each attempt's answer bad; None without a label.
        losses: Harm of each attempt's answer, 0 to 1; None without a label.
    """

    rows: tuple[JudgedAnswer, ...]
    bad: tuple[bool | None, ...]
    losses: tuple[float | None, ...]

    @property
    def question_id(self) -> str:
        """The question."""
        return self.rows[0].question_id

    @property
    def weight(self) -> float:
        """Its design weight: that of an attempt which has one."""
        return next((row.weight for row in self.rows if row.weight != 1), 1.0)

    @property
    def stop_reason(self) -> str | None:
        """Why it ended, where the record says so."""
        return next((row.stop_reason for row in self.rows if row.stop_reason), None)

    @property
    def recorded_at(self) -> str:
        """When it was recorded, as an ISO time; empty where the record does not say."""
        return str(self.rows[0].metadata.get("at") or "")

    @property
    def has_labels(self) -> bool:
        """True if any attempt of it has a label."""
        return any(bad is not None for bad in self.bad)

    def marks(self, judge: str) -> list[JudgeMark]:
        """Return what a judge says of each attempt; an unscored mark where it said nothing."""
        return [row.marks.get(judge, _UNSCORED) for row in self.rows]

    def ended_before(self, released: int | None, attempts: int, max_attempts: int) -> str | None:
        """Return which setting ended it before a policy would have; None where it went far enough, or crashed."""
        if released is not None or attempts >= max_attempts:
            return None
        return _ENDS_BEFORE.get(self.stop_reason or "")


_UNSCORED = JudgeMark()


def runs_of(
    rows: Sequence[JudgedAnswer], *, good: float, split: str | None, harm: Harm | None = None
) -> list[CalibrationRun]:
    """Return the loops that rows are attempts of.

    Rows belong to one loop by their `outcome_id`; without one, a row that is attempt 1, or says no attempt, begins
    the next loop.

    Args:
        rows: The rows.
        good: Least human rating that is good.
        split: Use the labels of this split alone.
        harm: Harm of an answer that people rate 1, 2, 3 and 4; None: 1 for a bad one, else 0.

    Raises:
        ConfigurationError: If attempts of a loop are missing, or labels were used to tune the judge.
    """
    opinions = [usable(row.opinions, split) for row in rows]
    bad = [is_bad(one, good) for one in opinions]
    losses = [_loss_of(one, good, harm) for one in opinions]
    return [_run(group, rows, bad, losses) for group in _grouped(rows)]


def _loss_of(opinions: Collection[Opinion], good: float, harm: Harm | None) -> float | None:
    """Return the harm of an answer: by its rating in the middle, or 1 for a bad one; None without a label."""
    median = lower_median(opinions)
    if median is None:
        return None
    return float(bool(is_bad(opinions, good))) if harm is None else harm[int(median) - LOWEST]


def _grouped(rows: Sequence[JudgedAnswer]) -> Iterator[list[int]]:
    """Yield the places of the rows of each loop."""
    groups: dict[str, list[int]] = {}
    current = ""
    for place, row in enumerate(rows):
        if row.outcome_id is not None:
            key = f"id {row.outcome_id}"
        else:
            current = f"from {row.index}" if row.attempt in {None, 1} or not current else current
            key = current
        groups.setdefault(key, []).append(place)
    yield from groups.values()


def _run(
    group: list[int], rows: Sequence[JudgedAnswer], bad: Sequence[bool | None], losses: Sequence[float | None]
) -> CalibrationRun:
    places = sorted(group, key=lambda place: rows[place].attempt or 1)
    if [rows[place].attempt or 1 for place in places] != list(range(1, len(places) + 1)):
        numbers = ", ".join(str(rows[place].attempt) for place in places)
        raise ConfigurationError(
            f"row {rows[group[0]].index}: the loop has the attempts {numbers}; a certificate needs all of them "
            f"from 1, so give the record whole"
        )
    return CalibrationRun(
        rows=tuple(rows[place] for place in places),
        bad=tuple(bad[place] for place in places),
        losses=tuple(losses[place] for place in places),
    )


RATINGS = (4, 3, 2)
SCORES = tuple(round(0.95 - 0.05 * step, 2) for step in range(10))
_ESCALATION = ((5, 4), (4, 4), (4, 3), (3, 3))
"""Nested policies of a cheap and a strong judge, strictest first; 5 is never."""

_Policy = float | tuple[float, ...]


@dataclass(kw_only=True)
class PolicyTally:
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
        first_good: Runs whose first answer was good; see `breaks_of`.
        broken: Of these, runs whose released answer is bad.
        passing: Of thresholds: the rating or score of each answer released, and whether it is bad.
        assisted: Labels of answers released, beside what a judge says of them and of others.
    """

    policy: _Policy
    released: int = 0
    bad: int = 0
    unlabelled: int = 0
    attempts: int = 0
    cuts: dict[str, int] = field(default_factory=dict)
    decided: list[int] = field(default_factory=list)
    cost: float | None = None
    releases: list[Release] = field(default_factory=list)
    silent: list[Release] = field(default_factory=list)
    first_good: int = 0
    broken: int = 0
    passing: list[tuple[float, bool]] = field(default_factory=list)
    assisted: list[AssistedLabel] = field(default_factory=list)

    @property
    def least(self) -> float:
        """Its threshold; 0 of an escalation, which has several."""
        return self.policy if isinstance(self.policy, float | int) else 0.0

    def below(self, threshold: float) -> list[bool]:
        """Return whether each released answer with a rating or score below a threshold is bad."""
        return [is_bad for score, is_bad in self.passing if score < threshold]

    def add(self, run: CalibrationRun, attempt: int | None) -> None:
        """Count a run, and the attempt that it releases, from 1; None for none."""
        was_good, is_broken = breaks_of(run.bad, attempt)
        self.first_good += was_good
        self.broken += is_broken
        if attempt is None:
            self.silent.append(Release(0.0, run.weight, run.question_id))
            return
        bad, loss = run.bad[attempt - 1], run.losses[attempt - 1]
        self.released += 1
        self.bad += bad is not False
        self.unlabelled += bad is None
        self.releases.append(Release(1.0 if loss is None else loss, run.weight, run.question_id))


def labelled_rates(rates: Iterable[float | None], tallies: Iterable[PolicyTally]) -> Iterator[float]:
    """Yield the share of bad ones that each policy releases, of those with a label where some have none.

    One without a label counts as bad, but tells nothing of how many there are.
    """
    for rate, tally in zip(rates, tallies, strict=True):
        labelled = tally.released - tally.unlabelled
        if rate is not None and labelled:
            yield (tally.bad - tally.unlabelled) / labelled if tally.unlabelled else rate


def _tally_thresholds(
    runs: Sequence[CalibrationRun],
    thresholds: Sequence[float],
    *,
    judge: str,
    on_scores: bool,
    max_attempts: int,
    patience: int | None,
) -> list[PolicyTally]:
    """Replay recorded loops under each threshold."""
    tallies = []
    replays = replay_chain(
        runs, thresholds, judge=judge, on_scores=on_scores, max_attempts=max_attempts, patience=patience
    )
    for threshold, replayed_runs in zip(thresholds, replays, strict=True):
        tally = PolicyTally(policy=threshold)
        for run, replayed in zip(runs, replayed_runs, strict=True):
            tally.attempts += replayed.attempts
            cut = run.ended_before(replayed.released, replayed.attempts, max_attempts)
            if replayed.end == "censored" and cut is not None:
                tally.cuts[cut] = tally.cuts.get(cut, 0) + 1
            tally.add(run, replayed.released)
            if replayed.released is not None:
                place = replayed.released - 1
                mark = _gate_marks([run.marks(judge)[place]], thresholds, on_scores=on_scores)[0]
                tally.passing.append((mark or LOWEST, run.bad[place] is not False))
        tallies.append(tally)
    return tallies


_BESIDE = 4
"""Most answers without a label that stand beside one with a label."""
_RUNS_EACH = 200
"""Runs for each of them."""


def _assist(
    tallies: Sequence[PolicyTally],
    runs: Sequence[CalibrationRun],
    replays: Sequence[Sequence[Replay]],
    control: str,
) -> None:
    """Give each tally its labels in the order in which they came, with what a judge says of them and of others.

    The others are drawn by `draw_place` from the end, as answers to label are from its beginning: which they are
    depends on no label and no verdict, and stays as it is while labels come in. One that stood beside a label
    before it was labelled itself is left out, as the judge's word on it was used.

    Args:
        tallies: The tallies, by policy.
        runs: All recorded runs, those without a label, too.
        replays: How they would have ended, by policy.
        control: The judge.
    """
    beside = min(_BESIDE, max(1, len(runs) // _RUNS_EACH))
    for tally, replayed_runs in zip(tallies, replays, strict=True):
        released = {
            draw_place(run): (run, replayed.released - 1)
            for run, replayed in zip(runs, replayed_runs, strict=True)
            if replayed.released is not None
        }
        doubts = {key: run.marks(control)[place].doubt for key, (run, place) in released.items()}
        labelled = [(_first_label(run), key) for key, (run, _) in released.items() if run.has_labels]
        waiting, used = sorted(released), set[str]()
        for _, key in sorted(labelled):
            if key in used:
                continue
            used.add(key)
            others: list[str] = []
            while waiting and len(others) < beside:
                last = waiting.pop()
                others += [last] if last not in used else []
            used.update(others)
            run, place = released[key]
            full = tuple(doubts[one] for one in others) if len(others) == beside else ()
            tally.assisted.append(AssistedLabel(run.bad[place] is not False, doubts[key], full))


def _first_label(run: CalibrationRun) -> str:
    """Return when a run got its first label; empty where that is unknown."""
    return min((opinion.at or "" for row in run.rows for opinion in row.opinions), default="")


def draw_place(run: CalibrationRun, seed: int = 0) -> str:
    """Return where a run stands in a random order that no other run, and no label, changes."""
    first = run.rows[0]
    text = f"{seed} {first.outcome_id or first.index} {first.key}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def replay_chain(
    runs: Sequence[CalibrationRun],
    thresholds: Sequence[float],
    *,
    judge: str,
    on_scores: bool,
    max_attempts: int,
    patience: int | None,
) -> list[list[Replay]]:
    """Return how each recorded loop would have ended, by threshold."""
    marks = [run.marks(judge) for run in runs]
    compared = [_gate_marks(of_run, thresholds, on_scores=on_scores) for of_run in marks]
    progress = [_progress(of_run) for of_run in marks]
    return [replay_each(compared, threshold, max_attempts, patience, scores=progress) for threshold in thresholds]


def _gate_marks(
    marks: Sequence[JudgeMark], thresholds: Sequence[float], *, on_scores: bool
) -> Sequence[float | None]:
    """Return what thresholds are compared with: scores, or ratings; a 4 has its score behind the point.

    So 4.9 is passed by what is rated 4 and scored .9 or more. Where no threshold is above 4, ratings are whole.
    """
    if on_scores:
        return [mark.score for mark in marks]
    if max(thresholds, default=0) <= HIGHEST:
        return [mark.effective for mark in marks]
    return [HIGHEST + (mark.score or 0) if mark.effective == HIGHEST else mark.effective for mark in marks]


def _progress(marks: Sequence[JudgeMark]) -> list[float | None] | None:
    """Return the scores that patience compares, as the loop does; None where a rating has none."""
    has_scores = all(mark.score is not None or mark.rating is None for mark in marks)
    return [mark.score for mark in marks] if has_scores else None


def _tally_escalation(
    runs: Sequence[CalibrationRun], chain: Sequence[Sequence[float]], *, judges: Sequence[str]
) -> list[PolicyTally]:
    """Return what joint policies release: the first judge in order whose rating suffices, else people decide.

    Raises:
        ConfigurationError: If a policy has another number of thresholds than there are judges, or acceptance is
            not nested from one policy to the next.
    """
    _check_nested(chain, judges)
    tallies = []
    for policy in chain:
        tally = PolicyTally(policy=tuple(policy), decided=[0] * (len(judges) + 1))
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
            reached = [judge for judge, least in zip(judges, policy, strict=True) if least <= HIGHEST][: stage + 1]
            costs += [run.marks(judge)[0].cost for judge in reached]
            tally.add(run, 1 if stage < len(judges) else None)
        recorded_costs = [cost for cost in costs if cost is not None]
        tally.cost = sum(recorded_costs) if recorded_costs and len(recorded_costs) == len(costs) else None
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
        else all(one in range(LOWEST, HIGHEST + 1) or HIGHEST < one < HIGHEST + 1 for one in chosen)
    )
    if not chosen or not fits:
        scale = (
            "scores from 0 to 1" if on_scores else "ratings from 1 to 4, or 4.9 for a 4 that is scored .9 or more"
        )
        raise ConfigurationError(f"thresholds are {scale}, not {shortened(thresholds)}")
    return [float(one) for one in chosen]


def recorded_attempts(
    rows: Sequence[JudgedAnswer], subject: Subject, chosen: int | None, *, independent: bool
) -> int:
    """Return the most attempts of a loop: as chosen, or as recorded, or 1 where rows are no attempts of a loop.

    Raises:
        ConfigurationError: If nobody says.
    """
    recorded = subject.max_attempts or next(
        (int(row.metadata["max_attempts"]) for row in rows if row.metadata.get("max_attempts") is not None), None
    )
    if recorded is None and all(row.attempt is None for row in rows) and not independent:
        recorded = 1
    most = chosen if chosen is not None else recorded
    if most is None:
        raise ConfigurationError(
            "the rows do not say how many attempts the loop may make; give max_attempts=... (--max-attempts), the "
            "number that is deployed"
        )
    if type(most) is not int or most < 1:
        raise ConfigurationError(f"max_attempts is a whole number from 1, not {shortened(most)}")
    return most


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The runs that a certificate is calibrated on, those without a label, and how they are looked at."""

    runs: Sequence[CalibrationRun]
    others: Sequence[CalibrationRun]
    judges: tuple[str, ...]
    kind: Kind
    max_attempts: int
    patience: int | None
    subject: Subject
    assumes: str
    notes: tuple[str, ...]

    @property
    def certified_subject(self) -> Subject:
        """The loop that is certified: the one recorded, with the attempts and the patience chosen."""
        if self.kind == "escalation":
            return self.subject
        chosen = {"max_attempts": self.max_attempts, "patience": self.patience}
        return self.subject.model_copy(update={"policy": {**self.subject.policy, **chosen}})

    @property
    def answer_models(self) -> tuple[str, ...]:
        """The models that answered in the runs; empty where an answer names none."""
        named = {row.metadata.get("model") for run in self.runs for row in run.rows}
        return () if None in named else tuple(sorted(str(name) for name in named))

    @property
    def final_bad(self) -> float | None:
        """The share of bad ones among the final answers with labels, shown or not; None without any."""
        final_marks = [bad for run in self.runs if (bad := run.bad[-1]) is not None]
        return sum(final_marks) / len(final_marks) if final_marks else None

    def tallies(
        self, thresholds: Sequence[Any] | None, *, first_alone: bool
    ) -> tuple[list[PolicyTally], list[str]]:
        """Return what each policy of the chain releases, without those that the record says nothing about.

        Raises:
            ConfigurationError: If the record ends too soon for every policy, or for one that was asked for.
        """
        if self.kind == "escalation":
            return _tally_escalation(self.runs, thresholds or _ESCALATION, judges=self.judges), []
        on_scores = self.kind == "score"
        tallies = _tally_thresholds(
            self.runs,
            checked_thresholds(thresholds, on_scores=on_scores),
            judge=self.judges[0],
            on_scores=on_scores,
            max_attempts=1 if first_alone else self.max_attempts,
            patience=None if first_alone else self.patience,
        )
        for tally in tallies:
            shorter = next((name for name in ("max_attempts", "patience") if tally.cuts.get(name)), None)
            if shorter is not None:
                raise ConfigurationError(
                    f"{tally.cuts[shorter]} recorded loops were ended by {shorter} before this policy would; "
                    f"record with {shorter} at least as large, or certify a smaller one"
                )
        identified = [tally for tally in tallies if not tally.cuts]
        cut_policies = [f"{tally.policy:g}" for tally in tallies if tally.cuts]
        if cut_policies and (thresholds is not None or not identified):
            raise ConfigurationError(
                f"the loops were recorded with a laxer threshold than {cut_policies[0]}, so that they ended "
                f"before; record with the strictest threshold of the chain, or leave "
                f"{', '.join(cut_policies)} out of it"
            )
        if not cut_policies:
            return identified, []
        left_out = ", ".join(cut_policies)
        return identified, [f"{left_out} is not in the record: it was made with a laxer success rating"]

    def assist(self, tallies: Sequence[PolicyTally], control: str | None) -> None:
        """Give tallies what a judge says of labelled answers and of others.

        Args:
            tallies: The tallies, by policy.
            control: The judge; None takes that of the loop.

        Raises:
            ConfigurationError: If no row has a verdict of that judge.
        """
        runs = [*(run for run in self.runs if run.has_labels), *self.others]
        judge = judge_among([row for run in runs for row in run.rows], control or self.judges[0])
        replays = replay_chain(
            runs,
            [tally.least for tally in tallies],
            judge=self.judges[0],
            on_scores=self.kind == "score",
            max_attempts=self.max_attempts,
            patience=self.patience,
        )
        _assist(tallies, runs, replays, judge)

    def release_gain(
        self, loops: Sequence[CalibrationRun], thresholds: Sequence[float] | None, *, delta: float
    ) -> float:
        """Return how much more often loops release an answer than their first attempts do, at least.

        It is 1 / the share of loops that release their first answer, of those that release one, whose exact upper
        bound errs with probability delta: a few loops may do so twice as often by chance. Of several thresholds
        the smallest gain is returned; 1 where it is unknown.
        """
        on_scores = self.kind == "score"
        gains = []
        for replays in replay_chain(
            loops,
            checked_thresholds(thresholds, on_scores=on_scores),
            judge=self.judges[0],
            on_scores=on_scores,
            max_attempts=self.max_attempts,
            patience=None,
        ):
            released = [one.released for one in replays if one.released is not None]
            if released:
                gains.append(1 / clopper_pearson(released.count(1), len(released), level=1 - 2 * delta)[1])
        return min(gains, default=1.0)
