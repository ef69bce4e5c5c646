"""Reading a dataset, row by row: from a file, a table or objects, with columns renamed where asked."""

from __future__ import annotations

import ast
import codecs
import csv
import json
import logging
import math
import os
import re
from collections import Counter
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, overload
from uuid import UUID

from judges.errors import BadSample, ConfigurationError, JudgesError, one_line, shortened
from judges.rows.columns import NESTED
from judges.rows.replies import is_messages, row_of
from judges.sample import FIELD_NAMES, Sample, canonical_field, did_you_mean

RowInput = Sample | Mapping[str, object] | BadSample
"""A row of a dataset: a sample, a mapping that is read as one, or an error in place of a broken row."""

JSON_LINES = (".jsonl", ".ndjson")
"""How a file is called that holds a JSON object on each line."""

NumberedRow = tuple[int, RowInput]
"""A row with its number in the dataset, from 0."""

_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')
"""A text in a JSON document, or one of the words that Python reads as a number, which is group 1."""

_TEXT = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(\s+(?=['"]))?""", re.DOTALL)
"""A text as Python shows it, and the blanks between it and the next, which an array of numpy has for a comma."""


def _parsed(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        BadSample: If it is not valid JSON; the message names the column, counted in characters from 1.
    """
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        line = f" of line {error.lineno}" if error.lineno > 1 else ""
        hint = "; a row is one whole JSON object on one line" if error.pos >= len(text) else ""
        fault = error.msg.lower().removesuffix(" at")
        raise BadSample(f"not valid JSON: {fault} at column {error.colno}{line}{hint}") from None
    except _NotJson as error:
        column = next(match.start(1) for match in _CONSTANT.finditer(text) if match[1]) + 1
        raise BadSample(f"{error} is not a JSON number, at column {column}") from None
    except (ValueError, RecursionError) as error:
        raise BadSample(f"not readable JSON: {one_line(error)}") from None


def _preview(value: object) -> str:
    """Return the beginning of a value as JSON."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."  # noqa: PLR2004 - about half a line


class _NotJson(ValueError):  # noqa: N818 - carries a word that Python reads as a number
    """A number that JSON does not have: NaN or an infinity."""


def _reject_constant(name: str) -> NoReturn:
    raise _NotJson(name)


_TEXTS = frozenset({"user_input", "response", "reference"})
"""Fields that hold text; those of the others are lists or objects."""


def _cell_value(column: str, value: Any) -> Any:
    """Return the value of a cell: an empty text is an empty answer, and in any other field a missing one."""
    return None if value == "" and canonical_field(column) not in {None, "response"} else value


def _frame_value(column: str, value: Any) -> Any:
    """Return the value of a cell of a data frame as JSON has it.

    NaN, NaT and NA are missing; dates, durations and UUIDs are text, decimals numbers. Frames have numbers where
    a file has text, so a number or a truth value in a field that holds text is read as its text; lists and objects
    may be JSON, as in a CSV file.
    """
    if isinstance(value, str):
        return _cell_value(column, _data_in(column, value))
    is_text = canonical_field(column) in _TEXTS
    value = str(value) if is_text and isinstance(value, Decimal) and value.is_finite() else _plain(value)
    if is_text and isinstance(value, bool | int | float):
        return json.dumps(value)
    return _cell_value(column, value)


def _cell_of_text(column: str, text: str) -> Any:
    """Return the value of a cell in a file that holds text alone: lists and objects are JSON in it.

    A question is a text that may begin like a list; it is a conversation if all in that list are messages.

    Raises:
        BadSample: If a list or an object begins and is not valid.
    """
    field = canonical_field(column)
    if text.lstrip()[:1] in {"[", "{"} and (field not in _TEXTS or column == "messages") and field is not None:
        return _structured(column, text)
    if field == "metadata" or column == "messages":
        return _structured(column, text) if text.strip() else None
    return _cell_value(column, _data_in(column, text))


def _data_in(column: str, text: str) -> Any:
    """Return the messages, list or metadata that a text holds, in a column that has such; else the text."""
    field = canonical_field(column)
    if field in {None, "response", "reference"} or text.lstrip()[:1] not in {"[", "{"}:
        return text
    try:
        value = _structured(column, text)
    except BadSample:
        return text
    is_meant = is_messages(value) if field == "user_input" else isinstance(value, list) or field == "metadata"
    return value if is_meant else text


def _structured(column: str, text: str) -> Any:
    try:
        return _parsed(text)
    except BadSample as error:
        value = _python_literal(text)
        if value is None:
            raise BadSample(
                f'field {column!r}: in a CSV file it is written as JSON, for instance ["first", "second"]; '
                f"here it is {error} of the cell"
            ) from None
        return value


def _python_literal(text: str) -> Any:
    """Return a list or an object as Python shows it, which is how data frames are written to CSV; else None."""
    try:
        value = ast.literal_eval(_TEXT.sub(lambda found: found[1] + (", " if found[2] else ""), text.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list | dict) else None


def _plain(value: Any) -> Any:
    """Return a value of a data frame as one of Python's, None where it is missing, dates as ISO text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # arrays and scalars of numpy
        return _plain(value.tolist())
    if type(value).__name__ in {"NaTType", "NAType"}:
        return None
    if isinstance(value, Decimal):
        return _plain(float(value))
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value) if isinstance(value, timedelta | UUID) else value


_DELIMITERS = ",;\t|"
_DELIMITER_LINE = re.compile(rf"sep=[{_DELIMITERS}]\r?\n")
_Record = dict[str | None, Any]


def _csv_records(path: Path, *, encoding: str) -> Iterator[tuple[int, _Record]]:
    """Yield each record with the number of the line it begins in; a cell may hold line breaks.

    What separates the cells is what separates the names in the first line, or what `sep=;` above them says:
    commas, semicolons, tabs or bars.
    """
    with path.open(encoding=encoding, errors="surrogateescape", newline="") as file:
        first = file.readline()
        delimiter = _delimiter(first)
        named = _DELIMITER_LINE.fullmatch(first)  # a line for Excel, above that of the names
        if named is None:
            file.seek(0)
        csv.field_size_limit(2**31 - 1)  # for all readers: a conversation may be longer than 131,072 characters
        reader = csv.reader(_decoded_lines(file), strict=True, delimiter=delimiter)
        columns: list[str] = []
        line = before = 1 if named is None else 2
        try:
            for cells in reader:
                if cells and columns:
                    yield line, _record(columns, cells)
                elif cells:
                    columns = [name.strip() for name in cells]
                    _check_columns(columns, BadSample)
                line = reader.line_num + before
        except UnicodeEncodeError as error:
            where = f"{path}, line {reader.line_num + before}"
            raise BadSample(f"{where}: {_not_encoded(encoding, error.start)}") from None
        except (csv.Error, BadSample) as error:
            why = str(error).replace("unexpected end of data", "a quotation mark is opened here and never closed")
            raise BadSample(f"{path}, line {line}: {why}") from error


def _csv_row(record: _Record) -> Mapping[str, Any]:
    """Return a record as a row.

    Raises:
        BadSample: If it has more cells than there are columns, or a cell cannot be read.
    """
    if None in record:
        raise BadSample("there are more cells than columns; put quotation marks around text with commas in it")
    return {str(name): _cell_of_text(str(name), text) for name, text in record.items()}


def _not_encoded(encoding: str, place: int) -> str:
    """Return that a text is not in its encoding, and what to do.

    Args:
        encoding: The encoding.
        place: The first character that is not, counted from 0.
    """
    name = "UTF-8" if encoding == "utf-8-sig" else encoding
    return f"not {name} at column {place + 1}; save the file as UTF-8, or name its encoding"


def _delimiter(header: str) -> str:
    """Return what separates the names of the first line outside quotation marks."""
    outside = "".join(header.split('"')[::2])
    return max(_DELIMITERS, key=outside.count)


def _decoded_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a file in which bytes of another encoding became lone surrogates; these are refused."""
    for line in lines:
        if not line.isascii():
            line.encode()
        yield line


def _record(columns: list[str], cells: list[str]) -> _Record:
    """Return a record by column; cells that have no column are under None."""
    record: _Record = dict(zip(columns, cells, strict=False))
    return record if len(cells) <= len(columns) else {**record, None: cells[len(columns) :]}


def _check_columns(names: Iterable[str], fault: type[JudgesError] = ConfigurationError) -> None:
    """Raise a fault if two columns have one name: nobody could say which of them is judged."""
    duplicates = sorted(name for name, count in Counter(names).items() if count > 1)
    if duplicates:
        raise fault(f"the column {duplicates[0]!r} appears twice")


def rows_in(samples: Any) -> Any:
    """Return the rows of a table; what is no table is returned as it is.

    Raises:
        ConfigurationError: If a table cannot be read row by row.
    """
    if isinstance(samples, Mapping):
        return _of_lists(samples)
    library, kind = type(samples).__module__.partition(".")[0], type(samples).__name__
    match library, kind:
        case "pandas", "DataFrame":
            _check_columns(map(str, samples.columns))
            return _TableRows(samples, len(samples), _of_pandas)
        case "polars", "DataFrame":
            return _TableRows(samples, len(samples), lambda frame: map(_plain_value, frame.iter_rows(named=True)))
        case "polars", "LazyFrame":
            raise ConfigurationError("a LazyFrame has no rows yet; give frame.collect()")
        case "pandas" | "polars", _:
            raise ConfigurationError(f"a {kind} has no named columns; give a DataFrame")
        case "pyarrow", "Table" | "RecordBatch":
            _check_columns(samples.schema.names)
            return _TableRows(samples, samples.num_rows, _of_arrow)
        case "deepeval", "EvaluationDataset":
            return _of_deepeval(samples)
        case "inspect_ai", "EvalLog":
            return list(samples.samples or ())
        case _:
            return samples


class _TableRows:
    """The rows of a table, which can be read as often as one likes."""

    def __init__(self, table: Any, size: int, read: Callable[[Any], Iterable[Any]]) -> None:
        self._table, self._size, self._read = table, size, read

    def __iter__(self) -> Iterator[Any]:
        yield from self._read(self._table)

    def __len__(self) -> int:
        return self._size


def _plain_value(row: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): _frame_value(str(name), value) for name, value in row.items()}


def _of_pandas(frame: Any) -> Iterator[dict[str, Any]]:
    names = [str(name) for name in frame.columns]
    for values in frame.itertuples(index=False, name=None):
        yield _plain_value(dict(zip(names, values, strict=True)))


def _of_arrow(table: Any) -> Iterator[dict[str, Any]]:
    batches = table.to_batches() if hasattr(table, "to_batches") else [table]
    return map(_plain_value, chain.from_iterable(batch.to_pylist() for batch in batches))


def _of_deepeval(dataset: Any) -> list[Any]:
    if not dataset.test_cases and dataset.goldens:
        raise ConfigurationError("the dataset has goldens alone, without answers; give its test cases")
    return list(dataset.test_cases)


def _is_table(columns: Mapping[Any, Any]) -> bool:
    """Return whether a mapping is a dict of lists, and no single row."""
    lists = [_listed(value) for value in columns.values()]
    return bool(lists) and None not in lists and not all(is_messages(values) for values in lists)


def _of_lists(columns: Mapping[Any, Any]) -> _TableRows:
    """Return the rows of a dict of lists; a single row, and a dict of datasets, are refused."""
    if not _is_table(columns):
        remedy = "give [sample], or a dict of lists of one length"
        if columns and all(_is_dataset(value) for value in columns.values()):
            remedy = f"give one of its datasets, {shortened(list(map(str, columns)))[1:-1]}"
        raise ConfigurationError(f"samples are several rows, not one {type(columns).__name__}; {remedy}")
    lists = {str(name): _listed(value) or [] for name, value in columns.items()}
    if len({len(values) for values in lists.values()}) > 1:
        lengths = ", ".join(f"{name!r} {len(values)}" for name, values in islice(lists.items(), 8))
        raise ConfigurationError(f"the columns of a dict of lists are of one length; here they are {lengths}")
    return _TableRows(lists, max(map(len, lists.values())), _of_columns)


def _is_dataset(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | list | tuple)


def _listed(values: Any) -> list[Any] | None:
    """Return a column as a list, an array and a series among them, or None where a value is no column."""
    if isinstance(values, list | tuple):
        return list(values)
    convert = getattr(values, "to_list", None) or getattr(values, "tolist", None)
    column = convert() if callable(convert) else None
    return column if isinstance(column, list) else None


def _of_columns(columns: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield _plain_value(dict(zip(columns, values, strict=True)))


LABEL_NAMES = ("labels", "label", "human", "human_label", "human_labels", "human_rating", "gold")
"""Names under which a row may hold what people say; the first is the documented one."""

DRAW_NAMES = ("weight", "probability", "drawn")
"""How a row was drawn, which an estimate from its label must know."""

_LABEL_COLUMNS = frozenset({*LABEL_NAMES, *DRAW_NAMES, "raters", "split"})
"""All of them: how many people are to label the row, and what its labels may be used for, besides."""


_log = logging.getLogger("judges")
_named: set[str] = set()


def _name_unread(sample: Sample, row: object) -> None:
    """Log the columns of a row that became metadata without being asked for, each column once a process.

    Columns of labels are metadata on purpose.
    """
    if not sample.metadata or not isinstance(row, Mapping):
        return
    metadata = row.get("metadata")
    unread = [
        name
        for name in sample.metadata
        if name in row and not (isinstance(metadata, Mapping) and name in metadata)
    ]
    new = [name for name in unread if name not in _named and name not in _LABEL_COLUMNS]
    if new:
        _named.update(new)
        _log.warning(
            "kept as metadata, for slices and for judges that read them: %s%s (columns: %s); "
            "map={'answer': 'COLUMN'}, or --map answer=COLUMN, says which column is which",
            shortened(new)[1:-1],
            did_you_mean([*new, *(name for name in row if canonical_field(name))]),
            shortened(list(map(str, row)), longest=200)[1:-1],
        )


def read_sample(row: RowInput) -> Sample | BadSample:
    """Return a row as a sample, or why it is none."""
    if isinstance(row, BadSample):
        return row
    try:
        sample = Sample.read(row)
    except BadSample as error:
        return error
    if sample.metadata:
        _name_unread(sample, row)
    return sample


_MISSING = object()


def checked_columns(columns: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return which column holds which field, checked.

    Raises:
        ConfigurationError: If a field is not one of a sample.
    """
    if columns is None:
        return {}
    if not isinstance(columns, Mapping) or not all(  # type: ignore[redundant-expr]  # of users without types
        isinstance(part, str) for pair in columns.items() for part in pair
    ):
        raise ConfigurationError(
            f'map is {{"field": "column"}}, such as {{"answer": "text"}}, not {shortened(columns)}'
        )
    for name, column in columns.items():
        if canonical_field(name) is None:
            swapped = canonical_field(column) is not None
            near = get_close_matches(name, FIELD_NAMES, n=1)
            remedy = f"did you mean {column}={name}?" if swapped else f"did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(
                f"map: {one_line(name, longest=60)!r} is no field of a sample; "
                f"{remedy or 'known are ' + ', '.join(Sample.model_fields)}"
            )
    return columns


def _renamed(row: object, columns: Mapping[str, str]) -> Any:
    """Return a row with its columns under the names of fields; a dotted name leads into nested columns.

    Raises:
        BadSample: If the row does not have such a column.
    """
    source = row.model_dump(exclude_defaults=True) if isinstance(row, Sample) else row_of(row)
    if not columns or source is None:
        return row
    others = dict(source)
    values = {field: _value(others, column) for field, column in columns.items()}
    for column in columns.values():
        others.pop(column, None)
    replaced = {canonical_field(field) for field in columns}
    return {**{name: value for name, value in others.items() if canonical_field(name) not in replaced}, **values}


def rename_rows(samples: Any, columns: Mapping[str, str]) -> Any:
    """Return rows with their columns renamed, sync or async, as often as they can be read."""
    if not columns:
        return samples
    if isinstance(samples, AsyncIterable):
        return (_renamed_or_error(row, columns) async for row in samples)
    if isinstance(samples, Sized):
        return _TableRows(samples, len(samples), lambda rows: (_renamed_or_error(row, columns) for row in rows))
    return (_renamed_or_error(row, columns) for row in samples)


def _renamed_or_error(row: object, columns: Mapping[str, str]) -> Any:
    try:
        return row if isinstance(row, BadSample) else _renamed(row, columns)
    except BadSample as error:
        return error


def _value(row: Mapping[str, Any], column: str) -> Any:
    if column in row:
        return row[column]
    value: Any = row
    for name in column.split("."):
        value = value.get(name, _MISSING) if isinstance(value, Mapping) else _MISSING
    if value is _MISSING:
        raise BadSample(f"there is no column {column!r}; the columns are {shortened(list(row))[1:-1]}")
    return value


_Raw = TypeVar("_Raw")


@dataclass(frozen=True, kw_only=True, slots=True)
class RowsFile:
    """The file of a dataset, and how it is read; see `read_rows`."""

    path: Path
    encoding: str = "utf-8"
    columns: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[Sample | BadSample]:
        """Return the rows; those that cannot be read stand as errors in their place."""
        return read_rows(self.path, map=self.columns, encoding=self.encoding, errors="keep")


@overload
def read_rows(
    path: str | Path,
    *,
    map: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    errors: Literal["raise"] = "raise",
) -> Iterator[Sample]: ...
@overload
def read_rows(
    path: str | Path, *, map: Mapping[str, str] | None = None, encoding: str = "utf-8", errors: Literal["keep"]
) -> Iterator[Sample | BadSample]: ...
def read_rows(
    path: str | Path,
    *,
    map: Mapping[str, str] | None = None,  # noqa: A002 - the name that mlflow and others have for it
    encoding: str = "utf-8",
    errors: Literal["raise", "keep"] = "raise",
) -> Iterator[Sample | BadSample]:
    """Read the rows of a `.jsonl`, `.json`, `.csv`, `.tsv` or `.parquet` file lazily, as samples.

    A `.jsonl` file holds one JSON object per line; blank lines are skipped. A `.json` file holds a list of
    objects, an object of lists, or an object one of whose values is the list of rows; it is read as a whole. The
    first line of a `.csv` or `.tsv` file names the columns, separated by commas, semicolons, tabs or bars; a list
    or an object (contexts, guidelines, rubrics, `messages`, ...) is written as JSON in its cell. A `.parquet` file
    needs the extra `parquet`.

    The same value means the same in every format: an empty text is an empty answer, and in any other field a
    missing one. Columns that are not fields of a sample are kept in its `metadata`.

    Args:
        path: The file.
        map: Which column holds which field, such as `{"answer": "outputs.text"}`; a dot leads into an object.
        encoding: How the text is encoded, for instance `"latin-1"`.
        errors: What to do with a row that cannot be read: `"raise"` the error, or `"keep"` it, as a value in the
            place of the row, which `evaluate` takes as a row that is unscored.

    Raises:
        ConfigurationError: If there is no such file, or its format, its encoding or a field of `map` is unknown.
        BadSample: If a row cannot be read; the message names file, line and field.
    """
    file, columns, encoding = _file(path), checked_columns(map), _checked_encoding(encoding)
    unit, records, row_of = _records(file, encoding)
    return _samples(file, unit, records, row_of, columns, keep=errors == "keep")


def read_mappings(path: str | Path) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a file as they stand there, for instance labels without texts; files as for `read_rows`.

    Raises:
        ConfigurationError: If there is no such file, or its format is unknown.
        BadSample: If a row cannot be read; the message names file and line.
    """
    file = _file(path)
    unit, records, row_of = _records(file, _checked_encoding("utf-8"))
    for number, raw in records:
        try:
            row = row_of(raw)
        except BadSample as error:
            raise BadSample(f"{file}, {unit} {number}: {error}") from error
        yield row


def _records(
    file: Path, encoding: str
) -> tuple[str, Iterator[tuple[int, Any]], Callable[[Any], Mapping[str, Any]]]:
    """Return what a record of the file is called, the records with their numbers, and what makes a row of one."""
    match file.suffix.lower():
        case suffix if suffix in JSON_LINES:
            return "line", _json_lines(file, encoding), lambda line: _json_row(line, encoding)
        case ".csv" | ".tsv":
            return "line", _csv_records(file, encoding=encoding), _csv_row
        case ".json":
            return "row", _json_rows(file, encoding), _row
        case ".parquet":
            return "row", _parquet_rows(file), dict
        case _:
            raise ConfigurationError(
                f"rows are read from a .jsonl or a .csv file, or from .json, .tsv or .parquet, not from "
                f"{str(file)!r}; write a JSON object on each line of a .jsonl file"
            )


def _file(path: str | Path) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise ConfigurationError(f"rows are read from the path of a file, not from {shortened(path)}")
    if not os.path.isfile(path):  # noqa: PTH113 - False where Path raises, for a name that is too long
        short_path = shortened(str(path), longest=200)
        what = f"{short_path} is no file" if os.path.exists(path) else f"there is no file {short_path}"  # noqa: PTH110 - likewise
        raise ConfigurationError(f"{what}; give the path of a .jsonl or a .csv file")
    return Path(path)


def _checked_encoding(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
    except (LookupError, TypeError):
        raise ConfigurationError(
            f"there is no encoding {shortened(encoding)}; there are utf-8, utf-16, latin-1, cp1252 and others"
        ) from None
    return "utf-8-sig" if name == "utf-8" else name


def _samples(
    file: Path,
    unit: str,
    records: Iterator[tuple[int, _Raw]],
    row_of: Callable[[_Raw], Mapping[str, Any]],
    columns: Mapping[str, str],
    *,
    keep: bool,
) -> Iterator[Sample | BadSample]:
    for number, raw in records:
        try:
            row = row_of(raw)
            read = Sample.read(_renamed(row, columns))
            _name_unread(read, row)
            sample: Sample | BadSample = read
        except BadSample as error:
            sample = BadSample(f"{file}, {unit} {number}: {error}")
            if not keep:
                raise sample from error
        yield sample


def _json_lines(path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    with path.open(encoding=encoding, errors="surrogateescape", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line.rstrip("\r\n")


def _json_row(line: str, encoding: str) -> Mapping[str, Any]:
    if not line.isascii():
        _check_decoded(line, encoding)
    return _row(_parsed(line))


def _check_decoded(line: str, encoding: str) -> None:
    """Refuse a line in which bytes of another encoding became lone surrogates."""
    try:
        line.encode()
    except UnicodeEncodeError as error:
        raise BadSample(f"the line is {_not_encoded(encoding, error.start)}") from None


def _row(row: object) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise BadSample(f'a row is a JSON object such as {{"question": ..., "answer": ...}}, not {_preview(row)}')
    return {name: _cell_value(name, value) for name, value in row.items()}


def _json_rows(path: Path, encoding: str) -> Iterator[tuple[int, Any]]:
    try:
        document = _parsed(path.read_text(encoding))
    except UnicodeDecodeError as error:
        raise BadSample(f"{path} is {_not_encoded(encoding, error.start)}") from None
    except BadSample as error:
        hint = "; a file with an object on each line is called .jsonl" if "extra data" in str(error) else ""
        raise BadSample(f"{path}: {error}{hint}") from None
    yield from enumerate(_rows_of(document), 1)


def _rows_of(document: Any) -> Iterable[Any]:
    """Return the rows of a JSON document: a list, an object of lists, or an object that holds the list of rows."""
    if not isinstance(document, dict):
        return document if isinstance(document, list) else [document]
    samples = document.get("samples")
    if isinstance(samples, list) and "eval" in document:  # the log of inspect
        return samples
    if isinstance(document.get("results"), dict):  # promptfoo
        return _rows_of(document["results"])
    has_known_field = any(canonical_field(name) or name in NESTED for name in document)
    lists = [
        value for value in document.values() if isinstance(value, list) and value and isinstance(value[0], dict)
    ]
    if len(lists) == 1 and not has_known_field:
        return lists[0]
    return rows_in(document) if _is_table(document) else [document]  # a dict of lists becomes rows


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        from pyarrow import ArrowInvalid, parquet  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise ConfigurationError("reading .parquet needs the extra: selfrefine[parquet]") from None
    try:
        with parquet.ParquetFile(path) as file:
            rows = chain.from_iterable(map(rows_in, file.iter_batches(batch_size=1024)))
            yield from enumerate(rows, 1)
    except ArrowInvalid as error:
        raise BadSample(f"{path} cannot be read: {one_line(error)}") from None
