"""The file in which labels are kept: appended to, and on the disk before the next answer is shown."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from judges.errors import ConfigurationError
from judges.offline.trust.label import Label, LabelItem
from judges.offline.trust.rows import JudgedAnswer, read_labels

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
