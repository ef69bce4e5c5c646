"""A folder of the user's with the name of one of our packages: one clear error instead of a riddle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def outcome(code: str, folder: Path) -> list[str]:
    """Run code in a folder of the user's, with ours behind it on the path; give the lines that it says."""
    program = f"import sys; sys.path[:0] = [{str(folder)!r}]; sys.path.append({str(ROOT)!r})\n{code}"
    run = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    return [*run.stdout.splitlines(), *run.stderr.splitlines()]


TRIED = """
for code in ("from refine import SelfRefine", "import refine.cli.app"):
    try:
        exec(code)
    except ImportError as error:
        print(error)
"""


@pytest.mark.parametrize("package", ["graphs", "judges"])
@pytest.mark.parametrize("kind", ["package", "module"])
def test_a_shadow_is_named_with_the_remedy(package: str, kind: str, tmp_path: Path) -> None:
    """A package or a module that is found first is named in one ImportError, by the library and the command."""
    place = tmp_path / (f"{package}.py" if kind == "module" else package)
    if kind != "module":
        place.mkdir()
    (place if kind == "module" else place / "__init__.py").touch()
    messages = outcome(TRIED, tmp_path)
    assert len(messages) == 2
    for message in messages:
        assert message.startswith(f"selfrefine needs its package {package!r}, but {str(place)!r}")
        assert message.endswith("rename it, or start Python from another folder")


def test_without_a_shadow_all_is_well(tmp_path: Path) -> None:
    """Folders with other names, or that are no packages, do no harm."""
    (tmp_path / "graph").mkdir()
    (tmp_path / "graphs").mkdir()
    assert outcome("import refine; print(refine.SelfRefine.__name__)", tmp_path) == ["SelfRefine"]
