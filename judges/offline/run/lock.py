"""The lock of a run's folder: one process at a time works on a run."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType

from judges.errors import ConfigurationError
from judges.offline.run.files import open_private

fcntl: ModuleType | None
try:
    fcntl = import_module("fcntl")
except ImportError:  # a system without it: the file alone is the lock
    fcntl = None

NAME = "lock"
_ATTEMPTS = 10


@contextmanager
def locked(folder: Path) -> Iterator[str]:
    """Hold the lock of a run's folder; yields a line about the owner that died with it, or an empty text.

    The system frees the lock of a process that dies, so such a lock is taken over. The file names the owner.

    Raises:
        ConfigurationError: If another process, or another thread of this one, works on the run.
    """
    path = folder / NAME
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
        descriptor = os.open(folder / NAME, os.O_RDWR)
    except OSError:  # there is no lock
        return
    try:
        _checked_owner(descriptor, folder / NAME)
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
    if _is_free(descriptor) and _may_be_taken(owner):
        return owner
    raise ConfigurationError(
        f"{path.parent} is in use by {_described(owner)}; wait until it ends, or delete {path} if you know that "
        f"it does not run any more"
    )


def _is_free(descriptor: int) -> bool:
    if fcntl is None:
        return os.fstat(descriptor).st_size == 0
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _may_be_taken(owner: dict[str, object]) -> bool:
    """Whether the owner is gone: a lock of another host may be held although it is free here."""
    return not owner or owner.get("host") == socket.gethostname()


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
