"""Evaluation of a dataset on Ray Data: workers on any number of machines, each with its share of the limits."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr

from judges.errors import BadSample, ConfigurationError, JudgesError, shortened
from judges.judge import Judge
from judges.offline.dataset.renaming import checked_columns
from judges.offline.results import Evaluation
from judges.offline.run import outputs
from judges.offline.run.evaluate import judges_by_name
from judges.offline.run.files import make_folder
from judges.offline.run.journal import Journal
from judges.offline.run.journaled import opened, summed_up
from judges.offline.run.manifest import JudgeRecord, Manifest
from judges.offline.run.meter import RunStopped
from judges.offline.run.ordered_writer import OrderedWriter
from judges.offline.run.ray_blocks import ROW, VERDICT, BlockJudge, Work, column_names, samples_in
from judges.offline.run.ray_finished import Finished
from judges.offline.run.settings import Outputs, RunSettings, divided
from judges.offline.run.source import row_json
from judges.runtime.pickling import check_picklable
from judges.runtime.validation import whole_number
from judges.sample import Sample
from judges.verdict import Verdict

if TYPE_CHECKING:
    from numpy import ndarray
    from pyarrow import Table
    from ray.data import Dataset

BLOCKS = "blocks"
"""Folder of a run's finished blocks, each a Parquet file."""

_ON_THIS_MACHINE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""What Ray reads before it is imported: it reports no usage, and listens on the loopback address alone."""

_NOT_ON_RAY = ("batch", "on_progress", "processes", "rescored", "shard")
_OBJECTS_BYTES = 512 * 1024 * 1024
_ROWS_AT_ONCE = 256
_DEEPEST = 10
_FEW_CPUS = 0.25
_TASKS_A_WORKER = 16


class RayEvaluation(Evaluation):
    """The result of judging a dataset on Ray: as of `evaluate`, and the judged dataset."""

    _dataset: Dataset | Finished | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, evaluation: Evaluation, dataset: Dataset | Finished) -> RayEvaluation:
        """Return an evaluation with its dataset, or with the files that this is made from when it is needed."""
        whole = cls(rows=evaluation.rows, summary=evaluation.summary)
        whole._dataset = dataset
        return whole

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
        return self._dataset.dataset() if isinstance(self._dataset, Finished) else self._dataset


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
    work = Work(
        judges=members,
        settings=(settings or RunSettings(folder=Path())).part(last, workers),
        max_concurrency=divided(max_concurrency, last, workers, "max_concurrency") or 1,
        log_texts=log_texts,
        columns=columns,
    )
    output = Outputs(keep_rows=keep_rows)
    with _errors_of_workers():
        whole_number(batch_size, setting="batch_size")
        numbered = _Numbered.of(_dataset(ds), members, workers=workers, batch_size=batch_size)
        pool = _Pool(workers, batch_size, num_cpus)
        if settings is not None:
            return _judge_run(numbered, work, pool, settings, output)
        dataset = pool.judged(numbered, work, None).materialize()
        writer = OrderedWriter(members, out=None, on_result=None, keep_rows=keep_rows)
        tables = dataset.iter_batches(batch_size=_ROWS_AT_ONCE, batch_format="pyarrow")
        for row, sample, verdicts in _judged_rows(tables, work):
            writer.add(outputs.row_of(row, sample, verdicts))
        return RayEvaluation.of(writer.evaluation(), dataset)


@dataclass(frozen=True)
class _Numbered:
    """A dataset with the numbers of its rows in a column, and how many there are."""

    dataset: Dataset
    size: int

    @classmethod
    def of(cls, dataset: Dataset, judges: Mapping[str, Judge], *, workers: int, batch_size: int) -> _Numbered:
        """Number the rows of a dataset in their order."""
        import ray.data  # noqa: PLC0415 - checked by `_dataset`

        taken = set(dataset.columns() or ()) & set(column_names(judges))
        if taken:
            raise ConfigurationError(
                f"the dataset has columns called {sorted(taken)}, as judging calls its own; rename them, e.g. by "
                f"dataset.rename_columns, or give a mapping of other names to the judges"
            )
        dataset.context.execution_options.preserve_order = True
        bundles = list(dataset.materialize().iter_internal_ref_bundles())
        blocks = [pair for one in bundles for pair in zip(one.block_refs, one.metadata, strict=True)]
        total = sum(facts.num_rows for _, facts in blocks)
        if not total:
            raise ConfigurationError("the dataset has no rows")
        size = batch_size * max(1, total // (batch_size * workers * _TASKS_A_WORKER))
        slices: list[Any] = []
        first = 0
        for block, facts in blocks:
            number = math.ceil(facts.num_rows / size)
            if number:
                task = ray.remote(num_cpus=_FEW_CPUS, num_returns=number)(_numbered_slices)
                slices += [task.remote(block, first, size)] if number == 1 else task.remote(block, first, size)
            first += facts.num_rows
        return cls(ray.data.from_arrow_refs(slices), total)


def _numbered_slices(block: Any, first: int, size: int) -> Table | list[Table]:
    """Return a block with the numbers of its rows, in slices that workers take one by one."""
    import pyarrow as pa  # noqa: PLC0415 - on a worker
    from ray.data.block import BlockAccessor  # noqa: PLC0415 - likewise

    table = BlockAccessor.for_block(block).to_arrow()
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

    def judged(self, rows: _Numbered, work: Work, keys: ndarray[Any, Any] | None) -> Dataset:
        """Return a dataset that is judged when it is read."""
        from ray.data import ActorPoolStrategy  # noqa: PLC0415 - checked by `_dataset`

        context = rows.dataset.context
        context.execution_options.preserve_order = True
        context.raise_original_map_exception = True  # else what a worker's error says is lost on the way
        return rows.dataset.map_batches(
            BlockJudge,
            fn_constructor_args=(work, keys),
            batch_size=self.batch_size,
            batch_format="pyarrow",
            compute=ActorPoolStrategy(size=self.workers),
            num_cpus=self.num_cpus,
        )


def _judge_run(rows: _Numbered, work: Work, pool: _Pool, settings: RunSettings, output: Outputs) -> RayEvaluation:
    """Judge what is missing into the folder of a run, and write its results."""
    started = time.monotonic()
    records = tuple(JudgeRecord(name=name) for name in work.judges)
    with opened(Manifest(judges=records, rows=rows.size), work.judges, settings) as folder:
        blocks = folder.absolute() / BLOCKS
        make_folder(blocks)
        finished = Finished.read(blocks, rows.size)
        keys = finished.keys_to_keep(retry_failed=settings.retry_failed)
        work = replace(work, blocks=blocks, start=finished.starts + 1)
        judged = sum(block["rows"] for block in pool.judged(rows, work, keys).iter_rows())
        finished = Finished.read(blocks, rows.size)
        left = int((finished.keys == 0).sum())
        if left:
            raise _stopped(judged, left, settings, pool)
        journal = Journal(folder)
        try:
            with outputs.Results(folder, journal, work.judges, output) as results:
                for row, sample, verdicts in _judged_rows(finished.tables(), work):
                    results.expect(row, sample, row_json(sample), len(verdicts))
                    for verdict in verdicts.values():
                        results.add(row, outputs.verdict_json(verdict), verdict)
        finally:
            journal.close()
            journal.path.unlink()  # the blocks are the journal
        evaluation = summed_up(results, folder, output, seconds=time.monotonic() - started)
    return RayEvaluation.of(evaluation, finished)


def _stopped(judged: int, left: int, settings: RunSettings, pool: _Pool) -> RunStopped:
    limits = {"max_calls": settings.max_calls, "max_cost": settings.max_cost}
    names = " and ".join(f"{name}={limit:g}" for name, limit in limits.items() if limit is not None)
    return RunStopped(
        f"stopped after {judged} rows, {left} are missing: a worker used up its part of {names}, which is divided "
        f"by {pool.workers}; go on with resume=True"
    )


def _judged_rows(
    tables: Iterable[Table], work: Work
) -> Iterator[tuple[int, Sample | BadSample, dict[str, Verdict]]]:
    """Yield the rows of judged tables, in their order, with their samples and verdicts."""
    for table in tables:
        cells = {name: table.column(f"{name}_{VERDICT}").to_pylist() for name in work.judges}
        samples = samples_in(table, work.columns)
        for place, (row, sample) in enumerate(zip(table.column(ROW).to_pylist(), samples, strict=True)):
            yield row, sample, {name: outputs.read_verdict(texts[place]) for name, texts in cells.items()}


def _checked_settings(run: str | Path | RunSettings | None, *, resume: bool) -> RunSettings | None:
    if run is None:
        if resume:
            raise ConfigurationError("resume=True goes with run=..., the folder of the run to go on with")
        return None
    settings = run if isinstance(run, RunSettings) else RunSettings(folder=run)
    defaults = {field.name: field.default for field in fields(RunSettings)}
    wrong = [name for name in _NOT_ON_RAY if getattr(settings, name) != defaults[name]]
    if wrong:
        raise ConfigurationError(f"evaluate_ray has no use for the setting {wrong[0]}; leave it out")
    return replace(settings, resume=resume or settings.resume)


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
            "evaluate_ray needs Ray Data, which is not installed: pip install 'selfrefine[ray]'"
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
        own = (one for one in _causes(error) if isinstance(one, JudgesError) and not hasattr(one, "cause"))
        inner = next(own, None)  # without what Ray derives from its class
        if inner is None or inner is error:
            raise
        raise inner from None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_DEEPEST):
        if error is None:
            return
        yield error
        error = getattr(error, "cause", None) or error.__cause__
