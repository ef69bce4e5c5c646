"""Writing attempts down as rows of a dataset, so that today's traffic is tomorrow's offline evaluation."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from graphs import Outcome


class Record:
    """A file of JSON lines to which every attempt is appended, one sample a line.

    The file is made readable to its owner alone, since it holds what people asked. Each outcome is written in
    one piece, so that threads, and processes on one machine, can share a file.

    Args:
        path: The file; its folder must exist.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()

    def add(self, outcome: Outcome) -> None:
        """Append the outcome's attempts."""
        lines = "".join(f"{one.model_dump_json(exclude_defaults=True)}\n" for one in outcome.samples())
        if not lines:
            return
        with self._lock:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(file, "ab", buffering=0) as out:
                out.write(lines.encode())
