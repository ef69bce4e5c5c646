"""Judging a dataset, in memory or into the folder of a run, which survives a crash and is resumed."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any, TextIO, TypeVar

from pydantic import ValidationError

from judges.catalogue.names import named
from judges.compose.panel import as_judge
from judges.entry import Explanation
from judges.errors import ConfigurationError, first_fault, shortened, unfit
from judges.fingerprint import fingerprint, versions_in_use
from judges.judge import Judge
from judges.offline.dataset import reading
from judges.offline.results import Evaluation, Row, read_as, summarise_rows
from judges.offline.run.cells import CellWorkers, RunWork, judge_missing, warn_of_unreadable
from judges.offline.run.journal import NAME as JOURNAL
from judges.offline.run.journal import Journal, check_unlocked, full_disk_told, locked, make_folder, open_private
from judges.offline.run.manifest import NAME as MANIFEST
from judges.offline.run.manifest import JudgeRecord, Manifest
from judges.offline.run.outputs import RESULTS, SUMMARY, OrderedRows, RowOutput, run_files, sum_up
from judges.offline.run.processes import gather, judge_in_processes
from judges.offline.run.settings import BatchSettings, RunSettings
from judges.offline.run.source import SPOOL, RunRows, each, read_again, row_json
from judges.rows.replies import row_of
from judges.runtime import faults
from judges.runtime.flow import DaemonThreads
from judges.runtime.validation import judge_name, naming_settings
from judges.settings import MADE_WITH

_log = logging.getLogger("judges")
_T = TypeVar("_T")
_MODEL_REMEDY = 'give model=..., for instance model="openai:gpt-5-mini"'

_OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("dataset", "data", "examples", "rows", "test_cases", "testset"), "samples"),
    **dict.fromkeys(("metrics", "scorers", "evaluators", "judge", "scoring_functions"), "judges"),
    **dict.fromkeys(("llm", "judge_model", "evaluator_llm"), "model"),
    **dict.fromkeys(("concurrency", "max_workers", "num_workers", "num_threads", "workers"), "max_concurrency"),
    **dict.fromkeys(("batch_size", "n_jobs"), "max_concurrency"),
    **dict.fromkeys(("column_map", "column_mapping", "columns"), "map"),
    **dict.fromkeys(("callback", "on_row", "progress_callback"), "on_result"),
    **dict.fromkeys(("output", "output_path", "output_file"), "out"),
}

"""What other libraries call the arguments of an evaluation."""


@naming_settings("evaluate(rows, judge), for instance evaluate([{'answer': ...}], 'json')", **_OTHER_NAMES)
def evaluate(
    samples: Iterable[reading.RowInput],
    judges: object,
    *,
    max_concurrency: int = 8,
    out: str | Path | TextIO | None = None,
    on_result: Callable[[Row], object] | None = None,
    keep_rows: bool = True,
    log_texts: bool = False,
    run: str | Path | RunSettings | None = None,
    resume: bool = False,
    map: Mapping[str, str] | None = None,  # noqa: A002 - the name that it has in `read_rows`
    processes: int | None = None,
    batch: bool | BatchSettings = False,
    model: object = None,
) -> Evaluation:
    """Judge every sample of a dataset, in threads; also inside a running event loop.

    Rows are pulled lazily, so at most `max_concurrency` are read ahead of the judges. A worker takes one row
    and runs its judges one after the other. Rows may finish in any order; they are written, reported and
    returned in the order of the dataset.

    A judgement that fails is unscored and says why; so are all those of a row that cannot be read. Neither ends
    the evaluation.

    Args:
        samples: Samples, mappings, or objects of other libraries that are read as samples; a data frame of
            pandas or polars, a table of pyarrow, or a dict of lists. A `BadSample` stands for a row that could
            not be read, as `read_rows(path, errors="keep")` yields it.
        judges: A judge, a list of judges, or a mapping of names to judges; functions are accepted, and the names
            of judges, `["length:at_most=80", "helpfulness"]`.
        max_concurrency: How many rows are judged at once, at least 1.
        out: A path, which is overwritten, or an open text file; each row becomes one line of JSON there.
        on_result: Called with each `Row` once it has been written, in order and never twice at a time.
        keep_rows: Whether the evaluation holds the rows. False keeps memory flat on datasets of any size.
        log_texts: Whether the log of a judge's own errors holds what they say, which may quote the samples.
        run: Folder of a run, which survives a crash: every finished call and verdict is journaled there, and in
            the end it holds results, cells and summary. Judges of one row are then at work side by side, and
            `max_concurrency` bounds the model calls at once. Limits and more are in `RunSettings(folder=...)`.
        resume: Whether `run` was begun before: only what is missing is judged.
        map: Which column holds which field, where they have other names: `{"answer": "actual_text"}`.
        processes: How many processes of this machine judge, each its part of the rows, of `max_concurrency` and of
            the limits of a run. Rows are then reported when all are judged, and judges are sent by pickle: call
            this under `if __name__ == "__main__":`.
        batch: Whether a run sends its calls by the provider's batch endpoint: at half the price, within a day. Its
            judges ask `OpenAICompatible` models. The process may end meanwhile, and go on with `resume`.
        model: The model that judges ask which are given by name.

    Raises:
        RunStopped: If a run reached a limit of its settings; it can be resumed.
        ConfigurationError: At once, if a judge, its model or an argument is set up wrongly, or two judges share
            a name. Threads that are still waiting for a model finish in the background; nothing more is written.
    """
    plan = _CheckedEvaluation(
        judges=_judges_of(judges, samples, model),
        samples=_rows_of(samples, max_concurrency, map),
        settings=_run_settings(run, out, resume=resume, processes=processes, batch=batch),
        max_concurrency=max_concurrency,
        out=out,
        output=RowOutput(on_result=on_result, keep_rows=keep_rows),
        log_texts=log_texts,
    )
    return plan.judge_in_threads() if plan.settings is None else finish(plan.judge())


@naming_settings("await aevaluate(rows, judge)", **_OTHER_NAMES)
async def aevaluate(
    samples: Iterable[reading.RowInput] | AsyncIterable[reading.RowInput],
    judges: object,
    *,
    max_concurrency: int = 8,
    out: str | Path | TextIO | None = None,
    on_result: Callable[[Row], object] | None = None,
    keep_rows: bool = True,
    log_texts: bool = False,
    run: str | Path | RunSettings | None = None,
    resume: bool = False,
    map: Mapping[str, str] | None = None,  # noqa: A002 - the name that it has in `read_rows`
    processes: int | None = None,
    batch: bool | BatchSettings = False,
    model: object = None,
) -> Evaluation:
    """Judge every sample of a dataset in tasks; otherwise as `evaluate`.

    `samples` may be an async iterable. Cancelling this cancels the judges at work.
    """
    plan = _CheckedEvaluation(
        judges=_judges_of(judges, samples, model),
        samples=_rows_of(samples, max_concurrency, map),
        settings=_run_settings(run, out, resume=resume, processes=processes, batch=batch),
        max_concurrency=max_concurrency,
        out=out,
        output=RowOutput(on_result=on_result, keep_rows=keep_rows),
        log_texts=log_texts,
    )
    return await plan.judge()


@dataclass(frozen=True, kw_only=True)
class _CheckedEvaluation:
    """The checked arguments of an evaluation; `settings` are None for one in memory, which has no journal."""

    judges: Mapping[str, Judge]
    samples: Any
    settings: RunSettings | None
    max_concurrency: int
    out: str | Path | TextIO | None
    output: RowOutput
    log_texts: bool

    def judge_in_threads(self) -> Evaluation:
        with self._in_memory() as results:
            CellWorkers(enumerate(self.samples), self.judges, results).run_in_threads(self.max_concurrency)
        return results.evaluation().judged_by(_JudgeRecords(self.judges))

    async def judge(self) -> Evaluation:
        if self.settings is not None:
            return await self._judge_run(self.settings)
        numbers = count()
        with self._in_memory() as results:
            rows = ((next(numbers), row) async for row in each(self.samples))
            await CellWorkers(rows, self.judges, results).run(self.max_concurrency)
        return results.evaluation().judged_by(_JudgeRecords(self.judges))

    @contextmanager
    def _in_memory(self) -> Iterator[OrderedRows]:
        """Yield what takes the rows; whatever threads judge after the block is discarded."""
        with (
            self._open_output() as output,
            closing(OrderedRows(self.judges, output)) as results,
            faults.of_run(log_texts=self.log_texts),
        ):
            yield results

    async def _judge_run(self, settings: RunSettings) -> Evaluation:
        with self._open_output() as output, _folder_of(settings) as in_folder:
            work = RunWork(
                judges=self.judges,
                settings=in_folder,
                max_concurrency=self.max_concurrency,
                log_texts=self.log_texts,
            )
            return await _run_samples(self.samples, work, output)

    def _open_output(self) -> AbstractContextManager[RowOutput]:
        return nullcontext(self.output) if self.out is None else _open_file(self.out, self.output)


def _run_settings(
    run: str | Path | RunSettings | None,
    out: object,
    *,
    resume: bool,
    processes: int | None,
    batch: bool | BatchSettings,
) -> RunSettings | None:
    """Return the settings of a run; None for an evaluation in memory."""
    if run is None and batch:
        raise ConfigurationError("batch=True goes with run=..., the folder that remembers batches until they end")
    if run is None and resume:
        raise ConfigurationError("resume=True goes with run=..., the folder of the run to go on with")
    if run is None and processes in (None, 1):
        return None
    if run is not None and out is not None:
        raise ConfigurationError("a run has its results in its folder; leave out=... away")
    settings = run if isinstance(run, RunSettings) else RunSettings(folder=run or _TEMPORARY)
    return settings.evolve(
        resume=resume or settings.resume,
        processes=settings.processes if processes is None else processes,
        batch=settings.batch if not batch else batch if isinstance(batch, BatchSettings) else BatchSettings(),
    )


_TEMPORARY = Path()
"""Stands for a folder that exists only while processes judge."""


@contextmanager
def _folder_of(settings: RunSettings) -> Iterator[RunSettings]:
    if settings.folder is not _TEMPORARY:
        yield settings
        return
    with TemporaryDirectory(prefix="judges-") as folder:
        yield settings.evolve(folder=Path(folder) / "run")


def finish(judging: Coroutine[Any, Any, _T]) -> _T:
    """Finish what judges from sync code, in a thread of its own where a loop is running in this one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(judging)
    with DaemonThreads(1) as threads:
        judged: _T = threads.submit(asyncio.run, judging).result()
        return judged


def judges_by_name(judges: object, model: object = None) -> dict[str, Judge]:
    """Return judges by name; functions become judges, and names are loaded, to ask the model if they ask one.

    Raises:
        ConfigurationError: If there is none, one cannot be a judge, or two share a name.
    """
    name: object = getattr(judges, "name", None)
    if isinstance(judges, Judge) and isinstance(name, str) and name.strip():
        return {name: judges}
    judges = named(judges, model=model, remedy=_MODEL_REMEDY)
    if isinstance(judges, Mapping):
        by_name = {judge_name(str(name)): as_judge(judge, name=str(name)) for name, judge in judges.items()}
    else:
        by_name = _by_own_names(
            [as_judge(one) for one in (judges if isinstance(judges, list | tuple) else [judges])]
        )
    if not by_name:
        raise ConfigurationError("at least one judge is needed; none was given")
    return by_name


def _by_own_names(judges: list[Judge]) -> dict[str, Judge]:
    for judge in judges:
        judge_name(judge.name)
    shared = sorted(name for name, times in Counter(judge.name for judge in judges).items() if times > 1)
    if shared:
        raise ConfigurationError(
            f"several judges are called {', '.join(map(repr, shared))}; give each a name=... of its own, or "
            f"give a mapping of names to judges"
        )
    return {judge.name: judge for judge in judges}


def _judges_of(judges: object, samples: object, model: object) -> Mapping[str, Judge]:
    if isinstance(samples, Judge | FunctionType):
        raise ConfigurationError("the rows come first, and the judges after them: evaluate(rows, judge)")
    return judges_by_name(judges, model)


def _rows_of(samples: Any, max_concurrency: int, columns: Mapping[str, str] | None) -> Any:
    if type(max_concurrency) is not int or max_concurrency < 1:
        raise unfit("max_concurrency is a whole number from 1", max_concurrency)
    if isinstance(samples, str | Path):
        raise ConfigurationError(f"samples are rows, not a path; give read_rows({shortened(str(samples))})")
    if isinstance(samples, Evaluation):
        raise ConfigurationError(
            "samples are rows, not an Evaluation; give [row.sample for row in evaluation.rows]"
        )
    if isinstance(samples, list | tuple) and samples and all(isinstance(row, str) for row in samples):
        raise ConfigurationError("samples are rows, not texts; give [{'answer': text} for text in texts]")
    if columns is None and isinstance(samples, list):
        return samples
    rows = reading.rows_in(samples)
    if rows is samples and not hasattr(rows, "__len__") and row_of(rows) is not None:
        raise ConfigurationError(f"samples are several rows, not one {type(samples).__name__}; give [sample]")
    if not hasattr(rows, "__iter__") and not hasattr(rows, "__aiter__"):
        raise ConfigurationError(
            f"samples are rows such as [{{'question': ..., 'answer': ...}}], not {shortened(samples)}"
        )
    return reading.rename_rows(rows, reading.checked_columns(columns))


@contextmanager
def _open_file(out: str | Path | TextIO, output: RowOutput) -> Iterator[RowOutput]:
    """Yield the output with rows written as lines to `out`, each flushed before it is reported."""
    with (
        Path(out).open("w", encoding="utf-8", newline="\n")
        if isinstance(out, str | Path)
        else nullcontext(out) as file
    ):

        def write(row: Row) -> None:
            file.write(f"{row.line()}\n")
            file.flush()
            if output.on_result is not None:
                output.on_result(row)

        yield replace(output, on_result=write)


Loader = Callable[[], Mapping[str, Judge]]
"""Makes the judges of a run; it can be pickled."""


async def _run_samples(
    samples: Iterable[reading.RowInput] | AsyncIterable[reading.RowInput], work: RunWork, output: RowOutput
) -> Evaluation:
    """Judge samples into the folder of a run; rows that can be read only once are kept there, too."""
    settings, total = work.settings, len(samples) if isinstance(samples, Sized) else None
    records = tuple(JudgeRecord(name=name) for name in work.judges)
    if settings.batch is None and settings.resume and Manifest.read(Path(settings.folder)).batch:
        work = work.evolve(batch=BatchSettings())  # of those that it was begun with some may be under way
    is_batched = work.settings.batch is not None
    manifest = Manifest(judges=records, rows=total, shard=settings.shard, batch=is_batched)
    with opened(manifest, work) as folder:
        source = RunRows(await _spooled(samples, folder), total=total, shard=manifest.shard)
        return await _judge_folder(source, work, folder, output)


async def _spooled(
    samples: Iterable[reading.RowInput] | AsyncIterable[reading.RowInput], folder: Path
) -> Callable[[], Iterable[reading.RowInput]]:
    """Return what reads rows from the beginning; rows that can be read only once are written to a file first."""
    if not isinstance(samples, AsyncIterable) and iter(samples) is not samples:
        return lambda: samples
    path = folder / SPOOL
    with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        async for row in each(samples):
            file.write(row_json(reading.read_sample(row)) + b"\n")
    return lambda: _unspooled(path)


def _unspooled(path: Path) -> Iterator[reading.RowInput]:
    with path.open("rb") as file:
        for line in file:
            yield read_again(json.loads(line))


async def run_source(
    source: RunRows, work: RunWork, manifest: Manifest, output: RowOutput, load: Loader | None = None
) -> Evaluation:
    """Judge rows into the folder of a run that `manifest` describes; other processes `load` its judges."""
    with opened(manifest, work) as folder:
        # the manifest says whether dataset or judges changed
        return await _judge_folder(source, work.evolve(accept_changes=True), folder, output, load)


@contextmanager
def opened(manifest: Manifest, work: RunWork) -> Iterator[Path]:
    """Create or resume a run: hold its lock, and check that dataset and judges are those it began with.

    Raises:
        ConfigurationError: If there is a run already, or none to resume, or it is in use, or something changed.
    """
    settings, folder = work.settings, Path(work.settings.folder)
    complete = with_fingerprints(manifest, work.judges)
    if settings.resume:
        Manifest.read(folder)
    else:
        check_free(folder)
    is_new = make_folder(folder)
    with full_disk_told(folder), locked(folder) as takeover, _removed_if_unused(folder, is_new=is_new):
        if takeover:
            _log.warning("%s", takeover)
        if settings.resume:
            _check_unchanged(complete, Manifest.read(folder), settings)
        else:
            check_free(folder, is_ours=True)
        complete.write(folder)
        yield folder


def with_fingerprints(manifest: Manifest, judges: Mapping[str, Judge]) -> Manifest:
    """Return the manifest with what each judge's verdicts depend on."""
    records = [_completed(record, judges[record.name]) for record in manifest.judges]
    return manifest.model_copy(update={"judges": tuple(records), "versions": versions_in_use()})


def check_free(folder: Path, *, is_ours: bool = False) -> None:
    """Check that a folder holds no run yet.

    Args:
        folder: The folder.
        is_ours: Whether the caller holds its lock.

    Raises:
        ConfigurationError: If it does; the message says how to go on.
    """
    try:
        is_taken = any((folder / name).exists() for name in (MANIFEST, RESULTS, SUMMARY))
    except ValueError as error:
        raise ConfigurationError(f"{shortened(str(folder))} is no path ({error}); choose another --out") from None
    if is_taken and not is_ours:
        check_unlocked(folder)
    if is_taken and (folder / MANIFEST).exists() and not (folder / SUMMARY).exists():
        raise ConfigurationError(
            f"{folder} already holds a run that has not finished; go on with `refine resume {folder}`, choose "
            f"another --out, or delete it first"
        )
    if is_taken:
        raise ConfigurationError(f"{folder} already holds a run; choose another --out, or delete it first")


def _check_unchanged(now: Manifest, before: Manifest, settings: RunSettings) -> None:
    changes = now.changes(before, rescored=settings.rescored)
    if changes and not settings.accept_changes:
        again = f"`refine resume {settings.folder} --accept-changes`" if settings.rescored else "--accept-changes"
        raise ConfigurationError(
            f"changed since {settings.folder} began: {'; '.join(changes)}; undo it, or judge what changed again "
            f"with {again} (accept_changes=True)"
        )


@contextmanager
def _removed_if_unused(folder: Path, *, is_new: bool) -> Iterator[None]:
    """Remove a new folder again if an error ends the run before anything was judged."""
    try:
        yield
    except BaseException:
        if is_new and not _holds_anything(folder):
            shutil.rmtree(folder)
        raise


def _holds_anything(folder: Path) -> bool:
    """Return whether anything was judged or uploaded: a journal with lines, or a file in a folder of the run's."""
    journal = folder / JOURNAL
    has_lines = journal.exists() and journal.stat().st_size > 0
    return has_lines or any(path.is_dir() and any(path.iterdir()) for path in folder.iterdir())


async def _judge_folder(
    source: RunRows, work: RunWork, folder: Path, output: RowOutput, load: Loader | None = None
) -> Evaluation:
    started = time.monotonic()
    gather(folder, source.step)  # those of an earlier start that was killed
    if work.settings.batch is not None:
        from judges.offline.run.batch import judge_in_batches  # noqa: PLC0415 - loads the direct client

        await judge_in_batches(source, work, folder)
    elif work.settings.processes > 1:
        await judge_in_processes(source, work, folder, load)
    if work.settings.batch is not None or work.settings.processes > 1:  # nothing is missing in the journal
        work = work.evolve(retry_failed=False, on_progress=None, processes=1, batch=None)
    with closing(Journal(folder)) as journal:
        warn_of_unreadable(journal)
        with run_files(folder, journal, work.judges) as files:
            results = OrderedRows(work.judges, output, files)
            await judge_missing(source, work, journal, size=source.size, sink=results)
            results.finish(source)
        return sum_up(results, folder, output, seconds=time.monotonic() - started)


def load_run(folder: str | Path) -> Evaluation:
    """Return the evaluation of a finished run, with its rows; latencies are not in it.

    Raises:
        ConfigurationError: If the folder holds no run, or one that has not finished.
    """
    folder = Path(folder)
    path = folder / RESULTS
    if not path.is_file():
        Manifest.read(folder)
        raise ConfigurationError(f"{folder} has not finished; go on with `refine resume {folder}`")
    try:
        with path.open("rb") as file, _garbage_left():
            rows = tuple(read_as(Row, line) for line in file)
    except ValidationError as error:
        fault = first_fault(error)[1]
        raise ConfigurationError(f"{path} cannot be read: {fault}; it was changed after the run") from None
    records = Manifest.read(folder).by_name if (folder / MANIFEST).exists() else {}
    return Evaluation(rows=rows, summary=summarise_rows(rows)).judged_by(records)


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Do not look for garbage: every row read stays, and looking through them takes twice as long as reading."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def check_shards(folders: Sequence[Path]) -> Manifest:
    """Return the manifest of the run that some shards make up together.

    Raises:
        ConfigurationError: If they are not all the shards of one run, each finished.
    """
    manifests = [Manifest.read(folder) for folder in folders]
    whole = [manifest.model_copy(update={"shard": None}) for manifest in manifests]
    for folder, manifest, other in zip(folders, manifests, whole, strict=True):
        if manifest.shard is None:
            raise ConfigurationError(
                f"{folder} is a whole run, not a shard of one; there is nothing to merge it with"
            )
        changes = other.changes(whole[0])
        if changes:
            raise ConfigurationError(
                f"{folder} and {folders[0]} are not shards of one run: {'; '.join(changes)} differ"
            )
        if not (folder / SUMMARY).exists():
            raise ConfigurationError(f"{folder} has not finished; go on with `refine resume {folder}` first")
    _check_parts(folders, manifests)
    return whole[0]


def merge(folders: Sequence[Path], out: Path, source: RunRows, output: RowOutput) -> Evaluation:
    """Write the run that finished shards make up together into a new folder, and return its evaluation.

    Args:
        folders: Folders of the shards.
        out: The new folder.
        source: All rows of the dataset.
        output: What becomes of the rows.

    Raises:
        ConfigurationError: If the shards are not all of one run, or the folder cannot be written.
    """
    manifest = check_shards(folders)
    check_free(out)
    make_folder(out)
    with ExitStack() as locks:
        for folder in (*folders, out):
            locks.enter_context(locked(folder))
        check_free(out, is_ours=True)
        manifest.write(out)
        journal = locks.enter_context(closing(Journal(out)))
        for folder in folders:
            with closing(Journal(folder)) as shard:
                journal.copy_cells(shard)
        names = [judge.name for judge in manifest.judges]
        with run_files(out, journal, names) as files:
            results = OrderedRows(names, output, files)
            results.finish_all(source)
        return sum_up(results, out, output, seconds=0.0)


def _check_parts(folders: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    parts = {manifest.shard: folder for folder, manifest in zip(folders, manifests, strict=True) if manifest.shard}
    numbers = {n for _, n in parts}
    if len(numbers) > 1:
        raise ConfigurationError(f"these are shards of {sorted(numbers)} parts; merge the shards of one run")
    (n,) = numbers
    if len(parts) < len(manifests):
        raise ConfigurationError("the same shard is named twice; name each one once")
    missing = [f"{part}/{n}" for part in range(1, n + 1) if (part, n) not in parts]
    if missing:
        raise ConfigurationError(
            f"shards are missing: {', '.join(missing)}; judge them first with --shard {missing[0]}"
        )


class _JudgeRecords(Mapping[str, JudgeRecord]):
    """The records of judges by name, made when they are asked for: a fingerprint walks through all of a judge."""

    def __init__(self, judges: Mapping[str, Judge]) -> None:
        self._judges, self._made = judges, dict[str, JudgeRecord]()

    def __getitem__(self, name: str) -> JudgeRecord:
        if name not in self._made:
            self._made[name] = _completed(JudgeRecord(name=name), self._judges[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._judges)

    def __len__(self) -> int:
        return len(self._judges)

    def __reduce__(self) -> tuple[type, tuple[dict[str, JudgeRecord]]]:
        return dict, (dict(self),)


def _completed(record: JudgeRecord, judge: Judge) -> JudgeRecord:
    """Return the record of a judge with its fingerprint, its prompts and its settings."""
    for model in judge.models:
        getattr(model, "_model", None)  # a model by name is set up now: its fingerprint has its settings
    shown = {"prompts": dict(_prompts_of(judge.explain())), "settings": dict(_settings_of(judge))}
    return record.model_copy(update={"fingerprint": fingerprint(judge), **shown})


def _prompts_of(explanation: Explanation) -> Iterator[tuple[str, str]]:
    yield from explanation.prompts.items()
    for part in explanation.parts:
        yield from _prompts_of(part)


def _settings_of(judge: Judge, inside: str = "") -> Iterator[tuple[str, str]]:
    """Yield in words what a judge was made with, and each judge inside it; models and judges by their names."""
    yield f"{inside}class", type(judge).__name__
    for name, value in getattr(judge, MADE_WITH, {}).items():
        parts = [
            part for part in (value if isinstance(value, list | tuple) else [value]) if isinstance(part, Judge)
        ]
        named = judge.models if name == "model" else parts
        yield f"{inside}{name}", ", ".join(one.name for one in named) if named else _in_words(value)
        for part in parts:
            yield from _settings_of(part, f"{inside}{part.name}.")


def _in_words(value: object) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except TypeError:
        return str(getattr(value, "__qualname__", type(value).__name__))
    return shortened(text)[1:-1]
