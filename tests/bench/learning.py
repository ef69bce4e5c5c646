"""Whether tuning and learning keep their promises, again and again.

`uv run --group dev python -m tests.bench.learning [TIMES]` prints how many of 200 tunings on shuffled labels, and
on labels of a hidden rule, say that the judge improved; how often a first level keeps the agreement promised, what
share it decides, and how long that takes.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from judges.offline import learn, tune
from tests.tuning.annotator import labelled, scripted
from tests.tuning.verdicts import disagreement, grounded, judged, noise, rude

_NEW = 1_000_000
"""Seeds from here on are of rows that nothing was learned from."""


def tunings(times: int, *, shuffled: bool) -> str:
    """Return how many tunings on fifty labels say that the judge improved, and their gain in kappa."""
    gains, improved, calls = [], 0, 0
    for seed in range(times):
        model = scripted()
        with TemporaryDirectory() as folder:
            tuning = tune(labelled(50, seed=seed, shuffled=shuffled), "helpfulness", model, out=folder)
        improved, calls = improved + tuning.improved, max(calls, len(model.prompts))
        held = tuning.held_out
        gains += [] if held.kappa_after is None else [held.kappa_after - (held.kappa_before or 0.0)]
    gain = f", gain in kappa {min(gains):.2f} to {max(gains):.2f}" if gains else ""
    kind = "shuffled labels" if shuffled else "a hidden rule"
    return f"{kind}: {improved} of {times} improved{gain}; at most {calls} of 200 calls"


def first_levels(times: int) -> list[str]:
    """Return how often the agreement promised was kept on new questions, for three judges."""
    lines = []
    for kind in (rude, grounded, noise):
        kept, shares, taken = 0, [], []
        for seed in range(times):
            with TemporaryDirectory() as folder:
                learning = learn(judged(kind, 400, seed), out=Path(folder, "first.json"))
                kept += disagreement(Path(folder, "first.json"), judged(kind, 400, _NEW + seed)) <= 1 - 0.95
            shares.append(learning.decides)
            taken.append(learning.p50_ms)
        share = f"decides {fmean(shares):.0%} alone ({min(shares):.0%} to {max(shares):.0%})"
        lines.append(f"{kind.__name__}: promise kept in {kept} of {times}, {share}, p50 {median(taken):.2f} ms")
    return lines


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for line in (tunings(count, shuffled=True), tunings(count, shuffled=False), *first_levels(count)):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
