"""Deciding who may call an endpoint now, first come, first served, without waiting and without a clock."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

MINUTE_S = 60.0

_TOKENS_PER_CHARACTER = 0.25
"""Assumed cost of a call before any reply has reported its usage: a quarter is usual for English."""
_WEIGHT = 0.1
"""Weight of one reply in the average of tokens per character."""


@dataclass(eq=False, slots=True)
class _Charge:
    """What one call takes of a minute's limit; `at` is None once the minute is over."""

    at: float | None
    amount: int


class _Window:
    """The charges of the last 60 seconds, never above the limit as far as they are known.

    A token bucket would let twice its limit through in its first minute, and a provider that counts by the minute
    would refuse the excess.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._entries: deque[_Charge] = deque()

    def wait(self, amount: int, now: float) -> float:
        """Return in how many seconds `amount` fits; more than the limit fits into an empty minute."""
        while self._entries and self._left(self._entries[0], now) <= 0:
            entry = self._entries.popleft()
            self._taken -= entry.amount
            entry.at = None
        excess = self._taken + min(amount, self._limit) - self._limit
        wait = 0.0
        for entry in self._entries:
            if excess <= 0:
                break
            excess -= entry.amount
            wait = self._left(entry, now)
        return wait

    def take(self, amount: int, now: float) -> _Charge:
        entry = _Charge(now, amount)
        self._entries.append(entry)
        self._taken += amount
        return entry

    def correct(self, entry: _Charge, amount: int) -> None:
        if entry.at is not None:
            self._taken += amount - entry.amount
        entry.amount = amount

    @staticmethod
    def _left(entry: _Charge, now: float) -> float:
        return -math.inf if entry.at is None else entry.at + MINUTE_S - now


@dataclass(eq=False, slots=True)
class Ticket:
    """A place in the queue, and then a call in flight.

    Args:
        characters: Length of the request, from which its tokens are estimated.
        wake: Called, from any thread, when asking again may succeed; raises RuntimeError if nobody waits any
            more.
    """

    characters: int
    wake: Callable[[], object]
    generation: int = 0
    in_flight: bool = False
    request: _Charge | None = None
    tokens: _Charge | None = None


class AdmissionQueue:
    """Queue that limits calls at once, calls per minute and tokens per minute.

    The number of calls allowed at once is halved when the endpoint reports an overload, once for all the calls
    that were in flight together, and grows by one after as many successes as are allowed at once (AIMD, as in
    TCP: RFC 5681).

    Args:
        in_flight: Most calls at once.
        requests: Most calls begun in any 60 seconds, or None for any number.
        tokens: Most tokens in any 60 seconds, or None for any number. What a call consumes is known after it;
            before, it is estimated from the length of its request and the usage of earlier requests.
    """

    def __init__(self, in_flight: int, *, requests: int | None = None, tokens: int | None = None) -> None:
        self._most = self.allowed = in_flight
        self._requests = None if requests is None else _Window(requests)
        self._tokens = None if tokens is None else _Window(tokens)
        self._per_character = _TOKENS_PER_CHARACTER
        self._queue: OrderedDict[Ticket, None] = OrderedDict()
        self._in_flight = 0
        self._generation = 0
        self._successes = 0
        self._lock = threading.Lock()

    def enqueue(self, ticket: Ticket) -> None:
        """Add a ticket at the end of the queue."""
        with self._lock:
            self._queue[ticket] = None

    def admit(self, ticket: Ticket) -> bool:
        """Admit a ticket at once, if nobody waits, a place is free and there are no limits a minute."""
        with self._lock:
            if self._queue or self._in_flight >= self.allowed or self._requests or self._tokens:
                return False
            ticket.in_flight, ticket.generation = True, self._generation
            self._in_flight += 1
            return True

    def ask(self, ticket: Ticket, now: float) -> float:
        """Admit a ticket and return 0.0 if it may go; else return the seconds to wait, infinite until woken."""
        with self._lock:
            if next(iter(self._queue)) is not ticket or self._in_flight >= self.allowed:
                return math.inf
            expected = round(ticket.characters * self._per_character)
            wait = max(
                self._requests.wait(1, now) if self._requests else 0.0,
                self._tokens.wait(expected, now) if self._tokens else 0.0,
            )
            if wait > 0:
                return wait
            del self._queue[ticket]
            ticket.request = self._requests.take(1, now) if self._requests else None
            ticket.tokens = self._tokens.take(expected, now) if self._tokens else None
            ticket.in_flight, ticket.generation = True, self._generation
            self._in_flight += 1
            self._wake_first()
            return 0.0

    def cancel(self, ticket: Ticket) -> None:
        """Give back a place in the queue, or one in flight whose call was not sent."""
        with self._lock:
            self._queue.pop(ticket, None)
            if ticket.in_flight:
                self._charge(ticket, requests=0, tokens=0)
                self._release(ticket)
            self._wake_first()

    def release(self, ticket: Ticket, *, tokens: int | None = None, overloaded: bool = False) -> None:
        """Record the end of a call: the tokens of its reply, or None if it failed, perhaps by an overload."""
        with self._lock:
            if tokens is not None:
                self._charge(ticket, requests=1, tokens=tokens)
                self._learn(ticket, tokens)
            self._release(ticket)
            if ticket.generation == self._generation:
                if overloaded:
                    self.allowed = max(1, self.allowed // 2)
                    self._generation += 1
                    self._successes = 0
                elif tokens is not None:
                    self._recover()
            self._wake_first()

    def _recover(self) -> None:
        self._successes += 1
        if self._successes >= self.allowed:
            self._successes = 0
            self.allowed = min(self._most, self.allowed + 1)

    def _release(self, ticket: Ticket) -> None:
        ticket.in_flight = False
        self._in_flight -= 1

    def _charge(self, ticket: Ticket, *, requests: int, tokens: int) -> None:
        if self._requests and ticket.request:
            self._requests.correct(ticket.request, requests)
        if self._tokens and ticket.tokens:
            self._tokens.correct(ticket.tokens, tokens)

    def _learn(self, ticket: Ticket, tokens: int) -> None:
        if ticket.characters:
            self._per_character += _WEIGHT * (tokens / ticket.characters - self._per_character)

    def _wake_first(self) -> None:
        while self._queue:
            first = next(iter(self._queue))
            try:
                first.wake()
            except RuntimeError:  # its event loop is closed: nobody waits for this place
                del self._queue[first]
            else:
                return
