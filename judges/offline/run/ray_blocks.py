"""Judging blocks of a table on a worker of Ray: the same judging as in one process, block by block."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.errors import BadSample, ConfigurationError
from judges.fingerprint import fingerprint
from judges.judge import Judge
from judges.offline.dataset.renaming import rename_rows
from judges.offline.run.files import replacing
from judges.offline.run.journal import Journal, is_failure
from judges.offline.run.judging import judge_missing, new_meter
from judges.offline.run.meter import RunStopped
from judges.offline.run.outputs import whole_verdict_json
from judges.offline.run.settings import RunSettings
from judges.offline.run.source import digest_of, read_sample, row_json
from judges.sample import Sample
from judges.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy import ndarray
    from pyarrow import Table

ROW, ERROR = "row", "error"
"""Columns: number of a row, and why it cannot be read."""

KEY, FAILED, START = "judges_key", "judges_failed", "judges_start"
"""Columns of a run's files: what a row's verdicts depend on, whether one failed, and which start judged it."""

VERDICT = "verdict"
"""End of the names of columns that hold a whole verdict as JSON."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a worker judges with.

    Args:
        judges: The judges by name.
        settings: Its share of the limits.
        max_concurrency: Its model calls at once.
        log_texts: Whether the log of a judge's own errors holds what they say.
        blocks: Folder in which finished blocks are written; None returns them.
        start: Which start of the run this is, from 1.
        columns: Which column holds which field, where they have other names.
    """

    judges: Mapping[str, Judge]
    settings: RunSettings
    max_concurrency: int
    log_texts: bool
    blocks: Path | None = None
    start: int = 1
    columns: Mapping[str, str] = field(default_factory=dict)


class BlockJudge:
    """Judges one block after the other, within the limits of its worker.

    Args:
        work: What to judge with.
        keys: By row, what earlier starts of the run judged it as; 0 where it is missing.
    """

    def __init__(self, work: Work, keys: ndarray[Any, Any] | None) -> None:
        self._work, self._keys = work, keys
        self._meter = new_meter(work.settings, work.judges, work.max_concurrency)
        self._fingerprint = fingerprint(*work.judges.values()).encode()

    def __call__(self, block: Table) -> Table:
        """Return the rows of a block with their verdicts; or, where they are written to a file, how many they are.

        Rows that the limits of the worker leave no calls for are missing.
        """
        import pyarrow as pa  # noqa: PLC0415 - comes with Ray

        samples = dict(zip(block.column(ROW).to_pylist(), samples_in(block, self._work.columns), strict=True))
        keys = {row: self._key(sample) for row, sample in samples.items()}
        verdicts = self._judged({row: one for row, one in samples.items() if not self._is_there(row, keys[row])})
        table = block.take(pa.array([place for place, row in enumerate(samples) if row in verdicts], "int64"))
        for name, (values, kind) in self._columns(samples, verdicts).items():
            table = table.append_column(name, pa.array(values, kind))
        if self._work.blocks is None:
            return table
        if verdicts:
            self._write(table.append_column(KEY, pa.array([keys[row] for row in verdicts], "int64")))
        return pa.table({"rows": [len(verdicts)]})

    def _key(self, sample: Sample | BadSample) -> int:
        text = row_json(sample) if isinstance(sample, Sample) else b"unreadable"
        digest = blake2b(digest_of(text) + self._fingerprint, digest_size=8).digest()
        return int.from_bytes(digest, signed=True) or 1

    def _is_there(self, row: int, key: int) -> bool:
        before = 0 if self._keys is None or row >= len(self._keys) else int(self._keys[row])
        if before not in (0, key) and not self._work.settings.accept_changes:
            raise ConfigurationError(
                f"row {row} changed since it was judged; undo the change, or judge such rows again with "
                f"accept_changes=True"
            )
        return before == key

    def _judged(self, samples: Mapping[int, Sample | BadSample]) -> dict[int, dict[str, Verdict]]:
        """Return the verdicts of the rows that every judge has judged."""
        work = self._work
        with tempfile.TemporaryDirectory(prefix="judges-") as folder:
            journal = Journal(Path(folder))
            sink = _Collected(journal)
            try:
                asyncio.run(
                    judge_missing(
                        _Rows(samples),
                        work.judges,
                        work.settings,
                        sink,
                        max_concurrency=work.max_concurrency,
                        log_texts=work.log_texts,
                        meter=self._meter,
                    )
                )
            except RunStopped:
                """The driver finds that rows are missing."""
            finally:
                journal.close()
        return {row: sink.verdicts[row] for row in samples if len(sink.verdicts.get(row, ())) == len(work.judges)}

    def _columns(
        self, samples: Mapping[int, Sample | BadSample], verdicts: Mapping[int, Mapping[str, Verdict]]
    ) -> dict[str, tuple[Sequence[object], str]]:
        faults = [str(samples[row]) if isinstance(samples[row], BadSample) else "" for row in verdicts]
        columns: dict[str, tuple[Sequence[object], str]] = {ERROR: (faults, "string")}
        for name in self._work.judges:
            columns |= _columns_of(name, [cells[name] for cells in verdicts.values()])
        if self._work.blocks is not None:
            failed = [any(is_failure(cell.unscored) for cell in cells.values()) for cells in verdicts.values()]
            columns |= {FAILED: (failed, "bool"), START: ([self._work.start] * len(verdicts), "int32")}
        return columns

    def _write(self, table: Table) -> None:
        from pyarrow import parquet  # noqa: PLC0415 - comes with Ray

        assert self._work.blocks is not None  # noqa: S101 - checked by the caller
        path = self._work.blocks / f"{self._work.start:04}-{table.column(ROW)[0]}-{uuid.uuid4().hex[:12]}.parquet"
        with replacing(path) as file:
            parquet.write_table(table, file)


def column_names(judges: Mapping[str, Judge]) -> list[str]:
    """Return the names of all columns that judging adds to a table."""
    return [ROW, ERROR, *(column for name in judges for column in _columns_of(name, [])), KEY, FAILED, START]


def samples_in(table: Table, columns: Mapping[str, str]) -> list[Sample | BadSample]:
    """Return the samples in a table; columns that judging has added do not count.

    Args:
        table: The table.
        columns: Which of its columns holds which field, where they have other names.
    """
    known = {ROW, ERROR, KEY, FAILED, START}
    whole = [name for name in table.column_names if name.endswith(f"_{VERDICT}")]
    stems = {name.removesuffix(f"_{VERDICT}") for name in whole}
    added = known | {column for stem in stems for column in _columns_of(stem, [])}
    own = table.select([name for name in table.column_names if name not in added])
    rows = [_without_none(row) for row in own.to_pylist()]
    return [read_sample(row) for row in rename_rows(rows, columns)]


def _columns_of(name: str, verdicts: Sequence[Verdict]) -> dict[str, tuple[Sequence[object], str]]:
    """Return the columns of a judge, each as values and type."""
    return {
        name: ([verdict.score for verdict in verdicts], "float64"),
        f"{name}_rating": ([verdict.rating for verdict in verdicts], "int8"),
        f"{name}_passed": ([verdict.passed for verdict in verdicts], "bool"),
        f"{name}_unscored": ([verdict.unscored for verdict in verdicts], "string"),
        f"{name}_feedback": ([_portable(verdict.feedback) for verdict in verdicts], "string"),
        f"{name}_{VERDICT}": ([whole_verdict_json(verdict).decode() for verdict in verdicts], "string"),
    }


def _portable(text: str | None) -> str | None:
    """Return a text without half a surrogate pair, which no table can hold."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _without_none(value: Any) -> Any:
    """Return a row without the fields it does not have: a table holds None for what only other rows have."""
    if isinstance(value, dict):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    return [_without_none(part) for part in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class _Rows:
    """Numbered rows in memory."""

    samples: Mapping[int, Sample | BadSample]

    def __iter__(self) -> Iterator[tuple[int, Sample | BadSample]]:
        return iter(self.samples.items())

    @property
    def size(self) -> int:
        return len(self.samples)


@dataclass(frozen=True)
class _Collected:
    """Takes verdicts as they come, in memory."""

    journal: Journal
    verdicts: dict[int, dict[str, Verdict]] = field(default_factory=dict)

    def expect(self, row: int, sample: Sample | BadSample, text: bytes, missing: int) -> None:
        """Expect nothing."""

    def add(self, row: int, text: bytes, verdict: Verdict) -> None:
        """Take a verdict."""
        del text
        self.verdicts.setdefault(row, {})[verdict.judge] = verdict
