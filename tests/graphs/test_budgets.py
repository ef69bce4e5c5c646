"""One budget over generator and judges: exceeded at most by calls in flight, and the best answer is returned."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata

from judges import Helpfulness, Panel, Price
from judges.testing import ScriptedJudge, ScriptedModel
from refine import Outcome, SelfRefine

UNHURRIED = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
"""No deadlines: a busy machine must not fail a test."""

PRICES = {"writer": Price(input=100, output=1_000), "reader": Price(input=300, output=50)}


@dataclass
class Ledger:
    """The actual usage of the models, call by call, and their replies."""

    tokens: Iterator[tuple[int, int]]
    ratings: Iterator[int]
    spent: list[tuple[str, int, int]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def generator(self) -> ScriptedModel:
        """Return the model that writes."""
        return ScriptedModel(lambda _: self._reply("writer", f"draft {len(self.spent)}"), name="writer")

    def judge(self) -> Helpfulness:
        """Return a judge with the model that reads."""
        return Helpfulness(ScriptedModel(self._rate, name="reader"))

    def _rate(self, _: list[BaseMessage]) -> AIMessage:
        reply = {"rationale": "r", "rating": next(self.ratings), "feedback": "f"}
        return self._reply("reader", json.dumps(reply))

    def _reply(self, model: str, text: str) -> AIMessage:
        with self.lock:
            prompt, reply = next(self.tokens)
            self.spent.append((model, prompt, reply))
        usage = UsageMetadata(input_tokens=prompt, output_tokens=reply, total_tokens=prompt + reply)
        return AIMessage(text, usage_metadata=usage)

    def used(self, *, but_last: int = 0) -> int:
        """Return the tokens of all calls but the last few."""
        return sum(prompt + reply for _, prompt, reply in self.spent[: len(self.spent) - but_last])

    def cost(self, *, but_last: int = 0) -> float:
        """Return the cost of all calls but the last few."""
        counted = self.spent[: len(self.spent) - but_last]
        return sum((PRICES[name].input * a + PRICES[name].output * b) / 1_000_000 for name, a, b in counted)


def forever(values: Iterable[Any]) -> Iterator[Any]:
    """Repeat some values without end."""
    sequence = list(values)
    while True:
        yield from sequence


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    """Draw the usage of calls and the ratings of judges."""
    used = st.tuples(st.integers(0, 60), st.integers(0, 60))
    return Ledger(
        tokens=forever(draw(st.lists(used, min_size=1, max_size=12))),
        ratings=forever(draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))),
    )


budgets = st.fixed_dictionaries(
    {"max_attempts": st.integers(1, 5), "on_judge_error": st.sampled_from(["accept", "reject"])},
    optional={
        "max_calls": st.integers(1, 12),
        "max_tokens": st.integers(1, 500),
        "max_cost": st.floats(0.0001, 0.2),
    },
)


def check_the_limits(ledger: Ledger, limits: dict[str, Any], outcome: Outcome, *, in_flight: int) -> None:
    """Check that no limit was exceeded by more than the calls in flight, and that all usage is counted."""
    assert outcome.usage.calls == len(ledger.spent)
    assert outcome.usage.tokens == ledger.used()
    assert len(ledger.spent) <= limits.get("max_calls", 1_000)
    if "max_tokens" in limits:
        assert ledger.used(but_last=in_flight) < limits["max_tokens"]
    if "max_cost" in limits:
        assert outcome.usage.cost == pytest.approx(ledger.cost())
        assert ledger.cost(but_last=in_flight) < limits["max_cost"]


def check_the_ending(limits: dict[str, Any], outcome: Outcome) -> None:
    """Check that the reason is reported, and the best answer so far returned."""
    assert outcome.stop_reason in ("max_attempts", "budget")
    assert not outcome.passed
    if outcome.stop_reason == "budget":
        assert outcome.detail
        assert limits.keys() & {"max_calls", "max_tokens", "max_cost"}
    else:
        assert len(outcome.attempts) == limits["max_attempts"]
    last = outcome.attempts[-1] if outcome.attempts else None
    released = outcome.best or (last if limits["on_judge_error"] == "accept" else None)
    assert (outcome.answer is None) == (released is None)
    if outcome.answer is not None and released is not None:
        assert (outcome.answer.text, outcome.released) == (released.text, released.number)


def with_defaults(limits: dict[str, Any]) -> dict[str, Any]:
    """Complete a policy: nothing below 4 passes."""
    return {**limits, "success_rating": 4, "prices": PRICES}


@given(ledgers(), budgets)
@settings(UNHURRIED, max_examples=100)
def test_a_budget_is_kept(ledger: Ledger, limits: dict[str, Any]) -> None:
    """Calls, tokens and cost stay within their limits but for one call in flight; the best answer is returned."""
    outcome = SelfRefine(ledger.generator(), ledger.judge(), **with_defaults(limits)).refine("what?")
    check_the_limits(ledger, limits, outcome, in_flight=1)
    check_the_ending(limits, outcome)


@given(ledgers(), budgets, st.booleans())
@settings(UNHURRIED, max_examples=80)
async def test_a_budget_is_kept_by_a_panel(ledger: Ledger, limits: dict[str, Any], blocking: bool) -> None:  # noqa: FBT001
    """Members of a panel share the budget, sync and async; calls they make at once are in flight together."""
    panel = Panel([ledger.judge(), ledger.judge()], quorum=1)
    refiner = SelfRefine(ledger.generator(), panel, **with_defaults(limits))
    outcome = refiner.refine("what?") if blocking else await refiner.arefine("what?")
    check_the_limits(ledger, limits, outcome, in_flight=2)
    check_the_ending(limits, outcome)


def ledger_of(ratings: list[int], *, each: int = 10) -> Ledger:
    """Return a ledger whose calls all use the same."""
    return Ledger(tokens=forever([(each // 2, each - each // 2)]), ratings=forever(ratings))


@pytest.mark.parametrize(
    ("limit", "calls", "attempts", "detail"),
    [
        ({"max_calls": 1}, 1, 1, "calls"),
        ({"max_calls": 2}, 2, 1, "2 of 2 model calls made"),
        ({"max_calls": 3}, 3, 2, "calls"),
        ({"max_tokens": 5}, 1, 1, "tokens"),
        ({"max_tokens": 20}, 2, 1, "20 of 20 tokens used"),
        ({"max_tokens": 21}, 3, 2, "tokens"),
        ({"max_cost": 0.005}, 1, 1, "cost"),
        ({"max_cost": 0.007}, 2, 1, "US dollars spent"),
        ({"max_cost": 0.008}, 3, 2, "cost"),
    ],
)
def test_where_a_budget_ends(limit: dict[str, Any], calls: int, attempts: int, detail: str) -> None:
    """A budget ends before the call it has no room for, and its detail says which budget it was."""
    ledger = ledger_of([1])
    outcome = SelfRefine(ledger.generator(), ledger.judge(), **with_defaults(limit)).refine("what?")
    assert (len(ledger.spent), len(outcome.attempts), outcome.stop_reason) == (calls, attempts, "budget")
    assert detail in outcome.detail


def test_an_accepted_answer_is_accepted_whatever_is_left() -> None:
    """The last call of a budget may still accept."""
    ledger = ledger_of([4])
    outcome = SelfRefine(ledger.generator(), ledger.judge(), max_calls=2).refine("what?")
    assert (outcome.passed, outcome.stop_reason) == (True, "accepted")


def test_a_rating_before_the_budget_was_spent_is_kept() -> None:
    """A draft that could no longer be judged is replaced by the one that was."""
    ledger = ledger_of([2])
    outcome = SelfRefine(ledger.generator(), ledger.judge(), max_calls=3).refine("what?")
    assert outcome.answer is not None
    assert (outcome.answer.text, outcome.released, len(outcome.attempts)) == ("draft 0", 1, 2)


def test_a_draft_that_could_not_be_judged_is_flagged() -> None:
    """Without a better draft it is returned under `accept`, not passed; under `reject` nothing is returned."""
    settings: tuple[tuple[Any, bool], ...] = (("accept", True), ("reject", False))
    for setting, answered in settings:
        ledger = ledger_of([2])
        inner = SelfRefine(ledger.generator(), ledger.judge(), max_calls=1, on_judge_error=setting)
        outcome = inner.refine("what?")
        assert (outcome.answer is not None, outcome.passed, outcome.stop_reason) == (answered, False, "budget")


def test_a_function_that_reports_its_usage_counts_as_a_call() -> None:
    """A generator that is a function counts one call for a reported message; a judge that asks no model, none."""
    usage = UsageMetadata(input_tokens=3, output_tokens=4, total_tokens=7)
    reported = AIMessage("draft", usage_metadata=usage)
    inner = SelfRefine(lambda _: reported, ScriptedJudge([1], cycle=True), max_calls=3, max_attempts=9)
    outcome = inner.refine("what?")
    assert (outcome.usage.calls, len(outcome.attempts), outcome.stop_reason) == (3, 3, "budget")


@pytest.mark.parametrize("limit", [{"max_calls": 9}, {"max_tokens": 9_000}, {"max_cost": 9.0, "prices": PRICES}])
def test_a_function_of_unknown_calls_ends_a_budget(limit: dict[str, Any]) -> None:
    """What a function's own client consumes is unknown: it says so, and under a budget the loop ends."""
    inner = SelfRefine(lambda _: "draft", ScriptedJudge([1], cycle=True), **limit, max_attempts=4)
    outcome = inner.refine("what?")
    assert (len(outcome.attempts), outcome.stop_reason) == (1, "budget")
    assert "cannot be kept" in outcome.detail
    free = SelfRefine(lambda _: "draft", ScriptedJudge([1], cycle=True), max_attempts=4).refine("what?")
    assert (len(free.attempts), free.usage.calls_known, free.usage.tokens_known) == (4, False, False)


REPORTS: list[Any] = [None, {"input_tokens": -5, "output_tokens": 3, "total_tokens": -2}]
REPORTS += [{"input_tokens": 10**30, "output_tokens": 3, "total_tokens": 3}]


@pytest.mark.parametrize("report", REPORTS)
def test_usage_that_cannot_be_costs_no_answer_and_no_budget(report: Any) -> None:
    """Tokens that are missing, negative or absurd are unknown: they end a budget of tokens, and nothing else."""

    def model() -> GenericFakeChatModel:
        message = AIMessage("draft")
        message.usage_metadata = report
        return GenericFakeChatModel(messages=iter([message.model_copy() for _ in range(9)]))

    judge = ScriptedJudge([1], cycle=True)
    limited = SelfRefine(model(), judge, max_tokens=1_000, max_attempts=9).refine("what?")
    assert (limited.stop_reason, len(limited.attempts)) == ("budget", 1)
    assert "not reported, so max_tokens cannot be kept" in limited.detail
    outcome = SelfRefine(model(), judge, max_calls=3, max_attempts=9).refine("what?")
    assert (outcome.stop_reason, outcome.usage.calls, outcome.usage.tokens_known) == ("budget", 3, False)
    assert outcome.answer is not None


def test_an_unknown_price_ends_the_loop() -> None:
    """A budget with an unknown price cannot be enforced: after the call without a price, no other is made."""
    ledger = ledger_of([1])
    prices = {"reader": PRICES["reader"]}
    inner = SelfRefine(ledger.generator(), ledger.judge(), max_cost=5, prices=prices, max_attempts=9)
    outcome = inner.refine("what?")
    assert (outcome.stop_reason, len(outcome.attempts), outcome.usage.cost) == ("budget", 1, None)
    assert "the price of 'writer' is unknown" in outcome.detail


def test_without_a_budget_of_cost_prices_only_tell() -> None:
    """With prices alone the cost is reported and limits nothing; without them it is unknown, not zero."""
    ledger = ledger_of([1])
    outcome = SelfRefine(ledger.generator(), ledger.judge(), prices=PRICES).refine("what?")
    assert outcome.usage.cost == pytest.approx(ledger.cost())
    assert outcome.stop_reason == "max_attempts"
    ledger = ledger_of([1])
    assert SelfRefine(ledger.generator(), ledger.judge()).refine("what?").usage.cost is None


def test_a_budget_is_each_questions_own() -> None:
    """The usage of one question does not reduce the budget of the next."""
    ledger = ledger_of([4])
    inner = SelfRefine(ledger.generator(), ledger.judge(), max_calls=2)
    assert [inner.refine("what?").stop_reason for _ in range(3)] == ["accepted"] * 3


def test_a_generator_of_unknown_price_leaves_nothing_for_the_judge() -> None:
    """If a budget of cost can no longer be enforced, the judge's model is not asked either."""
    judge_model = ScriptedModel([{"rationale": "", "rating": 4, "feedback": ""}], name="judge")
    prices = {"judge": Price(input=1, output=1)}
    refiner = SelfRefine(ScriptedModel(["draft"]), Helpfulness(judge_model), max_cost=1.0, prices=prices)
    outcome = refiner.refine("what?")
    assert (outcome.stop_reason, judge_model.prompts) == ("budget", [])
    assert "the price of 'scripted' is unknown" in outcome.detail
