"""`refine new-judge`: what it writes is tested, is typed, is found by its name, and never replaces anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from refine.cli.app import app
from tests.laws import for_every
from tests.snippets import ROOT, all_blocks
from tests.test_docs import begun_package, call_tests, files_in, load_module, project

__all__ = ["project"]

PAGE = (ROOT / "docs/writing-a-judge.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_package_is_whole_and_its_tests_pass(project: Path) -> None:
    """Project file, package, prompts and test; its own tests pass, and `refine judges` knows its name."""
    package = begun_package("refine new-judge shop.tone_of_voice && cd shop-tone-of-voice", project)
    written = [file.relative_to(package).as_posix() for file in package.rglob("*") if file.is_file()]
    files = sorted(name for name in written if not name.startswith("page-"))  # the entry points, as installed
    assert files == [
        "pyproject.toml",
        "shop_tone_of_voice_judge/__init__.py",
        "shop_tone_of_voice_judge/judge.py",
        "shop_tone_of_voice_judge/packs/en/tone_of_voice.toml",
        "shop_tone_of_voice_judge/py.typed",
        "tests/test_tone_of_voice.py",
    ]
    assert call_tests(load_module(package / "tests/test_tone_of_voice.py")) == 2
    shown = CliRunner().invoke(app, ["judges", "shop.tone_of_voice"])
    assert "Does the answer keep to tone_of_voice?" in shown.stdout, shown.stderr


def test_what_it_writes_and_the_page_on_judges_are_typed(folder: Path) -> None:
    """A strict type checker finds nothing, neither in a new judge nor in the one of docs/writing-a-judge.md."""
    for name in ("brevity", "shop.promises"):
        assert CliRunner().invoke(app, ["new-judge", name]).exit_code == 0
    for _, block in all_blocks(PAGE):
        for name, content in files_in(block).items():
            (folder / "shop-promises" / name).write_text(content, encoding="utf-8")
    packages = [folder / "brevity", folder / "shop-promises"]
    files = [file for package in packages for file in package.rglob("*.py")]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *map(str, files)],  # with the settings and the cache of this project
        env={**os.environ, "MYPYPATH": os.pathsep.join(map(str, packages))},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Success: no issues found in 6 source files" in checked.stdout, checked.stdout


@for_every(
    "words, line",
    [
        (["Tone"], "a judge's name is of small letters, digits and _, such as shop.brevity, not 'Tone'"),
        (["../tone"], "not '../tone'"),
        (["helpfulness"], "there is a judge 'helpfulness' already; `refine judges helpfulness` shows it"),
        (["shop.tone", "--out", "."], "'.' is there already; choose another --out"),
    ],
)
def test_wrong_names_are_one_line_and_leave_nothing_behind(folder: Path, words: list[str], line: str) -> None:
    """Names that are none or are taken, and folders that are there, with exit code 2."""
    result = CliRunner().invoke(app, ["new-judge", *words])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert line in result.stderr
    assert list(folder.iterdir()) == []
