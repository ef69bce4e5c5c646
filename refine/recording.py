"""Recording attempts as rows of a dataset, so that live traffic can be evaluated offline later."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path

from graphs import Outcome
from judges import ConfigurationError, Sample
from judges.errors import shortened
from judges.media import WITHOUT_MEDIA
from judges.runtime import losses
from refine.record.metadata import recorded_samples
from refine.record.origin import Origin
from refine.record.rows import Entry, now_ms

_log = logging.getLogger("refine")
_NO_ORIGIN = Origin()


class Record:
    """A file of JSON lines to which every attempt is appended, one sample a line.

    A new file is readable by its owner only, since it holds users' questions. Each outcome is written in one
    piece, so that threads, and processes on one machine, can share a file. The file is opened for each outcome,
    so it can be rotated; after a torn line the next row begins on a line of its own.

    Args:
        path: The file; its folder must exist.

    Raises:
        ConfigurationError: If nothing can be written there.
    """

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | os.PathLike):
            raise ConfigurationError(f"record is the path of a file, not {shortened(path)}")
        self._path = Path(path)
        if self._path.is_dir() or not self._path.parent.is_dir():
            raise ConfigurationError(f"record is a file in a folder that exists, not {shortened(str(path))}")
        self._lock = threading.Lock()

    def add(self, outcome: Outcome, origin: Origin | None = None) -> None:
        """Append the outcome's attempts, with what their `origin` says of policy and judge in the metadata.

        Nothing is raised, since an answer is worth more than its record: rows that cannot be written, on a full
        disk or in a deleted folder, are a WARNING of the logger `refine`, and are counted in `refine.losses()`.
        """
        written = bytearray()
        try:
            entry = Entry(outcome, origin or _NO_ORIGIN, now_ms())
            lines = b"".join(map(_line, recorded_samples(entry)))
            if lines:
                self._append(lines, written)
        except Exception as error:  # noqa: BLE001 - whatever raised, the answer must go out
            rows = sum(len(attempt.drafts) for attempt in outcome.attempts)
            self._lost(rows - written.lstrip(b"\n").count(b"\n"), error)

    def _append(self, lines: bytes, written: bytearray) -> None:
        """Write lines, and add to `written` what is in the file."""
        with self._lock:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(file, "ab", buffering=0) as out:
                rest = memoryview(b"\n" + lines if _is_torn(self._path) else lines)
                while rest:
                    length = out.write(rest)
                    written += rest[:length]
                    rest = rest[length:]

    def _lost(self, rows: int, error: Exception) -> None:
        losses.count("rows", rows)
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        with losses.logging_safely():
            _log.warning("%d rows could not be written to the record %s: %s", rows, self._path, reason)


def _is_torn(path: Path) -> bool:
    """Check whether a file ends within a line, as a full disk or a killed process leaves it."""
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:  # the file is empty, a pipe, or not for reading
        return False


def _line(sample: Sample) -> bytes:
    """Return a sample as a line of JSON that reads back.

    Half a surrogate pair, invalid in UTF-8, becomes its JSON escape; NaN and infinity, no JSON, become null.
    """
    fields = sample.model_dump(mode="json", exclude_defaults=True, exclude=WITHOUT_MEDIA)
    try:
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(json.loads(json.dumps(fields), parse_constant=lambda _: None), ensure_ascii=False)
    return f"{text}\n".encode(errors="backslashreplace")
