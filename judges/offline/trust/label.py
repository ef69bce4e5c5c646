"""Labelling by hand: which answer is next, what a person says of it, and what is left."""

from __future__ import annotations

import json
import math
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Protocol

from judges.certificate import Estimand
from judges.errors import ConfigurationError, shortened
from judges.messages import WITHOUT_MEDIA
from judges.offline.dataset.reading import DRAW_NAMES
from judges.offline.statistics import active_probabilities, neyman
from judges.offline.trust import calibration
from judges.offline.trust.certify import GOOD
from judges.offline.trust.loops import read_labelled, with_labels
from judges.offline.trust.rows import (
    JudgedAnswer,
    JudgeMark,
    RowSource,
    judge_among,
    majority,
    read_labels,
)
from judges.sample import Sample
from judges.verdict import HIGHEST, LOWEST

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no such locks
    fcntl = None  # type: ignore[assignment]  # then several people have a file each

_FOLDER = getattr(os, "O_DIRECTORY", None)


def labels_in(path: Path) -> list[JudgedAnswer]:
    """Return the labels in a file; none where there is no file yet.

    Raises:
        ConfigurationError: If it cannot be read.
    """
    return list(read_labels(path)) if path.is_file() else []


class LabelFile:
    """A file of JSON lines to which labels are appended: each is on the disk before the next answer is shown.

    It is readable by its owner only, since it holds what people asked. Several people may share it.

    Args:
        path: The file, in a folder that exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, item: LabelItem, label: Label) -> None:
        """Append a label, on a line of its own even after a torn one.

        Raises:
            ConfigurationError: If it cannot be written.
        """
        line = _line(item, label)
        with self._opened() as file:
            size = os.lseek(file, 0, os.SEEK_END)
            torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
            _write(file, b"\n" + line if torn else line)
            os.fsync(file)

    def remove(self, item: LabelItem, label: Label) -> None:
        """Take a label out again, the last one of this content.

        Raises:
            ConfigurationError: If it cannot be written.
        """
        line = _line(item, label)
        with self._opened() as file:
            content = os.pread(file, os.lseek(file, 0, os.SEEK_END), 0)
            start = content.rfind(line)
            if start >= 0:
                os.lseek(file, start, os.SEEK_SET)
                _write(file, content[start + len(line) :])
                os.ftruncate(file, len(content) - len(line))
                os.fsync(file)

    def repair(self) -> None:
        """Take out a last line that was never written whole: whoever wrote it was never told that it is kept.

        Raises:
            ConfigurationError: If the file cannot be written.
        """
        if not self._path.is_file():
            return
        with self._opened() as file:
            content = os.pread(file, os.lseek(file, 0, os.SEEK_END), 0)
            start = content.rfind(b"\n") + 1
            with suppress(ValueError):
                json.loads(content[start:] or b"{}")
                return
            os.ftruncate(file, start)
            os.fsync(file)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Open the file for this process alone."""
        is_new = not self._path.exists()
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"{self._path} cannot be written ({error.strerror}); give --labels"
            ) from error
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be written ({error.strerror}); make room") from error
        finally:
            os.close(file)
        if is_new and _FOLDER is not None:
            with suppress(OSError):
                folder = os.open(self._path.parent, os.O_RDONLY | _FOLDER)
                os.fsync(folder)
                os.close(folder)


def _line(item: LabelItem, label: Label) -> bytes:
    return f"{json.dumps(item.line(label), ensure_ascii=False)}\n".encode(errors="backslashreplace")


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


_SPLITS = ("certify", "report", "tune")
"""What a label may be used for; labels that tuned a judge never measure it."""

_DOUBLE = 0.1
"""Share of the answers that two people label."""

_PEOPLE = 2
Label = Mapping[str, Any]
"""A label: `by`, `at`, `rating` or `up`, and where there are such `note` and `split`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelItem:
    """An answer to be labelled.

    Args:
        key: What tells it from every other answer.
        sample: Question, answer and evidence.
        outcome_id: The loop that it is an attempt of; None for an answer that is none.
        attempt: Its number there.
        by: Who labelled it already.
        people: How many people are to label it.
    """

    key: str
    sample: Sample
    outcome_id: str | None
    attempt: int | None
    by: frozenset[str]
    people: int

    def line(self, label: Label) -> dict[str, Any]:
        """Return a label of this answer as a row that `refine align`, `certify` and `replay` read."""
        fields = {"user_input", "response"}
        texts = self.sample.model_dump(mode="json", exclude_defaults=True, include=fields, exclude=WITHOUT_MEDIA)
        place = {"outcome_id": self.outcome_id, "attempt": self.attempt}
        present_fields = {name: value for name, value in place.items() if value is not None}
        design = {
            name: self.sample.metadata[name] for name in DRAW_NAMES if self.sample.metadata.get(name) is not None
        }
        return {**label, **present_fields, **design, **texts}


class LabelStore(Protocol):
    """Where labels are kept."""

    def add(self, item: LabelItem, label: Label) -> None:
        """Keep a label; it is safe when this returns."""
        ...

    def remove(self, item: LabelItem, label: Label) -> None:
        """Take a label back."""
        ...


def items_of(rows: Sequence[JudgedAnswer], labels: Iterable[JudgedAnswer] = ()) -> list[LabelItem]:
    """Return the answers among judged rows, each once, with who labelled them.

    Args:
        rows: The rows; those without an answer are left out.
        labels: Labels that are kept elsewhere.
    """
    people: dict[object, set[str]] = defaultdict(set)
    for label in labels:
        people[_key_of(label)] |= {opinion.by for opinion in label.opinions}
    items: dict[object, LabelItem] = {}
    for row in rows:
        if row.sample is None or not row.sample.answer:
            continue
        identity = _key_of(row)
        by = {opinion.by for opinion in row.opinions} | people[identity] | people[row.key]
        text = f"{row.outcome_id} {row.attempt}" if row.outcome_id is not None else row.key
        raters = row.metadata.get("raters")
        items[identity] = LabelItem(
            key=text,
            sample=row.sample,
            outcome_id=row.outcome_id,
            attempt=None if row.outcome_id is None else row.attempt or 1,
            by=frozenset(by),
            people=raters if type(raters) is int and raters > 0 else _PEOPLE if _is_doubled(text) else 1,
        )
    return list(items.values())


def _key_of(row: JudgedAnswer) -> object:
    return row.key if row.outcome_id is None else (row.outcome_id, row.attempt or 1)


def _is_doubled(key: str) -> bool:
    """Check whether an answer is one of those that two people label; the same in every process."""
    draw = int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
    return draw < _DOUBLE * 2**64


class Labelling:
    """One person at work: which answer is shown, what was said, and what is left.

    Every label is kept before the next answer is shown. Answers come in random order; what is skipped comes again
    at the end; one in ten is left for a second person, too.

    Args:
        items: All answers.
        store: Where labels are kept.
        by: Who labels.
        split: What the labels may be used for.
        seed: Seed of the order, which differs from person to person.
        clock: Returns the time.

    Raises:
        ConfigurationError: If the name is empty, or there is no such split.
    """

    def __init__(
        self,
        items: Sequence[LabelItem],
        store: LabelStore,
        *,
        by: str,
        split: str | None = None,
        seed: int = 0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if not by.strip():
            raise ConfigurationError(f"a label says by whom it is, not {shortened(by)}; give --by NAME")
        if split is not None and split not in _SPLITS:
            raise ConfigurationError(f"split is {', '.join(_SPLITS)}, not {shortened(split)}")
        self.by, self.split = by.strip(), split
        self._store, self._clock = store, clock
        self._items = items
        self._queue = [item for item in items if self.by not in item.by and len(item.by) < item.people]
        random.Random(f"{seed} {self.by}").shuffle(self._queue)  # noqa: S311 - an order, no secret
        self._done: list[tuple[LabelItem, Label]] = []
        self._mine = sum(self.by in item.by for item in items)
        self._skipped: set[str] = set()

    @property
    def current(self) -> LabelItem | None:
        """The answer that is shown; None where nothing is left."""
        return self._queue[0] if self._queue else None

    @property
    def labelled(self) -> int:
        """How many answers this person has labelled, now and earlier."""
        return self._mine + len(self._done)

    @property
    def labelled_now(self) -> int:
        """How many since this began."""
        return len(self._done)

    @property
    def total(self) -> int:
        """How many answers this person has labelled, and may label still."""
        return self.labelled + len(self._queue)

    @property
    def only_skipped(self) -> bool:
        """True if all that is left was skipped once."""
        return all(item.key in self._skipped for item in self._queue)

    @property
    def waiting(self) -> int:
        """How many answers wait for another person to label them, too."""
        now = {item.key for item, _ in self._done}
        return sum(0 < len(item.by) + (item.key in now) < item.people for item in self._items)

    def label(self, *, rating: int | None = None, up: bool | None = None, note: str = "") -> None:
        """Keep what is said of the answer shown, and show the next."""
        item = self._queue[0]
        fields = {
            "by": self.by,
            "at": self._clock().isoformat(timespec="seconds"),
            "rating": rating,
            "up": up,
            "note": note.strip() or None,
            "split": self.split,
        }
        label = {name: value for name, value in fields.items() if value is not None}
        self._store.add(item, label)
        self._queue.pop(0)
        self._done.append((item, label))

    def skip(self) -> None:
        """Show the next answer, and this one again at the end."""
        item = self._queue.pop(0)
        self._skipped.add(item.key)
        self._queue.append(item)

    def undo(self) -> Label | None:
        """Take the last label back, and show its answer again; return the label, or None where there is none."""
        if not self._done:
            return None
        item, label = self._done[-1]
        self._store.remove(item, label)
        self._done.pop()
        self._queue.insert(0, item)
        return label


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
    runs: Sequence[calibration.CalibrationRun],
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
    order = sorted(range(len(runs)), key=lambda place: calibration.draw_place(runs[place], seed))
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
    doubled = set(drawn.sample(range(len(rows)), round(_DOUBLE * len(rows)))) if rows else set()
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
    recorded, subject, _ = calibration.of_one_loop(calibration.runs_of(rows, good=good, split=None))
    runs = recorded if estimand == "traffic" else calibration.one_per_question(recorded)
    most = calibration.recorded_attempts(rows, subject, max_attempts, independent=False)
    waits = subject.patience if patience is None else patience
    replays = calibration.replay_chain(
        runs,
        calibration.checked_thresholds(thresholds, on_scores=False),
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
    return _PEOPLE if len(row.opinions) == 1 else len(row.opinions) + (majority_opinion is None)


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
