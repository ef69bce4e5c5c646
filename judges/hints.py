"""What to say where a judge is asked for by a wrong name, or with wrong settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from judges.entry import Setting, accepted_by, settings_of
from judges.errors import ConfigurationError, one_line, shortened

_SAME: Mapping[str, tuple[str, ...]] = {
    "llm": ("model",),
    "evaluator_llm": ("model",),
    "chat_model": ("model",),
    "judge_model": ("model",),
    "judge": ("model",),
    "model_name": ("model",),
    "evaluation_model": ("model",),
    "client": ("model",),
    "provider": ("model",),
    "embedding": ("embeddings",),
    "embedder": ("embeddings",),
    "embedding_model": ("embeddings",),
    "feedback_key": ("name",),
    "metric_name": ("name",),
    "lang": ("language",),
    "locale": ("language",),
    "pass_threshold": ("threshold",),
    "success_threshold": ("threshold",),
    "criteria": ("definition", "prompt"),
    "criterion": ("criteria", "definition", "prompt"),
    "definition": ("criteria", "prompt"),
    "choices": ("allowed", "answer"),
    "labels": ("allowed", "answer"),
    "values": ("allowed", "answer"),
    "allowed_values": ("allowed", "answer"),
    "feedback_value_type": ("answer",),
    "trajectory_match_mode": ("mode", "match"),
    "match_type": ("mode", "match"),
    "tool_args_match_mode": ("arguments",),
    "tool_args_match_overrides": ("arguments_by_tool",),
    "should_consider_ordering": ("strict_order",),
    "available_tools": ("tools",),
    "tool_definitions": ("tools",),
    "chatbot_role": ("role",),
    "list_match_mode": ("lists",),
    "exclude_keys": ("ignore",),
    "expected_schema": ("schema",),
    "json_schema": ("schema",),
    "rubric": ("rubrics",),
    "regex": ("required",),
    "pattern": ("required",),
    "regexp": ("required",),
    "top_k": ("k",),
    "min_length": ("at_least",),
    "max_length": ("at_most",),
    "minimum": ("at_least",),
    "maximum": ("at_most",),
    "min": ("at_least",),
    "max": ("at_most",),
    "aggregation": ("rule",),
    "strategy": ("rule",),
    "metrics": ("judges",),
    "evaluators": ("judges",),
    "times": ("n",),
    "categories": ("classes", "kinds"),
    "harms": ("classes",),
    "entities": ("kinds",),
    "pii_types": ("kinds",),
}
"""What a setting of another library is called here; of several names the first that the judge has."""

_WORDS = {"EXACT": "strict", "IN_ORDER": "in_order", "ANY_ORDER": "any_order"}
"""Match types of Google ADK."""

_ON_THE_MODEL = "it belongs to the model: model=judges.chat_model('openai:gpt-5-mini', {}=...)"
_LEAVE_OUT = "leave it out: {}"
_ALWAYS_BOTH = _LEAVE_OUT.format("every judge can be called, or awaited with acall")
_NO_SERVICE = _LEAVE_OUT.format("a judge asks the model that you give, and no other service")
_OWN_PROMPTS = "give a folder of prompts as prompts=..., or a whole prompt to judges.load('discrete', prompt=...)"
_REPEATS = "repeat it by judges.Repeat(judge, 3)"

_INSTEAD: Mapping[str, str] = {
    **{
        name: _ON_THE_MODEL.format(name)
        for name in ("max_retries", "timeout", "max_tokens", "base_url", "api_key", "top_p", "seed")
    },
    **dict.fromkeys(
        ("callbacks", "run_config"),
        _LEAVE_OUT.format("callbacks of the model, or of the loop's config, see its calls"),
    ),
    "cache": "keep a model's replies by model=judges.cached(model, judges.Cache('judgements.db'))",
    "truths_extraction_limit": _LEAVE_OUT.format("no statements are taken out of the contexts"),
    "penalize_ambiguous_claims": _LEAVE_OUT.format(
        "a claim that the contexts leave open does not count as supported"
    ),
    "position_swap": _LEAVE_OUT.format("both orders are always asked"),
    "severity_threshold": "limits={class: severity} says from which severity it fails",
    **dict.fromkeys(("async_mode", "is_async", "run_async"), _ALWAYS_BOTH),
    **dict.fromkeys(("include_reason", "use_reasoning"), _LEAVE_OUT.format("every verdict has its rationale")),
    **dict.fromkeys(("verbose", "verbose_mode", "show_indicator"), _LEAVE_OUT.format("a judge prints nothing")),
    **dict.fromkeys(("credential", "azure_ai_project", "is_reasoning_model", "model_config"), _NO_SERVICE),
    **dict.fromkeys(("prompt", "template", "system_prompt", "evaluation_template", "rubricPrompt"), _OWN_PROMPTS),
    **dict.fromkeys(("n", "repeats", "n_repeats", "num_samples", "strictness"), _REPEATS),
    "continuous": "a number in a range is judges.load('numeric', prompt=..., allowed=(0, 1))",
    "choices": "labels of your own are judges.load('discrete', prompt=..., allowed=[...])",
    "evaluation_steps": "put the steps into the criterion: judges.load('rubric', criteria=..., levels=...)",
    "evaluation_params": "columns=[...] of judges.load('databricks.custom', ...) says what is shown",
    "few_shot_examples": "give pairs of fields and expected reply to judges.load('rubric', examples=[...], ...)",
    "rubric": "levels of your own are judges.load('rubric', criteria=..., levels={1: ..., 2: ...})",
    "levels": "levels of your own are judges.load('rubric', criteria=..., levels={1: ..., 2: ...})",
    "guidelines": "guidelines are judges.load('databricks.global_guideline_adherence', guidelines=[...])",
    "schema": "a schema is judges.load('json', schema=...)",
    "weight": "weigh judges in a panel: judges.Panel(..., weights=[...])",
    "weights": "weigh judges in a panel: judges.Panel(..., weights=[...])",
    "min_words": "give at_least=..., unit='words' to judges.load('length')",
    "max_words": "give at_most=..., unit='words' to judges.load('length')",
    "should_exact_match": "judges.load('tool_call_accuracy', extra_arguments='strict') compares all arguments",
    "embeddings": "it compares no vectors; leave it out",
    "model": "it asks no model; leave it out",
    "llm": "it asks no model; leave it out",
    "threshold": "it passes by a rule of its own; leave it out",
}
"""What to say of a setting that a judge does not have."""


def translated(settings: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return settings by the names that they have here.

    Args:
        settings: Settings as they were given; what the judge has itself, or nobody knows, stays as it is.
        known: The settings of the judge.

    Raises:
        ConfigurationError: If one setting is given under two names.
    """
    result = {name: value for name, value in settings.items() if name in known}
    for name, value in settings.items():
        if name in known:
            continue
        own, own_value = _own(name, value, known)
        if own in result:
            raise ConfigurationError(f"{name} and {own} are one setting here; leave out {name}")
        result[own] = own_value
    return result


def _instead_of(name: str, known: Collection[str]) -> str:
    """Return what to use instead of a setting that a judge does not have; empty where nothing is known of it."""
    if name in ("threshold", "strict_mode") and "success_rating" in known:
        return "success_rating=... is the rating from which it passes"
    return _INSTEAD.get(name, "")


def _own_name(name: str, known: Collection[str]) -> str:
    """Return what a setting of another library is called here; empty where the judge has none such."""
    return next((candidate for candidate in _SAME.get(name, ()) if candidate in known), "")


def _own(name: str, value: Any, known: Collection[str]) -> tuple[str, Any]:
    if name == "strict_mode" and isinstance(value, bool) and "threshold" in known:
        return ("threshold", 1.0 if value else None)
    own = _own_name(name, known) or name
    renamed = own in ("mode", "match") and isinstance(value, str)
    return own, _WORDS.get(value, value) if renamed else value


_LONGEST_NAME = 80
_LONGEST_MEANING = 60
_ALIKE = 0.5
_MUCH = 0.2
_SIGNATURE = re.compile(r"^[\w.<>]+\(\)(?= (?:got|missing|takes) )")
_CALLED = re.compile(r"(\S+?)\((.*)\)")
_FIRST_SENTENCE = re.compile(r"[.;:](?:\s|$)")


def similar_names(name: str, names: Collection[str]) -> list[str]:
    """Return the names most similar to `name`, the likeliest first; those in another case come last.

    Names that are much less similar than the likeliest one are left out.
    """
    text = name[:_LONGEST_NAME]
    folded = {known.casefold(): known for known in names}
    exact = get_close_matches(text, names, n=5, cutoff=_ALIKE)
    near = [*exact, *(folded[one] for one in get_close_matches(text.casefold(), folded, n=5, cutoff=_ALIKE))]
    likeness = {one: SequenceMatcher(None, text.casefold(), one.casefold()).ratio() for one in near}
    return [one for one in near if likeness[one] >= max(likeness.values()) - _MUCH]


def misspelt(name: object, known: Container[object]) -> str:
    """Return how to write what was given as one judge's name; empty where it reads like a name.

    Args:
        name: What was given.
        known: The names there are.
    """
    if isinstance(name, type):
        return f"a class is called: {name.__name__}(...)"
    if not isinstance(name, str):
        return ""
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and all(part in known for part in parts):
        return f"name each by itself: {parts} in a list, or --judge {' --judge '.join(parts)}"
    called = _CALLED.fullmatch(name.strip())
    if called is not None and called[1] in known:
        return f"settings follow a colon: {called[1]}{':' * bool(called[2])}{called[2]}"
    return ""


def misuse(make: Callable[..., object], name: str, settings: Mapping[str, Any], error: Exception) -> str:
    """Describe in one line why a judge cannot be made with these settings."""
    text = one_line(error)
    if isinstance(error, TypeError) and _SIGNATURE.match(text):
        text = one_line(str(error).partition("; ")[0])
        return f"{_SIGNATURE.sub(f'the judge {name!r}', text)}{_hint(make, settings, text)}"
    values = ", ".join(f"{setting}={shortened(value)}" for setting, value in settings.items())
    return f"the judge {name!r} cannot be made with {values or 'no settings'}: {text}"


def refuse_misuse(kind: type, arguments: Sequence[object], settings: Mapping[str, object]) -> None:
    """Check that a judge's class takes these settings, and say what to use instead of one that it does not have.

    What is missing is left to Python, which names it.

    Args:
        kind: The class.
        arguments: What it is called with by position.
        settings: What it is called with by name.

    Raises:
        TypeError: If a setting is unknown, or is given by position where only its name is taken.
    """
    accepted = accepted_by(kind)
    if accepted is None:
        return
    unknown = [setting for setting in settings if setting not in accepted.names]
    if unknown:
        text = f"{kind.__name__}() got an unexpected keyword argument {unknown[0]!r}"
    elif accepted.by_position is not None and len(arguments) > accepted.by_position:
        taken = accepted.by_position + 1
        text = (
            f"{kind.__name__}() takes {taken} positional argument{'s' * (taken > 1)} "
            f"but {len(arguments) + 1} were given"
        )
    else:
        return
    raise TypeError(f"{text}{_hint(kind, settings, text)}")


def _hint(make: Callable[..., object], settings: Mapping[str, Any], text: str) -> str:
    known = {setting.name: setting for setting in settings_of(make)}
    unknown = [setting for setting in settings if setting not in known]
    if unknown and known:
        return f"; {_about_unknown(unknown[0], tuple(known))}"
    if "positional argument" in text and " takes " in text:
        if "judges" in known:
            return "; give the judges as one list"
        no_model = "" if {"model", "embeddings"} & known.keys() else "it asks no model, and "
        return f"; {no_model}its settings are named: {', '.join(known)}"
    missing = re.findall(r"'(\w+)'", text.partition(" missing ")[2])
    return f"; give {' and '.join(_about_missing(known.get(setting), setting) for setting in missing)}" * bool(
        missing
    )


def _about_unknown(name: str, known: Collection[str]) -> str:
    listed = f"nown are {', '.join(known)}"
    instead = f"here it is {own}=..." if (own := _own_name(name, known)) else _instead_of(name, known)
    if instead:
        return f"{instead}; k{listed}"
    near = get_close_matches(name[:_LONGEST_NAME], known, n=1)
    return f"did you mean {near[0]!r}? K{listed}" if near else f"k{listed}"


def _about_missing(setting: Setting | None, name: str) -> str:
    if setting is None or not setting.meaning:
        return f"{name}=..."
    purpose = _FIRST_SENTENCE.split(setting.meaning)[0]
    return f"{name}=... ({one_line(purpose[:1].lower() + purpose[1:], longest=_LONGEST_MEANING)})"
