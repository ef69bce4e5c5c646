"""Offline evaluation: the same judges, mapped over a dataset."""

from importlib import import_module
from typing import TYPE_CHECKING

from judges.offline.compare import Comparison, acompare, compare
from judges.offline.dataset.pairing import paired
from judges.offline.dataset.reading import read_rows
from judges.offline.rank import RankedSystem, Ranking, rank
from judges.offline.results import Evaluation, Row, Summary
from judges.offline.run.batch.settings import BatchSettings
from judges.offline.run.evaluate import aevaluate, evaluate
from judges.offline.run.loading import load_run
from judges.offline.run.meter import RunStopped
from judges.offline.run.progress import Progress
from judges.offline.run.settings import RunSettings

if TYPE_CHECKING:
    from judges.offline.run.ray import RayEvaluation, evaluate_ray
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
    "RayEvaluation": "run.ray",
    "RunComparison": "run_comparison",
    "align": "trust.alignment",
    "certify": "trust.certifying",
    "compare_runs": "run_comparison",
    "evaluate_ray": "run.ray",
    "monitor": "trust.monitoring",
    "replay": "trust.loop_replay",
}
"""What needs numpy and scipy, or Ray, and is loaded when it is used."""

__all__ = [
    "Alignment",
    "BatchSettings",
    "Change",
    "Comparison",
    "Evaluation",
    "LoopReplay",
    "MonitorReport",
    "Progress",
    "RankedSystem",
    "Ranking",
    "RayEvaluation",
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
    "evaluate_ray",
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
