"""The report of a trial: what each arm mends and breaks, by how much it differs, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from judges.errors import one_line
from refine.report import wording
from refine.report.document import (
    UNKNOWN,
    Block,
    Document,
    Paragraph,
    ReportTable,
    RunNames,
    Scale,
    Section,
    TableCell,
    Tone,
    share_cell,
)

if TYPE_CHECKING:
    from judges.offline.statistics.benefit import LoopBenefit
    from refine.trials.results import ArmSummary, Trial

_MOST_WORST, _LONGEST_TEXT = 20, 400
"""How many of the worst questions are shown, and how much of a text."""

_TONES: dict[str, Tone] = {"helps": "good", "harms": "bad", "cannot be told": "unsure"}


def trial_document(trial: Trial, folder: Path, title: str = "") -> Document:
    """Return the report of a trial.

    Args:
        trial: The trial.
        folder: Its folder.
        title: What it is called; empty is the folder.
    """
    questions = len({row.question for row in trial.rows})
    rows = len(trial.by_arm[trial.arms[0]])
    draws = f", {wording.plural(rows, 'draw')}" if rows != questions else ""
    headline = (
        f"{wording.plural(questions, 'question')}{draws}, {wording.plural(len(trial.arms), 'arm')}, at most "
        f"{trial.max_attempts} answers each, the first one shared"
    )
    sections = [Section("arms", "What each arm makes of the first answers", tuple(_arms(trial)))]
    if any(arm.curve for arm in trial.summary.values()):
        sections.append(Section("curves", "What another attempt brings", (_curves(trial),)))
    sections.append(Section("costs", "Answers, time, tokens and cost", (_costs(trial),)))
    if trial.worst:
        sections.append(Section("worst", "Questions that ended worst", (_worst(trial),)))
    name = title or str(folder)
    return Document(
        title=name, headline=headline, sections=tuple(sections), runs=(RunNames(name=name, judges=()),), rows=()
    )


def _arms(trial: Trial) -> Iterator[Block]:
    if trial.failed:
        n = wording.plural(len(trial.failed), "first answer")
        yield Paragraph(f"{n} could not be generated, and is in no arm.", "unsure")
    if trial.stopped:
        yield Paragraph(
            f"The trial was stopped: {trial.stopped}. Questions that had not begun are in no arm.", "unsure"
        )
    if not trial.has_truth:
        yield Paragraph(
            "Nobody has said which answers are good: accepted is only the opinion of the loop's own judge. Label "
            "the answers, and write the report again.",
            "unsure",
        )
        columns = ("Arm", "Accepted")
        rows = tuple((TableCell(arm.name), TableCell(str(arm.accepted))) for arm in trial.summary.values())
        yield ReportTable(columns, rows, frozenset({1}), "Answers that the loop's own judge accepted")
        return
    yield ReportTable(
        ("Arm", "Good", "Mended", "Broken", f"Beside {trial.baseline}", "p", "p, Holm"),
        tuple(_arm_row(arm, is_baseline=arm.name == trial.baseline) for arm in trial.summary.values()),
        frozenset({5, 6}),
        "Good answers in the end; bad first answers that became good and good ones that became bad, as shares of "
        "these with exact intervals; the difference from the baseline in points, paired by question",
    )


def _arm_row(arm: ArmSummary, *, is_baseline: bool) -> tuple[TableCell, ...]:
    if arm.effect is None or not arm.effect.own.n:
        return (TableCell(arm.name), *[UNKNOWN] * 6)
    own, beside = arm.effect.own, arm.effect.beside
    good = own.first_good - own.broken + own.mended
    return (
        TableCell(arm.name, "baseline" if is_baseline else ""),
        TableCell(wording.percent(own.good_after), f"{good} of {own.n}"),
        share_cell(own.ecr),
        share_cell(own.eir),
        UNKNOWN if beside is None else _difference(beside),
        UNKNOWN if arm.effect.p is None else TableCell(wording.p_value(arm.effect.p)),
        UNKNOWN if beside is None else TableCell(wording.p_value(beside.p), tone=_TONES[beside.effect]),
    )


def _difference(beside: LoopBenefit) -> TableCell:
    net = beside.net
    if net.value is None:
        return UNKNOWN
    ends = "" if net.low is None or net.high is None else f"{100 * net.low:+.1f} to {100 * net.high:+.1f}"
    scale = Scale(value=net.value, low=net.low, high=net.high, least=-1.0, reference=0.0)
    return TableCell(f"{100 * net.value:+.1f} points", ends, scale, _TONES[beside.effect])


def _curves(trial: Trial) -> ReportTable:
    numbers = tuple(range(1, trial.max_attempts + 1))
    arms = [arm for arm in trial.summary.values() if arm.curve]
    rows = tuple(
        (TableCell(arm.name), *(TableCell(wording.percent(share), mark=Scale(value=share)) for share in arm.curve))
        for arm in arms
    )
    columns = ("Arm", *(f"{n} answer{'' if n == 1 else 's'}" for n in numbers))
    return ReportTable(columns, rows, frozenset(), "Share of good answers if an arm may generate no more")


def _costs(trial: Trial) -> ReportTable:
    columns = ("Arm", "Answers", "Echoes", "Repeats", "Failed", "Seconds a question", "Tokens", "Dollars")
    rows = tuple(
        (
            TableCell(arm.name),
            *(TableCell(wording.count(n)) for n in (arm.generations, arm.echoes, arm.repeats, arm.failed)),
            TableCell(wording.seconds(arm.seconds)),
            TableCell(wording.count(arm.tokens)),
            TableCell(wording.dollars(arm.cost)),
        )
        for arm in trial.summary.values()
    )
    return ReportTable(columns, rows, frozenset(range(1, len(columns))), "Calls of the loop's judge included")


def _worst(trial: Trial) -> ReportTable:
    shown = trial.worst[:_MOST_WORST]
    rows = tuple(
        (
            TableCell(f"{one.fate} by {', '.join(one.arms)}", tone="bad" if one.fate == "broken" else "unsure"),
            TableCell(_cut(one.text)),
            TableCell(_cut(one.first), _cut(one.feedback)),
            TableCell(_cut(one.released) or "nothing", f"by {one.arms[0]}"),
        )
        for one in shown
    )
    columns = ("What became of it", "Question", "First answer, and what the judge said", "Released in the end")
    more = len(trial.worst) - len(shown)
    rest = f"; {wording.count(more)} more are in results.jsonl" if more else ""
    return ReportTable(columns, rows, frozenset(), f"Good answers that were broken first{rest}")


def _cut(text: str) -> str:
    return one_line(text, longest=_LONGEST_TEXT)
