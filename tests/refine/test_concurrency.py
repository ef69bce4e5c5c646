"""One refiner serves any number of questions at once, and none meets another's text."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, dispatch_custom_event
from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from graphs import Policy, Refinement
from judges import Panel, Sample, Verdict
from judges.testing import ScriptedJudge, ScriptedModel
from refine import Outcome, SelfRefine

MARKER = re.compile(r"marker-\d+-")


class Exchange:
    """A generator and a judge that echo the marker of a question, and note where another's turns up."""

    def __init__(self) -> None:
        self.strays: list[str] = []
        self.prompts = 0

    async def generate(self, messages: list[BaseMessage]) -> str:
        """Answer with the marker, after others have had their turn."""
        await asyncio.sleep(0)
        return self.answer(messages)

    def answer(self, messages: list[BaseMessage]) -> str:
        """Answer with the marker: badly at first, well when there is feedback."""
        self.prompts += 1
        mine = self._own(str(one.text) for one in messages)
        return f"{mine} {'good' if len(messages) > 1 else 'bad'}"

    async def judge(self, sample: Sample) -> Verdict:
        """Accept the good answer, and quote the marker."""
        await asyncio.sleep(0)
        return self.rule(sample)

    def rule(self, sample: Sample) -> Verdict:
        """Accept the good answer, and quote the marker."""
        mine = self._own([sample.question, sample.response or "", *(sample.retrieved_contexts or ())])
        good = (sample.response or "").endswith("good")
        return Verdict.rated(4 if good else 1, rationale=f"about {mine}", feedback="" if good else f"mend {mine}")

    def _own(self, texts: Iterable[str]) -> str:
        markers: set[str] = {one for text in texts for one in MARKER.findall(text)}
        if len(markers) != 1:
            self.strays.append(f"{markers}")
        return min(markers)


def check(outcomes: list[Outcome], exchange: Exchange) -> None:
    """Check that each outcome holds its own marker and no other."""
    assert exchange.strays == []
    assert exchange.prompts == 2 * len(outcomes)
    for number, outcome in enumerate(outcomes):
        assert set(MARKER.findall(outcome.model_dump_json())) == {f"marker-{number}-"}
        assert [one.rating for one in outcome.attempts] == [1, 4]
        assert outcome.answer is not None
        assert outcome.answer.text == f"marker-{number}- good"
        assert outcome.attempts[0].feedback == f"mend marker-{number}-"


async def gathered(refiner: SelfRefine, count: int, together: int) -> list[Outcome]:
    """Ask many questions, so many of them at once."""
    outcomes: list[Outcome] = []
    for first in range(0, count, together):
        outcomes += await asyncio.gather(
            *(
                refiner.arefine(
                    f"marker-{number}- what?",
                    {"configurable": {"thread_id": str(number)}},
                    evidence={"retrieved_contexts": [f"marker-{number}- text"]},
                )
                for number in range(first, min(first + together, count))
            )
        )
    return outcomes


async def test_a_thousand_at_once_never_meet() -> None:
    """1,000 refinements of one object, each with its marker: none is in another's prompt, feedback or outcome."""
    exchange = Exchange()
    refiner = SelfRefine(exchange.generate, exchange.judge)
    check(await gathered(refiner, 1_000, 1_000), exchange)


async def test_many_at_once_under_a_checkpointer_never_meet() -> None:
    """The same through the graph, a thread each, with members of a panel that speak at once."""
    exchange = Exchange()
    panel = Panel([exchange.judge, exchange.rule])
    outcomes = await gathered(SelfRefine(exchange.generate, panel, checkpointer=InMemorySaver()), 200, 100)
    assert exchange.strays == []
    assert exchange.prompts == 2 * len(outcomes)
    for number, outcome in enumerate(outcomes):
        assert set(MARKER.findall(outcome.model_dump_json())) == {f"marker-{number}-"}
        assert (outcome.text, [one.rating for one in outcome.attempts]) == (f"marker-{number}- good", [1, 4])


@pytest.mark.parametrize("checkpointed", [False, True], ids=["plain", "kept"])
def test_two_hundred_threads_never_meet(*, checkpointed: bool) -> None:
    """200 threads with one object, each with its marker."""
    exchange = Exchange()
    refiner = SelfRefine(exchange.answer, exchange.rule, checkpointer=InMemorySaver() if checkpointed else None)

    def ask(number: int) -> Outcome:
        config: RunnableConfig = {"configurable": {"thread_id": str(number)}}
        return refiner.refine(
            f"marker-{number}- what?", config, evidence={"retrieved_contexts": [f"marker-{number}- text"]}
        )

    with ThreadPoolExecutor(max_workers=200) as pool:
        outcomes = list(pool.map(ask, range(200)))
    check(outcomes, exchange)


def test_a_batch_never_meets() -> None:
    """A batch in threads keeps its questions apart."""
    exchange = Exchange()
    refiner = SelfRefine(exchange.answer, exchange.rule)
    answers = refiner.batch([f"marker-{number}- what?" for number in range(100)])
    assert exchange.strays == []
    assert [one.text for one in answers] == [f"marker-{number}- good" for number in range(100)]


async def test_the_log_names_no_marker(caplog: pytest.LogCaptureFixture) -> None:
    """The log of many at once holds figures and no text."""
    exchange = Exchange()
    with caplog.at_level(logging.INFO, logger="refine"):
        await gathered(SelfRefine(exchange.generate, exchange.judge), 20, 20)
    assert len(caplog.records) == 20 * 7
    assert MARKER.findall(caplog.text) == []


async def test_a_cancelled_question_costs_the_others_nothing() -> None:
    """Cancelling one of many leaves the others as they are."""
    exchange = Exchange()
    refiner = SelfRefine(exchange.generate, exchange.judge)
    tasks = [asyncio.create_task(refiner.arefine(f"marker-{number}- what?")) for number in range(20)]
    await asyncio.sleep(0)
    tasks[7].cancel()
    result = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(result[7], asyncio.CancelledError)
    others = [one for one in result if isinstance(one, Outcome)]
    assert [one.passed for one in others] == [True] * 19


_place: ContextVar[str] = ContextVar("place", default="outside")


def augmented(refinement: Refinement) -> list[AnyMessage]:
    """Tell of a retry, and leave a trace in the context."""
    dispatch_custom_event("retry", {"attempt": refinement.number})
    _place.set("inside")
    return [HumanMessage("again")]


def refiner() -> SelfRefine:
    """Make a refiner that needs two attempts, and whose policy has a function."""
    judge = ScriptedJudge([(1, "no"), (4, "")], cycle=True)
    return SelfRefine(ScriptedModel(["one", "two"], cycle=True), judge, policy=Policy(augment=augmented))


def test_it_may_dispatch_events_and_changes_no_context() -> None:
    """A function of the policy may dispatch an event that nobody hears; what it sets stays inside."""
    configs: list[Any] = [None, {"callbacks": [BaseCallbackHandler()]}, {"callbacks": [], "run_name": "mine"}]
    for config in configs:
        assert refiner().invoke("what?", config).text == "two"
        assert refiner().refine("what?", config).passed
        assert asyncio.run(refiner().ainvoke("what?", config)).text == "two"
        assert asyncio.run(refiner().arefine("what?", config)).passed
        assert _place.get() == "outside"


async def test_it_can_be_cancelled() -> None:
    """A cancelled caller cancels what runs inside."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def generate(_: Any) -> str:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "late"

    asking = asyncio.create_task(SelfRefine(generate, ScriptedJudge([(4, "")])).ainvoke("what?"))
    await began.wait()
    asking.cancel()
    await asyncio.wait([asking], timeout=5)
    assert asking.cancelled()
    assert ended.is_set()
