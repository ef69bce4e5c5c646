"""Copies for code that is not ours, so that whatever it does to a message changes nothing but its own copy.

A chat model of LangChain's packages only reads its messages, so that a long conversation costs nothing there; all
other generators, and the functions of a policy, get copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage

from graphs.refinement import Attempt, Refinement

M = TypeVar("M", bound=BaseMessage)

_UNCHANGEABLE = frozenset({str, int, float, bool, bytes, type(None)})


def copy_message(message: M) -> M:
    """Return a message that shares with another one only what cannot be changed."""
    twin = message.__copy__()
    fields = vars(twin)
    for name, value in fields.items():
        if type(value) is dict or type(value) is list:
            fields[name] = _copy_json(value)
    return twin


def _copy_json(value: Any) -> Any:
    """Copy dicts and lists all the way down; cheaper than `deepcopy` for what messages mostly hold."""
    if type(value) is dict:
        return {key: _copy_json(item) for key, item in value.items()} if value else {}
    if type(value) is list:
        return [_copy_json(item) for item in value]
    return value if type(value) in _UNCHANGEABLE else deepcopy(value)


def copy_messages(messages: Sequence[M]) -> list[M]:
    """Return copies of messages, in a new list."""
    return [copy_message(message) for message in messages]


def copy_refinement(refinement: Refinement) -> Refinement:
    """Return a refinement for a user's function, which may change the messages and evidence in it."""
    return replace(
        refinement,
        evidence=deepcopy(dict(refinement.evidence)),
        attempts=tuple(map(_copy_attempt, refinement.attempts)),
        added=tuple(copy_messages(refinement.added)),
    )


def _copy_attempt(attempt: Attempt) -> Attempt:
    return attempt.model_copy(
        update={
            "answer": copy_message(attempt.answer),
            "steps": tuple(copy_messages(attempt.steps)),
            "evidence": deepcopy(attempt.evidence),
            "unchosen": tuple(map(_copy_attempt, attempt.unchosen)),
        }
    )
