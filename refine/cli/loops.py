"""Recorded loops on the command line: their export and seals, `refine replay` and `refine monitor`."""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from judges import ConfigurationError, Judge, Sample
from judges.errors import plural
from judges.offline.trust.benefit_report import AttemptGain, BenefitReport, CurvePoint
from judges.offline.trust.monitor import Audits, CanaryResult, LiveRate, MonitorReport, monitor
from judges.offline.trust.replay import LoopReplay, ReplayedPolicy, replay
from refine.cli.judge_specs import load_judge
from refine.cli.options import ExportOptions, MonitorOptions, ReplayOptions, VerifyOptions
from refine.cli.tables import Column, print_json, print_table, print_text, text_console
from refine.record.seals import Verification, cells_of, seal_key_of, verify_rows

if TYPE_CHECKING:
    from refine.record import DatabaseRecord, OutcomeFilter

_Row = Mapping[str, Any]
_SHOWN = 20


def run_export(options: ExportOptions) -> int:
    """Write the rows, and return the exit code: 0, or 1 if there are none.

    Raises:
        ConfigurationError: If the record cannot be read, has no texts, or an option is wrong.
    """
    write = _writer_of(options.out)
    with open_database(options.record) as record, closing(record.export(_filter(options.where))) as rows:
        count = _write_rows(rows, options.out, write)
    place = "" if options.out is None else f" in {options.out}"
    sys.stderr.write(f"{plural(count, 'row')}{place}\n")
    return 0 if count else 1


def _filter(where: Sequence[str]) -> OutcomeFilter:
    from refine.record import OutcomeFilter  # noqa: PLC0415 - loads pydantic

    pairs = [part.partition("=") for part in where]
    for key, equals, _ in pairs:
        if not equals:
            raise ConfigurationError(f"--where is KEY=VALUE, for instance passed=false, not {key!r}")
    return OutcomeFilter.read({key: value for key, _, value in pairs})


_Write = Callable[[Iterator[_Row], TextIO], int]


def _writer_of(out: Path | None) -> _Write:
    """Return what writes rows in the form that a name asks for; JSON lines for a name that asks for none.

    Raises:
        ConfigurationError: If it asks for another form, as which the file would be read.
    """
    suffix = "" if out is None else out.suffix.lower()
    if suffix in {".json", ".tsv", ".xlsx"}:
        raise ConfigurationError(f"--out is a .jsonl, .csv or .parquet file, not {str(out)!r}")
    return {".csv": _write_csv, ".parquet": _write_parquet}.get(suffix, _write_lines)


def _write_rows(rows: Iterator[_Row], out: Path | None, write: _Write) -> int:
    """Write the rows, and return how many there were; without any, no file is made."""
    first = list(islice(rows, 1))
    with nullcontext(sys.stdout) if out is None or not first else _new_file(out) as file:
        return write(chain(first, rows), file)


def _write_lines(rows: Iterator[_Row], file: TextIO) -> int:
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - the last one is the number of rows
        file.write(f"{json.dumps(row, ensure_ascii=False)}\n")
    return count


def _write_csv(rows: Iterator[_Row], file: TextIO) -> int:
    """Write a table: what is no text stands in its cell as JSON. All rows are held, to know their columns."""
    table = [cells_of(row) for row in rows]
    columns = list(dict.fromkeys(name for cells in table for name in cells))
    writer = csv.DictWriter(file, columns)
    writer.writeheader()
    writer.writerows(table)
    return len(table)


def _write_parquet(rows: Iterator[_Row], file: TextIO) -> int:
    """Write a table of texts: what is no text stands in its cell as JSON."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415 - likewise
    except ModuleNotFoundError:
        raise ConfigurationError("a .parquet file needs pyarrow; install the extra: selfrefine[parquet]") from None
    table = [cells_of(row) for row in rows]
    columns = list(dict.fromkeys(name for cells in table for name in cells))
    arrays = {name: pa.array([cells.get(name, "") for cells in table], pa.string()) for name in columns}
    parquet.write_table(pa.table(arrays), file.buffer)
    return len(table)


@contextmanager
def _new_file(out: Path) -> Iterator[TextIO]:
    """Open a new file that only its owner reads, as it holds what people asked."""
    try:
        descriptor = os.open(out, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise ConfigurationError(
            f"{str(out)!r} is there already; choose another name, or delete it first"
        ) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="" if out.suffix == ".csv" else "\n") as file:
            yield file
    except BaseException:
        out.unlink(missing_ok=True)  # a part of an export looks like one
        raise


def run_verify(options: VerifyOptions) -> int:
    """Look at every seal, and return the exit code: 0, or 1 if something is not as it was written.

    Raises:
        ConfigurationError: If the record cannot be read, or its seals are under another key.
    """
    sources = [str(source) for source in options.record]
    heads = None if options.heads is None else _read_heads(options.heads)
    if any(map(is_database, sources)):
        if len(sources) > 1:
            raise ConfigurationError("a database is verified by itself; name one record")
        with open_database(sources[0]) as record:
            result = record.verify(heads)
    else:
        if heads is not None:
            raise ConfigurationError("--heads is for a record in a database")
        result = verify_rows([Path(source) for source in sources], seal_key_of())
    what = "outcomes" if any(map(is_database, sources)) else "rows"
    sys.stdout.writelines(f"{line}\n" for line in _lines(result, what))
    if options.save_heads is not None and not result.faults:
        with _new_file(options.save_heads) as file:
            json.dump(result.heads, file)
    return 1 if result.faults else 0


def _lines(result: Verification, what: str) -> Iterator[str]:
    under = "under a key" if result.keyed else "without a key"
    chains = "1 chain" if result.chains == 1 else f"{result.chains} chains"
    yield f"{result.sealed:,} {what} sealed {under}, in {chains}"
    if result.older:
        yield f"{result.older:,} of them have seals in the form of versions before 0.10"
    if result.keyed and result.unkeyed:
        yield f"{result.unkeyed:,} of them are sealed without it, from before there was one"
    if result.removed:
        yield f"{result.removed:,} {what} were removed by retention or a review, and left sealed gaps"
    if result.unsealed:
        yield f"{result.unsealed:,} {what} have no seal: nothing can be said of them"
    for fault in result.faults[:_SHOWN]:
        yield f"fault: {fault}"
    if len(result.faults) > _SHOWN:
        yield f"... and {len(result.faults) - _SHOWN} faults more"
    yield (
        "not as it was written" if result.faults else "as it was written" if result.sealed else "nothing is sealed"
    )


def _read_heads(file: Path) -> dict[str, Any]:
    try:
        heads = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--heads {str(file)!r} cannot be read: {type(error).__name__}") from None
    if not isinstance(heads, dict):
        raise ConfigurationError(f"--heads {str(file)!r} is none that --save-heads wrote")
    return heads


_SourceRow = Sample | Mapping[str, object]

_DATABASES = {".db", ".sqlite", ".sqlite3"}


def is_database(source: str) -> bool:
    """Check whether a person means a database: a URL, or the file of one."""
    return "://" in source or Path(source).suffix.lower() in _DATABASES


def open_database(source: str) -> DatabaseRecord:
    """Return the record in a database that is there.

    Raises:
        ConfigurationError: If there is none, or the extra `record` is not installed.
    """
    if find_spec("sqlalchemy") is None:
        raise ConfigurationError("a record in a database needs SQLAlchemy; install the extra: selfrefine[record]")
    from refine.record import DatabaseRecord, open_record  # noqa: PLC0415 - loads the loop

    record = open_record(source)
    if not isinstance(record, DatabaseRecord):
        raise ConfigurationError(f"{source!r} is no database; a record of JSON lines is a dataset as it is")
    if not record.exists():
        record.close()
        raise ConfigurationError(
            f"there is no record {str(record.file or record.name)!r}; give the database that a loop writes by "
            f"record='sqlite:///FILE'"
        )
    return record


@contextmanager
def loop_source(
    source: str, *, texts: bool = False, known_texts: bool = False
) -> Iterator[tuple[str | Iterable[_SourceRow], DatabaseRecord | None]]:
    """Open recorded loops, and the record in a database that they are in, which keeps the use of its labels.

    Args:
        source: A file, a folder, or the URL of a record.
        texts: Whether attempts without texts are left out, and a record without any is refused.
        known_texts: Whether attempts have their texts where these were recorded.

    Raises:
        ConfigurationError: If a database is meant, and there is none, or it holds no texts where they are needed.
    """
    if not is_database(source):
        yield source, None
        return
    with (
        open_database(source) as record,
        closing(record.rows() if texts else record.attempts(texts=known_texts)) as rows,
    ):
        yield rows, record


_BAR = 20
"""Columns of a bar for 100 %."""


def run_replay(options: ReplayOptions) -> int:
    """Print what the loops tell, and return the exit code: 0, or 1 where nothing is identified.

    Raises:
        ConfigurationError: If the source cannot be read, or an option is wrong.
    """
    judge = None if options.rejudge is None else load_judge(options.rejudge, options.asks)
    with loop_source(options.source, texts=judge is not None) as (rows, _):
        result = replay(
            rows,
            options.labels,
            thresholds=[int(one) if one in (1, 2, 3, 4) else one for one in options.thresholds] or None,
            max_attempts=options.max_attempts or None,
            patience=options.patience or None,
            judge=judge,
            **{name: getattr(options, name) for name in _SETTINGS_OF_REPLAY},
        )
    if options.as_json:
        print_json(result.to_dict())
    else:
        _show_replay(text_console(), result)
    return 0 if result.reason is None else 1


def _show_replay(out: Console, result: LoopReplay) -> None:
    """Print a replay."""
    if result.reason is not None:
        print_text(f"{result.reason}: {result.detail}", style="yellow")
        _print_left_out(result)
        return
    if result.benefit is not None:
        _show_benefit(out, result.benefit)
    questions = "" if result.questions == result.loops else f" to {result.questions:,} questions"
    out.print(Text(f"{plural(result.loops, 'loop')}{questions}, recorded with {result.policy}", style="bold"))
    _print_left_out(result)
    _print_curve(out, result.curve)
    if result.curve_note:
        _note(out, result.curve_note)
    if result.gains:
        _print_gains(out, result.gains, result.gain_title)
    _print_best(out, result)
    _print_policies(out, result.policies)
    for note in (result.assumption, *_explain_policies(result), *result.notes):
        _note(out, note)


_EFFECT_STYLES = {"helps": "bold green", "harms": "bold red", "cannot be told": "bold yellow"}


def _show_benefit(out: Console, report: BenefitReport) -> None:
    """Print whether a loop helps, and what stands behind that."""
    style = _EFFECT_STYLES[report.benefit.effect] if report.is_known else "yellow"
    print_text(report.headline, style=style)
    for label, text in report.entries():
        print_text(f"  {label:<10}{text}")
    head, rows = report.table()
    if rows:
        out.print()
        print_table(
            out, [Column(head[0]), *(Column(name, is_number=True) for name in head[1:-1]), Column(head[-1])], rows
        )
    out.print()


def _print_left_out(result: LoopReplay) -> None:
    parts = [f"{count} {reason}" for reason, count in result.left_out.items()]
    parts += [f"{count} of policy {digest[:8] or 'unknown'}" for digest, count in result.other_policies.items()]
    if parts:
        hint = "; choose one with --policy" if result.other_policies else ""
        print_text(f"left out: {', '.join(parts)}{hint}", style="yellow")


def _note(out: Console, text: str) -> None:
    out.print(Text(text, style="dim"))


def _print_title(out: Console, title: str) -> None:
    out.print(Text(f"\n{title}", style="bold"))


def _print_curve(out: Console, points: Sequence[CurvePoint]) -> None:
    _print_title(out, "Passed by attempt")
    names = ("attempt", "judged", "passed", "by now", "95 % interval")
    has_patience = any(point.if_patience_passed is not None for point in points)
    columns = [Column(names[0], names[0]), *(Column(name, is_number=True) for name in names[1:])]
    columns += [Column("", style="green"), *([Column("at most", is_number=True)] if has_patience else [])]
    rows = []
    for point in points:
        bar = "" if out.options.ascii_only else "█" * round(_BAR * point.cumulative)
        cells = [f"{point.attempt}", f"{point.at_risk:,}", f"{point.passed:,}", _share(point.cumulative)]
        most = [_share(point.if_patience_passed)] if has_patience else []
        rows.append([*cells, f"{point.low:.1%} to {point.high:.1%}", bar, *most])
    print_table(out, columns, rows)


def _print_gains(out: Console, gains: Sequence[AttemptGain], title: str) -> None:
    _print_title(out, f"{title[0].upper()}{title[1:]}")
    is_rejudged = any(gain.gain is not None for gain in gains)
    names = ("loops", "raw change", "fell", *(("gain", "95 % interval", "judged again") if is_rejudged else ()))
    rows = []
    for gain in gains:
        cells = [f"{gain.attempt} to {gain.attempt + 1}", f"{gain.n:,}", f"{gain.raw_change:+.2f}"]
        cells.append(_share(gain.regressions / gain.n))
        if is_rejudged:
            has_range = gain.gain_low is not None and gain.gain_high is not None
            cells.append("-" if gain.gain is None else f"{gain.gain:+.2f}")
            cells.append(f"{gain.gain_low:+.2f} to {gain.gain_high:+.2f}" if has_range else "-")
            cells.append(f"{gain.rejudged:,}")
        rows.append(cells)
    print_table(out, [Column("from", "from"), *(Column(name, is_number=True) for name in names)], rows)


def _print_best(out: Console, result: LoopReplay) -> None:
    best = result.best
    if best is None or best.mean_difference is None:
        return
    if not best.share:
        out.print(Text("The last attempt of a loop is nowhere worse than its best."))
        return
    share = _share(best.share)
    line = f"The best attempt beats the last in {share} of the loops, by {best.mean_difference:.2f} over all"
    if best.rejudged_rating is None:
        line += ", which flatters it: it is the highest of several ratings"
    else:
        line += (
            f"; its mean rating is {best.best_rating:.2f}, and {best.rejudged_rating:.2f} when judged again "
            f"({best.rejudged:,} of them): quote the second"
        )
    out.print(Text(line))


def _print_policies(out: Console, policies: Sequence[ReplayedPolicy]) -> None:
    _print_title(out, "Other policies")
    has_cost = any(policy.mean_cost is not None for policy in policies)
    has_labels = any(policy.bad_rate is not None for policy in policies)
    names = (
        "releases",
        "attempts",
        *(["$ a loop"] if has_cost else []),
        *(["bad among them"] if has_labels else []),
    )
    columns = [Column("policy"), *(Column(name, is_number=True) for name in names), Column("", "how sure")]
    rows = []
    for policy in policies:
        cells = ["-" if policy.mean_cost is None else f"{policy.mean_cost:.4g}"] if has_cost else []
        cells += [_range(policy.bad_rate)] if has_labels else []
        attempts = _range(policy.mean_attempts, form=".2f")
        row = [_name(policy), _releases(policy), attempts, *cells, _status(policy)]
        rows.append([Text(cell, style="bold" if policy.in_force else "") for cell in row])
    print_table(out, columns, rows)


def _name(policy: ReplayedPolicy) -> str:
    attempts = "1 attempt" if policy.max_attempts == 1 else f"{policy.max_attempts} attempts"
    patience = "" if policy.patience is None else f", patience {policy.patience}"
    in_force = " (in force)" if policy.in_force else ""
    return f"{policy.acceptance}, {attempts}{patience}{in_force}"


def _releases(policy: ReplayedPolicy) -> str:
    if policy.release_interval is None:
        return _range(policy.release_rate)
    low, high = policy.release_interval
    return f"{_share(policy.release_rate[0])} ({100 * low:.0f}-{high:.0%})"


def _status(policy: ReplayedPolicy) -> str:
    status_words = {"exact": "seen in every loop", "bounds": "a range"}.get(policy.status, policy.status)
    return status_words if policy.hajek is None else f"estimate {_share(policy.hajek)}"


def _explain_policies(result: LoopReplay) -> list[str]:
    """Return what a reader of the table of policies must know."""
    notes = []
    if any(policy.status == "bounds" for policy in result.policies):
        notes.append(
            "A range stands where loops ended before the policy would have ended them: it is all that the record "
            "says, and no interval. In parentheses: 95 % intervals."
        )
    labelled = result.policies[0].labelled
    if labelled:
        notes.append(
            f"Bad answers are counted over the {labelled:,} loops with labels; a released answer without a label "
            f"counts as bad. A policy that is chosen here needs fresh labels to be certified."
        )
    return notes


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _range(value: tuple[float, float] | None, *, form: str = ".1%") -> str:
    if value is None:
        return "-"
    low, high = (format(end, form) for end in value)
    return low if low == high else f"{low.removesuffix('%')}-{high}"


_END = KeyboardInterrupt
_SILENT = 3
"""Exit code of a report in which nothing could raise an alarm."""

_SETTINGS_OF_MONITOR = ("certificate", "alpha", "canary", "success_rating", "max_concurrency")
_SETTINGS_OF_REPLAY = ("policy", "slices", "rejudge_fraction", "max_concurrency", "seed")
"""Options that the functions of these names take as they are."""

_MONITOR_WIDTH = 11
"""Columns of the name of a line."""


def run_monitor(options: MonitorOptions) -> int:
    """Print how the loop does, and return the exit code: 0 no alarm, 1 an alarm, 3 nothing can raise one.

    Raises:
        ConfigurationError: If something cannot be read, or an option is wrong.
    """
    if options.watch and options.as_json:
        raise ConfigurationError("--watch shows a screen, and --json prints data once: leave one out")
    judge = None if options.judge is None else load_judge(options.judge, options.asks)
    first = _report(options, judge)

    def again() -> MonitorReport:
        later = _report(replace(options, canary=None), None)
        alarm, silent = later.alarm or first.alarm, later.silent and first.silent
        return replace(later, canary=first.canary, alarm=alarm, silent=silent)

    if options.as_json:
        print_json(first.to_dict())
    elif options.watch:
        return _exit_code(_watch(first, again, options))
    else:
        text_console().print(_render(first))
    return _exit_code(first)


def _exit_code(report: MonitorReport) -> int:
    """Return the exit code of a report."""
    return 1 if report.alarm else _SILENT if report.silent else 0


def _report(options: MonitorOptions, judge: Judge | None) -> MonitorReport:
    with loop_source(options.source) as (rows, _):
        return monitor(
            rows,
            options.labels,
            judge=judge,
            **{name: getattr(options, name) for name in _SETTINGS_OF_MONITOR},
        )


def _watch(first: MonitorReport, again: Callable[[], MonitorReport], options: MonitorOptions) -> MonitorReport:
    """Show reports until Ctrl-C, and return the last one; where there is no terminal, those that differ."""
    report, out = first, text_console()
    if out.is_terminal:
        with (
            Live(_compose_screen(report, options), console=out, screen=True, auto_refresh=False) as live,
            suppress(_END),
        ):
            while True:
                time.sleep(options.every)
                report = again()
                live.update(_compose_screen(report, options), refresh=True)
        out.print(_render(report))
        return report
    out.print(_render(report))
    with suppress(_END):
        while True:
            time.sleep(options.every)
            before, report = report, again()
            if report != before:
                out.print(_render(report))
    return report


def _compose_screen(report: MonitorReport, options: MonitorOptions) -> Group:
    now = datetime.now(UTC).astimezone().strftime("%H:%M:%S")
    foot = f"{options.source}, read at {now} and every {options.every:g} s; Ctrl-C ends"
    return Group(_render(report), Text(f"\n{foot}", style="dim"))


def _render(report: MonitorReport) -> Group:
    """Return a report as a few lines, the verdict first."""
    lines: list[RenderableType] = [
        _headline(report),
        _line("pass rate", _rate(report.pass_rate)),
    ]
    if report.audits.audits or report.standing is None:  # those of before an alarm are the promise's alone
        lines.append(_audits(report.audits))
    if report.standing is not None:
        lines.append(_line("promise", str(report.standing), style="bold red" if report.standing.moves else ""))
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


def _line(name: str, text: str, *, style: str = "") -> Table:
    line = Table.grid()
    line.add_column(width=_MONITOR_WIDTH)
    line.add_column()
    line.add_row(Text(name, style="dim"), Text(text, style=style))
    return line


def _rate(rate: LiveRate) -> str:
    if rate.rate is None:
        return "no loop was judged to its end"
    text = (
        f"{rate.rate:.1%} of {rate.judged:,} loops pass, {rate.low:.1%} to {rate.high:.1%} however often one looks"
    )
    if rate.unjudged:
        text += f"; {rate.low_if_refused:.1%} to {rate.high_if_passed:.1%} with {rate.unjudged:,} not judged"
    return text


def _audits(audits: Audits) -> Table:
    if audits.reason is not None:
        return _line("audits", audits.detail, style="yellow")
    text = (
        f"{audits.bad:,} of {audits.audits:,} audited answers bad, {audits.p0:.1%} tolerated; alarm statistic "
        f"{audits.statistic:.3g} of 100"
    )
    if audits.alarm and (audits.statistic or 0.0) < (audits.highest or 0.0):
        text += f", highest {audits.highest:.3g}"
    return _line("audits", text, style="bold red" if audits.alarm else "")


def _canary(canary: CanaryResult) -> Table:
    if canary.reason is not None:
        return _line("canary", canary.detail, style="yellow")
    statistic = "" if canary.statistic is None else f"; alarm statistic {canary.statistic:.3g} of 100"
    text = (
        f"{canary.right_now:,} of {canary.scored:,} rows judged rightly, {canary.right_before:,} before "
        f"({canary.only_before} got worse, {canary.only_now} better, p = {canary.p:.2g}){statistic}"
    )
    return _line("canary", text, style="bold red" if canary.alarm else "")
