"""A generator's prompt, and what is made of a request's conversation once for all its attempts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage

T = TypeVar("T")


class Memo:
    """What was made of a request's conversation and attempts, for later steps; never stored."""

    def __init__(self) -> None:
        self._results: dict[str, tuple[Sequence[object], Any]] = {}

    def get(self, name: str, parts: Sequence[object], make: Callable[[], T]) -> T:
        """Return what was made of these very messages, or attempts, under a name; make it where it was not.

        Args:
            name: What is made.
            parts: Of what; at least one.
            make: Makes it.
        """
        before, result = self._results.get(name, ((), None))
        if len(before) != len(parts) or any(old is not new for old, new in zip(before, parts, strict=True)):
            result = make()
            self._results[name] = tuple(parts), result
        typed: T = result
        return typed


class Prompt(list[BaseMessage]):
    """The messages for a generator: the conversation, and those that a retry adds.

    Args:
        conversation: The conversation, unchanged in all attempts.
        added: The messages after it.
        memo: What was made of the conversation before.
    """

    def __init__(self, conversation: Sequence[BaseMessage], added: Sequence[BaseMessage], memo: Memo) -> None:
        super().__init__((*conversation, *added))
        self.conversation = conversation
        self.added = added
        self.memo = memo
