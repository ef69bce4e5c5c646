"""Completions and a judge's replies as LangChain's messages, with all that the endpoint said beside the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata

from judges.model import ModelResponse
from judges.models.providers.openai_messages import PROVIDER, read_assistant

_RENAMED = {"model": "model_name", "usage": "token_usage"}
"""Names that LangChain has for what a completion says."""

_MOST_TOKENS = 10**9


def answer_of(completion: Mapping[str, Any], model: str) -> AIMessage:
    """Return the answer that a chat completion holds in its first choice.

    What the completion says beside the message (`finish_reason`, `citations`, `system_fingerprint`, ...) is in
    `response_metadata`, what its message says beside the text (`reasoning_content`, ...) in `additional_kwargs`.

    Args:
        completion: The completion, with a choice that has a message.
        model: Name of the model, where the completion gives none.
    """
    choice = completion["choices"][0]
    answer = read_assistant(choice["message"])
    metadata = {
        "model_name": model,
        **{
            _RENAMED.get(name, name): value
            for name, value in completion.items()
            if name not in ("choices", "object")
        },
        **{name: value for name, value in choice.items() if name not in ("index", "message")},
    }
    answer.response_metadata = {name: value for name, value in metadata.items() if value is not None}
    answer.response_metadata["model_provider"] = PROVIDER
    answer.usage_metadata = usage_metadata(completion.get("usage"))
    return answer


def answer_of_response(response: ModelResponse, model: str) -> AIMessage:
    """Return a judge's reply as a message."""
    usage = response.usage
    calls = [{"function": {"name": name, "arguments": arguments}} for name, arguments in response.calls]
    answer = read_assistant({"content": response.text, "tool_calls": calls, "refusal": response.refusal or None})
    answer.response_metadata = {
        "model_name": response.model or model,
        "model_provider": PROVIDER,
        "finish_reason": response.finish_reason,
    }
    if usage.tokens_known:
        sent, received = usage.input_tokens, usage.output_tokens
        answer.usage_metadata = UsageMetadata(
            input_tokens=sent, output_tokens=received, total_tokens=sent + received
        )
        if usage.cached_input_tokens:
            answer.usage_metadata["input_token_details"] = InputTokenDetails(cache_read=usage.cached_input_tokens)
    return answer


def usage_metadata(usage: object) -> UsageMetadata | None:
    """Return a completion's `usage` as LangChain's, or None where it says no numbers."""
    if not isinstance(usage, Mapping):
        return None
    sent, received = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    if sent is None or received is None:
        return None
    metadata = UsageMetadata(input_tokens=sent, output_tokens=received, total_tokens=sent + received)
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    if isinstance(prompt, Mapping):
        counts = {"audio": prompt.get("audio_tokens"), "cache_read": prompt.get("cached_tokens")}
        metadata["input_token_details"] = InputTokenDetails(**_counts(counts))  # type: ignore[typeddict-item]  # its names
    if isinstance(completion, Mapping):
        counts = {"audio": completion.get("audio_tokens"), "reasoning": completion.get("reasoning_tokens")}
        metadata["output_token_details"] = OutputTokenDetails(**_counts(counts))  # type: ignore[typeddict-item]  # its names
    return metadata


def _count(value: object) -> int | None:
    return int(value) if type(value) in (int, float) and 0 <= value < _MOST_TOKENS else None  # type: ignore[operator,call-overload]  # a number


def _counts(values: Mapping[str, object]) -> dict[str, int]:
    return {name: count for name, value in values.items() if (count := _count(value)) is not None}
