"""The package doors: what demos, pages and the README import is exported by name from one of a few packages."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.snippets import ROOT, all_blocks

DOORS = (
    "graphs",
    "judges",
    "judges.authoring",
    "judges.offline",
    "judges.offline.statistics",
    "judges.rag",
    "judges.testing",
    "refine",
    "refine.record",
    "refine.server",
)
"""Packages whose exported names are public; all other modules may change at any time."""

PACKAGES = ("graphs", "judges", "refine")


def sources() -> Iterator[tuple[str, str]]:
    """Yield each piece of code that shows how the packages are used, with the place where it stands."""
    for file in sorted((ROOT / "demos").rglob("*.py")):
        yield file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for kind, block in all_blocks(page.read_text(encoding="utf-8")):
            if kind == "python":
                yield page.relative_to(ROOT).as_posix(), block


def imports_of(code: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import of our packages; of `import a.b` the name is empty."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node.module or "", one.name) for one in node.names)


def is_exported(module: str, name: str) -> bool:
    """Check whether an import goes through a door."""
    return module in DOORS and (not name or name in import_module(module).__all__)


def test_demos_and_pages_import_from_the_doors_alone() -> None:
    """What a reader copies keeps working: each name is one that a door exports."""
    offenders = [
        f"{place}: {module} {name}"
        for place, code in sources()
        for module, name in imports_of(code)
        if module.partition(".")[0] in PACKAGES and not is_exported(module, name)
    ]
    assert offenders == []


@pytest.mark.parametrize("door", DOORS)
def test_every_exported_name_is_there(door: str) -> None:
    """Each door lists its names in order, once each, and has all of them."""
    module = import_module(door)
    names = module.__all__
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(module, name)] == []


def test_the_code_that_is_read_is_found() -> None:
    """Demos, the README and pages are among the pieces of code."""
    places = {place for place, _ in sources()}
    assert {"README.md", "demos/weather/app.py", "docs/agents.md"} <= places
    assert Path(sys.modules["judges"].__file__ or "").is_relative_to(ROOT)
