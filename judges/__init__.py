"""Judges of chat answers: one object for the refine loop and for offline evaluation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from judges.compose import install_resolver
from judges.first_guesses import no_such_name, of_package

if TYPE_CHECKING:
    from judges.catalogue.general.checks import JsonValid, Length, NumericRange, Pattern
    from judges.catalogue.general.makers import discrete, numeric, ranking
    from judges.catalogue.general.pairwise import Pairwise, Preference
    from judges.catalogue.general.rubric import Helpfulness, Rubric
    from judges.catalogue.names import load, load_file
    from judges.catalogue.registry import catalogue
    from judges.compose.cascade import Cascade, Escalation
    from judges.compose.learned import Learned, first_level
    from judges.compose.panel import Panel, Repeat, as_judge
    from judges.compose.quick import Quick
    from judges.entry import Entry, Explanation
    from judges.errors import (
        AskFailed,
        BadSample,
        CannotJudge,
        ConfigurationError,
        JudgesError,
        ModelRequestError,
    )
    from judges.judge import Judge
    from judges.messages import Message, ToolCall
    from judges.model import JudgeModel
    from judges.models.providers.embeddings import OpenAICompatibleEmbeddings
    from judges.models.providers.langchain import chat_model
    from judges.models.providers.minilm_and_hhem import HHEM, MiniLM
    from judges.models.providers.openai import OpenAICompatible
    from judges.models.wrappers.breaker import Breaker
    from judges.models.wrappers.cache import Cache, cached
    from judges.models.wrappers.limiter import Limiter, limited
    from judges.models.wrappers.wrapped import speaking
    from judges.runtime.prices import Price, known_prices
    from judges.runtime.validation import no_model_requests
    from judges.sample import Sample
    from judges.verdict import Unscored, Usage, Verdict

_HOMES = {
    name: home
    for home, names in {
        "catalogue.general.checks": "JsonValid Length NumericRange Pattern",
        "catalogue.general.makers": "discrete numeric ranking",
        "catalogue.general.pairwise": "Pairwise Preference",
        "catalogue.general.rubric": "Helpfulness Rubric",
        "catalogue.names": "load load_file",
        "compose.cascade": "Cascade Escalation",
        "compose.learned": "Learned first_level",
        "compose.panel": "Panel Repeat as_judge",
        "compose.quick": "Quick",
        "entry": "Entry Explanation",
        "errors": "AskFailed BadSample CannotJudge ConfigurationError JudgesError ModelRequestError",
        "judge": "Judge",
        "messages": "Message ToolCall",
        "model": "JudgeModel",
        "models.providers.embeddings": "OpenAICompatibleEmbeddings",
        "models.providers.langchain": "chat_model",
        "models.providers.minilm_and_hhem": "HHEM MiniLM",
        "models.providers.openai": "OpenAICompatible",
        "models.wrappers.cache": "Cache cached",
        "models.wrappers.breaker": "Breaker",
        "models.wrappers.limiter": "Limiter limited",
        "models.wrappers.wrapped": "speaking",
        "runtime.prices": "Price known_prices",
        "runtime.validation": "no_model_requests",
        "sample": "Sample",
        "verdict": "Unscored Usage Verdict",
    }.items()
    for name in names.split()
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
    "Escalation",
    "Explanation",
    "Helpfulness",
    "JsonValid",
    "Judge",
    "JudgeModel",
    "JudgesError",
    "Learned",
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
    "Quick",
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
    "discrete",
    "first_level",
    "known_prices",
    "limited",
    "load",
    "load_file",
    "no_model_requests",
    "numeric",
    "ranking",
    "speaking",
]


def _resolve_names(candidate: object, *, model: object = None, remedy: str = "") -> object:
    """Load judges by name; the catalogue stands above what takes them, and is imported when it is first needed."""
    resolved: object = import_module(f"{__name__}.catalogue.names").named(candidate, model=model, remedy=remedy)
    return resolved


install_resolver(_resolve_names)


def __getattr__(name: str) -> object:
    if name == "catalogue":  # a package that can be called
        return import_module(f"{__name__}.catalogue")
    home = _HOMES.get(name)
    if home is None:
        raise no_such_name(__name__, name, _hint_for(name))
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def _hint_for(name: str) -> str:
    if name.startswith("_"):
        return ""
    hint = of_package(__name__, name)
    if not hint:
        hint = import_module(f"{__name__}.catalogue.registry").hint_at_class(name)
    return hint or of_package(__name__, name, __all__)


def __dir__() -> list[str]:
    return __all__
