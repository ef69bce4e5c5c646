"""What a report says, section by section."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from judges.errors import shortened
from judges.offline import Change, RunComparison
from judges.offline.statistics.intervals import Figure
from refine.report import wording
from refine.report.document import (
    UNKNOWN,
    Block,
    Cell,
    Chart,
    Charts,
    Columns,
    JudgedRow,
    Paragraph,
    Part,
    Parts,
    Range,
    RowList,
    Section,
    Table,
    Tone,
    score_cell,
    share_cell,
)
from refine.report.view import Entry, JudgeView, Report, RunView, Slice, Spread

_LONGEST_TEXT = 1_000
"""Most characters of a question or an answer among the worst rows; the table of all rows has the whole text."""


def sections(report: Report) -> tuple[Section, ...]:
    """Return the sections of a report, in order."""
    return tuple(_sections(report))


def _sections(report: Report) -> Iterator[Section]:
    run = report.run
    yield Section("judges", "What the judges say", (*_judges(run),))
    if report.comparison is not None:
        yield _comparison_section(report.comparison, report)
    if run.slices:
        yield Section("slices", "By group", tuple(_slices(run)))
    if report.trust is not None:
        from refine.report.trust_sections import trust_sections  # noqa: PLC0415 - where there are labels alone

        yield from trust_sections(report.trust)
    yield Section("costs", "Time, tokens and cost", tuple(_costs(run)))
    if report.worst:
        yield Section("worst", "Rows that did worst", tuple(_worst(report)))


def headline(report: Report) -> str:
    """Return in one sentence what was judged, with what, and when."""
    run = report.run
    source = f"{run.dataset}, " if run.dataset else ""
    judges = wording.plural(len(run.judges), "judge")
    took = "" if run.seconds is None else f" (last start took {wording.seconds(run.seconds)})"
    return f"{source}{wording.plural(run.rows, 'row')}, {judges}, finished {wording.moment(run.finished)}{took}"


def title(report: Report) -> str:
    """Return what the report is called."""
    return report.run.name if report.comparison is None else f"{report.runs[1].name} against {report.runs[0].name}"


def _judges(run: RunView) -> Iterator[Block]:
    if run.unreadable:
        yield Paragraph(
            f"{wording.plural(run.unreadable, 'row')} could not be read, and count as unscored.", "unsure"
        )
    silent = [judge.name for judge in run.judges if not judge.scored]
    if silent:
        yield Paragraph(f"No row has a score by {', '.join(silent)}.", "bad")
    yield Table(
        ("Judge", "Mean score", "Passed", "Scored", "Ratings"),
        tuple(_judge_row(judge) for judge in run.judges),
        frozenset({3}),
        "Mean score and share of passes with their 95 % intervals, over the rows with a score",
    )
    histograms = [judge for judge in run.judges if judge.histogram]
    if histograms:
        yield Charts(tuple(_histogram(judge) for judge in histograms))


def _judge_row(judge: JudgeView) -> tuple[Cell, ...]:
    unscored = ", ".join(f"{wording.count(n)} {wording.reason(code)}" for code, n in judge.unscored.items())
    coverage = judge.scored / judge.n if judge.n else None
    asks = ", ".join(judge.models)
    return (
        Cell(judge.name, asks or (judge.setting if judge.setting != judge.name else "")),
        score_cell(judge.mean),
        share_cell(judge.passed),
        Cell(wording.percent(coverage), unscored or "all rows", tone="unsure" if unscored else "plain"),
        Cell(_rating_text(judge.ratings), mark=Parts(_rating_parts(judge.ratings))) if judge.scored else UNKNOWN,
    )


def _rating_text(ratings: Mapping[int, int]) -> str:
    return ", ".join(f"{rating}: {wording.count(n)}" for rating, n in ratings.items())


def _rating_parts(ratings: Mapping[int, int]) -> tuple[Part, ...]:
    """Return the parts of a bar of ratings."""
    return tuple(Part(f"r{rating}", n, f"rated {rating}") for rating, n in ratings.items())


def _histogram(judge: JudgeView) -> Chart:
    parts = tuple(
        Part("bin", n, f"{step / len(judge.histogram):.1f} to {(step + 1) / len(judge.histogram):.1f}")
        for step, n in enumerate(judge.histogram)
    )
    text = ", ".join(f"{part.name}: {wording.count(part.size)}" for part in parts if part.size)
    return Chart(f"Scores of {judge.name}", Columns(parts), text)


def _slices(run: RunView) -> Iterator[Block]:
    for column, groups in run.slices.items():
        names = tuple(judge.name for judge in run.judges)
        yield Table(
            (column, "Rows", *names),
            tuple(_slice_row(group, names) for group in groups),
            frozenset({1}),
            f"Mean score by {column}, with its 95 % interval, and share of passes",
        )


def _slice_row(group: Slice, names: Sequence[str]) -> tuple[Cell, ...]:
    cells = [_slice_cell(group.judges[name]) for name in names]
    return Cell(group.value or "(none)"), Cell(wording.count(group.n)), *cells


def _slice_cell(judge: JudgeView) -> Cell:
    cell = score_cell(judge.mean)
    passed = "" if judge.passed.value is None else f"{wording.percent(judge.passed.value)} passed"
    return Cell(cell.text, "; ".join(filter(None, [cell.more, passed])), cell.mark, cell.tone)


def _costs(run: RunView) -> Iterator[Block]:
    head = ("Judge", "Calls", "Seconds a row", "Tokens a row", "Tokens", "Dollars a row", "Dollars")
    rows = tuple(
        (
            Cell(judge.name),
            Cell(wording.count(judge.calls)),
            _spread(judge.latency, wording.seconds),
            _spread(judge.tokens, wording.count),
            Cell(wording.count(judge.tokens.total or 0)),
            _spread(judge.cost, wording.dollars),
            Cell("unknown", tone="soft") if judge.cost is None else Cell(wording.dollars(judge.cost.total)),
        )
        for judge in run.judges
    )
    yield Table(head, rows, frozenset(range(1, len(head))), "Medians, with the 90th and the 99th percentile below")


def _spread(spread: Spread | None, form: Callable[[float], str]) -> Cell:
    if spread is None or not spread.percentiles:
        return UNKNOWN
    median, *others = (form(value) for value in spread.percentiles.values())
    return Cell(median, " / ".join(others))


def _worst(report: Report) -> Iterator[Block]:
    for place in report.worst:
        yield _judged_row(report.entries[place])


def _judged_row(entry: Entry) -> JudgedRow:
    """Return a row with its verdicts, its texts cut to a length that can be read at a glance."""
    row = entry.row
    sample = row.sample
    return JudgedRow(
        entry.index,
        "" if sample is None else _cut(sample.question),
        row.error if sample is None else _cut(sample.answer or ""),
        tuple(row.verdicts.values()),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}… ({len(text):,} characters)"


_MOST_ROWS = 10
_LONGEST_QUESTION = 90
_EVEN = 0.5


def _comparison_section(comparison: RunComparison, report: Report) -> Section:
    """Return the section that compares the two runs of a report."""
    return Section("comparison", "Against the run before", tuple(_comparison_blocks(comparison, report)))


def _comparison_blocks(comparison: RunComparison, report: Report) -> Iterator[Block]:
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
