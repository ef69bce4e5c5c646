"""The record: every outcome, with its attempts and verdicts, in a database or a file of JSON lines."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refine.record.database import DatabaseRecord
    from refine.record.filters import OutcomeFilter
    from refine.record.opening import Recorder, open_record
    from refine.record.origin import Origin
    from refine.record.writer import RecordStats

_HOMES = {
    "DatabaseRecord": "refine.record.database",
    "Origin": "refine.record.origin",
    "OutcomeFilter": "refine.record.filters",
    "RecordStats": "refine.record.writer",
    "Recorder": "refine.record.opening",
    "open_record": "refine.record.opening",
}
"""The module of each public name, imported on first use: a file of JSON lines needs no database library."""

__all__ = ["DatabaseRecord", "Origin", "OutcomeFilter", "RecordStats", "Recorder", "open_record"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return __all__
