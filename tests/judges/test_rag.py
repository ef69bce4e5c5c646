"""The surface of Ascend's RAGEvaluator: twelve metrics by name over columns, with no run lost."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from judges import ConfigurationError, Sample, load
from judges.rag import METRICS, RAGEvaluator, RAGResult
from judges.testing import ScriptedEmbeddings, ScriptedModel
from tests.catalogue.cases import EMBEDDINGS
from tests.catalogue.filling import FillingModel
from tests.judges.test_prompts import german
from tests.kit import Way, both_ways, shown

DATASET: dict[str, list[Any]] = {
    "user_input": ["Where is the tower?", "When was it built?"],
    "response": ["It is in Paris.", "It was built in 1889."],
    "retrieved_contexts": [["The tower is in Paris.", "Paris is in France."], ["It was built in 1889."]],
    "reference": ["The tower is in Paris.", "In 1889."],
}
SOME = ["faithfulness", "answer_relevancy", "answer_similarity"]
KEYS = {"answer_similarity": "semantic_similarity"}

pytestmark = pytest.mark.filterwarnings("error")


def evaluator(model: object = None, embeddings: object = EMBEDDINGS) -> RAGEvaluator:
    """Make an evaluator whose model finds everything good."""
    return RAGEvaluator(model or FillingModel(), embeddings)


async def evaluated(way: Way, metrics: Any = SOME, dataset: Any = DATASET, **settings: Any) -> RAGResult:
    """Evaluate, sync or async."""
    made = settings.pop("evaluator", None) or evaluator()
    if way == "sync":
        return made.evaluate(metrics, dataset, **settings)
    return await made.aevaluate(metrics, dataset, **settings)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_the_values_of_its_judge(name: str) -> None:
    """A number for each row on the reference's scale, under the reference's name; its verdicts are kept."""
    given = {"model": FillingModel(), "embeddings": EMBEDDINGS}
    judge = load(name, **{asked: given[asked] for asked in METRICS[name]})
    rows = [dict(zip(DATASET, cells, strict=True)) for cells in zip(*DATASET.values(), strict=True)]
    result = evaluator().evaluate([name], DATASET)
    assert result == {KEYS.get(name, name): [float(judge(row).value or 0) for row in rows]}
    assert all(type(one) is float and math.isfinite(one) for one in result[name])
    assert [one.judge for one in result.verdicts[name]] == [KEYS.get(name, name)] * 2
    assert result.unscored == {}


@both_ways
async def test_the_result_is_a_plain_mapping_with_more(way: Way) -> None:
    """It is a dict as the reference gives it; the evaluation behind it is there too."""
    result = await evaluated(way)
    assert json.loads(json.dumps(result)) == result == {KEYS.get(name, name): [1.0, 1.0] for name in SOME}
    assert [row.index for row in result.evaluation.rows] == [0, 1]
    assert result.evaluation.summary["faithfulness"].mean == 1


@both_ways
async def test_a_cell_that_fails_does_not_lose_the_run(way: Way) -> None:
    """It is None, and the verdict says why; all other cells keep their values."""
    dataset = {**DATASET, "response": ["It is in Paris.", " "]}
    result = await evaluated(way, ["faithfulness", "answer_similarity"], dataset)
    assert result == {"faithfulness": [1.0, None], "semantic_similarity": [1.0, None]}
    assert result.unscored == {"faithfulness": {1: "no_response"}, "semantic_similarity": {1: "no_response"}}


@both_ways
async def test_a_model_that_fails_does_not_lose_the_run(way: Way) -> None:
    """Not even one that fails throughout."""
    result = await evaluated(
        way, evaluator=RAGEvaluator(ScriptedModel([ValueError()], cycle=True), EMBEDDINGS), metrics=SOME
    )
    assert result["answer_similarity"] == [1.0, 1.0]
    assert result["faithfulness"] == [None, None]
    assert result.unscored["faithfulness"] == {0: "judge_failed", 1: "judge_failed"}


def long(length: int) -> list[str]:
    """Make a column of one long text."""
    return ["x" * length]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"metrics": []}, "metrics is a list of 1 to 14 names, not []"),
    ({"metrics": "faithfulness"}, "metrics is a list of 1 to 14 names, not 'faithfulness'"),
    ({"metrics": ["faithfulness"] * 15}, "metrics is a list of 1 to 14 names"),
    ({"metrics": [3]}, "a metric's name is a text of 1 to 50 characters, not 3"),
    ({"metrics": ["x" * 51]}, "a metric's name is a text of 1 to 50 characters"),
    ({"metrics": ["bleu"]}, "there is no metric 'bleu'; known are answer_correctness, answer_relevancy"),
    ({"metrics": ["faithfulness", "faithfulness"]}, "the metric 'faithfulness' is asked for twice"),
    ({"dataset": {}}, "dataset maps 1 to 4 columns to lists: user_input, response, retrieved_contexts, reference"),
    ({"dataset": [DATASET]}, "dataset maps 1 to 4 columns"),
    ({"dataset": {**DATASET, "x": []}}, "dataset maps 1 to 4 columns"),
    ({"dataset": {"colour": ["red"]}}, "there is no column 'colour'; known are user_input, response"),
    ({"dataset": {"metadata": [{}]}}, "there is no column 'metadata'"),
    ({"dataset": {"response": ["a"], "answer": ["a"]}}, "two columns of the dataset are the response"),
    ({"dataset": {"response": "text"}}, "the column 'response' is a list of 1 to 128 rows"),
    ({"dataset": {"response": []}}, "the column 'response' is a list of 1 to 128 rows"),
    ({"dataset": {"response": ["a"] * 129}}, "the column 'response' is a list of 1 to 128 rows"),
    (
        {"dataset": {**DATASET, "response": ["a"]}},
        "the columns of a dataset are equally long; user_input has 2, response has 1",
    ),
    ({"dataset": {"response": [3]}}, "response, index 0: a text is wanted, not a int"),
    ({"dataset": {"response": long(1_000_001)}}, "at most 1,000,000 characters, this one 1,000,001"),
    ({"dataset": {"contexts": ["text"]}}, "contexts, index 0: a list of at most 128 texts is wanted"),
    ({"dataset": {"contexts": [["a"] * 129]}}, "contexts, index 0: a list of at most 128 texts is wanted"),
    ({"dataset": {"contexts": [["a", None]]}}, "contexts, index 0, context 2: a text is wanted, not a NoneType"),
    ({"dataset": {"contexts": [["a", "x" * 1_000_001]]}}, "contexts, index 0, context 2: a text has at most"),
    (
        {"dataset": {"response": ["a"], "question": ["q"]}},
        "faithfulness needs the column 'retrieved_contexts'; the dataset has response, user_input",
    ),
    ({"language": 3}, "language is 'chinese', 'english', a code or None, not 3"),
    ({"language": "de"}, "has no de/faithfulness.toml"),
    ({"language": "klingon"}, "has no klingon/faithfulness.toml"),
    ({"prompts_path": "/no/such/folder"}, "prompts_path is a folder laid out like zh/faithfulness.toml"),
    (
        {"language": "de", "adapt": True},
        "adapt=True needs prompts_path=..., the folder that prompts are",
    ),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
async def test_what_is_wrong_is_reported_before_anything_is_spent(given: dict[str, Any], message: str) -> None:
    """One line says what was given and what is wanted, and the model was not asked."""
    model = FillingModel()
    with pytest.raises(ConfigurationError, match=re.escape(message)) as caught:
        await evaluated("sync", **{"metrics": SOME, "evaluator": evaluator(model), **given})
    assert "\n" not in str(caught.value)
    assert model.prompts == []


def test_what_is_no_model_is_refused() -> None:
    """At once, when the evaluator is made; a metric that compares vectors says that it needs them."""
    with pytest.raises(ConfigurationError, match="a judge needs a model"):
        RAGEvaluator(None)
    with pytest.raises(ConfigurationError, match="texts are embedded by"):
        RAGEvaluator(FillingModel(), "vectors")
    for name in (name for name, asked in METRICS.items() if "embeddings" in asked):
        with pytest.raises(ConfigurationError, match=f"{name} compares vectors; give RAGEvaluator"):
            evaluator(embeddings=None).evaluate([name], DATASET)


def test_the_limits_themselves_are_kept() -> None:
    """128 rows, 128 contexts and a million characters are allowed."""
    dataset: dict[str, list[Any]] = {
        "question": ["q"] * 128,
        "answer": ["x" * 1_000_000, *["a"] * 127],
        "contexts": [["c"] * 128] * 128,
    }
    result = evaluator(embeddings=ScriptedEmbeddings(lambda _: [1.0])).evaluate(["faithfulness"], dataset)
    assert result["faithfulness"] == [1.0] * 128


@pytest.mark.parametrize(
    ("contexts", "is_told"),
    [
        (["The tower is tall.It is in Paris."], True),
        (["Башня высокая.Она в Париже."], True),
        (["x" * 2_001], True),
        (["x" * 2_001, "b"], False),
        (["One. Two."], False),
        (["Version 3.5 of U.S. law"], False),
        (["巴黎。铁塔。"], False),
    ],
)
def test_contexts_merged_by_a_lost_comma_are_reported(contexts: list[str], *, is_told: bool) -> None:
    """A row with exactly one context that looks like several is warned of, by its number, and no other."""
    dataset: dict[str, list[Any]] = {**DATASET, "retrieved_contexts": [["a", "b"], contexts]}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        evaluator().evaluate(["faithfulness"], dataset)
    message = r"retrieved_contexts, index 1: there is one context, .* put commas between"
    assert [bool(re.match(message, str(one.message))) for one in told] == [True] * is_told


def systems(model: ScriptedModel) -> set[str]:
    """Give the first words of all instructions."""
    return {messages[0].text[:12] for messages in model.prompts}


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("chinese", "你负责"),
        ("zh", "你负责"),
        ("english", "You "),
        ("en", "You "),
        ("ru", "Ты "),
        (None, "You "),
    ],
)
@both_ways
async def test_the_language_is_that_of_the_prompts(way: Way, language: str | None, message: str) -> None:
    """By name or code; None takes that of the questions. One run never changes another's."""
    model = FillingModel()
    await evaluated(way, ["faithfulness"], language=language, evaluator=evaluator(model))
    assert all(one.startswith(message) for one in systems(model))
    other = FillingModel()
    await evaluated(way, ["faithfulness"], evaluator=evaluator(other))
    assert all(one.startswith("You ") for one in systems(other))


@both_ways
async def test_prompts_of_the_user_come_first(way: Way, tmp_path: Path) -> None:
    """A file in `prompts_path` counts; what is not there comes from the package."""
    (tmp_path / "zh").mkdir()
    (tmp_path / "zh/claims.toml").write_text('task = "拆分。"\nreminder = "拆分。"\n', encoding="utf-8")
    model = FillingModel()
    await evaluated(way, ["faithfulness"], language="chinese", prompts_path=tmp_path, evaluator=evaluator(model))
    prompts = systems(model)
    assert any(one.startswith("拆分。") for one in prompts)
    assert any(one.startswith("你负责对照文档") for one in prompts)


class Polyglot(FillingModel):
    """A model that also translates."""

    def _reply(self, messages: list[BaseMessage], settings: dict[str, Any]) -> Any:
        data: Mapping[str, Any] = shown(messages)
        if "texts" not in data or "language" not in data:
            return super()._reply(messages, settings)
        self.lines.calls.append((list(messages), settings))
        items = [{"number": one["number"], "text": german(one["text"])} for one in data["texts"]]
        return ScriptedModel([{"items": items}])._reply(messages, settings)


@both_ways
async def test_a_language_without_prompts_is_adapted_to_where_allowed(way: Way, tmp_path: Path) -> None:
    """The model translates once, into the folder; a second run takes what is there."""
    folder, model = tmp_path / "new", Polyglot()
    given = {"language": "de", "prompts_path": folder, "adapt": True, "evaluator": evaluator(model)}
    result = await evaluated(way, SOME, **given)
    assert result == {KEYS.get(name, name): [1.0, 1.0] for name in SOME}
    names = {one.stem for one in (folder / "de").iterdir()}
    assert names == {
        "answer_relevancy",
        "claims",
        "faithfulness",
        "reverse_questions",
        "semantic_similarity",
        "support",
    }
    assert systems(model) >= {"Ü YOU BREAK ", "Ü YOU CHECK "}
    spent = len(model.prompts)
    await evaluated(way, SOME, **given)
    assert len(model.prompts) - spent == spent - len(names)
    assert await evaluated(way, SOME, **{**given, "adapt": False}) == result


@both_ways
async def test_a_missing_column_is_reported_before_prompts_are_translated(way: Way, tmp_path: Path) -> None:
    """Nothing is paid for a run that cannot be."""
    model = Polyglot()
    with pytest.raises(ConfigurationError, match="needs the column"):
        await evaluated(
            way,
            ["faithfulness"],
            {"response": ["a"]},
            language="de",
            adapt=True,
            prompts_path=tmp_path,
            evaluator=evaluator(model),
        )
    assert model.prompts == []


def test_a_folder_beyond_the_limits_is_refused(tmp_path: Path) -> None:
    """At most 512 files of less than 4 MB each, in at most 64 folders below each other."""

    def check(refused: str = "") -> None:
        if not refused:
            evaluator().evaluate(["faithfulness"], DATASET, prompts_path=tmp_path)
            return
        with pytest.raises(ConfigurationError, match=re.escape(refused)):
            evaluator().evaluate(["faithfulness"], DATASET, prompts_path=tmp_path)

    large, many, deepest = tmp_path / "large.toml", tmp_path / "many", tmp_path.joinpath(*["d"] * 64)
    large.write_bytes(b"#" * (4 * 2**20))
    check("prompts_path: large.toml has 4 MB or more")
    large.write_bytes(b"#" * (4 * 2**20 - 1))
    many.mkdir()
    for number in range(512):
        (many / f"{number}.toml").touch()
    check("prompts_path holds more than 512 files")
    large.unlink()
    deepest.mkdir(parents=True)
    check()
    (deepest / "e").mkdir()
    check("nested more than 64 deep")


@both_ways
async def test_progress_is_shown_where_wanted(way: Way, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr alone, and only where asked for."""
    await evaluated(way, ["faithfulness"])
    assert capsys.readouterr() == ("", "")
    await evaluated(way, ["faithfulness"], show_progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "judging" in err


async def test_progress_is_reported_in_lines_without_rich(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is not needed."""
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setattr("judges.rag.find_spec", lambda name: None)
    await evaluated("sync", ["faithfulness"], show_progress=True)
    assert capsys.readouterr() == ("", "judged 1 of 2\njudged 2 of 2\n")


def test_names_of_other_dialects_are_columns_too() -> None:
    """`question`, `answer`, `contexts` and `ground_truth` are what older datasets call them."""
    renamed = dict(zip(("question", "answer", "contexts", "ground_truth"), DATASET.values(), strict=True))
    assert evaluator().evaluate(SOME, renamed) == evaluator().evaluate(SOME, DATASET)
    assert isinstance(evaluator().evaluate(SOME, renamed).evaluation.rows[0].sample, Sample)
