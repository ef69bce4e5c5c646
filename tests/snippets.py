"""Running the code blocks of a page of Markdown as a reader would."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from refine.cli.app import app

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: str, kind: str) -> list[str]:
    """List the blocks of one kind, such as `python`, in order."""
    return [text for found, text in all_blocks(page) if found == kind]


def all_blocks(page: str) -> list[tuple[str, str]]:
    """List the kind and the text of every block, in order."""
    return _BLOCK.findall(page)


def expected_output(snippet: str) -> list[str]:
    """List what a snippet says that it prints: the comment behind each `print`."""
    return re.findall(r"^print\(.*\)  # (.*)$", snippet, re.MULTILINE)


def run(snippet: str, namespace: dict[str, Any], page: str) -> list[str]:
    """Run a snippet in a namespace, and list the lines that it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(snippet, page, "exec"), namespace)  # noqa: S102 - the pages are ours
    return printed.getvalue().splitlines()


def missing_in_commands(page: str) -> list[str]:
    """List what the `sh` blocks and texts of a page call and is not there: modules, and options of `refine`."""
    modules = sorted({name.rstrip(".") for name in re.findall(r"python -m ([\w.]+)", page)})
    lines = [shlex.split(line, comments=True) for block in blocks(page, "sh") for line in block.splitlines()]
    commands = [words for words in lines if words[:1] == ["refine"]]
    unknown = [f"{' '.join(words[:2])} {option}" for words in commands for option in _unknown_options(words)]
    return [module for module in modules if not _exists(module)] + unknown


def _exists(module: str) -> bool:
    place = ROOT / module.replace(".", "/")
    return place.with_suffix(".py").exists() or (place / "__main__.py").exists()


def _unknown_options(words: list[str]) -> list[str]:
    return [word for word in words if word.startswith("--") and word not in _help_of(words[1])]


@cache
def _help_of(command: str) -> str:
    """Return what `refine COMMAND --help` shows."""
    shown = CliRunner().invoke(app, [command, "--help"])
    assert shown.exit_code == 0, shown.output
    return shown.stdout
