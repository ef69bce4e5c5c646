"""Reading a dataset from a file, row by row."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from judges.errors import BadSample, ConfigurationError, one_line, shortened
from judges.offline.dataset.cells import cell_value
from judges.offline.dataset.delimited import csv_records, csv_row, not_encoded
from judges.offline.dataset.json_text import parsed, preview
from judges.offline.dataset.renaming import checked_columns, renamed
from judges.offline.dataset.tables import is_table, rows_in
from judges.offline.dataset.unread import name_unread
from judges.rows.columns import NESTED
from judges.sample import Sample, canonical_field

Raw = TypeVar("Raw")


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
        case ".jsonl" | ".ndjson":
            return "line", _json_lines(file, encoding), lambda line: _json_row(line, encoding)
        case ".csv" | ".tsv":
            return "line", csv_records(file, encoding=encoding), csv_row
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
    records: Iterator[tuple[int, Raw]],
    row_of: Callable[[Raw], Mapping[str, Any]],
    columns: Mapping[str, str],
    *,
    keep: bool,
) -> Iterator[Sample | BadSample]:
    for number, raw in records:
        try:
            row = row_of(raw)
            read = Sample.read(renamed(row, columns))
            name_unread(read, row)
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
    return _row(parsed(line))


def _check_decoded(line: str, encoding: str) -> None:
    """Refuse a line in which bytes of another encoding became lone surrogates."""
    try:
        line.encode()
    except UnicodeEncodeError as error:
        raise BadSample(f"the line is {not_encoded(encoding, error.start)}") from None


def _row(row: object) -> Mapping[str, Any]:
    if not isinstance(row, dict):
        raise BadSample(f'a row is a JSON object such as {{"question": ..., "answer": ...}}, not {preview(row)}')
    return {name: cell_value(name, value) for name, value in row.items()}


def _json_rows(path: Path, encoding: str) -> Iterator[tuple[int, Any]]:
    try:
        document = parsed(path.read_text(encoding))
    except UnicodeDecodeError as error:
        raise BadSample(f"{path} is {not_encoded(encoding, error.start)}") from None
    except BadSample as error:
        hint = "; a file with an object on each line is called .jsonl" if "extra data" in str(error) else ""
        raise BadSample(f"{path}: {error}{hint}") from None
    yield from enumerate(_rows_of(document), 1)


def _rows_of(document: Any) -> Iterable[Any]:
    """Return the rows of a JSON document: a list, an object of lists, or an object that holds the list of rows."""
    if not isinstance(document, dict):
        return document if isinstance(document, list) else [document]
    if isinstance(document.get("results"), dict):  # promptfoo
        return _rows_of(document["results"])
    if is_table(document):
        return rows_in(document)  # type: ignore[no-any-return]  # a dict of lists becomes rows
    known = any(canonical_field(name) or name in NESTED for name in document)
    lists = [
        value for value in document.values() if isinstance(value, list) and value and isinstance(value[0], dict)
    ]
    return lists[0] if len(lists) == 1 and not known else [document]


def _parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        from pyarrow import ArrowInvalid, parquet  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise ConfigurationError("reading .parquet needs the extra: pip install 'selfrefine[parquet]'") from None
    try:
        with parquet.ParquetFile(path) as file:
            rows = chain.from_iterable(map(rows_in, file.iter_batches(batch_size=1024)))
            yield from enumerate(rows, 1)
    except ArrowInvalid as error:
        raise BadSample(f"{path} cannot be read: {one_line(error)}") from None
