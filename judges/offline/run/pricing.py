"""What the calls of a run cost, at as little cost of its own as may be: thousands of calls ask for one price."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from judges.runtime.budget import Allowance
from judges.runtime.prices import Price, price_of, with_cost
from judges.verdict import Usage


class RememberedPrices(Mapping[str, Price]):
    """Prices that are looked up once each."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = prices
        self._found: dict[str, Price | None] = {}

    def cost(self, usage: Usage, model: str) -> Usage:
        """Return the usage of a call with its cost; None where the model's price is unknown."""
        if model not in self._found:
            self._found[model] = price_of(model, self._prices)
        return usage if usage.cost is None and self._found[model] is None else with_cost(usage, model, self)

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

    def add(self, usage: Usage, model: str | None, key: Hashable = None, *, as_call: bool = True) -> Usage:
        """Return the usage of a call with its cost."""
        del key
        has_price = bool(usage.cost)  # a call of a batch was priced when it came
        priced = usage if model is None or has_price else self._remembered.cost(usage, model)
        return priced if as_call else priced.model_copy(update={"calls": 0})

    def fail(self, key: Hashable = None) -> None:
        """Record nothing."""

    def retries_left(self) -> bool:
        """Whether a call may be repeated: it may."""
        return True

    def retry(self) -> None:
        """Record nothing."""
