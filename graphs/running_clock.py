"""The clock of a refinement, which runs only while a step does."""

from __future__ import annotations

import time

from graphs.refinement import Refinement


class RunningClock:
    """The time from a refinement's last event on, in seconds since the epoch, by the monotonic clock.

    A change of the computer's clock, a wait for a human and a rest between two processes leave it as it was.

    Args:
        refinement: The record as the step begins.
    """

    def __init__(self, refinement: Refinement) -> None:
        self._at = refinement.started_at if refinement.updated_at is None else refinement.updated_at
        self._since = time.monotonic()

    def __call__(self) -> float:
        """Return the time."""
        return self._at + time.monotonic() - self._since
