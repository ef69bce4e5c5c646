"""Reading a dataset from a file, row by row."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, overload

from judges.errors import BadSample, ConfigurationError, one_line, shortened
from judges.sample import Sample, canonical_field

_AS_TEXT = ("user_input", "response", "reference")
"""Fields whose cells in a CSV file are text; cells of the others are JSON."""

_SAVE_AS_UTF8 = "save the file as UTF-8"
_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')
"""A text in a JSON document, or one of the words that Python reads as a number, which is group 1."""

Raw = TypeVar("Raw")


@overload
def read_rows(path: str | Path, *, errors: Literal["raise"] = "raise") -> Iterator[Sample]: ...
@overload
def read_rows(path: str | Path, *, errors: Literal["keep"]) -> Iterator[Sample | BadSample]: ...
def read_rows(path: str | Path, *, errors: Literal["raise", "keep"] = "raise") -> Iterator[Sample | BadSample]:
    """Read the rows of a `.jsonl` or `.csv` file lazily, as samples.

    A `.jsonl` file holds one JSON object per line; blank lines are skipped. The first line of a `.csv` file names
    the columns; an empty cell is a missing field, and a field that is a list or an object (contexts,
    guidelines, rubrics, `messages`, ...) is written as JSON in its cell. Columns that are not fields of a sample
    are kept in its `metadata`.

    Args:
        path: The file, in UTF-8.
        errors: What to do with a row that cannot be read: `"raise"` the error, or `"keep"` it, as a value in the
            place of the row, which `evaluate` takes as a row that is unscored.

    Raises:
        ConfigurationError: If there is no such file, or its format is unknown.
        BadSample: If a row cannot be read; the message names file, line and field.
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigurationError(f"rows are read from the path of a file, not from {shortened(path)}")
    file = Path(path)
    if not os.path.isfile(file):  # noqa: PTH113 - False where Path raises, for a name that is too long
        short_path = shortened(str(path), longest=200)
        what = f"{short_path} is no file" if os.path.exists(file) else f"there is no file {short_path}"  # noqa: PTH110 - likewise
        raise ConfigurationError(f"{what}; give the path of a .jsonl or a .csv file")
    match file.suffix.lower():
        case ".jsonl" | ".ndjson":
            return _samples(file, _json_lines(file), _json_object, keep=errors == "keep")
        case ".csv":
            return _samples(file, _csv_records(file), _csv_row, keep=errors == "keep")
        case _:
            raise ConfigurationError(
                f"rows are read from a .jsonl or a .csv file, not from {str(path)!r}; write a JSON object on each "
                f"line of a .jsonl file"
            )


def _samples(
    file: Path,
    records: Iterator[tuple[int, Raw]],
    row_of: Callable[[Raw], Mapping[str, Any]],
    *,
    keep: bool,
) -> Iterator[Sample | BadSample]:
    for line, raw in records:
        try:
            sample: Sample | BadSample = Sample.read(row_of(raw))
        except BadSample as error:
            sample = _located_error(file, line, error)
            if not keep:
                raise sample from error
        yield sample


def _located_error(file: Path, line: int, error: Exception) -> BadSample:
    return BadSample(f"{file}, line {line}: {error}")


def _json_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, line.rstrip(b"\r\n")


def _json_object(line: bytes) -> Mapping[str, Any]:
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode("utf-8-sig")) + 1
        raise BadSample(f"the line is not UTF-8 at column {column}; {_SAVE_AS_UTF8}") from None
    row = _parsed(text)
    if not isinstance(row, dict):
        raise BadSample(f'a row is a JSON object such as {{"question": ..., "answer": ...}}, not {_preview(row)}')
    return row


def _parsed(text: str) -> object:
    """Return the value of a JSON text.

    Raises:
        BadSample: If it is not valid JSON; the message names the column, counted in characters from 1.
    """
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        line = f" of line {error.lineno}" if error.lineno > 1 else ""
        hint = "; a row is one whole JSON object on one line" if error.pos >= len(text) else ""
        raise BadSample(f"not valid JSON: {error.msg.lower()} at column {error.colno}{line}{hint}") from None
    except _NotJson as error:
        column = next(match.start(1) for match in _CONSTANT.finditer(text) if match[1]) + 1
        raise BadSample(f"{error} is not a JSON number, at column {column}") from None
    except (ValueError, RecursionError) as error:
        raise BadSample(f"not readable JSON: {one_line(error)}") from None


class _NotJson(ValueError):  # noqa: N818 - carries a word that Python reads as a number
    """A number that JSON does not have: NaN or an infinity."""


def _preview(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."  # noqa: PLR2004 - about half a line


def _reject_constant(name: str) -> NoReturn:
    raise _NotJson(name)


def _csv_records(path: Path) -> Iterator[tuple[int, dict[str | None, Any]]]:
    """Yield each record with the number of the line it begins in; a cell may hold line breaks."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(_utf8_lines(file), strict=True)
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
            reason = f"not UTF-8 at column {error.start + 1}; {_SAVE_AS_UTF8}"
            raise BadSample(f"{path}, line {reader.line_num + 1}: {reason}") from None
        except (csv.Error, BadSample) as error:
            raise BadSample(f"{path}, line {line}: {_csv_fault(error)}") from error


def _utf8_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a file in which bytes that are not UTF-8 became lone surrogates; these are refused."""
    for line in lines:
        if not line.isascii():
            line.encode()
        yield line


def _record(columns: list[str], cells: list[str]) -> dict[str | None, Any]:
    """Return a record by column; cells that have no column are under None."""
    record: dict[str | None, Any] = dict(zip(columns, cells, strict=False))
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


def _csv_row(record: dict[str | None, Any]) -> Mapping[str, Any]:
    if None in record:
        raise BadSample("there are more cells than columns; put quotation marks around text with commas in it")
    return {str(name): _cell(str(name), text) for name, text in record.items() if text}


def _cell(column: str, text: str) -> object:
    field = canonical_field(column)
    if field is None or (field in _AS_TEXT and column != "messages"):
        return text
    try:
        return _parsed(text)
    except BadSample as error:
        raise BadSample(
            f'field {column!r}: in a CSV file it is written as JSON, for instance ["first", "second"]; here it is '
            f"{error} of the cell"
        ) from None
