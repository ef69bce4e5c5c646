"""The command `refine judges`: a table of the judges that can be loaded by name, or the details of one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from judges import ConfigurationError, Entry
from judges.catalogue.registry import default_registry, entry_called
from judges.errors import shortened

_WIDTH = 115
"""Columns of the text if stdout is not a terminal."""


def show(name: str | None, *, containing: str | None) -> None:
    """Print the catalogue as a table, or one of its judges.

    Raises:
        ConfigurationError: If no judge of the catalogue matches.
    """
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    if name is not None:
        console.print(_card(entry_called(name)))
        return
    registry = default_registry()
    for _, fault in registry.faults:
        sys.stderr.write(f"refine: {fault}\n")
    matches = [
        entry
        for entry in registry.entries.values()
        if containing is None or containing.lower() in _search_text(entry)
    ]
    if not matches:
        raise ConfigurationError(
            f"no judge has {shortened(containing)} in its names or its question; `refine judges` lists all of them"
        )
    console.print(_table(matches))
    console.print(Text(f" {len(matches)} judges; refine judges NAME tells more of one", style="dim"))


def _search_text(entry: Entry) -> str:
    return " ".join((entry.name, *entry.aliases, entry.asks)).lower()


def _table(entries: Sequence[Entry]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("judge", no_wrap=True, style="cyan")
    table.add_column("asks", ratio=1)
    table.add_column("calls", max_width=12)
    for entry in entries:
        table.add_row(entry.name, Text(entry.asks), entry.calls)
    return table


def _card(entry: Entry) -> Table:
    card = Table.grid(padding=(0, 2))
    card.add_column(style="bold", no_wrap=True)
    card.add_column(overflow="fold")
    fields = {
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
    for name, text in fields.items():
        if text:
            card.add_row(name, Text(text))
    return card
