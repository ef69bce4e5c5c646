"""Which outcomes: a filter that a person writes, as options of a command or in an address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from judges import ConfigurationError
from judges.errors import shortened
from refine.record.rows import now_ms

_AGO = re.compile(r"(\d{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LATEST = 2**53


def _milliseconds(moment: object) -> object:
    """Return a time, in any form that a person writes, in milliseconds since the epoch."""
    if not isinstance(moment, str) or moment.strip().isdigit():
        return moment
    ago = _AGO.fullmatch(moment.strip())
    if ago is not None:
        return max(0, now_ms() - int(ago[1]) * _SECONDS[ago[2]] * 1_000)
    try:
        parsed = datetime.fromisoformat(moment.strip())
        aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
        return max(0, int(aware.timestamp() * 1_000))
    except (ValueError, OverflowError):
        raise ValueError("a date such as 2026-11-22, or a time ago such as 24h or 7d") from None


Moment = Annotated[int, Field(ge=0, le=_LATEST), BeforeValidator(_milliseconds)]
"""A time in milliseconds since the epoch."""


class OutcomeFilter(BaseModel):
    """Which outcomes; every setting narrows the choice, and without any all are chosen.

    Args:
        id: The one with this id.
        passed: Whether the judge accepted the answer.
        rating: Rating of the released answer, 1 to 4.
        stop_reason: Why the loop stopped, for instance `"max_attempts"`.
        refiner: Name of the refiner or guard.
        model: Model of the generator.
        judge: Name of the judge.
        text: Words in question or drafts, of records that hold texts; upper and lower case are the same.
        labelled: `"no"`: without a label; `"yes"`: with one; `"disagree"`: a label and the judge differ, by two
            ratings or about passing.
        since: Earliest time: an ISO date or time (`"2026-11-22"`, `"2026-11-22T08:00+01:00"`; UTC if it says
            nothing else), a time ago (`"30m"`, `"24h"`, `"7d"`), or milliseconds since the epoch.
        until: Time before which they ended, in the same forms.

    Raises:
        ConfigurationError: If a setting is unknown or out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str | None = None
    passed: bool | None = None
    rating: int | None = Field(default=None, ge=1, le=4)
    stop_reason: str | None = None
    refiner: str | None = None
    model: str | None = None
    judge: str | None = None
    text: str | None = Field(default=None, max_length=1_000)
    labelled: Literal["no", "yes", "disagree"] | None = None
    since: Moment | None = None
    until: Moment | None = None

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            name = ".".join(map(str, fault["loc"]))
            if fault["type"] == "extra_forbidden":
                known = ", ".join(type(self).model_fields)
                raise ConfigurationError(f"there is no filter {shortened(name)}; there are {known}") from None
            reason = fault["msg"].removeprefix("Value error, ")
            message = f"filter {name}: {reason} (given {shortened(fault['input'])})"
            raise ConfigurationError(message) from None

    @classmethod
    def read(cls, settings: Mapping[str, str]) -> Self:
        """Return the filter of an address's parameters; empty ones count as left out."""
        return cls(**{name: value for name, value in settings.items() if value.strip()})
