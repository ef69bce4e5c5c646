"""A score of a summary lies between what it keeps of its source and how short it is."""

from __future__ import annotations

import itertools

from judges import load
from judges.testing import ScriptedModel
from tests.kit import items
from tests.laws import for_every

SOURCE = "s" * 310
REPLIES = [{"keyphrases": ["phrase"]}, {"questions": ["One?", "Two?", "Three?"]}, items(*[True, True, False])]


@for_every("coeff, length", itertools.product([0, 0.1, 0.3, 0.5, 0.9, 1], [1, 31, 150, 310, 400]))
def test_the_score_lies_between_its_parts(coeff: float, length: int) -> None:
    """It is never above 1, and never above both parts."""
    judge = load("ragas.summarization_score", model=ScriptedModel(REPLIES), coeff=coeff)
    verdict = judge(response="t" * length, reference_contexts=[SOURCE])
    assert 0 <= (verdict.score or 0) <= max(2 / 3, 1 - length / 310) + 1e-12
