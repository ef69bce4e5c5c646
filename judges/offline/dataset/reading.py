"""Reading a dataset from a file, row by row."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, overload

from judges.errors import BadSample, ConfigurationError
from judges.sample import Sample, canonical_field

_AS_TEXT = ("user_input", "response", "reference")
"""Fields whose cells in a CSV file are text; cells of the others are JSON."""

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
    file = Path(path)
    if not file.is_file():
        raise ConfigurationError(f"there is no file {str(path)!r}")
    match file.suffix.lower():
        case ".jsonl" | ".ndjson":
            return _samples(file, _json_lines(file), _json_object, keep=errors == "keep")
        case ".csv":
            return _samples(file, _csv_records(file), _csv_row, keep=errors == "keep")
        case _:
            raise ConfigurationError(f"rows are read from a .jsonl or a .csv file, not from {str(path)!r}")


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
                yield number, line


def _json_object(line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line.decode("utf-8-sig"), parse_constant=_reject_constant)
    except UnicodeDecodeError:
        raise BadSample("the line is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadSample(f"not valid JSON: {error.msg.lower()} at column {error.colno}") from None
    except BadSample:
        raise
    except (ValueError, RecursionError) as error:
        raise BadSample(f"not readable JSON: {error}") from None
    if not isinstance(row, dict):
        raise BadSample(f'a row is a JSON object such as {{"question": ..., "answer": ...}}, not {_preview(row)}')
    return row


def _preview(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."  # noqa: PLR2004 - about half a line


def _reject_constant(name: str) -> NoReturn:
    raise BadSample(f"{name} is not a JSON number")


def _csv_records(path: Path) -> Iterator[tuple[int, dict[str | None, Any]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        line = 1
        try:
            _check_columns(reader.fieldnames or ())
            line = reader.line_num + 1
            for record in reader:
                yield line, record
                line = reader.line_num + 1
        except (csv.Error, UnicodeDecodeError, BadSample) as error:
            reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else error
            raise BadSample(f"{path}, line {line}: {reason}") from error


def _check_columns(names: Any) -> None:
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise BadSample(f"the column {duplicates[0]!r} appears twice")


def _csv_row(record: dict[str | None, Any]) -> Mapping[str, Any]:
    if None in record:
        raise BadSample("there are more cells than columns; put quotation marks around text with commas in it")
    return {str(name): _cell(str(name), text) for name, text in record.items() if text}


def _cell(column: str, text: str) -> object:
    field = canonical_field(column)
    if field is None or (field in _AS_TEXT and column != "messages"):
        return text
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        raise BadSample(
            f'field {column!r}: in a CSV file it is written as JSON, for instance ["first", "second"]'
        ) from None
