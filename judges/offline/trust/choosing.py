"""Which rows to label next, and the file that hands them to people: blind to the verdict, in random order."""

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

from judges.errors import ConfigurationError
from judges.media import WITHOUT_MEDIA
from judges.offline.statistics import active_probabilities, neyman
from judges.offline.trust.calibration import CalibrationRun
from judges.offline.trust.labels import majority
from judges.offline.trust.marks import Mark
from judges.offline.trust.rows import JudgedRow
from judges.verdict import HIGHEST, LOWEST

Purpose = Literal["estimate", "certify", "compare"]

_FIRST, _FLOOR = 10, 5
_DOUBLED = 0.1
_AGREEING = 0.2
_SHOWN = ("id", "outcome_id", "attempt", "question_id", "system")


@dataclass(frozen=True, kw_only=True)
class NextLabel:
    """A row to be labelled.

    Args:
        row: The row.
        raters: How many people are to label it: two for one in ten, so that their agreement is known.
        weight: 1 / probability with which it was drawn, for a comparison of two systems.
        probability: With which it was drawn, of an active sample; None elsewhere.
    """

    row: JudgedRow
    raters: int = 1
    weight: float = 1.0
    probability: float | None = None


def to_estimate(
    rows: Sequence[JudgedRow], judge: str, *, budget: int, good: float, seed: int = 0
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
    strata: dict[int | None, list[JudgedRow]] = defaultdict(list)
    for row in rows:
        mark = row.marks.get(judge)
        strata[None if mark is None else mark.as_rating].append(row)
    order = [rating for rating in (*range(LOWEST, HIGHEST + 1), None) if strata.get(rating)]
    labelled = [[row for row in strata[rating] if row.opinions] for rating in order]
    open_rows = [[row for row in strata[rating] if not row.opinions] for rating in order]
    if all(
        len(done) >= min(_FIRST, len(done) + len(left)) for done, left in zip(labelled, open_rows, strict=True)
    ):
        passed = [sum(majority(row.opinions, good) is True for row in done) for done in labelled]
        shares = [len(strata[rating]) / len(rows) for rating in order]
        wanted = [max(_FLOOR, round(n)) for n in neyman(shares, [len(done) for done in labelled], passed, budget)]
    else:
        wanted = [max(0, _FIRST - len(done)) for done in labelled]
    drawn = random.Random(seed)  # noqa: S311 - a sample, no secret
    chosen = [
        row
        for left, count in zip(open_rows, wanted, strict=True)
        for row in drawn.sample(left, min(count, len(left)))
    ]
    return _queue(chosen, drawn)


def to_estimate_actively(
    rows: Sequence[JudgedRow], judge: str, *, budget: int, good: float, seed: int = 0
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


def _errors(rows: Sequence[JudgedRow], judge: str, good: float) -> dict[int, float]:
    """Return by rating how often people say the opposite, where enough labels say so."""
    wrong: dict[int, list[bool]] = defaultdict(list)
    for row in rows:
        rating = row.marks[judge].as_rating if judge in row.marks else None
        verdict = majority(row.opinions, good)
        if rating is not None and verdict is not None:
            wrong[rating].append(verdict != (rating >= good))
    return {rating: (sum(one) + 0.5) / (len(one) + 1) for rating, one in wrong.items() if len(one) >= _FIRST}


def _unsure(mark: Mark, errors: Mapping[int, float]) -> float:
    rating = mark.as_rating or LOWEST
    score = (rating - LOWEST) / (HIGHEST - LOWEST) if mark.score is None else mark.score
    return math.sqrt(errors.get(rating, min(score, 1 - score)))


def to_certify(
    runs: Sequence[CalibrationRun], released: Iterable[Sequence[int | None]], *, budget: int, seed: int = 0
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
    order = list(range(len(runs)))
    drawn.shuffle(order)
    chosen: list[JudgedRow] = []
    for place in order:
        missing = [runs[place].rows[n - 1] for n in sorted(needed[place]) if runs[place].bad[n - 1] is None]
        if len(chosen) + len(missing) > budget:
            break
        chosen += missing
    return _queue(chosen, drawn)


def to_compare(
    rows: Sequence[JudgedRow], judge: str, *, good: float, budget: int, seed: int = 0
) -> list[NextLabel]:
    """Choose questions by which two systems are told apart: those with differing verdicts, and one in five others.

    Args:
        rows: Rows with `system`, of two systems.
        judge: The judge.
        good: Least rating that passes.
        budget: Labels to be given.
        seed: Seed of the choice.

    Raises:
        ConfigurationError: If the rows are not of two systems.
    """
    systems = sorted({str(row.metadata["system"]) for row in rows if row.metadata.get("system") is not None})
    if len(systems) != 2:  # noqa: PLR2004 - a comparison is of two
        raise ConfigurationError(
            f"a comparison is of two systems, and the rows name {', '.join(systems) or 'none'}"
        )
    by_question: dict[str, list[JudgedRow]] = defaultdict(list)
    for row in rows:
        by_question[row.question_id].append(row)
    drawn = random.Random(seed)  # noqa: S311 - a sample, no secret
    questions = list(by_question.values())
    drawn.shuffle(questions)
    chosen: list[NextLabel] = []
    for group in questions:
        passes = {(mark.as_rating or 0) >= good for row in group if (mark := row.marks.get(judge)) is not None}
        differ = len(passes) > 1
        if differ or drawn.random() < _AGREEING:
            weight = 1.0 if differ else 1 / _AGREEING
            chosen += [NextLabel(row=row, weight=weight) for row in group if not row.opinions]
        if len(chosen) >= budget:
            break
    return chosen[:budget]


def _queue(chosen: Sequence[JudgedRow], drawn: random.Random) -> list[NextLabel]:
    """Return rows in random order, one in ten of them for two people."""
    rows = list(chosen)
    drawn.shuffle(rows)
    doubled = set(drawn.sample(range(len(rows)), round(_DOUBLED * len(rows)))) if rows else set()
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
        weight = {"weight": label.weight} if label.weight != 1 else {}
        active = {} if label.probability is None else {"probability": label.probability, "drawn": len(labels)}
        row = {**texts, **verdicts, **weight, **active, "raters": label.raters, "labels": []}
        yield f"{json.dumps(row, ensure_ascii=False)}\n"
