"""Judging the cells of a dataset that are missing: the one engine of evaluations in memory and of runs.

A cell is one row before one judge. A store says which cells are missing, and keeps their verdicts: that of a run
is its journal, and that of an evaluation in memory writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import as_completed
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from judges.errors import BadSample, ConfigurationError
from judges.fingerprint import fingerprint
from judges.judge import Judge
from judges.models.wrappers.limiter import Limiter
from judges.offline.dataset.reading import NumberedRow, RowInput, read_sample
from judges.offline.run import outputs
from judges.offline.run.calls import (
    Awaiting,
    CallCollector,
    CallMeter,
    CellCalls,
    RememberedPrices,
    RunStopped,
)
from judges.offline.run.journal import CallRecord, Journal, is_failure
from judges.offline.run.settings import Progress, RunSettings, divided
from judges.offline.run.source import digest_of, each, row_json
from judges.runtime import faults, observation
from judges.runtime.budget import Allowance
from judges.runtime.flow import DaemonThreads, NextTurn
from judges.runtime.observation import Shared, observing, shared_work
from judges.runtime.prices import known_prices
from judges.sample import Sample
from judges.verdict import Usage, Verdict

_log = logging.getLogger("judges")
_REPORT_EVERY_S = 0.2
_UNWATCHED = nullcontext()


class _RowSink(Protocol):
    """Takes the cells of rows; see `judges.offline.run.outputs.OrderedRows`."""

    def expect(self, row: int, sample: Sample | BadSample, text: bytes, missing: int) -> None:
        """Take note of the next row, of which some cells are missing still."""
        ...

    def add(self, row: int, text: bytes, verdict: Verdict) -> None:
        """Take a cell that has been stored."""
        ...


@dataclass(frozen=True, slots=True)
class _NoSink:
    """Takes nothing: another worker, or a later pass, writes the results from the journal."""

    def expect(self, row: int, sample: Sample | BadSample, text: bytes, missing: int) -> None:
        """Expect nothing."""

    def add(self, row: int, text: bytes, verdict: Verdict) -> None:
        """Write nothing."""


_NO_SINK = _NoSink()


@dataclass(frozen=True, kw_only=True)
class RunWork:
    """How the cells of a run, or of its part, are judged.

    Args:
        judges: The judges by name.
        settings: Limits, and which cells are judged again.
        max_concurrency: Model calls at once.
        log_texts: Whether the log of a judge's own errors holds what they say.
    """

    judges: Mapping[str, Judge]
    settings: RunSettings
    max_concurrency: int
    log_texts: bool = False

    def evolve(self, **settings: Any) -> RunWork:
        """Return the same with some settings changed."""
        return replace(self, settings=self.settings.evolve(**settings))

    def part(self, number: int, of: int) -> RunWork:
        """Return the share of worker `number`, from 0, of several.

        Raises:
            ConfigurationError: If a limit is too small to be divided so often.
        """
        settings = self.settings.part(number, of)
        calls = divided(self.max_concurrency, number, of, "max_concurrency") or 1
        return replace(self, settings=settings, max_concurrency=calls)


class _CellWork(NamedTuple):
    """Missing cells of one row, which one worker judges one after the other.

    Args:
        row: Index of the row.
        sample: The row; an error where it cannot be read.
        keys: By judge, what its verdict depends on.
        shared: What all workers on the row share; None where this worker has all its cells.
        records: Journaled calls of the row.
    """

    row: int
    sample: Sample | BadSample
    keys: Mapping[str, int]
    shared: Shared | None = None
    records: tuple[CallRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class _NoJournal:
    """The store of an evaluation in memory: every cell is missing, no call is watched, and nothing is written.

    Args:
        judges: Names of the judges.
    """

    judges: Iterable[str]
    stopped: ConfigurationError | None = None

    def missing(self, row: int, sample: Sample | BadSample, sink: _RowSink) -> Iterable[_CellWork]:
        """Return the whole row, so that its judges share one worker."""
        keys = dict.fromkeys(self.judges, 0)
        sink.expect(row, sample, b"", len(keys))
        return (_CellWork(row, sample, keys),)

    def watch(self, work: _CellWork, judge: str) -> None:
        """Watch nothing."""

    def keep(self, work: _CellWork, verdict: Verdict, calls: CellCalls | None) -> bytes:
        """Write nothing."""
        del work, verdict, calls
        return b""


class CellWorkers:
    """Judges the missing cells of a dataset in its order, several workers side by side: threads, or tasks.

    Args:
        rows: The rows with their numbers, read where they are no samples; an async iterable for tasks alone.
        judges: The judges by name.
        sink: Takes what is judged.
        store: Says what is missing, and keeps verdicts; None judges in memory.
    """

    def __init__(
        self,
        rows: Iterable[NumberedRow] | AsyncIterable[NumberedRow],
        judges: Mapping[str, Judge],
        sink: _RowSink,
        store: _JournaledCells | None = None,
    ) -> None:
        self._rows, self._judges, self._sink = rows, judges, sink
        self._store = _NoJournal(judges) if store is None else store
        self._due: deque[_CellWork] = deque()
        self._is_over = False

    def run_in_threads(self, workers: int) -> None:
        """Judge what is missing, in daemon threads: a call that hangs delays neither an error nor the process.

        Raises:
            ConfigurationError: If a judge is set up wrongly; other threads finish their row in the background.
        """
        assert isinstance(self._rows, Iterable)  # noqa: S101 - checked by the caller
        rows, lock = iter(self._rows), threading.Lock()
        with DaemonThreads(workers) as threads:
            running = set()
            try:
                for _ in range(workers):
                    running.add(threads.submit(self._work, rows, lock))
                for future in as_completed(running):
                    future.result()
            finally:
                self._is_over = True

    async def run(self, workers: int) -> None:
        """Judge what is missing, in tasks.

        Raises:
            RunStopped: If a limit of the run was reached; calls in flight have been finished.
            ConfigurationError: If every further call would fail; calls in flight are given up.
        """
        rows, lock = each(self._rows), asyncio.Lock()
        running = [asyncio.create_task(self._awork(rows, lock)) for _ in range(workers)]
        try:
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await rows.aclose()
        if self._store.stopped is not None:
            raise self._store.stopped

    def _work(self, rows: Iterator[NumberedRow], lock: threading.Lock) -> None:
        try:
            while (work := self._next(rows, lock)) is not None:
                with shared_work():
                    for judge in work.keys:
                        self._judge(work, judge)
        except BaseException:
            self._is_over = True
            raise

    async def _awork(self, rows: AsyncIterator[NumberedRow], lock: asyncio.Lock) -> None:
        while self._store.stopped is None and (work := await self._anext(rows, lock)) is not None:
            with shared_work() if work.shared is None else observing(shared=work.shared):
                for judge in work.keys:
                    try:
                        await self._ajudge(work, judge)
                    except RunStopped:
                        return  # the others end what they are at
                    except Awaiting:
                        continue
            await asyncio.sleep(0)  # a judge that awaits nothing would block the loop

    def _next(self, rows: Iterator[NumberedRow], lock: threading.Lock) -> _CellWork | None:
        with lock:
            while not self._due:
                if self._is_over or (numbered := next(rows, None)) is None:
                    return None
                self._due.extend(self._missing(*numbered))
            return self._due.popleft()

    async def _anext(self, rows: AsyncIterator[NumberedRow], lock: asyncio.Lock) -> _CellWork | None:
        async with lock:
            while not self._due:
                if (numbered := await anext(rows, None)) is None:
                    return None
                self._due.extend(self._missing(*numbered))
            return self._due.popleft()

    def _missing(self, index: int, row: RowInput) -> Iterable[_CellWork]:
        return self._store.missing(index, read_sample(row), self._sink)

    def _judge(self, work: _CellWork, name: str) -> None:
        if isinstance(work.sample, BadSample):
            return self._finish(work, name, _verdict_on_unreadable(work.sample), None)
        try:
            verdict = self._judges[name](work.sample)
        except Exception as error:  # noqa: BLE001 - sorted in one place
            verdict = _verdict_on_fault(error, self._judges[name])
        return self._finish(work, name, verdict, None)

    async def _ajudge(self, work: _CellWork, name: str) -> None:
        if isinstance(work.sample, BadSample):
            return self._finish(work, name, _verdict_on_unreadable(work.sample), None)
        calls = self._store.watch(work, name)
        with _UNWATCHED if calls is None else observing(call_watcher=calls):
            try:
                verdict = await self._judges[name].acall(work.sample)
            except Exception as error:  # noqa: BLE001 - sorted in one place
                verdict = _verdict_on_fault(error, self._judges[name])
        return self._finish(work, name, verdict, calls)

    def _finish(self, work: _CellWork, name: str, verdict: Verdict, calls: CellCalls | None) -> None:
        if verdict.judge != name:
            verdict = verdict.named(name)
        text = self._store.keep(work, verdict, calls)
        if text is not None:
            self._sink.add(work.row, text, verdict)


def _verdict_on_unreadable(row: BadSample) -> Verdict:
    return Verdict.without_score("invalid_sample", f"the row cannot be read: {row}")


def _verdict_on_fault(error: Exception, judge: Judge) -> Verdict:
    """Return the verdict of a judge that raised outside its deliberation; its fault must not lose the row."""
    if isinstance(error, ConfigurationError):
        raise error
    return Verdict.without_score("judge_failed", faults.report(error, repr(judge.name)))


class _JournaledCells:
    """The store of a run: its journal.

    Args:
        journal: The journal.
        work: The judges, which cells are judged again, and who hears of progress.
        meter: The model calls of the run.
        rows: How many rows there are; None where that is unknown.
        collector: Takes calls that are made later; None makes them now.
    """

    def __init__(
        self,
        journal: Journal,
        work: RunWork,
        meter: CallMeter,
        *,
        rows: int | None,
        collector: CallCollector | None,
    ) -> None:
        self._journal, self._settings, self._meter = journal, work.settings, meter
        self._collector = collector
        self._fingerprints = {name: fingerprint(judge).encode() for name, judge in work.judges.items()}
        self._next_turn = NextTurn()
        self._past_meter: set[str] = set()
        self._is_complete = True
        self._total = None if rows is None else rows * len(work.judges)
        self._done = self._new = self._unscored = 0
        self._started = self._reported = time.monotonic()

    @property
    def stopped(self) -> ConfigurationError | None:
        """Why no further cell is judged; None while any is."""
        return self._meter.stopped

    def missing(self, row: int, sample: Sample | BadSample, sink: _RowSink) -> Iterator[_CellWork]:
        """Return the missing cells of the next row, each by itself; the first ends what a finished run left."""
        text = row_json(sample)
        digest = digest_of(text if isinstance(sample, Sample) else b"unreadable")
        keys = {judge: self._key(digest, judge) for judge in self._fingerprints}
        missing = {judge: key for judge, key in keys.items() if not self._is_there(row, judge, key)}
        if missing and self._is_complete:
            outputs.remove_results(self._journal.path.parent)
            self._is_complete = False
        sink.expect(row, sample, text, len(missing))
        if missing:
            shared, records = Shared(), tuple(self._journal.calls(row))
            for judge, key in missing.items():
                yield _CellWork(row, sample, {judge: key}, shared, records)

    def watch(self, work: _CellWork, judge: str) -> CellCalls:
        """Return what answers the calls of a cell from the journal, or counts and journals them."""
        return CellCalls(
            self._meter,
            self._journal,
            work.row,
            judge,
            next_turn=self._next_turn,
            records=work.records,
            is_alone=len(self._fingerprints) == 1,
            collector=self._collector,
        )

    def keep(self, work: _CellWork, verdict: Verdict, calls: CellCalls | None) -> bytes | None:
        """Journal a cell; one that may have failed because the run is ending stays missing."""
        if calls is not None:
            calls.finish()
            self._count_own_calls(verdict, calls.sent)
            if self._meter.stopped is not None and is_failure(verdict.unscored):
                return None
        judge, text = verdict.judge, outputs.verdict_json(verdict)
        self._journal.add_cell(
            work.row, judge, work.keys[judge], verdict.latency_s, text, unscored=verdict.unscored
        )
        self._done += 1
        self._new += 1
        self._unscored += verdict.unscored is not None
        self.report()
        return text

    def _key(self, digest: bytes, judge: str) -> int:
        key = blake2b(digest + self._fingerprints[judge], digest_size=8).digest()
        return int.from_bytes(key, "big")

    def _is_there(self, row: int, judge: str, key: int) -> bool:
        cells = self._journal.cells[judge]
        before = cells.key(row)
        if before is None:
            return False
        if before != key:
            self._check_accepted(row, judge)
        elif not (self._settings.retry_failed and cells.has_failed(row)):
            self._done += 1
            self._unscored += cells.is_unscored(row)
            return True
        cells.forget(row)
        self._journal.forget_calls(row, judge)
        return False

    def _check_accepted(self, row: int, judge: str) -> None:
        if not self._settings.accept_changes and judge not in self._settings.rescored:
            raise ConfigurationError(
                f"row {row} changed since {judge!r} judged it, or the judge did; undo the change, or judge such "
                f"rows again with accept_changes=True"
            )

    def _count_own_calls(self, verdict: Verdict, sent: int) -> None:
        """Count calls that a judge's own function made past the meter, which could not hold them."""
        calls = verdict.usage.calls - sent
        if calls <= 0:
            return
        cost = verdict.usage.cost if sent == 0 else 0.0
        self._meter.add(verdict.usage.model_copy(update={"calls": calls, "cost": cost}))
        if self._meter.is_limited and verdict.judge not in self._past_meter:
            self._past_meter.add(verdict.judge)
            _log.warning(
                "the judge %r calls a model by itself: its calls count, but no limit of the run holds them back, "
                "as it does those of a judge that yields Ask(...)",
                verdict.judge,
            )

    def report(self, *, at_once: bool = False) -> None:
        """Pass the progress on, if it was not a moment ago."""
        now = time.monotonic()
        if self._settings.on_progress is None or (now - self._reported < _REPORT_EVERY_S and not at_once):
            return
        self._reported = now
        self._settings.on_progress(self.progress())

    def progress(self) -> Progress:
        """Return how far the run is."""
        seconds = time.monotonic() - self._started
        seconds_left = (
            None if self._total is None or not self._new else (self._total - self._done) * seconds / self._new
        )
        return Progress(
            done=self._done,
            total=self._total,
            unscored=self._unscored,
            in_flight=self._meter.in_flight,
            calls=self._meter.calls,
            cost=self._meter.cost,
            seconds=seconds,
            seconds_left=seconds_left,
        )


async def judge_missing(
    rows: Iterable[tuple[int, Sample | BadSample]],
    work: RunWork,
    journal: Journal,
    *,
    size: int | None,
    sink: _RowSink = _NO_SINK,
    meter: CallMeter | None = None,
    collector: CallCollector | None = None,
) -> Progress:
    """Judge the cells that are missing in a journal, and return how far the run is then.

    Args:
        rows: The rows with their numbers in the dataset.
        work: How they are judged.
        journal: The journal of the run, or of its part.
        size: How many rows there are; None where that is unknown.
        sink: Takes the cells; by default nothing does, as a later pass writes the results from the journal.
        meter: What the calls are counted by; None for a new one.
        collector: Takes calls that are made later, whose cells stay missing; None makes them now.

    Raises:
        RunStopped: If a limit of the run was reached; calls in flight have been finished.
        ConfigurationError: If every further call would fail.
    """
    meter = meter or new_meter(work)
    store = _JournaledCells(journal, work, meter, rows=size, collector=collector)
    journal.drop_calls_of_finished(work.judges)
    with faults.of_run(log_texts=work.log_texts), observation.also_within(_PricesAlone(prices=meter.prices)):
        try:
            await CellWorkers(rows, work.judges, sink, store).run(work.max_concurrency)
        finally:
            store.report(at_once=True)
    return store.progress()


class _PricesAlone(Allowance):
    """An allowance without limits that counts nothing: it tells what calls cost. The meter of the run counts them.

    Args:
        prices: Prices by model name.
    """

    def __init__(self, prices: RememberedPrices) -> None:
        super().__init__(prices=prices)
        self._remembered = prices

    def take(self, key: Hashable = None, *, as_call: bool = True) -> None:
        """Claim nothing."""

    def check(self) -> None:
        """Refuse nothing."""

    def add(
        self,
        usage: Usage,
        model: str | None,
        key: Hashable = None,
        *,
        requested: str | None = None,
        as_call: bool = True,
    ) -> Usage:
        """Return the usage of a call with its cost."""
        del key
        has_price = bool(usage.cost)  # a call of a batch was priced when it came
        priced = (
            usage if (model or requested) is None or has_price else self._remembered.cost(usage, model, requested)
        )
        return priced if as_call else priced.model_copy(update={"calls": 0})

    def fail(self, key: Hashable = None) -> None:
        """Record nothing."""

    def retries_left(self) -> bool:
        """Return whether a call may be repeated: it may."""
        return True

    def retry(self) -> None:
        """Record nothing."""


def new_meter(work: RunWork) -> CallMeter:
    """Return what counts and limits the calls of a run."""
    settings, most = work.settings, work.max_concurrency
    return CallMeter(
        Limiter(most, requests_per_minute=settings.rate, tokens_per_minute=settings.tokens_per_minute),
        prices=_prices_of(work),
        max_calls=settings.max_calls,
        max_cost=settings.max_cost,
    )


def warn_of_unreadable(journal: Journal) -> None:
    """Say once which lines of a journal cannot be read."""
    if journal.unreadable:
        _log.warning(
            "%s: %d lines cannot be read, the first is line %d; their cells are judged again",
            journal.path,
            len(journal.unreadable),
            journal.unreadable[0],
        )


def _prices_of(work: RunWork) -> RememberedPrices:
    """Return the prices of a run; without judges that ask models there is nothing to price."""
    prices = work.settings.prices
    if prices is not None:
        return RememberedPrices(known_prices() if prices == "known" else prices)
    with nullcontext() if work.settings.max_cost is not None else suppress(ConfigurationError):
        if any(judge.models for judge in work.judges.values()):
            return RememberedPrices(known_prices())
    return RememberedPrices({})
