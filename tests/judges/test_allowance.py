"""What an allowance claims, gives back, refuses and says, alone and inside another one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tenacity import RetryCallState, Retrying, stop_after_attempt, stop_never

from judges import ConfigurationError, Price, Usage, known_prices
from judges.models.retry import _stop_at_limits
from judges.runtime import budget, observation, prices
from judges.runtime.budget import Allowance, Refused, unkept_budget
from judges.runtime.flow import in_thread
from judges.runtime.observation import also_within, current, within

PRICES = {"m": Price(input=1_000_000, output=2_000_000)}
ONE = Usage(calls=1, input_tokens=2, output_tokens=1)


def refusal_of(allowance: Allowance, **how: Any) -> tuple[str, str] | None:
    """Return the reason and the detail with which a call is refused, if it is."""
    try:
        allowance.take(**how)
    except Refused as refused:
        return refused.reason, refused.detail
    return None


def first_refusal(allowance: Allowance) -> tuple[str, str] | None:
    """Return the reason and the detail of the first call that was refused, if any was."""
    return None if allowance.refusal is None else (allowance.refusal.reason, allowance.refusal.detail)


def nested(inner: Allowance, outer: Allowance) -> Allowance:
    """Return the inner one of two allowances."""
    assert inner.inside(outer) is inner
    return inner


@pytest.mark.parametrize(
    ("limits", "detail"),
    [
        ({"calls": 1}, "the budget of calls was spent before the judge was asked"),
        ({"tokens": 3}, "the budget of tokens was spent before the judge was asked"),
        ({"cost": 4.0, "prices": PRICES}, "the budget of cost was spent before the judge was asked"),
        ({"calls": 1, "purpose": "it began"}, "the budget of calls was spent before it began"),
    ],
)
def test_a_budget_ends_where_it_is_spent(limits: dict[str, Any], detail: str) -> None:
    """One call of 3 tokens for 4 dollars uses it up; the first refusal is remembered, and says for what."""
    allowance = Allowance(**limits)
    allowance.take()
    allowance.add(ONE, "m")
    assert first_refusal(allowance) is None
    for _ in range(2):
        assert refusal_of(allowance) == first_refusal(allowance) == ("budget", detail)


def test_the_first_refusal_is_the_one_that_counts() -> None:
    """What stopped the work is what was refused first, not what was refused afterwards."""
    allowance = Allowance(calls=0)
    refusal_of(allowance)
    allowance.close()
    assert refusal_of(allowance) == ("deadline", "nobody waits for an answer any more")
    assert first_refusal(allowance) == ("budget", "the budget of calls was spent before the judge was asked")


@pytest.mark.parametrize(
    ("limits", "spent", "room"),
    [
        ({"tokens": 4}, ONE, True),
        ({"tokens": 3}, ONE, False),
        ({"cost": 4.1}, ONE, True),
        ({"cost": 4.0}, ONE, False),
        ({"calls": 2}, ONE, True),
        ({"calls": 2}, Usage(calls=2), False),
        ({"calls": 1}, Usage(cached=1), True),
    ],
)
def test_what_a_call_used_is_subtracted(limits: dict[str, Any], spent: Usage, *, room: bool) -> None:
    """There is room while something is left of each; a reply from a cache returns its claim."""
    allowance = Allowance(**limits, prices=PRICES)
    allowance.take()
    allowance.add(spent, "m")
    assert (refusal_of(allowance) is None) is room


def test_calls_in_flight_are_spent_with_unknown_tokens() -> None:
    """A claimed call counts at once; what it used is known when it ends, or never where it failed."""
    allowance = Allowance(prices=PRICES)
    allowance.take()
    allowance.take()
    assert (allowance.spent.calls, allowance.spent.cost, allowance.spent.tokens_known) == (2, None, False)
    assert allowance.add(ONE, "m").cost == 4.0
    assert (allowance.spent.calls, allowance.spent.tokens, allowance.spent.tokens_known) == (2, 3, False)
    allowance.fail()
    assert allowance.spent == Usage(calls=2, input_tokens=2, output_tokens=1, cost=4.0)


def test_a_key_is_counted_once() -> None:
    """Several observers claim, report and give up the same call; calls without a key are always new."""
    allowance = Allowance(calls=2)
    for _ in range(3):
        allowance.take("a")
        allowance.add(ONE, "m", "a")
        allowance.fail("a")
    assert allowance.spent == ONE.model_copy(update={"cost": None})
    allowance.take("b")
    for _ in range(2):
        allowance.fail("b")
    assert allowance.spent.calls == 2
    assert refusal_of(allowance, key="c") is not None
    unnamed = Allowance()
    for _ in range(2):
        unnamed.take()
        unnamed.fail()
    assert unnamed.spent == Usage(calls=2)


def test_what_is_no_call_needs_room_and_takes_no_call() -> None:
    """Embeddings are paid for in tokens and dollars, but are no call of a model."""
    outer = Allowance(calls=1, tokens=5, prices=PRICES)
    allowance = nested(Allowance(calls=1, tokens=5, prices=PRICES), outer)
    assert refusal_of(nested(Allowance(), Allowance(calls=0)), as_call=False) is None
    for _ in range(2):
        allowance.take(as_call=False)
        assert allowance.spent.calls == 0
        assert allowance.add(ONE, "m", as_call=False).calls == 0
    for one in (allowance, outer):
        assert (one.spent.calls, one.spent.tokens, one.spent.tokens_known, one.spent.cost) == (0, 6, True, 8.0)
    assert refusal_of(Allowance(tokens=0), as_call=False) is not None
    assert refusal_of(allowance, as_call=False) == (
        "budget",
        "the budget of tokens was spent before the judge was asked",
    )
    assert allowance.spent.calls == outer.spent.calls == 0
    assert refusal_of(Allowance(calls=0), as_call=False) is None


def test_a_claim_that_is_refused_outside_is_given_back_whole() -> None:
    """A call that the outer allowance refuses costs the inner one nothing of what it has left."""
    outer = Allowance(calls=0)
    inner = nested(Allowance(calls=3), outer)
    assert refusal_of(inner) is not None
    outer.release()
    for _ in range(3):
        inner.take()
    assert refusal_of(inner) == ("budget", "the budget of calls was spent before the judge was asked")


def test_an_inner_allowance_claims_from_the_outer_one() -> None:
    """Calls, usage, failures and repeats are counted in both, with the same keys and prices of their own."""
    outer, inner = Allowance(calls=3, retries=1, prices=PRICES), Allowance(retries=5)
    nested(inner, outer)
    inner.take("a")
    inner.add(ONE, "m", "a")
    outer.add(ONE, "m", "a")
    inner.take("b")
    assert outer.spent.calls == 2
    inner.fail("b")
    outer.fail("b")
    assert outer.spent == Usage(calls=2, input_tokens=2, output_tokens=1, cost=4.0)
    assert inner.spent.cost is None
    assert inner.spent.calls == 2
    assert inner.retries_left()
    inner.retry()
    assert not inner.retries_left()
    assert not outer.retries_left()
    inner.take("c")
    assert refusal_of(inner, key="d") == ("budget", "the budget of calls was spent before the judge was asked")


def test_an_allowance_has_one_outer_one_and_is_never_inside_itself() -> None:
    """The first stays, so that a block inside the same allowance claims once."""
    first, second, inner = Allowance(), Allowance(), Allowance()
    nested(nested(inner, first), second)
    inner.inside(inner)
    inner.take()
    assert (first.spent.calls, second.spent.calls) == (1, 0)
    assert first.inside(first) is first
    first.take()


def test_repeats_are_counted() -> None:
    """There are as many as allowed, or any number."""
    allowance = Allowance(retries=2)
    for left in (True, True, False):
        assert allowance.retries_left() is left
        allowance.retry()
    unlimited = Allowance()
    unlimited.retry()
    assert unlimited.retries_left()
    assert nested(Allowance(retries=1), unlimited).retries_left()
    assert not nested(Allowance(retries=0), unlimited).retries_left()
    assert not nested(Allowance(), Allowance(retries=0)).retries_left()


def test_the_nearer_deadline_counts() -> None:
    """The time left is the shorter one of both; without any deadline it is None."""
    assert Allowance().seconds_left is None
    assert nested(Allowance(), Allowance()).seconds_left is None
    for own, outer in ((10, 1_000), (1_000, 10), (10, None), (None, 10)):
        left = nested(Allowance(seconds=own), Allowance(seconds=outer)).seconds_left
        assert left is not None
        assert 9 < left <= 10
    late = nested(Allowance(), Allowance(seconds=0, purpose="the outer work was done"))
    assert refusal_of(late) == ("deadline", "the deadline passed before the judge was asked")


def test_until_the_deadline_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second before it something may begin, and nothing when it has come."""
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    allowance = Allowance(seconds=1)
    now[0] += 0.5
    allowance.check()
    now[0] += 0.5
    assert refusal_of(allowance) == ("deadline", "the deadline passed before the judge was asked")


def test_calls_may_be_left_at_a_deadline_or_by_permission() -> None:
    """Here or outside; otherwise a call is waited for to its end."""
    allowed = [Allowance(may_be_left=True), Allowance(seconds=9)]
    assert [one.may_be_left for one in (*allowed, Allowance(), nested(Allowance(), Allowance()))] == [
        True,
        True,
        False,
        False,
    ]
    assert [nested(Allowance(), one).may_be_left for one in allowed] == [True, True]

    async def is_daemon(allowance: Allowance) -> bool:
        with within(allowance):
            return await in_thread(lambda: threading.current_thread().daemon)

    assert [asyncio.run(is_daemon(one)) for one in (Allowance(), *allowed)] == [False, True, True]


def test_what_is_released_counts_and_refuses_nothing() -> None:
    """After an answer, calls that still end change no figure; a closed one stays closed."""
    allowance = Allowance(calls=1, seconds=0)
    allowance.release()
    allowance.take()
    allowance.check()
    allowance.fail()
    assert allowance.add(ONE, "m").calls == 1
    assert allowance.spent == Usage()
    allowance.close()
    assert not allowance.is_closed
    allowance.check()
    inside = nested(Allowance(), Allowance())
    inside.release()
    assert not inside.is_closed
    late = nested(Allowance(), Allowance(seconds=0, purpose="it ended"))
    late.release()
    with pytest.raises(Refused, match="the deadline passed before it ended"):
        late.check()


def test_what_is_closed_refuses_everything() -> None:
    """Nobody waits any more; releasing it afterwards changes nothing, and calls that end are counted."""
    allowance = Allowance()
    allowance.take()
    states = [allowance.is_closed]
    for act in (allowance.close, allowance.release):
        act()
        states.append(allowance.is_closed)
    assert states == [False, True, True]
    assert refusal_of(allowance) == ("deadline", "nobody waits for an answer any more")
    assert refusal_of(nested(Allowance(), allowance)) == ("deadline", "nobody waits for an answer any more")
    allowance.add(ONE, "m")
    assert allowance.spent.calls == 1


def claim(*, as_call: bool = True) -> None:
    """Claim a call of the current allowance."""
    allowance = current.get().allowance
    assert allowance is not None
    allowance.take(as_call=as_call)


UNCOUNTED = (
    "how many calls the generator made is unknown, so max_calls cannot be kept; call models through LangChain, or "
    "return an AIMessage with usage_metadata"
)
UNREPORTED = Usage(calls=1, tokens_known=False, cost=None)


@pytest.mark.parametrize(
    ("spent", "limits", "fault"),
    [
        (UNREPORTED, {"tokens": 9}, "the tokens of a call were not reported, so max_tokens cannot be kept"),
        (UNREPORTED, {"cost": 9}, "the tokens of a call were not reported, so max_cost cannot be kept"),
        (
            Usage(calls=1, cost=None),
            {"cost": 9},
            "a model's price is unknown, so max_cost cannot be kept; add it to prices",
        ),
        (
            Usage(calls_known=False),
            {"calls": 9},
            UNCOUNTED,
        ),
        (UNREPORTED, {"calls": 9}, None),
        (Usage(calls=1, cost=None), {"tokens": 9}, None),
        (Usage(calls_known=False), {"tokens": 9, "cost": 9}, None),
        (Usage(calls=1, cost=0.5), {"tokens": 9, "cost": 9, "calls": 9}, None),
        (UNREPORTED, {}, None),
    ],
)
def test_a_budget_of_what_is_unknown_cannot_be_kept(
    spent: Usage, limits: dict[str, Any], fault: str | None
) -> None:
    """It says which budget, and why; so does an allowance whose earlier calls are unknown."""
    assert unkept_budget(spent, **limits) == fault
    refused = refusal_of(Allowance(**limits, spent=spent))
    assert refused == (None if fault is None else ("budget", fault))


def test_blocks_are_inside_one_another_unless_lifted() -> None:
    """`within(None)` lifts the outer one, `also_within(None)` keeps it; then it holds again."""
    outer, inner = Allowance(), Allowance()
    assert current.get().allowance is None
    assert observation.seconds_left() is None
    with within(outer):
        with within(None):
            assert current.get().allowance is None
        with also_within(None):
            assert current.get().allowance is outer
        with also_within(inner):
            assert current.get().allowance is inner
        with within(Allowance()):
            claim()
            claim(as_call=False)
        assert current.get().allowance is outer
    inner.take()
    assert (outer.spent.calls, inner.spent.calls) == (2, 1)
    with also_within(None):
        assert current.get().allowance is None


def test_usage_is_charged_where_there_is_an_allowance() -> None:
    """Without one nothing is counted, and a price is unknown; the name that was asked for prices one reported."""
    assert budget.charge(None, ONE, "m") == ONE.model_copy(update={"cost": None})
    assert budget.charge(None, ONE, "m", as_call=False).calls == 0
    outer = Allowance(prices=PRICES)
    allowance = nested(Allowance(calls=9, seconds=50, prices=PRICES), outer)
    with within(allowance):
        assert 49 < (observation.seconds_left() or 0) <= 50
    allowance.take()
    assert budget.charge(allowance, ONE, "m").cost == 4.0
    assert budget.charge(allowance, ONE, "m", as_call=False).calls == 0
    allowance.take()
    assert budget.charge(allowance, ONE, "m-as-served", requested="m").cost == 4.0
    for one in (allowance, outer):
        assert (one.spent.calls, one.spent.tokens) == (2, 9)
    assert allowance.spent.cost == outer.spent.cost == 12.0


@pytest.mark.parametrize(("model", "asked", "named"), [("x", None, "x"), ("x", "y", "y"), (None, None, None)])
def test_a_budget_of_cost_names_the_model_without_a_price(
    model: str | None, asked: str | None, named: str | None
) -> None:
    """The name that was asked for, which is what a user can price; the first such model is named."""
    allowance = Allowance(cost=9.0, prices=PRICES)
    allowance.add(ONE, model, requested=asked)
    allowance.add(ONE, "later")
    whose = "a model's price" if named is None else f"the price of {named!r}"
    fault = f"{whose} is unknown, so max_cost cannot be kept; add it to prices"
    if named is not None:
        assert refusal_of(allowance) == ("budget", fault)
    spent = Usage(calls=1, cost=None)
    assert unkept_budget(spent, cost=9.0, unpriced=named) == fault
    assert refusal_of(Allowance(cost=9.0, spent=spent, unpriced=named)) == ("budget", fault)


@pytest.mark.parametrize(
    ("allowance", "wait_s", "stops"),
    [
        (lambda: None, 100, False),
        (Allowance, 100, False),
        (lambda: Allowance(seconds=50), 10, False),
        (lambda: Allowance(seconds=50), 60, True),
        (lambda: Allowance(retries=1), 10, False),
        (lambda: Allowance(retries=0), 10, True),
    ],
)
def test_a_repeat_waits_within_its_limits(
    allowance: Callable[[], Allowance | None], wait_s: float, *, stops: bool
) -> None:
    """No repeat begins after the deadline, or without one that is left; the own rule to stop holds, too."""
    state = RetryCallState(Retrying(), None, (), {})
    state.upcoming_sleep = wait_s
    with within(allowance()):
        assert _stop_at_limits(stop_never)(state) is stops
        assert _stop_at_limits(stop_after_attempt(1))(state)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Price(*[1.0] * 2), "a price is Price(input=0.25, output=2.0), US dollars per million tokens"),
        (
            lambda: Price(input=-1, output=1),
            "price input: input should be greater than or equal to 0 (given -1); a price is Price(input=0.25",
        ),
        (lambda: Price(input=1), "price output: field required"),
        (
            lambda: Price(input=1, output=1, cached=1),
            "price cached: extra inputs are not permitted (given 1); a price is Price(",
        ),
        (lambda: known_prices("x"), "known_prices takes a mapping {'model name': Price(...)}, not 'x'"),  # type: ignore[arg-type]
        (lambda: known_prices({"m": 3}), "known_prices takes a mapping"),  # type: ignore[dict-item]
    ],
)
def test_a_wrong_price_is_one_line(make: Callable[[], object], message: str) -> None:
    """It says what was given, and how a price is written."""
    with pytest.raises(ConfigurationError) as refused:
        make()
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_a_price_counts_what_was_cached_and_what_is_free() -> None:
    """Cached tokens have a price of their own, or that of the prompt; free is what costs nothing either way."""
    usage = Usage(calls=1, input_tokens=1_000_000, output_tokens=1_000_000, cached_input_tokens=400_000)
    assert Price(input=10, output=1).of(usage) == 11
    assert Price(input=10, output=1, cached_input=5).of(usage) == 9
    assert [Price(input=a, output=b).is_free for a, b in ((0, 0), (1, 0), (0, 1), (1, 1))] == [
        True,
        False,
        False,
        False,
    ]
    free = {"m": Price(input=0, output=0)}
    assert prices.with_cost(UNREPORTED, "m", free).cost == 0.0
    assert prices.with_cost(UNREPORTED, "m", PRICES).cost is None
    assert prices.with_cost(ONE, "vendor:m", {"m": PRICES["m"]}).cost is None
    assert prices.with_cost(ONE, "m", {"vendor:m": PRICES["m"]}).cost == 4.0
    assert prices.with_cost(Usage(calls=0, cost=None), "x", {}).cost == 0.0
