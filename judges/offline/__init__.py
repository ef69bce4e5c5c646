"""Offline evaluation: the same judges, mapped over a dataset."""

from judges.offline.comparison import Comparison, acompare, compare
from judges.offline.pairing import paired
from judges.offline.ranking import RankedSystem, Ranking, rank
from judges.offline.results import Evaluation, Row, Summary
from judges.offline.rows import read_rows
from judges.offline.workers import aevaluate, evaluate

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
