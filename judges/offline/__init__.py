"""Offline evaluation: the same judges, mapped over a dataset."""

from judges.offline.compare import Comparison, acompare, compare
from judges.offline.dataset.pairing import paired
from judges.offline.dataset.reading import read_rows
from judges.offline.rank import RankedSystem, Ranking, rank
from judges.offline.results import Evaluation, Row, Summary
from judges.offline.run.evaluate import aevaluate, evaluate

__all__ = [
    "Comparison",
    "Evaluation",
    "RankedSystem",
    "Ranking",
    "Row",
    "Summary",
    "acompare",
    "aevaluate",
    "compare",
    "evaluate",
    "paired",
    "rank",
    "read_rows",
]
