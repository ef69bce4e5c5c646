"""Asking a model: the prompt is composed, sent, and the reply strictly read; in one place for every judge."""

from __future__ import annotations

from judges.models.model import JudgeModel, Letter, RawReply, as_model

__all__ = ["JudgeModel", "Letter", "RawReply", "as_model"]
