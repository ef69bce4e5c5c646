"""Offline evaluation: the same judges, mapped over a dataset."""

from judges.offline.results import Evaluation, Row, Summary
from judges.offline.rows import read_rows
from judges.offline.workers import aevaluate, evaluate

__all__ = ["Evaluation", "Row", "Summary", "aevaluate", "evaluate", "read_rows"]
