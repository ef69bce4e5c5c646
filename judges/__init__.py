"""Judges of chat answers: one object for the refine loop and for offline evaluation."""

from __future__ import annotations

from judges.allowance import Price
from judges.checks import JsonValid, Length, NumericRange, Pattern
from judges.coerce import as_judge
from judges.errors import AskFailed, BadSample, ConfigurationError, JudgesError, ModelRequestError
from judges.guard import no_model_requests
from judges.judge import Judge
from judges.models import JudgeModel
from judges.panel import Cascade, Panel, Repeat
from judges.registry import load
from judges.rubric import Helpfulness, Rubric
from judges.sample import Message, Sample, ToolCall
from judges.verdict import Unscored, Usage, Verdict

__all__ = [
    "AskFailed",
    "BadSample",
    "Cascade",
    "ConfigurationError",
    "Helpfulness",
    "JsonValid",
    "Judge",
    "JudgeModel",
    "JudgesError",
    "Length",
    "Message",
    "ModelRequestError",
    "NumericRange",
    "Panel",
    "Pattern",
    "Price",
    "Repeat",
    "Rubric",
    "Sample",
    "ToolCall",
    "Unscored",
    "Usage",
    "Verdict",
    "as_judge",
    "load",
    "no_model_requests",
]
