"""Recorded attempts on the command line: a file of rows, the folder of a run, or a database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from refine.cli.loop_source import is_database, open_database


def recorded(source: str) -> tuple[str | list[dict[str, Any]], Path | None]:
    """Return rows, or where they are, and the file beside which a ledger may stand.

    Raises:
        ConfigurationError: If a database is meant, and there is none, or the extra `record` is not installed.
    """
    if not is_database(source):
        return source, None
    with open_database(source) as record:
        return list(record.attempts()), record.file


def ledger_beside(file: Path | None, chosen: Path | None) -> Path | None:
    """Return the ledger to use: the chosen one, or one beside a database in a file."""
    return chosen if chosen is not None or file is None else file.with_name(f"{file.name}.ledger")
