"""Tables written as CSV are compared by rows and by columns."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges import Verdict, load
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


def test_a_megabyte_is_compared() -> None:
    """35,000 rows in another order, in well under a second."""
    rows = [f"{number},{number * 0.37:.4f},x{number % 7}" for number in range(35_000)]
    tables = ("\n".join(["a,b,c", *rows[::-1]]), "\n".join(["a,b,c", *rows]))
    assert judged(tables).score == 1
    assert judged(tables, mode="columns", tolerance=0.001).score == 1


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


def test_many_rows_within_the_tolerance_are_paired_in_seconds() -> None:
    """Each of 3,000 rows near each other, in two columns."""
    rows = "a,b\n" + "\n".join(f"{number * 1e-9},{-number * 1e-9}" for number in range(3_000))
    assert load("data_compy_score", tolerance=1)(response=rows, reference=rows.replace("e-0", "e-1")).score == 1


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
