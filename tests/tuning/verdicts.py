"""Verdicts of synthetic judges: what tells them apart shows in the words, in the overlap, or in nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from judges import first_level
from judges.offline import evaluate
from judges.testing import ScriptedJudge

Rows = list[dict[str, Any]]
BREAK = "\n---\n"
"""Stands between an answer and its document."""

WORDS = ("the", "parcel", "arrives", "on", "monday", "please", "open", "settings", "choose", "reset", "then")


def rude(draw: random.Random) -> tuple[str, bool]:
    """Return an answer, and whether the judge accepts it: not where it is rude, but for an error in thirty."""
    is_rude = draw.random() < 0.35
    end = "you fool, just read it!!! HOW hard can it be???" if is_rude else "thank you kindly."
    return f"{' '.join(draw.choices(WORDS, k=draw.randrange(6, 20)))} {end}", is_rude is (draw.random() < 1 / 30)


def grounded(draw: random.Random) -> tuple[str, bool]:
    """Return an answer with its document, of which it holds a part where the judge accepts it."""
    document = " ".join([*draw.choices(WORDS, k=20), f"{draw.randrange(100)} euros"])
    holds = draw.random() < 0.6
    answer = " ".join(document.split()[-9:]) if holds else f"{' '.join(draw.choices(WORDS, k=7))} 7 euros"
    return f"{answer}{BREAK}{document}", holds is not (draw.random() < 1 / 30)


def noise(draw: random.Random) -> tuple[str, bool]:
    """Return an answer of which nothing tells whether the judge accepts it."""
    return " ".join(draw.choices(WORDS, k=12)), draw.random() < 0.6


def lenient(draw: random.Random) -> tuple[str, bool]:
    """Return an answer that the judge accepts nearly always, for no reason that shows."""
    return " ".join(draw.choices(WORDS, k=12)), draw.random() < 0.97


def judged(kind: Callable[[random.Random], tuple[str, bool]], count: int, seed: int) -> Rows:
    """Return judged answers of a kind."""
    draw = random.Random(seed)
    answers = [kind(draw) for _ in range(count)]
    rows = []
    for number, (text, accepted) in enumerate(answers):
        answer, _, document = text.partition(BREAK)
        row = {"user_input": f"Question {number} of {seed}?", "response": answer, "judge": "strict"}
        contexts = {"retrieved_contexts": [document]} if document else {}
        rows.append({**row, **contexts, "rating": 4 if accepted else 2})
    return rows


def disagreement(file: Path, rows: Rows) -> float:
    """Return on what share of rows both levels together say something else than the judge."""
    strict = ScriptedJudge(lambda sample: ratings[sample.response], name="strict")
    ratings = {row["response"]: row["rating"] for row in rows}
    both = first_level(file, strict, refuses=True)
    verdicts = [one.verdicts[both.name] for one in evaluate(rows, both).rows]
    return sum(one.passed is not (row["rating"] == 4) for one, row in zip(verdicts, rows, strict=True)) / len(rows)
