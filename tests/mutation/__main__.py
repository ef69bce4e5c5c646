"""Measure how many small faults the tests notice: `uv run --group mutation python -m tests.mutation`.

mutmut puts the faults into a copy of the tree, one after another, and runs the tests that reach each. A fault that
no test notices is a survivor: it stands in `survivors.toml` with the reason why it may, or a test is missing.
Faults are seeded samples, so that a run ends in minutes; `--all` takes every one, which takes hours.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TREE = HERE.parent.parent
GOAL = 0.85
STATISTICS = "judges/offline/statistics"
RUN = "judges/offline/run"

ROOMS: dict[str, tuple[list[str], list[str]]] = {
    "budget": (
        ["judges/runtime/budget.py", "judges/runtime/prices.py"],
        [f"tests/judges/test_{name}.py" for name in ("allowance", "budget")],
    ),
    "certificates": (
        [
            f"{STATISTICS}/certificates.py",
            *(f"judges/offline/trust/{name}.py" for name in ("calibration", "certify")),
            "judges/certificate.py",
        ],
        [
            "tests/statistics",
            "tests/loops/test_monitor.py",
            "tests/refine/test_certificates.py",
            "tests/refine/test_trust_commands.py",
        ],
    ),
    "statistics": (
        [
            f"{STATISTICS}/{name}.py"
            for name in ("bias", "comparing", "correction", "intervals", "judge_agreement", "raters", "replay")
        ],
        ["tests/statistics"],
    ),
    "run": (
        [f"{RUN}/{name}.py" for name in ("calls", "cells", "evaluate", "gate", "journal", "outputs")],
        [
            *(f"tests/runs/test_{name}.py" for name in ("batches", "gate", "limits", "resuming")),
            "tests/judges/test_offline.py",
            "tests/judges/test_comparison.py",
            "tests/judges/test_sharing.py",
        ],
    ),
    "record": (
        [f"refine/record/{name}.py" for name in ("database", "queries", "rows", "schema", "writer")],
        [
            "tests/refine/test_record.py",
            "tests/refine/test_recording.py",
            "tests/refine/test_record_rows.py",
            "tests/refine/test_loop_record.py",
            "tests/refine/test_sums.py",
            "tests/refine/test_verify.py",
            "tests/loops/test_label.py",
            "tests/loops/test_monitor.py",
            "tests/server/test_promise.py",
        ],
    ),
}
"""By room: the modules that get faults, and the tests that must notice them."""

SLOW = ["test_simulations"]
"""Tests that repeat a calculation thousands of times, which no single fault needs."""

LEFT_OUT = (".*", "__pycache__", "mutants", "node_modules")


def copy_tree(folder: Path, sources: list[str], tests: list[str]) -> None:
    """Copy the tree, and set mutmut up in the copy."""
    for name in ("demos", "docs", "graphs", "judges", "refine", "tests"):
        shutil.copytree(TREE / name, folder / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for file in TREE.glob("*.*"):
        if file.is_file():
            shutil.copy(file, folder)
    copied = ["demos", "docs", "graphs", "judges", "refine", "README.md", "CHANGELOG.md"]
    options = ["-n0", "-p", "no:cacheprovider", "-k", " and ".join(f"not {name}" for name in SLOW)]
    settings = {
        "source_paths": sources,
        "also_copy": copied,
        "pytest_add_cli_args": options,
        "pytest_add_cli_args_test_selection": tests,
        "use_git_change_detection": False,
        "track_dependencies": False,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    with (folder / "pyproject.toml").open("a") as project:
        project.write("\n".join(["", "[tool.mutmut]", *lines, ""]))


def test_room(room: str, size: int, seed: int) -> dict[str, Any]:
    """Return how many faults a room can have, and what became of those that were tested."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        folder = Path(name) / "tree"
        copy_tree(folder, *ROOMS[room])
        out = Path(name) / "results.json"
        command = [sys.executable, "-m", "tests.mutation.room", str(size), str(seed), str(out)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if not out.exists():
            raise SystemExit(f"{room}: {(done.stdout + done.stderr)[-4000:]}")
        results: dict[str, Any] = json.loads(out.read_text())
        return results


def line(name: str, killed: int, tested: int) -> str:
    """Return a line of the table."""
    return f"{name:13}{killed:5} of {tested:4} killed{killed / tested:7.1%}"


def main() -> int:
    """Print a line for each room, and the survivors that nobody has given a reason for."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"one of {', '.join(ROOMS)}; all of them if none")
    parser.add_argument("--sample", type=int, default=80, metavar="N", help="faults of each room (80)")
    parser.add_argument("--seed", type=int, default=19, metavar="N", help="another one tries other faults (19)")
    parser.add_argument("--all", action="store_true", help="every fault, in hours")
    arguments = parser.parse_args()
    known = tomllib.loads((HERE / "survivors.toml").read_text())["survivor"]
    excused = {(one["where"], one["is"]) for one in known}
    killed = tested = 0
    for room in arguments.rooms or ROOMS:
        results = test_room(room, 0 if arguments.all else arguments.sample, arguments.seed)
        survivors = [one for one in results["tested"] if not one["killed"]]
        count = len(results["tested"])
        tested, killed = tested + count, killed + count - len(survivors)
        print(
            f"{room:13}{count - len(survivors):5} of {count:4} killed{1 - len(survivors) / count:7.1%}", flush=True
        )
        for one in survivors:
            if (one["where"], one["is"]) not in excused:
                print(f"  {one['status']}: {one['where']}\n    - {one['was']}\n    + {one['is']}", flush=True)
    print(line("together", killed, tested))
    return 0 if killed / tested >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
