"""docs/compat.md says where compat follows which generation of ragas, and where it differs: each row is run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from judges import BadSample, catalogue, load
from judges.testing import ScriptedEmbeddings, ScriptedModel
from tests.kit import Shown, items, replying

PAGE = (Path(__file__).resolve().parents[2] / "docs/compat.md").read_text(encoding="utf-8")
QUESTION, ANSWER, REFERENCE = "What is asked?", "The answer text.", "The reference text."
ROW = {"user_input": QUESTION, "response": ANSWER, "reference": REFERENCE}
LEVELS = {f"score{level}_description": f"level {level}" for level in range(1, 6)}
CHAT = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]


def vectors(b: list[float]) -> ScriptedEmbeddings:
    """Make embeddings of two texts, a and b, and of two questions."""
    return ScriptedEmbeddings({"a": [1.0, 0.0], "b": b, "": [1.0, 1.0], "same": [1.0, 0.0]})


def claims(answer: int, reference: int, *verdicts: bool) -> Callable[[Shown], Mapping[str, Any]]:
    """Reply with so many claims of each text, none of the answer's classified, and verdicts on the reference's."""

    def reply(data: Shown) -> Mapping[str, Any]:
        if "text" in data:
            return {"claims": [f"claim {n}" for n in range(answer if data["text"] == ANSWER else reference)]}
        return {"answer_claims": [], "reference_claims": items(*verdicts)["items"], "feedback": ""}

    return reply


def summary(*answers: str) -> Callable[[Shown], Mapping[str, Any]]:
    """Reply with answers to questions about a source."""

    def reply(data: Shown) -> Mapping[str, Any]:
        if "summary" in data:
            return {"answers": list(answers)}
        return {"questions": ["q"]} if "keyphrases" in data else {"keyphrases": ["k"]}

    return reply


def graded(verdict: object) -> Callable[[Shown], Mapping[str, Any]]:
    """Reply with one verdict."""
    return lambda data: {"rationale": "r", "verdict": verdict, "feedback": "f"}


def useful(data: Shown) -> Mapping[str, Any]:
    """Mark the first context 2 and the second 1."""
    return {"reason": "r", "verdict": 2 if data["context"] == "first" else 1}


def entities(data: Shown) -> Mapping[str, Any]:
    """Find A twice in the reference, and once in the contexts."""
    return {"entities": ["A", "A"] if data["text"] == REFERENCE else ["A"]}


def attributed(data: Shown) -> Mapping[str, Any]:
    """Mark a sentence 2."""
    return {"classifications": [{"statement": "s", "reason": "r", "attributed": 2}]}


Case = tuple[str, str, dict[str, Any], dict[str, Any], Callable[[Shown], Mapping[str, Any]] | None, object]
TWO = {**ROW, "retrieved_contexts": ["first", "second"]}
NONE = {**ROW, "retrieved_contexts": []}
BOTH = "ragas.context_precision`, `ragas.context_utilization"
NO_ROWS = {"response": "id\n1", "reference": "id\n2"}
GENERATIONS: list[Case] = [
    (BOTH, "verdicts 2 and 1", {}, TWO, useful, 1.0),
    (BOTH, "no contexts", {}, NONE, useful, 0.0),
    ("ragas.context_recall", "a sentence marked 2", {}, TWO, attributed, 1.0),
    ("ragas.context_entity_recall", "entities A and A, found A", {}, TWO, entities, 0.5),
    (
        "ragas.answer_correctness",
        "no claims in the answer, two in the reference",
        {"weights": [1, 0]},
        ROW,
        claims(0, 2, *[False, False]),
        0.0,
    ),
    ("ragas.answer_correctness", "no claim is classified", {"weights": [1, 0]}, ROW, claims(2, 2), 0.0),
    (
        "ragas.topic_adherence",
        "no topics",
        {},
        {"user_input": CHAT, "reference_topics": ["physics"]},
        lambda data: {"topics": []} if "topics" not in data else items(),
        0.0,
    ),
    (
        "ragas.summarization_score",
        "`length_penalty=False`, every question answered",
        {"length_penalty": False},
        {"response": "short", "reference_contexts": ["much longer"]},
        summary("1"),
        1.0,
    ),
    ("ragas.data_compy_score", "no row equal, F1 of rows", {}, NO_ROWS, None, 0.0),
    ("ragas.data_compy_score", "no column equal, F1 of columns", {"mode": "columns"}, NO_ROWS, None, 0.0),
    (
        "nvidia.response_groundedness",
        "the answer stands in the contexts",
        {},
        {**ROW, "retrieved_contexts": [f"So: {ANSWER}"]},
        graded(None),
        1.0,
    ),
]
DIFFERENCES: list[Case] = [
    ("ragas.chrf_score", "no reference", {}, {"response": "a"}, None, "no_reference"),
    ("ragas.chrf_score", "no answer", {}, {"reference": "a"}, None, "no_response"),
    ("ragas.chrf_score", "the reference is the number 123", {}, {**ROW, "reference": 123}, None, BadSample),
    ("ragas.chrf_score", "the answer is the number 456", {}, {**ROW, "response": 456}, None, BadSample),
    (
        "ragas.quoted_spans_alignment",
        "the answer is the number 123",
        {},
        {**TWO, "response": 123},
        None,
        BadSample,
    ),
    (
        "ragas.quoted_spans_alignment",
        "the contexts are one text, nothing is quoted",
        {},
        {**ROW, "retrieved_contexts": "not a list"},
        None,
        1.0,
    ),
    (
        "ragas.data_compy_score",
        "two tables of the same columns, without rows",
        {},
        {"response": "id,name", "reference": "id,name"},
        None,
        1.0,
    ),
    ("ragas.exact_match", "no reference", {}, {"response": "a"}, None, "no_reference"),
    ("ragas.rubrics_score", "level 7 of 1 to 5", {"rubrics": LEVELS}, ROW, graded(7), "invalid_output"),
    ("ragas.instance_rubrics", "level 7 of 1 to 5", {}, {**ROW, "rubrics": LEVELS}, graded(7), "invalid_output"),
    ("ragas.simple_criteria_score", "score 9 of 0 to 5", {"definition": "d"}, ROW, graded(9), "invalid_output"),
    ("ragas.aspect_critic", "verdict 2", {"definition": "d"}, ROW, graded(2), "invalid_output"),
    ("ragas.faithfulness", "no contexts", {}, NONE, claims(1, 1), "no_contexts"),
    ("ragas.context_recall", "no contexts", {}, NONE, attributed, "no_contexts"),
    (
        "ragas.id_based_context_precision",
        "no reference ids",
        {},
        {"retrieved_context_ids": ["a"], "reference_context_ids": []},
        None,
        "no_reference",
    ),
    (
        "ragas.non_llm_context_recall",
        "nothing retrieved",
        {},
        {"retrieved_contexts": [], "reference_contexts": ["a"]},
        None,
        "no_contexts",
    ),
    (
        "ragas.summarization_score",
        "the model answers no question",
        {},
        {"response": "short", "reference_contexts": ["much longer"]},
        summary(),
        "no_claims",
    ),
    (
        "ragas.semantic_similarity",
        "an embedding is zero, `threshold=0.4`",
        {"threshold": 0.4, "embeddings": vectors([0.0, 0.0])},
        {"response": "a", "reference": "b"},
        None,
        "undefined",
    ),
    (
        "ragas.semantic_similarity",
        "cosine 0.5, `threshold=0`",
        {"threshold": 0, "embeddings": vectors([0.5, math.sqrt(0.75)])},
        {"response": "a", "reference": "b"},
        None,
        1.0,
    ),
]


def row_of(names: str, case: str) -> list[str]:
    """Return the cells of the row of a case on the page."""
    lines = [line for line in PAGE.splitlines() if line.startswith(f"| `{names}` | {case} | ")]
    assert len(lines) == 1, (names, case)
    return [cell.strip() for cell in lines[0].strip("|").split("|")]


def outcome(name: str, settings: dict[str, Any], row: dict[str, Any], reply: Any) -> object:
    """Return what the compat variant of a judge makes of a row: a value, a reason, or an error's class."""
    model = {} if reply is None else {"model": replying(reply)}
    try:
        verdict = load(name, variant="compat", **settings, **model)(row)
    except BadSample as error:
        return type(error)
    return verdict.unscored or verdict.value


def shown(expected: object) -> str:
    """Write an outcome as the page does."""
    if isinstance(expected, float):
        return f"{expected:g}"
    return "`BadSample`" if expected is BadSample else f"unscored, `{expected}`"


def about(expected: object) -> object:
    """Return what an outcome is compared with; ragas adds 1e-10 to denominators."""
    return pytest.approx(expected, abs=1e-8) if isinstance(expected, float) else expected


@pytest.mark.parametrize(
    ("cases", "column"), [(GENERATIONS, 4), (DIFFERENCES, 3)], ids=["generations", "differences"]
)
def test_each_row_says_what_compat_gives(cases: list[Case], column: int) -> None:
    """Every case of both tables, run; and every row of the page but one is among the cases."""
    for names, case, settings, row, reply, expected in cases:
        cell = row_of(names, case)[column]
        for name in names.split("`, `"):
            assert outcome(name, settings, row, reply) == about(expected), (name, case)
        assert cell.removesuffix(", unasked") == shown(expected), case


def test_no_row_is_left_out() -> None:
    """The cases above are those of the page; the one with embeddings has a test of its own."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) == len(GENERATIONS) + len(DIFFERENCES) + 1


def test_an_empty_question_is_compared_like_the_others() -> None:
    """As the legacy class of ragas does with three questions of which one is empty."""
    replies = [{"question": question, "noncommittal": 0} for question in ("same", "same", "")]
    judge = load("answer_relevancy", ScriptedModel(replies), embeddings=vectors([0.0, 1.0]), variant="compat")
    value = judge(user_input="a", response="b").value
    assert value == pytest.approx((2 + math.sqrt(0.5)) / 3)
    assert "compared" in row_of("ragas.answer_relevancy", "one of the questions is empty")[4]


def test_every_judge_after_ragas_says_which_generation_it_follows() -> None:
    """One of the two, or both; the page of all judges shows it."""
    after_ragas = [entry for entry in catalogue() if entry.name.startswith(("ragas.", "nvidia."))]
    legacy, collections = "ragas.metrics (legacy)", "ragas.metrics.collections"
    known = {
        "both generations, which agree",
        *(f"{one}{only}" for one in (legacy, collections) for only in ("", ", the only one")),
    }
    assert {entry.follows for entry in after_ragas} == known
    assert [entry.name for entry in catalogue() if entry.follows and entry not in after_ragas] == []
