"""A wrong setting of a judge is one line, when it is made, that says what is wrong and what to do."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.testing import ScriptedEmbeddings, ScriptedJudge, ScriptedModel
from tests.catalogue.cases import asks_a_model
from tests.catalogue.test_cases import decoded
from tests.laws import for_every

LONGEST = 420

Wrong = tuple[str, dict[str, Any], list[str]]

TABLE = tomllib.loads((Path(__file__).parent / "wrong_settings.toml").read_text(encoding="utf-8"))
WRITTEN: list[Wrong] = [(name, decoded(row[0]), row[1:]) for name, rows in TABLE.items() for row in rows]
HHEM, TOOL_CALLS = "ragas.faithfulness_with_hhem", "ragas.tool_call_accuracy"
FUNCTIONS: list[Wrong] = [
    ("databricks.custom", {"criteria": "Good?", "answer": int}, ["answer is bool, labels"]),
    (
        "databricks.custom",
        {"criteria": "Good?", "answer": {1: 0.5}},
        ["labels to scores from 0 to 1", "not 1 to 0.5"],
    ),
    (HHEM, {"classifier": len, "split": "words"}, ["split is 'claims' or 'sentences'", "not 'words'"]),
    (HHEM, {"classifier": len, "batch_size": 0}, ["batch_size is a whole number from 1", "not 0"]),
    (HHEM, {"classifier": len, "threshold_probability": 1.5}, ["threshold_probability", "from 0 to 1", "not 1.5"]),
    (HHEM, {"classifier": len, "threshold_probability": True}, ["threshold_probability", "not True"]),
    (
        HHEM,
        {"classifier": len, "threshold_probability": 0.7, "variant": "compat"},
        ["variant='compat'", "threshold_probability"],
    ),
    (HHEM, {"classifier": len, "model": None}, ["needs a model"]),
    ("json_match", {"fields": {" ": len}}, ["a path is a text", "not ' '"]),
    ("ragas.rubrics_score", {"rubrics": {1: "a"}}, ["rubrics describes at least two levels"]),
    ("ragas.rubrics_score", {"rubrics": {1: "a", 2: None}}, ["rubrics describes at least two levels"]),
    (
        "ragas.semantic_similarity",
        {"embeddings": ScriptedEmbeddings({}), "cross_encoder": len},
        ["embeddings=...", "cross_encoder=...", "not by both"],
    ),
    (
        TOOL_CALLS,
        {"arg_comparison_metric": ScriptedJudge([1])},
        ["arg_comparison_metric is a function", "not Scripted"],
    ),
    (TOOL_CALLS, {"model": "openai:gpt-5-mini"}, ["'model'", "asks no model"]),
    ("trajectory_match", {"arguments": ()}, ["arguments is one of exact", "not ()"]),
]
"""What cannot be written down in the table."""


@for_every("name, settings, words", [*WRITTEN, *FUNCTIONS])
def test_a_wrong_setting_is_one_line(name: str, settings: dict[str, Any], words: list[str]) -> None:
    """It names the setting, what was given and what to give instead."""
    model = {"model": ScriptedModel([])} if asks_a_model(name) else {}
    if settings.get("embeddings") == {"vectors": {}}:
        settings = {**settings, "embeddings": ScriptedEmbeddings({})}
    with pytest.raises(ConfigurationError) as caught:
        load(name, **{**model, **settings})
    line = str(caught.value)
    assert [text for text in words if text not in line] == [], line
    assert "\n" not in line
    assert len(line) < LONGEST, len(line)


@for_every(
    "module, name, settings, extra",
    [
        ("sacrebleu", "ragas.bleu_score", {}, "sacrebleu"),
        ("sacrebleu", "ragas.chrf_score", {}, "sacrebleu"),
        ("nltk.translate.meteor_score", "meteor", {}, "meteor"),
        ("rapidfuzz.distance", "ragas.non_llm_string_similarity", {}, "strings"),
        ("rapidfuzz.distance", "ragas.non_llm_context_precision_with_reference", {}, "strings"),
        ("rapidfuzz.distance", "ragas.non_llm_context_recall", {}, "strings"),
        ("sqlglot", "ragas.llm_sql_equivalence", {"dialect": "mysql", "model": ScriptedModel([])}, "sql"),
    ],
)
def test_a_missing_library_is_named(module: str, name: str, settings: dict[str, Any], extra: str) -> None:
    """With the extra that brings it, when the judge is made."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, module, None)
        with pytest.raises(ConfigurationError, match=rf"needs the extra: selfrefine\[{extra}\]"):
            load(name, **settings)


def test_synonyms_need_wordnet(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are never downloaded: without nltk's data one line says what to do."""
    monkeypatch.setattr("nltk.data.path", [])
    with pytest.raises(ConfigurationError, match=r"python -m nltk\.downloader wordnet"):
        load("meteor", synonyms=True)
