"""Offline evaluation: the same judges, mapped over a dataset."""

from typing import TYPE_CHECKING

from judges.first_guesses import names_of
from judges.offline.compare import Comparison, RankedSystem, SystemRanking, acompare, compare, rank
from judges.offline.dataset.reading import read_rows
from judges.offline.results import Evaluation, Row, Summary, paired
from judges.offline.run.calls import RunStopped
from judges.offline.run.evaluate import aevaluate, evaluate, load_run
from judges.offline.run.settings import BatchSettings, Progress, RunSettings

if TYPE_CHECKING:
    from judges.certificate import IssuedCertificate
    from judges.offline.run.ray import RayEvaluation, evaluate_ray
    from judges.offline.run_comparison import Change, RunComparison, compare_runs
    from judges.offline.trust.align import Alignment, align
    from judges.offline.trust.certify import certify
    from judges.offline.trust.judge_trial import JudgeTrial, TrialPair, WorkedCase, try_judge
    from judges.offline.trust.monitor import MonitorReport, monitor
    from judges.offline.trust.replay import LoopReplay, replay
    from judges.offline.tuning.learn import Learning, learn
    from judges.offline.tuning.tune import Tuning, tune

_HOMES = {
    "Alignment": ".trust.align",
    "Change": ".run_comparison",
    "IssuedCertificate": ".trust.certify",
    "JudgeTrial": ".trust.judge_trial",
    "Learning": ".tuning.learn",
    "LoopReplay": ".trust.replay",
    "MonitorReport": ".trust.monitor",
    "RayEvaluation": ".run.ray",
    "RunComparison": ".run_comparison",
    "align": ".trust.align",
    "TrialPair": ".trust.judge_trial",
    "Tuning": ".tuning.tune",
    "WorkedCase": ".trust.judge_trial",
    "certify": ".trust.certify",
    "compare_runs": ".run_comparison",
    "evaluate_ray": ".run.ray",
    "learn": ".tuning.learn",
    "monitor": ".trust.monitor",
    "replay": ".trust.replay",
    "try_judge": ".trust.judge_trial",
    "tune": ".tuning.tune",
}
"""What needs numpy and scipy, or Ray, and is loaded when it is used."""

__all__ = [
    "Alignment",
    "BatchSettings",
    "Change",
    "Comparison",
    "Evaluation",
    "IssuedCertificate",
    "JudgeTrial",
    "Learning",
    "LoopReplay",
    "MonitorReport",
    "Progress",
    "RankedSystem",
    "RayEvaluation",
    "Row",
    "RunComparison",
    "RunSettings",
    "RunStopped",
    "Summary",
    "SystemRanking",
    "TrialPair",
    "Tuning",
    "WorkedCase",
    "acompare",
    "aevaluate",
    "align",
    "certify",
    "compare",
    "compare_runs",
    "evaluate",
    "evaluate_ray",
    "learn",
    "load_run",
    "monitor",
    "paired",
    "rank",
    "read_rows",
    "replay",
    "try_judge",
    "tune",
]


__getattr__ = names_of(__name__, __all__, _HOMES)
