"""Precision and recall of retrieval by ids."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load

PRECISION, RECALL = "ragas.id_based_context_precision", "ragas.id_based_context_recall"
DOCUMENTS = "databricks.document_recall"


@pytest.mark.parametrize(
    ("name", "found", "wanted", "score"),
    [
        (PRECISION, ["doc_1", "doc_2", "doc_3", "doc_4"], ["doc_1", "doc_4", "doc_5", "doc_6"], 0.5),
        (RECALL, ["doc_1", "doc_2", "doc_3"], ["doc_1", "doc_4", "doc_5", "doc_6"], 0.25),
        (DOCUMENTS, ["doc_123"], ["doc_123", "doc_456"], 0.5),
        (DOCUMENTS, ["a", "a"], ["a"], 1.0),
        (PRECISION, ["a", "a", "b"], ["a"], 0.5),
        (RECALL, [], ["a"], 0.0),
        (RECALL, [1, 2], [1, 3], 0.5),
        (DOCUMENTS, [7], ["7"], 1.0),
    ],
)
@pytest.mark.parametrize("variant", ["corrected", "compat"])
def test_the_share_of_ids(name: str, found: list[Any], wanted: list[Any], score: float, variant: str) -> None:
    """Hits over what was retrieved or expected, on sets, without a call."""
    verdict = load(name, variant=variant)(retrieved_context_ids=found, reference_context_ids=wanted)
    assert (verdict.score, verdict.usage.calls) == (score, 0)


def test_databricks_documents_bring_their_ids() -> None:
    """The ids are read from `doc_uri`."""
    documents = [{"content": "x", "doc_uri": "a"}, {"content": "y", "doc_uri": "b"}]
    assert load("document_recall")(retrieved_context=documents, reference_context_ids=["b", "c"]).score == 0.5


@pytest.mark.parametrize(
    ("name", "found", "wanted", "reason"),
    [
        (PRECISION, [], ["a"], "no_contexts"),
        (PRECISION, None, ["a"], "no_contexts"),
        (RECALL, ["a"], [], "no_reference"),
        (DOCUMENTS, ["a"], None, "no_reference"),
        (PRECISION, ["a"], [], "no_reference"),
    ],
)
def test_nothing_to_divide_by_is_unscored(
    name: str, found: list[str] | None, wanted: list[str] | None, reason: str
) -> None:
    """It is no NaN, and no 0."""
    sample = {"question": "?", "retrieved_context_ids": found, "reference_context_ids": wanted}
    assert load(name)(sample).unscored == reason


def test_the_feedback_names_the_ids() -> None:
    """Missing and surplus ids are named, for the retriever."""
    feedback = load(RECALL)(retrieved_context_ids=["a", "z"], reference_context_ids=["a", "b"]).feedback
    assert feedback.splitlines()[1:] == [
        "These expected ids were not retrieved:",
        "- b",
        "These ids were retrieved and not expected:",
        "- z",
    ]
