"""What a run of the loop's graph carries in its config, from where it begins to its steps, and no further inside.

That is what its request overrides, the decision of a reviewer, and the record that its steps hand on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import uuid4

from langchain_core.runnables import RunnableConfig

T = TypeVar("T")

_DECISION, _OVERRIDES, _RECORDS = "__refine_decision", "__refine_overrides", "__refine_records"
KEYS = (_DECISION, _OVERRIDES, _RECORDS)
"""Keys of a config's `configurable`; what is called inside of a step does not inherit them."""


def with_overrides(config: RunnableConfig | None, overrides: object) -> RunnableConfig:
    """Return the config of a run that carries what its request overrides; None carries nothing."""
    if overrides is None:
        return config or {}
    configurable = (config or {}).get("configurable") or {}
    return {**(config or {}), "configurable": {**configurable, _OVERRIDES: overrides}}


def overrides_of(config: RunnableConfig) -> Any:
    """Return what the request of a run overrides; None where it overrides nothing."""
    return config.get("configurable", {}).get(_OVERRIDES)


@dataclass
class Decision:
    """A decision that a run carries to the step that awaits it.

    Args:
        id: What tells it from every other.
        reached_a_step: Whether a step ran at all: none does where the thread was ended by somebody else meanwhile.
        error: What to raise once the run is stored.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    reached_a_step: bool = False
    error: Exception | None = None


def with_decision(config: RunnableConfig | None, decision: Decision) -> RunnableConfig:
    """Return the config of a run that carries a decision."""
    configurable = (config or {}).get("configurable") or {}
    return {**(config or {}), "configurable": {**configurable, _DECISION: decision}}


def decision_of(config: RunnableConfig) -> Decision | None:
    """Return the decision that a run carries; None where it carries none, or goes on after a crash."""
    value = config.get("configurable", {}).get(_DECISION)
    return value if isinstance(value, Decision) else None


class Records(Generic[T]):
    """The record that a run wrote last, and the plain data it wrote, which the next step need not read then."""

    def __init__(self) -> None:
        self._last: tuple[object, T] | None = None

    def keep(self, data: object, record: T) -> None:
        """Keep the record that was written as `data`."""
        self._last = data, record

    def of(self, data: object) -> T | None:
        """Return the record that was written as `data`, this very object; None for what came from a checkpoint."""
        return self._last[1] if self._last is not None and self._last[0] is data else None


def with_records(config: RunnableConfig | None) -> RunnableConfig:
    """Return the config of a run whose steps hand the record on within this process."""
    configurable = (config or {}).get("configurable") or {}
    if _RECORDS in configurable:
        return config or {}
    return {**(config or {}), "configurable": {**configurable, _RECORDS: Records()}}


def records_of(config: RunnableConfig) -> Records[Any]:
    """Return the records of a run; empty ones where it hands none on."""
    records = config.get("configurable", {}).get(_RECORDS)
    return records if isinstance(records, Records) else Records()
