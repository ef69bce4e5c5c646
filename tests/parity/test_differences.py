"""What docs/compat.md says of ragas' values, asked of ragas itself. Skipped where ragas is not installed.

Run it with `uv run --isolated --no-default-groups --group parity pytest tests/parity`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import pytest

from tests.catalogue.test_choosing_page import ANSWER, CHAT, LEVELS, NO_ROWS, REFERENCE, ROW, TWO, row_of
from tests.parity.references import Replies, collections_score, reference_score

pytestmark = [
    pytest.mark.skipif(find_spec("ragas") is None, reason="ragas is in the optional group parity"),
    pytest.mark.filterwarnings("ignore"),
]

LEGACY, COLLECTIONS = 2, 3
"""Columns of the table of generations."""

MULTI = [{"type": "human" if one["role"] == "user" else "ai", "content": one["content"]} for one in CHAT]
ANSWERED = {"ExtractedKeyphrases": {"keyphrases": ["k"]}, "QuestionsGenerated": {"questions": ["q"]}}
SUMMED = {"response": "short", "reference_contexts": ["much longer"]}
BOTH = "ragas.context_precision`, `ragas.context_utilization"


def marked(*verdicts: int) -> Replies:
    """Give one verdict after the other."""
    left = iter(verdicts)
    return lambda schema, prompt: {"reason": "r", "verdict": next(left)}


def graded(score: int) -> Replies:
    """Give one score."""
    return lambda schema, prompt: {"feedback": "f", "reason": "r", "score": score, "verdict": score}


def attributed(schema: str, prompt: str) -> Mapping[str, Any]:
    """Mark a sentence 2."""
    return {"classifications": [{"statement": "s", "reason": "r", "attributed": 2}]}


def entities(schema: str, prompt: str) -> Mapping[str, Any]:
    """Find A twice in the reference, and once in the contexts."""
    return {"entities": ["A", "A"] if REFERENCE in prompt[-400:] else ["A"]}


def unclassified(*counts: int) -> Replies:
    """Find so many statements in the answer and in the reference, and put none into a class."""

    def reply(schema: str, prompt: str) -> Mapping[str, Any]:
        if schema == "StatementGeneratorOutput":
            return {"statements": ["s"] * counts[0 if ANSWER in prompt[-600:] else 1]}
        return {"TP": [], "FP": [], "FN": []}

    return reply


def no_topics(schema: str, prompt: str) -> Mapping[str, Any]:
    """Find no topics."""
    return {"topics": [], "classifications": []}


def answered(schema: str, prompt: str) -> Mapping[str, Any]:
    """Answer every question about the source."""
    return ANSWERED.get(schema, {"answers": ["1"]})


Case = tuple[str, str, str, str, dict[str, Any], dict[str, Any], Any]
WEIGHTS = {"weights": [1.0, 0.0]}
GENERATIONS: list[Case] = [
    (
        BOTH,
        "verdicts 2 and 1",
        "LLMContextPrecisionWithReference",
        "ContextPrecisionWithReference",
        {},
        TWO,
        lambda: marked(2, 1),
    ),
    (
        "ragas.context_recall",
        "a sentence marked 2",
        "LLMContextRecall",
        "ContextRecall",
        {},
        TWO,
        lambda: attributed,
    ),
    (
        "ragas.context_entity_recall",
        "entities A and A, found A",
        "ContextEntityRecall",
        "ContextEntityRecall",
        {},
        {name: TWO[name] for name in ("reference", "retrieved_contexts")},
        lambda: entities,
    ),
    (
        "ragas.answer_correctness",
        "no claims in the answer, two in the reference",
        "AnswerCorrectness",
        "AnswerCorrectness",
        WEIGHTS,
        ROW,
        lambda: unclassified(0, 2),
    ),
    (
        "ragas.answer_correctness",
        "no claim is classified",
        "AnswerCorrectness",
        "AnswerCorrectness",
        WEIGHTS,
        ROW,
        lambda: unclassified(2, 2),
    ),
    (
        "ragas.topic_adherence",
        "no topics",
        "TopicAdherenceScore",
        "TopicAdherence",
        {},
        {"user_input": MULTI, "reference_topics": ["physics"]},
        lambda: no_topics,
    ),
    (
        "ragas.summarization_score",
        "`length_penalty=False`, every question answered",
        "SummarizationScore",
        "SummaryScore",
        {"length_penalty": False},
        SUMMED,
        lambda: answered,
    ),
]
DIFFERENCES: list[Case] = [
    ("ragas.chrf_score", "no reference", "ChrfScore", "", {}, {"response": "a"}, None),
    ("ragas.chrf_score", "no answer", "ChrfScore", "", {}, {"reference": "a"}, None),
    (
        "ragas.chrf_score",
        "the reference is the number 123",
        "",
        "CHRFScore",
        {},
        {"response": "a", "reference": 123},
        None,
    ),
    (
        "ragas.chrf_score",
        "the answer is the number 456",
        "",
        "CHRFScore",
        {},
        {"response": 456, "reference": "a"},
        None,
    ),
    (
        "ragas.quoted_spans_alignment",
        "the answer is the number 123",
        "",
        "QuotedSpansAlignment",
        {},
        {"response": 123, "retrieved_contexts": ["a"]},
        None,
    ),
    (
        "ragas.quoted_spans_alignment",
        "the contexts are one text, nothing is quoted",
        "",
        "QuotedSpansAlignment",
        {},
        {"response": "some text", "retrieved_contexts": "not a list"},
        None,
    ),
    ("ragas.exact_match", "no reference", "ExactMatch", "", {}, {"response": "a"}, None),
    ("ragas.rubrics_score", "level 7 of 1 to 5", "RubricsScore", "", {"rubrics": LEVELS}, ROW, lambda: graded(7)),
    (
        "ragas.instance_rubrics",
        "level 7 of 1 to 5",
        "InstanceRubrics",
        "",
        {},
        {**ROW, "rubrics": LEVELS},
        lambda: graded(7),
    ),
    (
        "ragas.simple_criteria_score",
        "score 9 of 0 to 5",
        "SimpleCriteriaScore",
        "",
        {"name": "n", "definition": "d"},
        ROW,
        lambda: graded(9),
    ),
    (
        "ragas.aspect_critic",
        "verdict 2",
        "AspectCritic",
        "",
        {"name": "n", "definition": "d"},
        ROW,
        lambda: graded(2),
    ),
    (
        "ragas.id_based_context_precision",
        "no reference ids",
        "IDBasedContextPrecision",
        "",
        {},
        {"retrieved_context_ids": ["a"], "reference_context_ids": []},
        None,
    ),
]
TABLES: list[Case] = [
    (
        "ragas.data_compy_score",
        "two tables of the same columns, without rows",
        "",
        "DataCompyScore",
        {},
        {"response": "id,name", "reference": "id,name"},
        None,
    ),
    ("ragas.data_compy_score", "no row equal, F1 of rows", "DataCompyScore", "DataCompyScore", {}, NO_ROWS, None),
]


def shown(value: float) -> str:
    """Write a value as the page does."""
    return "NaN" if value != value else f"{round(value, 2):g}"  # noqa: PLR0124 - only NaN differs from itself


def scores(case: Case) -> tuple[str, str]:
    """Return what the two generations of ragas give; empty where a case is about one of them."""
    _, _, legacy, collection, settings, row, replies = case
    own = None if replies is None else replies()
    old = asyncio.run(reference_score(legacy, row, own, **settings)) if legacy else None
    own = None if replies is None else replies()
    new = asyncio.run(collections_score(collection, row, own, **settings)) if collection else None
    return "" if old is None else shown(old), "" if new is None else shown(new)


@pytest.mark.parametrize("case", GENERATIONS, ids=lambda case: f"{case[0]}, {case[1]}")
def test_the_generations_differ_as_the_page_says(case: Case) -> None:
    """Legacy classes and collections, on the same decisions of the model."""
    cells = row_of(case[0], case[1])
    assert scores(case) == (cells[LEGACY], cells[COLLECTIONS])


@pytest.mark.parametrize("case", DIFFERENCES, ids=lambda case: f"{case[0]}, {case[1]}")
def test_ragas_gives_what_the_page_says(case: Case) -> None:
    """A number where there is nothing to judge, or one that the model invented."""
    assert "".join(scores(case)) == row_of(case[0], case[1])[2]


@pytest.mark.skipif(find_spec("datacompy") is None, reason="ragas compares tables by datacompy")
def test_tables_are_compared_as_the_page_says() -> None:
    """Without rows, and without equal rows."""
    empty, unequal = TABLES
    assert scores(empty)[1] == row_of(empty[0], empty[1])[2]
    cells = row_of(unequal[0], unequal[1])
    assert scores(unequal) == (cells[LEGACY], cells[COLLECTIONS])
