"""The files of a run: readable by their owner alone, never outside of the run's folder, replaced whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from judges.errors import ConfigurationError

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
