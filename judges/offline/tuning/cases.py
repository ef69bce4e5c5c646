"""Labelled answers as cases: which to tune on, which are held out, and which to learn from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from judges.errors import ConfigurationError
from judges.offline.dataset.reading import LABEL_NAMES
from judges.offline.trust.agreement import people_of
from judges.offline.trust.loops import LabelledRows
from judges.offline.trust.rows import JudgedAnswer, is_tuned, label_digests, lower_median, majority
from judges.sample import Sample
from judges.verdict import Verdict

TUNE = "tune"
"""Split of labels that a judge may be tuned by."""
HELD_OUT = "report"
"""Split by which it is reported on."""
CERTIFY = "certify"
"""Split by which a threshold is certified."""

_FEWEST = 20
"""Labelled answers below which nothing is tuned."""

_PHRASE = 20


@dataclass(frozen=True, kw_only=True)
class LabelledCase:
    """An answer that people labelled, and what the judge says of it.

    Args:
        key: Identifies question and answer.
        question: Identifies the question; cases of one question stay together.
        sample: What the judge reads.
        good: Whether most people call it good.
        rating: People's rating in the middle.
        contested: Whether people differ.
        note: What a person wrote beside the label.
        shown: Whether it may stand in a prompt: not if a held-out case has the same answer.
        fold: The part of the tuning split that it belongs to.
        verdict: The verdict of the judge as it is.
    """

    key: str
    question: str
    sample: Sample
    good: bool
    rating: float
    contested: bool = False
    note: str = ""
    shown: bool = True
    fold: int = 0
    verdict: Verdict | None = None

    def agrees(self, verdict: Verdict | None) -> bool:
        """Return whether a verdict says the same as people; one without a score does not."""
        return verdict is not None and verdict.passed is self.good


@dataclass(frozen=True, kw_only=True)
class LabelParts:
    """The labelled answers, parted by question.

    Args:
        tuning: Cases to tune on.
        held: Cases to compare on.
        tuning_rows: The rows of the first.
        held_rows: The rows of the second.
        others: Labelled rows of neither.
        left_out: How many answers are of neither, by reason.
        people: Kappa of people among themselves.
        digests: Digests of the labels of the tuning cases.
    """

    tuning: tuple[LabelledCase, ...]
    held: tuple[LabelledCase, ...]
    tuning_rows: tuple[JudgedAnswer, ...]
    held_rows: tuple[JudgedAnswer, ...]
    others: tuple[JudgedAnswer, ...]
    left_out: Mapping[str, int]
    people: float | None
    digests: frozenset[str]

    @classmethod
    def of(cls, read: LabelledRows, *, good: float, most: int, seed: int) -> LabelParts:
        """Part rows with labels.

        Args:
            read: The rows.
            good: Least rating that is good.
            most: Most cases of a part.
            seed: Seed of the draw.

        Raises:
            ConfigurationError: If there are too few of them, or none of good or bad.
        """
        unique = list(
            {row.key: row for row in read.rows if row.opinions and row.sample and row.sample.answer}.values()
        )
        usable_rows = [row for row in unique if not any(one.split == CERTIFY for one in row.opinions)]
        decided = [row for row in usable_rows if majority(row.opinions, good) is not None]
        if len(decided) < _FEWEST:
            raise ConfigurationError(
                f"tuning needs labels of {_FEWEST} answers at least, of which half are held out; there are "
                f"{len(decided)}; label more, `refine label FILE --split tune`"
            )
        if len({majority(row.opinions, good) for row in decided}) == 1:
            raise ConfigurationError("people call all of these answers the same, so there is nothing to learn")
        ordered = sorted(decided, key=lambda row: digest_of([seed, row.question_id, row.key]))
        tuning, held = _parted(ordered, good, seed)
        tuning, rest = tuning[:most], [*tuning[most:], *held[most:]]
        held = held[:most]
        if not tuning or not held:
            raise ConfigurationError("all labels are of one split; leave some without, or label others")
        answers = {row.sample.answer for row in held if row.sample and row.sample.answer}
        counts = {
            "their labels are kept for a certificate (split certify)": len(unique) - len(usable_rows),
            "as many people say good as bad": len(usable_rows) - len(decided),
            "more than the budget has calls for": len(rest),
        }
        people = people_of(decided, [None] * len(decided), good=good, ratings=False)
        bare = [replace(row, opinions=tuple(replace(one, split=None) for one in row.opinions)) for row in tuning]
        return cls(
            tuning=tuple(_folded([_case(row, good, answers) for row in tuning])),
            held=tuple(_case(row, good, frozenset()) for row in held),
            tuning_rows=tuple(tuning),
            held_rows=tuple(held),
            others=tuple(rest),
            left_out={reason: count for reason, count in counts.items() if count},
            people=None if people is None else people.ceiling,
            digests=frozenset(label_digests(bare, None)),
        )

    @property
    def contested(self) -> int:
        """Cases on which people differ."""
        return sum(case.contested for case in (*self.tuning, *self.held))


def _parted(rows: Sequence[JudgedAnswer], good: float, seed: int) -> tuple[list[JudgedAnswer], list[JudgedAnswer]]:
    """Return the rows to tune on and those held out: by their labels' split, else every second question."""
    by_question: dict[str, list[JudgedAnswer]] = {}
    for row in rows:
        by_question.setdefault(row.question_id, []).append(row)
    rows_by_split: dict[str, list[list[JudgedAnswer]]] = {TUNE: [], HELD_OUT: [], "": []}
    for group in by_question.values():
        splits = {one.split for row in group for one in row.opinions}
        rows_by_split[TUNE if any(map(is_tuned, splits)) else HELD_OUT if HELD_OUT in splits else ""].append(group)
    if (
        not rows_by_split[HELD_OUT] and not rows_by_split[""]
    ):  # people labelled for tuning alone: half of that is held out
        rows_by_split[TUNE], rows_by_split[""] = [], rows_by_split[TUNE]
    tuning, held = ([row for group in rows_by_split[split] for row in group] for split in (TUNE, HELD_OUT))
    free = rows_by_split[""]
    free.sort(
        key=lambda group: (majority(group[0].opinions, good) is True, digest_of([seed, group[0].question_id]))
    )
    for place, group in enumerate(free):
        (tuning if place % 2 else held).extend(group)
    places = {row.key: digest_of([seed, row.key]) for row in rows}
    return sorted(tuning, key=lambda row: places[row.key]), sorted(held, key=lambda row: places[row.key])


def _case(row: JudgedAnswer, good: float, held_answers: Collection[str]) -> LabelledCase:
    assert row.sample is not None  # noqa: S101 - rows without were left out
    return LabelledCase(
        key=row.key,
        question=row.question_id,
        sample=row.sample,
        good=majority(row.opinions, good) is True,
        rating=lower_median(row.opinions) or 0.0,
        contested=len({one.is_good(good) for one in row.opinions}) > 1,
        note=_note_of(row),
        shown=not _holds(row.sample.answer or "", held_answers),
    )


def _holds(answer: str, others: Collection[str]) -> bool:
    """Return whether an answer is one of others, or holds one that is long enough to be no phrase."""
    return answer in others or any(len(other) > _PHRASE and other in answer for other in others)


def _note_of(row: JudgedAnswer) -> str:
    """Return the first note that a person wrote beside a label."""
    labels = next((row.metadata[name] for name in LABEL_NAMES if row.metadata.get(name) is not None), ())
    listed = labels if isinstance(labels, list | tuple) else [labels]
    notes = (str(one.get("note") or "") for one in listed if isinstance(one, Mapping))
    return next(filter(None, notes), "")


def _folded(cases: Sequence[LabelledCase]) -> Iterator[LabelledCase]:
    """Yield cases with their folds: three of a small set, else two; a question is in one."""
    folds = 3 if len(cases) < 30 else 2  # noqa: PLR2004 - below, two thirds are little enough to learn from
    order: dict[str, int] = {}
    for case in cases:
        yield replace(case, fold=order.setdefault(case.question, len(order)) % folds)


def digest_of(parts: object) -> str:
    """Return a digest of JSON data."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
