"""Faithfulness is the share of an answer's claims that its contexts support."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.testing import ScriptedModel
from tests.kit import Shown, asked, items, replying

EINSTEIN: dict[str, Any] = {
    "user_input": "Where and when was Einstein born?",
    "response": "He was born in Germany on 20 March 1879.",
    "retrieved_contexts": ["Albert Einstein (born 14 March 1879) was a German-born physicist."],
}


def checking(claims: list[str], *verdicts: object) -> ScriptedModel:
    """Make a model that finds these claims, and gives these verdicts on them."""
    return replying(lambda data: {"claims": claims} if "text" in data else items(*verdicts))


@pytest.mark.parametrize(
    ("claims", "verdicts", "score"),
    [
        (["a", "b"], ["supported", "contradicted"], 0.5),
        (["a"], ["supported"], 1.0),
        (["a", "b", "c"], ["absent", "contradicted", "supported"], 1 / 3),
        (["a", "b"], ["absent", "absent"], 0.0),
    ],
)
async def test_the_score_is_the_share_of_supported_claims(
    claims: list[str], verdicts: list[str], score: float
) -> None:
    """Supported / claims, exactly, in two calls, sync and async."""
    model = checking(claims, *verdicts)
    judge = load("ragas.faithfulness", model=model)
    for verdict in (judge(EINSTEIN), await judge.acall(EINSTEIN)):
        assert (verdict.score, verdict.value, verdict.usage.calls) == (score, score, 2)
        assert [one.value for one in verdict.items] == verdicts
    assert len(model.prompts) == 4


@pytest.mark.parametrize(
    ("verdicts", "score"),
    [([1, 0], 0.5), ([1, 1], 1.0), ([2, 0], 0.5), ([1], 1.0), ([0, 0, 0], 0.0)],
)
def test_compat_divides_by_the_marks_returned(verdicts: list[int], score: float) -> None:
    """As ragas does: whatever is not 0 is a yes, and claims without a mark are left out."""
    verdict = load("faithfulness", model=checking(["a", "b", "c"], *verdicts), variant="compat")(EINSTEIN)
    assert verdict.score == pytest.approx(score, abs=1e-12)


def test_a_claim_without_a_verdict_is_asked_for_again() -> None:
    """A list that leaves a number out is no valid reply: asked once more, then unscored."""
    model = checking(["a", "b", "c"], "supported", "supported")
    verdict = load("faithfulness", model=model)(EINSTEIN)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 3)
    assert verdict.detail == "items: no verdict for number 3"


def test_a_claim_without_a_verdict_may_count_as_unsupported() -> None:
    """With missing='unsupported' nothing is asked again."""
    model = checking(["a", "b", "c"], "supported", "supported")
    verdict = load("faithfulness", model=model, missing="unsupported")(EINSTEIN)
    assert (verdict.score, verdict.usage.calls) == (2 / 3, 2)


def test_the_feedback_names_the_claims() -> None:
    """Contradicted claims come first, then what nothing supports; the reasons are kept."""
    model = checking(
        ["He was German.", "It was 20 March.", "He had a cat."], "supported", "contradicted", "absent"
    )
    verdict = load("faithfulness", model=model)(EINSTEIN)
    assert verdict.feedback.splitlines() == [
        "The documents contradict these claims; correct or remove them:",
        "- It was 20 March.",
        "Nothing in the documents supports these claims; remove them, or say only what the documents say:",
        "- He had a cat.",
    ]
    assert "It was 20 March.: reason 2" in verdict.rationale


@pytest.mark.parametrize(
    ("fields", "reason", "calls"),
    [
        ({"response": "Hello!"}, "no_claims", 1),
        ({"response": " "}, "no_response", 0),
        ({"retrieved_contexts": []}, "no_contexts", 0),
        ({"retrieved_contexts": ["", " "]}, "no_contexts", 0),
    ],
)
def test_nothing_to_judge_is_unscored(fields: dict[str, Any], reason: str, calls: int) -> None:
    """What cannot be judged has a reason, and costs no more than needed."""
    verdict = load("faithfulness", model=checking([], "supported"))({**EINSTEIN, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, calls)


def test_the_model_is_shown_the_claims_with_their_numbers() -> None:
    """First the text with its question, then contexts and numbered claims."""

    def reply(data: Shown) -> dict[str, Any]:
        return {"claims": [" a ", "", "b"]} if "text" in data else items("supported", "supported")

    model = replying(reply)
    load("faithfulness", model=model)(EINSTEIN)
    assert asked(model) == [
        {"question": EINSTEIN["user_input"], "text": EINSTEIN["response"]},
        {
            "contexts": EINSTEIN["retrieved_contexts"],
            "claims": [{"number": 1, "claim": "a"}, {"number": 2, "claim": "b"}],
        },
    ]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ragas.faithfulness", {}),
        ("ragas.factual_correctness", {"mode": "precision"}),
        ("ragas.noise_sensitivity", {"mode": "hallucination"}),
        (
            "ragas.faithfulness_with_hhem",
            {"classifier": lambda pairs: [float("Rome" not in one) for _, one in pairs]},
        ),
    ],
)
@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_a_claim_made_twice_counts_twice(name: str, settings: dict[str, Any], variant: Any) -> None:
    """The shares are over the claims as the model lists them."""
    claims = ["Paris is big.", "Paris is big.", "Rome is old."]

    def reply(data: Shown) -> dict[str, Any]:
        if "text" in data:
            return {"claims": claims}
        verdicts = [1, 1, 0] if variant == "compat" else ["supported", "supported", "absent"]
        if "reference_claims" in data:
            nothing = items(*[False] * 3)["items"]
            return {"reference_claims": nothing, "answer_claims": nothing}
        return items(*verdicts)

    sample = {"response": "An answer.", "reference": "A reference.", "retrieved_contexts": ["A context."]}
    verdict = load(name, model=replying(reply), variant=variant, **settings)(sample)
    assert verdict.score == pytest.approx(2 / 3, abs=0.005)  # compat rounds factual correctness
    assert [one.subject for one in verdict.items] == claims


@pytest.mark.parametrize(("marks", "score"), [([1, 0], 0.5), ([1, 0, 0, 1], 0.5), ([1, 1, 1, 1, 0], 0.8)])
@pytest.mark.parametrize("name", ["ragas.faithfulness", "ragas.factual_correctness"])
def test_compat_divides_by_the_marks_that_came(name: str, marks: list[int], score: float) -> None:
    """Fewer or more than the three claims; those beyond are about no text."""
    settings = {"mode": "precision"} if name == "ragas.factual_correctness" else {}

    def reply(data: Shown) -> dict[str, Any]:
        return {"claims": ["a", "b", "c"]} if "text" in data else items(*marks)

    sample = {"response": "An answer.", "reference": "A reference.", "retrieved_contexts": ["A context."]}
    verdict = load(name, model=replying(reply), variant="compat", **settings)(sample)
    assert verdict.score == pytest.approx(score)
    assert len(verdict.items) == len(marks)
