"""How a run is kept, limited and resumed, and what becomes of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from judges.errors import ConfigurationError, shortened
from judges.offline.results import Row
from judges.offline.run.batch.settings import BatchSettings
from judges.offline.run.progress import OnProgress
from judges.offline.run.source import checked_shard
from judges.runtime.prices import Price


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
        batch: How calls are sent by the provider's batch endpoint, at half the price and within a day; None sends
            each by itself. A run that began with batches goes on with them.
        processes: How many processes of this machine judge, each its part of the rows and of the limits.
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
    processes: int = 1
    batch: BatchSettings | None = None

    def __post_init__(self) -> None:
        if isinstance(self.folder, str) and not self.folder.strip():
            raise ConfigurationError("the folder of a run is empty text; name a new one, such as runs/1")
        checked_shard(self.shard)
        if type(self.processes) is not int or self.processes < 1:
            raise ConfigurationError(f"processes is a whole number from 1, not {shortened(self.processes)}")
        useless = [name for name in ("rate", "tokens_per_minute") if getattr(self, name) is not None]
        useless += ["processes"] if self.processes > 1 else []
        if self.batch is not None and useless:
            raise ConfigurationError(
                f"{useless[0]} has no use with batches, which the provider paces; leave it out"
            )
        calls, cost = self.max_calls, self.max_cost
        is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
        if calls is not None and (type(calls) is not int or calls < 1):
            raise ConfigurationError(f"max_calls is a whole number from 1, not {shortened(calls)}")
        if cost is not None and not (is_number and cost >= 0):
            raise ConfigurationError(f"max_cost is a number of US dollars from 0, not {shortened(cost)}")

    def watched(self, on_progress: OnProgress) -> RunSettings:
        """Return the same settings with somebody who hears of the progress."""
        return replace(self, on_progress=on_progress)

    def when_all_is_judged(self) -> RunSettings:
        """Return the settings with which results are written once nothing is missing in the journal."""
        return replace(self, retry_failed=False, on_progress=None, processes=1, batch=None)

    def at(self, folder: Path) -> RunSettings:
        """Return the same settings for another folder."""
        return replace(self, folder=folder)

    def part(self, number: int, of: int) -> RunSettings:
        """Return the settings of one of several workers that divide the limits between them.

        Args:
            number: Which worker, from 0.
            of: How many there are.

        Raises:
            ConfigurationError: If a limit is too small to be divided so often.
        """
        return replace(
            self,
            rate=divided(self.rate, number, of, "rate"),
            tokens_per_minute=divided(self.tokens_per_minute, number, of, "tokens_per_minute"),
            max_calls=divided(self.max_calls, number, of, "max_calls"),
            max_cost=None if self.max_cost is None else self.max_cost / of,
            shard=None,
            on_progress=None,
            processes=1,
        )


def divided(limit: int | None, number: int, of: int, name: str) -> int | None:
    """Return the share of a limit that worker `number`, from 0, of several has.

    Raises:
        ConfigurationError: If there is nothing left for some.
    """
    if limit is None:
        return None
    if limit < of:
        raise ConfigurationError(f"{name}={limit} cannot be divided between {of} workers; use fewer, or raise it")
    return limit // of + (number < limit % of)


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
