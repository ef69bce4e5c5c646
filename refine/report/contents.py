"""What a report of one run says, or of two: from their folders to a document."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.errors import plural, shortened
from judges.offline import Evaluation, Row, Summary, load_run
from judges.offline.results import pair_rows, percentiles
from judges.offline.run.journal import is_failure
from judges.offline.run.manifest import JudgeRecord, Manifest
from judges.offline.run.outputs import RESULTS, TIMING
from judges.offline.statistics.intervals import Figure
from judges.verdict import Verdict
from refine.report import document as doc
from refine.report.trust import TrustSources, trust_of, trust_sections

if TYPE_CHECKING:
    from judges.offline import Change, RunComparison

_MOST_WORST = 5
_BINS = 10
_RATING_SCORES = {round(step / 3, 6) for step in range(4)}
_SHOWN_MODELS = 3
_LONGEST_TEXT = 1_000
"""Most characters of a question or an answer among the worst rows; the table of all rows has the whole text."""

_MOST_ROWS = 10
_MOST_CONTRADICTED = 50
_LONGEST_QUESTION = 90
_EVEN = 0.5
_PAIR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunData:
    """A run as it was read.

    Args:
        name: What it is called.
        evaluation: Its rows and summaries.
        finished: When it ended, in ISO 8601.
        timing: What its folder says of times; empty where that was not kept.
        manifest: What its folder says of judges and dataset.
    """

    name: str
    evaluation: Evaluation
    finished: str | None = None
    timing: Mapping[str, Any] = field(default_factory=dict)
    manifest: Manifest = field(default_factory=Manifest)

    @property
    def rows(self) -> Sequence[Row]:
        """Its rows."""
        return self.evaluation.kept_rows()

    def verdicts(self, judge: str) -> list[Verdict]:
        """Return what a judge says of each row."""
        return [row.verdicts[judge] for row in self.rows]


def read_run(folder: Path) -> RunData:
    """Read a finished run.

    Raises:
        ConfigurationError: If the folder holds no run, or one that has not finished.
    """
    evaluation, manifest = load_run(folder), Manifest.read(folder)
    timing: dict[str, Any] = {}
    with suppress(OSError, ValueError):
        timing = dict(json.loads((folder / TIMING).read_bytes()))
    written = datetime.fromtimestamp((folder / RESULTS).stat().st_mtime, UTC).isoformat(timespec="seconds")
    finished = timing.get("finished") or written
    return RunData(name=str(folder), evaluation=evaluation, manifest=manifest, timing=timing, finished=finished)


def build_report(
    runs: Sequence[RunData],
    *,
    slices: Sequence[str] = (),
    sources: TrustSources | None = None,
    seed: int = 0,
) -> doc.Document:
    """Return what a report of one run says, or of two.

    Args:
        runs: The run; or two over the same questions, the earlier one first.
        slices: Columns of the metadata by whose values rows are grouped.
        sources: Labels, attempts and a certificate, which say how far the later run can be believed.
        seed: Seed of all resamples.

    Raises:
        ConfigurationError: If no row has one of the columns, the two runs have no question in common, or a source
            cannot be read.
    """
    run = runs[-1]
    trust = trust_of(run.evaluation, sources or TrustSources(), seed=seed)
    rows = _paired_rows([run.rows for run in runs], {} if trust is None else trust.labels)
    of_trust = [] if trust is None else list(trust_sections(trust))
    leading = [section for section in of_trust if section.key == "benefit"]
    sections = [*leading, doc.Section("judges", "What the judges say", tuple(_judges(run)))]
    if len(runs) > 1:
        comparison = _compare(runs, seed)
        sections.insert(0, doc.Section("verdict", "In one sentence", (_verdict(comparison, runs),)))
        before, after = runs
        blocks = tuple(_comparison_blocks(comparison, before, after, rows))
        sections.append(doc.Section("comparison", "Against the run before", blocks))
    if slices:
        sections.append(doc.Section("slices", "By group", tuple(_slices(runs, slices))))
    sections += [section for section in of_trust if section not in leading]
    sections.append(doc.Section("costs", "Time, tokens and cost", tuple(_costs(run))))
    worst = _worst_rows(rows)
    if worst:
        sections.append(doc.Section("worst", "Rows that did worst", worst))
    failed = tuple(_failed_rows(rows))
    if failed:
        sections.append(doc.Section("failed", "Rows that could not be judged", failed))
    cards = tuple(_judge_cards(run))
    if cards:
        sections.append(doc.Section("cards", "How it was judged", cards))
    return doc.Document(
        title=f"{run.name} against {runs[0].name}" if len(runs) > 1 else run.name,
        headline=_headline(run),
        sections=tuple(sections),
        runs=tuple(doc.RunNames(name=one.name, judges=tuple(one.evaluation.summary)) for one in runs),
        rows=rows,
        columns=tuple(slices),
    )


def _headline(run: RunData) -> str:
    """Return in one sentence what was judged, with what, and when."""
    source = f"{run.manifest.dataset.name}, " if run.manifest.dataset is not None else ""
    judges = plural(len(run.evaluation.summary), "judge")
    seconds = run.timing.get("seconds")
    took = "" if seconds is None else f" (last start took {doc.seconds(seconds)})"
    return f"{source}{plural(len(run.rows), 'row')}, {judges}, finished {doc.moment(run.finished)}{took}"


def _worst_rows(rows: Sequence[doc.RowPair]) -> tuple[doc.WorstRow, ...]:
    """Return rows that did not pass with a judge, those with the lowest mean score first."""
    failed: list[tuple[float, int]] = []
    for place, pair in enumerate(rows):
        verdicts = [verdict for verdict in pair.row.verdicts.values() if verdict.score is not None]
        if any(not verdict.passed for verdict in verdicts):
            failed.append((sum(verdict.score or 0.0 for verdict in verdicts) / len(verdicts), place))
    return tuple(_worst_row(rows[place]) for _, place in sorted(failed)[:_MOST_WORST])


def _failed_rows(rows: Sequence[doc.RowPair]) -> Iterator[doc.RowList]:
    """Yield by judge the rows that it could not judge, which say nothing about their answers."""
    faults: dict[str, list[tuple[int, str]]] = {}
    for pair in rows:
        for name, verdict in pair.row.verdicts.items():
            if is_failure(verdict.unscored) and pair.row.sample is not None:
                question = shortened(pair.row.sample.question, longest=_LONGEST_QUESTION)
                reason = doc.reason(str(verdict.unscored))
                faults.setdefault(name, []).append((pair.index, f"{reason}: {question}"))
    for name, failed in faults.items():
        title = f"{name}: judging failed on {plural(len(failed), 'row')}"
        yield doc.RowList(title, tuple(failed[:_MOST_ROWS]), max(0, len(failed) - _MOST_ROWS))


def _judge_cards(run: RunData) -> Iterator[doc.Block]:
    """Yield what the verdicts of each judge rest on."""
    records = run.manifest.judges
    if not records:
        return
    rows = []
    for record in records:
        models = dict.fromkeys(verdict.model for verdict in run.verdicts(record.name) if verdict.model)
        rows.append(
            (
                doc.TableCell(record.name, record.spec or _made_in_python(record.settings)),
                doc.TableCell(_model_of(record) or doc.DASH, ", ".join(list(models)[:_SHOWN_MODELS])),
                doc.TableCell(record.language or record.settings.get("language", "the row's")),
                doc.TableCell(record.fingerprint[:12] or doc.DASH),
            )
        )
    yield doc.ReportTable(
        ("Judge", "Model", "Language", "Fingerprint"),
        tuple(rows),
        frozenset(),
        "What the verdicts rest on: settings, the model as named and as it answered, the language of the prompts, "
        "and a fingerprint of all of it, prompts included",
    )
    dataset = run.manifest.dataset
    if dataset is not None:
        yield doc.Paragraph(f"Dataset: {dataset.name}, SHA-256 {dataset.sha256[:16]}.", "soft")
    if run.manifest.versions:
        versions = ", ".join(f"{package} {version}" for package, version in run.manifest.versions.items())
        yield doc.Paragraph(f"Made with {versions}.", "soft")
    for record in records:
        for name, text in record.prompts.items():
            yield doc.FoldedText(f"Prompt of {record.name}{'' if name == record.name else f': {name}'}", text)


def _model_of(record: JudgeRecord) -> str | None:
    """Return the model that a judge asks as it was named; None of one that asks none, whoever else does."""
    named = [value for name, value in record.settings.items() if name.rpartition(".")[2] == "model"]
    return (record.model or ", ".join(dict.fromkeys(named))) if named or not record.settings else None


def _made_in_python(settings: Mapping[str, str]) -> str:
    """Return in words what a judge was made with that was given as an object."""
    given = [f"{name}={value}" for name, value in settings.items() if name != "class"]
    return f"{settings.get('class', '')}({', '.join(given)}), given in Python" if settings else "given in Python"


def _paired_rows(runs: Sequence[Sequence[Row]], labels: Mapping[int, bool]) -> tuple[doc.RowPair, ...]:
    """Pair the rows of two runs that ask the same; rows of one run alone stand alone."""
    words = {index: "good" if is_good else "bad" for index, is_good in labels.items()}
    sides: list[tuple[Row | None, ...]] = [(row,) for row in runs[-1]]
    if len(runs) > 1:
        pairs = pair_rows(*runs)
        paired = {id(row) for pair in pairs for row in pair}
        sides = [*pairs, *((row, None) for row in runs[0] if id(row) not in paired)]
        sides += [(None, row) for row in runs[1] if id(row) not in paired]
    rows = [_pair(side, words) for side in sides]
    return tuple(sorted(rows, key=lambda pair: (pair.index, pair.sides[-1] is not None)))


def _pair(sides: tuple[Row | None, ...], words: Mapping[int, str]) -> doc.RowPair:
    """Return a pair under the index that its row has in the last run that has it."""
    index = next(row.index for row in reversed(sides) if row is not None)
    return doc.RowPair(index=index, sides=sides, label=words.get(index, "") if sides[-1] else "")


def _judges(run: RunData) -> Iterator[doc.Block]:
    unreadable = sum(bool(row.error) for row in run.rows)
    if unreadable:
        yield doc.Paragraph(f"{plural(unreadable, 'row')} could not be read, and count as unscored.", "unsure")
    summaries = run.evaluation.summary
    silent = [name for name, summary in summaries.items() if not summary.scored]
    if silent:
        yield doc.Paragraph(f"No row has a score by {', '.join(silent)}.", "bad")
    yield doc.ReportTable(
        ("Judge", "Mean score", "Passed", "Scored", "Ratings"),
        tuple(_judge_row(run, name, summary) for name, summary in summaries.items()),
        frozenset({3}),
        "Mean score and share of passes of the rows with a score; their 95 % intervals are over questions",
    )
    for name in summaries:
        yield from _contradicted_rows(name, run)
    histograms = [_histogram(name, run.verdicts(name)) for name in summaries]
    charts = tuple(chart for chart in histograms if chart is not None)
    if charts:
        yield doc.Charts(charts)


def _contradicted_rows(judge: str, run: RunData) -> Iterator[doc.RowList]:
    """Yield the rows with claims that their evidence contradicts, each with the claims."""
    contradicted = [(row.index, row.verdicts[judge].contradicted) for row in run.rows if judge in row.verdicts]
    rows = [(index, "; ".join(claims)) for index, claims in contradicted if claims]
    if rows:
        have = "has a claim that its" if len(rows) == 1 else "have claims that their"
        title = f"{plural(len(rows), 'row')} {have} evidence contradicts, by {judge}"
        yield doc.RowList(title, tuple(rows[:_MOST_CONTRADICTED]), len(rows[_MOST_CONTRADICTED:]))


def _judge_row(run: RunData, name: str, summary: Summary) -> tuple[doc.TableCell, ...]:
    unscored = ", ".join(
        [
            *(f"{doc.count(n)} {doc.reason(code)}" for code, n in summary.unscored.items()),
            *(f"{doc.count(n)} without {doc.reason(member)}" for member, n in summary.missing.items()),
        ]
    )
    models = list(dict.fromkeys(verdict.model for verdict in run.verdicts(name) if verdict.model))
    record = next((one for one in run.manifest.judges if one.name == name), JudgeRecord(name=name))
    setting = " ".join(filter(None, (record.spec, _model_of(record))))
    return (
        doc.TableCell(name, ", ".join(models[:_SHOWN_MODELS]) or (setting if setting != name else "")),
        _score_cell(_mean_figure(summary)),
        doc.share_cell(_figure(summary.passed, summary.passed_interval, summary.scored, "Wilson, over questions")),
        doc.TableCell(
            doc.percent(summary.scored / summary.n if summary.n else None),
            unscored or "all rows",
            tone="unsure" if unscored else "plain",
        ),
        _ratings_cell(summary.ratings) if summary.scored else doc.UNKNOWN,
    )


def _score_cell(figure: Figure) -> doc.TableCell:
    """Return a cell for a mean score from 0 to 1."""
    if figure.value is None:
        return doc.UNKNOWN
    return doc.TableCell(
        doc.number(figure.value),
        doc.span(figure.low, figure.high),
        doc.Scale(value=figure.value, low=figure.low, high=figure.high),
    )


def _ratings_cell(ratings: Mapping[int, int]) -> doc.TableCell:
    text = ", ".join(f"{rating}: {doc.count(n)}" for rating, n in ratings.items())
    parts = tuple(doc.BarPart(f"r{rating}", n, f"rated {rating}") for rating, n in ratings.items())
    return doc.TableCell(text, mark=doc.Bars(parts))


def _mean_figure(summary: Summary) -> Figure:
    return _figure(summary.mean, summary.mean_interval, summary.scored, "Wilson, over questions")


def _histogram(judge: str, verdicts: Sequence[Verdict]) -> doc.Chart | None:
    """Return how many scores lie in each tenth from 0 to 1; nothing where the ratings say as much."""
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    if {round(score, 6) for score in scores} <= _RATING_SCORES:
        return None
    bins = [0] * _BINS
    for score in scores:
        bins[min(int(score * _BINS), _BINS - 1)] += 1
    parts = tuple(
        doc.BarPart("bin", n, f"{step / _BINS:.1f} to {(step + 1) / _BINS:.1f}") for step, n in enumerate(bins)
    )
    text = ", ".join(f"{part.name}: {doc.count(part.size)}" for part in parts if part.size)
    return doc.Chart(f"Scores of {judge}", doc.Bars(parts, are_columns=True), text)


def _slices(runs: Sequence[RunData], columns: Sequence[str]) -> Iterator[doc.Block]:
    run, before = runs[-1], runs[0] if len(runs) > 1 else None
    for column in columns:
        rows = []
        earlier = {} if before is None else before.evaluation.slices(column)
        for value, summaries in run.evaluation.slices(column).items():
            n = next(iter(summaries.values())).n
            slice_before = earlier.get(value, {})
            cells = [_slice_cell(summaries[name], slice_before.get(name)) for name in run.evaluation.summary]
            rows.append((doc.TableCell(value or "(none)"), doc.TableCell(doc.count(n)), *cells))
        also = "" if before is None else "; what the run before had stands in brackets"
        yield doc.ReportTable(
            (column, "Rows", *run.evaluation.summary),
            tuple(rows),
            frozenset({1}),
            f"Mean score by {column}, with its 95 % interval, and share of passes{also}",
        )


def _slice_cell(summary: Summary, before: Summary | None) -> doc.TableCell:
    cell = _score_cell(_mean_figure(summary))
    passed = "" if summary.passed is None else f"{doc.percent(summary.passed)} passed"
    if before is None:
        return doc.TableCell(cell.text, "; ".join(filter(None, [cell.more, passed])), cell.mark, cell.tone)
    passed_before = "" if before.passed is None else f" ({doc.percent(before.passed)})"
    text = f"{cell.text} ({_score_cell(_mean_figure(before)).text})"
    return doc.TableCell(
        text, "; ".join(filter(None, [cell.more, f"{passed}{passed_before}"])), cell.mark, cell.tone
    )


def _costs(run: RunData) -> Iterator[doc.Block]:
    head = ("Judge", "Calls", "Seconds a row", "Tokens a row", "Tokens", "Dollars a row", "Dollars")
    rows = tuple(_cost_row(run, name, summary) for name, summary in run.evaluation.summary.items())
    yield doc.ReportTable(
        head, rows, frozenset(range(1, len(head))), "Medians, with the 90th and the 99th percentile below"
    )


def _cost_row(run: RunData, name: str, summary: Summary) -> tuple[doc.TableCell, ...]:
    usages = [verdict.usage for verdict in run.verdicts(name)]
    times = run.timing.get("judges", {}).get(name, {})
    costs = [usage.cost for usage in usages if usage.cost is not None]
    is_priced = len(costs) == len(usages)
    return (
        doc.TableCell(name),
        doc.TableCell(doc.count(summary.usage.calls)),
        _percentile_cell(times.get("latency_percentiles_s", {}), doc.seconds),
        _percentile_cell(percentiles([usage.tokens for usage in usages]), doc.count),
        doc.TableCell(doc.count(summary.usage.tokens)),
        _percentile_cell(percentiles(costs) if is_priced else {}, doc.dollars),
        doc.TableCell(doc.dollars(summary.usage.cost)) if is_priced else doc.TableCell("unknown", tone="soft"),
    )


def _percentile_cell(values: Mapping[Any, float], form: Callable[[float], str]) -> doc.TableCell:
    if not values:
        return doc.UNKNOWN
    median, *others = (form(value) for value in values.values())
    return doc.TableCell(median, " / ".join(others))


def _figure(value: float | None, interval: tuple[float, float] | None, n: int, method: str) -> Figure:
    if value is None:
        return Figure.undefined("too_few", n, method=method)
    low, high = interval or (None, None)
    return Figure(value=value, n=n, low=low, high=high, method=method)


def _worst_row(pair: doc.RowPair) -> doc.WorstRow:
    """Return a row with its verdicts, its texts cut to a length that can be read at a glance."""
    row = pair.row
    sample = row.sample
    return doc.WorstRow(
        pair.index,
        "" if sample is None else _cut(sample.question),
        row.error if sample is None else _cut(sample.answer or ""),
        tuple(row.verdicts.values()),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}… ({len(text):,} characters)"


def _compare(runs: Sequence[RunData], seed: int) -> RunComparison:
    """Return how the two runs of a report compare."""
    from judges.offline import compare_runs  # noqa: PLC0415 - needs numpy and scipy

    before, after = runs
    return compare_runs(before.evaluation, after.evaluation, names=(before.name, after.name), seed=seed)


def _verdict(comparison: RunComparison, runs: Sequence[RunData]) -> doc.Paragraph:
    """Return in one sentence whether the later run is better, by more than chance."""
    real = [change.difference.value or 0.0 for change in comparison.changes.values() if change.is_real]
    better, worse = sum(gap > 0 for gap in real), sum(gap < 0 for gap in real)
    fell = {row for change in comparison.changes.values() for row in change.regressions}
    judges = plural(len(comparison.changes), "judge")
    if better and worse:
        difference = f"is better on {better} and worse on {worse} of {judges}"
    elif real:
        difference = f"is {'better' if better else 'worse'} on {better or worse} of {judges}"
    else:
        difference = f"differs on none of {judges} by more than chance"
    has_judges = all(run.manifest.judges for run in runs)
    same = "judge unchanged" if has_judges else "nobody knows whether the judge is the same"
    if comparison.differences:
        same = f"NOT the same {comparison.differing}"
    tone: doc.Tone = "bad" if comparison.differences or worse else "good" if better else "soft"
    return doc.Paragraph(f"{comparison.b} {difference}; {plural(len(fell), 'row')} fell; {same}.", tone)


def _comparison_blocks(
    comparison: RunComparison, before: RunData, after: RunData, rows: Sequence[doc.RowPair]
) -> Iterator[doc.Block]:
    if comparison.differences:
        yield doc.Paragraph(
            f"Not the same {comparison.differing}, so a change may come from that: "
            f"{'; '.join(comparison.differences)}.",
            "bad",
        )
    yield doc.Paragraph(
        f"Before: {before.name}. After: {after.name}. Only rows that both runs scored are compared.", "soft"
    )
    reach = max(map(_reach, comparison.changes.values()), default=0.0) or 0.1
    yield doc.ReportTable(
        ("Judge", "Before", "After", "Change", "Rows", "Win rate", "p (Holm)", "For 3 points"),
        tuple(_change_row(change, reach) for change in comparison.changes.values()),
        frozenset({1, 2, 6, 7}),
        "Change of the mean score with its 95 % interval over questions; the win rate is that of the run after, "
        "a tie counting half; the last column is how many questions would show a change of 3 points",
    )
    charts = tuple(filter(None, (_scatter(name, rows) for name in comparison.changes)))
    if charts:
        yield doc.Charts(charts)
    for name, judges in ((before.name, comparison.only_a), (after.name, comparison.only_b)):
        if judges:
            yield doc.Paragraph(f"Not compared, since {name} alone has them: {', '.join(judges)}.", "unsure")
    pairs = {pair.index: pair for pair in rows if None not in pair.sides}
    for change in comparison.changes.values():
        if change.regressions:
            yield _regressions(change, pairs)


def _scatter(judge: str, rows: Sequence[doc.RowPair]) -> doc.Chart | None:
    """Return how a judge scored the same questions before and after; nothing where no row has both."""
    counts: Counter[tuple[float, float]] = Counter()
    for pair in rows:
        verdicts = [None if side is None else side.verdicts.get(judge) for side in pair.sides]
        scores = [None if verdict is None else verdict.score for verdict in verdicts]
        if len(scores) == _PAIR and scores[0] is not None and scores[1] is not None:
            counts[round(scores[0], 2), round(scores[1], 2)] += 1
    if not counts:
        return None
    rose = sum(n for (before, after), n in counts.items() if after > before)
    fell = sum(n for (before, after), n in counts.items() if after < before)
    points = tuple((before, after, n) for (before, after), n in sorted(counts.items()))
    text = f"{doc.count(rose)} better, above the diagonal, and {doc.count(fell)} worse, below it"
    return doc.Chart(f"{judge}: {doc.count(rose)} rose, {doc.count(fell)} fell", doc.ScatterPlot(points), text)


def _reach(change: Change) -> float:
    ends = (change.difference.value, change.difference.low, change.difference.high)
    return max((abs(end) for end in ends if end is not None), default=0.0)


def _change_row(change: Change, reach: float) -> tuple[doc.TableCell, ...]:
    excluded = f"{plural(change.excluded, 'row')} scored in one run only" if change.excluded else ""
    needed = doc.DASH if change.questions_needed is None else doc.count(change.questions_needed)
    counts = (("up", change.wins, "higher"), ("equal", change.ties, "equal"), ("down", change.losses, "lower"))
    return (
        doc.TableCell(change.judge, excluded),
        doc.TableCell(doc.number(change.mean_a)),
        doc.TableCell(doc.number(change.mean_b)),
        _difference(change, reach),
        doc.TableCell(
            f"{doc.count(change.wins)} up, {doc.count(change.losses)} down",
            f"{doc.count(change.ties)} equal",
            doc.Bars(tuple(doc.BarPart(*count) for count in counts)),
        ),
        _wins(change),
        doc.TableCell(doc.p_value(change.adjusted_p), change.test.partition(",")[0]),
        doc.TableCell(needed, "questions" if change.questions_needed is not None else ""),
    )


def _difference(change: Change, reach: float) -> doc.TableCell:
    figure = change.difference
    if figure.value is None:
        return doc.TableCell("no row is scored in both runs", tone="soft")
    tone: doc.Tone = "plain" if not change.is_real else "good" if figure.value > 0 else "bad"
    mark = doc.Scale(value=figure.value, low=figure.low, high=figure.high, least=-reach, most=reach, reference=0.0)
    interval = doc.span(figure.low, figure.high, "+.3f")
    return doc.TableCell(
        f"{figure.value:+.3f}", f"{interval}{'' if change.is_real else ', may be chance'}", mark, tone
    )


def _wins(change: Change) -> doc.TableCell:
    cell, adjusted = doc.share_cell(change.win_rate, reference=_EVEN), change.length_adjusted.value
    same_length = "" if adjusted is None else f"{doc.percent(adjusted)} at equal length"
    return doc.TableCell(cell.text, ", ".join(filter(None, [cell.more, same_length])), cell.mark)


def _regressions(change: Change, pairs: Mapping[int, doc.RowPair]) -> doc.RowList:
    indexes = change.regressions[:_MOST_ROWS]
    return doc.RowList(
        f"{change.judge}: {plural(len(change.regressions), 'row')} fell, the largest fall first",
        tuple((index, _fall(pairs[index], change.judge)) for index in indexes),
        len(change.regressions) - len(indexes),
    )


def _fall(pair: doc.RowPair, judge: str) -> str:
    scores = [None if row is None else row.verdicts[judge].score for row in pair.sides]
    question = "" if pair.row.sample is None else shortened(pair.row.sample.question, longest=_LONGEST_QUESTION)
    return f"{' to '.join(map(doc.number, scores))}: {question}"
