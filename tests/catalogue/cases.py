"""A working setting and a full sample, good and bad, in three languages, for every judge of the catalogue."""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judges import Judge
from judges.catalogue.registry import default_registry
from judges.settings import settings_of
from judges.testing import ScriptedEmbeddings
from tests.catalogue.filling import BAD, FillingModel

Fields = Mapping[str, Any]

SIZES = {"n": 3, "t": 2, "k": 1}
"""What the letters of a formula for calls stand for: contexts and topics of the sample, and repeats."""


@dataclass(frozen=True)
class Case:
    """How a judge is tried.

    Args:
        settings: What it needs to be made, beside a model.
        good: Fields of the good sample that are special to it.
        bad: Fields of the bad sample that are.
        compat: What it needs besides to give the reference's numbers.
    """

    settings: Fields = field(default_factory=dict)
    good: Fields = field(default_factory=dict)
    bad: Fields = field(default_factory=dict)
    compat: Fields = field(default_factory=dict)


def supported(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Classify pairs of premise and hypothesis: whatever has the mark of badness in it is not supported."""
    return [float(BAD not in "".join(pair)) for pair in pairs]


def vector_of(text: str) -> list[float]:
    """Give the vector of a text: one direction for bad texts, another for good ones."""
    return [0.0, 1.0] if BAD in text else [1.0, 0.0]


EMBEDDINGS = ScriptedEmbeddings(vector_of)
"""Vectors that tell good texts from bad ones."""

CRITERION = "Does the answer say where the tower stands?"
LEVELS = {1: "no", 2: "hardly", 3: "nearly", 4: "yes"}
CSV = "id,name\n1,Ann\n2,Bob\n"

CASES: Mapping[str, Case] = {
    "json": Case(good={"response": '{"a": 1}'}, bad={"response": "no"}),
    "json_match": Case(
        good={"response": '{"city": "Paris"}', "reference": '{"city": "Paris"}'}, bad={"response": '{"town": 1}'}
    ),
    "length": Case({"at_most": 200}, bad={"response": "x" * 201}),
    "numeric_range": Case({"at_least": 10, "at_most": 2000}, bad={"response": "5"}),
    "pairwise": Case({"threshold": 1}),
    "pattern": Case({"required": "1889"}),
    "citations": Case(
        good={"response": "The tower stands in Paris [1]. It was built in 1889 [1]."},
        bad={"response": "The tower stands in London [1]. Nobody built it [9]."},
    ),
    "code": Case(good={"response": "```python\nx = 1\n```"}, bad={"response": "```python\nx = (\n```"}),
    "reply_language": Case(bad={"response": "Der Turm steht in London, und niemand hat ihn dort jemals gebaut."}),
    "verifiable_instructions": Case({"instructions": [{"kind": "keywords", "words": ["1889"]}]}),
    "code_vulnerability": Case(
        good={"response": "```python\nx = 1\n```"}, bad={"response": "```python\nx = eval(input())\n```"}
    ),
    "cost": Case({"at_most": 1}, good={"metadata": {"cost": 0.5}}, bad={"metadata": {"cost": 2}}),
    "decision_tree": Case({"tree": {"ask": CRITERION, "yes": 1, "no": 0}}),
    "latency": Case({"at_most": 1}, good={"metadata": {"latency_s": 0.5}}, bad={"metadata": {"latency_s": 2}}),
    "tool_permission": Case({"allowed": ["search"]}),
    "checklist": Case({"items": ["Does it name the city?", "Does it name the year?"]}),
    "dimensions": Case({"dimensions": {"place": {"criteria": CRITERION, "levels": LEVELS}}}),
    "discrete": Case({"prompt": CRITERION, "allowed": ["no", "partly", "yes"]}),
    "numeric": Case({"prompt": CRITERION}),
    "ranking": Case({"prompt": CRITERION, "threshold": 1}),
    "tone": Case({"tone": "formal"}),
    "rubric": Case({"criteria": CRITERION, "levels": LEVELS}),
    "databricks.custom": Case({"criteria": CRITERION}),
    "databricks.global_guideline_adherence": Case({"guidelines": ["Name the city.", "Be brief."]}),
    "mlflow.role_adherence": Case({"role": "A guide to Paris."}),
    "ragas.answer_correctness": Case({"embeddings": EMBEDDINGS}),
    "ragas.answer_relevancy": Case(compat={"embeddings": EMBEDDINGS}),
    "ragas.aspect_critic": Case({"definition": CRITERION, "higher_is_better": True}),
    "ragas.simple_criteria_score": Case({"definition": CRITERION}),
    "ragas.faithfulness_with_hhem": Case({"classifier": supported}),
    "ragas.semantic_similarity": Case({"embeddings": EMBEDDINGS}),
    "ragas.data_compy_score": Case(
        good={"response": CSV, "reference": CSV},
        bad={"response": "id,name\n1,Zoe\n3,Eve\n", "reference": CSV},
    ),
    "ragas.llm_sql_equivalence": Case(
        good={"response": "SELECT 1 FROM a", "reference": "SELECT 2 - 1 FROM a"},
        bad={"response": "SELECT 2 FROM a"},
    ),
}
"""What is special to some judges; all others are made with a model, or with nothing."""

_TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
LANGUAGES = tuple(_TEXTS)


def sample_for(name: str, *, good: bool = True, language: str = "en") -> dict[str, Any]:
    """Give the fields of a sample with everything in it that a judge may need."""
    texts, case = _TEXTS[language], CASES.get(name, Case())
    contexts = texts["contexts"]
    call = {"name": "search", "args": {"place": "tower"}, "id": "1"}
    made = call if good else {"name": "translate", "args": {"place": BAD}, "id": "1"}
    fields = {
        "user_input": texts["user_input"],
        "response": texts["good"] if good else texts["bad"],
        "trajectory": [
            {"role": "assistant", "tool_calls": [made]},
            {"role": "tool", "name": made["name"], "content": contexts[0], "tool_call_id": "1"},
        ],
        "retrieved_contexts": contexts if good else [f"{BAD} {number}" for number in range(len(contexts))],
        "retrieved_context_ids": ["a", "b", "c"] if good else ["x", "y", "z"],
        "reference": " ".join(texts["facts"]) if asks_a_model(name) else texts["good"],
        "reference_contexts": contexts,
        "reference_context_ids": ["a", "b", "c"],
        "expected_facts": texts["facts"],
        "guidelines": texts["guidelines"],
        "rubrics": {"1": "bad", "2": "poor", "3": "fair", "4": "good"},
        "reference_tool_calls": [{"name": "search", "args": {"place": "tower"}}],
        "reference_topics": texts["topics"],
        "metadata": {"rival": texts["bad"] if good else texts["good"]},
    }
    return {**fields, **(case.good if good else {**case.good, **case.bad})}


def asks_a_model(name: str) -> bool:
    """Tell whether a judge takes a model."""
    return "model" in inspect.signature(default_registry()._makers[name]).parameters


def takes(name: str, setting: str) -> bool:
    """Tell whether a judge has one of the settings that all judges of the catalogue but the first few have."""
    return any(one.name == setting for one in settings_of(default_registry().maker(name)))


def made(name: str, model: object = None, **settings: Any) -> Judge:
    """Make a judge by its name, with what it needs."""
    given = {"model": model or FillingModel()} if asks_a_model(name) else {}
    case = CASES.get(name, Case())
    if settings.get("variant") == "compat":
        given |= case.compat
    return default_registry().load(name, **given, **case.settings, **settings)


def calls_in(formula: str) -> int:
    """Count the calls of a formula, such as `"3 + 2n"`, for the sample; a remark behind it does not count."""
    terms = re.split("[,;]", formula)[0].replace(" ", "").split("+")
    parts = [re.fullmatch(r"(\d*)([a-z]?)", term) for term in terms]
    assert all(parts), f"{formula!r} is no formula of numbers and letters"
    return sum(int(one[1] or 1) * (SIZES[one[2]] if one[2] else 1) for one in parts if one)
