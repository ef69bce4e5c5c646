"""The command `refine judges`: what can be loaded by name, and all about one of them."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from judges import ConfigurationError, Entry, catalogue
from judges.catalogue.registry import known

_WIDTH = 115
"""Columns where there is no terminal to fit the text to."""


def show(name: str | None, *, containing: str | None) -> None:
    """Print the catalogue as a table, or one of its judges.

    Raises:
        ConfigurationError: If nothing in the catalogue fits.
    """
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    entries = catalogue()
    if name is not None:
        console.print(_card(_found(entries, name)))
        return
    chosen = [one for one in entries if containing is None or containing.lower() in _searched(one)]
    if not chosen:
        raise ConfigurationError(f"no judge has {containing!r} in its names or its question")
    console.print(_table(chosen))
    console.print(Text(f" {len(chosen)} judges; refine judges NAME tells more of one", style="dim"))


def _found(entries: Sequence[Entry], name: str) -> Entry:
    found = next((one for one in entries if name in (one.name, *one.aliases)), None)
    if found is None:
        raise ConfigurationError(f"there is no judge {name!r}; {known().near(name)}")
    return found


def _searched(entry: Entry) -> str:
    return " ".join((entry.name, *entry.aliases, entry.asks)).lower()


def _table(entries: Sequence[Entry]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("judge", no_wrap=True, style="cyan")
    table.add_column("asks", ratio=1)
    table.add_column("calls", max_width=12)
    for one in entries:
        table.add_row(one.name, Text(one.asks), one.calls)
    return table


def _card(entry: Entry) -> Table:
    card = Table.grid(padding=(0, 2))
    card.add_column(style="bold", no_wrap=True)
    card.add_column(overflow="fold")
    told = {
        "judge": entry.name,
        "also called": ", ".join(entry.aliases),
        "asks": entry.asks,
        "judges": f"the {entry.subject}",
        "needs": ", ".join(entry.needs),
        "model calls": entry.calls,
        "value": f"{entry.scale}; {entry.better} is good",
        "source": entry.source,
        "differs": entry.differs,
        "extra": f"selfrefine[{entry.extra}]" if entry.extra else "",
    }
    for name, text in told.items():
        if text:
            card.add_row(name, Text(text))
    return card
