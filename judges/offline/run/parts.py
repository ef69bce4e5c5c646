"""Parts of a run that several processes judge at once: each has rows and a journal in a folder below the run's.

Rows are dealt by their place in the run. A part's journal holds what the run's journal had of its rows, and then
what the part adds, so that it replaces those lines when the parts are gathered, however often that is begun.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from judges.errors import BadSample, ConfigurationError
from judges.offline.run.journal import NAME as JOURNAL
from judges.offline.run.journal import Journal, check_unlocked, make_folder, replacing
from judges.offline.run.source import SPOOL, Manifest, NumberedRows, read_again, row_json
from judges.sample import Sample

_FOLDER = "parts"
_NAME = re.compile(r"(\d+)-of-(\d+)")
_ENDING_S = 10.0
"""How long the processes of a run that was killed may take to notice that, and to end."""


@dataclass(frozen=True)
class DealtRows:
    """The rows of a part, from a file.

    Args:
        path: The file.
        size: How many rows it has.
    """

    path: Path
    size: int

    def __iter__(self) -> Iterator[tuple[int, Sample | BadSample]]:
        with self.path.open("rb") as file:
            for line in file:
                record = json.loads(line)
                yield record["row"], read_again(record["sample"])


def deal(rows: NumberedRows, folder: Path, number: int, step: int, *, retry_failed: bool) -> list[DealtRows]:
    """Write the rows of a run to the folders of its parts, each with what the journal has of them.

    Args:
        rows: The rows.
        folder: Folder of the run; there are no parts in it.
        number: How many parts there will be.
        step: How far apart the numbers of two rows are.
        retry_failed: Whether cells whose judging failed are left out.
    """
    folders = [folder / _FOLDER / f"{part}-of-{number}" for part in range(number)]
    for part in (folder / _FOLDER, *folders):
        make_folder(part)
    sizes = [0] * number
    with ExitStack() as files:
        spools = [files.enter_context(replacing(part / SPOOL)) for part in folders]
        for row, sample in rows:
            turn = row // step % number
            spools[turn].write(b'{"row":%d,"sample":%s}\n' % (row, row_json(sample)))
            sizes[turn] += 1
    journal = Journal(folder)
    try:
        with ExitStack() as files:
            copies = [files.enter_context(replacing(part / JOURNAL)) for part in folders]
            for row, line in journal.lines(_judges(folder), without_failed=retry_failed):
                copies[row // step % number].write(line)
    finally:
        journal.close()
    return [DealtRows(part / SPOOL, size) for part, size in zip(folders, sizes, strict=True)]


def drop_failed(folder: Path) -> None:
    """Write the journal of a run anew without the cells whose judging failed, so that they count as missing."""
    journal = Journal(folder)
    try:
        with replacing(folder / JOURNAL) as file:
            file.writelines(line for _, line in journal.lines(_judges(folder), without_failed=True))
    finally:
        journal.close()


def gather(folder: Path, step: int) -> None:
    """Write what the parts of a run have judged to its journal, and remove them; without parts do nothing.

    Raises:
        ConfigurationError: If a process still works on a part.
    """
    if not (folder / _FOLDER).is_dir():
        return
    parts = sorted((folder / _FOLDER).iterdir())
    _wait_until_unlocked(parts)
    journals = {
        (int(name[1]), int(name[2])): Journal(part)
        for part in parts
        if (name := _NAME.fullmatch(part.name)) and (part / JOURNAL).exists()
    }
    whole = Journal(folder)
    try:
        with replacing(folder / JOURNAL) as file:
            for row, line in whole.lines(_judges(folder), without_failed=False):
                if not any(row // step % number == part for part, number in journals):
                    file.write(line)
            for journal in journals.values():
                file.writelines(line for _, line in journal.lines(_judges(folder), without_failed=False))
    finally:
        for journal in (whole, *journals.values()):
            journal.close()
    _remove(parts)
    (folder / _FOLDER).rmdir()


def _judges(folder: Path) -> list[str]:
    return [record.name for record in Manifest.read(folder).judges]


def _remove(parts: Iterable[Path]) -> None:
    for part in parts:
        for path in part.iterdir():
            path.unlink()
        part.rmdir()


def _wait_until_unlocked(parts: Iterable[Path]) -> None:
    """Wait for processes that outlive their run by a moment."""
    until = time.monotonic() + _ENDING_S
    for part in parts:
        while True:
            try:
                check_unlocked(part)
                break
            except ConfigurationError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
