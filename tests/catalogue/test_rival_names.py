"""Judges load by the names that their like have in other libraries."""

from __future__ import annotations

import pytest

from judges.catalogue.registry import default_registry

RIVALS = {
    "deepeval": {
        "AnswerRelevancyMetric": "ragas.answer_relevancy",
        "FaithfulnessMetric": "ragas.faithfulness",
        "ContextualPrecisionMetric": "ragas.context_precision",
        "ContextualRecallMetric": "ragas.context_recall",
        "ContextualRelevancyMetric": "nvidia.context_relevance",
        "HallucinationMetric": "hallucination",
        "BiasMetric": "bias",
        "ToxicityMetric": "harm",
        "PIILeakageMetric": "pii_leakage",
        "RoleViolationMetric": "mlflow.role_adherence",
        "GEval": "rubric",
        "ToolCorrectnessMetric": "ragas.tool_call_f1",
        "ArgumentCorrectnessMetric": "tool_use",
        "TaskCompletionMetric": "task_completion",
        "PromptAlignmentMetric": "instruction_following",
        "JsonCorrectnessMetric": "json",
        "PatternMatchMetric": "pattern",
        "TurnRelevancyMetric": "turn_relevancy",
        "KnowledgeRetentionMetric": "mlflow.knowledge_retention",
        "ConversationCompletenessMetric": "mlflow.conversation_completeness",
    },
    "openevals": {
        "CORRECTNESS_PROMPT": "databricks.correctness",
        "HALLUCINATION_PROMPT": "hallucination",
        "RAG_GROUNDEDNESS_PROMPT": "databricks.groundedness",
        "RAG_RETRIEVAL_RELEVANCE_PROMPT": "nvidia.context_relevance",
        "PROMPT_INJECTION_PROMPT": "prompt_injection",
        "create_json_match_evaluator": "json_match",
        "create_trajectory_match_evaluator": "trajectory_match",
        "create_trajectory_llm_as_judge": "trajectory_accuracy",
        "embedding_similarity": "ragas.semantic_similarity",
        "levenshtein_distance": "ragas.non_llm_string_similarity",
    },
    "promptfoo": {
        "llm-rubric": "discrete",
        "select-best": "ranking",
        "factuality": "ragas.factual_correctness",
        "context-recall": "ragas.context_recall",
        "is-refusal": "refusal",
        "is-json": "json",
        "regex": "pattern",
        "rouge-n": "ragas.rouge_score",
        "meteor": "meteor",
        "similar": "ragas.semantic_similarity",
        "trajectory:goal-success": "task_completion",
    },
    "azure": {
        "MeteorScoreEvaluator": "meteor",
        "SimilarityEvaluator": "nvidia.answer_accuracy",
        "ViolenceEvaluator": "harm",
        "IndirectAttackEvaluator": "prompt_injection",
        "DocumentRetrievalEvaluator": "ranked_retrieval",
        "ToolCallAccuracyEvaluator": "tool_use",
        "ResponseCompletenessEvaluator": "completeness",
    },
    "adk": {"tool_trajectory_avg_score": "trajectory_match", "response_match_score": "ragas.rouge_score"},
}


@pytest.mark.parametrize("library", RIVALS)
def test_the_names_of_other_libraries_load_their_like(library: str) -> None:
    """Metrics, prompts and assertions by the names that a user of the library knows."""
    makers = default_registry().maker
    assert {name: makers(name).entry.name for name in RIVALS[library]} == RIVALS[library]  # type: ignore[attr-defined]  # classes of judges have an entry
