"""Evaluating answers made from retrieved contexts: `RAGEvaluator`."""

from judges.rag.evaluator import METRICS, RAGEvaluator, RAGResult

__all__ = ["METRICS", "RAGEvaluator", "RAGResult"]
