"""Tables compared: how many rows or columns of an answer written as CSV are those of the reference."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Literal, Unpack

from judges.catalogue.metric import Measured, MetricSettings
from judges.catalogue.parts.csv_tables import table_in
from judges.catalogue.parts.f_score import f_score
from judges.catalogue.parts.items import bullets
from judges.catalogue.parts.needed import answer_in, reference_in
from judges.catalogue.parts.table_rows import unpaired
from judges.catalogue.parts.tables import TableComparison, by_position, by_value
from judges.catalogue.parts.text import unfenced
from judges.entry import Entry
from judges.errors import ConfigurationError
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict

TableMode = Literal["rows", "columns"]
Measure = Literal["precision", "recall", "f1"]


class DataCompyScore(Measured):
    """Judge what share of the rows, or of the columns, of two tables written as CSV is equal.

    Precision = equal / those of the answer; recall = equal / those of the reference; f1 = their harmonic mean.

    Rows are equal if they have the same values in all columns of the reference, wherever they stand; a column is
    equal if it has the same values in all rows that belong together: equal rows first, then those with the same
    key, or where there is none, the others in their order or sorted, whichever fits better.

    With `variant="compat"` it is the number of ragas with datacompy: rows belong together by their position, and
    the columns that both have are compared.

    Args:
        mode: `"rows"` or `"columns"`.
        metric: `"precision"`, `"recall"` or `"f1"`.
        key_columns: Columns by which rows belong together; not with `variant="compat"`.
        tolerance: By how much numbers may differ. Where too many rows are within it of one another to find who
            belongs to whom, the verdict is unscored, `undefined`.
        settings: See `judges.catalogue.metric.MetricSettings`.

    Raises:
        ConfigurationError: If a setting is unknown or out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.data_compy_score",
        aliases=("DataCompyScore", "data_compy_score", "data_compare_score", "ragas.data_compare_score"),
        asks="What share of the rows or columns of the answer's table is that of the expected table?",
        needs=("response", "reference"),
        source="ragas 0.4; datacompy",
        differs="Rows count wherever they stand, and must have all columns of the reference; names of columns "
        "without regard to capital letters and blanks; nothing equal is 0, also for f1.",
    )
    pack = "data_compy"

    def __init__(
        self,
        *,
        mode: TableMode = "rows",
        metric: Measure = "f1",
        key_columns: Collection[str] = (),
        tolerance: float = 0.0,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        one_of(TableMode, mode, setting="mode")
        one_of(Measure, metric, setting="metric")
        if type(tolerance) not in (int, float) or not 0 <= tolerance < float("inf"):
            raise ConfigurationError(f"tolerance is a number from 0, not {tolerance!r}")
        if self.compat and (key_columns or tolerance):
            raise ConfigurationError("variant='compat' knows no key_columns and no tolerance; leave them out")
        keys = (key_columns,) if isinstance(key_columns, str) else key_columns
        if not hasattr(keys, "__iter__") or not all(isinstance(one, str) for one in keys):
            raise ConfigurationError(f"key_columns lists names of columns, not {key_columns!r}")
        self._mode, self._metric, self._tolerance = mode, metric, tolerance
        self._keys = tuple(keys)

    def measured(self, sample: Sample) -> Verdict:
        """Read both tables and compare them."""
        given, wanted = (
            table_in(unfenced(text).lstrip("\ufeff"), called=called)
            for text, called in ((answer_in(sample), "answer"), (reference_in(sample), "reference"))
        )
        found = (
            by_position(given, wanted)
            if self.compat
            else by_value(given, wanted, keys=self._keys, tolerance=self._tolerance)
        )
        if self._mode == "columns":
            equal = len(found.columns) - len(found.different)
            counts = equal, len(given.columns), len(wanted.columns)
        else:
            counts = self._equal_rows(found), len(given.rows), len(wanted.rows)
        told = self.say(self._mode, sample, equal=counts[0], given=counts[1], wanted=counts[2])
        return self.verdict(
            self._score(*counts), rationale=told, feedback=self._advice(sample, found), items=_items(found)
        )

    def _score(self, equal: int, given: int, wanted: int) -> float:
        precision, recall = equal / given, equal / wanted
        if self._metric == "f1":
            return f_score(precision, recall)
        return precision if self._metric == "precision" else recall

    def _equal_rows(self, found: TableComparison) -> int:
        return 0 if found.missing_columns and not self.compat else len(found.pairs)

    def _advice(self, sample: Sample, found: TableComparison) -> str:
        """Name columns, the answer's own rows that have no equal, and the keys of missing ones."""
        left, right = unpaired(found.pairs, len(found.given.rows), len(found.wanted.rows))
        named = {
            "missing_columns": found.missing_columns,
            "surplus_columns": found.surplus_columns,
            "different_columns": found.different,
        }
        told = [self.say(name, sample, columns=", ".join(columns)) for name, columns in named.items() if columns]
        if left:
            rows = bullets(", ".join(found.given.rows[place]) for place in left)
            told.append(self.say("surplus_rows", sample, rows=rows))
        if right:
            keys = "\n" + bullets(", ".join(found.key(n)) for n in right) if found.keys else ""
            told.append(self.say("missing_rows", sample, count=len(right), keys=keys))
        return "\n".join(told)


def _items(found: TableComparison) -> tuple[Verdict, ...]:
    """Give a verdict on each column of the reference."""
    equal = set(found.columns) - set(found.different)
    return tuple(Verdict.checked(one in equal, subject=one) for one in found.wanted.columns)
