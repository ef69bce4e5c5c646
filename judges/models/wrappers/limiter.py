"""Not asking more of an endpoint than it takes: one `Limiter` for all who ask it, and models `limited` by it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from judges.errors import AskFailed, ConfigurationError
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models import retry
from judges.models.resolve import as_model
from judges.models.wrappers.admission import AdmissionQueue, Ticket
from judges.models.wrappers.breaker import Breaker
from judges.models.wrappers.wrapped import Wrapped
from judges.runtime import budget

Ending = TypeVar("Ending", bound=ModelResponse | BaseException)

_OVERLOADED = {429, 503, 529}
"""Statuses that say "too much". A refused connection does not: it is the breaker's business."""


class Limiter:
    """The limits of one endpoint, shared by any number of models, threads and event loops, online and offline.

    Calls are let through in the order in which they came. How many may be in flight is halved when the endpoint
    answers 429, 503 or 529, and grows back by one with every round of successes. A `Retry-After` is waited for
    outside, by whoever repeats the call, which gives its place to others meanwhile. Where an allowance has a
    deadline, nobody waits past it.

    The limits hold within this process. Sync code that blocks an event loop must not wait for a place that calls
    on that same loop hold: they cannot end before it does.

    Args:
        in_flight: Most calls at once, at least 1.
        requests_per_minute: Most calls begun in any 60 seconds, at least 1; None for any number.
        tokens_per_minute: Most input and output tokens in any 60 seconds, at least 1; None for any number. A
            call's tokens are known after it: before, they are guessed from the length of its request and what
            earlier requests came to. A call that needs more than there is goes alone.
        clock: Seconds that only grow, for tests.

    Raises:
        ConfigurationError: If a limit is out of its range.
    """

    def __init__(
        self,
        in_flight: int,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = {"requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        for name, limit in {"in_flight": in_flight, **given}.items():
            if type(limit) is not int or limit < 1:
                raise ConfigurationError(f"{name} is a whole number from 1, not {limit!r}")
        self._admission = AdmissionQueue(in_flight, requests=requests_per_minute, tokens=tokens_per_minute)
        self._clock = clock
        self._skipped = 0.0

    @property
    def allowed(self) -> int:
        """How many calls may be in flight now: from 1 to `in_flight`."""
        return self._admission.allowed

    def enter(self, characters: int = 0) -> Ticket:
        """Wait for a place; `release` or `cancel` must follow.

        Args:
            characters: How long the request is.

        Raises:
            AskFailed: If there is none before the deadline.
        """
        told = threading.Event()
        ticket = Ticket(characters, told.set)
        with self._queued(ticket):
            while (seconds := self._ask(ticket, told)) > 0:
                told.wait(None if seconds == math.inf else seconds)
        return ticket

    async def aenter(self, characters: int = 0) -> Ticket:
        """Wait for a place without blocking; otherwise as `enter`."""
        told = asyncio.Event()
        ticket = Ticket(characters, partial(asyncio.get_running_loop().call_soon_threadsafe, told.set))
        with self._queued(ticket):
            while (seconds := self._ask(ticket, told)) > 0:
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if seconds == math.inf else seconds):
                        await told.wait()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Give back the place of a call that was not made."""
        self._admission.cancel(ticket)

    def release(self, ticket: Ticket, ended: ModelResponse | BaseException) -> None:
        """Give back the place of a call, which ended with a reply or an error."""
        if isinstance(ended, ModelResponse) and ended.usage.calls:
            self._admission.release(ticket, tokens=ended.usage.tokens)
        elif isinstance(ended, ModelResponse | AskFailed | ConfigurationError):
            self._admission.cancel(ticket)  # nothing was sent: a cache replied, or somebody on the way refused
        else:
            self._admission.release(ticket, overloaded=retry.status_of(ended) in _OVERLOADED)

    @contextmanager
    def _queued(self, ticket: Ticket) -> Iterator[None]:
        self._admission.enqueue(ticket)
        try:
            yield
        except BaseException:
            self._admission.cancel(ticket)
            raise

    def _ask(self, ticket: Ticket, told: threading.Event | asyncio.Event) -> float:
        """Tell how long to wait before asking again: 0.0 if the ticket is through."""
        while True:
            told.clear()  # before asking, so that whatever changes afterwards is heard
            seconds = self._admission.ask(ticket, self._clock() + self._skipped)
            left = budget.seconds_left()
            if left is not None and (left <= 0 or left <= seconds < math.inf):
                raise AskFailed("deadline", "the limits of the endpoint leave no place before the deadline")
            pause = retry.pause.get()
            if pause is None or not 0 < seconds < math.inf:
                return seconds if left is None else min(seconds, left)
            pause(seconds)
            self._skipped += seconds


def limited(
    model: object, limiter: Limiter, *, breaker: Breaker | None = None, temperature: float | None = 0.0
) -> JudgeModel:
    """Give a model whose calls keep the limits of its endpoint.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        limiter: The limits, to be shared by all the models of the endpoint.
        breaker: Lets calls fail at once while the endpoint is dead; to be shared likewise.
        temperature: Asked of a model that leaves it open; None asks for nothing.

    Raises:
        ConfigurationError: If this is no model, or one that waits for a place in this limiter already.
    """
    given = as_model(model, temperature=temperature)
    held: object = given
    while held is not None:
        if getattr(getattr(held, "way", None), "limiter", None) is limiter:
            raise ConfigurationError(f"the model {given.name!r} is limited by this very limiter already")
        held = getattr(held, "model", None)
    return Wrapped(given, _Limited(limiter, breaker))


@dataclass(frozen=True, eq=False)
class _Limited:
    """The way to a model through its endpoint's limits."""

    limiter: Limiter
    breaker: Breaker | None

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        self._check()
        flight = self._begun(self.limiter.enter(_length(request)))
        try:
            reply = model.send(request)
        except BaseException as error:
            self._ended(flight, error)
            raise
        return self._ended(flight, reply)

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        self._check()
        flight = self._begun(await self.limiter.aenter(_length(request)))
        try:
            reply = await model.asend(request)
        except BaseException as error:
            self._ended(flight, error)
            raise
        return self._ended(flight, reply)

    def _check(self) -> None:
        """Queue up for no endpoint that is dead."""
        if self.breaker is not None:
            self.breaker.check()

    def _begun(self, ticket: Ticket) -> tuple[Ticket, bool]:
        try:
            return ticket, self.breaker is not None and self.breaker.admit()
        except AskFailed:
            self.limiter.cancel(ticket)
            raise

    def _ended(self, flight: tuple[Ticket, bool], ended: Ending) -> Ending:
        ticket, probe = flight
        self.limiter.release(ticket, ended)
        if self.breaker is not None:
            self.breaker.settle(ended if isinstance(ended, BaseException) else None, probe=probe)
        return ended


def _length(request: ModelRequest) -> int:
    return sum(len(text) for _, text in request.messages)
