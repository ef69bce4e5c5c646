"""The output of a generator: `Draft`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, AnyMessage
from pydantic import JsonValue

from judges.verdict import Usage


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The output of a generator.

    Args:
        answer: The answer.
        steps: Messages before the answer: tool calls and tool results.
        evidence: Fields of a sample that the generator returned, for instance `retrieved_contexts`.
        raw: The endpoint's own reply, where the generator is a direct client.
        calls: Each model call, as far as the messages report it: the model's name, and what the call consumed.
        fault: What makes the answer unfit to be released, as feedback to the generator: it is rejected, and no
            judge is asked.
        pending: Whether this is no answer yet: whoever runs the loop goes on with it, and then with the loop.
    """

    answer: AIMessage
    steps: tuple[AnyMessage, ...] = ()
    evidence: Mapping[str, JsonValue] = field(default_factory=dict)
    raw: dict[str, JsonValue] | None = None
    calls: tuple[tuple[str | None, Usage], ...] = ()
    fault: str = ""
    pending: bool = False
