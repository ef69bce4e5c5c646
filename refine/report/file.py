"""The file of a report, or of a trial's: which format it has, what it says, and who may read it."""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from judges import ConfigurationError, Verdict
from judges.errors import one_line, plural
from judges.offline import Evaluation, Row
from judges.runtime.validation import naming_settings
from refine.report import document as doc
from refine.report.contents import build_report, read_run
from refine.report.trust import TrustSources
from refine.trials.manifest import is_trial
from refine.trials.results import read_trial

if TYPE_CHECKING:
    from judges.offline.statistics.benefit import LoopBenefit
    from refine.trials.results import ArmSummary, Trial

_MOST_WORST = 20
"""How many of the worst questions are shown."""
_LONGEST_TEXT = 400
"""How many characters of a text are shown."""

_TONES: dict[str, doc.Tone] = {"helps": "good", "harms": "bad", "cannot be told": "unsure"}


def _trial_document(trial: Trial, folder: Path, title: str = "") -> doc.Document:
    """Return the report of a trial.

    Args:
        trial: The trial.
        folder: Its folder.
        title: What it is called; empty is the folder.
    """
    questions = len({row.question for row in trial.rows})
    rows = len(trial.by_arm[trial.arms[0]])
    draws = f", {plural(rows, 'draw')}" if rows != questions else ""
    headline = (
        f"{plural(questions, 'question')}{draws}, {plural(len(trial.arms), 'arm')}, at most "
        f"{trial.max_attempts} answers each, the first one shared"
    )
    sections = [doc.Section("arms", "What each arm makes of the first answers", tuple(_arms(trial)))]
    if any(arm.curve for arm in trial.summary.values()):
        sections.append(doc.Section("curves", "What another attempt brings", (_curves(trial),)))
    sections.append(doc.Section("costs", "Answers, time, tokens and cost", (_costs(trial),)))
    if trial.worst:
        sections.append(doc.Section("worst", "Questions that ended worst", (_worst(trial),)))
    name = title or str(folder)
    return doc.Document(
        title=name,
        headline=headline,
        sections=tuple(sections),
        runs=(doc.RunNames(name=name, judges=()),),
        rows=(),
    )


def _arms(trial: Trial) -> Iterator[doc.Block]:
    if trial.failed:
        n = plural(len(trial.failed), "first answer")
        yield doc.Paragraph(f"{n} could not be generated, and is in no arm.", "unsure")
    if trial.stopped:
        yield doc.Paragraph(
            f"The trial was stopped: {trial.stopped}. Questions that had not begun are in no arm.", "unsure"
        )
    if not trial.has_truth:
        yield doc.Paragraph(
            "Nobody has said which answers are good: accepted is only the opinion of the loop's own judge. Label "
            "the answers, and write the report again.",
            "unsure",
        )
        columns = ("Arm", "Accepted")
        rows = tuple((doc.TableCell(arm.name), doc.TableCell(str(arm.accepted))) for arm in trial.summary.values())
        yield doc.ReportTable(columns, rows, frozenset({1}), "Answers that the loop's own judge accepted")
        return
    yield doc.ReportTable(
        ("Arm", "Good", "Mended", "Broken", f"Beside {trial.baseline}", "p", "p, Holm"),
        tuple(_arm_row(arm, is_baseline=arm.name == trial.baseline) for arm in trial.summary.values()),
        frozenset({5, 6}),
        "Good answers in the end; bad first answers that became good and good ones that became bad, as shares of "
        "these with exact intervals; the difference from the baseline in points, paired by question",
    )


def _arm_row(arm: ArmSummary, *, is_baseline: bool) -> tuple[doc.TableCell, ...]:
    if arm.effect is None or not arm.effect.own.n:
        return (doc.TableCell(arm.name), *[doc.UNKNOWN] * 6)
    arm_estimate, beside = arm.effect.own, arm.effect.beside
    good = arm_estimate.first_good - arm_estimate.broken + arm_estimate.mended
    return (
        doc.TableCell(arm.name, "baseline" if is_baseline else ""),
        doc.TableCell(doc.percent(arm_estimate.good_after), f"{good} of {arm_estimate.n}"),
        doc.share_cell(arm_estimate.ecr),
        doc.share_cell(arm_estimate.eir),
        doc.UNKNOWN if beside is None else _difference(beside),
        doc.UNKNOWN if arm.effect.p is None else doc.TableCell(doc.p_value(arm.effect.p)),
        doc.UNKNOWN if beside is None else doc.TableCell(doc.p_value(beside.p), tone=_TONES[beside.effect]),
    )


def _difference(beside: LoopBenefit) -> doc.TableCell:
    net = beside.net
    if net.value is None:
        return doc.UNKNOWN
    ends = "" if net.low is None or net.high is None else f"{100 * net.low:+.1f} to {100 * net.high:+.1f}"
    scale = doc.Scale(value=net.value, low=net.low, high=net.high, least=-1.0, reference=0.0)
    return doc.TableCell(f"{100 * net.value:+.1f} points", ends, scale, _TONES[beside.effect])


def _curves(trial: Trial) -> doc.ReportTable:
    numbers = tuple(range(1, trial.max_attempts + 1))
    arms = [arm for arm in trial.summary.values() if arm.curve]
    rows = tuple(
        (
            doc.TableCell(arm.name),
            *(doc.TableCell(doc.percent(share), mark=doc.Scale(value=share)) for share in arm.curve),
        )
        for arm in arms
    )
    columns = ("Arm", *(f"{n} answer{'' if n == 1 else 's'}" for n in numbers))
    return doc.ReportTable(columns, rows, frozenset(), "Share of good answers if an arm may generate no more")


def _costs(trial: Trial) -> doc.ReportTable:
    columns = ("Arm", "Answers", "Echoes", "Repeats", "Failed", "Seconds a question", "Tokens", "Dollars")
    rows = tuple(
        (
            doc.TableCell(arm.name),
            *(doc.TableCell(doc.count(n)) for n in (arm.generations, arm.echoes, arm.repeats, arm.failed)),
            doc.TableCell(doc.seconds(arm.seconds)),
            doc.TableCell(doc.count(arm.tokens)),
            doc.TableCell(doc.dollars(arm.cost)),
        )
        for arm in trial.summary.values()
    )
    return doc.ReportTable(columns, rows, frozenset(range(1, len(columns))), "Calls of the loop's judge included")


def _worst(trial: Trial) -> doc.ReportTable:
    shown = trial.worst[:_MOST_WORST]
    rows = tuple(
        (
            doc.TableCell(
                f"{one.fate} by {', '.join(one.arms)}", tone="bad" if one.fate == "broken" else "unsure"
            ),
            doc.TableCell(_cut(one.text)),
            doc.TableCell(_cut(one.first), _cut(one.feedback)),
            doc.TableCell(_cut(one.released) or "nothing", f"by {one.arms[0]}"),
        )
        for one in shown
    )
    columns = ("What became of it", "Question", "First answer, and what the judge said", "Released in the end")
    more = len(trial.worst) - len(shown)
    rest = f"; {doc.count(more)} more are in results.jsonl" if more else ""
    return doc.ReportTable(columns, rows, frozenset(), f"Good answers that were broken first{rest}")


def _cut(text: str) -> str:
    return one_line(text, longest=_LONGEST_TEXT)


_MARKUP = re.compile(r"([\\`*_\[\]{|~$]|^[#+=-]+(?=\s|$)|^\d+(?=[.)](?:\s|$)))")
"""What means something to Markdown: within a line, or where one begins."""


def _markdown(document: doc.Document) -> str:
    """Return the report in GitHub's Markdown, without the table of all rows."""
    parts = [
        f"# {_escape_markup(document.title)}",
        _escape_markup(document.headline),
        *map(_section, document.sections),
    ]
    return "\n\n".join(parts) + "\n"


def _escape_markup(text: str) -> str:
    """Return a text on one line, in which nothing is markup, nor HTML."""
    return _MARKUP.sub(_neutral, escape(" ".join(doc.clean(text).split()), quote=False))


def _neutral(match: re.Match[str]) -> str:
    return f"&#{ord(match[1][0])};{match[1][1:]}" if match[1][0].isdigit() else f"\\{match[1]}"


def _section(part: doc.Section) -> str:
    return "\n\n".join([f"## {_escape_markup(part.title)}", *map(_block, part.blocks)])


def _block(block: doc.Block) -> str:
    match block:
        case doc.ReportTable():
            return "\n".join(_table(block))
        case doc.Paragraph(text, _):
            return _escape_markup(text)
        case doc.Charts(charts):
            return "\n".join(
                f"- {_escape_markup(chart.caption)}: {_escape_markup(chart.text)}" for chart in charts
            )
        case doc.WorstRow():
            return "\n".join(_worst_row(block))
        case doc.RowList():
            return "\n".join(_row_list(block))
        case doc.FoldedText(title, text):
            lines = (f"> {_escape_markup(line)}".rstrip() for line in text.splitlines())
            return "\n".join([f"### {_escape_markup(title)}\n", *lines])


def _table(table: doc.ReportTable) -> Iterator[str]:
    if table.caption:
        yield f"{_escape_markup(table.caption)}:\n"
    yield _line([_escape_markup(name) for name in table.columns])
    yield _line(["---:" if place in table.numeric else "---" for place in range(len(table.columns))])
    for row in table.rows:
        yield _line(map(_cell, row))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: doc.TableCell) -> str:
    return f"{_escape_markup(cell.text)} ({_escape_markup(cell.more)})" if cell.more else _escape_markup(cell.text)


def _row_list(block: doc.RowList) -> Iterator[str]:
    yield f"### {_escape_markup(block.title)}\n"
    for index, text in block.rows:
        yield f"- row {index}: {_escape_markup(text)}"
    if block.left_out:
        yield f"- and {block.left_out:,} more"


def _worst_row(row: doc.WorstRow) -> Iterator[str]:
    yield f"### Row {row.index}\n"
    yield f"> **Asked:** {_escape_markup(row.question)}\n>"
    yield f"> **Answered:** {_escape_markup(row.answer)}\n"
    for verdict in row.verdicts:
        yield from _verdict(verdict, verdict.judge, 0)


def _verdict(verdict: Verdict, name: str, depth: int) -> Iterator[str]:
    outcome = doc.reason(verdict.unscored or "") if verdict.score is None else doc.number(verdict.score, ".2f")
    mark = "" if verdict.score is None else ", passed" if verdict.passed else ", not passed"
    reasons = " ".join(filter(None, dict.fromkeys([verdict.rationale, verdict.feedback, verdict.detail])))
    why = f": {_escape_markup(reasons)}" if reasons else ""
    yield f"{'  ' * depth}- **{_escape_markup(name)}** {outcome}{mark}{why}"
    for item in verdict.items:
        yield from _verdict(item, item.subject or item.judge or "part", depth + 1)


_NOT_FIRST = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def _csv_rows(document: doc.Document) -> str:
    """Return a line for each row: what was asked and answered, and each judge's score, rating and reasons.

    A text that a spreadsheet could take for a formula begins with an apostrophe; so does one that begins with an
    apostrophe itself, so that taking the first apostrophe away gives back every text.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(map(_csv_cell, _head(document)))
    writer.writerows(map(_csv_cell, _csv_line(pair, document)) for pair in document.rows)
    return buffer.getvalue()


def _csv_cell(value: object) -> object:
    """Return a value as a cell that is no formula; numbers stay numbers."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_NOT_FIRST) else value


def _head(document: doc.Document) -> Iterator[str]:
    yield from ("row", "question")
    for run in document.runs:
        prefix = f"{run.name}: " if len(document.runs) > 1 else ""
        yield f"{prefix}answer"
        for judge in run.judges:
            yield from (f"{prefix}{judge}{part}" for part in ("", " rating", " passed", " unscored", " reasons"))


def _csv_line(pair: doc.RowPair, document: doc.Document) -> Iterator[object]:
    sample = pair.row.sample
    yield pair.index
    yield pair.row.error if sample is None else sample.question
    for row, run in zip(pair.sides, document.runs, strict=True):
        yield from _side(row, run.judges)


def _side(row: Row | None, judges: Sequence[str]) -> Iterator[object]:
    yield None if row is None or row.sample is None else row.sample.answer
    for name in judges:
        verdict = None if row is None else row.verdicts[name]
        if verdict is None:
            yield from (None,) * 5
            continue
        yield from (verdict.score, verdict.rating, verdict.passed, verdict.unscored)
        yield "\n".join(filter(None, dict.fromkeys((verdict.rationale, verdict.feedback, verdict.detail))))


_Format = Literal["html", "md", "csv"]

_FORMATS: Mapping[str, _Format] = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".csv": "csv"}
_STDOUT = Path("-")


@naming_settings("write_report(['runs/1'], 'report.html')")
def write_report(
    runs: Sequence[str | Path] | str | Path,
    out: str | Path | None = None,
    *,
    form: str | None = None,
    slices: Sequence[str] = (),
    labels: Path | None = None,
    attempts: Path | None = None,
    certificate: Path | None = None,
    title: str = "",
    seed: int = 0,
) -> Path:
    """Write a report of a finished run, of two over the same questions, or of a trial, and return where it is.

    Args:
        runs: Folder of the run, or of a trial; or of two runs, the earlier one first.
        out: The file, which its owner alone can read; `-` is stdout. None is report.html in the folder of the run.
        form: `html`, `md` or `csv`; None takes what the name of the file ends with.
        slices: Columns of the metadata by whose values rows are grouped.
        labels: File of labels; None takes what `refine label` left in the folder of the run.
        attempts: File of recorded attempts.
        certificate: File that `refine certify` wrote.
        title: What the run is called; empty is its folder.
        seed: Seed of all resamples.

    Raises:
        ConfigurationError: If a run has not finished, a column is unknown, or the file cannot be written.
    """
    from judges.offline.trust.rows import labels_beside  # noqa: PLC0415 - loads numpy

    if isinstance(runs, Evaluation):
        raise ConfigurationError(
            "a report is of finished runs: evaluate(rows, judge, run='runs/1'), then write_report(['runs/1'])"
        )
    folders = [Path(run) for run in ([runs] if isinstance(runs, str | Path) else runs)]
    file = None if out is None else Path(out)
    named_format = _format_of(file, form)
    if any(map(is_trial, folders)):
        _check_trial(folders, named_format, slices or attempts or certificate)
        document = _trial_document(read_trial(folders[0], labels), folders[0], title)
        return _put(document, file or folders[0] / f"report.{named_format}", named_format)
    data = [read_run(folder) for folder in folders]
    data[-1] = replace(data[-1], name=title or data[-1].name)
    sources = TrustSources(labels=labels or labels_beside(folders[-1]), attempts=attempts, certificate=certificate)
    document = build_report(data, slices=slices, sources=sources, seed=seed)
    return _put(document, file or folders[-1] / f"report.{named_format}", named_format)


def _check_trial(folders: Sequence[Path], form: _Format, others: object) -> None:
    """Check that a report of a trial is about it alone, and of sections."""
    if len(folders) > 1 or others:
        raise ConfigurationError("a trial is reported by itself; leave out the other run, --slice, and the like")
    if form == "csv":
        raise ConfigurationError("a table of rows is of a run; of a trial write a .html or a .md file")


def _put(document: doc.Document, file: Path, form: _Format) -> Path:
    """Write a report where it is to be, and return that."""
    text = _renderer(form)(document)
    if file == _STDOUT:
        sys.stdout.write(text)
    else:
        _write(file, text.encode("utf-8", "backslashreplace"))
    return file


def _format_of(file: Path | None, form: str | None) -> _Format:
    """Return the format: as it is named, or else as the name of the file ends."""
    if form is not None:
        named = _FORMATS.get(f".{form.lower().lstrip('.')}")
        if named is None:
            raise ConfigurationError(f"--format is html, md or csv, not {form!r}")
        return named
    if file is None:
        return "html"
    if file.is_dir():
        raise ConfigurationError(f"--out {file} is a folder; name a file in it, report.html")
    by_name = _FORMATS.get(file.suffix.lower())
    if by_name is None:
        raise ConfigurationError(
            f"--out {str(file)!r} ends with no known format; name a .html, .md or .csv file, or --format"
        )
    return by_name


def _renderer(form: _Format) -> Callable[[doc.Document], str]:
    match form:
        case "html":
            from refine.report.page import page  # noqa: PLC0415 - one of three

            return page
        case "md":
            return _markdown
        case "csv":
            return _csv_rows


def _write(path: Path, content: bytes) -> None:
    """Write a file that its owner alone can read, since it holds what users asked."""
    try:
        if path.is_dir():
            raise ConfigurationError(f"--out {path} is a folder; name a file in it, e.g. {path / 'report.html'}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"--out {path} cannot be written: {reason}; choose another file") from None
