"""How a run is kept, limited and resumed, and what becomes of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from judges.errors import ConfigurationError, shortened
from judges.offline.run.source import checked_shard
from judges.runtime.budget import Price


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a run is.

    Args:
        done: Cells that are finished, those of earlier starts included; a cell is one row before one judge.
        total: All cells, or None where the dataset does not say how many rows it has.
        unscored: Finished cells without a score.
        in_flight: Model calls in flight.
        calls: Calls since this start.
        cost: US dollars of these calls; None where a price is unknown.
        seconds: Seconds since this start.
        seconds_left: Seconds that the rest will take at the pace so far; None where that is unknown.
        batches: What the batches do that are waited for; empty without batches.
    """

    done: int = 0
    total: int | None = None
    unscored: int = 0
    in_flight: int = 0
    calls: int = 0
    cost: float | None = 0.0
    seconds: float = 0.0
    seconds_left: float | None = None
    batches: str = ""

    def __str__(self) -> str:
        done = f"{self.done:,}" if self.total is None else f"{self.done:,} of {self.total:,}"
        cost = "cost unknown" if self.cost is None else f"${self.cost:.4f}"
        left = "" if self.seconds_left is None else f", {_clock(self.seconds_left)} left"
        return (
            f"judged {done} cells, {self.unscored:,} unscored, {self.in_flight} in flight, {self.calls:,} calls, "
            f"{cost}, {_clock(self.seconds)} so far{left}{'; ' if self.batches else ''}{self.batches}"
        )


OnProgress = Callable[[Progress], object]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


_MOST_REQUESTS = 50_000
_MOST_BYTES = 200_000_000


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How the calls of a run are sent in batches; for `evaluate(..., batch=BatchSettings(poll_s=300))`.

    Args:
        poll_s: Seconds between two looks at a batch.
        window: How long the provider may take, as it names it.
        max_requests: Most requests of a batch.
        max_bytes: Most bytes of a batch.
        tries: How often a request is sent, each time in another batch, until it counts as failed.
        price: What a call costs, as a share of its price outside of batches.
    """

    poll_s: float = 60.0
    window: str = "24h"
    max_requests: int = _MOST_REQUESTS
    max_bytes: int = _MOST_BYTES
    tries: int = 3
    price: float = 0.5

    def __post_init__(self) -> None:
        for name in ("max_requests", "max_bytes", "tries"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is a whole number from 1, not {shortened(getattr(self, name))}")
        for name, least in (("poll_s", 0.01), ("price", 0.0)):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | float) or not least <= number < 1e6:  # noqa: PLR2004 - some bound
                raise ConfigurationError(f"{name} is a number from {least}, not {shortened(number)}")


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
