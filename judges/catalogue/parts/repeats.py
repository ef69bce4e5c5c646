"""Repeated tool calls: the same call with the same result as before, and loops of them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from judges.catalogue.parts.calls import key_of
from judges.messages import Conversation, ToolCall

LOOP = 3
"""A call made this many times with the same result is a loop."""


class MadeCall(NamedTuple):
    """A call with what came of it.

    Args:
        call: The call.
        result: The text that the tool returned; None where the sample has none.
        first: Index of the first call with the same tool, arguments and result; None where there is none before.
        times: How many times it was made with this result, this time included.
    """

    call: ToolCall
    result: str | None
    first: int | None
    times: int

    @property
    def loops(self) -> bool:
        """Whether the call goes round in a loop."""
        return self.times >= LOOP


def calls_made_in(messages: Conversation) -> list[MadeCall]:
    """Return the calls of the assistant in order, each with its result and whether it repeats an earlier one.

    A call that is made again for another result (a second try after an error, a look at a state that has changed)
    repeats nothing.
    """
    made: list[MadeCall] = []
    seen: dict[Hashable, list[int]] = {}
    for call, result in _with_results(messages):
        key = (call.name, key_of(call.args), result)
        places = seen.setdefault(key, [])
        made.append(MadeCall(call, result, places[0] if places else None, len(places) + 1))
        places.append(len(made) - 1)
    return made


def _with_results(messages: Conversation) -> list[tuple[ToolCall, str | None]]:
    """Pair calls with results: by the call's id, else in order among those right behind the call's message."""
    paired: list[tuple[ToolCall, str | None]] = []
    for index, message in enumerate(messages):
        if message.role == "assistant" and message.tool_calls:
            paired += zip(message.tool_calls, _results(message.tool_calls, messages[index + 1 :]), strict=True)
    return paired


def _results(calls: Sequence[ToolCall], later: Conversation) -> list[str | None]:
    """Return what the calls of one message returned, from the tools' messages up to the next of another role."""
    answers = []
    for message in later:
        if message.role != "tool":
            break
        answers.append(message)
    ids = {call.id for call in calls if call.id is not None}
    by_id = {message.tool_call_id: message.content for message in answers if message.tool_call_id in ids}
    rest = iter([message.content for message in answers if message.tool_call_id not in ids])
    return [by_id[call.id] if call.id in by_id else next(rest, None) for call in calls]
