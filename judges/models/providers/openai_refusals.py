"""Refusals in streamed replies of LangChain's OpenAI models.

While it streams chat completions, `langchain_openai` reads a delta's `refusal` nowhere: the reply that comes of it
is empty, and nobody can tell that the model refused. A copy of the model that is patched here keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

M = TypeVar("M")

_HOOK = "_convert_chunk_to_generation_chunk"
"""All chunks of chat completions pass it; partner packages have it, too, and override it."""


def keeping_refusals(chat: M) -> M:
    """Return a copy of a streaming OpenAI model that keeps refusals; any other model as it is."""
    convert = getattr(chat, _HOOK, None) if getattr(chat, "streaming", False) else None
    if convert is None:
        return chat

    def convert_with_refusal(chunk: Any, *args: Any, **kwargs: Any) -> Any:
        converted = convert(chunk, *args, **kwargs)
        refusal = _refusal_in(chunk)
        if refusal and converted is not None:
            converted.message.additional_kwargs.setdefault("refusal", refusal)
        return converted

    copy: M = chat.model_copy()  # type: ignore[attr-defined]  # a LangChain model, since it has the hook
    object.__setattr__(copy, _HOOK, convert_with_refusal)  # pydantic forbids setattr here
    return copy


def _refusal_in(chunk: Any) -> object:
    """Return the piece of a refusal that a chunk holds; of a stream of the beta API it is one level deeper."""
    for level in (chunk, chunk.get("chunk") if isinstance(chunk, Mapping) else None):
        choices = level.get("choices") if isinstance(level, Mapping) else None
        delta = choices[0].get("delta") if isinstance(choices, list) and choices else None
        if isinstance(delta, Mapping) and delta.get("refusal"):
            return delta["refusal"]
    return None
