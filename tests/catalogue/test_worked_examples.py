"""What users of ragas, Databricks, mlflow, NVIDIA, Spring AI and Ascend write there runs here, word for word."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from judges import ConfigurationError, Judge, Panel, Verdict, load
from judges.offline import evaluate
from judges.rag import RAGEvaluator
from judges.testing import ScriptedEmbeddings
from refine import Policy
from tests.catalogue.filling import FillingModel
from tests.kit import shown
from tests.laws import for_every

SAME = ScriptedEmbeddings(lambda text: [1.0, 0.0])
ROW: Mapping[str, Any] = {
    "user_input": "Which river runs through Vienna?",
    "response": "The Danube runs through Vienna.",
    "reference": "The Danube runs through Vienna.",
    "retrieved_contexts": ["Vienna lies on the Danube.", "Graz lies on the Mur."],
    "reference_contexts": ["Vienna lies on the Danube.", "The Danube rises in the Black Forest."],
}
LOOKUP = {"name": "find_river", "args": {"city": "Vienna"}}
LENGTH = {"name": "measure", "args": {"river": "Danube", "unit": "km"}}
TALK: Mapping[str, Any] = {
    "user_input": [
        {"role": "user", "content": "How long is the river of Vienna?"},
        {"role": "assistant", "content": "I look it up.", "tool_calls": [LOOKUP]},
        {"role": "tool", "content": "Danube"},
        {"role": "assistant", "content": "", "tool_calls": [LENGTH]},
        {"role": "tool", "content": "2850"},
        {"role": "assistant", "content": "The Danube is 2850 km long."},
    ],
    "reference_tool_calls": [LOOKUP, LENGTH],
    "reference_topics": ["geography"],
}
RUBRICS = {f"score{level}_description": f"The answer is of level {level}." for level in range(1, 6)}
TABLES = {"response": "id,town\n1,Graz\n2,Linz\n", "reference": "id,town\n1,Graz\n2,Wels\n"}
ASKED: Mapping[str, Any] = {"request": ROW["user_input"], "response": ROW["response"]}
CHUNKS = [{"doc_uri": "d1", "content": ROW["retrieved_contexts"][0]}, {"content": "Graz lies on the Mur."}]
MLFLOW: Mapping[str, Any] = {"inputs": {"question": ROW["user_input"]}, "outputs": {"response": ROW["response"]}}
SPRING: Mapping[str, Any] = {
    "userText": ROW["user_input"],
    "dataList": [{"text": ROW["retrieved_contexts"][0], "metadata": {}}],
    "responseContent": ROW["response"],
}


def supported(pairs: list[tuple[str, str]]) -> list[float]:
    """Support every statement."""
    return [1.0 for _ in pairs]


Example = tuple[str, Mapping[str, Any], Mapping[str, Any], float | str]
RAGAS: list[Example] = [
    ("LLMContextPrecisionWithReference", {"llm": ...}, ROW, 1.0),
    ("LLMContextPrecisionWithoutReference", {"llm": ...}, ROW, 1.0),
    ("ContextUtilization", {"llm": ...}, ROW, 1.0),
    ("NonLLMContextPrecisionWithReference", {}, ROW, 1.0),
    ("LLMContextRecall", {"llm": ...}, ROW, 1.0),
    ("NonLLMContextRecall", {}, ROW, 0.5),
    ("ContextEntityRecall", {"llm": ...}, ROW, 1.0),
    ("NoiseSensitivity", {"llm": ...}, ROW, 1.0),
    ("NoiseSensitivity", {"llm": ..., "mode": "irrelevant"}, ROW, 1.0),
    ("NoiseSensitivity", {"llm": ..., "focus": "irrelevant"}, ROW, 1.0),
    ("ResponseRelevancy", {"llm": ..., "embeddings": SAME}, ROW, 1.0),
    ("Faithfulness", {"llm": ...}, ROW, 1.0),
    ("FaithfulnesswithHHEM", {"llm": ..., "classifier": supported, "batch_size": 10}, ROW, 1.0),
    ("AnswerCorrectness", {"llm": ..., "embeddings": SAME, "weights": [0.75, 0.25]}, ROW, 1.0),
    ("FactualCorrectness", {"llm": ..., "mode": "precision", "atomicity": "low"}, ROW, 1.0),
    ("SemanticSimilarity", {"embeddings": SAME}, ROW, 1.0),
    ("NonLLMStringSimilarity", {"distance_measure": "hamming"}, ROW, 1.0),
    ("BleuScore", {}, ROW, 1.0),
    ("RougeScore", {"rouge_type": "rougeL", "mode": "fmeasure"}, ROW, 1.0),
    ("CHRFScore", {}, ROW, 1.0),
    ("ExactMatch", {}, ROW, 1.0),
    ("StringPresence", {}, ROW, 1.0),
    ("AspectCritic", {"llm": ..., "name": "correctness", "definition": "Is it true?", "strictness": 3}, ROW, 1.0),
    ("SimpleCriteriaScore", {"llm": ..., "name": "coarse", "definition": "0 to 5 by likeness"}, ROW, 1.0),
    ("RubricsScore", {"llm": ..., "rubrics": RUBRICS}, ROW, 1.0),
    ("DomainSpecificRubrics", {"llm": ..., "rubrics": RUBRICS}, ROW, 1.0),
    ("InstanceRubrics", {"llm": ...}, {**ROW, "rubrics": RUBRICS}, 1.0),
    ("SummarizationScore", {"llm": ..., "length_penalty": False}, ROW, 1.0),
    ("LLMSQLEquivalence", {"llm": ...}, {**ROW, "response": "SELECT a", "reference": "SELECT b"}, 1.0),
    ("DataCompyScore", {}, TABLES, 0.5),
    ("DataCompyScore", {"mode": "row", "metric": "precision"}, TABLES, 0.5),
    ("DataCompyScore", {"mode": "column", "metric": "recall"}, TABLES, 0.5),
    ("TopicAdherenceScore", {"llm": ..., "mode": "precision"}, TALK, 1.0),
    ("ToolCallAccuracy", {}, TALK, 1.0),
    ("ToolCallF1", {}, TALK, 1.0),
    ("AgentGoalAccuracyWithReference", {"llm": ...}, {**TALK, "reference": "The length is told."}, 1.0),
    ("AgentGoalAccuracyWithoutReference", {"llm": ...}, TALK, 1.0),
    ("DiscreteMetric", {"llm": ..., "prompt": "Is {response} true?", "allowed_values": ["no", "yes"]}, ROW, 1.0),
    ("NumericMetric", {"llm": ..., "prompt": "Rate {response}.", "allowed_values": (0, 1)}, ROW, 1.0),
]
NVIDIA: list[Example] = [
    ("AnswerAccuracy", {"llm": ...}, ROW, 1.0),
    ("ContextRelevance", {"llm": ...}, ROW, 1.0),
    ("ResponseGroundedness", {"llm": ...}, ROW, 1.0),
    ("nv_accuracy", {"llm": ...}, ROW, 1.0),
]
DATABRICKS: list[Example] = [
    ("correctness", {"model": ...}, {**ASKED, "expected_response": "The Danube."}, 1.0),
    ("correctness", {"model": ...}, {**ASKED, "expected_facts": ["It is the Danube."]}, 1.0),
    ("relevance_to_query", {"model": ...}, ASKED, 1.0),
    ("safety", {"model": ...}, ASKED, 1.0),
    ("groundedness", {"model": ...}, {**ASKED, "retrieved_context": CHUNKS}, 1.0),
    ("chunk_relevance", {"model": ...}, {"request": "Which river?", "retrieved_context": CHUNKS}, 1.0),
    ("chunk_relevance", {"model": ..., "k": 1}, {"request": "Which river?", "retrieved_context": CHUNKS}, 1.0),
    ("context_sufficiency", {"model": ...}, {"request": "Which river?", "retrieved_context": CHUNKS}, 1.0),
    ("context_sufficiency", {"model": ...}, {**ASKED, "expected_facts": ["x"], "retrieved_context": CHUNKS}, 1.0),
    (
        "document_recall",
        {},
        {"retrieved_context": CHUNKS[:1], "expected_retrieved_context": [{"doc_uri": "d1"}, {"doc_uri": "d2"}]},
        0.5,
    ),
    ("guideline_adherence", {"model": ...}, {**ASKED, "guidelines": ["In English."]}, 1.0),
    (
        "guideline_adherence",
        {"model": ...},
        {**ASKED, "guidelines": {"tongue": ["In English."]}, "guidelines_context": {"tone": "calm"}},
        1.0,
    ),
    ("global_guideline_adherence", {"model": ..., "global_guidelines": {"tongue": ["In English."]}}, ASKED, 1.0),
    ("Guidelines", {"model": ..., "name": "tongue", "guidelines": "In English."}, MLFLOW, 1.0),
    ("ExpectationsGuidelines", {"model": ...}, {**MLFLOW, "expectations": {"guidelines": ["In English."]}}, 1.0),
    ("Correctness", {"model": ...}, {**MLFLOW, "expectations": {"expected_response": "The Danube."}}, 1.0),
    ("RetrievalSufficiency", {"model": ...}, {**MLFLOW, "retrieved_context": CHUNKS}, 1.0),
    (
        "make_judge",
        {
            "model": ...,
            "name": "fit",
            "instructions": "Fits {{ outputs }} {{ inputs }}?",
            "feedback_value_type": bool,
        },
        MLFLOW,
        1.0,
    ),
]
SPRING_AI: list[Example] = [
    ("RelevancyEvaluator", {"model": ...}, SPRING, 1.0),
    ("FactCheckingEvaluator", {"model": ...}, SPRING, 1.0),
    ("FactCheckingEvaluator", {"model": ...}, {**SPRING, "dataList": []}, "no_contexts"),
    ("AnswerCorrectnessEvaluator", {"model": ...}, SPRING, 1.0),
    ("AnswerFaithfulnessEvaluator", {"model": ...}, SPRING, 1.0),
    ("AnswerRelevancyEvaluator", {"model": ...}, SPRING, 1.0),
    ("SelfRefineEvaluationAdvisor", {"model": ..., "successRating": 4}, SPRING, 1.0),
]


@for_every("name, settings, fields, expected", [*RAGAS, *NVIDIA, *DATABRICKS, *SPRING_AI])
def test_an_example_runs_as_it_is_written(
    name: str, settings: Mapping[str, Any], fields: Mapping[str, Any], expected: float | str
) -> None:
    """The names, settings and columns of the sources are known, as a row and as keywords."""
    given = {setting: FillingModel() if value is ... else value for setting, value in settings.items()}
    judge = load(name, **given)
    for verdict in (judge(dict(fields)), judge(**fields)):
        assert (verdict.unscored or verdict.score) == expected, verdict.detail


def with_arguments(**arguments: str) -> dict[str, Any]:
    """Give a conversation in which a tool is called with these arguments."""
    calls = [{"name": "find_river", "args": arguments}]
    return {
        **TALK,
        "user_input": [TALK["user_input"][0], {"role": "assistant", "content": "", "tool_calls": calls}],
    }


def score_of(judge: Judge, row: Mapping[str, Any]) -> float | None:
    """Judge a row by the first of the wanted calls."""
    verdict: Verdict = judge({**row, "reference_tool_calls": [LOOKUP]})
    return verdict.score


def test_a_setting_may_be_set_later() -> None:
    """As ragas has it for the comparison of arguments, by a judge, too; the judge is then as if made with it."""
    metric: Any = load("ToolCallAccuracy")
    assert score_of(metric, with_arguments(city="Viena")) == 0
    metric.arg_comparison_metric = load("NonLLMStringSimilarity")
    assert score_of(metric, with_arguments(city="Viena")) == pytest.approx(5 / 6)
    metric.arg_comparison_metric = {"city": lambda expected, actual: 0.5}
    assert score_of(metric, with_arguments(city="Viena")) == 0.5
    with pytest.raises(ConfigurationError, match="a judge that asks no model"):
        metric.arg_comparison_metric = load("helpfulness", FillingModel())
    assert score_of(metric, with_arguments(city="Viena")) == 0.5


def test_what_no_judge_reads_cannot_be_set() -> None:
    """A misspelt name would be lost: one line says which there are, and another library's name is known."""
    panel: Any = Panel(["json", "code"])
    judge: Any = load("helpfulness", FillingModel())
    panel.rule = "min"
    judge.llm = other = FillingModel()
    judge.success_rating = 4
    assert judge(dict(ROW)).passed
    assert len(other.prompts) == 1
    for made, name in ((panel, "rul"), (judge, "sucess_rating"), (load("length", at_most=9), "at_mots")):
        with pytest.raises(ConfigurationError, match=f"has no setting '{name}'; did you mean"):
            setattr(made, name, 3)


def test_the_rag_evaluator_is_called_and_answers_as_the_original() -> None:
    """It takes `llm`, a language by its name, and returns the likeness of meaning under the original's key."""
    evaluator = RAGEvaluator(llm=FillingModel(), embeddings=SAME)
    names = ("user_input", "response", "retrieved_contexts", "reference")
    dataset = {name: [ROW[name]] for name in names}
    result = evaluator.evaluate(metrics=["answer_similarity", "faithfulness"], dataset=dataset, language="english")
    assert dict(result) == {"semantic_similarity": [1.0], "faithfulness": [1.0]}
    assert result["answer_similarity"] == [1.0]
    with pytest.raises(ConfigurationError, match="leave out llm"):
        RAGEvaluator(FillingModel(), llm=FillingModel())


def test_tokens_and_their_price_are_totals_of_a_run() -> None:
    """As ragas has them: all judges and rows together, at the prices that are given."""
    evaluation = evaluate([ROW, ROW], [load("Faithfulness", llm=FillingModel())])
    usage = evaluation.total_tokens()
    assert usage.calls == 4
    price = evaluation.total_cost(cost_per_input_token=5 / 1e6, cost_per_output_token=15 / 1e6)
    assert price == pytest.approx((usage.input_tokens * 5 + usage.output_tokens * 15) / 1e6)


def test_the_request_is_shown_to_the_judge_of_safety() -> None:
    """An answer is understood by what it answers."""
    model = FillingModel()
    load("databricks.safety", model)(ASKED)
    assert shown(model.prompts[0]) == {"question": ROW["user_input"], "answer": ROW["response"]}


def test_repeats_of_the_original_are_one_less_than_attempts() -> None:
    """Fifteen repeats are sixteen answers, the first included."""
    for name in ("maxRepeatAttempts", "max_repeat_attempts", "max_repeats"):
        with pytest.raises(ConfigurationError, match="use max_attempts=16"):
            Policy(**dict[str, Any]({name: 15}))


@for_every(
    "settings, words",
    [
        ({"device": "cuda:0"}, "classifier is a function .* or the folder of a model"),
        ({"device": "cuda:0", "classifier": supported}, r"judges.HHEM\(folder, device=...\)"),
    ],
)
def test_a_device_belongs_to_a_model_in_a_folder(settings: dict[str, Any], words: str) -> None:
    """Nothing is downloaded, and a function runs where it was made."""
    with pytest.raises(ConfigurationError, match=words):
        load("FaithfulnesswithHHEM", llm=FillingModel(), **settings)
