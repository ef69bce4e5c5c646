"""Recording attempts as rows of a dataset, so that live traffic can be evaluated offline later."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from graphs import Outcome
from judges import ConfigurationError, Sample
from judges.errors import shortened


class Record:
    """A file of JSON lines to which every attempt is appended, one sample a line.

    A new file is readable by its owner only, since it holds users' questions. Each outcome is written in one
    piece, so that threads, and processes on one machine, can share a file.

    Args:
        path: The file; its folder must exist.

    Raises:
        ConfigurationError: If nothing can be written there.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        if self._path.is_dir() or not self._path.parent.is_dir():
            raise ConfigurationError(f"record is a file in a folder that exists, not {shortened(str(path))}")
        self._lock = threading.Lock()

    def add(self, outcome: Outcome) -> None:
        """Append the outcome's attempts."""
        lines = b"".join(map(_line, outcome.samples()))
        if not lines:
            return
        with self._lock:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(file, "ab", buffering=0) as out:
                written = 0
                while written < len(lines):
                    written += out.write(lines[written:])


def _line(sample: Sample) -> bytes:
    """Return a sample as a line of JSON; half a surrogate pair, invalid in UTF-8, becomes its JSON escape."""
    fields = sample.model_dump(mode="json", exclude_defaults=True)
    return f"{json.dumps(fields, ensure_ascii=False)}\n".encode(errors="backslashreplace")
