"""Rate limits of an endpoint: one `Limiter` for all its callers, and models `limited` by it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from judges.errors import AskFailed, ConfigurationError, unfit
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models import retry
from judges.models.resolve import as_model
from judges.models.wrappers.breaker import Breaker
from judges.models.wrappers.wrapped import Wrapped
from judges.runtime import observation
from judges.runtime.validation import SharedByCopies, naming_settings

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


_Ending = TypeVar("_Ending", bound=ModelResponse | BaseException)

_OVERLOADED = {429, 503, 529}
"""Statuses of an overload. A refused connection does not count: the breaker handles it."""


class Limiter(SharedByCopies):
    """The limits of one endpoint, shared by any number of models, threads and event loops, online and offline.

    Calls are let through in the order of their arrival. How many may be in flight is halved when the endpoint
    answers 429, 503 or 529, and grows back by one with every round of successes. A `Retry-After` is waited for
    outside the limiter, by whoever repeats the call, so that its place is free meanwhile. Where an allowance has a
    deadline, nobody waits past it.

    The limits hold within this process. Sync code that blocks an event loop must not wait for a place held by
    calls on that same loop: they cannot end before it does.

    Args:
        in_flight: Most calls at once, at least 1.
        requests_per_minute: Most calls begun in any 60 seconds, at least 1; None for any number.
        tokens_per_minute: Most input and output tokens in any 60 seconds, at least 1; None for any number. A
            call's tokens are known after it: before, they are estimated from the length of its request and the
            usage of earlier requests. A call that exceeds the limit by itself goes alone.
        clock: Monotonic clock in seconds, for tests.

    Raises:
        ConfigurationError: If a limit is out of its range.
    """

    @naming_settings(
        "Limiter(8, requests_per_minute=60)",
        rpm="requests_per_minute",
        tpm="tokens_per_minute",
        max_concurrency="in_flight",
        concurrency="in_flight",
        max_in_flight="in_flight",
    )
    def __init__(
        self,
        in_flight: int,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = {"requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute}
        set_limits = {name: limit for name, limit in limits.items() if limit is not None}
        for name, limit in {"in_flight": in_flight, **set_limits}.items():
            if type(limit) is not int or limit < 1:
                raise unfit(f"{name} is a whole number from 1", limit)
        self._admission = AdmissionQueue(in_flight, requests=requests_per_minute, tokens=tokens_per_minute)
        self._is_paced = bool(set_limits)
        self._clock = clock
        self._skipped = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        raise ConfigurationError(
            "a Limiter is not pickled, since it counts the calls of its own process; give each process a share of "
            "the limits, in a Limiter of its own"
        )

    @property
    def allowed(self) -> int:
        """How many calls may be in flight now: from 1 to `in_flight`."""
        return self._admission.allowed

    @property
    def is_paced(self) -> bool:
        """True if calls or tokens a minute are limited."""
        return self._is_paced

    def enter(self, characters: int = 0) -> Ticket:
        """Wait for a place; `release` or `cancel` must follow.

        Args:
            characters: Length of the request.

        Raises:
            AskFailed: If there is none before the deadline.
        """
        woken = threading.Event()
        ticket = Ticket(characters, woken.set)
        with self._queued(ticket):
            while (seconds := self._ask(ticket, woken)) > 0:
                woken.wait(None if seconds == math.inf else seconds)
        return ticket

    async def aenter(self, characters: int = 0) -> Ticket:
        """Wait for a place without blocking; otherwise as `enter`."""
        at_once = Ticket(characters, _nobody_waits)
        if observation.seconds_left() is None and self._admission.admit(at_once):
            return at_once
        woken = asyncio.Event()
        ticket = Ticket(characters, partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set))
        with self._queued(ticket):
            while (seconds := self._ask(ticket, woken)) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if seconds == math.inf else seconds):
                        await woken.wait()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Give back the place of a call that was not sent."""
        self._admission.cancel(ticket)

    def release(self, ticket: Ticket, ending: ModelResponse | BaseException) -> None:
        """Give back the place of a call that ended with a response or an error."""
        if isinstance(ending, ModelResponse) and ending.usage.calls:
            self._admission.release(ticket, tokens=ending.usage.tokens)
        elif isinstance(ending, ModelResponse | AskFailed | ConfigurationError):
            self._admission.cancel(ticket)  # nothing was sent: a cache replied, or a wrapper refused
        else:
            self._admission.release(ticket, overloaded=retry.status_of(ending) in _OVERLOADED)

    @contextmanager
    def _queued(self, ticket: Ticket) -> Iterator[None]:
        self._admission.enqueue(ticket)
        try:
            yield
        except BaseException:
            self._admission.cancel(ticket)
            raise

    def _ask(self, ticket: Ticket, woken: threading.Event | asyncio.Event) -> float:
        """Return the seconds to wait before asking again: 0.0 if the ticket is admitted."""
        while True:
            woken.clear()  # before asking, so that no later change is missed
            seconds = self._admission.ask(ticket, self._clock() + self._skipped)
            seconds_left = observation.seconds_left()
            if seconds_left is not None and (seconds_left <= 0 or seconds_left <= seconds < math.inf):
                raise AskFailed("deadline", "the limits of the endpoint leave no place before the deadline")
            pause = retry.pause.get()
            if pause is None or not 0 < seconds < math.inf:
                return seconds if seconds_left is None else min(seconds, seconds_left)
            pause(seconds)
            self._skipped += seconds


def limited(
    model: object, limiter: Limiter, *, breaker: Breaker | None = None, temperature: float | None = 0.0
) -> JudgeModel:
    """Return a model whose calls keep the limits of its endpoint.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        limiter: The limits, shared by all the models of the endpoint.
        breaker: Fails calls at once while the endpoint is dead; shared likewise.
        temperature: Sampling temperature for models that set none; None keeps the provider's default.

    Raises:
        ConfigurationError: If `model` is not a model, or is limited by this limiter already.
    """
    inner = as_model(model, temperature=temperature)
    layer: object = inner
    while layer is not None:
        if getattr(getattr(layer, "middleware", None), "limiter", None) is limiter:
            raise ConfigurationError(f"the model {inner.name!r} is limited by this very limiter already")
        layer = getattr(layer, "model", None)
    return Wrapped(inner, _LimitMiddleware(limiter, breaker))


@dataclass(frozen=True, eq=False)
class _LimitMiddleware:
    """Send requests within the limits of their endpoint."""

    limiter: Limiter
    breaker: Breaker | None

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        self._check()
        flight = self._begin(self.limiter.enter(_length(request)))
        try:
            response = model.send(request)
        except BaseException as error:
            self._end(flight, error)
            raise
        return self._end(flight, response)

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        self._check()
        flight = self._begin(await self.limiter.aenter(_length(request)))
        try:
            response = await model.asend(request)
        except BaseException as error:
            self._end(flight, error)
            raise
        return self._end(flight, response)

    def _check(self) -> None:
        """Refuse to queue for a dead endpoint."""
        if self.breaker is not None:
            self.breaker.check()

    def _begin(self, ticket: Ticket) -> tuple[Ticket, bool]:
        try:
            return ticket, self.breaker is not None and self.breaker.admit()
        except AskFailed:
            self.limiter.cancel(ticket)
            raise

    def _end(self, flight: tuple[Ticket, bool], ending: _Ending) -> _Ending:
        ticket, probe = flight
        self.limiter.release(ticket, ending)
        if self.breaker is not None:
            self.breaker.settle(ending if isinstance(ending, BaseException) else None, probe=probe)
        return ending


def _nobody_waits() -> None:
    """Wake nobody: the ticket is admitted."""


def _length(request: ModelRequest) -> int:
    return sum([len(text) for _, text in request.messages])
