"""What a report of a trial says: its arms, their curves and costs, and the questions that ended worst."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from judges.errors import one_line, plural
from refine.report import document as doc

if TYPE_CHECKING:
    from judges.offline.statistics.benefit import LoopBenefit
    from refine.trials.results import ArmSummary, Trial

_MOST_WORST = 20
"""How many of the worst questions are shown."""
_LONGEST_TEXT = 400
"""How many characters of a text are shown."""

_TONES: dict[str, doc.Tone] = {"helps": "good", "harms": "bad", "cannot be told": "unsure"}


def trial_document(trial: Trial, folder: Path, title: str = "") -> doc.Document:
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
