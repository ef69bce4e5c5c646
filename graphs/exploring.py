"""Going on after an answer was accepted, to learn what a stricter policy would have come to.

The answer stays the one that was accepted; what follows are its shadows. How probable it was to go on is known, so
that offline the loops that went on stand for those that did not.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

from langchain_core.runnables import RunnableConfig

from graphs.attempt import Attempt
from graphs.augment import added_messages
from graphs.drivers import arun_step, run_step
from graphs.loop import Loop
from graphs.outcome import Outcome
from graphs.refinement import Refinement
from graphs.step import Node, Transition
from judges.runtime import flow

GoesOn = Callable[[], bool]
"""Decides, each time that an answer was accepted, whether to go on."""

_ENDS = frozenset({"accepted", "max_attempts", "no_progress"})
"""Stop reasons by which the policy ends a loop; by the others it breaks off."""

_SILENT: RunnableConfig = {"callbacks": []}
"""Nobody listens to shadows: they belong to no request any more."""


def explore(loop: Loop, outcome: Outcome, config: RunnableConfig, goes_on: GoesOn) -> Outcome | None:
    """Return the outcome with the shadows that `goes_on` lets be made, blocking; None if a shadow broke off.

    Args:
        loop: The loop it came from.
        outcome: What came of a question.
        config: Config of the run, for what its request overrides.
        goes_on: Asked after each acceptance.
    """
    shadows = _shadows(loop, outcome, config, goes_on)
    return _with(
        outcome,
        flow.run(shadows, lambda step: run_step(loop.steps[step[0]], step[1], outcome.conversation, _SILENT)),
    )


async def aexplore(loop: Loop, outcome: Outcome, config: RunnableConfig, goes_on: GoesOn) -> Outcome | None:
    """Return the outcome with its shadows, without blocking; otherwise as `explore`."""
    shadows = _shadows(loop, outcome, config, goes_on)
    return _with(
        outcome,
        await flow.arun(
            shadows, lambda step: arun_step(loop.steps[step[0]], step[1], outcome.conversation, _SILENT)
        ),
    )


def _shadows(
    loop: Loop, outcome: Outcome, config: RunnableConfig, goes_on: GoesOn
) -> Generator[tuple[Node, Refinement], Transition, tuple[Attempt, ...] | None]:
    begun = loop.begin({"messages": outcome.conversation, "evidence": outcome.evidence})
    refinement = replace(loop.overridden(begun, config), attempts=outcome.attempts, id=outcome.id, sampled=True)
    accepted = outcome.stop_reason == "accepted"
    while accepted and not refinement.is_last and goes_on():
        refinement = refinement.augmented(added_messages(refinement))
        while not refinement.done:
            refinement = (yield "generate", refinement).refinement
            if not refinement.done:
                refinement = (yield "judge", refinement).refinement
        if refinement.stop_reason not in _ENDS:
            return None
        accepted = refinement.stop_reason == "accepted"
        refinement = replace(refinement, stop_reason=None, detail="", ended_at=None)
    return refinement.attempts


def _with(outcome: Outcome, attempts: tuple[Attempt, ...] | None) -> Outcome | None:
    return None if attempts is None else outcome.model_copy(update={"attempts": attempts})
