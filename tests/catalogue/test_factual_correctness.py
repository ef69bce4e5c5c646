"""Factual correctness is precision, recall and F over claims."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import Shown, items, replying

NAME = "ragas.factual_correctness"
ROW: dict[str, Any] = {"question": "What?", "answer": "The answer.", "reference": "The reference."}


def verifying(given: list[Any], wanted: list[Any]) -> ScriptedModel:
    """Make a model that finds a claim for each verdict, and gives these verdicts on them."""

    def reply(data: Shown) -> dict[str, Any]:
        if "text" in data:
            return {
                "claims": [f"claim {n}" for n, _ in enumerate(given if data["text"] == ROW["answer"] else wanted)]
            }
        return items(*(given if data["contexts"] == [ROW["reference"]] else wanted))

    return replying(reply)


def words(marks: list[int]) -> list[str]:
    """Write marks as where a claim stands."""
    return ["supported" if one else "absent" for one in marks]


@pytest.mark.parametrize(
    ("given", "wanted", "mode", "compat", "corrected"),
    [
        ([1], [1, 0], "precision", 1.0, 1.0),
        ([1], [1, 0], "recall", 0.5, 0.5),
        ([1], [1, 0], "f1", 0.67, 2 / 3),
        ([1, 1, 1, 1], [0], "recall", 0.8, 0.0),
        ([1, 0, 0], [1, 1], "precision", 0.33, 1 / 3),
        ([1, 0], [1, 1], "f1", 0.67, 2 / 3),
        ([0, 0], [0], "f1", 0.0, 0.0),
    ],
)
async def test_the_score(given: list[int], wanted: list[int], mode: str, compat: float, corrected: float) -> None:
    """Corrected takes recall from the reference's claims; compat mixes both lists and rounds to 2 places."""
    calls = 2 if mode == "precision" else 4
    judge = load(NAME, model=verifying(words(given), words(wanted)), mode=mode)
    for verdict in (judge(ROW), await judge.acall(ROW)):
        assert verdict.score == pytest.approx(corrected, abs=1e-12)
        assert verdict.usage.calls == calls
    old = load(NAME, model=verifying(given, wanted), mode=mode, variant="compat")(ROW)
    assert old.score == pytest.approx(compat, abs=1e-12)


@pytest.mark.parametrize(
    ("right", "wrong", "left_out", "beta", "score"),
    [(5, 2, 4, 1, 0.63), (3, 2, 8, 1, 0.37), (7, 1, 5, 2, 0.63), (1, 19, 4, 2, 0.13), (3, 34, 40, 1, 0.08)],
)
def test_compat_rounds_halves_as_ragas_does(
    right: int, wrong: int, left_out: int, beta: float, score: float
) -> None:
    """The order of the formula and numpy's rounding decide on which side a half falls."""
    model = verifying([1] * right + [0] * wrong, [0] * left_out)
    assert load(NAME, model=model, beta=beta, variant="compat")(ROW).score == score


def test_beta_weighs_recall() -> None:
    """F_2 of P = 1 and R = 0.5."""
    verdict = load(NAME, model=verifying(["supported"], words([1, 0])), beta=2)(ROW)
    assert verdict.score == pytest.approx(5 * 0.5 / (4 * 1 + 0.5))


@pytest.mark.parametrize(
    ("given", "wanted", "mode", "score"),
    [([], [1], "f1", None), ([1], [], "f1", None), ([], [1], "recall", 1.0), ([1], [], "precision", 1.0)],
)
def test_no_claims_are_unscored_where_they_are_needed(
    given: list[int], wanted: list[int], mode: str, score: float | None
) -> None:
    """A precision needs claims of the answer, a recall those of the reference."""
    verdict = load(NAME, model=verifying(words(given), words(wanted)), mode=mode)(ROW)
    assert (verdict.score, verdict.unscored) == (score, "no_claims" if score is None else None)


def test_no_claims_of_the_answer_are_0_in_compat() -> None:
    """As ragas has it."""
    assert load(NAME, model=verifying([], [0]), variant="compat")(ROW).score == 0.0


def test_the_feedback_names_wrong_claims_and_counts_missing_ones() -> None:
    """Contradictions first; the reference's own claims are not given away."""
    model = verifying(["absent", "contradicted"], ["absent", "supported"])
    assert load(NAME, model=model)(ROW).feedback.splitlines() == [
        "These claims contradict the expected answer; correct or remove them:",
        "- claim 1",
        "The expected answer does not bear these claims out; check or remove them:",
        "- claim 0",
        "The answer leaves out 1 of 2 points that are expected of it.",
    ]


def test_claims_are_broken_down_as_wanted() -> None:
    """How finely and how fully stands in the task, in the language of the question."""
    model = verifying(["supported"], ["supported"])
    judge = load(NAME, model=model, atomicity="low", coverage="high")
    assert judge(ROW).score == 1.0
    judge({**ROW, "question": "是什么？"})
    first, last = model.prompts[0][0].text, model.prompts[4][0].text
    assert "a claim may hold several facts" in first
    assert "details and asides included" in first
    assert "一个论断可以包含几个相关的事实" in last
    assert set(judge.explain().prompts) == {"factual_claims", "support"}


@pytest.mark.parametrize(
    "settings", [{"atomicity": "middle"}, {"coverage": True}, {"mode": "f2"}, {"beta": -1}, {"beta": "1"}]
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any]) -> None:
    """One line says so."""
    with pytest.raises(ConfigurationError):
        load(NAME, model=verifying([], []), **settings)
