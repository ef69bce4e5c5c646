"""Judges of chat answers: one object for the refine loop and for offline evaluation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from judges.allowance import Price
    from judges.checks import JsonValid, Length, NumericRange, Pattern
    from judges.entry import Entry, Explanation
    from judges.errors import (
        AskFailed,
        BadSample,
        CannotJudge,
        ConfigurationError,
        JudgesError,
        ModelRequestError,
    )
    from judges.guard import no_model_requests
    from judges.judge import Judge
    from judges.messages import Message, ToolCall
    from judges.model import JudgeModel
    from judges.models.breaker import Breaker
    from judges.models.cache import cached
    from judges.models.embeddings import OpenAICompatibleEmbeddings
    from judges.models.hhem import HHEM
    from judges.models.langchain import chat_model
    from judges.models.limiter import Limiter, limited
    from judges.models.minilm import MiniLM
    from judges.models.openai import OpenAICompatible
    from judges.models.speaking import speaking
    from judges.models.store import Cache
    from judges.pairwise import Pairwise, Preference
    from judges.panel import Cascade, Panel, Repeat, as_judge
    from judges.prices import known_prices
    from judges.registry import catalogue, load
    from judges.rubric import Helpfulness, Rubric
    from judges.sample import Sample
    from judges.verdict import Unscored, Usage, Verdict

_HOMES = {
    "AskFailed": "errors",
    "BadSample": "errors",
    "Breaker": "models.breaker",
    "Cache": "models.store",
    "CannotJudge": "errors",
    "Cascade": "panel",
    "ConfigurationError": "errors",
    "Entry": "entry",
    "Explanation": "entry",
    "HHEM": "models.hhem",
    "Helpfulness": "rubric",
    "JsonValid": "checks",
    "Judge": "judge",
    "JudgeModel": "model",
    "JudgesError": "errors",
    "Length": "checks",
    "Limiter": "models.limiter",
    "Message": "messages",
    "MiniLM": "models.minilm",
    "ModelRequestError": "errors",
    "NumericRange": "checks",
    "OpenAICompatible": "models.openai",
    "OpenAICompatibleEmbeddings": "models.embeddings",
    "Pairwise": "pairwise",
    "Panel": "panel",
    "Pattern": "checks",
    "Preference": "pairwise",
    "Price": "allowance",
    "Repeat": "panel",
    "Rubric": "rubric",
    "Sample": "sample",
    "ToolCall": "messages",
    "Unscored": "verdict",
    "Usage": "verdict",
    "Verdict": "verdict",
    "as_judge": "panel",
    "cached": "models.cache",
    "catalogue": "registry",
    "chat_model": "models.langchain",
    "known_prices": "prices",
    "limited": "models.limiter",
    "load": "registry",
    "no_model_requests": "guard",
    "speaking": "models.speaking",
}
"""Where each public name lives: loaded when first used, so that a command line answers at once."""

__all__ = [
    "HHEM",
    "AskFailed",
    "BadSample",
    "Breaker",
    "Cache",
    "CannotJudge",
    "Cascade",
    "ConfigurationError",
    "Entry",
    "Explanation",
    "Helpfulness",
    "JsonValid",
    "Judge",
    "JudgeModel",
    "JudgesError",
    "Length",
    "Limiter",
    "Message",
    "MiniLM",
    "ModelRequestError",
    "NumericRange",
    "OpenAICompatible",
    "OpenAICompatibleEmbeddings",
    "Pairwise",
    "Panel",
    "Pattern",
    "Preference",
    "Price",
    "Repeat",
    "Rubric",
    "Sample",
    "ToolCall",
    "Unscored",
    "Usage",
    "Verdict",
    "as_judge",
    "cached",
    "catalogue",
    "chat_model",
    "known_prices",
    "limited",
    "load",
    "no_model_requests",
    "speaking",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
