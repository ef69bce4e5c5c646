"""Judges are found by what one would type, by the fields that one has, and shown at the width of the terminal."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import judges
from judges import ConfigurationError, Entry, catalogue, load
from judges.catalogue.registry import find
from refine.cli.app import app
from tests.laws import for_every

NARROW, WIDE = 80, 200


def refine(*arguments: str, columns: int | None = None) -> Result:
    """Run `refine judges` in this process, piped."""
    environment = {} if columns is None else {"COLUMNS": str(columns)}
    return CliRunner().invoke(app, ["judges", *arguments], env=environment)


def found(*arguments: str) -> list[dict[str, Any]]:
    """Return the judges that a search finds, as JSON has them."""
    result = refine(*arguments, "--json")
    assert result.exit_code == 0, result.output
    matches: list[dict[str, Any]] = json.loads(result.stdout)
    return matches


def names_found(*arguments: str) -> list[str]:
    """Return the names of the judges that a search finds."""
    return [match["name"] for match in found(*arguments)]


def test_every_judge_has_tags() -> None:
    """Words to find it by, none twice, and none of them its own name."""
    untagged = [entry.name for entry in catalogue() if not entry.tags or len(set(entry.tags)) < len(entry.tags)]
    assert untagged == []


def test_every_entry_that_is_written_is_of_a_judge() -> None:
    """A table of entries.toml under a name that no class asks for would never be seen."""
    written = tomllib.loads((Path(judges.__file__).with_name("entries.toml")).read_text(encoding="utf-8"))
    assert set(written) == {entry.name for entry in catalogue()}


WORDS: list[tuple[str, set[str], set[str]]] = [
    (
        "hallucination",
        {"hallucination", "ragas.faithfulness", "databricks.groundedness", "nvidia.response_groundedness"},
        {"length", "ragas.bleu_score", "helpfulness"},
    ),
    ("citation", {"citations", "ragas.quoted_spans_alignment"}, {"harm", "json"}),
    ("agent", {"tool_use", "task_completion", "trajectory_match", "ragas.tool_call_accuracy"}, {"json", "bias"}),
    ("conversation", {"turn_relevancy", "mlflow.user_frustration", "ragas.topic_adherence"}, {"json", "bias"}),
    ("format", {"json", "json_match", "pattern", "length", "numeric_range"}, {"harm", "ragas.context_recall"}),
    ("rag", {"ragas.faithfulness", "ragas.context_recall", "citations"}, {"ragas.bleu_score", "length", "harm"}),
    ("safety", {"harm", "databricks.safety", "pii_leakage", "prompt_injection", "refusal"}, {"json"}),
    ("retrieval", {"ragas.context_recall", "mrr", "hit_rate", "databricks.chunk_relevance"}, {"harm", "length"}),
    ("summary", {"ragas.summarization_score", "ragas.rouge_score"}, {"harm"}),
    ("sql", {"ragas.llm_sql_equivalence", "code"}, {"harm"}),
    ("json", {"json", "json_match", "code"}, {"harm"}),
    ("language", {"reply_language"}, {"json"}),
    ("tone", {"tone"}, {"harm"}),
    ("similarity", {"ragas.semantic_similarity", "ragas.bleu_score", "token_f1"}, {"harm"}),
    ("privacy", {"pii_leakage"}, {"json"}),
    ("jailbreak", {"prompt_injection"}, {"json"}),
    ("gdpr", {"pii_leakage"}, {"harm"}),
    ("deepeval", {"hallucination", "bias"}, {"ragas.faithfulness"}),
    ("made up", {"hallucination"}, {"harm"}),
    ("ToolCallAccuracy", {"ragas.tool_call_accuracy", "tool_use"}, {"harm"}),
    ("FaithfulnessMetric", {"ragas.faithfulness"}, {"harm"}),
    ("reference", {"equivalence", "ragas.context_recall"}, {"harm"}),
    ("custom", {"rubric", "discrete", "databricks.custom", "ragas.aspect_critic"}, {"harm"}),
    ("guideline", {"databricks.guideline_adherence"}, {"harm"}),
    ("memory", {"mlflow.knowledge_retention"}, {"harm"}),
    ("conciseness", {"length", "ragas.summarization_score"}, {"harm"}),
    ("compare", {"pairwise", "ranking"}, {"harm"}),
    ("translation", {"ragas.bleu_score", "ragas.chrf_score"}, {"harm"}),
    ("refusal", {"refusal"}, {"json"}),
    ("correctness", {"databricks.correctness", "ragas.factual_correctness", "equivalence"}, {"harm", "mrr"}),
]


@for_every("words, expected, others", WORDS)
def test_a_word_finds_its_judges(words: str, expected: set[str], others: set[str]) -> None:
    """By name, question, needs, subject, tags or a synonym, all of several words, and no others."""
    names = set(names_found("--find", words))
    assert expected - names == set()
    assert names & others == set()
    assert len(names) <= len(catalogue()) / 2, names


HERE = Path(__file__)
HELD_OUT = tomllib.loads((HERE.parent / "data/sentences.toml").read_text(encoding="utf-8"))
CHOOSING = (HERE.parents[2] / "docs/choosing.md").read_text(encoding="utf-8")
TABLE = CHOOSING.partition("| what you would say | judges |\n|---|---|\n")[2].partition("\n\n")[0]
NEEDS = {
    need: re.findall(r"`([\w.]+)`", fitting)
    for need, fitting in re.findall(r"^\| (.+?) \| (.+) \|$", TABLE, re.MULTILINE)
}
"""What goes wrong, as the page says it, and the judges for it."""


def missed(sentences: dict[str, list[str]]) -> list[str]:
    """Return the sentences of which no fitting judge is among the first three found."""
    return [
        sentence
        for sentence, fitting in sentences.items()
        if not {entry.name for entry in find(catalogue(), text=sentence)[:3]} & set(fitting)
    ]


def test_a_sentence_finds_its_judges() -> None:
    """As somebody writes who knows no judge by name: of 204, twelve of them German, at most 12 find none."""
    assert len(missed(HELD_OUT)) <= len(HELD_OUT) - 192 == 12, missed(HELD_OUT)


def test_every_need_on_the_page_finds_its_judges() -> None:
    """None of the sentences of docs/choosing.md misses its judges, and all that it names are there."""
    assert len(NEEDS) >= 26
    assert missed(NEEDS) == []
    assert {name for names in NEEDS.values() for name in names} <= {entry.name for entry in catalogue()}


def test_an_entry_of_ones_own_may_have_lists() -> None:
    """They are kept as tuples, since what is said of a judge is read once."""
    own = Entry(name="salt", asks="Is it salty?", needs=["response"], tags=["spice"])  # type: ignore[arg-type]
    assert find([own], text="spice") == [own]


def test_an_unknown_name_is_answered_with_judges_of_that_meaning() -> None:
    """By the words in it, where no name is spelt nearly the same."""
    with pytest.raises(ConfigurationError, match=r"'coherence'; did you mean fluency, "):
        load("coherence")
    with pytest.raises(ConfigurationError, match=r"did you mean hallucination, "):
        load("my bot lies")


def test_what_is_named_like_the_word_comes_first() -> None:
    """Names before questions and tags, and these before synonyms."""
    assert names_found("--find", "hallucination")[0] == "hallucination"
    assert names_found("--find", "tone")[0] == "tone"
    assert names_found("--find", "privacy")[0] == "pii_leakage"


def test_misspelt_words_find_what_they_mean() -> None:
    """Where no judge knows a word, the one spelt most like it is looked for."""
    for misspelt, judge in (("halucinated", "hallucination"), ("toxc", "harm"), ("gramatical erors", "fluency")):
        assert judge in names_found("--find", misspelt)[:3], misspelt


def test_several_words_may_be_given_in_any_way() -> None:
    """In quotes, by repeating the option, or one after the other; a word that no judge has counts for nothing."""
    ways = (["--find", "json format"], ["--find", "json", "--find", "format"], ["--find", "json", "format"])
    assert len({tuple(names_found(*way)) for way in ways}) == 1
    assert names_found("--find", "json xyzzy") == names_found("--find", "json")


def test_judges_are_found_by_the_fields_one_has() -> None:
    """All that need no more than these, question and answer; those that use most of them first."""
    for fields, own in (
        ("contexts,reference", {"user_input", "response", "retrieved_contexts", "reference"}),
        ("retrieved_contexts, ground_truth", {"user_input", "response", "retrieved_contexts", "reference"}),
        ("", {"user_input", "response"}),
        ("rival", {"user_input", "response", "rival"}),
        ("tools,conversation", {"user_input", "response", "trajectory"}),
    ):
        usable = [
            entry.name
            for entry in catalogue()
            if all(any(field in own for field in need.split(" or ")) for need in entry.needs)
        ]
        assert sorted(names_found("--needs", fields)) == usable
    both = {"retrieved_contexts", "reference"}
    used = [
        sum(bool(both & set(need.split(" or "))) for need in match["needs"])  # of what `or` joins, one is used
        for match in found("--needs", "contexts,reference")
    ]
    assert used == sorted(used, reverse=True)
    assert set(used) == {0, 1, 2}
    assert names_found("--needs", "contexts", "--find", "hallucination")[0] == "hallucination"


def test_judges_are_found_by_what_they_judge() -> None:
    """The answer, the retriever, the agent or the conversation."""
    for subject in ("answer", "retriever", "agent", "conversation"):
        assert {match["subject"] for match in found("--subject", subject)} == {subject}


@for_every(
    "arguments, told",
    [
        (["--find", "poetry"], "no judge has 'poetry' in its names, its question, its needs or its tags; `refine"),
        (["--find", "?!"], "no judge has '?!' in its names, its question, its needs or its tags; `refine"),
        (["--find", ""], "no judge has '' in its names, its question, its needs or its tags; `refine"),
        (["--needs", "contextes"], "no sample has a field 'contextes'; did you mean 'contexts'?"),
        (["--subject", "bot"], "subject is 'answer', 'retriever', 'agent' or 'conversation', not 'bot'"),
        (
            ["--subject", "agent", "--find", "poetry"],
            "'poetry' in its names, its question, its needs or its tags and",
        ),
        (["poetry"], "there is no judge 'poetry'"),
        (["hallucinations"], "did you mean hallucination?; `refine judges --find hallucinations` finds "),
    ],
)
def test_a_search_that_finds_nothing_says_so(arguments: list[str], told: str) -> None:
    """One line on stderr, and nothing on stdout."""
    result = refine(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert told in line


def test_json_has_all_that_is_known() -> None:
    """Of each judge its entry, whether it can stand in the loop, a line that loads it, and its settings."""
    (mrr,) = [match for match in found() if match["name"] == "mrr"]
    assert mrr == json.loads(refine("reciprocal_rank", "--json").stdout)
    assert mrr["needs"] == ["retrieved_context_ids", "reference_context_ids"]
    assert (mrr["calls"], mrr["subject"], mrr["in_loop"]) == ("0", "retriever", "no")
    assert (mrr["example"], mrr["tags"][0]) == ('judges.load("mrr", k=5)', "ranking")
    assert [setting["name"] for setting in mrr["settings"]][:2] == ["metric", "k"]
    known = {"name", "type", "default", "required", "meaning", "example", "shared", "holds_expressions"}
    assert set(mrr["settings"][1]) == known
    assert len(found()) == len(catalogue())


@for_every("columns", [NARROW, WIDE, 40, 120])
def test_the_list_fits_the_terminal(columns: int) -> None:
    """No line is longer, no name is cut, and each judge shows what it asks, needs and costs."""
    for arguments in ([], ["ragas.context_precision"], ["rubric"]):
        shown = refine(*arguments, columns=columns).stdout
        assert [line for line in shown.splitlines() if len(line) > columns] == []
        assert "…" not in shown
    listed = refine(columns=columns).stdout
    missing = [entry.name for entry in catalogue() if entry.name not in listed and len(entry.name) < columns]
    assert missing == []
    flowed = " ".join(listed.split())
    assert "retrieved_context_ids" in flowed
    assert "reference_context_ids" in flowed
    assert ("needs response; calls 0" in flowed) is (columns < 120)
    assert f"{len(catalogue())} judges" in flowed


def test_without_a_terminal_the_list_is_as_wide_as_usual() -> None:
    """Eighty columns, where nobody says how wide it is."""
    assert max(map(len, refine().stdout.splitlines())) <= NARROW


def test_a_judge_is_told_of_with_all_its_settings() -> None:
    """Own ones before shared ones, each with its type, default, meaning and an example; and a line to load it."""
    shown = " ".join(refine("rubric", columns=WIDE).stdout.split())
    assert "criteria str; required What to judge by. example: criteria=" in shown
    assert "gate bool; default True" in shown
    assert shown.index("criteria str") < shown.index("temperature float")
    assert 'example judges.load("rubric", model="openai:gpt-5-mini", criteria=' in shown
    assert "in the loop yes" in shown
