"""How far a run is, for whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


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
