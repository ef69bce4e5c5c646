"""The reference page tells of every judge what the catalogue knows, and is never out of date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from judges import Entry, Sample
from judges.catalogue.reference_page import PAGE, page
from judges.catalogue.registry import catalogue
from tests.laws import for_every

ROOT = Path(__file__).resolve().parents[2]
every = for_every("entry", catalogue())


def test_the_page_is_the_one_generated() -> None:
    """Whoever changes an entry writes the page anew, with `python -m judges.catalogue.reference_page`."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == page()


@every
def test_an_entry_is_complete(entry: Entry) -> None:
    """It asks a question, needs fields that there are, has a formula for calls, and a source where it has one."""
    assert re.fullmatch(r"[A-Z].*[^ ?]\?", entry.asks)
    assert entry.needs
    assert all(set(need.split(" or ")) & set(Sample.model_fields) for need in entry.needs)
    assert re.fullmatch(r"\d*[nkt]?( \+ \d*[nkt])*([,;] .+)?", entry.calls)
    assert entry.scale
    assert entry.source or "." not in entry.name


@every
def test_every_judge_is_on_the_page(entry: Entry) -> None:
    """Its name stands at the beginning of a row, and the aliases behind it."""
    row = next(line for line in page().splitlines() if line.startswith(f"| **`{entry.name}`**"))
    assert all(f"`{alias}`" in row for alias in entry.aliases)
    assert entry.asks in row


def test_a_row_is_a_row_whatever_the_texts() -> None:
    """Bars and line ends in a text break no table."""
    told = page([Entry(name="x.y", asks="a | b?", needs=("response",), differs="one\ntwo", better="low")])
    (row,) = (line for line in told.splitlines() if "x.y" in line)
    assert "a \\| b?" in row
    assert "one two" in row
    assert "0 to 1; low is good" in row
    assert "## x\n" in told


def test_the_command_prints_the_page(tmp_path: Path) -> None:
    """Without a file it prints, with one it writes, and both give the same."""
    run = [sys.executable, "-m", "judges.catalogue.reference_page"]
    printed = subprocess.run(run, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    subprocess.run([*run, str(tmp_path / "docs/page.md")], cwd=ROOT, check=True)
    assert printed == (tmp_path / "docs/page.md").read_text(encoding="utf-8") == page()
