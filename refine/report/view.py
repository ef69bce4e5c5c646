"""What a report says, as plain data: made once, and rendered as a page, as Markdown or as a table of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from judges.offline import Row
from judges.offline.statistics.figure import Figure

if TYPE_CHECKING:
    from judges.offline import RunComparison
    from refine.report.trust import Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A quantity over the rows of a judge.

    Args:
        percentiles: The median and the 90th and 99th percentile, by percentage.
        total: Its sum; None where it means nothing, or is not known.
    """

    percentiles: Mapping[int, float]
    total: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeView:
    """The results of one judge in one run.

    Args:
        name: Its name in the run.
        n: Rows.
        scored: Rows with a score.
        mean: Mean score with its 95 % interval.
        passed: Share of the scored rows that passed, with its 95 % interval.
        ratings: Rows by rating, 1 to 4.
        histogram: Rows by tenth of the score, where scores are not just the four ratings; else empty.
        unscored: Rows without a score, by reason.
        latency: Seconds; None where the run does not know them.
        tokens: Tokens a row, and in total.
        cost: US dollars a row, and in total; None where a price is unknown.
        calls: Model calls in total.
        models: The models that answered, as they reported themselves.
        setting: How the judge was named on the command line; empty where it was not.
    """

    name: str
    n: int
    scored: int
    mean: Figure
    passed: Figure
    ratings: Mapping[int, int]
    histogram: tuple[int, ...] = ()
    unscored: Mapping[str, int]
    latency: Spread | None
    tokens: Spread
    cost: Spread | None
    calls: int
    models: tuple[str, ...] = ()
    setting: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A group of rows with the same value in a column of their metadata; `""` are rows without one."""

    value: str
    n: int
    judges: Mapping[str, JudgeView]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run.

    Args:
        name: What the run is called, its folder.
        dataset: The file that was judged; empty where rows came from Python.
        rows: Number of rows.
        unreadable: Rows that could not be read.
        finished: When its last start ended, in ISO 8601; None where it is not known.
        seconds: How long that took.
        judges: Its judges, in the order of the run.
        slices: By column, its groups of rows.
    """

    name: str
    dataset: str = ""
    rows: int
    unreadable: int = 0
    finished: str | None = None
    seconds: float | None = None
    judges: tuple[JudgeView, ...]
    slices: Mapping[str, tuple[Slice, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the table of all rows.

    Args:
        index: Its index in the dataset.
        sides: The row in each run; None where a run does not have it.
        label: "good" or "bad", as people call the answer of the last run; empty where nobody did.
    """

    index: int
    sides: tuple[Row | None, ...]
    label: str = ""

    @property
    def row(self) -> Row:
        """The row in the last run that has it."""
        return next(row for row in reversed(self.sides) if row is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that a report says.

    Args:
        runs: One run, or two that are compared, the earlier one first.
        entries: All rows.
        worst: Positions in `entries` of the rows that did worst, worst first.
        comparison: How the second run compares with the first.
        trust: How far the verdicts can be believed, where there are labels or attempts.
    """

    runs: tuple[RunView, ...]
    entries: tuple[Entry, ...]
    worst: tuple[int, ...] = ()
    comparison: RunComparison | None = None
    trust: Trust | None = None

    @property
    def run(self) -> RunView:
        """The run that the report is about: the only one, or the later of two."""
        return self.runs[-1]
