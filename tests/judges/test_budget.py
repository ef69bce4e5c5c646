"""An allowance limits the cost of judging; prices come from a list or the user, and unknown ones stay unknown."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

import pytest
from genai_prices import Usage as ListedUsage
from genai_prices import calc_price
from genai_prices.types import ModelPrice, Tier, TieredPrices
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from pydantic import BaseModel, ValidationError

from graphs import Policy
from judges import AskFailed, ConfigurationError, Helpfulness, Panel, Price, Usage, Verdict, known_prices
from judges.runtime.budget import Allowance, Refused
from judges.runtime.observation import within
from judges.runtime.prices import KnownPrices, Prices, _price, with_cost
from judges.testing import ScriptedModel
from tests.kit import Way, both_ways
from tests.laws import for_every

GOOD = {"rationale": "r", "rating": 4, "feedback": ""}
PRICES = {
    "gpt-5": Price(input=1, output=10),
    "gpt-5-mini": Price(input=0.25, output=2),
    "openai:gpt-5-2026-01-01": Price(input=1, output=2),
}


def ask_times(times: int, allowance: Allowance | None, *, name: str = "scripted") -> list[Verdict]:
    """Judge several times inside an allowance."""
    judge = Helpfulness(ScriptedModel([GOOD], cycle=True, name=name))
    with within(allowance):
        return [judge(user_input="q", response="a") for _ in range(times)]


def reasons(verdicts: list[Verdict]) -> list[str | None]:
    """Return the reason of each unscored verdict."""
    return [verdict.unscored for verdict in verdicts]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"calls": 2}, [None, None, "budget", "budget"]),
        ({"tokens": 1}, [None, "budget"]),
        ({"tokens": 1_000_000}, [None, None]),
        ({"cost": 1, "prices": {"scripted": Price(input=1_000_000, output=0)}}, [None, "budget"]),
        ({"cost": 100, "prices": PRICES}, [None, "budget"]),
        ({"calls": 5, "tokens": 10_000, "prices": PRICES}, [None, None]),
        ({"calls": 0}, ["budget"]),
        ({"tokens": 0}, ["budget"]),
        ({"cost": 0.0, "prices": PRICES}, ["budget"]),
        ({"seconds": 0}, ["deadline"]),
        ({"seconds": -1}, ["deadline"]),
        (None, [None]),
    ],
)
def test_a_spent_budget_ends_the_calls(limits: dict[str, Any] | None, expected: list[str | None]) -> None:
    """Calls, tokens, cost and time end with the call in flight; a cost is known where its price is, else None."""
    verdicts = ask_times(len(expected), None if limits is None else Allowance(**limits))
    assert reasons(verdicts) == expected
    assert all(verdict.usage == Usage() for verdict in verdicts if verdict.unscored)
    is_priced = "scripted" in (limits or {}).get("prices", ())
    for verdict in (one for one in verdicts if one.unscored is None):
        assert verdict.usage.cost == (verdict.usage.input_tokens if is_priced else None)


def test_a_re_ask_is_a_call() -> None:
    """Asking again after a bad reply needs a call too; the usage so far stays in the verdict."""
    model = ScriptedModel(["nonsense", GOOD])
    with within(Allowance(calls=1)):
        verdict = Helpfulness(model)(user_input="q", response="a")
    assert (verdict.unscored, verdict.usage.calls, len(model.prompts)) == ("budget", 1, 1)


def test_none_lifts_an_outer_allowance() -> None:
    """An inner block with None is unlimited; after it the outer limit applies again."""
    judge = Helpfulness(ScriptedModel([GOOD], cycle=True))
    with within(Allowance(calls=0)):
        with within(None):
            assert judge(user_input="q", response="a").rating == 4
        assert judge(user_input="q", response="a").unscored == "budget"


@pytest.mark.parametrize(
    ("model", "cost"),
    [
        ("gpt-5", 11),
        ("gpt-5-2025-08-07", 11),
        ("gpt-5-2026-01-01", 3),
        ("gpt-5-mini", 2.25),
        ("gpt-5-mini-2025-08-07", 2.25),
        ("gpt-4", None),
        ("openai/gpt-5", None),
        ("", None),
        (None, None),
    ],
)
def test_price_is_that_of_the_longest_name_the_models_begins_with(model: str | None, cost: float | None) -> None:
    """A dated name is priced by itself, else by its family, and a family never by a shorter one."""
    usage = Usage(calls=1, input_tokens=1_000_000, output_tokens=1_000_000)
    assert with_cost(usage, model, PRICES).cost == cost


@both_ways
async def test_members_of_a_panel_share_one_allowance(way: Way) -> None:
    """Of ten concurrent members exactly as many ask as are allowed; the panel reports the reason."""
    models = [ScriptedModel([GOOD], delay_s=0.002) for _ in range(10)]
    panel = Panel([Helpfulness(model) for model in models])
    with within(Allowance(calls=3)):
        verdict = panel(user_input="q", response="a") if way == "sync" else await panel.acall(response="a")
    assert sum(len(model.prompts) for model in models) == verdict.usage.calls == 3
    assert verdict.unscored == "budget"


def test_calls_are_never_exceeded_by_threads() -> None:
    """A hundred threads that claim calls at once get no more than there are."""
    allowance = Allowance(calls=50)
    claims: list[bool] = []

    def claim() -> None:
        try:
            allowance.take()
            claims.append(True)
        except AskFailed:
            claims.append(False)

    threads = [threading.Thread(target=claim) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(claims) == 50


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(tokens=st.integers(0, 1000), spent=st.lists(st.integers(0, 300), max_size=20))
def test_tokens_are_exceeded_by_at_most_one_call(tokens: int, spent: list[int]) -> None:
    """Calls one after another never start on an empty budget."""
    allowance = Allowance(tokens=tokens)
    used = 0
    for count in spent:
        try:
            allowance.take()
        except AskFailed:
            assert used >= tokens
            break
        assert used < tokens
        used += allowance.add(Usage(calls=1, input_tokens=count), "m").tokens


def test_a_call_that_is_refused_outside_costs_nothing_inside() -> None:
    """The claim inside is undone, so that it is no call in flight, and the next call outside is one inside."""
    outer, inner = Allowance(calls=1), Allowance(calls=1)
    inner.inside(outer)
    outer.take()
    with pytest.raises(Refused, match="budget of calls"):
        inner.take()
    assert inner.spent == Usage()
    outer.add(Usage(calls=0), "m")  # the first reply came from a cache, which gives the claim back
    inner.take()
    assert inner.spent.calls == 1
    with within(Allowance(calls=0)):
        budgets = Allowance(calls=5)
        assert reasons(ask_times(2, budgets)) == ["budget", "budget"]
    assert budgets.spent == Usage()


def test_a_model_that_reports_another_name_has_the_price_of_the_name_asked_for() -> None:
    """A server that answers under the path of its file leaves a budget of cost in force."""
    reply = AIMessage(json.dumps(GOOD), response_metadata={"model_name": "/models/qwen3.gguf"})
    prices = {"qwen3": Price(input=0.0, output=10.0)}
    judge = Helpfulness(ScriptedModel([reply], cycle=True, name="qwen3"))
    with within(Allowance(cost=0.001, prices=prices)):
        verdicts = [judge(user_input="q", response="a") for _ in range(60)]
    assert verdicts[0].model == "/models/qwen3.gguf"
    assert verdicts[0].usage.cost
    assert 1 < reasons(verdicts).count(None) < 60
    assert reasons(verdicts)[-1] == "budget"


def test_a_model_without_a_price_is_named() -> None:
    """The detail says which name the prices lack."""
    verdicts = ask_times(2, Allowance(cost=1.0, prices=PRICES), name="qwen3")
    assert verdicts[1].detail == "the price of 'qwen3' is unknown, so max_cost cannot be kept; add it to prices"


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


def test_cached_tokens_may_have_tiers_of_their_own() -> None:
    """A list that raises the price of cached tokens alone is heeded, too."""
    one, tiers = Decimal(1), TieredPrices(base=Decimal(1), tiers=[Tier(start=10, price=Decimal(2))])
    price = _price(ModelPrice(input_mtok=one, output_mtok=one, cache_read_mtok=tiers))
    assert price is not None
    usages = [Usage(calls=1, input_tokens=tokens, cached_input_tokens=tokens) for tokens in (10, 20)]
    assert [price.of(usage) * MILLION for usage in usages] == [10, 40]


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
    """It applies to the name, its dated forms and the name with a provider; a price of 0 must be set so."""
    mine = {"gpt-5-mini": Price(input=1, output=1), "openai:mine": Price(input=2, output=2)}
    prices = known_prices({**mine, "llama3.2": Price(input=0, output=0)})
    assert cost("gpt-5-mini", prices) == cost("gpt-5-mini-2025-08-07", prices) == 1100 / MILLION
    assert cost("mine", prices) == cost("openai:mine", prices) == 2200 / MILLION
    assert cost("o3", prices) == cost("o3", known_prices())
    assert cost("llama3.2", prices) == 0.0


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
    first, second = ask_times(2, Allowance(cost=0.000_01, prices=known_prices()), name="gpt-5-mini")
    tokens = {"input_tokens": first.usage.input_tokens, "output_tokens": first.usage.output_tokens}
    assert first.usage.cost == cost("gpt-5-mini", known_prices(), **tokens)
    assert second.unscored == "budget"


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
    code = "import sys, judges.runtime.prices; print([name for name in sys.modules if name.startswith('genai')])"
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


def test_the_word_known_stands_for_the_listed_prices() -> None:
    """A policy takes `prices="known"`, as the guard's file does; another word is refused in one line."""
    assert cost("gpt-5-mini", Policy(max_cost=1.0, prices="known").prices) == cost("gpt-5-mini", known_prices())
    with pytest.raises(ConfigurationError, match="'known' for those of public providers' models, not 'listed'"):
        Policy(prices="listed")  # type: ignore[arg-type]  # what is tested
