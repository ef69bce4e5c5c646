"""Semantic similarity is the cosine of answer and reference, or what a cross-encoder says of the pair."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load, no_model_requests
from judges.catalogue.parts.similarity import cosine
from judges.testing import ScriptedEmbeddings

EIFFEL: dict[str, Any] = {
    "user_input": "Where is the Eiffel Tower?",
    "response": "It is in Paris.",
    "reference": "The Eiffel Tower is in Paris.",
}


def embedding(answer: object, reference: object) -> ScriptedEmbeddings:
    """Make embeddings that know the two texts of the sample, and a blank."""
    return ScriptedEmbeddings({EIFFEL["response"]: answer, EIFFEL["reference"]: reference, " ": [1.0, 0.0]})


async def test_a_cross_encoder_takes_the_place_of_embeddings() -> None:
    """It is given the pair, answer first."""
    seen: list[object] = []

    def encoder(pairs: Any) -> list[float]:
        seen.extend(pairs)
        return [0.83]

    judge = load("semantic_similarity", cross_encoder=encoder)
    assert [judge(EIFFEL).value, (await judge.acall(EIFFEL)).value] == [0.83, 0.83]
    assert seen == [(EIFFEL["response"], EIFFEL["reference"])] * 2


@pytest.mark.parametrize(
    "given",
    [[7.3], [], [0.1, 0.2], [float("nan")], ["high"], None],
    ids=["7.3", "none", "two", "nan", "text", "no"],
)
def test_a_cross_encoder_that_gives_no_similarity_is_unscored(given: Any) -> None:
    """One finite number from -1 to 1 is wanted."""
    assert load("semantic_similarity", cross_encoder=lambda pairs: given)(EIFFEL).unscored == "invalid_output"


def test_an_async_cross_encoder_will_do() -> None:
    """It is awaited."""

    async def encoder(pairs: Any) -> list[float]:
        return [0.25 for _ in pairs]

    assert load("semantic_similarity", cross_encoder=encoder)(EIFFEL).value == 0.25


@pytest.mark.parametrize("text", ["{braces} %s $name", "你好，世界。", "שלום", "🎈", "a" * 1_000_000])
def test_any_text_is_embedded_as_it_is(text: str) -> None:
    """Nothing is substituted, cut or refused."""
    embeddings = ScriptedEmbeddings(lambda one: [float(len(one)), 1.0])
    verdict = load("semantic_similarity", embeddings=embeddings)({**EIFFEL, "response": text, "reference": text})
    assert (verdict.value, embeddings.batches) == (1.0, [[text, text]])


def test_scripted_embeddings_work_where_requests_are_forbidden() -> None:
    """As scripted models do."""
    with no_model_requests():
        assert load("semantic_similarity", embeddings=embedding([1], [1]))(EIFFEL).value == 1.0


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], 1.0),
        ([1e-200, 2e-200], [1e-200, 2e-200], 1.0),
        ([1e300, 1e300], [1e300, 1e300], 1.0),
        ([0.1, 0.7], [-0.1, -0.7], -1.0),
    ],
)
def test_a_cosine_is_exact_for_equal_vectors(one: list[float], other: list[float], wanted: float) -> None:
    """No 1.0000000000000002, and no overflow."""
    assert cosine(one, other) == wanted
