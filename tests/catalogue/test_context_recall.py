"""Context recall is the share of the expected answer that the contexts support."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, Panel, load
from judges.testing import ScriptedModel
from tests.kit import Shown, asked, items, replying

NAME = "ragas.context_recall"
ROW: dict[str, Any] = {
    "question": "Where?",
    "reference": "It is in Paris. It was built in 1889. It is 330 m high. It is iron.",
    "contexts": ["The tower stands in Paris.", "It was built in 1889."],
}


def verifying(*verdicts: object) -> ScriptedModel:
    """Make a model that gives these verdicts."""
    return replying(lambda data: items(*verdicts))


def attributing(*attributed: int) -> ScriptedModel:
    """Make a model that lists as many sentences, attributed so."""
    listed = [{"statement": f"s{n}", "reason": "r", "attributed": one} for n, one in enumerate(attributed)]
    return replying(lambda data: {"classifications": listed})


@pytest.mark.parametrize(
    ("verdicts", "score"),
    [
        (["supported", "supported", "absent", "contradicted"], 0.5),
        (["supported"] * 4, 1.0),
        (["absent"] * 4, 0.0),
    ],
)
async def test_the_score_is_the_share_of_sentences(verdicts: list[str], score: float) -> None:
    """Supported / sentences, split without a model, in one call."""
    judge = load(NAME, model=verifying(*verdicts))
    for verdict in (judge(ROW), await judge.acall(ROW)):
        assert (verdict.score, verdict.usage.calls) == (score, 1)


@pytest.mark.parametrize(
    ("attributed", "score"), [([1, 1, 0, 0], 0.5), ([2], 1.0), ([1], 1.0), ([0, 0, 1], 1 / 3), ([], None)]
)
def test_compat_lets_the_model_list_the_sentences(attributed: list[int], score: float | None) -> None:
    """Any number but 0 is a yes; an empty list is unscored, where ragas gives NaN."""
    verdict = load(NAME, model=attributing(*attributed), variant="compat")(ROW)
    assert verdict.score == (None if score is None else pytest.approx(score, abs=1e-12))
    assert (verdict.unscored, verdict.usage.calls) == ("no_claims" if score is None else None, 1)


def test_every_sentence_needs_a_verdict() -> None:
    """A list that leaves one out is asked for again."""
    verdict = load(NAME, model=verifying("supported"))(ROW)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


def test_a_sentence_judged_twice_is_asked_for_again() -> None:
    """A list with one verdict too many is no valid reply."""
    twice = items(*["supported"] * 4)["items"]
    model = replying(lambda data: {"items": [*twice, twice[0]]})
    verdict = load(NAME, model=model)(ROW)
    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


def test_a_mark_of_2_is_no_verdict() -> None:
    """Corrected takes none but the three words."""
    assert load(NAME, model=verifying(2, 2, 2, 2))(ROW).unscored == "invalid_output"


def test_the_feedback_names_the_missing_sentences() -> None:
    """For the retriever, and nothing where all are there."""
    verdict = load(NAME, model=verifying("supported", "supported", "absent", "supported"))(ROW)
    first, *_, last = verdict.feedback.splitlines()
    assert first.startswith("This judges the retriever")
    assert last == "- It is 330 m high."
    assert load(NAME, model=verifying(*["supported"] * 4))(ROW).feedback == ""


async def test_claims_are_shared_with_other_judges() -> None:
    """With split="claims" the reference's claims are paid once: 2 + 4 - 1 calls with factual correctness."""

    def reply(data: Shown) -> dict[str, Any]:
        return {"claims": ["one"]} if "text" in data else items("supported")

    model = replying(reply)
    recall = load(NAME, model=model, split="claims")
    assert recall.explain().calls == "2"
    panel = Panel([recall, load("ragas.factual_correctness", model=model)])
    assert (await panel.acall({**ROW, "answer": "In Paris."})).usage.calls == 5


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"contexts": []}, "no_contexts"), ({"reference": " "}, "no_reference"), ({"reference": "..."}, "no_claims")],
)
def test_nothing_to_judge_is_unscored(fields: dict[str, Any], reason: str) -> None:
    """No call is made where something is missing."""
    verdict = load(NAME, model=verifying())({**ROW, **fields})
    assert (verdict.unscored, verdict.usage.calls) == (reason, 0)


def test_chinese_is_split_into_sentences() -> None:
    """Full-width ends count."""
    model = verifying("supported", "supported")
    load(NAME, model=model)(reference="它在巴黎。它建于1889年。", contexts=["巴黎"])
    assert [one["claim"] for one in asked(model)[0]["claims"]] == ["它在巴黎。", "它建于1889年。"]


@pytest.mark.parametrize("settings", [{"split": "words"}, {"split": "claims", "variant": "compat"}])
def test_a_wrong_setting_is_refused(settings: dict[str, Any]) -> None:
    """One line says so."""
    with pytest.raises(ConfigurationError, match="split"):
        load(NAME, model=verifying(), **settings)


@pytest.mark.parametrize("name", ["ragas.context_recall", "ragas.factual_correctness"])
def test_a_short_reference_is_verified_with_its_question(name: str) -> None:
    """A reference such as "In 1889." says nothing alone, so the model that verifies it is shown both."""
    model = ScriptedModel([{"claims": ["It opened in 1889."]}] * 2 + [{"items": []}] * 4)
    if name == "ragas.context_recall":
        model = ScriptedModel([{"items": []}] * 2)
    load(name, model=model)(
        question="When did it open?", answer="It opened in 1889.", reference="In 1889.", contexts=["In 1889."]
    )
    asked = [prompt[-1].text for prompt in model.prompts if '"claims"' in prompt[-1].text]
    assert asked
    assert all("When did it open?" in text for text in asked)
