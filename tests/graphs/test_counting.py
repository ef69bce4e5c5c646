"""Model calls inside chains, agents and functions: counted once, and stopped by budgets and the deadline."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import tool
from langgraph.func import entrypoint, task

from judges import Helpfulness, Panel, Price, as_judge
from judges.model import ModelRequest, ModelResponse
from judges.models.providers.llm_runs import metered
from judges.models.resolve import as_model
from judges.models.retry import pause
from judges.runtime.budget import Allowance, Refused
from judges.testing import ScriptedJudge, ScriptedModel
from refine import Outcome, SelfRefine

HOW = ["sync", "async"]
PRICES = {"scripted": Price(input=1_000, output=1_000)}
REFUSAL = {"rationale": "r", "rating": 1, "feedback": "f"}


def outcome_of(refiner: SelfRefine, how: str) -> Outcome:
    """Refine one question."""
    return refiner.refine("what?") if how == "sync" else asyncio.run(refiner.arefine("what?"))


def refusing() -> ScriptedJudge:
    """Return a judge that refuses everything, without a model."""
    return ScriptedJudge([1], cycle=True)


def writer() -> ScriptedModel:
    """Return a model that writes without end, each time something else."""
    numbers = count(1)
    return ScriptedModel(lambda _: f"a draft of six words, {next(numbers)}")


def grading() -> tuple[Callable[[str], int], ScriptedModel]:
    """Return a judge that is a function and asks a model twice, and the model."""
    model = ScriptedModel(["a grade"], cycle=True)

    def grade(answer: str) -> int:
        model.invoke(f"grade {answer}")
        model.invoke("are you sure?")
        return 2

    return grade, model


class Looking:
    """An agent that calls its tool for ever."""

    def __init__(self, *, pause_s: float = 0.0) -> None:
        self.model = ScriptedModel(self._reply)
        self.calls = 0
        self.looks = 0
        self._pause_s = pause_s

        @tool
        def look(at: str) -> str:
            """Look at something."""
            self.looks += 1
            return at

        self.look = look
        self.graph = create_agent(self.model, [look]).with_config(recursion_limit=10_000)

    def _reply(self, _: list[BaseMessage]) -> AIMessage:
        time.sleep(self._pause_s)
        self.calls += 1
        return AIMessage("", tool_calls=[{"name": "look", "args": {"at": "x"}, "id": f"call {self.calls}"}])


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape", ["chain", "function", "nested function"])
def test_what_a_chain_or_a_function_spends_is_counted(shape: str, how: str) -> None:
    """Calls and tokens are those of the model inside, once each, with a budget or without."""
    model = writer()
    shapes: dict[str, Any] = {
        "chain": model | StrOutputParser(),
        "function": lambda messages: model.invoke(messages).text,
        "nested function": RunnableLambda(model.invoke),
    }
    limited = outcome_of(SelfRefine(shapes[shape], refusing(), max_tokens=20, max_attempts=9), how)
    assert (limited.stop_reason, limited.usage.calls) == ("budget", len(model.prompts))
    assert limited.usage.tokens >= 20
    free = outcome_of(SelfRefine(shapes[shape], refusing(), max_attempts=2, prices=PRICES), how)
    assert (free.usage.calls, free.usage.tokens_known, free.usage.calls_known) == (2, True, True)
    assert free.usage.cost == pytest.approx(free.usage.tokens / 1_000)


@pytest.mark.parametrize("how", HOW)
def test_what_a_function_that_judges_spends_is_counted(how: str) -> None:
    """Its model's calls stand in the verdict, with their cost, and a budget holds inside it."""
    grade, model = grading()
    outcome = outcome_of(SelfRefine(writer(), grade, max_attempts=2, prices=PRICES), how)
    assert (outcome.usage.calls, len(model.prompts)) == (6, 4)
    assert outcome.usage.cost == pytest.approx(outcome.usage.tokens / 1_000)
    verdict = outcome.attempts[0].verdict
    assert verdict is not None
    assert verdict.usage.calls == 2
    grade, model = grading()
    limited = outcome_of(SelfRefine(writer(), grade, max_attempts=9, max_calls=5), how)
    assert (limited.stop_reason, limited.usage.calls, len(model.prompts)) == ("budget", 5, 3)


@pytest.mark.parametrize("how", HOW)
def test_what_a_runnable_that_judges_spends_is_counted(how: str) -> None:
    """A chain as a judge counts, alone and in a panel; a check without a model costs nothing."""
    reads: Runnable[Any, Any] = RunnableLambda(lambda sample: str(sample["response"]))
    chain = reads | ScriptedModel(["0.1"], cycle=True) | StrOutputParser() | RunnableLambda(float)
    panel = Panel([as_judge(chain, name="chain"), as_judge(lambda answer: len(answer) < 9, name="short")])
    outcome = outcome_of(SelfRefine(writer(), panel, max_attempts=2), how)
    assert outcome.usage.calls == 4
    check = SelfRefine(writer(), as_judge(lambda answer: len(answer) < 9), max_attempts=1, prices=PRICES)
    verdict = outcome_of(check, how).attempts[0].verdict
    assert verdict is not None
    assert (verdict.usage.calls, verdict.usage.cost) == (0, 0.0)


def test_a_function_that_judges_is_counted_without_a_loop() -> None:
    """Its verdict has its usage, also where it fails after it asked."""
    grade, _ = grading()
    assert as_judge(grade)(answer="x").usage.calls == 2

    def broken(answer: str) -> int:
        grade(answer)
        raise KeyError(answer)

    verdict = as_judge(broken)(answer="x")
    assert (verdict.unscored, verdict.usage.calls) == ("judge_failed", 2)


def test_a_function_that_asks_a_judge_is_counted_once() -> None:
    """Calls of a judge's own model, made by its driver inside a function, are not counted a second time."""
    judge = Helpfulness(ScriptedModel([REFUSAL], cycle=True))
    outcome = SelfRefine(writer(), lambda answer: judge(answer=answer), max_attempts=2, max_calls=9).refine(
        "what?"
    )
    assert outcome.usage.calls == 4


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("limit", [{"max_calls": 5}, {"max_tokens": 80}, {"max_cost": 0.08, "prices": PRICES}])
def test_a_budget_holds_inside_an_attempt(limit: dict[str, Any], how: str) -> None:
    """An agent is stopped before the call that the budget has no room for; what it spent is in the outcome."""
    agent = Looking()
    outcome = outcome_of(SelfRefine(agent.graph, refusing(), **limit), how)
    assert (outcome.stop_reason, outcome.attempts, outcome.answer) == ("budget", (), None)
    assert outcome.usage.calls == agent.calls
    assert agent.calls == limit.get("max_calls", agent.calls)
    assert outcome.usage.tokens < 80 + 60
    assert "before the generator had answered" in outcome.detail


@pytest.mark.parametrize("how", HOW)
def test_a_budget_holds_inside_tasks(how: str) -> None:
    """A task of LangGraph's functional API is stopped, and whoever waits for it hears so."""
    model = writer()

    @task
    def ask(number: int) -> str:
        return str(model.invoke(f"part {number}").text)

    @entrypoint()
    def generate(messages: dict[str, Any]) -> dict[str, Any]:
        parts = [ask(number).result() for number in range(9)]
        return {"messages": [*messages["messages"], AIMessage(" ".join(parts))]}

    outcome = outcome_of(SelfRefine(generate, refusing(), max_calls=4), how)
    assert (outcome.stop_reason, outcome.usage.calls, len(model.prompts)) == ("budget", 4, 4)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("make", ["retry", "fallbacks", "except"])
def test_nothing_goes_on_in_spite_of_a_refused_call(make: str, how: str) -> None:
    """Neither a retry, nor a fallback, nor a function that catches every `Exception` makes one call more."""
    failing = ScriptedModel(lambda _: (_ for _ in ()).throw(ValueError("no")))

    def stubborn(messages: list[BaseMessage]) -> str:
        for _ in range(50):
            try:
                failing.invoke(messages)
            except Exception:  # noqa: BLE001, S112 - what is tested
                continue
        return "an answer"

    makes: dict[str, Any] = {
        "retry": failing.with_retry(stop_after_attempt=9, wait_exponential_jitter=False),
        "fallbacks": failing.with_fallbacks([failing] * 9),
        "except": stubborn,
    }
    outcome = outcome_of(SelfRefine(makes[make], refusing(), max_calls=3), how)
    assert (outcome.stop_reason, outcome.usage.calls, len(failing.prompts)) == ("budget", 3, 3)


@pytest.mark.parametrize("how", HOW)
def test_a_refiner_inside_a_refiner_spends_the_outer_budget(how: str) -> None:
    """Its generator's and its judge's calls count, once each, and stop where the outer budget ends."""

    def nested() -> SelfRefine:
        return SelfRefine(writer(), Helpfulness(ScriptedModel([REFUSAL], cycle=True)), max_attempts=3)

    free = outcome_of(SelfRefine(nested(), refusing(), max_attempts=2), how)
    assert free.usage.calls == 12
    limited = outcome_of(SelfRefine(nested(), refusing(), max_calls=4), how)
    assert (limited.stop_reason, limited.usage.calls) == ("budget", 4)


@pytest.mark.parametrize("how", HOW)
def test_after_the_deadline_an_agent_calls_nothing(how: str) -> None:
    """An agent that is left to itself is stopped at its next call of a model or a tool."""
    agent = Looking(pause_s=0.05)
    outcome = outcome_of(SelfRefine(agent.graph, refusing(), deadline_s=0.6), how)
    assert outcome.stop_reason == "deadline"
    assert outcome.usage.calls >= 1
    time.sleep(0.1)
    calls, looks = agent.calls, agent.looks
    time.sleep(0.3)
    assert (agent.calls, agent.looks) == (calls, looks)


def test_a_tool_that_begins_too_late_is_refused_like_a_model() -> None:
    """What becomes of it inside never gets out: the block ends with the refusal, which says why."""
    looking = Looking()
    with pytest.raises(Refused, match="the deadline passed"), metered(Allowance(seconds=0.0)):
        looking.look.invoke({"at": "x"})
    assert looking.looks == 0


def test_an_answer_in_time_leaves_its_work_alone() -> None:
    """What a generator goes on with after its answer is neither counted nor stopped."""
    model, ended = writer(), threading.Event()
    replies: list[str] = []

    def generate(messages: list[BaseMessage]) -> Any:
        def remember() -> None:
            time.sleep(0.1)
            replies.append(model.invoke("remember").text)
            ended.set()

        threading.Thread(target=remember).start()
        return model.invoke(messages)

    outcome = SelfRefine(generate, ScriptedJudge([4]), max_calls=1).refine("what?")
    assert ended.wait(10)
    assert (outcome.passed, outcome.usage.calls, len(replies)) == (True, 1, 1)


class Flaky:
    """A judge's model whose transport fails twice before each reply."""

    name, retries = "flaky", 2

    def __init__(self) -> None:
        self.sent = 0
        self._inner = as_model(ScriptedModel([REFUSAL], cycle=True))

    def send(self, request: ModelRequest) -> ModelResponse:
        """Fail, fail, reply."""
        self.sent += 1
        if self.sent % 3:
            raise ConnectionError
        return self._inner.send(request)

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Do the same."""
        return self.send(request)

    def is_model(self, other: object) -> bool:
        """Know itself."""
        return other is self


@pytest.mark.parametrize("how", HOW)
def test_repeats_of_a_failed_transport_are_bounded_and_not_counted(how: str) -> None:
    """`max_retries` bounds them over all judges of a draft; `max_calls` counts questions to a model."""
    token = pause.set(lambda _: None)
    try:
        flaky = Flaky()
        outcome = outcome_of(SelfRefine(writer(), Helpfulness(flaky), max_attempts=2, max_calls=4), how)
        assert (outcome.usage.calls, flaky.sent) == (4, 6)
        flaky = Flaky()
        panel = Panel([Helpfulness(flaky), Helpfulness(flaky, name="again")], rule="mean")
        outcome = outcome_of(SelfRefine(writer(), panel, max_attempts=1, max_retries=1), how)
        assert (outcome.stop_reason, flaky.sent) == ("judge_failed", 3)
    finally:
        pause.reset(token)
