"""Labelling by hand: which answer is shown next, what a person says of it, and what is left."""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from judges.errors import ConfigurationError, shortened
from judges.messages import WITHOUT_MEDIA
from judges.offline.dataset.reading import DRAW_NAMES, JSON_LINES
from judges.offline.trust.rows import (
    JudgedAnswer,
    read_labels,
)
from judges.sample import Sample

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no such locks
    fcntl = None  # type: ignore[assignment]  # then several people have a file each

_FOLDER = getattr(os, "O_DIRECTORY", None)
_BEGINNING = b'{"by": '
"""How every line begins that is written here."""


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
        path: The file, in a folder that exists, called .jsonl.

    Raises:
        ConfigurationError: If it is called otherwise: a line of JSON would spoil a table, and of what is called
            nothing no command would read the labels again.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() not in JSON_LINES:
            raise ConfigurationError(
                f"labels are appended to a .jsonl file, a line of JSON each, not to {str(path)!r}; "
                f"give a new file, --labels NAME.jsonl"
            )
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
            if not content.startswith(_BEGINNING[: len(content) - start], start):
                return  # another's line, which only its writer may take out
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

DOUBLED = 0.1
"""Share of the answers that two people label."""

PEOPLE = 2
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
            people=raters if type(raters) is int and raters > 0 else PEOPLE if _is_doubled(text) else 1,
        )
    return list(items.values())


def _key_of(row: JudgedAnswer) -> object:
    return row.key if row.outcome_id is None else (row.outcome_id, row.attempt or 1)


def _is_doubled(key: str) -> bool:
    """Check whether an answer is one of those that two people label; the same in every process."""
    draw = int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
    return draw < DOUBLED * 2**64


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
