"""A circuit breaker for an upstream: while it does not answer, calls fail at once and say when to come again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from judges.errors import AskFailed
from judges.models.wrappers.breaker import Breaker
from refine.server.errors import ApiError


@dataclass(slots=True)
class CallResult:
    """How one call ended; set `failed` where the upstream did not answer, or answered that it cannot."""

    failed: bool = False


class UpstreamBreaker:
    """Opens after some failures in a row; after a cooldown one call is let through to try.

    Args:
        failures: How many failures in a row open the circuit; 0 never does.
        cooldown_s: Seconds until one call is let through again.
        clock: Monotonic clock in seconds, for tests.
    """

    def __init__(
        self, failures: int = 10, *, cooldown_s: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cooldown_s = cooldown_s
        self._breaker = Breaker(failures, cooldown_s=cooldown_s, clock=clock) if failures else None

    @contextmanager
    def call(self) -> Iterator[CallResult]:
        """Let a call through, and count how it ended; one that is cancelled does not count.

        Raises:
            ApiError: If the circuit is open.
        """
        result = CallResult()
        if self._breaker is None:
            yield result
            return
        try:
            probe = self._breaker.admit()
        except AskFailed:
            raise ApiError(
                503,
                f"the upstream does not answer; try again in {math.ceil(self._cooldown_s)} s",
                code="upstream_circuit_open",
                retry_after_s=self._cooldown_s,
            ) from None
        ended: BaseException | None = ConnectionError()
        try:
            yield result
            ended = ConnectionError() if result.failed else None
        except BaseException as error:
            ended = error
            raise
        finally:
            self._breaker.settle(ended, probe=probe)
