"""Raw arguments of tool calls, as LangChain's OpenAI models received them.

LangChain parses the arguments and drops the text; of two equal keys the parsed mapping shows only the last. All
replies of chat completions pass one method of the model, which is patched in a copy of it to keep the text.
Replies of the Responses API have the text in their content.

The method is a private one. So a call of such a model whose text is missing is unreadable: if the method is
renamed, not called or called with something else, a judge asks by another method, and believes no parsed mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HOOK = "_create_chat_result"
"""All replies of chat completions pass it; partner packages have it, too, and override it."""


def drops_arguments(chat: object) -> bool:
    """Check whether a model is one of LangChain's OpenAI models, or works like one: it drops raw arguments."""
    return any(
        _HOOK in vars(kind) or kind.__module__.partition(".")[0] == "langchain_openai"
        for kind in type(chat).__mro__
    )


def keep_raw_arguments(chat: Any) -> None:
    """Patch a model to keep the raw arguments of tool calls in its messages.

    Args:
        chat: A copy of the user's model; it is changed.
    """
    create = getattr(chat, _HOOK, None)
    if create is None:
        return

    def create_with_arguments(response: Any, *args: Any, **kwargs: Any) -> Any:
        result = create(response, *args, **kwargs)
        choices = _part(response, "choices") or ()
        if len(choices) == len(result.generations):
            for generation, choice in zip(result.generations, choices, strict=True):
                _keep(generation.message, _part(_part(choice, "message"), "tool_calls") or ())
        return result

    object.__setattr__(chat, _HOOK, create_with_arguments)  # pydantic forbids setattr here


def _keep(message: Any, calls: Any) -> None:
    raw = [{"function": {"arguments": _part(_part(call, "function"), "arguments")}} for call in calls]
    if raw:
        message.additional_kwargs["tool_calls"] = raw


def raw_arguments(message: Any) -> list[Any]:
    """List the arguments of a message's tool calls as they were received: JSON text where the message has it.

    Args:
        message: A LangChain message; what a provider left in it may have any shape.
    """
    calls = message.additional_kwargs.get("tool_calls")
    if isinstance(calls, list):
        return [_part(_part(call, "function"), "arguments") for call in calls]
    blocks = message.content if isinstance(message.content, list) else ()
    return [_part(block, "arguments") for block in blocks if _part(block, "type") == "function_call"]


def _part(whole: Any, name: str) -> Any:
    return whole.get(name) if isinstance(whole, Mapping) else getattr(whole, name, None)
