"""Evaluation of a dataset on Ray Data: workers on any number of machines, each with its share of the limits."""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr
from pydantic_core import PydanticSerializationError

from judges.errors import BadSample, ConfigurationError, JudgesError, shortened
from judges.fingerprint import fingerprint
from judges.judge import Judge
from judges.offline.dataset.reading import checked_columns, read_sample, rename_rows
from judges.offline.results import Evaluation, read_as
from judges.offline.run import outputs
from judges.offline.run.calls import RunStopped
from judges.offline.run.cells import RunWork, judge_missing, new_meter
from judges.offline.run.evaluate import judges_by_name, opened
from judges.offline.run.journal import Journal, is_failure, make_folder, replacing
from judges.offline.run.manifest import JudgeRecord, Manifest
from judges.offline.run.outputs import OrderedRows, RowOutput, sum_up
from judges.offline.run.settings import RunSettings
from judges.offline.run.source import digest_of, row_json
from judges.runtime.validation import check_picklable, whole_number
from judges.sample import Sample
from judges.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy import ndarray
    from pyarrow import Table
    from ray.data import Dataset

ROW = "row"
"""Column: number of a row."""
ERROR = "error"
"""Column: why a row cannot be read."""

KEY = "judges_key"
"""Column of a run's files: what a row's verdicts depend on."""
FAILED = "judges_failed"
"""Column: whether one of them failed."""
START = "judges_start"
"""Column: which start of the run judged the row."""

_VERDICT = "verdict"
"""End of the names of columns that hold a whole verdict as JSON."""


@dataclass(frozen=True, kw_only=True)
class _BlockWork:
    """What a worker judges with.

    Args:
        run: The judges, and its share of the limits.
        blocks: Folder in which finished blocks are written; None returns them.
        start: Which start of the run this is, from 1.
        columns: Which column holds which field, where they have other names.
    """

    run: RunWork
    blocks: Path | None = None
    start: int = 1
    columns: Mapping[str, str] = field(default_factory=dict)


class _BlockJudge:
    """Judges one block after the other, within the limits of its worker.

    Args:
        work: What to judge with.
        keys: By row, what earlier starts of the run judged it as; 0 where it is missing.
    """

    def __init__(self, work: _BlockWork, keys: ndarray[Any, Any] | None) -> None:
        self._work, self._keys = work, keys
        self._meter = new_meter(work.run)
        self._fingerprint = fingerprint(*work.run.judges.values()).encode()

    def __call__(self, block: Table) -> Table:
        """Return the rows of a block with their verdicts; or, where they are written to a file, how many they are.

        Rows that the limits of the worker leave no calls for are missing.
        """
        import pyarrow as pa  # noqa: PLC0415 - comes with Ray

        samples = dict(zip(block.column(ROW).to_pylist(), _samples_in(block, self._work.columns), strict=True))
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
        if before not in (0, key) and not self._work.run.settings.accept_changes:
            raise ConfigurationError(
                f"row {row} changed since it was judged; undo the change, or judge such rows again with "
                f"accept_changes=True"
            )
        return before == key

    def _judged(self, samples: Mapping[int, Sample | BadSample]) -> dict[int, dict[str, Verdict]]:
        """Return the verdicts of the rows that every judge has judged."""
        run, sink = self._work.run, _CollectedVerdicts()
        with (
            tempfile.TemporaryDirectory(prefix="judges-") as folder,
            closing(Journal(Path(folder))) as journal,
            suppress(RunStopped),  # the driver finds that rows are missing
        ):
            rows, size = samples.items(), len(samples)
            asyncio.run(judge_missing(rows, run, journal, size=size, sink=sink, meter=self._meter))
        return {row: sink.verdicts[row] for row in samples if len(sink.verdicts.get(row, ())) == len(run.judges)}

    def _columns(
        self, samples: Mapping[int, Sample | BadSample], verdicts: Mapping[int, Mapping[str, Verdict]]
    ) -> dict[str, tuple[Sequence[object], str]]:
        faults = [str(samples[row]) if isinstance(samples[row], BadSample) else "" for row in verdicts]
        columns: dict[str, tuple[Sequence[object], str]] = {ERROR: (faults, "string")}
        for name in self._work.run.judges:
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


def _column_names(judges: Mapping[str, Judge]) -> list[str]:
    """Return the names of all columns that judging adds to a table."""
    return [ROW, ERROR, *(column for name in judges for column in _columns_of(name, [])), KEY, FAILED, START]


def _samples_in(table: Table, columns: Mapping[str, str]) -> list[Sample | BadSample]:
    """Return the samples in a table; columns that judging has added do not count.

    Args:
        table: The table.
        columns: Which of its columns holds which field, where they have other names.
    """
    columns_of_run = {ROW, ERROR, KEY, FAILED, START}
    whole = [name for name in table.column_names if name.endswith(f"_{_VERDICT}")]
    stems = {name.removesuffix(f"_{_VERDICT}") for name in whole}
    added = columns_of_run | {column for stem in stems for column in _columns_of(stem, [])}
    input_columns = table.select([name for name in table.column_names if name not in added])
    rows = [_without_none(row) for row in input_columns.to_pylist()]
    return [read_sample(row) for row in rename_rows(rows, columns)]


def _columns_of(name: str, verdicts: Sequence[Verdict]) -> dict[str, tuple[Sequence[object], str]]:
    """Return the columns of a judge, each as values and type."""
    return {
        name: ([verdict.score for verdict in verdicts], "float64"),
        f"{name}_rating": ([verdict.rating for verdict in verdicts], "int8"),
        f"{name}_passed": ([verdict.passed for verdict in verdicts], "bool"),
        f"{name}_unscored": ([verdict.unscored for verdict in verdicts], "string"),
        f"{name}_feedback": ([_portable(verdict.feedback) for verdict in verdicts], "string"),
        f"{name}_{_VERDICT}": ([_whole_verdict_json(verdict).decode() for verdict in verdicts], "string"),
    }


def _whole_verdict_json(verdict: Verdict) -> bytes:
    """Return a verdict as JSON, with the seconds it took."""
    try:
        return verdict.model_dump_json().encode()
    except PydanticSerializationError:  # half a surrogate pair is invalid in UTF-8, but can be escaped
        return json.dumps(verdict.model_dump(mode="json"), separators=(",", ":")).encode()


def _portable(text: str | None) -> str | None:
    """Return a text without half a surrogate pair, which no table can hold."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _without_none(value: Any) -> Any:
    """Return a row without the fields it does not have: a table holds None for what only other rows have."""
    if isinstance(value, dict):
        return {name: _without_none(part) for name, part in value.items() if part is not None}
    return [_without_none(part) for part in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class _CollectedVerdicts:
    """Takes verdicts as they come, in memory."""

    verdicts: dict[int, dict[str, Verdict]] = field(default_factory=dict)

    def expect(self, row: int, sample: Sample | BadSample, text: bytes, missing: int) -> None:
        """Expect nothing."""

    def add(self, row: int, text: bytes, verdict: Verdict) -> None:
        """Take a verdict."""
        del text
        self.verdicts.setdefault(row, {})[verdict.judge] = verdict


_FINISHED_ROWS_AT_ONCE = 1_024


@dataclass(frozen=True)
class _Finished:
    """Which rows of a run are finished, each by its latest judging.

    Args:
        keys: By row, what its verdicts depend on; 0 where it is missing.
        failed: By row, whether judging it failed.
        latest: By row, the start of the run that judged it last.
        spans: Each block's file, with its first and its last row.
    """

    keys: ndarray[Any, Any]
    failed: ndarray[Any, Any]
    latest: ndarray[Any, Any]
    spans: tuple[tuple[Path, int, int], ...]

    @classmethod
    def read(cls, blocks: Path, rows: int) -> _Finished:
        """Read which of some rows are in a folder of blocks."""
        import numpy as np  # noqa: PLC0415 - comes with Ray
        from pyarrow import parquet  # noqa: PLC0415 - likewise

        keys, failed = np.zeros(rows, "int64"), np.zeros(rows, "bool")
        latest = np.zeros(rows, "int32")
        spans = []
        for path in sorted(blocks.glob("*.parquet")):  # by start
            table = parquet.read_table(path, columns=[ROW, KEY, FAILED, START])
            numbers, *columns = (table.column(name).to_numpy() for name in (ROW, KEY, FAILED, START))
            keys[numbers], failed[numbers], latest[numbers] = columns
            spans.append((path, int(numbers.min()), int(numbers.max())))
        return cls(keys, failed, latest, tuple(spans))

    @property
    def starts(self) -> int:
        """Number of the last start that has judged anything."""
        return int(self.latest.max(initial=0))

    def keys_to_keep(self, *, retry_failed: bool) -> ndarray[Any, Any]:
        """Return the keys, without those of rows that are judged again."""
        return self.keys * ~self.failed if retry_failed else self.keys

    def tables(self) -> Iterator[Table]:
        """Yield the finished rows in their order, some at a time, each as it was judged last."""
        import pyarrow as pa  # noqa: PLC0415 - comes with Ray
        from pyarrow import parquet  # noqa: PLC0415 - likewise

        for first in range(0, len(self.keys), _FINISHED_ROWS_AT_ONCE):
            end = first + _FINISHED_ROWS_AT_ONCE
            parts = [
                _within(parquet.read_table(path), first, end)
                for path, low, high in self.spans
                if low < end and high >= first
            ]
            if parts:
                table = pa.concat_tables(parts, promote_options="permissive")
                yield _latest(table, self.latest).sort_by(ROW).drop_columns([KEY, FAILED, START])

    def dataset(self) -> Dataset:
        """Return the finished rows as a Ray dataset in their order, each as it was judged last."""
        import ray.data  # noqa: PLC0415 - an extra, checked before

        spans = sorted(self.spans, key=lambda span: span[1])
        dataset = ray.data.read_parquet([str(path) for path, _, _ in spans])
        if any(high >= low for (_, _, high), (_, low, _) in pairwise(spans)):  # some rows were judged again
            dataset = dataset.map_batches(_latest, fn_args=(self.latest,), batch_format="pyarrow").sort(ROW)
        dataset = dataset.drop_columns([KEY, FAILED, START])
        dataset.context.execution_options.preserve_order = True
        return dataset


def _within(table: Table, first: int, end: int) -> Table:
    numbers = table.column(ROW).to_numpy()
    return table.filter((numbers >= first) & (numbers < end))


def _latest(table: Table, latest: ndarray[Any, Any]) -> Table:
    return table.filter(table.column(START).to_numpy() == latest[table.column(ROW).to_numpy()])


_BLOCKS = "blocks"
"""Folder of a run's finished blocks, each a Parquet file."""

_ON_THIS_MACHINE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""What Ray reads before it is imported: it reports no usage, and listens on the loopback address alone."""

_NOT_ON_RAY = {"batch", "on_progress", "processes", "rescored", "shard"}
_OBJECTS_BYTES = 512 * 1024 * 1024
_ROWS_AT_ONCE = 256
_DEEPEST = 10
_FEW_CPUS = 0.25
_TASKS_A_WORKER = 16


class RayEvaluation(Evaluation):
    """The result of judging a dataset on Ray: as of `evaluate`, and the judged dataset."""

    _dataset: Dataset | _Finished | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, evaluation: Evaluation, dataset: Dataset | _Finished) -> RayEvaluation:
        """Return an evaluation with its dataset, or with the files that this is made from when it is needed."""
        whole = cls(rows=evaluation.rows, summary=evaluation.summary)
        whole._dataset = dataset
        return whole.judged_by(evaluation.judge_records)

    @property
    def dataset(self) -> Dataset:
        """The dataset with its verdicts, as a Ray dataset in the order of the rows.

        Beside its own columns it has `row`, `error`, and for each judge `NAME`, the score, `NAME_rating`,
        `NAME_passed`, `NAME_unscored`, `NAME_feedback` and `NAME_verdict`, the whole verdict as JSON.

        Raises:
            ConfigurationError: If the evaluation was loaded from a file, without its dataset.
        """
        if self._dataset is None:
            raise ConfigurationError("an evaluation that was loaded has no dataset; read the blocks of its run")
        return self._dataset.dataset() if isinstance(self._dataset, _Finished) else self._dataset


def evaluate_ray(
    ds: Dataset | str | Path | Sequence[Mapping[str, object]],
    judges: object,
    *,
    workers: int = 2,
    max_concurrency: int = 8,
    batch_size: int = 64,
    keep_rows: bool = True,
    log_texts: bool = False,
    run: str | Path | RunSettings | None = None,
    resume: bool = False,
    map: Mapping[str, str] | None = None,  # noqa: A002 - the name that it has in `evaluate`
    model: object = None,
    num_cpus: float = 0.5,
) -> RayEvaluation:
    """Judge every row of a dataset by workers of Ray Data; the verdicts are those of one process.

    Ray is used as it is set up; where it is not, it is started on this machine alone, without its dashboard and
    without its usage statistics. Keys come from the environment of the workers.

    Args:
        ds: A Ray dataset, a Parquet file or folder, or rows. A row is what `evaluate` takes; a field that is None
            counts as missing.
        judges: As of `evaluate`; they are sent to the workers by pickle.
        workers: How many workers judge at once. They divide `max_concurrency` and the limits of a run.
        max_concurrency: Model calls at once, all workers together.
        batch_size: How many rows a worker judges and writes together: what a crash costs at most.
        keep_rows: Whether the evaluation holds the rows. False for datasets larger than this process's memory.
        log_texts: Whether the log of a judge's own errors holds what they say.
        run: Folder of a run that every worker can write to: finished rows are kept there as Parquet, in `blocks`,
            and in the end results, cells and summary as of `evaluate`. Limits are in `RunSettings(folder=...)`.
        resume: Whether `run` was begun before: only rows that are missing are judged.
        map: Which column holds which field, where they have other names: `{"answer": "actual_text"}`. The judged
            dataset has its columns as they were.
        model: The model that judges ask which are given by name.
        num_cpus: CPUs that Ray reserves for a worker, which waits for models most of the time.

    Raises:
        RunStopped: If a run reached a limit of its settings; it can be resumed.
        ConfigurationError: If Ray is not installed, or judges, dataset or an argument cannot be used.
    """
    members, columns = judges_by_name(judges, model), checked_columns(map)
    for name, judge in members.items():
        check_picklable(judge, f"the judge {name!r}", "define it in a module")
    last = whole_number(workers, setting="workers") - 1  # the worker with the smallest share, which each may have
    settings = _checked_settings(run, resume=resume)
    whole = RunWork(
        judges=members,
        settings=settings or RunSettings(folder=Path()),
        max_concurrency=max_concurrency,
        log_texts=log_texts,
    )
    work = _BlockWork(run=whole.part(last, workers), columns=columns)
    output = RowOutput(keep_rows=keep_rows)
    with _errors_of_workers():
        whole_number(batch_size, setting="batch_size")
        numbered = _NumberedDataset.of(_dataset(ds), members, workers=workers, batch_size=batch_size)
        pool = _Pool(workers, batch_size, num_cpus)
        if settings is not None:
            return _judge_run(numbered, work, pool, whole, output)
        dataset = pool.judged(numbered, work, None).materialize()
        results = OrderedRows(members, output)
        tables = dataset.iter_batches(batch_size=_ROWS_AT_ONCE, batch_format="pyarrow")
        for row, sample, verdicts in _judged_rows(tables, work):
            results.expect(row, sample, b"", len(verdicts))
            for verdict in verdicts.values():
                results.add(row, b"", verdict)
        return RayEvaluation.of(results.evaluation(), dataset)


@dataclass(frozen=True)
class _NumberedDataset:
    """A dataset with the numbers of its rows in a column, and how many there are."""

    dataset: Dataset
    size: int

    @classmethod
    def of(
        cls, dataset: Dataset, judges: Mapping[str, Judge], *, workers: int, batch_size: int
    ) -> _NumberedDataset:
        """Number the rows of a dataset in their order."""
        import ray.data  # noqa: PLC0415 - checked by `_dataset`

        taken = set(dataset.columns() or ()) & set(_column_names(judges))
        if taken:
            raise ConfigurationError(
                f"the dataset has columns called {sorted(taken)}, as judging calls its own; rename them, e.g. by "
                f"dataset.rename_columns, or give a mapping of other names to the judges"
            )
        dataset.context.execution_options.preserve_order = True
        tables = dataset.to_arrow_refs()
        count = ray.remote(num_cpus=_FEW_CPUS)(_row_count)
        rows = ray.get([count.remote(table) for table in tables])
        total = sum(rows)
        if not total:
            raise ConfigurationError("the dataset has no rows")
        size = batch_size * max(1, total // (batch_size * workers * _TASKS_A_WORKER))
        slices: list[Any] = []
        first = 0
        for table, table_rows in zip(tables, rows, strict=True):
            number = math.ceil(table_rows / size)
            if number:
                task = ray.remote(num_cpus=_FEW_CPUS, num_returns=number)(_numbered_slices)
                slices += [task.remote(table, first, size)] if number == 1 else task.remote(table, first, size)
            first += table_rows
        return cls(ray.data.from_arrow_refs(slices), total)


def _row_count(table: Table) -> int:
    return int(table.num_rows)


def _numbered_slices(table: Table, first: int, size: int) -> Table | list[Table]:
    """Return a table with the numbers of its rows, in slices that workers take one by one."""
    import pyarrow as pa  # noqa: PLC0415 - on a worker

    numbers = pa.array(range(first, first + table.num_rows), "int64")
    numbered = table.append_column(ROW, numbers)
    slices = [numbered.slice(start, size) for start in range(0, table.num_rows, size)]
    return slices if len(slices) > 1 else slices[0]


@dataclass(frozen=True)
class _Pool:
    """The workers that judge: how many, how many rows at a time, and the CPUs reserved for each."""

    workers: int
    batch_size: int
    num_cpus: float

    def judged(self, rows: _NumberedDataset, work: _BlockWork, keys: ndarray[Any, Any] | None) -> Dataset:
        """Return a dataset that is judged when it is read."""
        from ray.data import ActorPoolStrategy  # noqa: PLC0415 - checked by `_dataset`

        context = rows.dataset.context
        context.execution_options.preserve_order = True
        context.raise_original_map_exception = True  # else what a worker's error says is lost on the way
        return rows.dataset.map_batches(
            _BlockJudge,
            fn_constructor_args=(work, keys),
            batch_size=self.batch_size,
            batch_format="pyarrow",
            compute=ActorPoolStrategy(size=self.workers),
            num_cpus=self.num_cpus,
        )


def _judge_run(
    rows: _NumberedDataset, work: _BlockWork, pool: _Pool, whole: RunWork, output: RowOutput
) -> RayEvaluation:
    """Judge what is missing into the folder of a run, and write its results."""
    started, settings, judges = time.monotonic(), whole.settings, whole.judges
    records = tuple(JudgeRecord(name=name) for name in judges)
    with opened(Manifest(judges=records, rows=rows.size), whole) as folder:
        blocks = folder.absolute() / _BLOCKS
        make_folder(blocks)
        finished = _Finished.read(blocks, rows.size)
        keys = finished.keys_to_keep(retry_failed=settings.retry_failed)
        work = replace(work, blocks=blocks, start=finished.starts + 1)
        judged = sum(block["rows"] for block in pool.judged(rows, work, keys).iter_rows())
        finished = _Finished.read(blocks, rows.size)
        rows_left = int((finished.keys == 0).sum())
        if rows_left:
            raise _stopped(judged, rows_left, settings, pool)
        with (
            tempfile.TemporaryDirectory(prefix="judges-") as empty,  # the blocks are the journal
            closing(Journal(Path(empty))) as journal,
            outputs.run_files(folder, journal, judges) as files,
        ):
            results = OrderedRows(judges, output, files)
            for row, sample, verdicts in _judged_rows(finished.tables(), work):
                results.expect(row, sample, row_json(sample), len(verdicts))
                for verdict in verdicts.values():
                    results.add(row, outputs.verdict_json(verdict), verdict)
        evaluation = sum_up(results, folder, output, seconds=time.monotonic() - started)
    return RayEvaluation.of(evaluation, finished)


def _stopped(judged: int, rows_left: int, settings: RunSettings, pool: _Pool) -> RunStopped:
    limits = {"max_calls": settings.max_calls, "max_cost": settings.max_cost}
    names = " and ".join(f"{name}={limit:g}" for name, limit in limits.items() if limit is not None)
    return RunStopped(
        f"stopped after {judged} rows, {rows_left} are missing: a worker used up its part of {names}, which is "
        f"divided by {pool.workers}; go on with resume=True"
    )


def _judged_rows(
    tables: Iterable[Table], work: _BlockWork
) -> Iterator[tuple[int, Sample | BadSample, dict[str, Verdict]]]:
    """Yield the rows of judged tables, in their order, with their samples and verdicts."""
    for table in tables:
        cells = {name: table.column(f"{name}_{_VERDICT}").to_pylist() for name in work.run.judges}
        samples = _samples_in(table, work.columns)
        for place, (row, sample) in enumerate(zip(table.column(ROW).to_pylist(), samples, strict=True)):
            yield row, sample, {name: read_as(Verdict, texts[place]) for name, texts in cells.items()}


def _checked_settings(run: str | Path | RunSettings | None, *, resume: bool) -> RunSettings | None:
    if run is None:
        if resume:
            raise ConfigurationError("resume=True goes with run=..., the folder of the run to go on with")
        return None
    settings = run if isinstance(run, RunSettings) else RunSettings(folder=run)
    wrong = sorted(_NOT_ON_RAY & settings.model_dump(exclude_defaults=True, include=_NOT_ON_RAY).keys())
    if wrong:
        raise ConfigurationError(f"evaluate_ray has no use for the setting {wrong[0]}; leave it out")
    return settings.evolve(resume=resume or settings.resume)


def _dataset(ds: object) -> Dataset:
    """Return a Ray dataset; where Ray is not set up, it is started on this machine alone."""
    is_ours = "ray" not in sys.modules and "RAY_ADDRESS" not in os.environ
    if is_ours:
        for name, value in _ON_THIS_MACHINE.items():
            os.environ.setdefault(name, value)
    try:
        import ray  # noqa: PLC0415 - an extra
        from ray import data  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise ConfigurationError(
            "evaluate_ray needs Ray Data, which is not installed; install the extra: selfrefine[ray]"
        ) from error
    if isinstance(ds, data.Dataset):
        return ds
    if is_ours and not ray.is_initialized():
        ray.init(include_dashboard=False, object_store_memory=_OBJECTS_BYTES)
    if isinstance(ds, str | Path):
        return data.read_parquet(str(ds))
    if isinstance(ds, list | tuple) and all(isinstance(row, Mapping) for row in ds):
        return data.from_arrow(_table(ds))
    raise ConfigurationError(
        f"ds is a ray.data.Dataset, the path of Parquet files, or a list of mappings, not {shortened(ds)}"
    )


def _table(rows: Sequence[Mapping[str, object]]) -> Table:
    import pyarrow as pa  # noqa: PLC0415 - comes with Ray

    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        try:
            columns[name] = pa.array([row.get(name) for row in rows])
        except pa.ArrowException:
            raise ConfigurationError(
                f"the rows have values of several types in {name!r}, which a table cannot hold; make them alike"
            ) from None
    return pa.table(columns)


@contextmanager
def _errors_of_workers() -> Iterator[None]:
    """Raise what one of our own errors on a worker says, without the wrappings of Ray."""
    try:
        yield
    except Exception as error:
        judge_errors = (
            one for one in _causes(error) if isinstance(one, JudgesError) and not hasattr(one, "cause")
        )
        inner = next(judge_errors, None)  # without what Ray derives from its class
        if inner is None or inner is error:
            raise
        raise inner from None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_DEEPEST):
        if error is None:
            return
        yield error
        error = getattr(error, "cause", None) or error.__cause__
