"""What models cost: a price by name, those of a public list, and the cost of what was consumed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from judges.errors import ConfigurationError, shortened, unfit
from judges.verdict import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices
    from pydantic._internal._model_construction import ModelMetaclass as _ModelType
else:
    _ModelType = type(BaseModel)  # it has no public name


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
