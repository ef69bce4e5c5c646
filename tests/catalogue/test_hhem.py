"""Faithfulness by a classifier is the share of statements that it finds supported by the contexts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedModel
from tests.kit import asked, replying

CITY: dict[str, Any] = {
    "user_input": "Tell me about Vienna.",
    "response": "Vienna lies on the Danube. It has two million inhabitants. It is in Italy.",
    "retrieved_contexts": [
        "Vienna, on the Danube, is the capital of Austria.",
        "About 2,000,000 people live there.",
    ],
}
CLAIMS = ["Vienna lies on the Danube.", "Vienna has two million inhabitants.", "Vienna is in Italy."]
Pairs = Sequence[tuple[str, str]]


def claiming(claims: list[str]) -> ScriptedModel:
    """Make a model that finds these claims."""
    return replying(lambda data: {"claims": claims})


def giving(
    *probabilities: float, seen: list[list[tuple[str, str]]] | None = None
) -> Callable[[Pairs], list[float]]:
    """Make a classifier that gives each statement its probability, in their order; it notes the batches."""
    order: list[str] = []

    def classify(pairs: Pairs) -> list[float]:
        if seen is not None:
            seen.append(list(pairs))
        order.extend(one for _, one in pairs if one not in order)
        return [probabilities[order.index(one)] for _, one in pairs]

    return classify


@pytest.mark.parametrize("name", ["FaithfulnesswithHHEM", "FaithfulnessWithHHEM", "ragas.faithfulnesswith_hhem"])
@pytest.mark.parametrize(
    ("variant", "probabilities", "score"),
    [
        ("corrected", (0.9, 0.6, 0.1), 2 / 3),
        ("corrected", (0.5, 0.4999, 0.0), 1 / 3),
        ("corrected", (1.0, 1.0, 1.0), 1.0),
        ("compat", (0.9, 0.6, 0.1), 2 / 3),
        ("compat", (0.5, 0.51, 0.0), 1 / 3),
        ("compat", (0.0, 0.2, 0.5), 0.0),
    ],
)
async def test_the_score_is_the_share_of_supported_statements(
    name: str, variant: Any, probabilities: tuple[float, ...], score: float
) -> None:
    """From the threshold on; compat rounds half to even. One call of the model, sync and async."""
    judge = load(name, model=claiming(CLAIMS), classifier=giving(*probabilities), variant=variant)
    for verdict in (judge(CITY), await judge.acall(CITY)):
        assert verdict.score == pytest.approx(score, abs=1e-12)
        assert (verdict.value, verdict.usage.calls) == (verdict.score, 1)
        assert [one.value for one in verdict.items] == list(probabilities)


def test_the_classifier_is_given_the_joined_contexts_with_each_claim() -> None:
    """Premise first, in batches."""
    seen: list[list[tuple[str, str]]] = []
    judge = load(
        "ragas.faithfulness_with_hhem", model=claiming(CLAIMS), classifier=giving(1, 1, 1, seen=seen), batch_size=2
    )
    judge(CITY)
    premise = "\n".join(CITY["retrieved_contexts"])
    assert seen == [[(premise, CLAIMS[0]), (premise, CLAIMS[1])], [(premise, CLAIMS[2])]]


def test_the_claims_are_asked_for_as_other_judges_ask() -> None:
    """So that a panel pays once."""
    model = claiming(CLAIMS)
    load("ragas.faithfulness_with_hhem", model=model, classifier=giving(1, 1, 1))(CITY)
    assert asked(model) == [{"question": CITY["user_input"], "text": CITY["response"]}]


async def test_sentences_need_no_model() -> None:
    """The answer's sentences are classified as they are."""
    judge = load("ragas.faithfulness_with_hhem", classifier=giving(0.9, 0.8, 0.1), split="sentences")
    for verdict in (judge(CITY), await judge.acall(CITY)):
        assert (verdict.score, verdict.usage.calls) == (2 / 3, 0)
        assert [one.subject for one in verdict.items] == [
            "Vienna lies on the Danube.",
            "It has two million inhabitants.",
            "It is in Italy.",
        ]
    assert judge.models == ()
    assert (judge.explain().calls, judge.explain().models) == ("0", ())


def test_it_tells_what_it_will_cost() -> None:
    """One call for the claims."""
    explained = load("ragas.faithfulness_with_hhem", model=claiming([]), classifier=giving()).explain()
    assert (explained.calls, explained.models, set(explained.prompts)) == ("1", ("scripted",), {"claims"})


@pytest.mark.parametrize(("threshold", "score"), [(0.0, 1.0), (0.61, 1 / 3), (0.6, 2 / 3), (1.0, 0.0)])
def test_the_probability_that_counts_is_a_setting(threshold: float, score: float) -> None:
    """From it on, a statement is supported."""
    judge = load(
        "ragas.faithfulness_with_hhem",
        model=claiming(CLAIMS),
        classifier=giving(0.9, 0.6, 0.1),
        threshold_probability=threshold,
    )
    assert judge(CITY).score == score


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Vienna?", "Nothing in the documents supports these claims"),
        ("维也纳怎么样？", "以下论断在文档中没有依据"),
        ("Расскажи о Вене", "Эти утверждения ничем"),
    ],
)
def test_the_feedback_names_unsupported_statements(question: str, first: str) -> None:
    """In the language of the question; there is none where all are supported."""
    model = claiming(CLAIMS)
    judge = load("ragas.faithfulness_with_hhem", model=model, classifier=giving(0.9, 0.2, 0.1))
    verdict = judge({**CITY, "user_input": question})
    assert verdict.feedback.startswith(first)
    assert verdict.feedback.splitlines()[1:] == [f"- {CLAIMS[1]}", f"- {CLAIMS[2]}"]
    assert verdict.rationale == f"{CLAIMS[1]}: 0.200\n{CLAIMS[2]}: 0.100"
    assert load("ragas.faithfulness_with_hhem", model=model, classifier=giving(1, 1, 1))(CITY).feedback == ""


@pytest.mark.parametrize("split", ["claims", "sentences"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response": ""}, "no_response"),
        ({"retrieved_contexts": [" "]}, "no_contexts"),
        ({"retrieved_contexts": None}, "no_contexts"),
        ({"response": "..."}, "no_claims"),
    ],
)
def test_nothing_to_judge_is_unscored(split: str, fields: dict[str, Any], reason: str) -> None:
    """The classifier is not asked."""
    seen: list[list[tuple[str, str]]] = []
    settings = {"classifier": giving(seen=seen), "split": split}
    verdict = load("ragas.faithfulness_with_hhem", model=claiming([]), **settings)({**CITY, **fields})
    assert (verdict.unscored, seen) == (reason, [])


@pytest.mark.parametrize(
    "given", [[0.5], [0.5, 0.5, 1.5], [0.5, 0.5, float("nan")], ["a", "b", "c"], None, 0.5], ids=str
)
@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_what_is_no_probability_for_each_is_unscored(given: Any, variant: str) -> None:
    """Never a score from half the statements, or from a number that means nothing."""
    judge = load(
        "ragas.faithfulness_with_hhem", model=claiming(CLAIMS), classifier=lambda _: given, variant=variant
    )
    assert judge(CITY).unscored == "invalid_output"


def test_a_probability_in_32_bits_may_be_a_little_over_one() -> None:
    """Rounding is no fault."""
    judge = load("ragas.faithfulness_with_hhem", model=claiming(["a"]), classifier=giving(1.0000001))
    assert [one.value for one in judge(CITY).items] == [1.0]


def test_a_classifier_that_fails_leaves_the_verdict_unscored() -> None:
    """The error is named with the function, without the text."""

    def broken(pairs: Pairs) -> list[float]:
        raise RuntimeError(pairs[0][0])

    verdict = load("ragas.faithfulness_with_hhem", model=claiming(CLAIMS), classifier=broken)(CITY)
    assert (verdict.unscored, verdict.detail) == ("judge_failed", "RuntimeError in broken")


async def test_the_classifier_does_not_block_the_event_loop() -> None:
    """It runs in a thread."""
    threads: list[int] = []

    def classify(pairs: Pairs) -> list[float]:
        threads.append(threading.get_ident())
        return [1.0] * len(pairs)

    judge = load("ragas.faithfulness_with_hhem", classifier=classify, split="sentences")
    await judge.acall(CITY)
    assert threads
    assert threading.get_ident() not in threads


def test_a_long_answer_is_classified_in_batches() -> None:
    """All of it."""
    seen: list[list[tuple[str, str]]] = []

    def classify(pairs: Pairs) -> list[float]:
        seen.append(list(pairs))
        return [1.0] * len(pairs)

    judge = load("ragas.faithfulness_with_hhem", classifier=classify, split="sentences", batch_size=500)
    text = " ".join(f"Sentence {number} is {'long ' * 10}enough." for number in range(10_000))
    verdict = judge({**CITY, "response": text, "retrieved_contexts": ["x"] * 200})
    assert (verdict.score, len(verdict.items), len(seen)) == (1.0, 10_000, 20)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"classifier": "vectara"},
        {"classifier": len, "split": "words"},
        {"classifier": len, "batch_size": 0},
        {"classifier": len, "threshold_probability": 1.5},
        {"classifier": len, "threshold_probability": True},
        {"classifier": len, "threshold_probability": 0.7, "variant": "compat"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any]) -> None:
    """At construction."""
    with pytest.raises(ConfigurationError):
        load("ragas.faithfulness_with_hhem", model=claiming([]), **settings)


def test_claims_need_a_model() -> None:
    """Only sentences do not."""
    with pytest.raises(ConfigurationError, match="needs a model"):
        load("ragas.faithfulness_with_hhem", classifier=giving())
