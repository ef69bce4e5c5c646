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
    from judges.models.providers.local_models import HHEM, MiniLM
    from judges.models.providers.openai import OpenAICompatible
    from judges.models.wrappers.cache import Cache, cached
    from judges.models.wrappers.limiter import Breaker, Limiter, limited
    from judges.models.wrappers.wrapped import speaking
    from judges.runtime.budget import Price, known_prices
    from judges.runtime.validation import no_model_requests
    from judges.sample import Sample
    from judges.verdict import Unscored, Usage, Verdict

_HOMES = {
    "AskFailed": "errors",
    "BadSample": "errors",
    "Breaker": "models.wrappers.limiter",
    "Cache": "models.wrappers.cache",
    "CannotJudge": "errors",
    "Cascade": "compose.cascade",
    "ConfigurationError": "errors",
    "Entry": "entry",
    "Escalation": "compose.cascade",
    "Explanation": "entry",
    "HHEM": "models.providers.local_models",
    "Helpfulness": "catalogue.general.rubric",
    "JsonValid": "catalogue.general.checks",
    "Judge": "judge",
    "JudgeModel": "model",
    "JudgesError": "errors",
    "Learned": "compose.learned",
    "Length": "catalogue.general.checks",
    "Limiter": "models.wrappers.limiter",
    "Message": "messages",
    "MiniLM": "models.providers.local_models",
    "ModelRequestError": "errors",
    "NumericRange": "catalogue.general.checks",
    "OpenAICompatible": "models.providers.openai",
    "OpenAICompatibleEmbeddings": "models.providers.embeddings",
    "Pairwise": "catalogue.general.pairwise",
    "Panel": "compose.panel",
    "Pattern": "catalogue.general.checks",
    "Preference": "catalogue.general.pairwise",
    "Price": "runtime.budget",
    "Quick": "compose.quick",
    "Repeat": "compose.panel",
    "Rubric": "catalogue.general.rubric",
    "Sample": "sample",
    "ToolCall": "messages",
    "Unscored": "verdict",
    "Usage": "verdict",
    "Verdict": "verdict",
    "as_judge": "compose.panel",
    "cached": "models.wrappers.cache",
    "chat_model": "models.providers.langchain",
    "discrete": "catalogue.general.makers",
    "first_level": "compose.learned",
    "known_prices": "runtime.budget",
    "limited": "models.wrappers.limiter",
    "load": "catalogue.names",
    "load_file": "catalogue.names",
    "no_model_requests": "runtime.validation",
    "numeric": "catalogue.general.makers",
    "ranking": "catalogue.general.makers",
    "speaking": "models.wrappers.wrapped",
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
