"""What a report says, section by section."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from judges.offline.statistics.figure import Figure
from refine.report import wording
from refine.report.document import (
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
    Section,
    Table,
)
from refine.report.view import Entry, JudgeView, Report, RunView, Slice, Spread

LONGEST_TEXT = 1_000
"""Most characters of a question or an answer among the worst rows; the table of all rows has the whole text."""

_UNKNOWN = Cell(wording.DASH, tone="soft")


def sections(report: Report) -> tuple[Section, ...]:
    """Return the sections of a report, in order."""
    return tuple(_sections(report))


def _sections(report: Report) -> Iterator[Section]:
    run = report.run
    yield Section("judges", "What the judges say", (*_judges(run),))
    if report.comparison is not None:
        from refine.report.comparing import comparison_section  # noqa: PLC0415 - for two runs alone

        yield comparison_section(report.comparison, report)
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
        Cell(_rating_text(judge.ratings), mark=Parts(rating_parts(judge.ratings))) if judge.scored else _UNKNOWN,
    )


def _rating_text(ratings: Mapping[int, int]) -> str:
    return ", ".join(f"{rating}: {wording.count(n)}" for rating, n in ratings.items())


def rating_parts(ratings: Mapping[int, int]) -> tuple[Part, ...]:
    """Return the parts of a bar of ratings."""
    return tuple(Part(f"r{rating}", n, f"rated {rating}") for rating, n in ratings.items())


def score_cell(figure: Figure) -> Cell:
    """Return a cell for a mean score from 0 to 1."""
    if figure.value is None:
        return _UNKNOWN
    return Cell(
        wording.number(figure.value),
        wording.span(figure.low, figure.high),
        Range(value=figure.value, low=figure.low, high=figure.high),
    )


def share_cell(figure: Figure, *, reference: float | None = None) -> Cell:
    """Return a cell for a share."""
    if figure.value is None:
        return Cell(wording.why(figure), tone="soft") if figure.reason else _UNKNOWN
    return Cell(
        wording.percent(figure.value),
        wording.span_percent(figure.low, figure.high),
        Range(value=figure.value, low=figure.low, high=figure.high, reference=reference),
    )


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
            f"Mean score by {column}, with its 95 % interval",
        )


def _slice_row(group: Slice, names: Sequence[str]) -> tuple[Cell, ...]:
    figures = [group.judges[name].mean for name in names]
    return Cell(group.value or "(none)"), Cell(wording.count(group.n)), *map(score_cell, figures)


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
        return _UNKNOWN
    median, *others = (form(value) for value in spread.percentiles.values())
    return Cell(median, " / ".join(others))


def _worst(report: Report) -> Iterator[Block]:
    for place in report.worst:
        yield judged_row(report.entries[place])


def judged_row(entry: Entry) -> JudgedRow:
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
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… ({len(text):,} characters)"
