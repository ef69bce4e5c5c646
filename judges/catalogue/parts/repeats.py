"""Repeated tool calls: the same call with the same result as before, and loops of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import repeat, takewhile
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

    A call that is made again for another result (a second try after an error, a look at a state that has changed),
    or after another message of the user, repeats nothing.
    """
    calls: list[MadeCall] = []
    seen: dict[Hashable, list[int]] = {}
    for turn, call, result in _with_results(messages):
        key = (turn, call.name, key_of(call.args), result)
        places = seen.setdefault(key, [])
        calls.append(MadeCall(call, result, places[0] if places else None, len(places) + 1))
        places.append(len(calls) - 1)
    return calls


def _with_results(messages: Conversation) -> Iterator[tuple[int, ToolCall, str | None]]:
    """Yield calls with the number of the user's message before, and the result.

    Results are found by the call's id, else in order among those right behind the call's message.
    """
    turn = 0
    for index, message in enumerate(messages):
        turn += message.role == "user"
        if message.role == "assistant" and message.tool_calls:
            results = _results(message.tool_calls, messages, since=index + 1)
            yield from zip(repeat(turn), message.tool_calls, results, strict=False)


def _results(calls: Sequence[ToolCall], messages: Conversation, *, since: int) -> list[str | None]:
    """Return what the calls of one message returned, from the tools' messages up to the next of another role."""
    later = (messages[place] for place in range(since, len(messages)))
    answers = list(takewhile(lambda message: message.role == "tool", later))
    ids = {call.id for call in calls if call.id is not None}
    by_id = {message.tool_call_id: message.content for message in answers if message.tool_call_id in ids}
    rest = iter([message.content for message in answers if message.tool_call_id not in ids])
    return [by_id[call.id] if call.id in by_id else next(rest, None) for call in calls]
