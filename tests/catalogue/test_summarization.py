"""Summarization scores what a summary keeps of its source, and how short it is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from judges import load
from judges.testing import ScriptedModel
from tests.kit import Shown, replying
from tests.laws import for_every

SOURCE, SUMMARY = "s" * 310, "t" * 183
NAME = "ragas.summarization_score"


def sample(summary: str = SUMMARY, *, source: list[str] | None = None) -> dict[str, Any]:
    """Make a sample."""
    return {"response": summary, "reference_contexts": [SOURCE] if source is None else source}


def answering(
    answers: Sequence[object], *, phrases: list[str] | None = None, questions: list[str] | None = None
) -> ScriptedModel:
    """Make a model that gives these answers, booleans by number or texts in a list, as many as it is given."""
    made = questions if questions is not None else [f"Question {n}?" for n in range(1, len(answers) + 1)]

    def reply(data: Shown) -> dict[str, Any]:
        if "summary" in data:
            told = [{"number": n, "reason": "So.", "verdict": one} for n, one in enumerate(answers, 1)]
            return {"answers": list(answers)} if any(isinstance(one, str) for one in answers) else {"items": told}
        if "keyphrases" in data:
            return {"questions": made}
        return {"keyphrases": ["phrase"] if phrases is None else phrases}

    return replying(reply)


@for_every("coeff, length", itertools.product([0, 0.1, 0.3, 0.5, 0.9, 1], [1, 31, 150, 310, 400]))
def test_the_score_lies_between_its_parts(coeff: float, length: int) -> None:
    """It is never above 1, and never above both parts."""
    verdict = load(NAME, model=answering([True, True, False]), coeff=coeff)(sample("t" * length))
    assert 0 <= (verdict.score or 0) <= max(2 / 3, 1 - length / 310) + 1e-12
