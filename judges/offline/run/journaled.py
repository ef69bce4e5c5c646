"""Judging a dataset into the folder of a run, which survives a crash and is resumed where it ended."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from judges.errors import ConfigurationError, shortened
from judges.fingerprint import fingerprint
from judges.judge import Judge
from judges.models.wrappers.limiter import Limiter
from judges.offline.results import Evaluation, Row
from judges.offline.run import outputs
from judges.offline.run.cells import CellWorkers
from judges.offline.run.files import make_folder
from judges.offline.run.journal import NAME as JOURNAL
from judges.offline.run.journal import Journal
from judges.offline.run.lock import check_unlocked, locked
from judges.offline.run.manifest import NAME as MANIFEST
from judges.offline.run.manifest import JudgeRecord, Manifest
from judges.offline.run.meter import CallMeter
from judges.offline.run.pricing import PricesAlone, RememberedPrices
from judges.offline.run.progress import OnProgress
from judges.offline.run.source import RowInput, Source, checked_shard, spooled
from judges.runtime import budget, faults
from judges.runtime.prices import Price, known_prices

_log = logging.getLogger("judges")


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How a run is kept, limited and resumed; for `evaluate(..., run=RunSettings(folder="runs/1", ...))`.

    Args:
        folder: Folder of the run, with its journal and in the end its results.
        resume: Whether the run was begun before: only what is missing is judged.
        retry_failed: Whether cells whose judging failed count as missing.
        accept_changes: Whether a dataset or a judge may have changed since; what changed is judged again.
        shard: Part and number of parts, (1, 4) for every fourth row from the first; None for all rows.
        rate: Most calls begun in any 60 seconds; None for any number.
        tokens_per_minute: Most tokens in any 60 seconds; None for any number.
        max_calls: Most model calls of this start; the run then stops, and can be resumed.
        max_cost: Most US dollars of this start, likewise.
        rescored: Names of judges that are added, or replaced, on purpose.
        prices: Price by model name; None takes `judges.known_prices()` where its package is installed.
        on_progress: Called with a `Progress`, at most a few times a second.
    """

    folder: str | Path
    resume: bool = False
    retry_failed: bool = False
    accept_changes: bool = False
    rescored: frozenset[str] = frozenset()
    shard: tuple[int, int] | None = None
    rate: int | None = None
    tokens_per_minute: int | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    prices: Mapping[str, Price] | None = None
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        checked_shard(self.shard)
        for name, least in (("max_calls", 1), ("max_cost", 0)):
            limit = getattr(self, name)
            if limit is not None and (
                isinstance(limit, bool) or not isinstance(limit, int | float) or limit < least
            ):
                raise ConfigurationError(f"{name} is a number from {least}, not {shortened(limit)}")

    def watched(self, on_progress: OnProgress) -> RunSettings:
        """Return the same settings with somebody who hears of the progress."""
        return replace(self, on_progress=on_progress)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What becomes of the rows of a run beside its files.

    Args:
        on_result: Called with each row in order, as soon as it is written.
        faults_only: Whether it is called with rows alone that have a cell without a score.
        keep_rows: Whether the evaluation holds the rows.
        facts: What else the summary says.

    Attributes:
        rows: The rows kept.
    """

    on_result: Callable[[Row], object] | None = None
    faults_only: bool = False
    keep_rows: bool = True
    facts: Mapping[str, object] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def needs(self, *, has_fault: bool) -> bool:
        """Whether a row is needed, given whether it has a cell without a score."""
        return self.keep_rows or (self.on_result is not None and (has_fault or not self.faults_only))

    def on_row(self, row: Row) -> None:
        """Take a row that was written."""
        if self.keep_rows:
            self.rows.append(row)
        if self.on_result is not None:
            self.on_result(row)


async def run_samples(
    samples: Iterable[RowInput] | AsyncIterable[RowInput],
    judges: Mapping[str, Judge],
    settings: RunSettings,
    *,
    max_concurrency: int,
    log_texts: bool,
    output: Outputs,
) -> Evaluation:
    """Judge samples into the folder of a run; rows that can be read only once are kept there, too."""
    total = len(samples) if isinstance(samples, Sized) else None
    records = tuple(JudgeRecord(name=name) for name in judges)
    manifest = Manifest(judges=records, rows=total, shard=settings.shard)
    with opened(manifest, judges, settings) as folder:
        read = await spooled(samples, folder)
        source = Source(read, total=total, shard=manifest.shard)
        return await _judge(
            source, judges, settings, folder, max_concurrency=max_concurrency, log_texts=log_texts, output=output
        )


async def run_source(
    source: Source,
    judges: Mapping[str, Judge],
    manifest: Manifest,
    settings: RunSettings,
    *,
    max_concurrency: int,
    output: Outputs,
) -> Evaluation:
    """Judge rows into the folder of a run that `manifest` describes."""
    with opened(manifest, judges, settings) as folder:
        accepted = replace(
            settings, accept_changes=True
        )  # as the manifest tells whether dataset or judges changed
        return await _judge(
            source, judges, accepted, folder, max_concurrency=max_concurrency, log_texts=False, output=output
        )


@contextmanager
def opened(manifest: Manifest, judges: Mapping[str, Judge], settings: RunSettings) -> Iterator[Path]:
    """Create or resume a run: hold its lock, and check that dataset and judges are those it began with.

    Raises:
        ConfigurationError: If there is a run already, or none to resume, or it is in use, or something changed.
    """
    folder = Path(settings.folder)
    complete = with_fingerprints(manifest, judges)
    if settings.resume:
        Manifest.read(folder)
    else:
        check_free(folder)
    is_new = make_folder(folder)
    with locked(folder) as takeover, _removed_if_unused(folder, is_new=is_new):
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
    records = [replace_fingerprint(record, judges[record.name]) for record in manifest.judges]
    return manifest.model_copy(update={"judges": tuple(records)})


def replace_fingerprint(record: JudgeRecord, judge: Judge) -> JudgeRecord:
    """Return the record of a judge with its fingerprint."""
    for model in judge.models:
        getattr(model, "_model", None)  # a model by name is set up now: its fingerprint has its settings
    return record.model_copy(update={"fingerprint": fingerprint(judge)})


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
        journal = folder / JOURNAL
        if is_new and (not journal.exists() or journal.stat().st_size == 0):
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
        raise


async def _judge(
    source: Source,
    judges: Mapping[str, Judge],
    settings: RunSettings,
    folder: Path,
    *,
    max_concurrency: int,
    log_texts: bool,
    output: Outputs,
) -> Evaluation:
    started = time.monotonic()
    journal = Journal(folder)
    try:
        if journal.unreadable:
            _log.warning(
                "%s: %d lines cannot be read, the first is line %d; their cells are judged again",
                journal.path,
                len(journal.unreadable),
                journal.unreadable[0],
            )
        prices = _prices(settings, judges)
        meter = CallMeter(
            Limiter(
                max_concurrency, requests_per_minute=settings.rate, tokens_per_minute=settings.tokens_per_minute
            ),
            prices=prices,
            max_calls=settings.max_calls,
            max_cost=settings.max_cost,
        )
        allowance = PricesAlone(prices=prices)
        with outputs.Results(folder, journal, judges, output) as results:
            workers = CellWorkers(source, judges, results, meter, settings)
            with faults.of_run(log_texts=log_texts), budget.also_within(allowance):
                await workers.run(max_concurrency)
            results.finish(source)
        return summed_up(results, folder, output, seconds=time.monotonic() - started)
    finally:
        journal.close()


def summed_up(results: outputs.Results, folder: Path, output: Outputs, *, seconds: float) -> Evaluation:
    """Write the summary of a run whose results are written, and return the evaluation."""
    summary = {name: tally.summary() for name, tally in results.tallies.items()}
    facts = {"rows": next(iter(summary.values())).n, **output.facts}
    outputs.write_summary(folder, summary, facts, seconds=seconds)
    return Evaluation(rows=tuple(output.rows), summary=summary)


def _prices(settings: RunSettings, judges: Mapping[str, Judge]) -> RememberedPrices:
    """Return the prices of a run; without judges that ask models there is nothing to price."""
    if settings.prices is not None:
        return RememberedPrices(settings.prices)
    if not any(judge.models for judge in judges.values()):
        return RememberedPrices({})
    try:
        return RememberedPrices(known_prices())
    except ConfigurationError:
        if settings.max_cost is not None:
            raise
        return RememberedPrices({})
