"""Which outcomes: a filter that a person writes, as options of a command or in an address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judges import ConfigurationError
from judges.errors import shortened


class OutcomeFilter(BaseModel):
    """Which outcomes; every setting narrows the choice, and without any all are chosen.

    Args:
        passed: Whether the judge accepted the answer.
        rating: Rating of the released answer, 1 to 4.
        stop_reason: Why the loop stopped, for instance `"max_attempts"`.
        refiner: Name of the refiner or guard.
        model: Model of the generator.
        judge: Name of the judge.
        text: Words in question or drafts, of records that hold texts; upper and lower case are the same.
        labelled: `"no"`: without a label; `"yes"`: with one; `"disagree"`: a label and the judge differ, by two
            ratings or about passing.
        since: Earliest time, in milliseconds since the epoch.
        until: Time before which they ended, in the same unit.

    Raises:
        ConfigurationError: If a setting is unknown or out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    passed: bool | None = None
    rating: int | None = Field(default=None, ge=1, le=4)
    stop_reason: str | None = None
    refiner: str | None = None
    model: str | None = None
    judge: str | None = None
    text: str | None = Field(default=None, max_length=1_000)
    labelled: Literal["no", "yes", "disagree"] | None = None
    since: int | None = Field(default=None, ge=0, le=2**53)
    until: int | None = Field(default=None, ge=0, le=2**53)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            name = ".".join(map(str, fault["loc"]))
            if fault["type"] == "extra_forbidden":
                known = ", ".join(type(self).model_fields)
                raise ConfigurationError(f"there is no filter {shortened(name)}; there are {known}") from None
            message = f"filter {name}: {fault['msg']} (given {shortened(fault['input'])})"
            raise ConfigurationError(message) from None

    @classmethod
    def read(cls, settings: Mapping[str, str]) -> Self:
        """Return the filter of an address's parameters; empty ones count as left out."""
        return cls(**{name: value for name, value in settings.items() if value.strip()})
