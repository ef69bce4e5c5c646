"""Two runs side by side: how much each judge's score changed, whether by chance, and which rows fell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from judges.errors import shortened
from judges.offline import Change, RunComparison
from judges.offline.statistics.figure import Figure
from refine.report import wording
from refine.report.document import Block, Cell, Paragraph, Part, Parts, Range, RowList, Section, Table, Tone
from refine.report.sections import share_cell
from refine.report.view import Entry, Report

_MOST_ROWS = 10
_LONGEST_QUESTION = 90
_EVEN = 0.5


def comparison_section(comparison: RunComparison, report: Report) -> Section:
    """Return the section that compares the two runs of a report."""
    return Section("comparison", "Against the run before", tuple(_blocks(comparison, report)))


def _blocks(comparison: RunComparison, report: Report) -> Iterator[Block]:
    before, after = report.runs
    yield Paragraph(
        f"Before: {before.name}. After: {after.name}. Only rows that both runs scored are compared.", "soft"
    )
    reach = max(map(_reach, comparison.changes.values()), default=0.0) or 0.1
    yield Table(
        ("Judge", "Before", "After", "Change", "Rows", "Win rate", "p (Holm)", "For 3 points"),
        tuple(_row(change, reach) for change in comparison.changes.values()),
        frozenset({1, 2, 6, 7}),
        "Change of the mean score with its 95 % interval over questions; the win rate is that of the run after, "
        "a tie counting half; the last column is how many questions would show a change of 3 points",
    )
    for name, judges in ((before.name, comparison.only_a), (after.name, comparison.only_b)):
        if judges:
            yield Paragraph(f"Not compared, since {name} alone has them: {', '.join(judges)}.", "unsure")
    if comparison.unmatched:
        rows = wording.plural(comparison.unmatched, "row")
        yield Paragraph(f"{rows} ask what the other run does not ask, and are not compared.", "unsure")
    entries = {entry.index: entry for entry in report.entries if None not in entry.sides}
    for change in comparison.changes.values():
        if change.regressions:
            yield _regressions(change, entries)


def _reach(change: Change) -> float:
    ends = (change.difference.value, change.difference.low, change.difference.high)
    return max((abs(end) for end in ends if end is not None), default=0.0)


def _row(change: Change, reach: float) -> tuple[Cell, ...]:
    excluded = f"{wording.plural(change.excluded, 'row')} scored in one run only" if change.excluded else ""
    needed = wording.DASH if change.questions_needed is None else wording.count(change.questions_needed)
    counts = (("up", change.wins, "higher"), ("equal", change.ties, "equal"), ("down", change.losses, "lower"))
    return (
        Cell(change.judge, excluded),
        Cell(wording.number(change.mean_a)),
        Cell(wording.number(change.mean_b)),
        _difference(change, reach),
        Cell(
            f"{wording.count(change.wins)} up, {wording.count(change.losses)} down",
            f"{wording.count(change.ties)} equal",
            Parts(tuple(Part(*count) for count in counts)),
        ),
        _wins(change),
        Cell(wording.p_value(change.adjusted_p), change.test.partition(",")[0]),
        Cell(needed, "questions" if change.questions_needed is not None else ""),
    )


def _difference(change: Change, reach: float) -> Cell:
    figure = change.difference
    if figure.value is None:
        return Cell("no row is scored in both runs", tone="soft")
    tone: Tone = "plain" if not change.is_real else "good" if figure.value > 0 else "bad"
    mark = Range(value=figure.value, low=figure.low, high=figure.high, least=-reach, most=reach, reference=0.0)
    interval = wording.span(figure.low, figure.high, "+.3f")
    return Cell(f"{figure.value:+.3f}", f"{interval}{'' if change.is_real else ', may be chance'}", mark, tone)


def _wins(change: Change) -> Cell:
    cell = share_cell(change.win_rate, reference=_EVEN)
    return Cell(
        cell.text, ", ".join(filter(None, [cell.more, _at_equal_length(change.length_adjusted)])), cell.mark
    )


def _at_equal_length(figure: Figure) -> str:
    return "" if figure.value is None else f"{wording.percent(figure.value)} at equal length"


def _regressions(change: Change, entries: Mapping[int, Entry]) -> RowList:
    indexes = change.regressions[:_MOST_ROWS]
    return RowList(
        f"{change.judge}: {wording.plural(len(change.regressions), 'row')} fell, the largest fall first",
        tuple((index, _fall(entries[index], change.judge)) for index in indexes),
        len(change.regressions) - len(indexes),
    )


def _fall(entry: Entry, judge: str) -> str:
    scores = [None if row is None else row.verdicts[judge].score for row in entry.sides]
    question = "" if entry.row.sample is None else shortened(entry.row.sample.question, longest=_LONGEST_QUESTION)
    return f"{' to '.join(map(wording.number, scores))}: {question}"
