"""Queries compared without a model: by their text, by their syntax tree, by the rows of an example database."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from judges.errors import ConfigurationError

Database = str | Path | Callable[[], sqlite3.Connection]
Parser = Callable[[str], Sequence[object]]

_TOKEN = re.compile(
    r"(?P<blank>\s+|--[^\n]*|/\*.*?\*/)"
    r"|(?P<quoted>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\])"
    r"|(?P<word>[\w.]+)|(?P<mark>.)",
    re.DOTALL,
)
_OTHER_QUOTING = re.compile(r"[\\$#]")
"""Signs by which some dialects escape, quote or comment: such a text is compared as it is."""

_LONGEST_PARSED = 20_000
_MOST_ROWS = 100_000
_MOST_BYTES = 1_000_000
_STEPS = 10_000
_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_NOT_THERE = re.compile(r"no such (?:column|table)")


def same_text(one: str, other: str) -> bool:
    """Tell whether two queries differ in blanks, comments and capital letters outside of quotes at most."""
    if _OTHER_QUOTING.search(one + other):
        return one.strip() == other.strip()
    return _folded(one) == _folded(other)


def _folded(query: str) -> list[str]:
    kept = [found for found in _TOKEN.finditer(query) if found.lastgroup != "blank"]
    tokens = [found[0] if found.lastgroup == "quoted" else found[0].casefold() for found in kept]
    while tokens and tokens[-1] == ";":
        tokens.pop()
    return tokens


def parser_of(dialect: str, *, judge: str) -> Parser | None:
    """Give what parses queries, or None where sqlglot is not installed.

    Raises:
        ConfigurationError: If a dialect is named, and sqlglot is not installed or does not know it.
    """
    try:
        import sqlglot  # noqa: PLC0415 - behind the extra
        from sqlglot.optimizer.normalize_identifiers import normalize_identifiers  # noqa: PLC0415
    except ModuleNotFoundError:
        if dialect:
            raise ConfigurationError(f"{judge} with a dialect needs the extra: selfrefine[sql]") from None
        return None
    try:
        sqlglot.Dialect.get_or_raise(dialect)
    except ValueError as error:
        raise ConfigurationError(f"dialect: {error}") from error

    def parsed(query: str) -> Sequence[object]:
        """Give the trees of the statements; none where there is nothing to be read."""
        if len(query) > _LONGEST_PARSED:
            return ()
        try:
            trees: list[Any] = list(sqlglot.parse(query, read=dialect))
            return tuple(normalize_identifiers(one, dialect=dialect) for one in trees if one is not None)
        except (sqlglot.errors.SqlglotError, RecursionError):
            return ()

    return parsed


@dataclass(frozen=True)
class Difference:
    """How a query differs from another on an example database: the error it makes, or the rows both give."""

    error: str = ""
    given: int = 0
    wanted: int = 0


@dataclass(frozen=True, kw_only=True)
class Fixture:
    """An SQLite database on which two queries are compared; it is only read.

    Args:
        database: The file, or what opens a connection of its own, which is closed afterwards.
        timeout_s: Seconds for each query.

    Raises:
        ConfigurationError: If there is no such file.
    """

    database: Database
    timeout_s: float = 5.0

    def __post_init__(self) -> None:
        if not callable(self.database) and not Path(self.database).is_file():
            raise ConfigurationError(
                f"database is an SQLite file or opens a connection; there is no file {str(self.database)!r}"
            )

    def difference(self, query: str, other: str) -> Difference | None:
        """Find rows that tell two queries apart; None proves nothing, and is also given where one cannot run.

        Order of rows and columns, and the ninth digit of numbers, make no difference.
        """
        try:
            with closing(self._opened()) as connection:
                wanted = _rows(connection, other, self.timeout_s)
                try:
                    given = _rows(connection, query, self.timeout_s)
                except sqlite3.Error as error:
                    return Difference(error=str(error)) if _NOT_THERE.search(str(error)) else None
        except (sqlite3.Error, sqlite3.Warning):
            return None
        if given is None or wanted is None or given == wanted:
            return None
        return Difference(given=given.total(), wanted=wanted.total())

    def _opened(self) -> sqlite3.Connection:
        if callable(self.database):
            return self.database()
        return sqlite3.connect(f"{Path(self.database).resolve().as_uri()}?mode=ro", uri=True)


def _rows(connection: sqlite3.Connection, query: str, seconds: float) -> Counter[bytes] | None:
    """Count the rows of a query by their digests; None if there are too many, or it takes too long."""
    until = monotonic() + seconds
    connection.set_authorizer(_only_reading)
    connection.set_progress_handler(lambda: monotonic() > until, _STEPS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
    found: Counter[bytes] = Counter()
    for number, row in enumerate(connection.execute(query)):
        if number >= _MOST_ROWS or monotonic() > until:
            return None
        cells = "\0".join(sorted(map(_cell, row)))
        found[hashlib.blake2b(cells.encode("utf-8", "surrogatepass"), digest_size=16).digest()] += 1
    return found


def _only_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    allowed = action in _READING and "load_extension" not in (first, second)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:.9g}"
    return "" if value is None else f"{type(value).__name__} {value!r}"
