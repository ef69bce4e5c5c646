"""Offline evaluation: the same judges, mapped over a dataset."""

from importlib import import_module
from typing import TYPE_CHECKING

from judges.offline.compare import Comparison, acompare, compare
from judges.offline.dataset.pairing import paired
from judges.offline.dataset.reading import read_rows
from judges.offline.rank import RankedSystem, Ranking, rank
from judges.offline.results import Evaluation, Row, Summary
from judges.offline.run.evaluate import aevaluate, evaluate
from judges.offline.run.journaled import RunSettings
from judges.offline.run.loading import load_run
from judges.offline.run.meter import RunStopped
from judges.offline.run.progress import Progress

if TYPE_CHECKING:
    from judges.offline.run_comparison import Change, RunComparison, compare_runs
    from judges.offline.trust.alignment import Alignment, align
    from judges.offline.trust.certifying import certify
    from judges.offline.trust.loop_replay import LoopReplay, replay
    from judges.offline.trust.monitoring import MonitorReport, monitor

_HOMES = {
    "Alignment": "trust.alignment",
    "Change": "run_comparison",
    "LoopReplay": "trust.loop_replay",
    "MonitorReport": "trust.monitoring",
    "RunComparison": "run_comparison",
    "align": "trust.alignment",
    "certify": "trust.certifying",
    "compare_runs": "run_comparison",
    "monitor": "trust.monitoring",
    "replay": "trust.loop_replay",
}
"""What needs numpy and scipy, and is loaded when it is used."""

__all__ = [
    "Alignment",
    "Change",
    "Comparison",
    "Evaluation",
    "LoopReplay",
    "MonitorReport",
    "Progress",
    "RankedSystem",
    "Ranking",
    "Row",
    "RunComparison",
    "RunSettings",
    "RunStopped",
    "Summary",
    "acompare",
    "aevaluate",
    "align",
    "certify",
    "compare",
    "compare_runs",
    "evaluate",
    "load_run",
    "monitor",
    "paired",
    "rank",
    "read_rows",
    "replay",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
