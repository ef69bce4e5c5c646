"""The command `refine monitor`: whether a loop still does what it was certified to do."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.text import Text

from judges import ConfigurationError, Judge
from judges.offline.trust.canary import CanaryResult
from judges.offline.trust.monitoring import Audits, LiveRate, MonitorReport, monitor
from refine.cli.judge_specs import load_judge
from refine.cli.loop_source import console, loop_source
from refine.cli.one_line import STOPPED

_END = KeyboardInterrupt
_WIDTH = 11
"""Columns of the name of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorOptions:
    """The options of the command, as they were written."""

    source: str
    labels: Path | None
    certificate: Path | None
    alpha: float | None
    canary: Path | None
    judge: str | None
    success_rating: int | None
    model: str | None
    base_url: str | None
    language: str | None
    max_concurrency: int
    watch: bool
    every: float
    as_json: bool


def run_monitor(options: MonitorOptions) -> int:
    """Print how the loop does, and return the exit code: 0 no alarm, 1 an alarm, 3 nothing can raise one.

    Raises:
        ConfigurationError: If something cannot be read, or an option is wrong.
    """
    if options.watch and options.as_json:
        raise ConfigurationError("--watch shows a screen, and --json prints data once: leave one out")
    first = _report(options, _judge(options))

    def again() -> MonitorReport:
        later = _report(replace(options, canary=None), None)
        alarm, silent = later.alarm or first.alarm, later.silent and first.silent
        return replace(later, canary=first.canary, alarm=alarm, silent=silent)

    if options.as_json:
        sys.stdout.write(f"{json.dumps(first.to_dict(), ensure_ascii=False, indent=2)}\n")
    elif options.watch:
        return exit_code(_watched(first, again, options))
    else:
        console().print(rendered(first))
    return exit_code(first)


def exit_code(report: MonitorReport) -> int:
    """Return the exit code of a report."""
    return 1 if report.alarm else STOPPED if report.silent else 0


def _judge(options: MonitorOptions) -> Judge | None:
    if options.judge is None:
        return None
    return load_judge(options.judge, model=options.model, base_url=options.base_url, language=options.language)


def _report(options: MonitorOptions, judge: Judge | None) -> MonitorReport:
    with loop_source(options.source) as source:
        return monitor(
            source.rows,
            options.labels,
            certificate=options.certificate,
            alpha=options.alpha,
            canary=options.canary,
            judge=judge,
            success_rating=options.success_rating,
            max_concurrency=options.max_concurrency,
        )


def _watched(first: MonitorReport, again: Callable[[], MonitorReport], options: MonitorOptions) -> MonitorReport:
    """Show reports until Ctrl-C, and return the last one; where there is no terminal, those that differ."""
    report, out = first, console()
    if out.is_terminal:
        with Live(_screen(report, options), console=out, screen=True, auto_refresh=False) as live, suppress(_END):
            while True:
                time.sleep(options.every)
                report = again()
                live.update(_screen(report, options), refresh=True)
        out.print(rendered(report))
        return report
    out.print(rendered(report))
    with suppress(_END):
        while True:
            time.sleep(options.every)
            before, report = report, again()
            if report != before:
                out.print(rendered(report))
    return report


def _screen(report: MonitorReport, options: MonitorOptions) -> Group:
    now = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
    foot = f"{options.source}, read at {now} and every {options.every:g} s; Ctrl-C ends"
    return Group(rendered(report), Text(f"\n{foot}", style="dim"))


def rendered(report: MonitorReport) -> Group:
    """Return a report as a few lines, the verdict first."""
    lines = [_headline(report), _line("pass rate", _rate(report.pass_rate)), _audits(report.audits)]
    if report.canary is not None:
        lines.append(_canary(report.canary))
    lines += [_line("changed", text, style="bold red") for text in report.changes]
    lines += [Text(note, style="dim") for note in report.notes]
    return Group(*lines)


def _headline(report: MonitorReport) -> Text:
    loops = f"  {report.loops:,} loops" + (f", certificate {report.certificate[:8]}" if report.certificate else "")
    if report.alarm:
        void = "; the certificate is void" if report.certificate else ""
        return Text.assemble((f"ALARM{void}", "bold red"), (loops, "dim"))
    if report.silent:
        return Text.assemble(("NOTHING CAN BE SAID about bad answers", "bold yellow"), (loops, "dim"))
    return Text.assemble(("no alarm", "bold green"), (loops, "dim"))


def _line(name: str, text: str, *, style: str = "") -> Text:
    return Text.assemble((f"{name:<{_WIDTH}}", "dim"), (text, style))


def _rate(rate: LiveRate) -> str:
    if rate.rate is None:
        return "no loop was judged to its end"
    text = f"{rate.rate:.1%} of {rate.judged:,} loops pass, between {rate.low:.1%} and {rate.high:.1%} at any look"
    if rate.unjudged:
        text += f"; {rate.low_if_refused:.1%} to {rate.high_if_passed:.1%} with {rate.unjudged:,} not judged"
    return text


def _audits(audits: Audits) -> Text:
    if audits.reason is not None:
        return _line("audits", f"{audits.reason}: {audits.detail}", style="yellow")
    text = (
        f"{audits.bad:,} of {audits.audits:,} audited answers bad, {audits.p0:.1%} tolerated; alarm statistic "
        f"{audits.statistic:.3g} of 100"
    )
    if audits.alarm and (audits.statistic or 0.0) < (audits.highest or 0.0):
        text += f", highest {audits.highest:.3g}"
    return _line("audits", text, style="bold red" if audits.alarm else "")


def _canary(canary: CanaryResult) -> Text:
    if canary.reason is not None:
        return _line("canary", f"{canary.reason}: {canary.detail}", style="yellow")
    statistic = "" if canary.statistic is None else f"; alarm statistic {canary.statistic:.3g} of 100"
    text = (
        f"{canary.right_now:,} of {canary.scored:,} rows judged rightly, {canary.right_before:,} before "
        f"({canary.only_before} got worse, {canary.only_now} better, p = {canary.p:.2g}){statistic}"
    )
    return _line("canary", text, style="bold red" if canary.alarm else "")
