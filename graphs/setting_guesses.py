"""What to write instead of a guessed setting: one of another library, or one that belongs elsewhere."""

from __future__ import annotations

from collections.abc import Collection

_MEANINGS = {
    "success_rating": "the rating from 1 to 4 at which an answer is accepted",
    "max_attempts": "which counts all answers, the first included",
    "max_calls": "calls of generator and judges together",
    "max_tokens": "tokens of generator and judges together",
    "max_cost": "US dollars, which needs prices=known_prices()",
    "deadline_s": "seconds from the question",
    "on_exhausted": "'best', 'last', 'raise', 'fallback' or 'interrupt', where no answer was accepted",
    "on_judge_error": "'accept', 'reject' or 'raise', where the judge gives no verdict",
    "fallback": "a text, with on_exhausted='fallback'",
    "candidates": "drafts an attempt, of which the best goes on",
    "patience": "attempts in a row that were no better",
    "augment": "what the generator sees on a retry",
    "overrides": "by attempt, for instance overrides={2: {'temperature': 0.8, 'model': ...}}",
    "prices": "prices by model, or known_prices()",
    "sample_rate": "the share of questions that are judged",
    "shadow": "True judges and logs, and returns the first draft",
    "show_drafts": "True sends drafts as progress events",
    "log_texts": "True writes drafts and feedback to the log",
    "skip": "a function of an answer, true where it is not to be judged",
}
_RETRIES = ("retries", "retry", "max_retry", "num_retries", "n_retries", "max_refinements", "max_reflections")
_RATINGS = (
    *("threshold", "pass_threshold", "success_threshold", "score_threshold", "quality_threshold", "cutoff"),
    *(
        "acceptance_threshold",
        "min_rating",
        "min_score",
        "minimum_score",
        "minimum_rating",
        "pass_rating",
        "rating",
    ),
    *("target_score", "target_rating", "passing_score", "success_score", "score", "rating_threshold"),
)
_GUESSES = {
    "success_rating": _RATINGS,
    "max_attempts": (
        *("max_iterations", "max_iters", "max_iter", "iterations", "num_iterations", "n_iterations", "max_loops"),
        *(
            "loops",
            "max_rounds",
            "rounds",
            "num_rounds",
            "max_turns",
            "max_steps",
            "max_tries",
            "tries",
            "n_tries",
        ),
        *("attempts", "num_attempts", "n_attempts", "max_generations", "max_repeats", "repeats", *_RETRIES),
    ),
    "max_calls": ("max_requests", "max_model_calls", "call_limit", "request_limit"),
    "max_tokens": ("token_budget", "token_limit"),
    "max_cost": ("budget", "max_budget", "cost_limit", "max_usd", "max_spend", "cost"),
    "deadline_s": ("timeout", "timeout_s", "time_limit", "max_time", "max_seconds", "max_duration", "deadline"),
    "on_exhausted": ("on_fail", "on_failure", "on_reject", "on_max_attempts", "return_best", "raise_on_failure"),
    "on_judge_error": ("on_error", "fail_open", "fail_closed", "raise_on_error", "on_judge_failure"),
    "fallback": ("fallback_message", "fallback_answer", "fallback_text", "default", "default_answer"),
    "candidates": ("n", "k", "best_of", "num_candidates", "n_candidates", "num_drafts", "num_samples", "samples"),
    "patience": ("early_stopping", "early_stop"),
    "augment": ("feedback_mode", "critique", "revise", "prompt_builder"),
    "overrides": ("temperature", "temperatures", "model", "models", "escalation", "retry_model"),
    "prices": ("price", "pricing"),
    "sample_rate": ("sampling", "sampling_rate", "sample"),
    "shadow": ("dry_run", "observe", "observe_only", "monitor_only"),
    "show_drafts": ("stream_drafts", "stream_intermediate", "show_attempts"),
    "log_texts": ("verbose", "debug"),
    "skip": ("skip_if", "condition", "when"),
}
GENERATORS = ("model", "llm", "chat_model", "chat", "agent", "generate", "chain", "runnable", "app", "bot")
"""What else a generator may be called."""

JUDGES = (
    *("judges", "critic", "evaluator", "evaluators", "grader", "metric", "metrics", "scorer", "verifier"),
    *("evaluation", "reviewer", "critics"),
)
"""What else a judge may be called."""

_SETTING = {guess: setting for setting, guesses in _GUESSES.items() for guess in guesses}
_ELSEWHERE = {
    **dict.fromkeys(
        JUDGES,
        "the judge is an argument of its own, judge=..., which takes a list of judges, too",
    ),
    **dict.fromkeys(
        ("llm", "chat_model", "agent", "generate", "chain"),
        "the generator is an argument of its own, the first one",
    ),
    **dict.fromkeys(
        ("callbacks", "tags", "thread_id", "config", "metadata", "run_name"),
        "it belongs to the call: invoke(question, config={...})",
    ),
    **dict.fromkeys(
        ("language", "prompts", "criteria", "rubric"),
        "it is a setting of the judge: judges.load('helpfulness', language='zh', ...)",
    ),
    **dict.fromkeys(
        ("system_prompt", "prompt", "instructions"), "instructions to the generator stand in the conversation"
    ),
    "cache": "answers of a judge's model are cached there: Helpfulness(judges.cached(model))",
}
_LEVELS = 3


def instead_of(name: str, value: object, known: Collection[str]) -> str:
    """Return what to write instead of a setting that is none; empty where nothing is known.

    Args:
        name: The name that was guessed.
        value: Its value, from which the value to write follows where it can.
        known: The settings there are.
    """
    setting = _SETTING.get(name)
    if setting is None:
        return _ELSEWHERE.get(name, "")
    if setting not in known:
        return ""
    others = "; max_retries is for requests that fail" if name in _RETRIES and "max_retries" in known else ""
    return f"use {setting}{_value(name, value)}, {_MEANINGS[setting]}{others}"


def _value(name: str, value: object) -> str:
    if name in _RETRIES:
        return f"={value + 1}" if type(value) is int else ""
    if name not in _RATINGS or isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, int) and 1 <= value <= _LEVELS + 1:
        return f"={value}"
    return f"={1 + round(_LEVELS * value)}" if 0 <= value <= 1 else ""
