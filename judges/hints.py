"""What other libraries call the settings of judges, and the functions that read it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any

from judges.errors import ConfigurationError

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
    "global_guidelines": ("guidelines",),
    "instructions": ("criteria", "prompt"),
    "prompt_template": ("criteria", "prompt"),
    "judge_prompt": ("criteria", "prompt"),
    "numeric_values": ("answer",),
    "focus": ("mode",),
    "successRating": ("success_rating",),
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
    "mode": ("rule",),
    "strategy": ("rule",),
    "metrics": ("judges",),
    "evaluators": ("judges",),
    "times": ("n",),
    "categories": ("classes", "kinds"),
    "harms": ("classes",),
    "entities": ("kinds",),
    "pii_types": ("kinds",),
    "choice_scores": ("allowed",),
}
"""What a setting of another library is called here; of several names the first that the judge has."""

_WORDS = {
    "EXACT": "strict",
    "exact": "strict",
    "IN_ORDER": "in_order",
    "ANY_ORDER": "any_order",
    "row": "rows",
    "column": "columns",
}
"""Match types of Google ADK, and modes of tables as they are often written."""

_MARKS = {"success_rating": "the rating", "threshold": "the score"}
_PASS_MARKS = (*_MARKS, "strict_mode")
_ALIKE = 0.8

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
    **dict.fromkeys(
        ("include_reason", "use_reasoning", "use_cot"), _LEAVE_OUT.format("every verdict has its rationale")
    ),
    **dict.fromkeys(("verbose", "verbose_mode", "show_indicator"), _LEAVE_OUT.format("a judge prints nothing")),
    **dict.fromkeys(("credential", "azure_ai_project", "is_reasoning_model", "model_config"), _NO_SERVICE),
    **dict.fromkeys(("prompt", "template", "system_prompt", "evaluation_template", "rubricPrompt"), _OWN_PROMPTS),
    **dict.fromkeys(("n", "repeats", "n_repeats", "num_samples", "strictness"), _REPEATS),
    **dict.fromkeys(
        ("strategy", "aggregation", "mode", "operator"),
        "a panel has a rule: judges.Panel(..., rule='min')",
    ),
    **dict.fromkeys(
        ("ratings", "verdicts", "scores", "responses", "replies"), "the lines come first: ScriptedJudge([1, 4])"
    ),
    "continuous": "a number in a range is judges.load('numeric', prompt=..., allowed=(0, 1))",
    "choices": "labels of your own are judges.load('discrete', prompt=..., allowed=[...])",
    "evaluation_steps": "put the steps into the criterion: judges.load('rubric', criteria=..., levels=...)",
    "evaluation_params": "columns=[...] of judges.load('databricks.custom', ...) says what is shown",
    "few_shot_examples": "give pairs of fields and expected reply to judges.load('rubric', examples=[...], ...)",
    "rubric": "levels of your own are judges.load('rubric', criteria=..., levels={1: ..., 2: ...})",
    "levels": "levels of your own are judges.load('rubric', criteria=..., levels={1: ..., 2: ...})",
    "global_guidelines": "they are judges.load('databricks.global_guideline_adherence', guidelines=[...])",
    "guidelines": "guidelines are judges.load('databricks.global_guideline_adherence', guidelines=[...])",
    "schema": "a schema is judges.load('json', schema=...)",
    "weight": "weigh judges in a panel: judges.Panel(..., weights=[...])",
    "weights": "weigh judges in a panel: judges.Panel(..., weights=[...])",
    "min_words": "give at_least=..., unit='words' to judges.load('length')",
    "max_words": "give at_most=..., unit='words' to judges.load('length')",
    "should_exact_match": "judges.load('tool_call_accuracy', extra_arguments='strict') compares all arguments",
    "assessment_questions": "questions of your own are judges.load('checklist', items=[...])",
    "relevant_topics": "give them with the row, as reference_topics",
    "aggregator": _LEAVE_OUT.format("the score is the share of the fields that agree, and items has each field"),
    "maxRepeatAttempts": "it belongs to the loop: SelfRefine(max_attempts=...), the first attempt included",
    "chatClientBuilder": "give the model itself as model=...",
    "embeddings": "it compares no vectors; leave it out",
    "model": "it asks no model; leave it out",
    "llm": "it asks no model; leave it out",
    "threshold": "it passes by a rule of its own; leave it out",
}
"""What to say of a setting that a judge does not have."""


def translate_settings(settings: Mapping[str, Any], setting_names: Collection[str]) -> dict[str, Any]:
    """Return settings by the names that they have here.

    Args:
        settings: Settings as they were given; what the judge has itself, or nobody knows, stays as it is.
        setting_names: The settings of the judge.

    Raises:
        ConfigurationError: If one setting is given under two names.
    """
    result = {name: value for name, value in settings.items() if name in setting_names}
    for name, value in settings.items():
        if name in setting_names:
            continue
        setting_name, setting_value = _own_setting(name, value, setting_names)
        if setting_name in result:
            raise ConfigurationError(f"{name} and {setting_name} are one setting here; leave out {name}")
        result[setting_name] = setting_value
    return result


def instead_of(name: str, setting_names: Collection[str]) -> str:
    """Return what to use instead of a setting that a judge does not have; empty where nothing is known of it."""
    near = get_close_matches(name, _PASS_MARKS, n=1, cutoff=_ALIKE)
    mark = near[0] if near else name
    if mark in _PASS_MARKS and mark not in setting_names:
        hints = (
            f"{setting_name}=... is {what} from which it passes"
            for setting_name, what in _MARKS.items()
            if setting_name in setting_names
        )
        hint = next(hints, "")
        if hint:
            return hint if mark == name else f"did you mean {mark!r}? Here {hint}"
    return _INSTEAD.get(name, "")


def own_name(name: str, setting_names: Collection[str]) -> str:
    """Return what a setting of another library is called here; empty where the judge has none such."""
    return next((candidate for candidate in _SAME.get(name, ()) if candidate in setting_names), "")


def _own_setting(name: str, value: Any, setting_names: Collection[str]) -> tuple[str, Any]:
    if name == "strict_mode" and isinstance(value, bool) and "threshold" in setting_names:
        return ("threshold", 1.0 if value else None)
    setting_name = own_name(name, setting_names) or name
    return setting_name, other_word(setting_name, value)


def other_word(name: str, value: Any) -> Any:
    """Return what another library's word for a value is called here; a member of an enumeration is its value."""
    plain = value.value if isinstance(value, Enum) else value
    return _WORDS.get(plain, plain) if name in ("mode", "match") and isinstance(plain, str) else plain
