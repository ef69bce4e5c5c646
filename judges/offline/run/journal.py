"""The journal of a run: every finished call and every finished cell, appended as it comes.

A cell is one row before one judge. A line of the journal is one JSON object: `{"cell": ROW, ...}` with a verdict,
or `{"call": ROW, ...}` with a model's response, which is needed until all cells of its row are there. What
is missing from it is found in `cells`; `evaluate` opens it to go on.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
import time
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from judges.errors import ConfigurationError, first_fault
from judges.verdict import NOTHING_TO_JUDGE

_Document = TypeVar("_Document", bound=BaseModel)
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


def make_folder(folder: Path) -> bool:
    """Create a folder that only its owner can enter, and return whether it is new.

    Raises:
        ConfigurationError: If it cannot be created.
    """
    try:
        if folder.is_dir():
            return False
        if folder.exists():
            raise ConfigurationError(f"{folder} is a file; choose another --out, or delete it first")
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigurationError):
            raise
        reason = "Not a directory" if isinstance(error, FileExistsError) else getattr(error, "strerror", error)
        raise ConfigurationError(f"{folder} cannot be written ({reason}); choose another --out") from error
    return True


def open_private(path: Path, flags: int) -> int:
    """Open a file of a run, and return its descriptor; a new file belongs to its owner alone.

    Raises:
        ConfigurationError: If it cannot be opened, or is a link to somewhere else.
    """
    if path.is_symlink():
        raise ConfigurationError(f"{path} is a link; a run writes to its own folder only, so delete the link")
    try:
        return os.open(path, flags | _NO_LINKS | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError, run: Path | None = None) -> ConfigurationError:
    """Return the error for a file that cannot be written, for instance on a full disk.

    Args:
        path: The file.
        error: What the system said.
        run: Folder of its run; None finds it.
    """
    run = run or next((folder for folder in path.parents if (folder / "run.json").exists()), path.parent)
    return ConfigurationError(
        f"{path} cannot be written ({error.strerror}); nothing that was judged is lost: make room, then go on "
        f"with `refine resume {run}`"
    )


@contextmanager
def full_disk_told(folder: Path) -> Iterator[None]:
    """Say in one line that there is no room for something in the folder of a run, whatever it was."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise cannot_write(folder, error, folder) from error


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a file whole: it takes the place of an older one when the block ends well.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    draft = path.with_name(f"{path.name}.part")
    descriptor = open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with os.fdopen(descriptor, "wb", buffering=1 << 16) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def write_json(path: Path, document: object, *, ensure_ascii: bool = True, indent: int | None = 2) -> None:
    """Write a document of JSON whole; see `replacing`."""
    text = json.dumps(document, ensure_ascii=ensure_ascii, indent=indent)
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace") + b"\n")


def read_json(kind: type[_Document], path: Path, missing: str) -> _Document:
    """Read a document of JSON from a folder.

    Raises:
        ConfigurationError: If there is none, which `missing` says, or one of another version.
    """
    try:
        text = path.read_bytes()
    except (OSError, ValueError):
        raise ConfigurationError(missing) from None
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        place, fault = first_fault(error)
        raise ConfigurationError(
            f"{path} cannot be read: {place or 'the whole file'}: {fault}; it was changed, or written by another "
            f"version of selfrefine"
        ) from None


NAME = "journal.jsonl"
_SYNC_EVERY_S = 1.0
_MOST_ROWS = 10**8
_SCORED = 0
_UNSCORED = 1
_FAILED = 2


class _Cells:
    """The cells of one judge that are there: three numbers for each, so that a million rows take 17 MB."""

    def __init__(self) -> None:
        self._places = array("q")
        self._keys = array("Q")
        self._states = array("b")

    def add(self, row: int, place: int, key: int, *, unscored: str | None) -> None:
        """Remember where the cell of a row stands, what it was made of, and whether it has a score."""
        if row >= len(self._places):
            missing = row + 1 - len(self._places)
            for column in (self._places, self._keys, self._states):
                column.frombytes(bytes(column.itemsize * missing))
        state = _SCORED if unscored is None else _FAILED if is_failure(unscored) else _UNSCORED
        self._places[row], self._keys[row], self._states[row] = place + 1, key, state

    def forget(self, row: int) -> None:
        """Let the cell of a row count as missing."""
        self._places[row] = 0

    def place(self, row: int) -> int | None:
        """Return where the cell of a row stands in the journal; None where it is missing."""
        place = self._places[row] if row < len(self._places) else 0
        return place - 1 if place else None

    def key(self, row: int) -> int | None:
        """Return what the cell of a row was made of; None where it is missing."""
        return self._keys[row] if self.place(row) is not None else None

    def has_failed(self, row: int) -> bool:
        """Return whether the cell of a row is there, and judging it failed."""
        return self.place(row) is not None and self._states[row] == _FAILED

    def is_unscored(self, row: int) -> bool:
        """Return whether the cell of a row is there, without a score."""
        return self.place(row) is not None and self._states[row] != _SCORED

    def __len__(self) -> int:
        return len(self._places)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A journaled call: the judge that asked, the digest of its request, and the response as JSON values."""

    judge: str
    digest: str
    response: dict[str, Any]


class Journal:
    """The open journal of a run, for any number of threads of the process that holds the run's lock.

    Opening it reads it once; a last line that was cut off by a crash is removed, and what else cannot be read
    counts as missing.

    Args:
        folder: Folder of the run.

    Raises:
        ConfigurationError: If the file cannot be opened or written; each method raises it, too.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.cells: defaultdict[str, _Cells] = defaultdict(_Cells)
        self.unreadable: list[int] = []
        self._calls: dict[int, list[int]] = {}
        self._lock = threading.Lock()
        self._file = open_private(self.path, os.O_RDWR | os.O_CREAT)
        self._end = self._scan()
        self._synced = time.monotonic()
        self._sync: threading.Thread | None = None
        self._fault: OSError | None = None

    def add_cell(
        self, row: int, judge: str, key: int, seconds: float, verdict: bytes, *, unscored: str | None
    ) -> None:
        """Append a finished cell; `verdict` is its JSON without times."""
        head = b'{"cell":%d,"judge":%b,"key":%d,"seconds":%.6f,"verdict":' % (row, quoted(judge), key, seconds)
        place = self._append(head + verdict + b"}\n")
        self.cells[judge].add(row, place, key, unscored=unscored)

    def add_call(self, row: int, judge: str, digest: str, response: bytes) -> None:
        """Append a finished call; `response` is its JSON without the nonce of its request."""
        head = b'{"call":%d,"judge":%b,"digest":"%b","response":' % (row, quoted(judge), digest.encode())
        self._append(head + response + b"}\n")

    def forget_calls(self, row: int, judge: str | None = None) -> None:
        """Forget the calls of a row, or those of one judge, so that they are made again."""
        places = self._calls.pop(row, [])
        if judge is not None:
            kept_places = [place for place in places if self._record(place).get("judge") != judge]
            self._calls.update({row: kept_places} if kept_places else {})

    def calls(self, row: int) -> list[CallRecord]:
        """Return the calls of a row that were made for cells that are missing."""
        records = [self._record(place) for place in self._calls.get(row, ())]
        return [
            CallRecord(record["judge"], record["digest"], record["response"])
            for record in records
            if isinstance(record.get("response"), dict)
        ]

    def cell(self, row: int, judge: str) -> tuple[float, bytes] | None:
        """Return seconds and verdict of a cell as they were written; None where it is missing."""
        place = self.cells[judge].place(row) if judge in self.cells else None
        if place is None:
            return None
        line = self._line(place)
        head, _, verdict = line.partition(b',"verdict":')
        return float(head.rpartition(b'"seconds":')[2]), verdict[:-1]

    def close(self) -> None:
        """Close the journal, with all that was written on the disk."""
        if self._sync is not None:
            self._sync.join()
        try:
            if self._fault is not None:
                raise self._fault
            os.fsync(self._file)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        finally:
            os.close(self._file)

    def _append(self, line: bytes) -> int:
        with self._lock:
            place = self._end
            try:
                if self._fault is not None:
                    raise self._fault
                written = 0
                while written < len(line):
                    written += os.pwrite(self._file, line[written:], place + written)
            except OSError as error:
                os.ftruncate(self._file, place)
                raise cannot_write(self.path, error) from error
            self._end = place + len(line)
            self._sync_now_and_then()
        return place

    def _sync_now_and_then(self) -> None:
        now = time.monotonic()
        if now - self._synced < _SYNC_EVERY_S or (self._sync is not None and self._sync.is_alive()):
            return
        self._synced = now
        self._sync = threading.Thread(target=self._sync_file, name="judges-journal")
        self._sync.start()

    def _sync_file(self) -> None:
        try:
            os.fsync(self._file)
        except OSError as error:  # the system reports it once, so it is kept for the next line, or the end
            self._fault = error

    def _scan(self) -> int:
        """Index the records, remove a torn last line, and return where the file ends."""
        end = 0
        with os.fdopen(os.dup(self._file), "rb", buffering=1 << 20) as file:
            file.seek(0)
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                if not self._index(line, end):
                    self.unreadable.append(number)
                end += len(line)
        if os.fstat(self._file).st_size > end:
            os.ftruncate(self._file, end)
        return end

    def _index(self, line: bytes, place: int) -> bool:
        try:
            record = json.loads(line)
            kind, row = _kind_and_row(record)
            judge = _text(record["judge"])
            if kind == "call":
                _text(record["digest"])
                self._calls.setdefault(row, []).append(place)
            else:
                unscored = record["verdict"]["unscored"]
                self.cells[judge].add(row, place, record["key"], unscored=unscored)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return False
        return True

    def drop_calls_of_finished(self, judges: Iterable[str]) -> None:
        """Forget the calls of rows whose cells are all there."""
        cells = [self.cells[judge] for judge in judges]
        for row in [row for row in self._calls if all(part.place(row) is not None for part in cells)]:
            del self._calls[row]

    def _record(self, place: int) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self._line(place))
        return record

    def _line(self, place: int) -> bytes:
        """Return the line that begins at a place, without its end."""
        parts = []
        while part := os.pread(self._file, 4096, place):
            line, newline, _ = part.partition(b"\n")
            parts.append(line)
            if newline:
                break
            place += len(part)
        return b"".join(parts)

    def lines(self, judges: Iterable[str], *, without_failed: bool) -> Iterator[tuple[int, bytes]]:
        """Yield what still counts, as row and line: finished cells, and calls of rows with a cell that is missing.

        Args:
            judges: All judges of the run.
            without_failed: Whether cells whose judging failed are left out, so that they count as missing.
        """
        for judge, cells in self.cells.items():
            for row in range(len(cells)):
                if without_failed and cells.has_failed(row):
                    cells.forget(row)
                    self.forget_calls(row, judge)
                elif (place := cells.place(row)) is not None:
                    yield row, self._line(place) + b"\n"
        self.drop_calls_of_finished(judges)
        for row, places in self._calls.items():
            yield from ((row, self._line(place) + b"\n") for place in places)

    def copy_cells(self, other: Journal) -> None:
        """Append all cells of another journal, as they were written."""
        for cells in other.cells.values():
            for row in range(len(cells)):
                if (place := cells.place(row)) is not None:
                    line = other._line(place) + b"\n"
                    self._index(line, self._append(line))


@lru_cache(maxsize=256)
def quoted(name: str) -> bytes:
    """Return the name of a judge as JSON, which stands in every line of a run."""
    return json.dumps(name).encode()


def is_failure(unscored: str | None) -> bool:
    """Return whether a cell has no score because judging failed, not because there was nothing to judge."""
    return unscored is not None and unscored not in NOTHING_TO_JUDGE


def _kind_and_row(record: Any) -> tuple[Literal["call", "cell"], int]:
    kind: Literal["call", "cell"] = "call" if "call" in record else "cell"
    row = record[kind]
    if type(row) is not int or not 0 <= row < _MOST_ROWS:
        raise ValueError(row)
    return kind, row


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


_fcntl: ModuleType | None
try:
    _fcntl = import_module("fcntl")
except ImportError:  # a system without it: the file alone is the lock
    _fcntl = None

_LOCK_NAME = "lock"
_ATTEMPTS = 10


@contextmanager
def locked(folder: Path) -> Iterator[str]:
    """Hold the lock of a run's folder; yields a line about the owner that died with it, or an empty text.

    The system frees the lock of a process that dies, so such a lock is taken over. The file names the owner.

    Raises:
        ConfigurationError: If another process, or another thread of this one, works on the run.
    """
    path = folder / _LOCK_NAME
    descriptor, before = _acquire(path)
    try:
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": datetime.now(UTC).isoformat()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)
        yield f"took over {folder} from {_described(before)}, which has ended without finishing" if before else ""
    finally:
        if _is_current(descriptor, path):
            path.unlink()  # while the lock is held, so that nobody else's is removed
        os.close(descriptor)


def check_unlocked(folder: Path) -> None:
    """Check that nobody works on a run.

    Raises:
        ConfigurationError: If somebody does.
    """
    try:
        descriptor = os.open(folder / _LOCK_NAME, os.O_RDWR)
    except OSError:  # there is no lock
        return
    try:
        _checked_owner(descriptor, folder / _LOCK_NAME)
    finally:
        os.close(descriptor)


def _acquire(path: Path) -> tuple[int, dict[str, object]]:
    for _ in range(_ATTEMPTS):
        descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            owner = _checked_owner(descriptor, path)
            if _is_current(descriptor, path):
                return descriptor, owner
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner has ended and removed the file meanwhile
    raise ConfigurationError(f"{path} changes hands all the time; try again")


def _checked_owner(descriptor: int, path: Path) -> dict[str, object]:
    """Return the last owner of a lock; an error if it still holds it."""
    owner = _owner(descriptor)
    if _is_free(descriptor) and (not owner or owner.get("host") == socket.gethostname()):
        return owner
    raise ConfigurationError(
        f"{path.parent} is in use by {_described(owner)}; wait until it ends, or delete {path} if you know that "
        f"it does not run any more"
    )


def _is_free(descriptor: int) -> bool:
    if _fcntl is None:
        return os.fstat(descriptor).st_size == 0
    try:
        _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _owner(descriptor: int) -> dict[str, object]:
    try:
        owner = json.loads(os.pread(descriptor, 1000, 0) or b"{}")
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _described(owner: dict[str, object]) -> str:
    if not owner:
        return "another process"
    return f"process {owner.get('pid')} on host {owner.get('host')} since {owner.get('since')}"
