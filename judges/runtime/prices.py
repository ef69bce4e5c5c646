"""What model calls cost: prices of the user's own, and those that the genai-prices package lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidatorFunctionWrapHandler, WrapValidator

from judges.errors import ConfigurationError
from judges.verdict import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices


_DATED = re.compile(r"(?:[-@]\d{4}-?\d{2}-?\d{2}|[-@:]latest)$")


class Price(BaseModel):
    """What a model costs, in US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(ge=0)
    output: float = Field(ge=0)

    def of(self, usage: Usage) -> float:
        """Price a usage, in US dollars."""
        return (usage.input_tokens * self.input + usage.output_tokens * self.output) / 1_000_000


def priced(usage: Usage, model: str | None, prices: Mapping[str, Price]) -> Usage:
    """Put the cost on a usage; None where the model's price is unknown.

    A price is found by the model's name, with or without its provider and its date, so that `openai:gpt-5-mini`
    and `gpt-5-mini` both price `gpt-5-mini-2025-08-07`, and neither prices `gpt-5-mini-high`.
    """
    if usage.calls == 0:
        return usage.model_copy(update={"cost": 0.0})
    price = price_of(model, prices) if model else None
    return usage.model_copy(update={"cost": None if price is None else price.of(usage)})


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Find a model's price: under its own name, else under that of its family, else wherever `prices` looks."""
    by_name = {**{name.rpartition(":")[2]: price for name, price in prices.items()}, **prices}
    return by_name.get(model) or by_name.get(_DATED.sub("", model)) or prices.get(model)


def known_prices(own: Mapping[str, Price] | None = None) -> KnownPrices:
    """Give the prices of the models of public providers, as the installed genai-prices package lists them.

    Wherever prices are taken this may be given. The list is the package's own: nothing is fetched, so it is as old
    as the package. A model is looked up by the name its provider reports, or as `"provider:model"`; a model that
    is not listed, or not priced by tokens alone, stays unknown. A price is that of the day and of the standard
    service; a provider's discount on prompts it has seen before is not counted.

    A list knows names only: a model of yours that is called like a public one is taken for it. Give its price
    yourself, or `Price(input=0, output=0)` where it is free.

    Args:
        own: Prices by model name that go before the list's.

    Raises:
        ConfigurationError: If the package is not installed.
    """
    return KnownPrices(own or {})


class KnownPrices(Mapping[str, Price]):
    """Prices that know more names than they can enumerate: iterating gives only the user's own.

    Args:
        own: The user's own prices, which go first.

    Raises:
        ConfigurationError: If the genai-prices package is not installed.
    """

    def __init__(self, own: Mapping[str, Price]) -> None:
        try:
            from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - an extra, opened on demand
        except ImportError as error:
            raise ConfigurationError("to look prices up, install selfrefine[prices]") from error
        self._own = dict(own)
        self._list = get_snapshot  # asked for each time, so that a list the user has replaced counts
        self._list()

    def __getitem__(self, name: str) -> Price:
        price = price_of(name, self._own) or self._listed(name)
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

    def _listed(self, name: str) -> Price | None:
        before, colon, after = name.partition(":")
        provider, model = (before, after) if colon else (None, name)
        try:
            _, found = self._list().find_provider_model(model.removeprefix("models/"), None, provider, None)
        except LookupError:
            return None
        return _price(found.get_prices(datetime.now(UTC)))


def _kept(given: object, validate: ValidatorFunctionWrapHandler) -> object:
    return given if isinstance(given, KnownPrices) else validate(given)


Prices = Annotated[Mapping[str, Price], WrapValidator(_kept)]
"""A field of a pydantic model that takes a table of prices, or `known_prices()` as it is."""


class TieredPrice(Price):
    """A price that depends on how long the prompt is.

    Args:
        tiers: In ascending order, the prompt tokens above which a call costs more, and what all of it then costs.
    """

    tiers: tuple[tuple[int, Price], ...]

    def of(self, usage: Usage) -> float:
        """Price the usage of one call, in US dollars."""
        reached = [price for start, price in self.tiers if usage.input_tokens > start]
        return reached[-1].of(usage) if reached else super().of(usage)


def _price(listed: ModelPrice) -> Price | None:
    """Read a price from the list; None where one side is missing, or requests cost something too."""
    asked, written = listed.input_mtok, listed.output_mtok
    if asked is None or written is None or listed.requests_kcount is not None:
        return None
    starts = {tier.start for side in (asked, written) for tier in getattr(side, "tiers", ())}
    tiers = tuple(
        (start, Price(input=_above(start, asked), output=_above(start, written))) for start in sorted(starts)
    )
    return TieredPrice(input=_above(-1, asked), output=_above(-1, written), tiers=tiers)


def _above(start: int, side: Decimal | TieredPrices) -> float:
    """Give the rate of a prompt with more than `start` tokens, up to the next tier."""
    if isinstance(side, Decimal):
        return float(side)
    reached = [tier.price for tier in side.tiers if tier.start <= start]
    return float(reached[-1] if reached else side.base)
