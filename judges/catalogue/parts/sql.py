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

from judges.errors import ConfigurationError, one_line

Database = str | Path | Callable[[], sqlite3.Connection]
_Parser = Callable[[str], Sequence[object]]

_TOKEN = re.compile(
    r"(?P<blank>[ \t\r\n]+|--(?=[ \t\r\n]|\Z)[^\r\n]*(?=\r?\n|\Z)|/\*(?!\w?[!+])(?:(?!/\*).)*?\*/)"
    r"|(?P<quoted>(?<![\w'\"`])"
    r"(?:'(?!'')(?:[^'\\]|'')*+'|\"(?!\"\")(?:[^\"\\]|\"\")*+\"|`[^`\\]*+`|\[[^\]\['\"`\\]*+\]))"
    r"|(?P<word>[\w.]+)"
    r"|(?P<mark>[(),;]|::|(?:[<>=!+*%|&^~]|-(?!-)|/(?![/*]))+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
"""Tokens of all dialects; `other` is the rest: `5--1`, `/*! */`, `$`, `@`, `#`, a backslash, an open quote."""

_PERHAPS_CODE = re.compile(r"--(?![ \t\r\n]|\Z)|/\*M?!")
"""Text that MySQL executes but sqlglot takes for a comment."""

_LONGEST_PARSED = 20_000
_MOST_ROWS = 100_000
_MOST_BYTES = 1_000_000
_STEPS = 10_000
_READING = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_NOT_THERE = re.compile(r"no such (?:column|table)")


def same_text(a: str, b: str) -> bool:
    """Whether two queries of standard SQL differ at most in blanks, comments and capital letters.

    Quoted text must be identical, and so must queries that dialects interpret differently.
    """
    if a.strip() == b.strip():
        return True
    tokens = _tokens(a)
    return bool(tokens) and tokens == _tokens(b)


def _tokens(query: str) -> list[str]:
    """Return the significant tokens of a query; none if dialects interpret it differently."""
    tokens = []
    for match in _TOKEN.finditer(query):
        if match.lastgroup == "other":
            return []
        if match.lastgroup != "blank":
            folds = match.lastgroup == "word" and match[0].isascii()
            tokens.append(match[0].lower() if folds else match[0])
    while tokens and tokens[-1] == ";":
        tokens.pop()
    return tokens


def parser_of(dialect: str, *, judge: str) -> _Parser | None:
    """Return a parser for the queries of a dialect, or None without a dialect: no tree is right in all of them.

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
        rules = sqlglot.Dialect.get_or_raise(dialect)
    except ValueError as error:
        raise ConfigurationError(f"dialect: {one_line(error)}") from error

    def parse(query: str) -> Sequence[object]:
        """Return the trees of the statements; none if the query is empty, or may be misread."""
        if len(query) > _LONGEST_PARSED or _PERHAPS_CODE.search(query):
            return ()
        try:
            return tuple(_exact_tree(tree, rules) for tree in sqlglot.parse(query, read=rules) if tree is not None)
        except (sqlglot.errors.SqlglotError, RecursionError):
            return ()

    return parse


def _exact_tree(tree: Any, dialect: Any) -> tuple[object, str]:
    """Return a tree and its text, as trees are equal even if constants such as `x'A1'` differ in capitals.

    Quoted names are not normalised: in SQLite they may be strings.
    """
    import sqlglot  # noqa: PLC0415 - behind the extra

    for name in tree.find_all(sqlglot.exp.Identifier):
        if not name.quoted:
            dialect.normalize_identifier(name)
    return tree, tree.sql(dialect=dialect, comments=False, unsupported_level=sqlglot.ErrorLevel.RAISE)


@dataclass(frozen=True)
class Difference:
    """How a query differs from the expected one on an example database.

    Args:
        error: The error that the query raises, or blank.
        rows: Number of rows it returns.
        expected_rows: Number of rows the expected query returns.
    """

    error: str = ""
    rows: int = 0
    expected_rows: int = 0


@dataclass(frozen=True, kw_only=True)
class Fixture:
    """An SQLite database on which two queries are compared; it is only read.

    Args:
        database: The file, or a function that opens a new connection, which is closed afterwards.
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
        """Return how the results of two queries differ; None proves nothing: a query may be unable to run.

        The order of rows and columns, and digits of numbers after the ninth, make no difference.
        """
        try:
            with closing(self._connect()) as connection:
                expected = _rows(connection, other, self.timeout_s)
                try:
                    actual = _rows(connection, query, self.timeout_s)
                except sqlite3.Error as error:
                    return Difference(error=str(error)) if _NOT_THERE.search(str(error)) else None
        except (sqlite3.Error, sqlite3.Warning):
            return None
        if actual is None or expected is None or actual == expected:
            return None
        return Difference(rows=actual.total(), expected_rows=expected.total())

    def _connect(self) -> sqlite3.Connection:
        if callable(self.database):
            return self.database()
        return sqlite3.connect(f"{Path(self.database).resolve().as_uri()}?mode=ro", uri=True)


def _rows(connection: sqlite3.Connection, query: str, seconds: float) -> Counter[bytes] | None:
    """Return the rows of a query, counted by their digests; None if there are too many, or it takes too long."""
    deadline = monotonic() + seconds
    connection.set_authorizer(_only_reading)
    connection.set_progress_handler(lambda: monotonic() > deadline, _STEPS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_BYTES)
    digests: Counter[bytes] = Counter()
    for number, row in enumerate(connection.execute(query)):
        if number >= _MOST_ROWS or monotonic() > deadline:
            return None
        cells = "\0".join(sorted(map(_cell, row)))
        digests[hashlib.blake2b(cells.encode("utf-8", "surrogatepass"), digest_size=16).digest()] += 1
    return digests


def _only_reading(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    allowed = action in _READING and "load_extension" not in (first, second)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:.9g}"
    return "" if value is None else f"{type(value).__name__} {value!r}"
