"""Files that are written whole: whoever reads one finds the older content or the newer one, never a part."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a text to a file in place of what it holds.

    A link stays a link, and what is no file, such as `/dev/null` or a pipe, is written to instead of replaced.

    Raises:
        OSError: If it cannot be written; an older file is as it was.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8", newline="\n")
        return
    draft = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        if target.exists():
            draft.chmod(target.stat().st_mode & 0o777)
        draft.replace(target)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
