"""The limits of `judges.rag`, checked before any model is asked: of the dataset, and of the folder of prompts."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judges.errors import ConfigurationError, shortened
from judges.sample import canonical_field

COLUMNS = ("user_input", "response", "retrieved_contexts", "reference")

_MOST_ROWS, _MOST_CONTEXTS, _LONGEST = 128, 128, 1_000_000
_VERY_LONG = 2_000
_MOST_FILES, _LARGEST_FILE, _DEEPEST = 512, 4 * 2**20, 64
_RUN_TOGETHER = re.compile(r"[a-zа-яё][.!?][A-ZА-ЯЁ]")


@dataclass(frozen=True)
class Columns:
    """A dataset within the limits.

    Args:
        names: The fields of a sample that its columns hold.
        rows: The rows, as mappings that are read as samples.
    """

    names: tuple[str, ...]
    rows: tuple[Mapping[str, object], ...]

    def have(self, need: str) -> bool:
        """Check whether there is a column for what a judge needs: a field, or one of several (`"a or b"`)."""
        return any(field in self.names for field in need.split(" or "))


def checked_columns(dataset: object) -> Columns:
    """Check a dataset, and turn its columns into rows.

    Warns if the only context of a row looks like several, joined because a comma is missing.

    Raises:
        ConfigurationError: If a limit is exceeded; the message says which.
    """
    if not isinstance(dataset, Mapping) or not 1 <= len(dataset) <= len(COLUMNS):
        raise ConfigurationError(f"dataset maps 1 to {len(COLUMNS)} columns to lists: {', '.join(COLUMNS)}")
    fields = _fields(dataset)
    lengths = {name: _length(name, column) for name, column in dataset.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ConfigurationError(f"the columns of a dataset are equally long; {sizes}")
    for name, column in dataset.items():
        for index, cell in enumerate(column):
            _check_cell(fields[name], f"{name}, index {index}", cell)
    columns = [dataset[name] for name in fields]
    rows = tuple(dict(zip(fields.values(), cells, strict=True)) for cells in zip(*columns, strict=True))
    return Columns(tuple(fields.values()), rows)


def checked_folder(path: str | Path | None, *, may_be_new: bool) -> Path | None:
    """Return a folder of prompts, checked before any of its files is read; create it if it may be new.

    Raises:
        ConfigurationError: If a limit is exceeded; the message says which.
    """
    if path is None:
        return None
    folder = Path(path)
    if not folder.is_dir():
        if may_be_new and not folder.exists():
            folder.mkdir(parents=True)
            return folder
        raise ConfigurationError(f"prompts_path is a folder laid out like zh/faithfulness.toml, not {str(path)!r}")
    files = 0
    for place, _, names in os.walk(folder):
        if len(Path(place).relative_to(folder).parts) > _DEEPEST:
            raise ConfigurationError(f"prompts_path has folders nested more than {_DEEPEST} deep")
        files += len(names)
        if files > _MOST_FILES:
            raise ConfigurationError(f"prompts_path holds more than {_MOST_FILES} files")
        for name in names:
            if (file := Path(place, name)).stat().st_size >= _LARGEST_FILE:
                raise ConfigurationError(f"prompts_path: {file.name} has {_LARGEST_FILE // 2**20} MB or more")
    return folder


def _fields(dataset: Mapping[object, object]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name in dataset:
        field = canonical_field(name) if isinstance(name, str) else None
        if field not in COLUMNS:
            raise ConfigurationError(f"there is no column {shortened(name)}; known are {', '.join(COLUMNS)}")
        if field in fields.values():
            raise ConfigurationError(f"two columns of the dataset are the {field}; leave {shortened(name)} out")
        fields[str(name)] = field
    return fields


def _length(name: str, column: object) -> int:
    if isinstance(column, str) or not isinstance(column, Sequence) or not 1 <= len(column) <= _MOST_ROWS:
        raise ConfigurationError(f"the column {shortened(name)} is a list of 1 to {_MOST_ROWS} rows")
    return len(column)


def _check_cell(field: str, place: str, cell: object) -> None:
    if cell is None:
        return
    if field != "retrieved_contexts":
        _check_text(place, cell)
        return
    if not isinstance(cell, list | tuple) or len(cell) > _MOST_CONTEXTS:
        raise ConfigurationError(f"{place}: a list of at most {_MOST_CONTEXTS} texts is wanted")
    for number, text in enumerate(cell, 1):
        _check_text(f"{place}, context {number}", text)
    for fault in _merge_hints(cell):
        warnings.warn(f"{place}: {fault}; if it is several texts, put commas between them", stacklevel=4)


def _check_text(place: str, value: object) -> None:
    if not isinstance(value, str):
        raise ConfigurationError(f"{place}: a text is wanted, not a {type(value).__name__}")
    if len(value) > _LONGEST:
        raise ConfigurationError(f"{place}: a text has at most {_LONGEST:,} characters, this one {len(value):,}")


def _merge_hints(contexts: Sequence[str]) -> Iterator[str]:
    """Describe what makes a row's only context look like several."""
    if len(contexts) != 1:
        return
    (only,) = contexts
    if len(only) > _VERY_LONG:
        yield f"there is one context, of {len(only):,} characters"
    elif match := _RUN_TOGETHER.search(only):
        yield f"there is one context, with {shortened(match.group())} in it"
