"""Reference trajectories in rows: a list of messages with the tool calls that should be made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from judges.messages import Message
from judges.rows.replies import is_messages

TRAJECTORY_KEYS = ("reference_trajectory", "expected_trajectory")
"""Columns of a reference trajectory, which become metadata."""


def read_trajectories(columns: dict[str, Any]) -> None:
    """Write reference trajectories as JSON; what is no list of messages stays as it is."""
    for name in TRAJECTORY_KEYS:
        messages = _messages(columns.get(name))
        if messages is not None:
            columns[name] = _as_json(messages)


def keep_trajectory(columns: dict[str, Any], reference: object) -> None:
    """Keep the messages of a reference as the reference trajectory, unless they are an answer alone.

    The reference itself is the text of such messages.
    """
    messages = _messages(reference) or ()
    if any(message.tool_calls or message.role in ("user", "tool") for message in messages):
        columns.setdefault(TRAJECTORY_KEYS[0], _as_json(messages))


def _messages(value: Any) -> tuple[Message, ...] | None:
    """Return messages that can be read; None for anything else."""
    if not is_messages(value):
        return None
    try:
        return tuple(Message.model_validate(message) for message in value)
    except ValidationError:
        return None


def _as_json(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [message.model_dump(mode="json", exclude_defaults=True) for message in messages]
