"""Queries and tables after ragas: whether two queries are equivalent, and how far two tables agree."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Literal, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import ComputedMetric, MetricSettings, ModelJudge, ModelSettings
from judges.catalogue.parts.claims import bullets, cut
from judges.catalogue.parts.fields import answer_in, reference_in
from judges.catalogue.parts.tables import TableComparison, by_position, by_value, table_in, unpaired_rows
from judges.catalogue.parts.text import f_score, strip_fence
from judges.errors import ConfigurationError, one_line, unfit
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Apply, Deliberation
from judges.sample import Sample
from judges.settings import other_word
from judges.verdict import Verdict

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


def _same_text(a: str, b: str) -> bool:
    """Return whether two queries of standard SQL differ at most in blanks, comments and capital letters.

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


def _parser_of(dialect: str, *, judge: str) -> _Parser | None:
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
class _Difference:
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

    def difference(self, query: str, other: str) -> _Difference | None:
        """Return how the results of two queries differ; None proves nothing: a query may be unable to run.

        The order of rows and columns, and digits of numbers after the ninth, make no difference.
        """
        try:
            with closing(self._connect()) as connection:
                expected = _rows(connection, other, self.timeout_s)
                try:
                    actual = _rows(connection, query, self.timeout_s)
                except sqlite3.Error as error:
                    return _Difference(error=str(error)) if _NOT_THERE.search(str(error)) else None
        except (sqlite3.Error, sqlite3.Warning):
            return None
        if actual is None or expected is None or actual == expected:
            return None
        return _Difference(rows=actual.total(), expected_rows=expected.total())

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


class _QueryEquivalence(ReplySchema, wire_name="Equivalence"):
    """Whether two queries are equivalent."""

    response_explanation: str = Field(description="text: what the query given as response returns")
    reference_explanation: str = Field(description="text: what the query given as reference returns")
    equivalent: bool = Field(description="true or false: whether they return the same rows on every database")
    feedback: str = Field(description="text: what to change in the response; empty if nothing")


_EQUIVALENCE: Question[_QueryEquivalence] = Question(prompt="sql_equivalence", reply=_QueryEquivalence)


class LLMSQLEquivalence(ModelJudge, entry="ragas.llm_sql_equivalence", pack="sql_equivalence"):
    """Judge whether the answer is a query that is equivalent to the reference, given the schema if there is one.

    Queries that are certainly the same are equivalent, which costs no call: with a dialect, those with the same
    syntax tree; else, those with the same text, ignoring blanks, comments and letter case outside of quotes. On an
    example database, rows that differ decide too; equal rows prove nothing, and the model is asked. With
    `variant="compat"` the model alone decides.

    The schema is `reference_contexts`, joined; it may be missing.

    Raises:
        ConfigurationError: If a setting is out of its range, or the extra is not installed.
    """

    def __init__(
        self,
        model: object = None,
        *,
        dialect: str = "",
        database: Database | None = None,
        timeout_s: float = 5.0,
        **settings: Unpack[ModelSettings],
    ) -> None:
        super().__init__(model, questions=(_EQUIVALENCE,), **settings)
        self._fixture = None if database is None else Fixture(database=database, timeout_s=timeout_s)
        self._parse = None if self.compat else _parser_of(dialect, judge=self.name)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Compare the texts, then the rows, then ask."""
        response, reference = (strip_fence(text).strip() for text in (answer_in(sample), reference_in(sample)))
        if not self.compat and self._same(response, reference):
            return self._verdict(rationale="the queries are the same", equivalent=True)
        if not self.compat and self._fixture is not None:
            fixture = self._fixture
            difference = yield Apply(lambda _: fixture.difference(response, reference), sample)
            if isinstance(difference, _Difference):
                explanation = self._explain(sample, difference)
                return self._verdict(rationale=explanation, feedback=explanation, equivalent=False)
        reply = yield from self.ask(_EQUIVALENCE, sample, _data(sample, response, reference))
        reasons = f"{reply.response_explanation}\n{reply.reference_explanation}"
        feedback = "" if reply.equivalent else reply.feedback
        return self._verdict(rationale=reasons, feedback=feedback, equivalent=reply.equivalent)

    def _verdict(self, *, equivalent: bool, rationale: str, feedback: str = "") -> Verdict:
        return Verdict.checked(equivalent, rationale=rationale, feedback=feedback)

    def _same(self, response: str, reference: str) -> bool:
        """Check whether the queries are certainly the same; a wrong yes costs more than a call."""
        if response == reference:
            return True
        if self._parse is None:
            return _same_text(response, reference)
        trees = self._parse(response)
        return bool(trees) and trees == self._parse(reference)

    def _explain(self, sample: Sample, difference: _Difference) -> str:
        if difference.error:
            return self.say("fails", sample, error=difference.error)
        return self.say("rows", sample, given=difference.rows, wanted=difference.expected_rows)


def _data(sample: Sample, response: str, reference: str) -> dict[str, JsonValue]:
    schema = "\n".join(sample.reference_contexts or ()).strip()
    return {**({"schema": schema} if schema else {}), "response": response, "reference": reference}


_TableMode = Literal["rows", "columns"]
_Measure = Literal["precision", "recall", "f1"]


class DataCompyScore(ComputedMetric, entry="ragas.data_compy_score", pack="data_compy"):
    """Judge what share of the rows, or of the columns, of two tables written as CSV is equal.

    Precision = equal / those of the answer; recall = equal / those of the reference; f1 = their harmonic mean.

    Rows are equal if they have the same values in all columns of the reference, at any position; a column is equal
    if it has the same values in all paired rows: equal rows are paired first, then those with the same key, or
    without a key, the others in their order or sorted, whichever fits better.

    With `variant="compat"` it is the number of ragas with datacompy: rows are paired by position, and the columns
    that both tables have are compared.

    Raises:
        ConfigurationError: If a setting is unknown or out of its range.
    """

    def __init__(
        self,
        *,
        mode: _TableMode = "rows",
        metric: _Measure = "f1",
        key_columns: Collection[str] = (),
        tolerance: float = 0.0,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        if self.compat and (key_columns or tolerance):
            raise ConfigurationError("variant='compat' knows no key_columns and no tolerance; leave them out")
        keys = (key_columns,) if isinstance(key_columns, str) else key_columns
        if not hasattr(keys, "__iter__") or not all(isinstance(one, str) for one in keys):
            raise unfit("key_columns lists names of columns", key_columns)
        self._mode, self._metric, self._tolerance = other_word("mode", mode), metric, tolerance
        self._keys = tuple(keys)

    def compute(self, sample: Sample) -> Verdict:
        """Read both tables and compare them."""
        answer, reference = (
            table_in(strip_fence(text).lstrip("\ufeff"), called=called)
            for text, called in ((answer_in(sample), "answer"), (reference_in(sample), "reference"))
        )
        comparison = (
            by_position(answer, reference)
            if self.compat
            else by_value(answer, reference, keys=self._keys, tolerance=self._tolerance)
        )
        if self._mode == "columns":
            equal = len(comparison.columns) - len(comparison.different)
            counts = equal, len(answer.columns), len(reference.columns)
        else:
            counts = self._equal_rows(comparison), len(answer.rows), len(reference.rows)
            if not any(counts) and not comparison.missing_columns:  # the same columns, and no rows in either
                counts = 1, 1, 1
        rationale = self.say(self._mode, sample, equal=counts[0], given=counts[1], wanted=counts[2])
        return self.verdict(
            self._score(*counts),
            rationale=rationale,
            feedback=self._advice(sample, comparison),
            items=_items(comparison),
        )

    def _score(self, equal: int, in_answer: int, in_reference: int) -> float:
        precision, recall = equal / max(in_answer, 1), equal / max(in_reference, 1)
        if self._metric == "f1":
            return f_score(precision, recall)
        return precision if self._metric == "precision" else recall

    def _equal_rows(self, comparison: TableComparison) -> int:
        return 0 if comparison.missing_columns and not self.compat else len(comparison.pairs)

    def _advice(self, sample: Sample, comparison: TableComparison) -> str:
        """Return feedback that names columns, rows of the answer without an equal, and keys of missing rows."""
        left, right = unpaired_rows(comparison.pairs, len(comparison.actual.rows), len(comparison.expected.rows))
        columns_of = {
            "missing_columns": comparison.missing_columns,
            "surplus_columns": comparison.surplus_columns,
            "different_columns": comparison.different,
        }
        lines = [
            self.say(name, sample, columns=cut(", ".join(columns), most=600))
            for name, columns in columns_of.items()
            if columns
        ]
        if left:
            rows = bullets(", ".join(comparison.actual.rows[place]) for place in left)
            lines.append(self.say("surplus_rows", sample, rows=rows))
        if right:
            keys = "\n" + bullets(", ".join(comparison.key(n)) for n in right) if comparison.keys else ""
            lines.append(self.say("missing_rows", sample, count=len(right), keys=keys))
        return "\n".join(lines)


def _items(comparison: TableComparison) -> tuple[Verdict, ...]:
    """Return a verdict on each column of the reference."""
    equal = set(comparison.columns) - set(comparison.different)
    return tuple(Verdict.checked(one in equal, subject=one) for one in comparison.expected.columns)
