"""What a step of the loop is: a generator that yields an `Effect` to run, and returns a `Transition`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig

from graphs.errors import Unanswered
from graphs.outcome import Outcome
from graphs.progress import Event
from graphs.refinement import Refinement
from judges.runtime.budget import Allowance
from judges.verdict import Usage

Messages = Sequence[AnyMessage]
Node = Literal["generate", "judge", "finish"]


@dataclass(slots=True, kw_only=True)
class Transition:
    """What a step ends in.

    Args:
        refinement: The record from now on.
        goto: The next node; None ends.
        update: What to put into the graph's visible state.
        events: Makes the events to publish, where anybody listens.
        outcome: The whole record, once there is an answer.
        alarms: Warnings for the log.
        error: Raised once the events are published; nothing is recorded then.
        refusal: Raised once the transition is recorded: there is no answer.
    """

    refinement: Refinement
    goto: Node | None = None
    update: Mapping[str, Any] | None = None
    events: Callable[[], tuple[Event, ...]] = tuple
    outcome: Outcome | None = None
    alarms: tuple[Event, ...] = ()
    error: Exception | None = None
    refusal: Unanswered | None = None


@dataclass(slots=True, kw_only=True)
class Effect:
    """A call that a step needs: to the generator, the judge or a reviewer.

    Args:
        run: Makes the call, blocking.
        arun: Makes it without blocking.
        config: What the call inherits.
        seconds: Longest wait, or None.
        allowance: What its model calls are claimed from, or None.
        attempt: Number of the attempt that it generates; None where it does something else.
        events: Makes the events to publish before the call, where anybody listens.
    """

    run: Callable[[], Any]
    arun: Callable[[], Awaitable[Any]]
    config: RunnableConfig
    seconds: float | None = None
    events: Callable[[], tuple[Event, ...]] = tuple
    allowance: Allowance | None = None
    attempt: int | None = None

    @property
    def spent(self) -> Usage:
        """What was claimed so far."""
        return Usage() if self.allowance is None else self.allowance.spent

    def abandon(self) -> None:
        """Let the call, which nobody waits for any more, ask no model and use no tool from now on."""
        if self.allowance is not None:
            self.allowance.close()


Step = Callable[[Refinement, Messages, RunnableConfig], Generator[Effect, Any, Transition]]
"""What a step is: record, conversation and config in; a generator of effects out, which returns a transition."""
