"""Prices come from an installed list or from the user, and unknown prices stay unknown."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

import pytest
from genai_prices import Usage as ListedUsage
from genai_prices import calc_price
from pydantic import BaseModel, ValidationError

from judges import ConfigurationError, Helpfulness, Price, Usage, known_prices
from judges.runtime.budget import Allowance, KnownPrices, Prices, charge, with_cost, within
from judges.testing import ScriptedModel
from tests.laws import for_every

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
MILLION = 1_000_000
LISTED = [
    "gpt-5-mini",
    "gpt-5-mini-2025-08-07",
    "gpt-4.1-nano-2025-04-14",
    "o3",
    "claude-sonnet-4-5-20250929",
    "gemini-2.5-pro",
    "gemini-2.5-flash",
    "mistral-small-latest",
    "command-r",
]


def cost(
    model: str | None, prices: Mapping[str, Price], *, input_tokens: int = 1000, output_tokens: int = 100
) -> float | None:
    """Return the cost of one call."""
    return with_cost(Usage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens), model, prices).cost


@for_every("model, input_tokens", itertools.product(LISTED, [0, 1, 1000, 200_000, 200_001, 900_000]))
def test_a_listed_model_costs_what_the_list_says(model: str, input_tokens: int) -> None:
    """The cost is that of the package's own calculation, for prompts of every length."""
    usage = ListedUsage(input_tokens=input_tokens, output_tokens=100)
    expected = float(calc_price(usage, model).total_price)
    assert cost(model, known_prices(), input_tokens=input_tokens) == pytest.approx(expected, rel=1e-9)
    assert expected > 0


@pytest.mark.parametrize(
    ("model", "as_listed"),
    [
        ("openai:gpt-5-mini", "gpt-5-mini"),
        ("azure_openai:gpt-5-mini", "gpt-5-mini"),
        ("google_genai:gemini-2.5-flash", "gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("anthropic:claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("GPT-5-mini", "gpt-5-mini"),
    ],
)
def test_a_model_is_known_by_the_names_it_goes_by(model: str, as_listed: str) -> None:
    """A provider before the name selects the provider's list."""
    assert cost(model, known_prices()) == cost(as_listed, known_prices()) != 0


@pytest.mark.parametrize(
    "model",
    [
        "",
        None,
        "scripted",
        "gpt-99",
        "gpt-5-mini-high",
        "my-gpt-5",
        "ft:gpt-4o-mini:acme::1",
        "llama3.2",
        "qwen2.5:7b",
        "mistral:7b",
        "deepseek-r1:8b",
        "ollama:llama3.2",
        "nobody:gpt-5-mini",
        "openai:whisper-1",
        "openrouter:deepseek/deepseek-r1:free",
        "perplexity:sonar",
        ":",
        "::",
    ],
)
def test_what_is_not_listed_is_unknown(model: str | None) -> None:
    """The cost of a model without a price by tokens is None and never 0."""
    assert cost(model, known_prices()) is None


def test_the_users_own_price_goes_first() -> None:
    """The user's price applies to the name, its dated forms and the name with a provider."""
    prices = known_prices({"gpt-5-mini": Price(input=1, output=1), "openai:mine": Price(input=2, output=2)})
    assert cost("gpt-5-mini", prices) == cost("gpt-5-mini-2025-08-07", prices) == 1100 / MILLION
    assert cost("mine", prices) == cost("openai:mine", prices) == 2200 / MILLION
    assert cost("o3", prices) == cost("o3", known_prices())


def test_a_free_model_is_one_whose_price_says_so() -> None:
    """A price of 0 must be set explicitly."""
    assert cost("llama3.2", known_prices({"llama3.2": Price(input=0, output=0)})) == 0.0


def test_known_prices_are_a_mapping_that_shows_the_users_own() -> None:
    """It is never empty, finds more than it lists, and raises `KeyError` for unknown names."""
    prices = known_prices({"mine": Price(input=1, output=1)})
    assert (list(prices), len(prices), bool(known_prices())) == (["mine"], 1, True)
    assert "gpt-5-mini" in prices
    assert "gpt-99" not in prices
    with pytest.raises(KeyError, match="gpt-99"):
        prices["gpt-99"]
    assert repr(known_prices()) == "known_prices({})"


class Settings(BaseModel):
    """A policy's field."""

    model_config = {"frozen": True, "extra": "forbid"}

    prices: Prices = {}


def test_a_policys_field_takes_them_as_they_are() -> None:
    """Known prices are kept unchanged; a table is validated as usual."""
    prices = known_prices()
    assert Settings(prices=prices).prices is prices
    assert Settings.model_validate({"prices": {"m": {"input": 1, "output": 2}}}).prices["m"].output == 2
    with pytest.raises(ValidationError) as refused:
        Settings.model_validate({"prices": {"m": {"input": 1}}})
    assert refused.value.errors()[0]["loc"] == ("prices", "m", "output")


def test_a_budget_of_cost_is_kept_with_known_prices() -> None:
    """The budget ends according to the list's price."""
    judge = Helpfulness(ScriptedModel([GOOD], cycle=True, name="gpt-5-mini"))
    with within(Allowance(cost=0.000_01, prices=known_prices())):
        first, second = (judge(user_input="q", response="a") for _ in range(2))
    assert first.usage.cost == cost(
        "gpt-5-mini",
        known_prices(),
        input_tokens=first.usage.input_tokens,
        output_tokens=first.usage.output_tokens,
    )
    assert second.unscored == "budget"


def test_a_reply_from_a_cache_is_free_without_an_allowance() -> None:
    """The cost of a call is unknown without a price; without a call it is 0."""
    assert charge(None, Usage(calls=1), "m").cost is None
    assert charge(None, Usage(cached=1, cost=None), "m").cost == 0.0


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking up prices opens no connection."""

    def forbidden(*args: Any) -> NoReturn:
        raise AssertionError("a connection was about to be opened")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    monkeypatch.setattr(socket, "getaddrinfo", forbidden)
    assert cost("gpt-5-mini", known_prices())
    assert cost("gpt-99", known_prices()) is None


def test_without_the_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised at once and names the extra."""
    for name in ("genai_prices", "genai_prices.data_snapshot"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigurationError, match=r"install selfrefine\[prices\]"):
        known_prices()


def test_the_list_is_loaded_when_it_is_wanted() -> None:
    """Importing the module loads no list."""
    code = "import sys, judges.runtime.budget; print([name for name in sys.modules if name.startswith('genai')])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


def test_the_whole_list_can_be_read() -> None:
    """Every model of the list has a price or none; no price is negative."""
    prices = known_prices()
    assert isinstance(prices, KnownPrices)
    listed = [
        prices.get(f"{provider.id}:{model.id}")
        for provider in prices._list().providers
        for model in provider.models
    ]
    prices_found = [price for price in listed if price is not None]
    assert len(prices_found) > 1000
    assert all(price.input >= 0 and price.output >= 0 for price in prices_found)
