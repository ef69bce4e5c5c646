"""A circuit breaker for an upstream: while it does not answer, calls fail at once and say when to come again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Self

from judges.errors import AskFailed
from judges.models.wrappers.breaker import Breaker
from refine.server.errors import ApiError


class CallResult:
    """How one call ended; set `failed` where the upstream did not answer, or answered that it cannot.

    Args:
        breaker: What counts it; None where nothing does.
        probe: Whether it is the one call that tries an open circuit.
    """

    __slots__ = ("_breaker", "_probe", "failed")

    def __init__(self, breaker: Breaker | None = None, *, probe: bool = False) -> None:
        self.failed = False
        self._breaker = breaker
        self._probe = probe

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, raised: BaseException | None, trace: object) -> None:
        if self._breaker is not None:
            ended = ConnectionError() if raised is None and self.failed else raised
            self._breaker.settle(ended, probe=self._probe)


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

    def call(self) -> CallResult:
        """Let a call through in a `with` block, and count how it ended; one that is cancelled does not count.

        Raises:
            ApiError: If the circuit is open.
        """
        if self._breaker is None:
            return CallResult()
        try:
            return CallResult(self._breaker, probe=self._breaker.admit())
        except AskFailed:
            raise ApiError(
                503,
                f"the upstream does not answer; try again in {math.ceil(self._cooldown_s)} s",
                code="upstream_circuit_open",
                retry_after_s=self._cooldown_s,
            ) from None
