"""The raw attempts of a measurement, compressed: all that its figures are made of."""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from graphs import Policy
from judges import Sample, load
from refine import Trial
from refine.trials.manifest import TrialManifest
from refine.trials.results import TrialRow, read_arms
from refine.trials.store import TrialPlan
from refine.trials.trial import _TrialRun

RAW = Path(__file__).with_name("raw")


def write_raw(file: Path, facts: Mapping[str, Any], found: Trial) -> str:
    """Write a trial as compressed lines, the first with the facts about it; return file and size in words."""
    head = {**facts, "arms": found.arms, "baseline": found.baseline, "max_attempts": found.max_attempts}
    lines = [
        json.dumps(head),
        *(row.model_dump_json(exclude_defaults=True, exclude={"question_text"}) for row in found.rows),
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(lzma.compress("\n".join(lines).encode("utf-8", "backslashreplace"), preset=9))
    return f"{file} ({file.stat().st_size / 1e6:.2f} MB)"


def read_all(folder: Path = RAW) -> dict[str, tuple[dict[str, Any], Trial]]:
    """Return all measurements by name, each with the facts about it."""
    files = sorted(folder.glob("*.jsonl.xz"))
    return {file.name.removesuffix(".jsonl.xz"): read_raw(file) for file in files}


def read_raw(file: Path) -> tuple[dict[str, Any], Trial]:
    """Return the facts about a trial, and the trial."""
    head, *lines = lzma.decompress(file.read_bytes()).decode().splitlines()
    facts: dict[str, Any] = json.loads(head)
    found = Trial(
        rows=tuple(map(TrialRow.model_validate_json, lines)),
        arms=tuple(facts["arms"]),
        baseline=facts["baseline"],
        max_attempts=facts["max_attempts"],
    )
    return facts, found


def read_so_far(folder: Path, questions: Sequence[Sample], policy: Policy) -> Trial:
    """Return what the journal of a trial holds already, also of one that is running or was stopped.

    Args:
        folder: Folder of the trial.
        questions: Its questions.
        policy: The policy of its loops.
    """
    manifest = TrialManifest.read(folder)
    plan = TrialPlan(
        questions=questions,
        generator=str,  # which is not asked, and neither is the judge
        judge=load("verifiable_instructions"),
        truth=None,
        truth_key=manifest.truth or "",
        arms=read_arms(list(manifest.arms)),
        policy=policy,
        draws=manifest.draws,
        seed=None,
    )
    with TemporaryDirectory() as copy:
        shutil.copy(folder / "journal.jsonl", copy)
        rows = _TrialRun(plan, Path(copy), {}, retry_failed=False, on_progress=None).rows()
    names = tuple(arm.name for arm in plan.arms)
    return Trial(rows=tuple(rows), arms=names, baseline=manifest.baseline, max_attempts=policy.max_attempts)
