"""The table printed after an evaluation: one line per judge, and below it what went wrong."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from judges import ConfigurationError, Entry, Sample
from judges.catalogue.finding import find
from judges.catalogue.registry import default_registry
from judges.entry import Setting
from judges.settings import load_line, settings_of
from judges.errors import one_line, shortened
from judges.offline import Evaluation, Row, Summary, load_run, read_rows

_COLOURS = {1: "red", 2: "yellow", 3: "green", 4: "bright_green"}
_BARS = " ▁▂▃▄▅▆▇█"
_MOST = len(_BARS) - 1


class Faults:
    """The first fault of each kind and how often that kind occurred, to be printed below the table."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], tuple[int, str]] = {}
        self._times: dict[tuple[str, str], int] = {}

    def note(self, row: Row) -> None:
        """Count the unscored verdicts of a row, or the row itself if it could not be read."""
        if row.error:
            self._count("", "unreadable", row.index, row.error)
            return
        for name, verdict in row.verdicts.items():
            if verdict.unscored is not None:
                self._count(name, verdict.unscored, row.index, verdict.detail)

    def lines(self) -> list[str]:
        """Return a line for each kind of fault: how often, at which index of the results first, and why."""
        return [
            f"{self._times[kind]} x {' '.join(filter(None, kind))}, first at index {index}: {detail}"
            for kind, (index, detail) in self._first.items()
        ]

    def _count(self, judge: str, reason: str, index: int, detail: str) -> None:
        kind = (judge, reason)
        self._first.setdefault(kind, (index, detail))
        self._times[kind] = self._times.get(kind, 0) + 1


def show(console: Console, summary: Mapping[str, Summary], faults: Faults, *, place: Path, seconds: float) -> None:
    """Print the table, the faults, and where the results are."""
    console.print(_table(summary, bars=not console.options.ascii_only))
    for line in faults.lines():
        console.print(Text(f" ! {line}", style="yellow"), soft_wrap=True)
    rows = next(iter(summary.values())).n
    console.print(Text(f" {rows:,} rows in {seconds:.1f} s, written to {place}", style="dim"), soft_wrap=True)


def _table(summary: Mapping[str, Summary], *, bars: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("judge", overflow="fold")
    table.add_column("mean", justify="right")
    for rating, colour in _COLOURS.items():
        table.add_column(
            f"rated {rating}" if rating == 1 else f"{rating}",
            justify="right",
            style=colour,
            header_style=f"bold {colour}",
        )
    table.add_column("passed", justify="right")
    table.add_column("unscored", no_wrap=True)
    table.add_column("tokens", justify="right")
    table.add_column("s/row", justify="right")
    digits = max(len(f"{number:,}") for figures in summary.values() for number in figures.ratings.values())
    for name, figures in summary.items():
        table.add_row(name, *_cells(figures, digits, bars=bars))
    return table


def _cells(summary: Summary, digits: int, *, bars: bool) -> list[str | Text]:
    most = max(summary.ratings.values())
    ratings = [_count(number, most, digits, bars=bars) for number in summary.ratings.values()]
    unscored = "\n".join(f"{number:,} {reason}" for reason, number in summary.unscored.items())
    return [
        Text(_number(summary.mean, ".3f"), style="bold"),
        *ratings,
        _number(summary.passed, ".1%"),
        Text(unscored or "-", style="yellow" if unscored else "dim"),
        f"{summary.usage.tokens:,}",
        _number(summary.latency_s, ".2f"),
    ]


def _count(number: int, most: int, digits: int, *, bars: bool) -> Text:
    """Return a count, with a bar as high as its share of the highest."""
    bar = _BARS[max(1, round(_MOST * number / most))] if bars and number else ""
    return Text(f"{bar} {number:>{digits},}", style="" if number else "dim")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


_Slices = Mapping[str, Mapping[str, Mapping[str, Summary]]]

_WIDTH = 100
"""Columns of the tables if stdout is not a terminal."""


def check_columns(rows: Path, columns: Sequence[str], limit: int | None) -> None:
    """Check, before any model is asked, that each column is in the metadata of some row.

    Raises:
        ConfigurationError: If one is in none.
    """
    missing, known = set(columns), set[str]()
    for row in islice(read_rows(rows, errors="keep"), limit) if columns else ():
        if isinstance(row, Sample):
            known |= row.metadata.keys()
            missing -= row.metadata.keys()
        if not missing:
            return
    for column in columns:
        if column in missing:
            near = get_close_matches(column, known, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else f"there are {sorted(known)}" if known else "add it"
            raise ConfigurationError(
                f"--slice {shortened(column)}: no row has such a column in its metadata; {remedy}"
            )


def show_slices_of(folder: Path, columns: Sequence[str]) -> None:
    """Print the figures of a finished run by the values of each column.

    Raises:
        ConfigurationError: If no row has one of them.
    """
    if columns:
        show_slices(slices_of(load_run(folder), columns))


def slices_of(evaluation: Evaluation, columns: Sequence[str]) -> _Slices:
    """Return the figures of an evaluation by column, value and judge.

    Raises:
        ConfigurationError: If no row has one of the columns.
    """
    return {column: evaluation.slices(column) for column in columns}


def show_slices(slices: _Slices) -> None:
    """Print a table for each column."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    for column, groups in slices.items():
        console.print(_slice_table(column, groups))


def slices_as_json(slices: _Slices) -> dict[str, object]:
    """Return the same figures as plain data."""
    return {
        column: {
            value: {name: summary.model_dump(mode="json") for name, summary in judges.items()}
            for value, judges in groups.items()
        }
        for column, groups in slices.items()
    }


def _slice_table(column: str, groups: Mapping[str, Mapping[str, Summary]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    for name in (column, "judge"):
        table.add_column(name, overflow="fold")
    for name in ("rows", "scored", "mean", "95 %", "passed", "95 %"):
        table.add_column(name, justify="right")
    for value, judges in groups.items():
        for place, (name, summary) in enumerate(judges.items()):
            first = (value or "(none)") if place == 0 else ""
            table.add_row(first, name, f"{summary.n:,}", f"{summary.scored:,}", *_figures(summary))
    return table


def _figures(summary: Summary) -> list[str]:
    mean = "-" if summary.mean is None else f"{summary.mean:.3f}"
    passed = "-" if summary.passed is None else f"{summary.passed:.1%}"
    return [mean, _span(summary.mean_interval, ".3f"), passed, _span(summary.passed_interval, ".1%")]


def _span(interval: tuple[float, float] | None, form: str) -> str:
    return "-" if interval is None else f"{interval[0]:{form}} to {interval[1]:{form}}"


def refuse_json(columns: Sequence[str], folder: Path) -> None:
    """Refuse a table where only JSON is printed.

    Raises:
        ConfigurationError: If there are columns.
    """
    if columns:
        raise ConfigurationError(
            f"--slice prints tables; leave out --json, or add `refine show {folder} --json --slice {columns[0]}`"
        )


_NARROW = 120
"""Columns below which the fields of a judge stand below one another instead of in a table."""

_NARROWEST = 40
_MOST_MATCHES = 3


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which judges are shown, and how.

    Args:
        name: The judge to tell all about; None lists judges.
        words: Words that find them; see `judges.catalogue.finding.find`.
        fields: Fields that a sample has, separated by commas.
        subject: What is judged.
        as_json: Whether to print JSON.
    """

    name: str | None = None
    words: str | None = None
    fields: str | None = None
    subject: str | None = None
    as_json: bool = False


def show_catalogue(choice: Choice) -> None:
    """Print the catalogue as a table, or one of its judges.

    Raises:
        ConfigurationError: If no judge of the catalogue matches.
    """
    if choice.name is None:
        _show_list(choice)
        return
    entry = _entry_called(choice.name)
    if choice.as_json:
        _print_json(_as_json(entry))
    else:
        _console().print(_card(entry))


def _entry_called(name: str) -> Entry:
    registry = default_registry()
    try:
        return registry.entry(name)
    except ConfigurationError as error:
        matches = [entry.name for entry in find(registry.entries.values(), text=name)] if name.strip() else []
        if not matches:
            raise
        more = ", ..." if len(matches) > _MOST_MATCHES else ""
        command = f"refine judges --find {shlex.quote(one_line(name))}"
        hint = f"`{command}` finds {', '.join(matches[:_MOST_MATCHES])}{more}"
        raise ConfigurationError(f"{error}; {hint}") from error


def _show_list(choice: Choice) -> None:
    registry = default_registry()
    for _, fault in registry.faults:
        sys.stderr.write(f"refine: {fault}\n")
    entries = registry.entries.values()
    matches = find(entries, text=choice.words, fields=choice.fields, subject=choice.subject)
    if choice.as_json:
        _print_json([_as_json(entry) for entry in matches])
        return
    if not matches:
        raise ConfigurationError(f"no judge has {_criteria(choice)}; `refine judges` lists all of them")
    console = _console()
    console.print(_stack(matches) if console.width < _NARROW else _catalogue_table(matches))
    count = f"{len(matches)} judge{'s' if len(matches) > 1 else ''}"
    held = " that need no more than these, question and answer" if choice.fields is not None else ""
    console.print(Text(f"{count}{held}; refine judges NAME tells more of one", style="dim"))


def _criteria(choice: Choice) -> str:
    parts = {
        f"{shortened(choice.words)} in its names, its question, its needs or its tags": choice.words,
        f"the subject {choice.subject}": choice.subject,
        f"needs within {shortened(choice.fields)}": choice.fields,
    }
    return " and ".join(text for text, value in parts.items() if value is not None)


def _console() -> Console:
    """Return a console as wide as the terminal; of what is piped, as COLUMNS or the terminal around it says."""
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console.width = shutil.get_terminal_size((console.width, 0)).columns
    console.width = max(console.width, _NARROWEST)
    return console


def _catalogue_table(entries: Sequence[Entry]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("judge", no_wrap=True, style="cyan")
    table.add_column("asks", ratio=2)
    table.add_column("needs", ratio=1)
    table.add_column("calls", max_width=12)
    for entry in entries:
        table.add_row(entry.name, Text(entry.asks), Text(", ".join(entry.needs)), Text(entry.calls))
    return table


def _stack(entries: Sequence[Entry]) -> Group:
    """Return the judges one below the other, for a terminal too narrow for a table."""
    lines: list[RenderableType] = []
    for entry in entries:
        lines.append(Text(entry.name, style="cyan", overflow="fold"))
        lines.append(Padding(Text(entry.asks), (0, 0, 0, 2)))
        lines.append(
            Padding(Text(f"needs {', '.join(entry.needs)}; calls {entry.calls}", style="dim"), (0, 0, 0, 2))
        )
    return Group(*lines)


def _card(entry: Entry) -> Group:
    settings = settings_of(default_registry().maker(entry.name))
    own = [setting for setting in settings if not setting.shared]
    facts = _grid(_facts(entry))
    parts: list[RenderableType] = [facts]
    for title, listed in (("settings", own), ("settings that all judges of its kind have", settings[len(own) :])):
        if listed:
            parts += [Text(f"\n{title}", style="bold"), _grid(_setting_rows(listed))]
    return Group(*parts)


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    facts = {
        "judge": entry.name,
        "also called": ", ".join(entry.aliases),
        "asks": entry.asks,
        "judges": f"the {entry.subject}",
        "needs": ", ".join(entry.needs),
        "model calls": entry.calls,
        "in the loop": entry.in_loop,
        "value": f"{entry.scale}; {entry.better} is good",
        "source": entry.source,
        "compat": f"follows {entry.follows}" if entry.follows else "",
        "differs": entry.differs,
        "extra": f"selfrefine[{entry.extra}]" if entry.extra else "",
        "tags": ", ".join(entry.tags),
        "example": load_line(default_registry().maker(entry.name)),
    }
    return ((name, text) for name, text in facts.items() if text)


def _setting_rows(settings: Sequence[Setting]) -> Iterator[tuple[str, str]]:
    for setting in settings:
        default = "required" if setting.required else f"default {setting.default}"
        yield f"  {setting.name}", f"{setting.type}; {default}"
        yield "", setting.meaning
        yield "", f"example: {setting.example}" if setting.example else ""


def _grid(rows: Iterator[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        if text:
            grid.add_row(name, Text(text))
    return grid


def _as_json(entry: Entry) -> dict[str, Any]:
    make = default_registry().maker(entry.name)
    settings = settings_of(make)
    fields = {name: value for name, value in asdict(entry).items() if name != "examples"}
    return {
        **fields,
        "in_loop": entry.in_loop,
        "example": load_line(make),
        "settings": [asdict(setting) for setting in settings],
    }


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
