"""Which answers people label: what makes a rate most exact, or a sample of runs; and whether labels are one."""

from __future__ import annotations

import json
import math
import os
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from judges.certificate import Estimand, Subject
from judges.errors import ConfigurationError, plural
from judges.messages import WITHOUT_MEDIA
from judges.offline.statistics import active_probabilities, neyman
from judges.offline.statistics.comparing import sample_test
from judges.offline.statistics.intervals import p_text
from judges.offline.trust.calibration import (
    CalibrationRun,
    checked_thresholds,
    draw_place,
    recorded_attempts,
    replay_chain,
    runs_of,
)
from judges.offline.trust.label import DOUBLED, PEOPLE
from judges.offline.trust.loops import read_labelled, with_labels
from judges.offline.trust.rows import GOOD, Harm, JudgedAnswer, JudgeMark, RowSource, judge_among, majority
from judges.verdict import HIGHEST, LOWEST

_FIRST = 10
"""Labels of each rating before the rest are allocated by what they show."""

_FLOOR = 5
"""Fewest labels of each rating from then on."""

_SHOWN = ("id", "outcome_id", "attempt", "question_id", "system")


@dataclass(frozen=True, kw_only=True)
class NextLabel:
    """A row to be labelled.

    Args:
        row: The row.
        raters: How many people are to label it: two for one in ten, so that their agreement is known.
        probability: With which it was drawn, of an active sample; None elsewhere.
    """

    row: JudgedAnswer
    raters: int = 1
    probability: float | None = None


def to_estimate(
    rows: Sequence[JudgedAnswer], judge: str, *, budget: int, good: float, seed: int = 0
) -> list[NextLabel]:
    """Choose rows whose labels make a pass rate most exact: by the judge's rating, as many as each is worth.

    At first 10 of each rating; then in proportion to how many rows have a rating, and how uncertain people's
    verdict is there (Neyman), at least 5 of each.

    Args:
        rows: All judged rows.
        judge: The judge.
        budget: Labels to be given.
        good: Least human rating that is good.
        seed: Seed of the choice.
    """
    strata: dict[int | None, list[JudgedAnswer]] = defaultdict(list)
    for row in rows:
        mark = row.marks.get(judge)
        strata[None if mark is None else mark.as_rating].append(row)
    order = [rating for rating in (*range(LOWEST, HIGHEST + 1), None) if strata.get(rating)]
    labelled = [[row for row in strata[rating] if row.opinions] for rating in order]
    open_rows = [[row for row in strata[rating] if not row.opinions] for rating in order]
    if all(
        len(labelled_rows) >= min(_FIRST, len(labelled_rows) + len(unlabelled_rows))
        for labelled_rows, unlabelled_rows in zip(labelled, open_rows, strict=True)
    ):
        passed = [sum(majority(row.opinions, good) is True for row in labelled_rows) for labelled_rows in labelled]
        shares = [len(strata[rating]) / len(rows) for rating in order]
        wanted = [
            max(_FLOOR, round(n))
            for n in neyman(shares, [len(labelled_rows) for labelled_rows in labelled], passed, budget)
        ]
    else:
        wanted = [max(0, _FIRST - len(labelled_rows)) for labelled_rows in labelled]
    drawn = random.Random(seed)  # noqa: S311 - a sample, no secret
    chosen = [
        row
        for unlabelled_rows, count in zip(open_rows, wanted, strict=True)
        for row in drawn.sample(unlabelled_rows, min(count, len(unlabelled_rows)))
    ]
    return _queue(chosen, drawn)


def _to_estimate_actively(
    rows: Sequence[JudgedAnswer], judge: str, *, budget: int, good: float, seed: int = 0
) -> list[NextLabel]:
    """Choose rows where the judge is least sure, each drawn with a probability that is kept (active sampling).

    A rating that ten people's labels are known of is as uncertain as these say; another as its score says. Rows
    that have a label already are known for certain.

    Args:
        rows: All judged rows.
        judge: The judge.
        budget: Expected number of labels.
        good: Least human rating that is good.
        seed: Seed of the draw.

    Raises:
        ConfigurationError: If some rows were drawn actively before: such a sample is drawn once.
    """
    if any(row.probability is not None for row in rows):
        raise ConfigurationError(
            "an active sample was drawn before, and is drawn once: its probabilities are those of one draw; label "
            "more by --drawn by-rating on fresh rows"
        )
    open_rows = [row for row in rows if not row.opinions and judge in row.marks and row.marks[judge].scored]
    if not open_rows:
        return []
    errors = _errors(rows, judge, good)
    probabilities = active_probabilities([_unsure(row.marks[judge], errors) for row in open_rows], budget)
    drawn = random.Random(seed)  # noqa: S311 - a sample, no secret
    chosen = {
        row.index: probability
        for row, probability in zip(open_rows, probabilities, strict=True)
        if drawn.random() < probability
    }
    queue = _queue([row for row in open_rows if row.index in chosen], drawn)
    return [replace(label, probability=chosen[label.row.index]) for label in queue]


def _errors(rows: Sequence[JudgedAnswer], judge: str, good: float) -> dict[int, float]:
    """Return by rating how often people say the opposite, where enough labels say so."""
    wrong: dict[int, list[bool]] = defaultdict(list)
    for row in rows:
        rating = row.marks[judge].as_rating if judge in row.marks else None
        verdict = majority(row.opinions, good)
        if rating is not None and verdict is not None:
            wrong[rating].append(verdict != (rating >= good))
    return {rating: (sum(one) + 0.5) / (len(one) + 1) for rating, one in wrong.items() if len(one) >= _FIRST}


def _unsure(mark: JudgeMark, errors: Mapping[int, float]) -> float:
    rating = mark.as_rating or LOWEST
    score = (rating - LOWEST) / (HIGHEST - LOWEST) if mark.score is None else mark.score
    return math.sqrt(errors.get(rating, min(score, 1 - score)))


def _to_certify(
    runs: Sequence[CalibrationRun],
    released: Iterable[Sequence[int | None]],
    *,
    budget: int,
    seed: int = 0,
) -> list[NextLabel]:
    """Choose a simple random sample of runs, and of these every answer that some policy would release.

    Suspicious answers are not preferred: the exact test would no longer hold.

    Args:
        runs: The recorded runs.
        released: For each policy the attempt that it releases in each run, from 1; None for none.
        budget: Labels to be given.
        seed: Seed of the choice.
    """
    needed: list[set[int]] = [set() for _ in runs]
    for policy in released:
        for place, attempt in enumerate(policy):
            if attempt is not None:
                needed[place].add(attempt)
    drawn = random.Random(seed)  # noqa: S311 - a sample, no secret
    order = sorted(range(len(runs)), key=lambda place: draw_place(runs[place], seed))
    chosen: list[JudgedAnswer] = []
    for place in order:
        missing = [runs[place].rows[n - 1] for n in sorted(needed[place]) if runs[place].bad[n - 1] is None]
        if len(chosen) + len(missing) > budget:
            break
        chosen += missing
    return _queue(chosen, drawn)


def _queue(chosen: Sequence[JudgedAnswer], drawn: random.Random) -> list[NextLabel]:
    """Return rows in random order, one in ten of them for two people."""
    rows = list(chosen)
    drawn.shuffle(rows)
    doubled = set(drawn.sample(range(len(rows)), round(DOUBLED * len(rows)))) if rows else set()
    return [NextLabel(row=row, raters=2 if place in doubled else 1) for place, row in enumerate(rows)]


def write_queue(labels: Sequence[NextLabel], path: str | Path) -> None:
    """Write rows to be labelled as JSON lines, without anything that the judge said.

    People fill in `labels`, and the file is given back as `--labels`.

    Raises:
        ConfigurationError: If the file is there already, or cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise ConfigurationError(
            f"{os.fspath(path)!r} is there already, perhaps with labels in it; choose another file"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{os.fspath(path)!r} cannot be written: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(_lines(labels))


def _lines(labels: Sequence[NextLabel]) -> Iterator[str]:
    for label in labels:
        sample = label.row.sample
        unread = {"metadata": True, **WITHOUT_MEDIA}
        texts = {} if sample is None else sample.model_dump(mode="json", exclude_defaults=True, exclude=unread)
        verdicts = {name: label.row.metadata[name] for name in _SHOWN if label.row.metadata.get(name) is not None}
        active = {} if label.probability is None else {"probability": label.probability, "drawn": len(labels)}
        row = {**texts, **verdicts, **active, "raters": label.raters, "labels": []}
        yield f"{json.dumps(row, ensure_ascii=False)}\n"


def labels_to_estimate(
    rows: RowSource,
    labels: RowSource | None = None,
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
    judged = read_labelled(rows, labels).rows
    choose = to_estimate if sampling == "by_rating" else _to_estimate_actively
    return choose(judged, judge_among(judged, judge), budget=budget, good=good, seed=seed)


def labels_to_certify(
    attempts: RowSource,
    labels: RowSource | None = None,
    *,
    thresholds: Sequence[float] | None = None,
    max_attempts: int | None = None,
    patience: int | None = None,
    judge: str | None = None,
    good: float = GOOD,
    budget: int = 80,
    first_answers: bool = False,
    estimand: Estimand = "traffic",
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
        first_answers: Whether the first answer of each run is labelled, too, as `break_at_most` needs it.
        estimand: Whether the sample is of all runs, or of one run a question; see `certify`.
        seed: Seed of the sample.

    Raises:
        ConfigurationError: If rows or labels cannot be used.
    """
    rows = read_labelled(attempts, labels).rows
    name = judge_among(rows, judge)
    recorded, subject, _ = _of_one_loop(runs_of(rows, good=good, split=None))
    runs = recorded if estimand == "traffic" else _one_per_question(recorded)
    most = recorded_attempts(rows, subject, max_attempts, independent=False)
    waits = subject.patience if patience is None else patience
    replays = replay_chain(
        runs,
        checked_thresholds(thresholds, on_scores=False),
        judge=name,
        on_scores=False,
        max_attempts=most,
        patience=waits,
    )
    released = [[one.released for one in of_threshold] for of_threshold in replays]
    if first_answers:
        released.append([1] * len(runs))
    return _to_certify(runs, released, budget=budget, seed=seed)


def people_needed(row: JudgedAnswer, *, good: float = GOOD) -> int:
    """Return how many people an answer needs: one, who calls it good; else a second look, and a third at a tie.

    People err. Where one in ten labels is wrong, most labels that say "bad" of a good loop are, so that it cannot
    be certified; looking again at those costs few labels.
    """
    majority_opinion = majority(row.opinions, good)
    if not row.opinions or majority_opinion is True:
        return 1
    return PEOPLE if len(row.opinions) == 1 else len(row.opinions) + (majority_opinion is None)


def choose_rows(
    rows: Sequence[JudgedAnswer], labels: Sequence[JudgedAnswer] = (), *, budget: int, seed: int = 0
) -> list[JudgedAnswer]:
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
    labelled_rows = with_labels(rows, labels)[0] if labels else rows
    if any(row.attempt is not None and row.outcome_id is not None for row in rows):
        chosen = labels_to_certify(labelled_rows, budget=budget, seed=seed)
    else:
        chosen = to_estimate(labelled_rows, judge, budget=budget, good=GOOD, seed=seed)
    return [label.row for label in chosen]


@dataclass(frozen=True, kw_only=True)
class RunChoice:
    """Which runs count, and how their labels are read.

    Args:
        good: Least human rating that is good.
        split: Use the labels of this split alone; None takes all.
        harm: See `runs_of`.
        left_out: Whether runs without a label are left out.
        several: Whether several runs of a question count: the promise is about traffic, or over questions.
        judge: The judge whose ratings labelled runs are compared by with the others; None for no comparison.
        least: Rating or score below which no policy releases an answer.
    """

    good: float
    split: str | None
    harm: Harm | None
    left_out: bool
    several: bool
    judge: str | None = None
    least: float = LOWEST

    def choose(
        self, rows: Sequence[JudgedAnswer]
    ) -> tuple[list[CalibrationRun], list[CalibrationRun], Subject, list[str]]:
        """Return the runs of one loop that count, those without a label, that loop, and what to say of others.

        Raises:
            ConfigurationError: If no run has a label, or the runs with labels are no random sample of all.
        """
        every = runs_of(rows, good=self.good, split=self.split, harm=self.harm)
        recorded, subject, notes = _of_one_loop(every)
        if not any(run.has_labels for run in recorded):
            of = "" if self.split is None else f" of the split {self.split!r}"
            raise ConfigurationError(
                f"no attempt has a label{of}; have people label in a terminal, `refine certify RECORD --by NAME` "
                f"or `refine label FILE`, or on the record's page, or give a file of labels (--labels) or rows "
                f"with labels: [{{'by': 'ann', 'rating': 4}}]"
            )
        chosen = _sampled(recorded, self) if self.left_out else recorded
        if len(chosen) < len(recorded):
            notes += _compare_with_unlabelled(recorded, self)
            notes.append(_about_left_out(recorded, len(recorded) - len(chosen), self))
        runs = chosen if self.several else _one_per_question(chosen)
        if len(runs) < len(chosen):
            notes.append(
                f"{len(chosen) - len(runs)} further runs of the same questions are left out: the promise counts "
                f"each question once, however often it is asked"
            )
        return runs, [run for run in recorded if not run.has_labels], subject, notes

    def assume(self, runs: Sequence[CalibrationRun], others: Sequence[CalibrationRun]) -> str:
        """Return what is taken for granted where runs are left out; nothing where the others were drawn."""
        labelled = [run for run in runs if run.has_labels]
        if not self.several:
            labelled_questions = {run.question_id for run in labelled}
            others = [run for run in _one_per_question(others) if run.question_id not in labelled_questions]
        if not self.left_out or _is_drawn(labelled, others, self):
            return ""
        return (
            f"that the {len(labelled)} labelled runs are a random sample of all {len(labelled) + len(others)}: "
            f"they are not those that `refine certify` draws, and bad answers that people left out would not be "
            "seen"
        )


def _about_left_out(recorded: Sequence[CalibrationRun], count: int, choice: RunChoice) -> str:
    """Say what runs without a label that are left out mean for the promise."""
    labelled, others = ([run for run in recorded if run.has_labels is has] for has in (True, False))
    is_drawn = _is_drawn(labelled, others, choice)
    why = "were not picked by hand, and stand for all" if is_drawn else "are taken to stand for all"
    return f"{plural(count, 'run')} without a label {'is' if count == 1 else 'are'} left out: those with one {why}"


def _is_drawn(labelled: Sequence[CalibrationRun], others: Sequence[CalibrationRun], choice: RunChoice) -> bool:
    """Return whether the labelled runs are those that `labels_to_certify` draws.

    No test sees that people left out bad answers which look like good ones. Those that are drawn come first in a
    random order, so that none before the last labelled one lacks a label; what was recorded later is not of it.
    """
    until = max((run.recorded_at for run in labelled), default="")
    last = max((draw_place(run) for run in labelled), default="")
    judge = choice.judge
    return not any(
        run.recorded_at <= until and draw_place(run) < last
        for run in others
        if judge is None or _releases(run, judge, choice.least)
    )


def _sampled(runs: Sequence[CalibrationRun], choice: RunChoice) -> list[CalibrationRun]:
    """Return the labelled runs, with as large a share of those in which nothing can be released, and so labelled.

    Without these every run would seem to release an answer.
    """
    judge = choice.judge
    if judge is None:
        return [run for run in runs if run.has_labels]
    able = [run.has_labels for run in runs if _releases(run, judge, choice.least)]
    silent = [run for run in runs if not run.has_labels and not _releases(run, judge, choice.least)]
    share = sum(able) / len(able) if able else 0.0
    drawn_ids = {id(run) for run in silent[: round(share * len(silent))]}
    return [run for run in runs if run.has_labels or id(run) in drawn_ids]


def _releases(run: CalibrationRun, judge: str, least: float) -> bool:
    return any(_suffices(mark, least) for mark in run.marks(judge))


def _compare_with_unlabelled(runs: Sequence[CalibrationRun], choice: RunChoice) -> list[str]:
    """Say where labelled runs differ from the others by more than a random sample does.

    Only runs are compared in which some policy releases an answer: the others need no label.

    Raises:
        ConfigurationError: If they differ so much that they are no sample.
    """
    judge = choice.judge
    if judge is None:
        return []
    able = [run for run in runs if _releases(run, judge, choice.least)]
    kinds = [
        {
            "attempts": len(run.rows),
            "rating of the first answer": run.marks(judge)[0].effective,
            "rating of the last answer": run.marks(judge)[-1].effective,
            "stop reason": run.stop_reason,
        }
        for run in able
    ]
    test = sample_test(kinds, [run.has_labels for run in able])
    if test is None or test.p > _DOUBTFUL:
        return []
    # One sample in twenty that was drawn rightly would be doubted.
    others = [run for run in able if not run.has_labels]
    if test.p >= _NO_SAMPLE and _is_drawn([run for run in able if run.has_labels], others, choice):
        return []
    figures = (
        f"{test.name} {test.value}: {test.drawn_with} of {test.drawn} labelled runs, {test.others_with} of "
        f"{test.others} others"
    )
    if test.p < _NO_SAMPLE:
        raise ConfigurationError(
            f"labels_not_a_sample: the labelled runs are no random sample of the recorded ones ({figures}); label "
            f"those that `refine certify --next FILE` draws, or count the others as bad (--unlabelled bad)"
        )
    return [f"the labelled runs may be no random sample of the recorded ones ({figures}, {p_text(test.p)})"]


def _suffices(mark: JudgeMark, least: float) -> bool:
    value = mark.score if least < LOWEST else mark.effective
    return value is not None and value >= least


_NO_SAMPLE = 0.001
"""Level, over all comparisons, at which labels are refused as no sample."""

_DOUBTFUL = 0.05
"""Level at which a doubt of it is told."""


def _one_per_question(runs: Sequence[CalibrationRun]) -> list[CalibrationRun]:
    """Return the first run of each question; further ones are no independent evidence."""
    first: dict[str, CalibrationRun] = {}
    for run in runs:
        first.setdefault(run.question_id, run)
    return list(first.values())


def _of_one_loop(runs: Sequence[CalibrationRun]) -> tuple[list[CalibrationRun], Subject, list[str]]:
    """Return the runs of the loop that recorded most of them, that loop, and what to say about the others."""
    groups: dict[str, list[CalibrationRun]] = {}
    for run in runs:
        key = json.dumps(run.rows[0].metadata.get("subject"), sort_keys=True)
        groups.setdefault(key, []).append(run)
    largest_group = max(groups.values(), key=len)
    subject = largest_group[0].rows[0].subject
    notes = [
        f"{len(group)} runs of another loop are left out: {'; '.join(_changes(group, subject))}"
        for group in groups.values()
        if group is not largest_group
    ]
    return largest_group, subject, notes


def _changes(group: Sequence[CalibrationRun], subject: Subject) -> list[str]:
    other = group[0].rows[0].subject
    return subject.changes(other) if subject.judge_digest and other.judge_digest else ["they do not say which"]
