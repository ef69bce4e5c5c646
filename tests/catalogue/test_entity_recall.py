"""Context entity recall is the share of the reference's entities that the contexts mention."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.testing import ScriptedModel
from tests.kit import replying

NAME = "ragas.context_entity_recall"
ROW: dict[str, Any] = {"question": "What?", "reference": "The reference.", "contexts": ["The context."]}
TAJ = ["Taj Mahal", "Agra", "Yamuna", "Shah Jahan", "Mumtaz Mahal", "1631"]


def listing(wanted: list[str], found: list[str]) -> ScriptedModel:
    """Make a model that finds these entities in the reference and in the contexts."""
    return replying(lambda data: {"entities": wanted if data["text"] == ROW["reference"] else found})


@pytest.mark.parametrize(
    ("wanted", "found", "compat", "corrected"),
    [
        (TAJ, [*TAJ[:4], "India"], 0.6666666655555555, 4 / 6),
        (["Taj Mahal"], ["taj mahal"], 0.0, 1.0),
        (["A", "A"], ["A"], 0.4999999975, 1.0),
        (["A", "B"], ["A"], 1 / (2 + 1e-8), 0.5),
        (["Ａｇｒａ", "X"], ["agra "], 0.0, 0.5),
    ],
)
async def test_the_score(wanted: list[str], found: list[str], compat: float, corrected: float) -> None:
    """Exact sets without letter case in corrected form; exact texts and ragas' epsilon in compat; two calls."""
    judge = load(NAME, model=listing(wanted, found))
    for verdict in (judge(ROW), await judge.acall(ROW)):
        assert (verdict.score, verdict.usage.calls) == (corrected, 2)
    old = load(NAME, model=listing(wanted, found), variant="compat")(ROW)
    assert old.score == pytest.approx(compat, abs=1e-12)


@pytest.mark.parametrize(
    ("entity", "context", "there"),
    [
        ("Marie Curie", "In 1903 MARIE  CURIE won it.", True),
        ("Agra", "The Agrarian party.", False),
        ("5", "In 15 days.", False),
        ("居里夫人", "一九零三年居里夫人获奖。", True),
        ("Мария Кюри", "Её звали Мария Кюри.", True),
        ("C++", "It is written in C++.", True),
    ],
)
def test_a_name_that_stands_in_the_contexts_is_there(entity: str, context: str, there: bool) -> None:  # noqa: FBT001
    """Whether or not the model listed it, word by word, in every script."""
    verdict = load(NAME, model=listing([entity], []))({**ROW, "contexts": [context]})
    assert verdict.passed is there


def test_a_reference_without_entities() -> None:
    """Unscored in corrected form, 0 in compat."""
    assert load(NAME, model=listing([], ["A"]))(ROW).unscored == "no_claims"
    assert load(NAME, model=listing([" "], ["A"]))(ROW).unscored == "no_claims"
    assert load(NAME, model=listing([], ["A"]), variant="compat")(ROW).score == 0.0


def test_the_feedback_names_the_missing_entities() -> None:
    """As the reference writes them, for the retriever."""
    verdict = load(NAME, model=listing(["Agra", "AGRA", "Yamuna"], ["agra"]))(ROW)
    assert verdict.feedback.splitlines()[1:] == [
        "The contexts do not mention these entities of the expected answer:",
        "- Yamuna",
    ]
    assert [(one.subject, one.passed) for one in verdict.items] == [("Agra", True), ("Yamuna", False)]


@pytest.mark.parametrize(
    ("fields", "reason"), [({"contexts": None}, "no_contexts"), ({"reference": None}, "no_reference")]
)
def test_nothing_to_judge_is_unscored(fields: dict[str, Any], reason: str) -> None:
    """No call is made where something is missing."""
    verdict = load(NAME, model=listing([], []))({**ROW, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


def test_a_failed_call_is_a_failed_judge() -> None:
    """Without the entities of one side nothing can be told."""
    model = replying(lambda data: ValueError("down"))
    assert load(NAME, model=model)(ROW).unscored == "judge_failed"
