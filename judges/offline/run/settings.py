"""How a run is kept, limited and resumed, and what becomes of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    SkipValidation,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from judges.errors import ConfigurationError, shortened
from judges.runtime.prices import Price
from judges.runtime.validation import suggestion


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
        progress = f"{self.done:,}" if self.total is None else f"{self.done:,} of {self.total:,}"
        cost = "cost unknown" if self.cost is None else f"${self.cost:.4f}"
        time_left = "" if self.seconds_left is None else f", {_clock(self.seconds_left)} left"
        return (
            f"judged {progress} cells, {self.unscored:,} unscored, {self.in_flight} in flight, "
            f"{self.calls:,} calls, {cost}, {_clock(self.seconds)} so far{time_left}"
            f"{'; ' if self.batches else ''}{self.batches}"
        )


OnProgress = Callable[[Progress], object]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


class _CheckedSettings(BaseModel):
    """Frozen settings; the error about a wrong one is a line that says what it is, in the words of its `title`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            raise ConfigurationError(_line_about(fault, type(self))) from None

    def evolve(self, **changes: Any) -> Self:
        """Return the same settings with some changed, which are checked, too.

        Raises:
            ConfigurationError: If one is wrong.
        """
        return type(self)(**{**dict(self), **changes})


def _line_about(fault: ErrorDetails, settings: type[BaseModel]) -> str:
    name = str(fault["loc"][0]) if fault["loc"] else ""
    if name not in settings.model_fields:
        hint = f"{name!r} is no setting of a run; {suggestion(name, settings.model_fields)}" if name else ""
        return hint or fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "value_error":
        return fault["msg"].removeprefix("Value error, ")
    return f"{name} is {settings.model_fields[name].title}, not {shortened(fault['input'])}"


_WHOLE = "a whole number from 1"
_FROM_1 = Annotated[int, Field(ge=1)]
_LIMIT = 1e6


class BatchSettings(_CheckedSettings):
    """How the calls of a run are sent in batches; for `evaluate(..., batch=BatchSettings(poll_s=300))`.

    Args:
        poll_s: Seconds between two looks at a batch.
        window: How long the provider may take, as it names it.
        max_requests: Most requests of a batch.
        max_bytes: Most bytes of a batch.
        tries: How often a request is sent, each time in another batch, until it counts as failed.
        price: What a call costs, as a share of its price outside of batches.
    """

    poll_s: float = Field(
        default=60.0,
        ge=0.01,
        lt=_LIMIT,
        title="a number from 0.01",
        description="Seconds between two looks at a batch.",
    )
    window: str = "24h"
    max_requests: int = Field(default=50_000, ge=1, title=_WHOLE)
    max_bytes: int = Field(default=200_000_000, ge=1, title=_WHOLE)
    tries: int = Field(default=3, ge=1, title=_WHOLE)
    price: float = Field(default=0.5, ge=0, lt=_LIMIT, title="a number from 0.0")


def _checked_folder(folder: str | Path) -> str | Path:
    if isinstance(folder, str) and not folder.strip():
        raise ValueError("the folder of a run is empty text; name a new one, such as runs/1")
    return folder


def _checked_shard(shard: object) -> object:
    is_pair = isinstance(shard, tuple | list) and [type(number) for number in shard] == [int, int]
    if shard is not None and not (is_pair and 1 <= shard[0] <= shard[1]):  # type: ignore[index]  # a pair
        raise ValueError(f"a shard is one part of several, (1, 4) for the first of four, not {shard!r}")
    return shard


class RunSettings(_CheckedSettings):
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

    Raises:
        ConfigurationError: If a setting is unknown, of another type or out of range.
    """

    folder: Annotated[str | Path, AfterValidator(_checked_folder)] = Field(title="the path of a folder")
    resume: bool = Field(default=False, title="true or false")
    retry_failed: bool = Field(
        default=False, title="true or false", description="Judge cells again whose judging failed."
    )
    accept_changes: bool = Field(
        default=False, title="true or false", description="Judge again what changed since the run began."
    )
    rescored: frozenset[str] = Field(default=frozenset(), title="a frozenset of names of judges")
    shard: Annotated[tuple[int, int] | None, PlainValidator(_checked_shard)] = None
    rate: _FROM_1 | None = Field(default=None, title=_WHOLE, description="Most model calls a minute.")
    tokens_per_minute: _FROM_1 | None = Field(default=None, title=_WHOLE, description="Most tokens a minute.")
    max_calls: _FROM_1 | None = Field(
        default=None, title=_WHOLE, description="Stop after N model calls; resume later."
    )
    max_cost: Annotated[float, Field(ge=0)] | None = Field(
        default=None, title="a number of US dollars from 0", description="Stop before more is spent; resume later."
    )
    prices: Annotated[Mapping[str, Price] | Literal["known"] | None, SkipValidation] = None
    on_progress: OnProgress | None = Field(default=None, title="a function")
    processes: int = Field(
        default=1,
        ge=1,
        title=_WHOLE,
        description="Judge in N processes, which divide rows and limits between them.",
    )
    batch: BatchSettings | None = Field(default=None, title="BatchSettings(...)")

    @model_validator(mode="after")
    def _check_pace(self) -> Self:
        useless = [name for name in ("rate", "tokens_per_minute") if getattr(self, name) is not None]
        useless += ["processes"] if self.processes > 1 else []
        if self.batch is not None and useless:
            raise ValueError(f"{useless[0]} has no use with batches, which the provider paces; leave it out")
        return self

    def part(self, number: int, of: int) -> RunSettings:
        """Return the settings of one of several workers that divide the limits between them.

        Args:
            number: Which worker, from 0.
            of: How many there are.

        Raises:
            ConfigurationError: If a limit is too small to be divided so often.
        """
        return self.evolve(
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
