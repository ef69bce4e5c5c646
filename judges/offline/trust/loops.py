"""Recorded loops: one question each, what was tried under which policy, and the labels that belong to it."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from judges.certificate import Subject
from judges.errors import BadSample, ConfigurationError, plural, shortened
from judges.offline.dataset.reading import LABEL_NAMES, read_rows, read_sample
from judges.offline.run.evaluate import load_run
from judges.offline.trust.rows import (
    GOOD,
    JudgedAnswer,
    Opinion,
    RowSource,
    is_bad,
    is_tuned,
    labels_for,
    merge_opinions,
    naming_labels,
    opinions_in,
    read_judged,
    read_labels,
)
from judges.sample import Sample
from judges.verdict import HIGHEST, LOWEST

LeftOut = Literal["unreadable", "no attempt", "attempts missing", "no policy", "no stop reason", "not judged"]
"""Why a row or a loop is left out."""

_CRASHES = frozenset({"judge_failed", "generator_failed", "deadline", "budget", "interrupted", "broken_off"})
"""Stop reasons by which a loop ended before its policy had it end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopPolicy:
    """The policy under which a loop was recorded, and the judge that rated it.

    Args:
        success_rating: Lowest rating that passed.
        success_score: Lowest score that passed, in place of the rating; None where the rating decided.
        max_attempts: Most attempts.
        patience: Attempts without a gain after which it stopped; None never did.
        policy_digest: Fingerprint of the whole policy.
        judge_digest: Fingerprint of the judge, its models and prompts.
    """

    success_rating: int
    success_score: float | None = None
    max_attempts: int
    patience: int | None = None
    policy_digest: str = ""
    judge_digest: str = ""

    @property
    def threshold(self) -> float:
        """What passed at least: a score, which is a float, or a rating."""
        return self.success_rating if self.success_score is None else self.success_score

    def __str__(self) -> str:
        patience = "" if self.patience is None else f", patience {self.patience}"
        return f"success {named_threshold(self.threshold)}, {self.max_attempts} attempts{patience}"


def named_threshold(threshold: float) -> str:
    """Return a threshold as tables name it: a float is one of scores, and a whole number one of ratings."""
    return f"score {threshold:g}" if is_score(threshold) else f"rating {threshold}"


def is_score(threshold: object) -> bool:
    """Check whether a threshold is one of scores, a float, and not of ratings, a whole number."""
    return isinstance(threshold, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopAttempt:
    """One recorded attempt.

    Args:
        number: From 1.
        rating: 1 to 4; None where it is unscored.
        score: 0 to 1.
        passes: Whether the judge lets the rating count: a score below the judge's own pass mark passes no gate.
        released: Whether its answer was released.
        shadow: Whether it was made after the answer had been released.
        cost: US dollars of generating and judging; None where that is unknown.
        rejudged: Its rating from a second, independent judgement, for the gain of the next attempt.
        rejudged_as_best: The same, for what the best attempt of a loop is worth.
        opinions: What people think of it.
        sample: The sample that was judged, where the record holds texts.
    """

    number: int
    rating: int | None
    score: float | None = None
    passes: bool = True
    released: bool = False
    shadow: bool = False
    cost: float | None = None
    rejudged: int | None = None
    rejudged_as_best: int | None = None
    opinions: tuple[Opinion, ...] = ()
    sample: Sample | None = field(default=None, repr=False)

    @property
    def bad(self) -> bool | None:
        """True if people call the answer bad; a tie is bad; None without a label that may be used to measure."""
        return is_bad([one for one in self.opinions if not _tuned(one)], GOOD)

    @property
    def tuned(self) -> bool:
        """True if a label of it tuned the judge, and is not used."""
        return any(map(_tuned, self.opinions))

    @property
    def gate_rating(self) -> int | None:
        """The rating as a gate counts it: 1, the lowest, where the judge's own pass mark was missed."""
        return self.rating if self.passes or self.rating is None else LOWEST


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLoop:
    """One question sent through the loop.

    Args:
        id: Id of the outcome; of an old record its place in the file.
        question_id: The same for the same question.
        at: When it ended, in seconds since the epoch.
        policy: The policy in force; None where the record does not say.
        stop_reason: Why it stopped; None where the record does not say.
        continuation_probability: How probable it was that the loop went on after a pass; None where it never did.
        attempts: All attempts, those after the release included.
        subject: What a certificate of the record is about; None where the record does not say.
        judge: Name of the judge that rated it, where the record says so.
        metadata: What else the row of its first attempt holds, to be sliced by.
    """

    id: str
    question_id: str
    at: float | None
    policy: LoopPolicy | None
    stop_reason: str | None
    continuation_probability: float | None
    attempts: tuple[LoopAttempt, ...]
    subject: Subject | None = field(default=None, repr=False)
    judge: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict, repr=False)

    @property
    def crashed(self) -> bool:
        """True if it ended before its policy had it end: an error, a budget, a deadline."""
        return self.stop_reason in _CRASHES

    @property
    def judged(self) -> tuple[LoopAttempt, ...]:
        """The attempts that were judged: of a loop that crashed, not the one that came to no verdict."""
        attempts = self.attempts
        while self.crashed and attempts and attempts[-1].rating is None:
            attempts = attempts[:-1]
        return attempts

    def compared(self, threshold: float, attempts: Sequence[LoopAttempt] | None = None) -> list[float | None]:
        """Return what a threshold is compared with of each attempt judged, or of those given: score or rating."""
        judged = self.judged if attempts is None else attempts
        return [one.score if is_score(threshold) else one.gate_rating for one in judged]

    @property
    def best(self) -> LoopAttempt | None:
        """The attempt with the highest rating before any shadow, the latest on a tie; None if none is rated."""
        rated = [attempt for attempt in self.attempts if attempt.rating is not None and not attempt.shadow]
        return max(reversed(rated), key=lambda attempt: attempt.rating or 0, default=None)

    @property
    def released(self) -> LoopAttempt | None:
        """The attempt whose answer was released, if any."""
        return next((attempt for attempt in self.attempts if attempt.released), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loops:
    """The loops of a record.

    Args:
        loops: In the order in which they were recorded.
        left_out: How many rows or loops could not be read, by reason.
    """

    loops: tuple[RecordedLoop, ...]
    left_out: Mapping[LeftOut, int]


def _tuned(opinion: Opinion) -> bool:
    return is_tuned(opinion.split)


LoopRows = str | Path | Iterable[Sample | Mapping[str, object] | BadSample]
"""The path of a file of rows or of a run's folder, or the rows: samples, or mappings as a record yields them."""


def read_loops(rows: LoopRows, labels: RowSource | None = None) -> Loops:
    """Read the loops of a record.

    An outcome that was recorded twice, while it waited for a review and after it, is read once, as it was last. Of
    several candidates for one attempt, only the one chosen is read.

    Args:
        rows: A file of JSON lines as `record=` or `refine export` writes it, the folder of a run of `refine
            evaluate` over such a file, or rows, for instance `DatabaseRecord.attempts()`.
        labels: Labels that are not in the rows: a file that `refine label` wrote, or rows of its form. Each
            belongs to the row with its `outcome_id` and `attempt`, or with its question and answer.

    Raises:
        ConfigurationError: If there is no such file, or no row is an attempt.
    """
    left_out: Counter[LeftOut] = Counter()
    groups: dict[str, dict[int, tuple[Mapping[str, object], Sample | None]]] = {}
    current = ""
    for place, (metadata, sample) in enumerate(_rows(rows, left_out)):
        number = _whole(metadata.get("attempt"), 1)
        if number is None:
            left_out["no attempt"] += 1
            continue
        if metadata.get("chosen") is False:
            continue
        identifier = metadata.get("outcome_id")
        if isinstance(identifier, str) and identifier:
            current = identifier
        elif number == 1 or not current.startswith("row "):
            current = f"row {place}"
        groups.setdefault(current, {})[number] = metadata, sample
    if not groups and left_out["no attempt"]:
        raise ConfigurationError(
            "no row is a recorded attempt (none has an attempt in its metadata); record loops with "
            "SelfRefine(..., record='attempts.jsonl')"
        )
    beside = LabelsBeside(labels)
    loops = [_loop(identifier, group, beside, left_out) for identifier, group in groups.items()]
    beside.count_strangers()
    return Loops(loops=tuple(loop for loop in loops if loop is not None), left_out=dict(left_out))


def _rows(rows: LoopRows, left_out: Counter[LeftOut]) -> Iterator[tuple[Mapping[str, object], Sample | None]]:
    """Yield the metadata of each row, with the sample where the row has texts."""
    if isinstance(rows, str | os.PathLike):
        rows = _read(rows)
    for row in rows:
        if isinstance(row, Sample):
            yield row.metadata, row
        elif isinstance(row, Mapping) and "metadata" not in row:
            yield row, None
        elif isinstance(read := read_sample(row), Sample):
            yield read.metadata, read
        else:
            left_out["unreadable"] += 1


def _read(path: str | Path) -> Iterable[Sample | BadSample]:
    if "://" in str(path):
        raise ConfigurationError(
            f"a database is read by refine.record: pass DatabaseRecord({shortened(str(path))}).attempts(), or use "
            f"the command, which takes its URL"
        )
    folder = Path(path)
    if not folder.is_dir():
        return read_rows(path, errors="keep")
    return [BadSample(row.error) if row.sample is None else row.sample for row in load_run(folder).rows]


def with_labels(rows: Sequence[JudgedAnswer], labels: RowSource | None) -> tuple[list[JudgedAnswer], int]:
    """Return rows with the labels of another file, and how many of these belong to no row.

    A label belongs to the row with its `outcome_id` and `attempt`, or with its question and answer; with an
    outcome alone, to the answer that was released.
    """
    beside = LabelsBeside(labels)
    labelled = [_labelled(row, of_row) for row, of_row in zip(rows, beside.of_rows(rows), strict=True)]
    return labelled, beside.count_strangers()


class LabelsBeside:
    """Labels that are not in the rows, by what they belong to.

    Args:
        source: Where they are; None for none.

    Raises:
        ConfigurationError: If they cannot be read.
    """

    def __init__(self, source: RowSource | None) -> None:
        self.labels = [] if source is None else read_labels(source)
        self._asked: set[object] = set()
        self._by_key: dict[object, list[JudgedAnswer]] = {}
        for label in self.labels:
            for key in _label_keys(label):
                self._by_key.setdefault(key, []).append(label)

    def of(self, keys: Sequence[object]) -> list[JudgedAnswer]:
        """Return the labels of an answer in the order of their file: those of its outcome and those of its texts.

        Args:
            keys: What identifies the answer; see `_answer_keys`.
        """
        self._asked.update(keys)
        *of_outcome, by_text = keys
        labels = {label.index: label for key in of_outcome for label in self._by_key.get(key, ())}
        of_texts = self._by_key.get(by_text, ())
        is_free = not labels  # then it takes those that another outcome of the same texts has
        labels |= {label.index: label for label in of_texts if is_free or label.outcome_id is None}
        return [labels[index] for index in sorted(labels)]

    def of_rows(self, rows: Sequence[JudgedAnswer]) -> list[list[JudgedAnswer]]:
        """Return the labels of the answer of each row."""
        shown = _released_rows(rows) if self.labels else ()
        return [
            self.of(_answer_keys(row.outcome_id, row.attempt or 1, row.key, is_released=place in shown))
            if self.labels
            else []
            for place, row in enumerate(rows)
        ]

    def count_strangers(self) -> int:
        """Return how many labels belong to no answer that was asked about.

        Raises:
            ConfigurationError: If that is all of them.
        """
        strangers = sum(self._asked.isdisjoint(_label_keys(label)) for label in self.labels)
        if self.labels and strangers == len(self.labels):
            raise ConfigurationError(
                "no label belongs to a recorded attempt; a label has outcome_id and attempt, or the question and "
                'the answer, of one, and labels: [{"by": ..., "rating": ...}]'
            )
        return strangers


@dataclass(frozen=True, kw_only=True)
class LabelledRows:
    """Judged rows with their labels, read once.

    Args:
        rows: The rows.
        strangers: How many labels belong to no row.
        notes: Which labels were taken without being named.
        files: The files of labels and rows, as far as they are files.
    """

    rows: list[JudgedAnswer]
    strangers: int = 0
    notes: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


def read_labelled(source: RowSource, labels: RowSource | None = None) -> LabelledRows:
    """Return judged rows with the labels that were named, or that lie beside them.

    Raises:
        ConfigurationError: If rows or labels cannot be read, or no label belongs to a row.
    """
    labels, notes = labels_for(source, labels)
    with naming_labels(notes):
        labels_by_key = None if labels is None else read_labels(labels)
        rows, strangers = with_labels(read_judged(source), labels_by_key)
        notes += _labelled_twice(labels_by_key or ())
    files = [Path(one) for one in (labels, source) if isinstance(one, str | os.PathLike)]
    return LabelledRows(rows=rows, strangers=strangers, notes=tuple(notes), files=tuple(files))


def _labelled_twice(labels: Sequence[JudgedAnswer]) -> list[str]:
    """Say of how many answers a person changed their mind: the later label counts."""
    first: dict[object, float] = {}
    again: set[object] = set()
    for label in labels:
        for opinion in label.opinions:
            key = (_label_keys(label)[0], opinion.by, opinion.split)
            if opinion.is_named and first.setdefault(key, opinion.rating) != opinion.rating:
                again.add(key)
    return (
        [f"two labels of the same person, of which the later counts: {plural(len(again), 'answer')}"]
        if again
        else []
    )


def _labelled(row: JudgedAnswer, labels: Sequence[JudgedAnswer]) -> JudgedAnswer:
    """Return a row with labels of another file, and with what that says of how it was drawn."""
    if not labels:
        return row
    opinions = merge_opinions(row.opinions, (opinion for label in labels for opinion in label.opinions))
    last = labels[-1]
    return replace(
        row,
        opinions=opinions,
        weight=last.weight if row.weight == 1 else row.weight,
        probability=row.probability or last.probability,
        drawn=row.drawn or last.drawn,
    )


def _answer_keys(outcome_id: str | None, attempt: int, text: object, *, is_released: bool) -> list[object]:
    """Return what identifies an answer: outcome and attempt, the release, last its texts."""
    keys = [] if outcome_id is None else [(outcome_id, attempt), *([(outcome_id, _RELEASED)] * is_released)]
    return [*keys, text]


def _label_keys(label: JudgedAnswer) -> list[object]:
    """Return what identifies the answer that a label is about; with an outcome alone it is the one released."""
    if label.outcome_id is None:
        return [label.key]
    return [(label.outcome_id, _RELEASED if label.attempt is None else label.attempt), label.key]


def _released_rows(rows: Sequence[JudgedAnswer]) -> set[int]:
    """Return the places of the rows whose answers were released; of a record that does not say so, the last."""
    last = {row.outcome_id: place for place, row in enumerate(rows) if row.outcome_id is not None}
    says = {row.outcome_id for row in rows if "released" in row.metadata}
    released = {place for place, row in enumerate(rows) if row.outcome_id and row.metadata.get("released") is True}
    return released | {place for outcome, place in last.items() if outcome not in says}


_RELEASED = "released"


def _loop(
    identifier: str,
    group: Mapping[int, tuple[Mapping[str, object], Sample | None]],
    labels: LabelsBeside,
    left_out: Counter[LeftOut],
) -> RecordedLoop | None:
    if sorted(group) != list(range(1, len(group) + 1)):
        left_out["attempts missing"] += 1
        return None
    ordered = [group[number] for number in sorted(group)]
    first = ordered[0][0]
    policy = _policy(first)
    stops = [reason for metadata, _ in ordered if isinstance(reason := metadata.get("stop_reason"), str)]
    says_so = any("released" in metadata for metadata, _ in ordered)
    released = (number for number, (metadata, _) in enumerate(ordered, 1) if metadata.get("released") is True)
    shown = next(released, None if says_so else len(ordered))
    attempts = [
        _attempt(number, metadata, sample, _labels_of(labels, identifier, number, sample, shown))
        for number, (metadata, sample) in enumerate(ordered, 1)
    ]
    return RecordedLoop(
        id=identifier,
        question_id=str(first.get("question_id") or identifier),
        at=seconds_of(first.get("at")),
        policy=policy,
        stop_reason=stops[-1] if stops else None,
        continuation_probability=_fraction(first.get("continuation_probability")) or None,
        attempts=tuple(attempts[: policy.max_attempts] if policy is not None else attempts),
        subject=_subject(first.get("subject")),
        judge=str(first.get("judge") or ""),
        metadata=first,
    )


def _labels_of(
    beside: LabelsBeside, loop: str, number: int, sample: Sample | None, shown: int | None
) -> Iterator[Opinion]:
    """Yield the labels beside the rows that belong to an attempt."""
    if beside.labels:
        text = None if sample is None else read_judged([sample])[0].key
        for label in beside.of(_answer_keys(loop, number, text, is_released=number == shown)):
            yield from label.opinions


def _subject(data: object) -> Subject | None:
    try:
        return Subject.model_validate(data) if isinstance(data, Mapping) else None
    except ValidationError:
        return None


def _policy(metadata: Mapping[str, object]) -> LoopPolicy | None:
    success, most = _whole(metadata.get("success_rating"), LOWEST), _whole(metadata.get("max_attempts"), 1)
    if success is None or success > HIGHEST or most is None:
        return None
    return LoopPolicy(
        success_rating=success,
        success_score=_fraction(metadata.get("success_score")),
        max_attempts=1 if metadata.get("observed_only") is True else most,
        patience=_whole(metadata.get("patience"), 1),
        policy_digest=str(metadata.get("policy_digest") or ""),
        judge_digest=str(metadata.get("judge_digest") or ""),
    )


def _attempt(
    number: int, metadata: Mapping[str, object], sample: Sample | None, labels: Iterable[Opinion]
) -> LoopAttempt:
    rating, score = _whole(metadata.get("rating"), LOWEST), _fraction(metadata.get("score"))
    if rating is not None and score is None:
        score = (rating - LOWEST) / (HIGHEST - LOWEST)
    rejudged = _whole(metadata.get("rejudged"), LOWEST)
    return LoopAttempt(
        number=number,
        rating=rating if rating is None or rating <= HIGHEST else None,
        score=score,
        passes=metadata.get("rated_natively") is not False or metadata.get("passed") is not False,
        released=metadata.get("released") is True,
        shadow=metadata.get("shadow") is True,
        cost=_cost(metadata),
        rejudged=rejudged if rejudged is None or rejudged <= HIGHEST else None,
        opinions=_opinions(metadata, labels, f"attempt {number} of {metadata.get('outcome_id', 'a loop')}: "),
        sample=None if sample is None or sample.response is None else sample,
    )


def _opinions(metadata: Mapping[str, object], others: Iterable[Opinion], place: str) -> tuple[Opinion, ...]:
    """Return the labels of a row and of another file; of each person the last."""
    labels = next((metadata[name] for name in LABEL_NAMES if metadata.get(name) is not None), None)
    split = metadata.get("split")
    opinions = opinions_in(labels, split=None if split is None else str(split), place=place)
    return merge_opinions(opinions, others)


def _cost(metadata: Mapping[str, object]) -> float | None:
    """Return what generating and judging cost; None where either is unknown."""
    total = 0.0
    for name in ("usage", "judge_usage"):
        usage = metadata.get(name)
        cost = usage.get("cost") if isinstance(usage, Mapping) else None
        if not isinstance(cost, int | float):
            return None
        total += cost
    return total


def seconds_of(time: object) -> float | None:
    """Return a time in seconds since the epoch: from ISO 8601, or from milliseconds; None for anything else."""
    if isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time):
        return time / 1000
    if not isinstance(time, str):
        return None
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _whole(value: object, least: int) -> int | None:
    return value if type(value) is int and value >= least else None


def _fraction(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None  # type: ignore[operator,arg-type]  # a number
