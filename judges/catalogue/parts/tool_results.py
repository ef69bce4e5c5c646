"""What tools returned, as evidence beside the retrieved contexts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import JsonValue

from judges.catalogue.parts.shown import ShownMessage
from judges.errors import CannotJudge, ConfigurationError
from judges.messages import Message, ToolCall
from judges.runtime.validation import one_of
from judges.sample import Sample


def reads_tool_results(setting: object, *, compat: bool) -> bool:
    """Return whether a judge reads tool results: by its setting, or else unless `variant="compat"`.

    Raises:
        ConfigurationError: If the setting is no yes or no, or asks for what compat does not know.
    """
    if setting is None:
        return not compat
    one_of(Literal[True, False], setting, setting="tool_results")
    if setting and compat:
        raise ConfigurationError("variant='compat' reads contexts alone; leave tool_results out")
    return bool(setting)


def premises_in(sample: Sample, *, tool_results: bool, blank: bool = False) -> list[JsonValue]:
    """Return the retrieved contexts and, where they count, the tool results of the whole exchange.

    Args:
        sample: The sample.
        tool_results: Whether tool results count. One that is the same text as a context is left out.
        blank: Whether blank contexts are kept.

    Raises:
        CannotJudge: `no_contexts`, if there are neither contexts nor tool results, or all are blank.
    """
    contexts = sample.retrieved_contexts or ()
    filled = {context.strip() for context in contexts} - {""}
    has_messages = bool(sample.trajectory) or not isinstance(sample.user_input, str)
    results = _results(sample.messages, but=filled) if tool_results and has_messages else []
    if not filled and not results:
        also = " and no tool results" if tool_results else ""
        raise CannotJudge("no_contexts", f"there are no retrieved contexts{also} to look at")
    return [*(context for context in contexts if blank or context.strip()), *results]


def _results(messages: Sequence[Message], *, but: Iterable[str]) -> list[JsonValue]:
    """Return each tool result once, with the call it answers, as shown to a model."""
    results: list[JsonValue] = []
    unanswered: list[ToolCall] = []
    for message in messages:
        if message.role != "tool":
            unanswered = list(message.tool_calls)
            continue
        result = _shown(message, _answered(unanswered, message))
        is_new = isinstance(result, ShownMessage) or result not in results  # pictures differ beside their text
        if message.content.strip() and message.content.strip() not in but and is_new:
            results.append(result)
    return results


def _answered(unanswered: list[ToolCall], result: Message) -> ToolCall | None:
    """Take the call that a result answers out of those before it: by its id, or without one the next call."""
    calls = [call for call in unanswered if result.tool_call_id in (None, call.id)]
    if not calls:
        return None
    unanswered.remove(calls[0])
    return calls[0]


def _shown(message: Message, call: ToolCall | None) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {}
    if call is not None:
        fields = {"tool": call.name, "called_with": dict(call.args)}
    elif message.name:
        fields = {"tool": message.name}
    fields["returned"] = message.content
    if message.parts_not_shown:
        fields["parts_not_shown"] = list(message.parts_not_shown)
    return ShownMessage(fields, message.media) if message.media else fields
