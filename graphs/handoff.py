"""An agent that leaves the loop: a handoff to another node of the graph around, instead of an answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langgraph.errors import ParentCommand
from langgraph.types import Command, Send

from graphs.augment import MARK
from graphs.events import Event, WarningThrottle
from graphs.refinement import Refinement

_UNJUDGED_HANDOFF = "generator handed over to another node with an answer that was not judged"


def hide_drafts(left: ParentCommand, refinement: Refinement) -> None:
    """Take drafts and feedback of earlier attempts out of what an agent hands over; changes `left` in place."""
    command: Command[Any] = left.args[0]
    added = {_content_of(message) for message in refinement.added}
    command = replace(command, update=_without(added, command.update), goto=_goto_without(added, command.goto))
    left.args = (command,)


def handoff_events(left: ParentCommand, refinement: Refinement) -> tuple[Event, ...]:
    """Return what to publish of a handoff: where to, without any text."""
    return (Event("handover", {"attempt": refinement.number, "goto": _targets(left.args[0])}),)


def handoff_warnings(
    left: ParentCommand, refinement: Refinement, conversation: Sequence[AnyMessage], throttle: WarningThrottle
) -> tuple[Event, ...]:
    """Return the warning that an agent handed over with an answer, which nobody judged; none where it did not."""
    known = {_content_of(message) for message in conversation}
    answers = filter(_is_answer, _messages_in(left.args[0]))
    goto = _targets(left.args[0])
    unjudged = any(_content_of(message) not in known for message in answers)
    if not unjudged or not throttle.should_warn((_UNJUDGED_HANDOFF, *goto)):
        return ()
    figures = {"attempt": refinement.number, "goto": goto}
    return (Event(_UNJUDGED_HANDOFF, figures, streamed=False, level=logging.WARNING),)


def _content_of(message: BaseMessage) -> tuple[str, str]:
    return message.type, str(message.text)


def _is_answer(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and not message.tool_calls and bool(str(message.text).strip())


def _without(added: set[tuple[str, str]], update: Any) -> Any:
    """Return an update without the messages that the loop added to the prompt."""
    match update:
        case Mapping():
            return {key: _without(added, value) for key, value in update.items()}
        case list():
            return [_without(added, value) for value in update if not _is_added(value, added)]
        case (str() as key, value):
            return key, _without(added, value)
        case Send(node=node, arg=arg):
            return Send(node, _without(added, arg))
        case _:
            return update


def _goto_without(added: set[tuple[str, str]], goto: Any) -> Any:
    return tuple(_without(added, list(goto))) if isinstance(goto, tuple) else _without(added, goto)


def _is_added(value: object, added: set[tuple[str, str]]) -> bool:
    return isinstance(value, BaseMessage) and (MARK in value.additional_kwargs or _content_of(value) in added)


def _messages_in(value: object) -> Iterator[BaseMessage]:
    """Yield every message that a command hands over."""
    match value:
        case BaseMessage():
            yield value
        case Command(update=update, goto=goto):
            yield from _messages_in([update, goto])
        case Send(arg=arg):
            yield from _messages_in(arg)
        case Mapping():
            yield from _messages_in(list(value.values()))
        case list() | tuple():
            for part in value:
                yield from _messages_in(part)


def _targets(command: Command[Any]) -> list[str]:
    targets = command.goto if isinstance(command.goto, list | tuple) else [command.goto]
    return [target.node if isinstance(target, Send) else str(target) for target in targets]
