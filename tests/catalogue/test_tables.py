"""Tables written as CSV are compared by rows and by columns."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import ConfigurationError, Verdict, load
from judges.catalogue.parts.tables import table_in
from judges.errors import CannotJudge

SOURCE = ("id,amount,name\n1,123.45,Ann\n2,5,Bob\n", "id,amount,name\n1,123.4,Ann\n2,5,Bob\n")
ACCOUNTS = """\
acct_id,dollar_amt,name,float_fld,date_fld
10000001234,123.45,George Maharis,14530.1555,2017-01-01
10000001235,0.45,Michael Bluth,1,2017-01-01
10000001236,1345,George Bluth,,2017-01-01
10000001237,123456,Bob Loblaw,345.12,2017-01-01
10000001238,1.05,Lucille Bluth,,2017-01-01
10000001238,1.05,Loose Seal Bluth,,2017-01-01
"""
EXPECTED = """\
acct_id,dollar_amt,name,float_fld
10000001234,123.4,George Michael Bluth,14530.155
10000001235,0.45,Michael Bluth,
10000001236,1345,George Bluth,1
10000001237,123456,Robert Loblaw,345.12
10000001238,1.05,Loose Seal Bluth,111
"""
DOCUMENTED = (ACCOUNTS, EXPECTED)
REORDERED = ("id,name\n2,y\n3,z\n1,x\n", "id,name\n1,x\n2,y\n3,z\n")
EQUAL = ("id,name\n1,x\n", "id,name\n1,x\n")


def judged(tables: tuple[str, str], **settings: Any) -> Verdict:
    """Compare two tables."""
    return load("data_compy_score", **settings)(user_input="Which rows?", response=tables[0], reference=tables[1])


def scores(tables: tuple[str, str], **settings: Any) -> list[float | None]:
    """Give precision, recall and f1."""
    return [judged(tables, metric=one, **settings).score for one in ("precision", "recall", "f1")]


@pytest.mark.parametrize(
    ("tables", "mode", "compat", "corrected"),
    [
        (SOURCE, "rows", [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]),
        (SOURCE, "columns", [2 / 3] * 3, [2 / 3] * 3),
        (DOCUMENTED, "rows", [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        (DOCUMENTED, "columns", [0.2, 0.25, 2 / 9], [0.2, 0.25, 2 / 9]),
        (REORDERED, "rows", [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
        (REORDERED, "columns", [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
        (EQUAL, "rows", [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
        (EQUAL, "columns", [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]),
        (("a\n1\n2\n", "a\n1\n"), "rows", [0.5, 1.0, 2 / 3], [0.5, 1.0, 2 / 3]),
        (("a\n1\n", "a\n1\n1\n"), "rows", [1.0, 0.5, 2 / 3], [1.0, 0.5, 2 / 3]),
        (("a,b\n1,2\n", "c,d\n1,2\n"), "columns", [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
        (("姓名,城市\n张三,巴黎\n李四,伦敦\n", "姓名,城市\n张三,巴黎\n李四,罗马\n"), "rows", [0.5] * 3, [0.5] * 3),
    ],
)
def test_precision_recall_and_f1(
    tables: tuple[str, str], mode: str, compat: list[float], corrected: list[float]
) -> None:
    """Equal / those of the answer, equal / those of the reference, and their harmonic mean."""
    assert scores(tables, mode=mode, variant="compat") == pytest.approx(compat, abs=1e-12)
    assert scores(tables, mode=mode) == pytest.approx(corrected, abs=1e-12)


async def test_sync_and_async_say_the_same() -> None:
    """Without a call."""
    judge = load("DataCompyScore")
    sample = {"response": SOURCE[0], "reference": SOURCE[1]}
    for verdict in (judge(sample), await judge.acall(sample)):
        assert (verdict.score, verdict.usage.calls) == (0.5, 0)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1\n2", "1.0\n2", True),
        ("123.45\n1", "123.4\n1", False),
        ("True\nFalse", "1\n0", True),
        ("NA\n1", "\n1", True),
        ("a\n1", "A\n1", False),
        ("a\n1", " a\n1", False),
        ("1\na", "1\nb", False),
        ("1.0\na", "1\n2", False),
        (" 2\n3", "2\n3", True),
    ],
)
def test_compat_compares_as_pandas_reads(one: str, other: str, same: bool) -> None:  # noqa: FBT001
    """Columns have a type: numbers, truths, texts, and missing values that are the same."""
    given = "x,y\n" + "".join(f"{cell},0\n" for cell in one.split("\n"))
    wanted = "x,y\n" + "".join(f"{cell},0\n" for cell in other.split("\n"))
    assert (judged((given, wanted), variant="compat", mode="columns", metric="recall").score == 1) is same


@pytest.mark.parametrize(
    ("tables", "fault"),
    [
        (("not a table", "a\n1\n"), "the answer is no table: it has no rows"),
        (("a\n1\n", "none"), "the reference is no table: it has no rows"),
        (("a,b\n1,2,3\n", "a\n1\n"), "the answer is no CSV: a row has 3 cells, the header 2"),
        (("a,A\n1,2\n", "a\n1\n"), "columns stand twice: a"),
    ],
)
@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_what_is_no_table_is_unscored(variant: str, tables: tuple[str, str], fault: str) -> None:
    """NaN of the reference has a reason."""
    verdict = judged(tables, variant=variant)
    assert (verdict.unscored, verdict.detail) == ("invalid_output", fault)


@pytest.mark.parametrize("mode", ["rows", "columns"])
def test_a_table_without_rows_is_a_result(mode: str) -> None:
    """A query that finds nothing equals one that finds nothing, and no other; other columns are no equal."""
    assert judged(("a,b\n", "a,b"), mode=mode).score == 1
    assert judged(("a,b\n", "a,c\n"), mode=mode).score == {"rows": 0, "columns": 0.5}[mode]
    assert judged(("a,b\n", "a,b\n1,2\n"), mode="rows").score == 0
    assert judged(("a,b\n1,2\n", "a,b\n"), mode="rows").score == 0


@pytest.mark.parametrize(("tables", "reason"), [(("", "a\n1\n"), "no_response"), (("a\n1\n", ""), "no_reference")])
def test_nothing_to_compare_is_unscored(tables: tuple[str, str], reason: str) -> None:
    """A blank answer or reference."""
    assert judged(tables).unscored == reason


def test_rows_count_as_often_as_they_stand() -> None:
    """A row that stands twice has two partners, or one is surplus."""
    assert scores(("a\n1\n1\n2\n", "a\n2\n1\n1\n")) == [1, 1, 1]
    assert scores(("a\n1\n1\n1\n", "a\n1\n2\n3\n"), mode="rows") == pytest.approx([1 / 3] * 3)


def test_a_row_needs_all_columns_of_the_reference() -> None:
    """Corrected: a missing column makes all rows differ, a surplus one none; compat looks at what both have."""
    narrow, wide = "a\n1\n", "a,b\n1,2\n"
    assert (judged((narrow, wide)).score, judged((narrow, wide), variant="compat").score) == (0, 1)
    assert judged((wide, narrow)).score == 1


def test_columns_may_be_named_and_ordered_otherwise() -> None:
    """Capital letters, blanks and the order of columns make no difference."""
    assert judged(("Full  Name, ID\nAnn,1\n", "id,full name\n1,Ann\n")).score == 1


def test_cells_say_the_same_in_other_words() -> None:
    """Numbers are numbers, blanks around are nothing, and a missing value has many names."""
    assert judged(("a,b,c\n1.0, x ,NULL\n", "a,b,c\n1,x,\n")).score == 1
    assert judged(("a\n10000000000000000000001\n", "a\n10000000000000000000002\n")).score == 0


def test_numbers_may_differ_by_the_tolerance() -> None:
    """In rows and in columns, wherever they stand."""
    assert judged(SOURCE, tolerance=0.1).score == 1
    assert judged(SOURCE, tolerance=0.1, mode="columns").score == 1
    assert judged(SOURCE, tolerance=0.01).score == 0.5
    shuffled = ("k,v\nb,2.01\na,0.99\nc,7\n", "k,v\na,1\nb,2\nc,9\n")
    assert judged(shuffled, tolerance=0.05).score == pytest.approx(2 / 3)


def test_rows_that_differ_belong_together_by_their_key() -> None:
    """Columns are compared in rows of the same key; without one, in their order or sorted."""
    tables = ("id,a,b\n3,x,9\n1,y,8\n2,z,7\n", "id,a,b\n1,y,0\n2,z,0\n3,x,0\n")
    assert judged(tables, mode="columns", key_columns=["ID"], metric="recall").score == pytest.approx(2 / 3)
    assert judged(tables, mode="columns", metric="recall").score == pytest.approx(2 / 3)
    assert judged(tables, mode="columns", key_columns="id", metric="recall").score == pytest.approx(2 / 3)
    assert judged(("id,a\n7,x\n", "id,a\n8,x\n"), mode="columns", key_columns=["id"]).score == 0


def test_a_key_is_a_column_of_the_reference() -> None:
    """Otherwise nothing can be said."""
    verdict = judged(SOURCE, key_columns=["isbn"])
    assert (verdict.unscored, verdict.detail) == ("undefined", "the reference has no column 'isbn'")


def test_a_code_fence_is_taken_off() -> None:
    """Models put tables into one."""
    assert judged((f"```csv\n{EQUAL[0]}```", EQUAL[1])).score == 1


def test_feedback_names_rows_and_columns() -> None:
    """Missing, surplus and different columns; rows that are wrong; the keys of rows that are missing."""
    verdict = judged(("id,v,more\n1,10,x\n2,5,x\n", "id,v,city\n1,10,Rome\n2,6,Oslo\n"), key_columns=["id"])
    assert verdict.feedback.splitlines() == [
        "Columns that are missing: city.",
        "Columns that are not expected: more.",
        "Columns with wrong values: v.",
        "These rows are wrong or not expected:",
        "- 2, 5, x",
        "Expected rows that are missing or wrong: 1.",
        "- 2",
    ]
    assert verdict.rationale == "Equal rows: 0; rows of the answer: 2; expected: 2."
    assert [(one.subject, one.passed) for one in verdict.items] == [("id", True), ("v", False), ("city", False)]


def test_feedback_does_not_tell_the_missing_rows() -> None:
    """Without a key they are counted; where nothing differs nothing is said."""
    assert "Bob" not in judged(("id,name\n1,Ann\n", "id,name\n1,Ann\n2,Bob\n")).feedback
    assert judged(EQUAL).feedback == ""
    assert judged(REORDERED).feedback == ""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "row"}, "mode is 'rows' or 'columns', not 'row'"),
        ({"mode": "column"}, "mode is 'rows' or 'columns', not 'column'"),
        ({"metric": "f2"}, "metric is 'precision', 'recall' or 'f1', not 'f2'"),
        ({"tolerance": -1}, "tolerance is a number from 0"),
        ({"tolerance": float("nan")}, "tolerance is a number from 0"),
        ({"tolerance": 1, "variant": "compat"}, "knows no key_columns and no tolerance"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """One clear line at construction."""
    with pytest.raises(ConfigurationError, match=message):
        load("data_compy_score", **settings)


def test_a_megabyte_is_compared() -> None:
    """35,000 rows in another order, in well under a second."""
    rows = [f"{number},{number * 0.37:.4f},x{number % 7}" for number in range(35_000)]
    tables = ("\n".join(["a,b,c", *rows[::-1]]), "\n".join(["a,b,c", *rows]))
    assert judged(tables).score == 1
    assert judged(tables, mode="columns", tolerance=0.001).score == 1


@pytest.mark.parametrize(
    ("tolerance", "response", "reference", "score"),
    [
        (0.05, "price,qty\n1.02,3\n1.00,5", "price,qty\n1.00,3\n1.02,5", 1.0),
        (0.05, "a,b\n1.00,1.00\n1.04,1.04", "a,b\n1.04,1.00\n1.08,1.08", 1.0),
        (0.1, "a\n1.0", "a\n1.1", 1.0),
        (0.1, "a\n0.2", "a\n0.3", 1.0),
        (0.1, "a\n10000000000.0", "a\n10000000000.1", 1.0),
        (0.1, "a\n1.0", "a\n1.10000001", 0.0),
        (0.05, "a\n1.00\n1.05", "a\n1.00\n0.95", 1.0),
        (0.05, "a,b\n1.00,1\n1.05,2", "a,b\n1.00,1\n0.95,1", 0.5),
        (1, "a,b\n1,inf\n2,-inf", "a,b\n2,inf\n2,inf", 0.5),
        (0.1, "a\n1.0", "a\n1.11", 0.0),
        (0.1, "a,n\n1.0,x", "a,n\n1.05,y", 0.0),
        (0.5, f"a\n{10**400}", "a\n1.5", 0.0),
    ],
)
def test_as_many_rows_as_can_be_are_paired(tolerance: float, response: str, reference: str, score: float) -> None:
    """Each with one within the tolerance in all its numbers, whatever the order; its bound belongs to it."""
    assert load("data_compy_score", tolerance=tolerance)(response=response, reference=reference).score == score


_GRID = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6)


@given(_GRID, _GRID)
def test_no_pairing_within_the_tolerance_has_more_rows(mine: list[tuple[int, int]], theirs: Any) -> None:
    """As brute force finds it, in two columns of numbers."""
    near = [[place for place, (c, d) in enumerate(theirs) if max(abs(a - c), abs(b - d)) <= 1] for a, b in mine]

    def most(row: int, taken: frozenset[int]) -> int:
        if row == len(mine):
            return 0
        return max(
            [most(row + 1, taken), *(1 + most(row + 1, taken | {one}) for one in near[row] if one not in taken)]
        )

    tables = tuple("a,b\n" + "\n".join(f"{a / 10},{b / 10}" for a, b in rows) for rows in (mine, theirs))
    assert judged((tables[0], tables[1]), tolerance=0.1, metric="precision").score == most(0, frozenset()) / len(
        mine
    )


def test_too_many_rows_within_the_tolerance_are_unscored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pairing that is not the fullest would be a wrong score."""
    monkeypatch.setattr("judges.catalogue.parts.tables._STEPS", 1)
    assert judged(("a\n1\n2\n3", "a\n1.1\n2.1\n3.1"), tolerance=0.5).unscored == "undefined"


def test_an_equal_row_keeps_a_partner() -> None:
    """So that the advice does not call it wrong."""
    advice = judged(("a\n1.00\n1.04", "a\n1.04"), tolerance=0.05).feedback
    assert "- 1.00" in advice
    assert "1.04" not in advice


def test_many_rows_within_the_tolerance_are_paired_in_seconds() -> None:
    """Each of 3,000 rows near each other, in two columns."""
    rows = "a,b\n" + "\n".join(f"{number * 1e-9},{-number * 1e-9}" for number in range(3_000))
    assert load("data_compy_score", tolerance=1)(response=rows, reference=rows.replace("e-0", "e-1")).score == 1


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize("cut", ['a,b\n"1,2', 'a,b\n1,"x\n2,y\n3,z'])
def test_a_table_that_is_cut_off_inside_quotes_is_unscored(cut: str, variant: Any) -> None:
    """Whatever follows would be read as part of the cell."""
    verdict = load("data_compy_score", variant=variant)(response=cut, reference="a,b\n1,2")
    assert verdict.unscored == "invalid_output"
    assert "ends inside a quoted cell" in verdict.detail


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_an_empty_cell_in_quotes_is_a_row(variant: Any) -> None:
    """Other than a blank line."""
    judge = load("data_compy_score", metric="recall", variant=variant)
    assert judge(response="id\n1\n\n", reference='id\n1\n""').score == 0.5


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize("cell", ["x" * 200_000, "1" * 200_000 + "x", '"' + '""' * 200_000 + '"'])
def test_a_long_cell_is_read(variant: Any, cell: str) -> None:
    """Beyond the limit of the csv module, in no time."""
    table = f"a\n{cell}"
    assert load("data_compy_score", variant=variant)(response=table, reference=table).score == 1


@given(st.text('a", \r\n', max_size=20))
def test_cells_are_those_of_the_csv_module(text: str) -> None:
    """Quotes, doubled quotes and ends of lines; blank lines aside."""
    wide = ",".join("x" * 25)
    try:
        found = table_in(f"{wide}\n1\n{text}", called="table").rows[1:]
    except CannotJudge:
        with pytest.raises(csv.Error):
            list(csv.reader(StringIO(text, newline=""), strict=True))
        return
    wanted = [row + [""] * (25 - len(row)) for row in csv.reader(StringIO(text, newline=""))]
    assert [list(row) for row in found if "".join(row).strip()] == [row for row in wanted if "".join(row).strip()]


@pytest.mark.parametrize("keys", [5, [1], None])
def test_key_columns_are_names(keys: Any) -> None:
    """Anything else is told at once."""
    with pytest.raises(ConfigurationError, match="key_columns lists names of columns"):
        load("data_compy_score", key_columns=keys)
