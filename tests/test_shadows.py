"""A folder of the user's with the name of one of our packages: one clear error instead of a riddle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def outcome(code: str, folder: Path) -> str:
    """Run code in a folder of the user's, with ours behind it on the path; give the last line of what it says."""
    program = f"import sys; sys.path[:0] = [{str(folder)!r}]; sys.path.append({str(ROOT)!r}); {code}"
    run = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    return (run.stderr or run.stdout or "nothing").strip().splitlines()[-1]


@pytest.mark.parametrize("package", ["graphs", "judges"])
@pytest.mark.parametrize("kind", ["package", "module"])
def test_a_shadow_is_named_with_the_remedy(package: str, kind: str, tmp_path: Path) -> None:
    """A package or a module that is found first is named in one ImportError, by the library and the command."""
    place = tmp_path / (f"{package}.py" if kind == "module" else package)
    if kind != "module":
        place.mkdir()
    (place if kind == "module" else place / "__init__.py").touch()
    for code in ("from refine import SelfRefine", "import refine.cli.app"):
        message = outcome(code, tmp_path)
        assert message.startswith(f"ImportError: selfrefine needs its package {package!r}, but {str(place)!r}")
        assert message.endswith("rename it, or start Python from another folder")


def test_without_a_shadow_all_is_well(tmp_path: Path) -> None:
    """Folders with other names, or that are no packages, do no harm."""
    (tmp_path / "graph").mkdir()
    (tmp_path / "graphs").mkdir()
    assert outcome("import refine; print(refine.SelfRefine.__name__)", tmp_path) == "SelfRefine"
