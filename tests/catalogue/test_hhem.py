"""Faithfulness by a classifier is the share of statements that it finds supported by the contexts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from judges import load
from judges.testing import ScriptedModel
from tests.kit import replying

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


def test_the_classifier_is_given_the_joined_contexts_with_each_claim() -> None:
    """Premise first, in batches."""
    seen: list[list[tuple[str, str]]] = []
    judge = load(
        "ragas.faithfulness_with_hhem", model=claiming(CLAIMS), classifier=giving(1, 1, 1, seen=seen), batch_size=2
    )
    judge(CITY)
    premise = "\n".join(CITY["retrieved_contexts"])
    assert seen == [[(premise, CLAIMS[0]), (premise, CLAIMS[1])], [(premise, CLAIMS[2])]]


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
