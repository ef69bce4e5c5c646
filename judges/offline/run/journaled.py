"""Judging a dataset into the folder of a run, which survives a crash and is resumed where it ended."""

from __future__ import annotations

import gc
import logging
import shutil
import time
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from pydantic import ValidationError

from judges.errors import ConfigurationError, first_fault, shortened
from judges.fingerprint import versions_in_use
from judges.judge import Judge
from judges.offline.dataset.reading import RowInput
from judges.offline.results import Evaluation, Row, summarise_rows
from judges.offline.run import outputs
from judges.offline.run.cells import RunWork, judge_missing, warn_of_unreadable
from judges.offline.run.journal import NAME as JOURNAL
from judges.offline.run.journal import Journal, check_unlocked, full_disk_told, locked, make_folder
from judges.offline.run.outputs import RESULTS, SUMMARY, OrderedRows, RowOutput, run_files, sum_up
from judges.offline.run.processes import gather
from judges.offline.run.settings import BatchSettings, RunSettings
from judges.offline.run.source import NAME as MANIFEST
from judges.offline.run.source import JudgeRecord, Manifest, RunRows, completed, spooled

_log = logging.getLogger("judges")
Loader = Callable[[], Mapping[str, Judge]]
"""Makes the judges of a run; it can be pickled."""


async def run_samples(
    samples: Iterable[RowInput] | AsyncIterable[RowInput], work: RunWork, output: RowOutput
) -> Evaluation:
    """Judge samples into the folder of a run; rows that can be read only once are kept there, too."""
    settings, total = work.settings, len(samples) if isinstance(samples, Sized) else None
    records = tuple(JudgeRecord(name=name) for name in work.judges)
    if settings.batch is None and settings.resume and Manifest.read(Path(settings.folder)).batch:
        work = work.evolve(batch=BatchSettings())  # of those that it was begun with some may be under way
    is_batched = work.settings.batch is not None
    manifest = Manifest(judges=records, rows=total, shard=settings.shard, batch=is_batched)
    with opened(manifest, work) as folder:
        source = RunRows(await spooled(samples, folder), total=total, shard=manifest.shard)
        return await _judge(source, work, folder, output)


async def run_source(
    source: RunRows, work: RunWork, manifest: Manifest, output: RowOutput, load: Loader | None = None
) -> Evaluation:
    """Judge rows into the folder of a run that `manifest` describes; other processes `load` its judges."""
    with opened(manifest, work) as folder:
        # the manifest says whether dataset or judges changed
        return await _judge(source, work.evolve(accept_changes=True), folder, output, load)


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
    records = [completed(record, judges[record.name]) for record in manifest.judges]
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
        is_taken = any((folder / name).exists() for name in (MANIFEST, outputs.RESULTS, outputs.SUMMARY))
    except ValueError as error:
        raise ConfigurationError(f"{shortened(str(folder))} is no path ({error}); choose another --out") from None
    if is_taken and not is_ours:
        check_unlocked(folder)
    if is_taken and (folder / MANIFEST).exists() and not (folder / outputs.SUMMARY).exists():
        raise ConfigurationError(
            f"{folder} already holds a run that has not finished; go on with `refine resume {folder}`, choose "
            f"another --out, or delete it first"
        )
    if is_taken:
        raise ConfigurationError(f"{folder} already holds a run; choose another --out, or delete it first")


def _check_unchanged(now: Manifest, before: Manifest, settings: RunSettings) -> None:
    changes = now.changes(before, rescored=settings.rescored)
    if changes and not settings.accept_changes:
        raise ConfigurationError(
            f"changed since {settings.folder} began: {'; '.join(changes)}; undo it, or judge what changed again "
            f"with --accept-changes (accept_changes=True)"
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


async def _judge(
    source: RunRows, work: RunWork, folder: Path, output: RowOutput, load: Loader | None = None
) -> Evaluation:
    started = time.monotonic()
    gather(folder, source.step)  # those of an earlier start that was killed
    if work.settings.batch is not None:
        from judges.offline.run.batch import judge_in_batches  # noqa: PLC0415 - loads the direct client

        await judge_in_batches(source, work, folder)
    elif work.settings.processes > 1:
        from judges.offline.run.processes import judge_in_processes  # noqa: PLC0415 - loads multiprocessing

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
            rows = tuple(Row.model_validate_json(line) for line in file)
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
    with ExitStack() as held:
        for folder in (*folders, out):
            held.enter_context(locked(folder))
        check_free(out, is_ours=True)
        manifest.write(out)
        journal = held.enter_context(closing(Journal(out)))
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
