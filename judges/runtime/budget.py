"""One budget over many model calls, shared by everything that runs inside it.

The loop sets an allowance around a generator or a judge. Every call is claimed from it: by the driver for a
judge's own model, by `judges.models.providers.llm_runs` for models that a chain or a function calls. It is part of
the observation, so concurrent requests never share one, and the members of a panel always do. An allowance inside
another one claims from both.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Hashable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from judges.errors import AskFailed, ConfigurationError, shortened, unfit
from judges.verdict import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices
    from pydantic._internal._model_construction import ModelMetaclass as _ModelType
else:
    _ModelType = type(BaseModel)  # it has no public name


EARLY_S = 0.01
"""How long before a deadline a timer may go off that was set to it."""

_EXAMPLE = "Price(input=0.25, output=2.0), US dollars per million tokens"

_DATED = re.compile(r"(?:[-@]\d{4}-?\d{2}-?\d{2}|[-@:]latest)$")


class _PriceType(_ModelType):
    """Makes prices, and reports in one line what is wrong with one that a user writes."""

    def __call__(cls, *unnamed: object, **rates: Any) -> Any:  # noqa: N805 - of a metaclass
        if unnamed:
            raise unfit(f"a price is {_EXAMPLE}, with both named", unnamed)
        try:
            return super().__call__(**rates)
        except ValidationError as error:
            raise ConfigurationError(_fault_of(error)) from None


class Price(BaseModel, metaclass=_PriceType):
    """The price of a model, in US dollars per million tokens.

    Args:
        input: Of the prompt.
        output: Of the reply.
        cached_input: Of what the provider read of the prompt from its cache; None is the price of the prompt.

    Raises:
        ConfigurationError: If one is missing, is negative or is no number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached_input: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @property
    def is_free(self) -> bool:
        """True if any number of tokens costs nothing."""
        return not self.input and not self.output

    def of(self, usage: Usage) -> float:
        """Return the cost of a usage, in US dollars."""
        cached = 0 if self.cached_input is None else usage.cached_input_tokens
        prompt = (usage.input_tokens - cached) * self.input + cached * (self.cached_input or 0.0)
        return (prompt + usage.output_tokens * self.output) / 1_000_000


def _checked_table(price_table: object) -> dict[str, Price]:
    if not isinstance(price_table, Mapping) or not all(isinstance(price, Price) for price in price_table.values()):
        raise unfit("known_prices takes a mapping {'model name': Price(...)}", price_table)
    return dict(price_table)


def _fault_of(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    name = ".".join(map(str, fault["loc"]))
    message = f"{fault['msg'][0].lower()}{fault['msg'][1:]}"
    return f"price {name}: {message} (given {shortened(fault['input'])}); a price is {_EXAMPLE}"


def with_cost(
    usage: Usage, model: str | None, prices: Mapping[str, Price], *, requested: str | None = None
) -> Usage:
    """Return a usage with its cost; None where the model's price is unknown.

    A price is looked up by the model's name, with or without its provider and its date, so that
    `openai:gpt-5-mini` and `gpt-5-mini` both price `gpt-5-mini-2025-08-07`, and neither prices `gpt-5-mini-high`.

    Args:
        usage: What the call consumed.
        model: Name of the model as the provider reported it.
        prices: Price by model name.
        requested: The name that was asked for, which prices a model that reports another one without a price, as
            llama.cpp reports the path of its file.
    """
    cost = 0.0 if usage.calls == 0 else _cost(usage, (model, requested), prices)
    return usage if cost == usage.cost else usage.model_copy(update={"cost": cost})


def _cost(usage: Usage, names: tuple[str | None, ...], prices: Mapping[str, Price]) -> float | None:
    price = next((price for name in names if name and prices and (price := price_of(name, prices))), None)
    if price is None or not (usage.tokens_known or price.is_free):
        return None
    return price.of(usage)


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Return a model's price: by its own name, else without its date, else by the lookup of `prices`."""
    by_name = {**{name.rpartition(":")[2]: price for name, price in prices.items()}, **prices}
    return by_name.get(model) or by_name.get(_DATED.sub("", model)) or prices.get(model)


def known_prices(own: Mapping[str, Price] | None = None) -> KnownPrices:
    """Return the prices of public providers' models, as listed by the installed genai-prices package.

    Pass the result wherever prices are accepted. The list is part of the package: nothing is fetched, so it is as
    old as the package. A model is looked up by the name its provider reports, or as `"provider:model"`; a model
    that is not listed, or not priced by tokens alone, stays unknown. Prices are today's, for the standard service,
    with the discount on what a provider reports to have read from its cache.

    The lookup is by name only: a model of yours that is named like a public one gets the public price. Set its
    price yourself, or `Price(input=0, output=0)` where it is free.

    Args:
        own: Prices by model name that take precedence over the list.

    Raises:
        ConfigurationError: If the package is not installed.
    """
    return KnownPrices(own or {})


class KnownPrices(Mapping[str, Price]):
    """Prices that can look up more names than they enumerate: iterating yields only the user's own.

    Args:
        own: The user's own prices, which take precedence.

    Raises:
        ConfigurationError: If the genai-prices package is not installed.
    """

    def __init__(self, own: Mapping[str, Price]) -> None:
        try:
            from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - an extra, imported on demand
        except ImportError as error:
            raise ConfigurationError("to look prices up, install selfrefine[prices]") from error
        self._own = _checked_table(own)
        self._list = get_snapshot  # called for each lookup, so that a list the user has replaced is used
        self._list()

    def __getitem__(self, name: str) -> Price:
        price = price_of(name, self._own) or self._listed_price(name)
        if price is None:
            raise KeyError(name)
        return price

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"known_prices({self._own!r})"

    def _listed_price(self, name: str) -> Price | None:
        before, colon, after = name.partition(":")
        provider, model = (before, after) if colon else (None, name)
        try:
            _, listed = self._list().find_provider_model(model.removeprefix("models/"), None, provider, None)
        except LookupError:
            return None
        return _price(listed.get_prices(datetime.now(UTC)))


def _validate_table(prices: object, validate: ValidatorFunctionWrapHandler) -> object:
    if isinstance(prices, str):
        if prices != "known":
            raise unfit(
                "prices are a mapping {'model name': Price(...)}, or 'known' for those of public "
                "providers' models",
                prices,
            )
        return known_prices()
    return prices if isinstance(prices, KnownPrices) else validate(prices)


Prices = Annotated[Mapping[str, Price], WrapValidator(_validate_table)]
"""A field of a pydantic model that accepts a table of prices, `known_prices()`, or `"known"`, which means that."""


class _TieredPrice(Price):
    """A price that depends on how long the prompt is.

    Args:
        tiers: In ascending order, prompt token limits, and the price of the whole call above each limit.
    """

    tiers: tuple[tuple[int, Price], ...]

    @property
    def is_free(self) -> bool:
        """True if any number of tokens costs nothing."""
        return super().is_free and all(price.is_free for _, price in self.tiers)

    def of(self, usage: Usage) -> float:
        """Return the cost of one call's usage, in US dollars."""
        reached = [price for start, price in self.tiers if usage.input_tokens > start]
        return reached[-1].of(usage) if reached else super().of(usage)


def _price(listed: ModelPrice) -> Price | None:
    """Convert a price of the list; None where one side is missing, or where requests have a price too."""
    input_rate, output_rate = listed.input_mtok, listed.output_mtok
    if input_rate is None or output_rate is None or listed.requests_kcount is not None:
        return None
    cached_rate = getattr(listed, "cache_read_mtok", None)
    rates = (input_rate, output_rate, *(() if cached_rate is None else (cached_rate,)))
    starts = {tier.start for rate in rates for tier in getattr(rate, "tiers", ())}

    def above(start: int) -> dict[str, float]:
        prices = {"input": _rate_above(start, input_rate), "output": _rate_above(start, output_rate)}
        return prices if cached_rate is None else {**prices, "cached_input": _rate_above(start, cached_rate)}

    tiers = tuple((start, Price(**above(start))) for start in sorted(starts))
    return _TieredPrice(**above(-1), tiers=tiers)


def _rate_above(start: int, rate: Decimal | TieredPrices) -> float:
    """Return the rate for a prompt with more than `start` tokens, up to the next tier."""
    if isinstance(rate, Decimal):
        return float(rate)
    reached = [tier.price for tier in rate.tiers if tier.start <= start]
    return float(reached[-1] if reached else rate.base)


_NOTHING = Usage()


class Refused(AskFailed):
    """A call that the allowance has no room for; it was not made."""


class CallStopped(BaseException):
    """Raised inside somebody's code in place of a call that was refused.

    It is no `Exception`, so that no retry, no fallback and no error handler of a tool goes on in spite of it.
    """


class Allowance:
    """The budget that is left, the prices to charge, and what was spent.

    Args:
        calls: Model calls left, or None for any number.
        tokens: Tokens left, or None.
        cost: US dollars left, or None.
        seconds: Time left from now, or None.
        retries: Repeats of calls whose transport failed that are left, or None for any number.
        prices: Price by model name; a call to any other model has no known cost.
        spent: What was consumed before; a budget that can no longer be kept allows no call.
        unpriced: Name of a model that was asked before and has no price, for the message.
        purpose: What the calls are for, to complete "the budget was spent before ...".
        may_be_left: Whether calls may be left before they end, as they are at a deadline.
    """

    def __init__(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        cost: float | None = None,
        seconds: float | None = None,
        retries: int | None = None,
        prices: Mapping[str, Price] | None = None,
        spent: Usage | None = None,
        unpriced: str | None = None,
        purpose: str = "the judge was asked",
        may_be_left: bool = False,
    ) -> None:
        self._may_be_left = may_be_left or seconds is not None
        self.prices = prices or {}
        self._purpose = purpose
        self._calls, self._tokens, self._cost, self._retries = calls, tokens, cost, retries
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._before = _NOTHING if spent is None else spent
        self._spent = _NOTHING
        self._in_flight = 0
        self._unpriced = unpriced
        self._refusal: Refused | None = None
        self._outer: Allowance | None = None
        self._state: Literal["open", "released", "closed"] = "open"
        self._keys: set[Hashable] = set()
        self._lock = threading.Lock()

    @property
    def seconds_left(self) -> float | None:
        """Time left, here and outside, or None where there is no deadline."""
        outer = None if self._outer is None else self._outer.seconds_left
        if self._deadline is None:
            return outer
        own = self._deadline - time.monotonic()
        return own if outer is None else min(own, outer)

    @property
    def spent(self) -> Usage:
        """What the calls inside consumed so far; the tokens of calls in flight are not known."""
        if self._in_flight <= 0:
            return self._spent
        return self._spent + _IN_FLIGHT.model_copy(update={"calls": self._in_flight})

    @property
    def may_be_left(self) -> bool:
        """True if calls inside may be left before they end, here or outside."""
        return self._may_be_left or (self._outer is not None and self._outer.may_be_left)

    @property
    def is_closed(self) -> bool:
        """True if every further call is refused."""
        return self._state == "closed"

    @property
    def refusal(self) -> Refused | None:
        """The first call that was refused, if any was."""
        return self._refusal

    def inside(self, outer: Allowance | None) -> Allowance:
        """Claim from `outer` too, from now on, and return this."""
        if outer is not self and self._outer is None:
            self._outer = outer
        return self

    def take(self, key: Hashable = None, *, as_call: bool = True) -> None:
        """Claim one call.

        Args:
            key: Identifies a call that several observers may claim; it is counted once.
            as_call: Whether it counts as a call; if not, it needs room in the other budgets only.

        Raises:
            Refused: If nothing is left; do not make the call then.
        """
        if self._state == "released" or not self._is_new(key):
            return
        try:
            self._check()
            self._claim(as_call=as_call)
            self._take_outside(key, as_call=as_call)
        except Refused as refusal:
            self._refusal = self._refusal or refusal
            raise

    def check(self) -> None:
        """Check that there is time left, and that nothing inside was stopped.

        Raises:
            Refused: If there is not; nothing may be begun then.
        """
        try:
            self._check()
        except Refused as refusal:  # by the first of them, who calls tells why it was stopped
            self._refusal = self._refusal or refusal
            raise

    def _check(self) -> None:
        if self._state == "closed":
            raise Refused("deadline", "nobody waits for an answer any more")
        seconds_left = None if self._state == "released" else self.seconds_left
        if seconds_left is not None and seconds_left <= 0:
            raise Refused("deadline", f"the deadline passed before {self._purpose}")
        if self._outer is not None:
            self._outer.check()

    def add(
        self,
        usage: Usage,
        model: str | None,
        key: Hashable = None,
        *,
        requested: str | None = None,
        as_call: bool = True,
    ) -> Usage:
        """Subtract the usage of a call to `model`, and return it with its cost.

        Args:
            usage: What the call consumed.
            model: Name of the model as the provider reported it, for its price.
            key: Identifies the call, as for `take`.
            requested: The name that was asked for, whose price counts where `model` has none.
            as_call: Whether it counts as a call, as for `take`.
        """
        whole = with_cost(usage, model, self.prices, requested=requested)
        usage = whole if as_call else _not_a_call(whole)
        if usage.cost is None and usage.tokens_known:
            self._unpriced = self._unpriced or requested or model
        if self._state == "released" or not self._is_new(None if key is None else (key, "usage")):
            return usage
        if self._outer is not None:
            self._outer.add(whole, model, key, requested=requested, as_call=as_call)
        with self._lock:
            self._spent += usage
            self._in_flight -= as_call
            if self._calls is not None:
                self._calls += as_call - usage.calls  # a reply from a cache returns its claim
            if self._tokens is not None:
                self._tokens -= usage.tokens
            if self._cost is not None:
                self._cost -= usage.cost or 0.0
        return usage

    def fail(self, key: Hashable = None) -> None:
        """Record that a claimed call failed: it counts, and consumed nothing that is known.

        Args:
            key: Identifies the call, as for `take`.
        """
        if self._state == "released" or not self._is_new(None if key is None else (key, "usage")):
            return
        if self._outer is not None:
            self._outer.fail(key)
        with self._lock:
            self._spent += Usage(calls=1)
            self._in_flight -= 1

    def retries_left(self) -> bool:
        """Return whether a call whose transport failed may be repeated once more."""
        return (self._retries is None or self._retries > 0) and (self._outer is None or self._outer.retries_left())

    def retry(self) -> None:
        """Claim one repeat of a call whose transport failed."""
        with self._lock:
            if self._retries is not None:
                self._retries -= 1
        if self._outer is not None:
            self._outer.retry()

    def release(self) -> None:
        """Count and refuse nothing any more: what was asked is answered."""
        if self._state == "open":
            self._state = "released"

    def close(self) -> None:
        """Refuse every further call: nobody waits for an answer any more."""
        if self._state == "open":
            self._state = "closed"

    def _take_outside(self, key: Hashable, *, as_call: bool) -> None:
        """Claim the call outside too; if it is refused there, it is not made, and the claim here is undone."""
        try:
            if self._outer is not None:
                self._outer.take(key, as_call=as_call)
        except Refused:
            with self._lock:
                self._in_flight -= as_call
                if self._calls is not None:
                    self._calls += as_call
            raise

    def _is_new(self, key: Hashable) -> bool:
        if key is None:
            return True
        with self._lock:
            is_new = key not in self._keys
            self._keys.add(key)
        return is_new

    def _claim(self, *, as_call: bool) -> None:
        limits = {"calls": self._calls if as_call else None, "tokens": self._tokens, "cost": self._cost}
        with self._lock:
            fault = unkept_budget(self._before + self._spent, **limits, unpriced=self._unpriced)
            if fault is not None:
                raise Refused("budget", fault)
            for limit, remaining in limits.items():
                if remaining is not None and remaining <= 0:
                    raise Refused("budget", f"the budget of {limit} was spent before {self._purpose}")
            self._in_flight += as_call
            if self._calls is not None:
                self._calls -= as_call


def unkept_budget(
    spent: Usage,
    *,
    calls: float | None = None,
    tokens: float | None = None,
    cost: float | None = None,
    unpriced: str | None = None,
) -> str | None:
    """Return why a budget cannot be kept after what was spent, in a line; None if it can.

    Args:
        spent: What was consumed.
        calls: The budget of calls; None is no budget.
        tokens: The budget of tokens.
        cost: The budget of cost.
        unpriced: Name of a model without a price, where it is known.
    """
    if tokens is not None and not spent.tokens_known:
        return f"{_UNREPORTED}, so max_tokens cannot be kept"
    if cost is not None and spent.cost is None:
        if not spent.tokens_known:
            return f"{_UNREPORTED}, so max_cost cannot be kept"
        whose = "a model's price" if unpriced is None else f"the price of {shortened(unpriced)}"
        return f"{whose} is unknown, so max_cost cannot be kept; add it to prices"
    if calls is not None and not spent.calls_known:
        return (
            "how many calls the generator made is unknown, so max_calls cannot be kept; call models through "
            "LangChain, or return an AIMessage with usage_metadata"
        )
    return None


_IN_FLIGHT = Usage(calls=1, cost=None, tokens_known=False)
_UNREPORTED = "the tokens of a call were not reported"


def charge(
    allowance: Allowance | None,
    usage: Usage,
    model: str | None,
    *,
    requested: str | None = None,
    as_call: bool = True,
) -> Usage:
    """Subtract a call's usage from an allowance, if there is one, and return it with its cost."""
    if allowance is None:
        priced = with_cost(usage, None, {})
        return priced if as_call else _not_a_call(priced)
    return allowance.add(usage, model, requested=requested, as_call=as_call)


def _not_a_call(usage: Usage) -> Usage:
    return usage.model_copy(update={"calls": 0})
