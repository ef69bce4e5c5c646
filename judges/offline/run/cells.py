"""Judging the missing cells of a journal, within the limits of a run: in one process, and in each of several."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple, Protocol

from judges.errors import BadSample, ConfigurationError
from judges.fingerprint import fingerprint
from judges.judge import Judge
from judges.models.wrappers.limiter import Limiter
from judges.offline.run import outputs
from judges.offline.run.calls import Awaiting, CallCollector, CellCalls
from judges.offline.run.journal import CallRecord, Journal, is_failure
from judges.offline.run.meter import CallMeter, PricesAlone, RememberedPrices, RunStopped
from judges.offline.run.settings import OnProgress, Progress, RunSettings
from judges.offline.run.source import NumberedRows, digest_of, row_json
from judges.runtime import budget, faults
from judges.runtime.budget import known_prices
from judges.runtime.flow import NextTurn
from judges.runtime.observation import Shared, observing
from judges.sample import Sample
from judges.verdict import Verdict

_log = logging.getLogger("judges")
_REPORT_EVERY_S = 0.2


class Choices(Protocol):
    """Which cells are judged again, and who hears of progress; see `RunSettings`."""

    @property
    def retry_failed(self) -> bool:
        """Whether cells whose judging failed count as missing."""
        ...

    @property
    def accept_changes(self) -> bool:
        """Whether cells of rows or judges that changed count as missing."""
        ...

    @property
    def rescored(self) -> frozenset[str]:
        """Names of judges that may have changed."""
        ...

    @property
    def on_progress(self) -> OnProgress | None:
        """Called with the progress."""
        ...


class RowSink(Protocol):
    """Takes the cells of rows; see `outputs.Results`."""

    @property
    def journal(self) -> Journal:
        """The journal of the run, or of the part, that cells are written to."""
        ...

    def expect(self, row: int, sample: Sample | BadSample, text: bytes, missing: int) -> None:
        """Take note of the next row, of which some cells are missing still."""
        ...

    def add(self, row: int, text: bytes, verdict: Verdict) -> None:
        """Take a cell that has been journaled."""
        ...


@dataclass(frozen=True, slots=True)
class JournalOnly:
    """Writes cells to a journal alone: another worker, or a later pass, writes the results.

    Args:
        journal: The journal.
    """

    journal: Journal

    def expect(self, row: int, sample: Sample | BadSample, text: bytes, missing: int) -> None:
        """Expect nothing."""

    def add(self, row: int, text: bytes, verdict: Verdict) -> None:
        """Write nothing beside the journal."""


class _Cell(NamedTuple):
    """A missing cell; all those of one row share what their judges share."""

    row: int
    sample: Sample | BadSample
    judge: str
    key: int
    shared: Shared
    records: list[CallRecord]


class _CellWorkers:
    """Judges the missing cells of a run, in the order of the dataset, several side by side.

    Args:
        source: The rows.
        judges: The judges by name.
        results: Where rows are written in order, with the journal of the run.
        meter: Its model calls.
        choices: Which cells are judged again.
        collector: Takes calls that are made later; None makes them now.
    """

    def __init__(
        self,
        source: NumberedRows,
        judges: Mapping[str, Judge],
        results: RowSink,
        meter: CallMeter,
        choices: Choices,
        *,
        collector: CallCollector | None = None,
    ) -> None:
        self._collector = collector
        self._source, self._judges = source, judges
        self._journal, self._results = results.journal, results
        self._meter, self._choices = meter, choices
        self._fingerprints = {name: fingerprint(judge).encode() for name, judge in judges.items()}
        self._next_turn = NextTurn()
        self._unheld: set[str] = set()
        size = source.size
        self._total = None if size is None else size * len(judges)
        self._done = self._new = self._unscored = 0
        self._started = self._reported = time.monotonic()

    async def run(self, workers: int) -> None:
        """Judge what is missing.

        Raises:
            RunStopped: If a limit of the run was reached; calls in flight have been finished.
            ConfigurationError: If every further call would fail; calls in flight are given up.
        """
        self._journal.drop_calls_of_finished(self._judges)
        cells = self._missing()
        running = [asyncio.create_task(self._work(cells)) for _ in range(workers)]
        try:
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._report(at_once=True)
        if self._meter.stopped is not None:
            raise self._meter.stopped

    async def _work(self, cells: Iterator[_Cell]) -> None:
        while self._meter.stopped is None and (cell := next(cells, None)) is not None:
            try:
                await self._judge(cell)
            except RunStopped:
                return  # the others end what they are at
            except Awaiting:
                continue
            if not self._judges[cell.judge].models:
                await asyncio.sleep(0)  # a judge that awaits nothing would block the loop

    def _missing(self) -> Iterator[_Cell]:
        """Yield the missing cells; the first ends what an earlier run has written at its end."""
        is_complete = True
        for row, sample in self._source:
            text = row_json(sample)
            digest = digest_of(text if isinstance(sample, Sample) else b"unreadable")
            missing = [
                (judge, key)
                for judge in self._judges
                if not self._is_there(row, judge, key := self._key(digest, judge))
            ]
            if missing and is_complete:
                outputs.remove_results(self._journal.path.parent)
                is_complete = False
            self._results.expect(row, sample, text, len(missing))
            if not missing:
                continue
            records = self._journal.calls(row)
            shared = Shared()
            for judge, key in missing:
                yield _Cell(row, sample, judge, key, shared, records)

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
        elif not (self._choices.retry_failed and cells.has_failed(row)):
            self._done += 1
            self._unscored += cells.is_unscored(row)
            return True
        cells.forget(row)
        self._journal.forget_calls(row, judge)
        return False

    def _check_accepted(self, row: int, judge: str) -> None:
        if not self._choices.accept_changes and judge not in self._choices.rescored:
            raise ConfigurationError(
                f"row {row} changed since {judge!r} judged it, or the judge did; undo the change, or judge such "
                f"rows again with accept_changes=True"
            )

    async def _judge(self, cell: _Cell) -> None:
        if isinstance(cell.sample, BadSample):
            detail = f"the row cannot be read: {cell.sample}"
            self._write(cell, Verdict.without_score("invalid_sample", detail, judge=cell.judge))
            return
        watcher = CellCalls(
            self._meter,
            self._journal,
            cell.row,
            cell.judge,
            next_turn=self._next_turn,
            records=cell.records,
            is_alone=len(self._judges) == 1,
            collector=self._collector,
        )
        with observing(call_watcher=watcher, shared=cell.shared):
            verdict = await _verdict(self._judges[cell.judge], cell.sample)
        watcher.finish()
        self._count_own_calls(cell.judge, verdict, watcher.sent)
        if self._meter.stopped is not None and verdict.unscored is not None and is_failure(verdict.unscored):
            return  # it may have failed because the run is ending
        self._write(
            cell, verdict if verdict.judge == cell.judge else verdict.model_copy(update={"judge": cell.judge})
        )

    def _count_own_calls(self, judge: str, verdict: Verdict, sent: int) -> None:
        """Count calls that a judge's own function made past the meter, which could not hold them."""
        calls = verdict.usage.calls - sent
        if calls <= 0:
            return
        cost = verdict.usage.cost if sent == 0 else 0.0
        self._meter.add(verdict.usage.model_copy(update={"calls": calls, "cost": cost}))
        if self._meter.is_limited and judge not in self._unheld:
            self._unheld.add(judge)
            _log.warning(
                "the judge %r calls a model by itself: its calls count, but no limit of the run holds them back, "
                "as it does those of a judge that yields Ask(...)",
                judge,
            )

    def _write(self, cell: _Cell, verdict: Verdict) -> None:
        text = outputs.verdict_json(verdict)
        self._journal.add_cell(cell.row, cell.judge, cell.key, verdict.latency_s, text, unscored=verdict.unscored)
        self._results.add(cell.row, text, verdict)
        self._done += 1
        self._new += 1
        self._unscored += verdict.unscored is not None
        self._report()

    def _report(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._choices.on_progress is None or (now - self._reported < _REPORT_EVERY_S and not at_once):
            return
        self._reported = now
        self._choices.on_progress(self.progress())

    def progress(self) -> Progress:
        """Return how far the run is."""
        seconds = time.monotonic() - self._started
        left = None if self._total is None or not self._new else (self._total - self._done) * seconds / self._new
        return Progress(
            done=self._done,
            total=self._total,
            unscored=self._unscored,
            in_flight=self._meter.in_flight,
            calls=self._meter.calls,
            cost=self._meter.cost,
            seconds=seconds,
            seconds_left=left,
        )


async def _verdict(judge: Judge, sample: Sample) -> Verdict:
    try:
        return await judge.acall(sample)
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - a judge's fault is an unscored verdict, not a lost row
        return Verdict.without_score("judge_failed", faults.report(error, repr(judge.name)))


async def judge_missing(
    rows: NumberedRows,
    judges: Mapping[str, Judge],
    settings: RunSettings,
    sink: RowSink,
    *,
    max_concurrency: int,
    log_texts: bool,
    meter: CallMeter | None = None,
    collector: CallCollector | None = None,
) -> Progress:
    """Judge the cells that are missing in the journal of `sink`, and return how far the run is then.

    Args:
        rows: The rows.
        judges: The judges by name.
        settings: Limits, and which cells are judged again.
        sink: Takes the cells.
        max_concurrency: Model calls at once.
        log_texts: Whether the log of a judge's own errors holds what they say.
        meter: What the calls are counted by; None for a new one.
        collector: Takes calls that are made later, whose cells stay missing; None makes them now.

    Raises:
        RunStopped: If a limit of the run was reached; calls in flight have been finished.
        ConfigurationError: If every further call would fail.
    """
    meter = meter or new_meter(settings, judges, max_concurrency)
    workers = _CellWorkers(rows, judges, sink, meter, settings, collector=collector)
    with faults.of_run(log_texts=log_texts), budget.also_within(PricesAlone(prices=meter.prices)):
        await workers.run(max_concurrency)
    return workers.progress()


def new_meter(settings: RunSettings, judges: Mapping[str, Judge], max_concurrency: int) -> CallMeter:
    """Return what counts and limits the calls of a run."""
    return CallMeter(
        Limiter(max_concurrency, requests_per_minute=settings.rate, tokens_per_minute=settings.tokens_per_minute),
        prices=_prices_of(settings, judges),
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


def _prices_of(settings: RunSettings, judges: Mapping[str, Judge]) -> RememberedPrices:
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
