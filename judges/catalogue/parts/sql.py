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
    r"(?P<blank>[ \t\r\n]+|--(?=[ \t\r\n]|\Z)[^\r\n]*(?=\r?\n|\Z)|/\*(?!\w?[!+])(?:(?!/\*).)*?\*/)"
    r"|(?P<quoted>(?<![\w'\"`])"
    r"(?:'(?!'')(?:[^'\\]|'')*+'|\"(?!\"\")(?:[^\"\\]|\"\")*+\"|`[^`\\]*+`|\[[^\]\['\"`\\]*+\]))"
    r"|(?P<word>[\w.]+)"
    r"|(?P<mark>[(),;]|::|(?:[<>=!+*%|&^~]|-(?!-)|/(?![/*]))+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
"""What all dialects read alike; other is all else: `5--1`, `/*! */`, `$`, `@`, `#`, a backslash, an open quote."""

_PERHAPS_CODE = re.compile(r"--(?![ \t\r\n]|\Z)|/\*M?!")
"""What MySQL carries out and sqlglot takes for a comment."""

_LONGEST_PARSED = 20_000
_MOST_ROWS = 100_000
_MOST_BYTES = 1_000_000
_STEPS = 10_000
_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_NOT_THERE = re.compile(r"no such (?:column|table)")


def same_text(one: str, other: str) -> bool:
    """Tell whether two queries of standard SQL differ in blanks, comments and capital letters at most.

    What is quoted counts to the letter, and so does a text that dialects read in different ways.
    """
    if one.strip() == other.strip():
        return True
    tokens = _tokens(one)
    return bool(tokens) and tokens == _tokens(other)


def _tokens(query: str) -> list[str]:
    """Give what counts in a query; nothing where dialects read it in different ways."""
    tokens = []
    for found in _TOKEN.finditer(query):
        if found.lastgroup == "other":
            return []
        if found.lastgroup != "blank":
            folds = found.lastgroup == "word" and found[0].isascii()
            tokens.append(found[0].lower() if folds else found[0])
    while tokens and tokens[-1] == ";":
        tokens.pop()
    return tokens


def parser_of(dialect: str, *, judge: str) -> Parser | None:
    """Give what parses the queries of a dialect, or None where none is named: no tree is right in all of them.

    Raises:
        ConfigurationError: If sqlglot is not installed or does not know the dialect.
    """
    if not dialect:
        return None
    try:
        import sqlglot  # noqa: PLC0415 - behind the extra
    except ModuleNotFoundError:
        raise ConfigurationError(f"{judge} with a dialect needs the extra: selfrefine[sql]") from None
    try:
        known = sqlglot.Dialect.get_or_raise(dialect)
    except ValueError as error:
        raise ConfigurationError(f"dialect: {error}") from error

    def parsed(query: str) -> Sequence[object]:
        """Give the trees of the statements; none where there is nothing to be read, or it may be misread."""
        if len(query) > _LONGEST_PARSED or _PERHAPS_CODE.search(query):
            return ()
        try:
            return tuple(_exact(tree, known) for tree in sqlglot.parse(query, read=known) if tree is not None)
        except (sqlglot.errors.SqlglotError, RecursionError):
            return ()

    return parsed


def _exact(tree: Any, dialect: Any) -> tuple[object, str]:
    """Give a tree and its text: trees alone are equal although constants such as `x'A1'` differ in capitals.

    Names in quotes stay as they are: in SQLite they may be strings.
    """
    import sqlglot  # noqa: PLC0415 - behind the extra

    for name in tree.find_all(sqlglot.exp.Identifier):
        if not name.quoted:
            dialect.normalize_identifier(name)
    return tree, tree.sql(dialect=dialect, comments=False, unsupported_level=sqlglot.ErrorLevel.RAISE)


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
