"""Semantic similarity is the cosine of answer and reference, or what a cross-encoder says of the pair."""

from __future__ import annotations

from typing import Any

import pytest

from judges import ConfigurationError, load, no_model_requests
from judges.catalogue.parts.similarity import cosine
from judges.testing import ScriptedEmbeddings

EIFFEL: dict[str, Any] = {
    "user_input": "Where is the Eiffel Tower?",
    "response": "It is in Paris.",
    "reference": "The Eiffel Tower is in Paris.",
}
NAMES = (
    "semantic_similarity",
    "answer_similarity",
    "SemanticSimilarity",
    "AnswerSimilarity",
    "ragas.answer_similarity",
)


def embedding(answer: object, reference: object) -> ScriptedEmbeddings:
    """Make embeddings that know the two texts of the sample, and a blank."""
    return ScriptedEmbeddings({EIFFEL["response"]: answer, EIFFEL["reference"]: reference, " ": [1.0, 0.0]})


@pytest.mark.parametrize("variant", ["corrected", "compat"])
@pytest.mark.parametrize(
    ("answer", "reference", "value", "score"),
    [
        ([1, 0], [1, 0], 1.0, 1.0),
        ([1, 0], [0, 1], 0.0, 0.0),
        ([1, 0], [-1, 0], -1.0, 0.0),
        ([3, 4], [4, 3], 0.96, 0.96),
        ([1, 2, 3], [2, 4, 6], 1.0, 1.0),
    ],
)
async def test_the_value_is_the_cosine(
    answer: list[float], reference: list[float], value: float, score: float, variant: str
) -> None:
    """From -1 to 1; the score stops at 0. Sync and async, both texts in one batch, no call of a model."""
    embeddings = embedding(answer, reference)
    judge = load("ragas.semantic_similarity", embeddings=embeddings, variant=variant)
    for verdict in (judge(EIFFEL), await judge.acall(EIFFEL)):
        assert [verdict.value, verdict.score] == pytest.approx([value, score], abs=1e-12)
        assert verdict.usage.calls == 0
    assert embeddings.batches == [[EIFFEL["response"], EIFFEL["reference"]]] * 2


@pytest.mark.parametrize("name", NAMES)
def test_it_is_found_by_its_other_names(name: str) -> None:
    """The names of the reference, of its older versions, and of its keys."""
    assert load(name, embeddings=embedding([1], [1])).name == "ragas.semantic_similarity"


@pytest.mark.parametrize(
    ("threshold", "reference", "value"),
    [(0.5, [3, 4], 1.0), (0.7, [3, 4], 0.0), (0.6, [3, 4], 1.0), (0, [0, 1], 1.0), (0.0, [-1, 1], 0.0)],
)
def test_compat_turns_the_value_into_zero_or_one_at_a_threshold(
    threshold: float, reference: list[float], value: float
) -> None:
    """A threshold of 0 is one too."""
    judge = load(
        "semantic_similarity", embeddings=embedding([1, 0], reference), variant="compat", threshold=threshold
    )
    verdict = judge(EIFFEL)
    assert (verdict.value, verdict.score, verdict.passed) == (value, value, bool(value))


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_no_threshold_leaves_the_value_as_it_is(variant: str) -> None:
    """None, said or not; the verdict passes at half."""
    judge = load("semantic_similarity", embeddings=embedding([1, 0], [3, 4]), variant=variant, threshold=None)
    verdict = judge(EIFFEL)
    assert verdict.value == pytest.approx(0.6, abs=1e-12)
    assert verdict.passed


def test_a_threshold_decides_on_passing_alone() -> None:
    """The value stays the cosine."""
    verdict = load("semantic_similarity", embeddings=embedding([1, 0], [3, 4]), threshold=0.7)(EIFFEL)
    assert [verdict.value, verdict.score] == pytest.approx([0.6, 0.6], abs=1e-12)
    assert not verdict.passed


@pytest.mark.parametrize("question", ["Where?", "在哪里？", "Где?"])
def test_the_feedback_gives_nothing_away(question: str) -> None:
    """It says that the answer is far off, in the language of the question, and not what was expected."""
    judge = load("semantic_similarity", embeddings=embedding([1, 0], [0, 1]))
    told = judge({**EIFFEL, "user_input": question}).feedback
    wanted = {"Where?": "far in meaning", "在哪里？": "相差较远", "Где?": "далёк"}
    assert wanted[question] in told
    assert "Eiffel" not in told


def test_there_is_no_feedback_where_nothing_is_to_change() -> None:
    """An answer that passes is left alone."""
    assert load("semantic_similarity", embeddings=embedding([1, 0], [1, 0]))(EIFFEL).feedback == ""


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response": " "}, "no_response"),
        ({"response": None}, "no_response"),
        ({"reference": ""}, "no_reference"),
        ({"reference": None}, "no_reference"),
    ],
)
def test_a_missing_text_is_unscored(fields: dict[str, Any], reason: str) -> None:
    """Nothing is embedded."""
    embeddings = embedding([1, 0], [1, 0])
    verdict = load("semantic_similarity", embeddings=embeddings)({**EIFFEL, **fields})
    assert (verdict.unscored, embeddings.batches) == (reason, [])


def test_compat_embeds_a_blank_for_an_empty_text() -> None:
    """As ragas does; a text that is not there at all is unscored all the same."""
    embeddings = embedding([1, 0], [0, 1])
    judge = load("semantic_similarity", embeddings=embeddings, variant="compat")
    assert judge({**EIFFEL, "response": ""}).value == 0.0
    assert embeddings.batches == [[" ", EIFFEL["reference"]]]
    assert judge({**EIFFEL, "reference": None}).unscored == "no_reference"


@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_a_vector_of_zeros_is_unscored(variant: str) -> None:
    """It has no direction."""
    verdict = load("semantic_similarity", embeddings=embedding([0, 0], [1, 0]), variant=variant)(EIFFEL)
    assert verdict.unscored == "undefined"


def test_embeddings_that_fail_leave_the_verdict_unscored() -> None:
    """The error is named, the text is not."""
    verdict = load("semantic_similarity", embeddings=embedding(TimeoutError("It is in Paris."), [1]))(EIFFEL)
    assert verdict.unscored == "judge_failed"
    assert "Paris" not in verdict.detail


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


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"embeddings": embedding([1], [1]), "cross_encoder": len},
        {"embeddings": "text-embedding-3-small"},
        {"cross_encoder": 0.5},
        {"embeddings": embedding([1], [1]), "threshold": 2},
        {"embeddings": embedding([1], [1]), "model": "a:b"},
    ],
    ids=["nothing", "both", "a name", "no function", "threshold", "model"],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any]) -> None:
    """At construction, with what is wanted."""
    with pytest.raises(ConfigurationError):
        load("semantic_similarity", **settings)


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
