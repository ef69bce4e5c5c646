"""Reading runs for a report."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judges.offline import load_run
from judges.offline.run.manifest import Manifest
from judges.offline.run.outputs import RESULTS, TIMING
from refine.report.building import RunData


def read_run(folder: Path) -> RunData:
    """Read a finished run.

    Raises:
        ConfigurationError: If the folder holds no run, or one that has not finished.
    """
    evaluation = load_run(folder)
    manifest = Manifest.read(folder)
    timing = _timing(folder)
    latencies = {
        name: {int(percentage): value for percentage, value in times["latency_percentiles_s"].items()}
        for name, times in timing.get("judges", {}).items()
    }
    return RunData(
        name=str(folder),
        evaluation=evaluation,
        dataset="" if manifest.dataset is None else manifest.dataset.name,
        finished=timing.get("finished") or _written(folder / RESULTS),
        seconds=timing.get("seconds"),
        latencies=latencies,
        settings={judge.name: " ".join(filter(None, (judge.spec, judge.model))) for judge in manifest.judges},
    )


def _timing(folder: Path) -> dict[str, Any]:
    """Return what the run knows of its times; nothing where that file was not kept."""
    try:
        return dict(json.loads((folder / TIMING).read_bytes()))
    except (OSError, ValueError):
        return {}


def _written(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
