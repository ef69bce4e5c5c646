"""A circuit breaker: what every call to an endpoint that has failed often fails with at once."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from judges.errors import AskFailed, ConfigurationError, unfit
from judges.models.retry import is_transient, status_of
from judges.runtime.validation import SharedByCopies

_ALIVE = {409, 425, 429}
"""Transient statuses that a healthy endpoint returns, too."""


class Breaker(SharedByCopies):
    """A circuit breaker, for all the models of one endpoint.

    After some failures of the transport in a row every call fails at once, as `judge_failed`. When the cooldown
    has passed, one call is let through; if it is answered all are, and if not the cooldown begins again.

    Broken connections, timeouts and the statuses 408 and 5xx count as failures, each try by itself. A reply of any
    other kind, an error included, shows that the endpoint is alive. That holds for 429 too, which the
    `Limiter` handles: a busy endpoint is not a dead one.

    Args:
        failures: How many failures in a row open the circuit, at least 1.
        cooldown_s: Seconds until one call is let through again, above 0.
        clock: Monotonic clock in seconds, for tests.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    def __init__(
        self, failures: int = 5, *, cooldown_s: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if type(failures) is not int or failures < 1:
            raise unfit("failures is a whole number from 1", failures)
        if isinstance(cooldown_s, bool) or not 0 < cooldown_s < math.inf:
            raise unfit("cooldown_s is a number of seconds above 0", cooldown_s)
        self._most = failures
        self._cooldown = cooldown_s
        self._clock = clock
        self.failures = 0
        """How many calls in a row have failed."""
        self._opened = 0.0
        self._probing = False
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Breaker, self._most, cooldown_s=self._cooldown, clock=self._clock), ()  # closed at first

    def check(self) -> None:
        """Refuse a call that `admit` would refuse now, without admitting one.

        Raises:
            AskFailed: If the circuit is open.
        """
        with self._lock:
            self._refuse()

    def admit(self) -> bool:
        """Let a call through; `settle` must follow. Returns whether it is the one call that tries an open circuit.

        Raises:
            AskFailed: If the circuit is open.
        """
        with self._lock:
            self._refuse()
            self._probing = self.failures >= self._most
            return self._probing

    def settle(self, error: BaseException | None, *, probe: bool) -> None:
        """Record how an admitted call ended: with `error`, or None for a reply."""
        with self._lock:
            if probe:
                self._probing = False
            if error is None or _is_answer(error):
                self.failures = 0
            elif _is_outage(error):
                self.failures += 1
                if probe or self.failures == self._most:
                    self._opened = self._clock()

    @property
    def is_open(self) -> bool:
        """True if calls fail at once now, until the cooldown has passed."""
        return self.failures >= self._most and self._clock() < self._opened + self._cooldown

    def _refuse(self) -> None:
        if self.failures < self._most:
            return
        seconds_left = math.ceil(self._opened + self._cooldown - self._clock())
        if seconds_left > 0 or self._probing:
            when = f"next try in {seconds_left} s" if seconds_left > 0 else "one call is trying it now"
            raise AskFailed(
                "judge_failed", f"the endpoint is not answering ({self.failures} failures in a row); {when}"
            )


def _is_outage(error: BaseException) -> bool:
    return is_transient(error) and status_of(error) not in _ALIVE


def _is_answer(error: BaseException) -> bool:
    """Check whether a failed call was answered; one that was cancelled or never sent does not count."""
    never_sent = isinstance(error, AskFailed | ConfigurationError) or not isinstance(error, Exception)
    return not never_sent and not _is_outage(error)
