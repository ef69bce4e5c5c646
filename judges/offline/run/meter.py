"""The model calls of a run: bounded, counted and priced, and ended where further ones are in vain."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from functools import partial

from judges.errors import ConfigurationError, JudgesError, one_line
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models import retry
from judges.models.prompt_and_reply import tokens_of
from judges.models.providers.http_errors import error_in
from judges.models.wrappers.limiter import Limiter, Ticket
from judges.offline.run.estimate import REPLY_TOKENS
from judges.runtime.budget import Allowance
from judges.runtime.prices import Price, price_of, with_cost
from judges.verdict import Usage


class RememberedPrices(Mapping[str, Price]):
    """Prices that are looked up once each."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = prices
        self._found: dict[str, Price | None] = {}

    def cost(self, usage: Usage, model: str | None, requested: str | None = None) -> Usage:
        """Return the usage of a call with its cost, by either name; None where it is unknown."""
        priced = next(
            (name for name in (model, requested) if name is not None and self.get(name) is not None), None
        )
        return usage if usage.cost is None and priced is None else with_cost(usage, priced, self)

    def __getitem__(self, name: str) -> Price:
        if name not in self._found:
            self._found[name] = price_of(name, self._prices)
        price = self._found[name]
        if price is None:
            raise KeyError(name)
        return price

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return len(self._prices)

    def __bool__(self) -> bool:
        return True


class PricesAlone(Allowance):
    """An allowance without limits that counts nothing: it tells what calls cost. The meter of the run counts them.

    Args:
        prices: Prices by model name.
    """

    def __init__(self, prices: RememberedPrices) -> None:
        super().__init__(prices=prices)
        self._remembered = prices

    def take(self, key: Hashable = None, *, as_call: bool = True) -> None:
        """Claim nothing."""

    def check(self) -> None:
        """Refuse nothing."""

    def add(
        self,
        usage: Usage,
        model: str | None,
        key: Hashable = None,
        *,
        requested: str | None = None,
        as_call: bool = True,
    ) -> Usage:
        """Return the usage of a call with its cost."""
        del key
        has_price = bool(usage.cost)  # a call of a batch was priced when it came
        priced = (
            usage if (model or requested) is None or has_price else self._remembered.cost(usage, model, requested)
        )
        return priced if as_call else priced.model_copy(update={"calls": 0})

    def fail(self, key: Hashable = None) -> None:
        """Record nothing."""

    def retries_left(self) -> bool:
        """Return whether a call may be repeated: it may."""
        return True

    def retry(self) -> None:
        """Record nothing."""


_HOPELESS = {401, 403, 404}
_OVERLOADED = {429, 503, 529}
_PATIENCE = 60
"""How often a call that met an overload is repeated; with a wait of up to 8 s before each, or the provider's."""

_PRICE_PAUSE_S = 0.01
_NO_SUCH_MODEL = re.compile(
    r"model\W.{0,200}\b(?:not found|not exist|unknown|no such|invalid)|(?:unknown|invalid|no such) model|"
    r"model_not_found",
    re.IGNORECASE | re.DOTALL,
)


class RunStopped(ConfigurationError):  # noqa: N818 - names what happened
    """A run has reached a limit of its own; all that was judged is in its journal, and it can be resumed."""

    exit_code = 3


def unpriced(model: str) -> ConfigurationError:
    """Return the error for a limit of cost that cannot be kept."""
    return ConfigurationError(
        f"what the model {model!r} costs is unknown, so --max-cost cannot be kept; give its price by --prices "
        f"FILE, or leave the limit out"
    )


class CallMeter:
    """All calls of a run: at most so many at once and a minute, and no more than allowed.

    Args:
        limiter: Limits of calls in flight, calls a minute and tokens a minute; slows down at an overload.
        prices: Price by model name.
        max_calls: Most calls, or None for any number.
        max_cost: Most US dollars, or None. For each call in flight is set aside what it costs with a long reply,
            and at least as much as the dearest call so far. Where no room is left for another, calls are made one
            by one, so that the limit is exceeded at most by what the last costs more than any before it.
    """

    def __init__(
        self,
        limiter: Limiter,
        *,
        prices: RememberedPrices,
        max_calls: int | None = None,
        max_cost: float | None = None,
    ) -> None:
        self.limiter, self.prices = limiter, prices
        self.max_calls, self.max_cost = max_calls, max_cost
        self.stopped: ConfigurationError | None = None
        self.calls = 0
        self.in_flight = 0
        self.cost: float | None = 0.0
        self._dearest: float | None = None
        self._set_aside = 0.0
        self._lock = threading.Lock()

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request within the limits, again and again where the endpoint is overloaded."""
        try:
            return self._send(model, request)
        except Exception as error:
            if not _is_overload(error):
                raise self.failure(error, model) from error
            return retry.persist(partial(self._send, model, request), error, _PATIENCE)

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Send a request without blocking; otherwise as `send`."""
        try:
            return await self._asend(model, request)
        except Exception as error:
            if not _is_overload(error):
                raise self.failure(error, model) from error
            return await retry.apersist(partial(self._asend, model, request), error, _PATIENCE)

    @property
    def is_limited(self) -> bool:
        """True if anything but the calls at once is limited."""
        return self.limiter.is_paced or self.max_calls is not None or self.max_cost is not None

    def add(self, usage: Usage) -> None:
        """Count calls that were made elsewhere; no further call is made once they exceed a limit."""
        with self._lock:
            self.calls += usage.calls
            self.cost = None if usage.cost is None or self.cost is None else self.cost + usage.cost
            if self.max_calls is not None and self.calls > self.max_calls:
                self.stopped = self.stopped or RunStopped(
                    f"stopped after {self.calls} calls, as --max-calls {self.max_calls} says"
                )
            if self.max_cost is not None and (self.cost or 0.0) > self.max_cost:
                self.stopped = self.stopped or RunStopped(
                    f"stopped at ${self.cost:.4f} after {self.calls} calls, as --max-cost {self.max_cost:g} says"
                )

    def stop(self, reason: ConfigurationError) -> ConfigurationError:
        """Refuse every further call, and return the first reason for that."""
        with self._lock:
            self.stopped = self.stopped or reason
            return self.stopped

    def _send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        ticket = self.limiter.enter(self._length(request))
        expected = self._expected_cost(model, request)
        try:
            while (share := self._claim(expected)) is None:
                time.sleep(_PRICE_PAUSE_S)
        except BaseException:
            self.limiter.cancel(ticket)
            raise
        try:
            response = model.send(request)
        except BaseException as error:
            self._settle(ticket, error, model, share)
            raise
        self._settle(ticket, response, model, share)
        return response

    async def _asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        ticket = await self.limiter.aenter(self._length(request))
        expected = self._expected_cost(model, request)
        try:
            while (share := self._claim(expected)) is None:  # noqa: ASYNC110 - threads settle calls, too
                await asyncio.sleep(_PRICE_PAUSE_S)
        except BaseException:
            self.limiter.cancel(ticket)
            raise
        try:
            response = await model.asend(request)
        except BaseException as error:
            self._settle(ticket, error, model, share)
            raise
        self._settle(ticket, response, model, share)
        return response

    def _length(self, request: ModelRequest) -> int:
        """Return the length of a request; it is of interest only where tokens are limited."""
        return sum([len(text) for _, text in request.messages]) if self.limiter.is_paced else 0

    def _expected_cost(self, model: JudgeModel, request: ModelRequest) -> float:
        """Return what a call with a long reply costs; 0.0 without a limit of cost, or a known price."""
        if self.max_cost is None:
            return 0.0
        usage = Usage(calls=1, input_tokens=round(tokens_of(request)[1]), output_tokens=REPLY_TOKENS[1], cost=None)
        return self.prices.cost(usage, model.name).cost or 0.0

    def _claim(self, expected: float) -> float | None:
        """Count a call to be made, and return the cost set aside for it; None if it must wait for others to end.

        Args:
            expected: What it costs with a long reply.

        Raises:
            ConfigurationError: If no further call may be made.
        """
        with self._lock:
            if self.stopped is None and self.max_calls is not None and self.calls >= self.max_calls:
                self.stopped = RunStopped(
                    f"stopped after {self.calls} calls, as --max-calls {self.max_calls} says"
                )
            share = max(expected, self._dearest or 0.0)
            if self.stopped is None and self.max_cost is not None and not self._fits(share):
                if self.in_flight:
                    return None
                self.stopped = RunStopped(
                    f"stopped at ${self.cost:.4f} after {self.calls} calls, since a further one may exceed "
                    f"--max-cost {self.max_cost:g}"
                )
            if self.stopped is not None:
                raise self.stopped
            self.calls += 1
            self.in_flight += 1
            self._set_aside += share
            return share

    def _fits(self, share: float) -> bool:
        """Return whether one more call fits the limit of cost: beside those in flight, or alone."""
        if self._dearest is None:
            return not self.in_flight
        if not self.in_flight:
            self._set_aside, share = 0.0, self._dearest  # without what rounding has left
        return (self.cost or 0.0) + self._set_aside + share <= (self.max_cost or 0.0)

    def _settle(
        self, ticket: Ticket, ending: ModelResponse | BaseException, model: JudgeModel, share: float
    ) -> None:
        self.limiter.release(ticket, ending)
        with self._lock:
            self.in_flight -= 1
            self._set_aside -= share
            if isinstance(ending, ModelResponse):
                self._charge(ending, model)
            elif _is_overload(ending):
                self.calls -= 1  # refused before any work, and not billed

    def _charge(self, response: ModelResponse, model: JudgeModel) -> None:
        name = response.model or model.name
        cost = self.prices.cost(response.usage, name).cost
        if cost is None and self.max_cost is not None:
            self.stopped = self.stopped or unpriced(name)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        if response.usage.calls:
            self._dearest = max(self._dearest or 0.0, cost or 0.0)

    def failure(self, error: Exception, model: JudgeModel) -> Exception:
        """Return what to raise for a failed call: an end of the run where every further one would fail alike."""
        if isinstance(error, ConfigurationError):
            return self.stop(error)
        status = retry.status_of(error)
        if status not in _HOPELESS and not (status in {400, 422} and _NO_SUCH_MODEL.search(_message_of(error))):
            return error
        remedy = "check the key" if status in {401, 403} else "check the model's name and the address"
        reason = f": {one_line(error)}" if isinstance(error, JudgesError) else ""
        return self.stop(
            ConfigurationError(
                f"the endpoint of {model.name!r} refuses all calls (status {status}); {remedy}{reason}"
            )
        )


def _message_of(error: Exception) -> str:
    """Return what an endpoint said, to look for words in it; the message itself hides those of the prompt."""
    upstream = getattr(error, "upstream", None)
    return str(error) if upstream is None else error_in(upstream.body)


def _is_overload(error: BaseException) -> bool:
    return retry.status_of(error) in _OVERLOADED
