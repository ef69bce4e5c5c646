"""Answer correctness weighs the claims that answer and reference share, and the likeness of the texts."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, Panel, load
from judges.testing import ScriptedEmbeddings, ScriptedModel
from tests.kit import Shown, replying

NAME = "ragas.answer_correctness"
ROW: dict[str, Any] = {"question": "What?", "answer": "The answer.", "reference": "The reference."}


def marked(verdicts: list[Any]) -> list[dict[str, Any]]:
    """Write a list of numbered verdicts."""
    return [{"number": n, "reason": f"r{n}", "verdict": one} for n, one in enumerate(verdicts, 1)]


def classifying(given: list[Any], wanted: list[Any], feedback: str = "Say when.") -> ScriptedModel:
    """Make a model that finds a claim for each verdict, and gives these verdicts."""

    def reply(data: Shown) -> dict[str, Any]:
        if "text" in data:
            of_answer = data["text"] == ROW["answer"]
            return {
                "claims": [f"{'a' if of_answer else 'r'}{n}" for n, _ in enumerate(given if of_answer else wanted)]
            }
        return {"answer_claims": marked(given), "reference_claims": marked(wanted), "feedback": feedback}

    return replying(reply)


CASES = [
    ([True, False], [True, False], 0.5),
    ([True], [True], 1.0),
    ([False], [False], 0.0),
    ([True, True, False], [True, True, True, False], 2 / 3),
    ([True, True], [False, True], 2 * 2 / (2 * 2 + 1)),
]


@pytest.mark.parametrize(("given", "wanted", "score"), CASES)
@pytest.mark.parametrize("variant", ["corrected", "compat"])
async def test_f1_of_the_claims(given: list[bool], wanted: list[bool], score: float, variant: str) -> None:
    """With weights [1, 0] the score is F1 of TP, FP and FN, in three calls."""
    judge = load(NAME, model=classifying(given, wanted), weights=[1, 0], variant=variant)
    for verdict in (judge(ROW), await judge.acall(ROW)):
        assert verdict.score == pytest.approx(score, abs=1e-12)
        assert verdict.usage.calls == 3


def test_the_likeness_is_weighed_in() -> None:
    """F = 0.5 and a cosine of 0.9 are 0.75 * 0.5 + 0.25 * 0.9; one batch of embeddings, three calls."""
    embeddings = ScriptedEmbeddings({ROW["answer"]: [1.0, 0.0], ROW["reference"]: [0.9, (1 - 0.81) ** 0.5]})
    model = classifying([True, False], [True, False])
    verdict = load(NAME, model=model, embeddings=embeddings)(ROW)
    assert verdict.score == pytest.approx(0.6, abs=1e-12)
    assert (len(model.prompts), embeddings.batches) == (3, [[ROW["answer"], ROW["reference"]]])


@pytest.mark.parametrize(("beta", "score"), [(2.0, 5 / (5 + 4 * 1 + 1)), (0.5, 1.25 / (1.25 + 0.25 + 1))])
def test_beta_weighs_recall(beta: float, score: float) -> None:
    """F_beta by the formula."""
    verdict = load(NAME, model=classifying([True, False], [True, False]), beta=beta)(ROW)
    assert verdict.score == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize(
    ("given", "wanted", "variant", "score", "calls"),
    [
        ([], [False, False], "corrected", 0.0, 2),
        ([], [False, False], "compat", 0.0, 3),
        ([], [], "compat", 1.0, 2),
        ([], [], "corrected", None, 2),
        ([False], [], "corrected", None, 2),
        ([False], [], "compat", 0.0, 3),
    ],
)
def test_texts_without_claims(
    given: list[bool], wanted: list[bool], variant: str, score: float | None, calls: int
) -> None:
    """An answer without claims is 0; a reference without claims unscored, or what ragas makes of it."""
    verdict = load(NAME, model=classifying(given, wanted), weights=(1, 0), variant=variant)(ROW)
    assert (verdict.score, verdict.usage.calls) == (score, calls)
    assert verdict.unscored == ("no_claims" if score is None else None)


def test_the_feedback_names_what_is_wrong_and_counts_what_is_missing() -> None:
    """The reference is not given away: its claims are counted, and the model says what kind is missing."""
    verdict = load(NAME, model=classifying([True, False], [False, True]))(ROW)
    assert verdict.feedback.splitlines() == [
        "The expected answer does not bear these claims out; check, correct or remove them:",
        "- a1",
        "The answer leaves out 1 of 2 points that are expected of it.",
        "Say when.",
    ]
    assert [(one.judge, one.subject, one.passed) for one in verdict.items] == [
        ("answer", "a0", True),
        ("answer", "a1", False),
        ("reference", "r0", False),
        ("reference", "r1", True),
    ]


def test_every_claim_needs_its_class() -> None:
    """A list that leaves one out is asked for again, and then unscored."""
    model = replying(
        lambda data: (
            {"claims": ["x", "y"]}
            if "text" in data
            else {"answer_claims": marked([True]), "reference_claims": marked([True, True]), "feedback": ""}
        )
    )
    verdict = load(NAME, model=model)(ROW)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 4)
    assert verdict.detail == "answer_claims: no verdict for number 2"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"weights": [0.5, 0.5]}, "give embeddings="),
        ({"weights": [0, 0]}, "weights are two numbers"),
        ({"weights": [1]}, "weights are two numbers"),
        ({"beta": 0}, "beta is a number above 0"),
        ({"variant": "compat"}, "needs embeddings"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], told: str) -> None:
    """One line says so."""
    with pytest.raises(ConfigurationError, match=told):
        load(NAME, model=classifying([], []), **settings)


def test_a_missing_reference_is_unscored() -> None:
    """There is nothing to compare with."""
    assert load(NAME, model=classifying([], []))({**ROW, "reference": None}).unscored == "no_reference"


async def test_claims_are_paid_once_in_a_panel() -> None:
    """With factual correctness beside it, both decompositions are shared: 3 + 4 - 2 calls."""

    def reply(data: Shown) -> dict[str, Any]:
        if "text" in data:
            return {"claims": ["x"]}
        if "claims" in data:
            return {"items": [{"number": 1, "reason": "r", "verdict": "supported"}]}
        return {"answer_claims": marked([True]), "reference_claims": marked([True]), "feedback": ""}

    model = replying(reply)
    panel = Panel([load(NAME, model=model), load("ragas.factual_correctness", model=model)])
    for verdict in (panel(ROW), await panel.acall(ROW)):
        assert (verdict.rating, verdict.usage.calls, verdict.usage.cached) == (4, 5, 2)
    assert len(model.prompts) == 10


@pytest.mark.parametrize("number", [-5, 0, 9])
def test_a_number_that_stands_for_no_claim_names_none_in_compat(number: int) -> None:
    """What ragas counts is counted; no claim is blamed for it."""

    def reply(data: Shown) -> dict[str, Any]:
        if "text" in data:
            return {"claims": ["x", "y"]}
        wrong = {"number": number, "reason": "r", "verdict": False}
        return {"answer_claims": [wrong], "reference_claims": marked([True, True]), "feedback": ""}

    verdict = load(NAME, model=replying(reply), weights=(1, 0), variant="compat")(ROW)
    assert (verdict.score, verdict.feedback) == (0.0, "")
    assert [one.judge for one in verdict.items] == ["reference", "reference"]
