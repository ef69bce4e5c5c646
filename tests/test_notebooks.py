"""The notebooks under docs: each runs to its last cell without a key, and is kept without outputs."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.snippets import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
FORGET = "%reset -f"
"""Empties the namespace: one kernel runs all of them, since it imports for longer than it computes."""


@pytest.fixture(scope="module")
def client() -> Iterator[NotebookClient]:
    """Start a kernel that finds the packages of this repository."""
    client = NotebookClient(nbformat.v4.new_notebook(), timeout=300)  # type: ignore[no-untyped-call]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with client.setup_kernel(env={**os.environ, "PYTHONPATH": path}):
        yield client


@pytest.mark.notebooks
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, client: NotebookClient, tmp_path: Path) -> None:
    """Its cells run in order, in an empty folder; what it promises it asserts itself."""
    if file.stem == "local-model" and not importlib.util.find_spec("xllamacpp"):
        pytest.skip("llama.cpp has no wheel for this platform")
    notebook = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
    client.nb = notebook
    notebook.cells.insert(0, nbformat.v4.new_code_cell(f"{FORGET}\n%cd -q {tmp_path}"))  # type: ignore[no-untyped-call]
    for number, cell in enumerate(notebook.cells):
        client.execute_cell(cell, number)
    assert any("assert" in cell.source for cell in notebook.cells)
