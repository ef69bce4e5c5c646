"""Reading CSV and TSV files, record by record."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from judges.errors import BadSample
from judges.offline.dataset.cells import cell_of_text

_DELIMITERS = ",;\t|"
Record = dict[str | None, Any]


def csv_records(path: Path, *, encoding: str) -> Iterator[tuple[int, Record]]:
    """Yield each record with the number of the line it begins in; a cell may hold line breaks.

    What separates the cells is what separates the names in the first line: commas, semicolons, tabs or bars.
    """
    with path.open(encoding=encoding, errors="surrogateescape", newline="") as file:
        delimiter = _delimiter(file.readline())
        file.seek(0)
        reader = csv.reader(_decoded_lines(file), strict=True, delimiter=delimiter)
        columns: list[str] = []
        line = 1
        try:
            for cells in reader:
                if cells and columns:
                    yield line, _record(columns, cells)
                elif cells:
                    columns = _checked_columns(cells)
                line = reader.line_num + 1
        except UnicodeEncodeError as error:
            where = f"{path}, line {reader.line_num + 1}"
            raise BadSample(f"{where}: {not_encoded(encoding, error.start)}") from None
        except (csv.Error, BadSample) as error:
            raise BadSample(f"{path}, line {line}: {_csv_fault(error)}") from error


def csv_row(record: Record) -> Mapping[str, Any]:
    """Return a record as a row.

    Raises:
        BadSample: If it has more cells than there are columns, or a cell cannot be read.
    """
    if None in record:
        raise BadSample("there are more cells than columns; put quotation marks around text with commas in it")
    return {str(name): cell_of_text(str(name), text) for name, text in record.items()}


def not_encoded(encoding: str, place: int) -> str:
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


def _record(columns: list[str], cells: list[str]) -> Record:
    """Return a record by column; cells that have no column are under None."""
    record: Record = dict(zip(columns, cells, strict=False))
    return record if len(cells) <= len(columns) else {**record, None: cells[len(columns) :]}


def _csv_fault(error: Exception) -> str:
    text = str(error)
    if text == "unexpected end of data":
        return "a quotation mark is opened here and never closed"
    return f"{text}; write such rows as .jsonl" if "field limit" in text else text


def _checked_columns(names: list[str]) -> list[str]:
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise BadSample(f"the column {duplicates[0]!r} appears twice")
    return names
