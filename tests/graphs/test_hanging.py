"""Blocking functions that outlive the deadline, called from async code."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

DEADLINE_S = 0.2


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Give what a hanging function waits for; it is set when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_a_hanging_generator_does_not_hold_up_the_end_of_the_loop(released: threading.Event) -> None:
    """`asyncio.run` returns soon after the deadline, although the function still hangs."""

    def hang(_: object) -> str:
        released.wait(20)
        return "late"

    refiner = SelfRefine(hang, ScriptedJudge([4]), deadline_s=DEADLINE_S)
    started = time.monotonic()
    outcome = asyncio.run(refiner.arefine("what?"))
    assert (outcome.stop_reason, outcome.answer) == ("deadline", None)
    assert time.monotonic() - started < DEADLINE_S + 0.5


def test_a_hanging_judge_does_not_hold_up_the_end_of_the_loop(released: threading.Event) -> None:
    """The draft is returned flagged, and `asyncio.run` returns soon after the deadline."""

    def hang(answer: str) -> int:
        released.wait(20)
        return len(answer)

    refiner = SelfRefine(ScriptedModel(["draft"]), hang, deadline_s=DEADLINE_S)
    started = time.monotonic()
    outcome = asyncio.run(refiner.arefine("what?"))
    assert (outcome.stop_reason, outcome.passed) == ("deadline", False)
    assert time.monotonic() - started < DEADLINE_S + 0.5


def test_a_function_within_the_deadline_is_heard() -> None:
    """With a deadline a blocking generator and judge still answer, and their errors still count."""

    def broken(_: object) -> str:
        raise StopIteration

    refiner = SelfRefine(lambda _: "draft", lambda answer: answer == "draft", deadline_s=5)
    assert asyncio.run(refiner.arefine("what?")).stop_reason == "accepted"
    failed = SelfRefine(broken, ScriptedJudge([4]), deadline_s=5)
    assert asyncio.run(failed.arefine("what?")).stop_reason == "generator_failed"
