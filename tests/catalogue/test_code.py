"""Code and queries in the answer: parsed, never run, compared by text, by tree, on a database, and by a model."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, Verdict, load
from judges.catalogue.ragas.sql import Fixture, _same_text
from judges.testing import ScriptedModel
from tests.kit import replying
from tests.laws import for_every

GOOD = {
    "python": "async def f(x: int) -> int:\n    return await g(x)",
    "py": "    import re\n    re.compile('\\d')",
    "json": '{"a": [1, null]}',
    "jsonl": '{"a": 1}\n\n{"a": 2}',
    "toml": 'a = 1\n[b]\nc = "d"',
    "yaml": "a: [1, 2]\n---\nb: {c: d}",
    "sql": "SELECT a FROM b WHERE c > 1",
    "postgresql": "SELECT a::int FROM b",
}
BAD = {
    "python": "def f(:\n    pass",
    "json": "{'a': 1}",
    "jsonl": '{"a": 1}\n{"a": }',
    "toml": "a = ",
    "yaml": "a: [1, 2\nb: c",
    "sql": "SELECT FROM WHERE (",
}


def fenced(language: str, text: str) -> str:
    """Write a block as an answer does."""
    return f"Here it is:\n\n```{language}\n{text}\n```\nDone."


def test_every_language_has_its_parser() -> None:
    """What is right parses, what is wrong is an item that says in which line, and in the feedback, too."""
    judge = load("code")
    for language, text in GOOD.items():
        verdict = judge(answer=fenced(language, text))
        assert (verdict.score, verdict.feedback, verdict.usage.calls) == (1, "", 0), language
    for language, text in BAD.items():
        verdict = judge(answer=fenced(language, text))
        assert (verdict.score, verdict.items[0].subject) == (0, f"1 ({language})"), language
        assert verdict.items[0].rationale in verdict.feedback
    assert "line 2" in judge(answer=fenced("jsonl", BAD["jsonl"])).feedback


def test_code_is_never_run(tmp_path: Path) -> None:
    """Neither a statement of Python nor a tag of YAML has an effect."""
    file = tmp_path / "ran"
    python = fenced("python", f"open({str(file)!r}, 'w')")
    tagged = fenced("yaml", f"!!python/object/apply:os.mkdir [{str(file)!r}]")
    assert load("code")(answer=python).score == load("code")(answer=tagged).score == 1
    assert not file.exists()


def test_what_cannot_be_checked_is_named_and_not_counted() -> None:
    """Other languages are unscored items; an answer of nothing else has no score."""
    both = fenced("python", "x = 1") + "\n" + fenced("rust", "fn main() {")
    verdict = load("code")(answer=both)
    assert (verdict.score, verdict.detail) == (1, "2 (rust) was not checked")
    assert [item.unscored for item in verdict.items] == [None, "undefined"]
    alone = load("code")(answer=fenced("", "x = 1"))
    assert alone.unscored == "undefined"
    assert "a block without a language" in alone.detail
    deep = load("code")(answer=fenced("json", "[" * 90_000))
    assert "nested too deeply" in deep.detail


def test_fences_nest_and_may_be_left_open() -> None:
    """A longer fence holds a shorter one, tildes are fences, and an open one fails."""
    nested = "````markdown\n```python\ndef (\n```\n````\n~~~json\n{}\n~~~"
    verdict = load("code")(answer=nested)
    assert [item.subject for item in verdict.items] == ["1 (markdown)", "2 (json)"]
    assert verdict.score == 1
    assert "not closed" in load("code")(answer="```python\nx = 1").feedback


def test_what_looks_like_code_and_is_none_fails() -> None:
    """A misspelt verb of SQL, NaN in JSON, and a return outside a function do not pass; a quoted block may."""
    for language, text in {"sql": "SELEC x", "json": '{"a": NaN}', "python": "return 1"}.items():
        assert load("code")(answer=fenced(language, text)).score == 0, language
    assert load("code")(answer="> ```json\n> {}\n> ```").score == 1
    assert "session" in load("code")(answer=fenced("python", ">>> 1 + 1\n2")).detail


def test_no_code_has_no_score_unless_the_answer_is_code() -> None:
    """With `unfenced` the whole answer is a block; without any the reason is said."""
    verdict = load("code")(answer="There is no code here.")
    assert (verdict.unscored, verdict.detail) == ("undefined", "there is no fenced code in the answer")
    assert load("code", unfenced="python")(answer="x = 1").score == 1
    assert load("code", unfenced="json")(answer="x = 1").score == 0
    with pytest.raises(ConfigurationError, match="unfenced names a language"):
        load("code", unfenced=" ")


SUM = "SELECT SUM(total) FROM orders"
COUNT = "SELECT COUNT(total) FROM orders"


def saying(equivalent: object, feedback: str = "Sum the totals up.") -> ScriptedModel:
    """Make a model that says whether the queries are equivalent."""
    return replying(
        lambda _: {
            "response_explanation": "It sums.",
            "reference_explanation": "It counts.",
            "equivalent": equivalent,
            "feedback": feedback,
        }
    )


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Make an example database."""
    file = tmp_path / "shop #1.db"
    with sqlite3.connect(file) as connection:
        connection.executescript(
            "CREATE TABLE customers(id INTEGER, name TEXT); CREATE TABLE orders(id INTEGER, customer_id INTEGER, "
            "total REAL); INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob');"
            "INSERT INTO orders VALUES (1, 1, 10), (2, 1, 20.1), (3, 1, 0.2);"
        )
    connection.close()
    return file


@for_every(
    "one, other, same",
    [
        ("SELECT a FROM t WHERE b = 'X'", "select A from T where B='X'", True),
        ("SELECT a FROM t WHERE b = 'X'", "SELECT a FROM t WHERE b = 'x'", False),
        ("SELECT a FROM t WHERE b = 'x  y'", "SELECT a FROM t WHERE b = 'x y'", False),
        ('SELECT "A" FROM t', 'SELECT "a" FROM t', False),
        ("SELECT 'it''s -- no' FROM t", "SELECT 'it''s' FROM t", False),
        (r"SELECT 'a\' -- x'", r"SELECT 'a\' -- y'", False),
        ("SELECT $$A$$", "SELECT $$a$$", False),
        ("SELECT ab FROM t", "SELECT a b FROM t", False),
        ("SELECT 1", "SELECT 1;;", True),
        ("SELECT a FROM t WHERE b='it''s'", "select a from t where b = 'it''s'", True),
        ("SELECT [A b] FROM t -- it's\nWHERE a<=1", "SELECT [A b] FROM T WHERE a <= 1", True),
        ("SELECT a < = b", "SELECT a <= b", False),
        ("SELECT N'x'", "SELECT N 'x'", False),
        ("SELECT ARRAY['it]', 'A']", "SELECT ARRAY['it]', 'a']", False),
        ("SELECT 1 // 2\n, 3", "SELECT 1 // 2 , 3", False),
        ("SELECT /* /* */ A */", "SELECT /* /* */ a */", False),
        ("SELECT data:Name", "SELECT data:name", False),
        ("SELECT STRASSE, ſ", "SELECT strasse, s", False),
        ("-- nothing", "-- to be read", False),
    ],
)
def test_texts_are_compared_outside_of_quotes(one: str, other: str, same: bool) -> None:  # noqa: FBT001
    """What is quoted counts to the letter, also where a dialect quotes in ways of its own."""
    assert _same_text(one, other) is same


def test_syntax_trees_are_compared() -> None:
    """What parses to the same tree is equivalent; what does not parse is left to the model."""
    judge = load("sql_equivalence", model=saying(equivalent=False), dialect="postgres")
    assert judge(response="SELECT o.id FROM orders o", reference="select O.id from Orders AS o").usage.calls == 0
    for broken in ("SELECT ((((", "(" * 3000 + "1" + ")" * 3000, "SELECT 1 " + "+ 1" * 30_000):
        assert judge(response=broken, reference=COUNT).usage.calls == 1


def test_a_dialect_is_known_to_sqlglot(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs the extra; without a dialect the texts alone are compared."""
    model = saying(equivalent=False)
    sample = {"response": "SELECT `a` AS b FROM t", "reference": "SELECT `a` b FROM t"}
    assert load("sql_equivalence", model=model, dialect="mysql")(sample).usage.calls == 0
    with pytest.raises(ConfigurationError, match="dialect: Unknown dialect 'basic'"):
        load("sql_equivalence", model=model, dialect="basic")
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(ConfigurationError, match=r"needs the extra: selfrefine\[sql\]"):
        load("sql_equivalence", model=model, dialect="mysql")
    assert load("sql_equivalence", model=model)(sample).usage.calls == 1


async def test_rows_that_differ_decide(database: Path) -> None:
    """A counterexample needs no model; the feedback tells the numbers of rows. Sync and async."""
    judge = load("sql_equivalence", model=saying(equivalent=True), database=database)
    sample = {
        "response": "SELECT c.name FROM customers c JOIN orders o ON o.customer_id = c.id",
        "reference": "SELECT DISTINCT c.name FROM customers c JOIN orders o ON o.customer_id = c.id",
    }
    for verdict in (judge(sample), await judge.acall(sample)):
        assert (verdict.score, verdict.usage.calls) == (0, 0)
        assert verdict.feedback.endswith("other rows than expected (3 rows; 1 expected).")


def outcome(database: Path, response: str, reference: str, **settings: Any) -> Verdict:
    """Judge on the example database, with a model that finds everything equivalent."""
    return load("sql_equivalence", model=saying(equivalent=True), database=database, **settings)(
        response=response, reference=reference
    )


@for_every(
    "response, reference",
    [
        ("SELECT id FROM orders WHERE total > 1", "SELECT id FROM orders WHERE total >= 10"),
        ("SELECT 1 + id, total FROM orders", "SELECT total, id + 1 FROM orders ORDER BY id"),
        ("SELECT 0.1 + 0.2", "SELECT 0.3"),
        ("DELETE FROM orders", "SELECT id FROM orders"),
        ("SELECT id FROM orders; SELECT 1", "SELECT id FROM orders"),
        ("SELECT nofunction(id) FROM orders", "SELECT id FROM orders"),
        ("ATTACH ':memory:' AS x", "SELECT id FROM orders"),
        ("SELECT id FROM orders", "SELECT nothing FROM orders"),
    ],
)
def test_what_proves_nothing_is_left_to_the_model(database: Path, response: str, reference: str) -> None:
    """The same rows, another order, a query that cannot run, one that would write."""
    verdict = outcome(database, response, reference)
    assert (verdict.score, verdict.usage.calls) == (1, 1)


def test_a_column_that_is_not_there_decides(database: Path) -> None:
    """The error is told."""
    verdict = outcome(database, "SELECT price FROM orders", "SELECT total FROM orders")
    assert (verdict.score, verdict.usage.calls) == (0, 0)
    assert verdict.feedback == "The query cannot run on the example database: no such column: price"


def test_the_database_is_only_read(database: Path) -> None:
    """No statement changes it, nor a connection that could write."""
    for query in (
        "DELETE FROM orders",
        "DROP TABLE orders",
        "INSERT INTO orders VALUES (9, 9, 9)",
        "PRAGMA user_version = 3",
    ):
        fixture = Fixture(database=lambda: sqlite3.connect(database))
        assert fixture.difference(query, "SELECT 1") is None
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT count(*), sum(id) FROM orders").fetchone() == (3, 6)
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    connection.close()


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"


@for_every("what", ["max(i)", "i", "zeroblob(900000)"])
def test_a_query_without_an_end_is_stopped(database: Path, what: str) -> None:
    """After the time, or the rows, it may take."""
    verdict = outcome(database, ENDLESS.format(what), "SELECT 1", timeout_s=0.05)
    assert verdict.usage.calls == 1


def test_a_connection_may_be_made_by_a_function(database: Path) -> None:
    """It is opened for one comparison, and closed."""
    opened: list[sqlite3.Connection] = []

    def opening() -> sqlite3.Connection:
        opened.append(sqlite3.connect(database))
        return opened[-1]

    made: Callable[[], sqlite3.Connection] = opening
    judge = load("sql_equivalence", model=saying(equivalent=True), database=made)
    assert judge(response=SUM, reference=COUNT).score == 0
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened[0].execute("SELECT 1")


@for_every("opening", ["/* ", "[", "'", '"', "`", "-- ", "''", "$$", "x "])
def test_a_megabyte_is_compared_in_no_time(opening: str) -> None:
    """What is opened and never closed is not looked for again and again."""
    assert not _same_text(opening * (1_000_000 // len(opening)), "x")
