"""The wheel: built anywhere and at any time from the same files, it is the same bytes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.snippets import ROOT

BUILT = ("graphs", "judges", "refine", "pyproject.toml", "README.md", "LICENSE")
"""What of the repository the wheel is made of."""


def build(folder: Path, *, at: int) -> Path:
    """Build a wheel of a copy whose files are of another age, under another mask of permissions."""
    folder.mkdir()
    for name in BUILT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    for file in folder.rglob("*"):
        os.utime(file, (at, at))
    run = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(run, cwd=folder, check=True, capture_output=True, env=environment)
    (wheel,) = (folder / "out").glob("*.whl")
    return wheel


def test_a_wheel_is_the_same_bytes_twice(tmp_path: Path) -> None:
    """Neither time, nor folder, nor the age of the files is in it; what is in it are the packages alone."""
    first = build(tmp_path / "here", at=1_500_000_000)
    second = build(tmp_path / "elsewhere", at=1_600_000_000)
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()
    tops = {name.partition("/")[0].partition("-")[0] for name in zipfile.ZipFile(first).namelist()}
    assert tops == {"graphs", "judges", "refine", "selfrefine"}
