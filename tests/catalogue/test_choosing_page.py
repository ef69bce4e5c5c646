"""The pages on judges tell what the catalogue knows: how to choose, the reference, and whom compat follows."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import judges
from judges import BadSample, Entry, Sample, catalogue, load
from judges.catalogue.reference_page import PAGE, _page
from judges.catalogue.registry import _entry_called
from judges.sample import FIELD_NAMES, canonical_field
from judges.settings import translate_settings
from judges.testing import ScriptedEmbeddings, ScriptedModel
from tests.kit import Shown, items, replying
from tests.laws import for_every

CHOOSING = (Path(__file__).resolve().parents[2] / "docs/choosing.md").read_text(encoding="utf-8")


def rows(head: str) -> list[list[str]]:
    """Return the cells of the table with this head."""
    table = CHOOSING.partition(f"{head}\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()[1:]]


def test_the_judges_to_begin_with_are_described_as_the_catalogue_does() -> None:
    """What they need, what they cost, and whether they can stand in the loop; three for each beginning."""
    listed = rows("| you have | judge | needs | calls | loop |")
    for _, name, needs, calls, loop in listed:
        entry = _entry_called(name.strip("`"))
        assert name == f"`{entry.name}`"
        assert needs == ", ".join("`{}`".format(need.replace(" or ", "` or `")) for need in entry.needs)
        assert (calls, loop) == (entry.calls, entry.in_loop), name
    assert [index for index, row in enumerate(listed) if row[0]] == list(range(0, len(listed), 3))
    assert [row[0] for row in listed[::3]][:5] == [
        "question and answer",
        "contexts",
        "reference",
        "tools",
        "conversation",
    ]


def test_the_four_of_groundedness_are_told_apart() -> None:
    """Each costs what the catalogue says, and passes where the page says."""
    listed = rows("| judge | unit | passes | calls | take it |")
    model = ScriptedModel([])
    marks = {name.strip("`"): calls for name, _, _, calls, _ in listed}
    assert {name: _entry_called(name).calls for name in marks} == marks
    passes = {name: judges.load(name, model).threshold for name in marks}  # type: ignore[attr-defined]  # of a Metric
    assert list(passes.values()) == [0.5, 1.0, 1.0, 0.5]
    assert set(marks) <= {
        entry.name for entry in judges.catalogue() if "hallucination" in (entry.name, *entry.tags)
    }


def test_every_field_is_listed_with_all_its_names() -> None:
    """In the order of the class, none left out."""
    listed = rows("| field | also called | holds |")
    assert [row[0].strip("`") for row in listed] == list(Sample.model_fields)
    for field, names, _ in listed:
        known = {name for name in FIELD_NAMES if canonical_field(name) == field.strip("`")} - {field.strip("`")}
        assert set(re.findall(r"`(\w+)`", names)) == known


def test_names_of_settings_elsewhere_stand_for_those_here() -> None:
    """Each name of the table becomes the one beside it, for a judge that has it; other settings stay."""
    for there, here in rows("| there | here |"):
        name, _, value = here.strip("`").partition("=")
        for rival, given in re.findall(r"`(\w+)(=True)?`", there):
            settings = translate_settings({rival: True if given else "x", "other": 1}, {name, "other"})
            assert settings == {name: float(value) if value else "x", "other": 1}


def test_what_is_wrong_is_told_in_these_words() -> None:
    """Each line of the last table, run as it stands."""
    listed = rows("| what is wrong | what is said |")
    for code, told in listed:
        with pytest.raises((judges.ConfigurationError, AttributeError)) as caught:
            eval(code.strip("`"), {"judges": judges, "chat": ScriptedModel([])})  # noqa: S307 - the page is ours
        assert told.strip("`") in str(caught.value)
        assert "\n" not in str(caught.value)
    assert listed


ROOT = Path(__file__).resolve().parents[2]
every = for_every("entry", catalogue())


def test_the_page_is_the_one_generated() -> None:
    """Whoever changes an entry writes the page anew, with `python -m judges.catalogue.reference_page`."""
    assert (ROOT / PAGE).read_text(encoding="utf-8") == _page()


@every
def test_an_entry_is_complete(entry: Entry) -> None:
    """It asks a question, needs fields that there are, has a formula for calls, and a source where it has one."""
    assert re.fullmatch(r"[A-Z].*[^ ?]\?", entry.asks)
    assert entry.needs
    assert all(set(need.split(" or ")) & set(Sample.model_fields) for need in entry.needs)
    assert re.fullmatch(r"\d*[nkt]?( \+ \d*[nkt])*([,;] .+)?", entry.calls)
    assert entry.scale
    assert entry.source or "." not in entry.name


@every
def test_every_judge_is_on_the_page(entry: Entry) -> None:
    """Its name stands at the beginning of a row, and the aliases behind it."""
    row = next(line for line in _page().splitlines() if line.startswith(f"| **`{entry.name}`**"))
    assert all(f"`{alias}`" in row for alias in entry.aliases)
    assert entry.asks in row


def test_a_row_is_a_row_whatever_the_texts() -> None:
    """Bars and line ends in a text break no table."""
    told = _page([Entry(name="x.y", asks="a | b?", needs=("response",), differs="one\ntwo", better="low")])
    (row,) = (line for line in told.splitlines() if "x.y" in line)
    assert "a \\| b?" in row
    assert "one two" in row
    assert "0 to 1; low is good" in row
    assert "## x\n" in told


def test_the_command_prints_the_page(tmp_path: Path) -> None:
    """Without a file it prints, with one it writes, and both give the same."""
    run = [sys.executable, "-m", "judges.catalogue.reference_page"]
    printed = subprocess.run(run, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    subprocess.run([*run, str(tmp_path / "docs/page.md")], cwd=ROOT, check=True)
    assert printed == (tmp_path / "docs/page.md").read_text(encoding="utf-8") == _page()


COMPAT = (Path(__file__).resolve().parents[2] / "docs/compat.md").read_text(encoding="utf-8")
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
    lines = [line for line in COMPAT.splitlines() if line.startswith(f"| `{names}` | {case} | ")]
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


@for_every("cases, column", [(GENERATIONS, 4), (DIFFERENCES, 3)])
def test_each_row_says_what_compat_gives(cases: list[Case], column: int) -> None:
    """Every case of both tables, run; and every row of the page but one is among the cases."""
    for names, case, settings, row, reply, expected in cases:
        cell = row_of(names, case)[column]
        for name in names.split("`, `"):
            assert outcome(name, settings, row, reply) == about(expected), (name, case)
        assert cell.removesuffix(", unasked") == shown(expected), case


def test_no_row_is_left_out() -> None:
    """The cases above are those of the page; the one with embeddings has a test of its own."""
    rows = [line for line in COMPAT.splitlines() if line.startswith("| `")]
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
