"""Recording with exploration: some loops go on after their answer was accepted, and are written down with that."""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from langchain_core.runnables import RunnableConfig

from graphs.augment import added_messages
from graphs.drivers import Flow, RunContext, adrive, drive
from graphs.loop import Loop
from graphs.outcome import Outcome
from judges import ConfigurationError
from judges.errors import shortened
from judges.runtime.faults import logging_safely

_GoesOn = Callable[[], bool]
"""Decides, each time that an answer was accepted, whether to go on."""

_ENDS = frozenset({"accepted", "max_attempts", "no_progress"})
"""Stop reasons by which the policy ends a loop; by the others it breaks off."""

_SILENT: RunnableConfig = {"callbacks": []}
"""Nobody listens to shadows: they belong to no request any more."""


def explore(loop: Loop, outcome: Outcome, config: RunnableConfig, goes_on: _GoesOn) -> Outcome | None:
    """Return the outcome with the shadows that `goes_on` lets be made, blocking; None if a shadow broke off.

    Args:
        loop: The loop it came from.
        outcome: What came of a question.
        config: Config of the run, for what its request overrides.
        goes_on: Asked after each acceptance.
    """
    return drive(_explored(loop, outcome, config, goes_on), RunContext(_SILENT))


async def _aexplore(loop: Loop, outcome: Outcome, config: RunnableConfig, goes_on: _GoesOn) -> Outcome | None:
    """Return the outcome with its shadows, without blocking; otherwise as `explore`."""
    return await adrive(_explored(loop, outcome, config, goes_on), RunContext(_SILENT))


def _explored(loop: Loop, outcome: Outcome, config: RunnableConfig, goes_on: _GoesOn) -> Flow[Outcome | None]:
    """Go on after each acceptance, as often as `goes_on` says; return None if an attempt broke off."""
    context, conversation = RunContext(_SILENT), outcome.conversation
    begun = loop.override(loop.begin({"messages": outcome.conversation}), RunContext(config).overrides)
    refinement = replace(
        begun, attempts=outcome.attempts, evidence=outcome.evidence, id=outcome.id, is_judged=True
    )
    accepted = outcome.stop_reason == "accepted"
    while accepted and not refinement.is_last and goes_on():
        refinement = refinement.add_messages(added_messages(refinement))
        while not refinement.done:
            refinement = (yield from loop.step("generate", refinement, conversation, context)).refinement
            if not refinement.done:
                refinement = (yield from loop.step("judge", refinement, conversation, context)).refinement
        if refinement.stop_reason not in _ENDS:
            return None
        accepted = refinement.stop_reason == "accepted"
        refinement = replace(refinement, stop_reason=None, detail="", ended_at=None)
    return outcome.model_copy(update={"attempts": refinement.attempts})


_log = logging.getLogger("refine")

_Write = Callable[[Outcome, RunnableConfig, float | None], None]
_AWrite = Callable[[Outcome, RunnableConfig, float | None], Awaitable[None]]


class Explorer:
    """Lets accepted loops go on with a probability, and records what comes of it.

    Args:
        probability: Of going on after each acceptance.
        loop: The loop.
    """

    def __init__(self, probability: float, loop: Loop) -> None:
        self._probability, self._loop = probability, loop

    @classmethod
    def of(cls, probability: object, loop: Loop, *, checkpointer: object, record: object) -> Self | None:
        """Return an explorer; None where nothing is to be explored.

        Raises:
            ConfigurationError: If the probability is out of range, nothing is recorded, or the loop cannot go on.
        """
        if probability is None:
            return None
        if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 < probability <= 1:
            raise ConfigurationError(
                f"explore is a probability above 0 and at most 1, not {shortened(probability)}"
            )
        if record is None:
            raise ConfigurationError("explore is for a record: give record='attempts.jsonl', too")
        if checkpointer:
            raise ConfigurationError("explore records without a checkpointer; leave one of the two out")
        policy = loop.policy
        if policy.shadow or policy.candidates > 1 or policy.on_exhausted == "interrupt":
            raise ConfigurationError(
                "explore goes with a loop of one candidate, without shadow=True or on_exhausted='interrupt'; "
                "leave explore out, or these"
            )
        return cls(float(probability), loop)

    def record(self, outcome: Outcome, config: RunnableConfig, write: _Write) -> None:
        """Explore and record an outcome; if exploring fails it is recorded as it is, which is logged."""
        explored = None
        with _logging_failure():
            explored = explore(self._loop, outcome, config, self._goes_on)
            _check(explored)
        write(explored or outcome, config, None if explored is None else self._probability)

    async def arecord(self, outcome: Outcome, config: RunnableConfig, write: _AWrite) -> None:
        """Explore and record without blocking; otherwise as `record`."""
        explored = None
        with _logging_failure():
            explored = await _aexplore(self._loop, outcome, config, self._goes_on)
            _check(explored)
        await write(explored or outcome, config, None if explored is None else self._probability)

    def _goes_on(self) -> bool:
        return random.random() < self._probability  # noqa: S311 - no secret


class _BrokeOff(Exception):  # noqa: N818 - never leaves this module
    """A shadow ended before its policy had it end."""


def _check(explored: Outcome | None) -> None:
    if explored is None:
        raise _BrokeOff


@contextmanager
def _logging_failure() -> Iterator[None]:
    """Log what fails: the answer is there, and must go out."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - as said
        reason = "an attempt failed" if isinstance(error, _BrokeOff) else type(error).__name__
        with logging_safely():
            _log.warning("a loop could not be explored, and is recorded as it was released: %s", reason)
