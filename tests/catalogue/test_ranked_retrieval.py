"""Ranked retrieval: the values of the textbooks, graded relevance, repeated ids and empty lists."""

from __future__ import annotations

from math import log2
from typing import Any

import pytest

from judges import ConfigurationError, load

RANKING = ["d3", "d7", "d1", "d9", "d2"]
RELEVANT = ["d1", "d2", "d3", "d4"]
GRADES = {"d3": 3, "d1": 2, "d2": 1, "d4": 2, "d9": 0}
DCG = 1 + 1 / log2(4) + 1 / log2(6)
IDEAL = 1 + 1 / log2(3) + 1 / log2(4) + 1 / log2(5)


@pytest.mark.parametrize(
    ("settings", "score"),
    [
        ({"metric": "ndcg"}, DCG / IDEAL),
        ({"metric": "ndcg", "k": 2}, 1 / (1 + 1 / log2(3))),
        ({"metric": "mrr"}, 1.0),
        ({"metric": "hit_rate", "k": 1}, 1.0),
        ({"metric": "precision"}, 3 / 5),
        ({"metric": "precision", "k": 2}, 1 / 2),
        ({"metric": "precision", "k": 10}, 3 / 10),
        ({"metric": "recall"}, 3 / 4),
        ({"metric": "recall", "k": 1}, 1 / 4),
    ],
)
def test_the_values_are_those_of_the_definitions(settings: dict[str, Any], score: float) -> None:
    """Each metric, with and without k, gives the value worked out by hand, and calls no model."""
    verdict = load("ranked_retrieval", **settings)(retrieved_context_ids=RANKING, reference_context_ids=RELEVANT)
    assert verdict.score == pytest.approx(score)
    assert verdict.usage.calls == 0


def test_graded_relevance_has_two_gains() -> None:
    """Grades come from the sample's metadata; gains are linear, as in scikit-learn, or exponential."""
    row = {"retrieved_context_ids": RANKING, "relevance": GRADES}
    linear = (3 + 2 / log2(4) + 1 / log2(6)) / (3 + 2 / log2(3) + 2 / log2(4) + 1 / log2(5))
    steep = (7 + 3 / log2(4) + 1 / log2(6)) / (7 + 3 / log2(3) + 3 / log2(4) + 1 / log2(5))
    assert load("ndcg")(row).score == pytest.approx(linear)
    assert load("ndcg", gain="exponential")(row).score == pytest.approx(steep)
    renamed = {"retrieved_context_ids": RANKING, "qrels": GRADES}
    assert load("ndcg", grades="qrels")(renamed).score == pytest.approx(linear)
    assert load("recall_at_k", k=3)(row).score == pytest.approx(2 / 4)
    wrong = load("ndcg")({**row, "relevance": {"d1": -1}})
    assert (wrong.unscored, "'d1'" in wrong.detail) == ("invalid_sample", True)


def test_a_repeated_id_counts_once() -> None:
    """It counts where it stands first, its repetition takes up a rank, and no score rises above 1."""
    sample = {"retrieved_context_ids": ["a", "a", "b"], "reference_context_ids": ["a", "b", "b"]}
    assert load("precision_at_k", k=2)(sample).score == 0.5
    assert load("recall_at_k")(sample).score == 1.0
    assert load("ndcg")(sample).score == pytest.approx((1 + 1 / log2(4)) / (1 + 1 / log2(3)))


def test_the_first_relevant_rank_decides_mrr() -> None:
    """Reciprocal rank is 1 / rank, and 0 where the first relevant id stands behind k."""
    sample = {"retrieved_context_ids": ["x", "y", "a"], "reference_context_ids": ["a"]}
    assert load("mrr")(sample).score == pytest.approx(1 / 3)
    assert load("mrr", k=2)(sample).score == 0
    assert load("hit_rate", k=2)(sample).score == 0


def test_empty_lists_are_told_apart() -> None:
    """Nothing retrieved is a 0 but for a precision over nothing; nothing relevant has no score."""
    nothing = {"retrieved_context_ids": [], "reference_context_ids": ["a"]}
    scores = {name: load(name)(nothing) for name in ("ndcg", "mrr", "hit_rate", "recall_at_k", "precision_at_k")}
    assert [verdict.score for verdict in scores.values()] == [0, 0, 0, 0, None]
    assert scores["precision_at_k"].unscored == "no_contexts"
    assert load("precision_at_k", k=3)(nothing).score == 0
    assert load("mrr")(retrieved_context_ids=["a"], reference_context_ids=[]).unscored == "no_reference"
    assert load("mrr")(question="?", reference_context_ids=["a"]).unscored == "no_contexts"
    assert load("ndcg")({"retrieved_context_ids": ["a"], "relevance": {"a": 0}}).unscored == "no_reference"


def test_the_feedback_names_what_is_missing_and_the_ranks() -> None:
    """The retriever hears which ids are missing and where the others stand."""
    feedback = load("ndcg")(retrieved_context_ids=["z", "a"], reference_context_ids=["a", "b"]).feedback
    assert "- b" in feedback
    assert feedback.endswith("should stand first: 2")


def test_wrong_settings_say_what_is_right() -> None:
    """A metric that is unknown and a k of 0 are refused at once."""
    with pytest.raises(ConfigurationError, match="metric is 'ndcg', 'mrr'"):
        load("ranked_retrieval", metric="map")
    with pytest.raises(ConfigurationError, match="k is a whole number from 1"):
        load("ndcg", k=0)
