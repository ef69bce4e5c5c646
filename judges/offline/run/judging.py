"""Judging the missing cells of a journal, within the limits of a run: in one process, and in each of several."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.models.wrappers.limiter import Limiter
from judges.offline.run.calls import CallCollector
from judges.offline.run.cells import CellWorkers, RowSink
from judges.offline.run.journal import Journal
from judges.offline.run.meter import CallMeter
from judges.offline.run.pricing import PricesAlone, RememberedPrices
from judges.offline.run.progress import Progress
from judges.offline.run.settings import RunSettings
from judges.offline.run.source import NumberedRows
from judges.runtime import budget, faults
from judges.runtime.prices import known_prices

_log = logging.getLogger("judges")


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
    workers = CellWorkers(rows, judges, sink, meter, settings, collector=collector)
    with faults.of_run(log_texts=log_texts), budget.also_within(PricesAlone(prices=meter.prices)):
        await workers.run(max_concurrency)
    return workers.progress()


def new_meter(settings: RunSettings, judges: Mapping[str, Judge], max_concurrency: int) -> CallMeter:
    """Return what counts and limits the calls of a run."""
    return CallMeter(
        Limiter(max_concurrency, requests_per_minute=settings.rate, tokens_per_minute=settings.tokens_per_minute),
        prices=prices_of(settings, judges),
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


def prices_of(settings: RunSettings, judges: Mapping[str, Judge]) -> RememberedPrices:
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
