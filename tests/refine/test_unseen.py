"""A question that no callback handler follows is answered as one that a handler does."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, dispatch_custom_event
from langchain_core.messages import AnyMessage, HumanMessage

from graphs import Policy, Refinement
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

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
