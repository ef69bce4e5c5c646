"""Every setting of every judge is told of: its type, its default, what it means, and an example that runs."""

from __future__ import annotations

import inspect
import re
import sqlite3
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

import judges
import judges.judge
from judges import ConfigurationError, Entry, Judge, Panel, Sample, Verdict, load
from judges.catalogue.metric import MetricSettings, ModelSettings
from judges.catalogue.registry import default_registry
from judges.entry import Setting, own_tables
from judges.requests import Deliberation
from judges.settings import SHARED, load_line, means, settings_of
from judges.testing import ScriptedEmbeddings, ScriptedJudge, ScriptedModel
from tests.catalogue.cases import asks_a_model
from tests.catalogue.test_cases import decoded
from tests.laws import for_every

MODEL = "openai:gpt-5-mini"
NAMES = {"judges": judges, "sqlite3": sqlite3}


def judge_settings() -> Iterator[tuple[str, Setting]]:
    """Yield each setting of each judge of the catalogue, with the judge's name."""
    for entry in judges.catalogue():
        for setting in settings_of(default_registry().maker(entry.name)):
            yield entry.name, setting


def line_with(name: str, setting: Setting) -> str:
    """Return a line that loads a judge with what it needs, and with one more setting."""
    needed = [
        one.example for one in settings_of(default_registry().maker(name)) if one.required or one.name == "model"
    ]
    return f'judges.load("{name}", {", ".join(dict.fromkeys([*needed, setting.example]))})'


def test_no_setting_lacks_type_meaning_or_example() -> None:
    """Nor is a meaning left to another page of code."""
    lacking = [
        (name, str(setting))
        for name, setting in judge_settings()
        if not (setting.type and setting.meaning and setting.example.startswith(f"{setting.name}="))
        or re.search(r"[Ss]ee above|^See ", setting.meaning)
        or setting.required is bool(setting.default)
    ]
    assert lacking == []


def test_settings_with_regular_expressions_are_marked() -> None:
    """A server that serves several callers lets none of them set such a one."""
    marked = {(name, one.name) for name, one in judge_settings() if one.holds_expressions}
    told = re.compile(r"(?<!no )regular expression|JSON schema \(", re.IGNORECASE)
    assert {(name, one.name) for name, one in judge_settings() if told.search(one.meaning)} == marked
    assert {name for _, name in marked} == {"forbidden", "patterns", "required", "schema"}


def test_nothing_is_told_of_a_setting_that_no_judge_has() -> None:
    """Each table of `settings.toml` is of a class, and each of its keys a parameter of that class."""
    makers = [default_registry().maker(entry.name) for entry in judges.catalogue()]
    makers += [judges.Cascade, judges.Escalation, judges.Learned, judges.Panel, judges.Quick, judges.Repeat]
    kinds = {kind.__name__: kind for make in makers for kind in getattr(make, "__mro__", ())}
    tables = own_tables(judges.judge.__file__, "settings.toml")
    untaken = [
        (kind, name)
        for kind, told in tables.items()
        for name in told
        if kind != "common" and name not in inspect.signature(kinds[kind]).parameters
    ]
    assert untaken == []


def made_by(line: str) -> object:
    """Return the judge that a line makes, or another where it needs data that is not on this machine."""
    try:
        return eval(line, NAMES)  # noqa: S307 - the examples are ours
    except ConfigurationError as error:
        if "on this machine" not in str(error):
            raise
        return judges.load("length", at_most=1)


def test_the_shared_settings_are_those_of_the_base_classes() -> None:
    """Of a judge that asks a model, with the model itself."""
    assert set(SHARED) == {"model", *ModelSettings.__annotations__, *MetricSettings.__annotations__}


def test_every_example_makes_a_judge() -> None:
    """With what the judge needs besides; those of shared settings stand with a judge that takes them."""
    own = [line_with(name, setting) for name, setting in judge_settings() if not setting.shared]
    shared = [
        line_with("bias", setting)
        for setting in settings_of(default_registry().maker("bias"))
        if setting.shared and setting.name != "prompts"
    ]
    assert all(isinstance(made_by(line), Judge) for line in (*own, *shared))
    assert len(own) > len(judges.catalogue())


def test_every_judge_has_a_line_that_loads_it() -> None:
    """It needs no more than is written in it, and asks no model."""
    for entry in judges.catalogue():
        line = load_line(default_registry().maker(entry.name))
        judge = eval(line, NAMES)  # noqa: S307 - as above
        assert (judge.name, isinstance(judge, Judge)) == (entry.name, True), line


def test_explain_lists_the_settings() -> None:
    """Own ones first, with type, default, meaning and an example; of a panel those of its judges."""
    explanation = judges.load("precision_at_k", k=3).explain()
    assert [setting.name for setting in explanation.settings][:4] == ["metric", "k", "gain", "grades"]
    text = str(explanation)
    assert "setting k: int | None = None\n    How many of the first ranks count" in text
    assert "for example k=5" in text
    rubric = judges.load("rubric", MODEL, criteria="Kind?", levels={1: "no", 2: "yes"}).explain()
    assert [setting.name for setting in rubric.settings if setting.required] == ["criteria", "levels", "model"]
    assert [part.settings for part in Panel(["mrr"]).explain().parts] == [judges.load("mrr").explain().settings]


class Brief(Judge):
    """Judge whether an answer is brief."""

    entry = Entry(name="my.brief", asks="Is it brief?", needs=("response",))
    name = "brief"

    def __init__(
        self,
        limit: Annotated[int | None, means("Most characters, blanks included; None for any number.", 80, ge=0)],
        *,
        strict: Annotated[bool, means("Whether.")] = False,
        mode: Literal["a", "b"] = "a",
        words: Sequence[str] | Mapping[str, Any] = (),
    ) -> None:
        """Keep nothing."""

    def deliberate(self, sample: Sample) -> Deliberation:
        """Judge nothing."""
        yield from ()
        return Verdict.checked(passed=True)


def test_a_judge_of_ones_own_explains_its_settings_too() -> None:
    """They are read from its signature; switches and choices find their own examples."""
    limit, strict, mode, words = Brief(5).explain().settings
    assert limit == Setting(
        name="limit",
        type="int | None",
        required=True,
        meaning="Most characters, blanks included; None for any number.",
        example="limit=80",
    )
    assert (str(strict), strict.example, strict.meaning) == ("strict: bool = False", "strict=True", "Whether.")
    assert (str(mode), mode.example, mode.meaning) == ('mode: "a" | "b" = "a"', 'mode="b"', "")
    assert str(words) == "words: Sequence[str] | Mapping[str, Any] = ()"


def test_a_judge_may_have_a_shared_name_for_a_setting_of_its_own() -> None:
    """The language that is demanded is not the language of prompts."""
    settings = {setting.name: setting for setting in settings_of(default_registry().maker("reply_language"))}
    assert settings["language"].shared is False
    assert settings["language"].example == 'language="de"'
    assert settings["name"].shared is True


WRONG: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("length", {"at_mst": 1}, ("'at_mst'", "did you mean 'at_most'?", "at_least, at_most, unit, feedback, name")),
    ("mrr", {"colour": 1}, ("'colour'", "known are metric, k, gain, grades, name, variant")),
    (
        "rubric",
        {"model": MODEL},
        ("criteria=... (what to judge by)", "levels=... (description of each level, keyed"),
    ),
    ("tone", {"model": MODEL}, ("tone=... (the tone in words, such as",)),
    ("simple_criteria_score", {"model": MODEL}, ("definition=... (what earns a high score)",)),
    ("length", {"model": MODEL, "at_most": 5}, ("'model'; it asks no model", "known are at_least")),
    (
        "helpfulness",
        {"model": MODEL, "threshold": 0.5},
        ("success_rating=... is the rating from which it passes",),
    ),
    ("helpfulness", {"model": MODEL, "strict_mode": True}, ("success_rating=...",)),
    ("faithfulness", {"model": MODEL, "max_retries": 3}, ("model=judges.chat_model(", "max_retries=...)")),
    ("faithfulness", {"model": MODEL, "async_mode": True}, ("awaited with acall",)),
    ("faithfulness", {"model": MODEL, "llm": MODEL}, ("llm and model are one setting here",)),
    ("helpfulness", {"llm": None}, ("a judge needs a model to ask, not None",)),
]


@for_every("name, settings, told", WRONG)
def test_a_wrong_setting_is_told_the_right_ones(
    name: str, settings: dict[str, Any], told: tuple[str, ...]
) -> None:
    """In one line: the known ones, what a missing one is for, or what to use instead of another library's."""
    with pytest.raises(ConfigurationError) as caught:
        judges.load(name, **settings)
    line = str(caught.value)
    assert [text for text in told if text not in line] == []
    assert "\n" not in line
    assert len(line) < 340


def test_what_other_libraries_call_a_setting_works() -> None:
    """It sets what it is called here."""
    chat = ScriptedModel([{"rationale": "r", "verdict": "b", "feedback": ""}])
    for name in ("llm", "evaluator_llm", "judge", "provider", "chat_model"):
        assert (
            judges.load("helpfulness", **{name: chat}).models[0].name
            == judges.load("helpfulness", chat).models[0].name
        )
    assert judges.load("faithfulness", MODEL, strict_mode=True).threshold == 1.0  # type: ignore[attr-defined]  # of a Metric
    assert judges.load("length", feedback_key="short", max_length=3)(answer="abcd").judge == "short"
    chosen = judges.load("discrete", chat, choices=["a", "b"], criteria="Which of {response}?")
    assert chosen(answer="x").value == "b"
    conversation = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": [{"name": "search", "args": {"q": 1}}]},
    ]
    row = {"messages": conversation, "reference_tool_calls": [{"name": "search", "args": {"q": 2}}]}
    for settings, passed in (
        ({"trajectory_match_mode": "strict"}, False),
        ({"trajectory_match_mode": "superset", "tool_args_match_mode": "ignore"}, True),
        ({"match_type": "IN_ORDER", "tool_args_match_mode": "ignore"}, True),
    ):
        assert judges.load("trajectory_match", **settings)(row).passed is passed


def test_the_model_may_stand_without_a_name() -> None:
    """As may embeddings; a judge that takes neither says so."""
    chat = ScriptedModel([])
    assert repr(judges.load("helpfulness", chat)) == repr(judges.load("helpfulness", model=chat))
    assert judges.load("semantic_similarity", "minilm").name == "ragas.semantic_similarity"
    with pytest.raises(ConfigurationError, match=r"'length' takes 0 positional .*; it asks no model, .*at_most"):
        judges.load("length", 80)
    with pytest.raises(ConfigurationError, match="multiple values for argument 'model'"):
        judges.load("helpfulness", chat, model=chat)


@for_every(
    "name, told",
    [
        ("get", "judges.load('helpfulness', model=...) makes a judge by its name"),
        ("list", "judges.catalogue() lists all judges"),
        ("evaluate", "from refine import evaluate"),
        ("Faithfulness", "a judge of the catalogue is made by judges.load('Faithfulness', ...)"),
    ],
)
def test_a_first_guess_at_a_name_is_told_what_to_use(name: str, told: str) -> None:
    """In the error of the missing attribute."""
    with pytest.raises(AttributeError, match=f"^module 'judges' has no attribute '{name}'; ") as caught:
        getattr(judges, name)
    assert told in str(caught.value)


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
