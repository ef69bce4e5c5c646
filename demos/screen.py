"""A screen for the demos: rich's if that is installed, else plain text; both write the same."""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

Tone = Literal["plain", "strong", "dim", "good", "fair", "bad"]
"""The meaning of a text; a screen with colours shows it by colour."""

WIDEST = 100
"""Most columns of a line, however wide the terminal."""

_LABEL = 10
"""Columns of the label in front of an entry."""


def quantity(number: int, noun: str) -> str:
    """Return a number with its noun, plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(text: str) -> str:
    """Return the text without control characters, so that a model cannot steer the terminal."""
    return "".join(char for char in text if char == "\n" or unicodedata.category(char) not in ("Cc", "Cs"))


def screen() -> Screen:
    """Return rich's screen, or the plain one if rich is not installed."""
    try:
        return _RichScreen()
    except ImportError:
        return _PlainScreen()


class _PlainScreen:
    """Writes plain text to stdout."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._width = min(WIDEST, shutil.get_terminal_size().columns)

    def line(self, text: str = "", tone: Tone = "plain") -> None:
        """Write a paragraph."""
        del tone
        self._write(self._wrap(text))

    def rule(self, text: str) -> None:
        """Write a heading across the screen."""
        self._write(f"-- {text} {'-' * max(0, self._width - len(text) - 4)}")

    def entry(self, label: str, text: str, tone: Tone = "plain") -> None:
        """Write a label, and a text beside it."""
        del tone
        self._write(self._wrap(text, first=f"  {label}".ljust(_LABEL + 2), others=" " * (_LABEL + 2)))

    def panel(self, title: str, text: str, tone: Tone) -> None:
        """Write a text that stands out."""
        del tone
        self.rule(title)
        self._write(self._wrap(text, first="  ", others="  "))
        self._write("-" * self._width)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table."""
        lines = [columns, *rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
        self._write("")
        for line in lines:
            self._write("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        self._write("")

    def waiting(self, text: str) -> AbstractContextManager[object]:
        """Show nothing: plain text could not be erased afterwards."""
        del text
        return nullcontext()

    def _wrap(self, text: str, *, first: str = "", others: str = "") -> str:
        paragraphs = printable(text).split("\n")
        wrapped = [
            textwrap.fill(
                paragraph,
                self._width,
                initial_indent=others if place else first,
                subsequent_indent=others,
                break_long_words=False,
            )
            for place, paragraph in enumerate(paragraphs)
        ]
        return "\n".join(wrapped)

    def _write(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


class _RichScreen:
    """Writes with rich: colours where the terminal has them and NO_COLOR is not set."""

    def __init__(self) -> None:
        import rich.box  # noqa: PLC0415 - an extra, opened on demand
        import rich.console  # noqa: PLC0415 - as above
        import rich.padding  # noqa: PLC0415 - as above
        import rich.panel  # noqa: PLC0415 - as above
        import rich.rule  # noqa: PLC0415 - as above
        import rich.table  # noqa: PLC0415 - as above
        import rich.text  # noqa: PLC0415 - as above

        self._rich = rich
        self._console = rich.console.Console(highlight=False, markup=False, emoji=False)
        self._console.width = min(WIDEST, self._console.width)
        self.live = self._console.is_terminal

    def line(self, text: str = "", tone: Tone = "plain") -> None:
        """Write a paragraph."""
        is_link = "://" in text and " " not in text  # one that is broken in two cannot be followed
        self._console.print(printable(text), style=_STYLES[tone], soft_wrap=is_link)

    def rule(self, text: str) -> None:
        """Write a heading across the screen."""
        self._console.print(self._rich.rule.Rule(text, align="left", style="dim"))

    def entry(self, label: str, text: str, tone: Tone = "plain") -> None:
        """Write a label, and a text beside it."""
        grid = self._rich.table.Table.grid(padding=(0, 0))
        grid.add_column(width=_LABEL)
        grid.add_column(overflow="fold")
        grid.add_row(self._rich.text.Text(label, "dim"), self._rich.text.Text(printable(text), _STYLES[tone]))
        self._console.print(self._rich.padding.Padding(grid, (0, 0, 0, 2)))

    def panel(self, title: str, text: str, tone: Tone) -> None:
        """Write a text that stands out."""
        style = _STYLES[tone]
        panel = self._rich.panel.Panel(
            self._rich.text.Text(printable(text)),
            title=self._rich.text.Text(title, style),
            title_align="left",
            border_style=style,
            padding=(0, 1),
        )
        self._console.print(panel)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table."""
        table = self._rich.table.Table(box=self._rich.box.SIMPLE_HEAD, pad_edge=False)
        for column in columns:
            table.add_column(column, no_wrap=True)
        for row in rows:
            table.add_row(*(self._rich.text.Text(printable(cell)) for cell in row))
        if self._console.measure(table).maximum < self._console.width:
            self._console.print(table)
            return
        for title, *values in rows:
            pairs = (
                f"{name} {value}".replace(" ", "\N{NO-BREAK SPACE}")
                for name, value in zip(columns[1:], values, strict=True)
            )
            self.entry(title, "   ".join(pairs))

    def waiting(self, text: str) -> AbstractContextManager[object]:
        """Show a spinner on a terminal."""
        return self._console.status(text) if self.live else nullcontext()


_STYLES: dict[Tone, str] = {
    "plain": "",
    "strong": "bold",
    "dim": "dim",
    "good": "bold green",
    "fair": "bold yellow",
    "bad": "bold red",
}


Screen = _PlainScreen | _RichScreen
"""Where a demo writes; `live` says whether a person watches: a terminal, rather than a file or a pipe."""


def pips(rating: int | None) -> str:
    """Return a rating as four pips."""
    return "○○○○" if rating is None else "●" * rating + "○" * (4 - rating)


def tone_of(rating: int | None) -> Tone:
    """Return the tone of a rating."""
    return "bad" if rating in (None, 1) else "good" if rating == 4 else "fair"  # noqa: PLR2004 - the scale's end
