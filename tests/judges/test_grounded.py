"""What no evidence contradicts may be released; the rating of a grounded answer follows its pass mark."""

from __future__ import annotations

from typing import Any

import pytest

import judges
from judges import Judge
from judges.testing import ScriptedModel
from refine import SelfRefine

ROW = {"question": "?", "answer": "One is. Two is.", "retrieved_contexts": ["One is."]}


def judge_of(name: str, standings: tuple[str, ...], **settings: Any) -> Judge:
    """Load a judge whose model finds each part of the answer supported, contradicted or absent."""
    claims = {"claims": [f"claim {number}" for number, _ in enumerate(standings, 1)]}
    items = [
        {"number": number, "reason": "Because.", "verdict": standing}
        for number, standing in enumerate(standings, 1)
    ]
    script = [{"items": items}] if name == "databricks.groundedness" else [claims, {"items": items}]
    return judges.load(name, ScriptedModel(script, cycle=True), **settings)


@pytest.mark.parametrize("name", ["ragas.faithfulness", "hallucination", "databricks.groundedness"])
@pytest.mark.parametrize(
    ("standings", "threshold", "passed"),
    [
        (("supported", "supported"), 0.5, True),
        (("supported", "absent"), 0.5, True),
        (("supported", "absent"), 0.4, True),
        (("absent", "absent"), 0.5, False),
        (("supported", "absent"), 1.0, False),
        (("supported", "contradicted"), 0.5, False),
        (("supported", "contradicted"), 0.0, False),
    ],
)
async def test_one_contradicted_part_refuses_and_the_rating_follows_the_threshold(
    name: str, standings: tuple[str, ...], threshold: float, *, passed: bool
) -> None:
    """The score stays the share; what passes is rated 3 or 4, and what does not 1 or 2."""
    judge = judge_of(name, standings, threshold=threshold)
    for verdict in (judge(ROW), await judge.acall(ROW)):
        assert verdict.score == standings.count("supported") / 2
        assert (verdict.passed, (verdict.rating or 0) >= 3, verdict.reaches(3)) == (passed, passed, passed)


def test_a_loop_releases_no_contradicted_answer() -> None:
    """It is refused although half of it is supported."""
    judge = judge_of("ragas.faithfulness", ("supported", "contradicted"))
    refiner = SelfRefine(lambda messages: "One is. Two is.", judge, max_attempts=2)
    outcome = refiner.refine("?", evidence={"retrieved_contexts": ["One is."]})
    assert (outcome.passed, len(outcome.attempts)) == (False, 2)
