"""Run an algorithm that is written once, as a generator that yields what it needs, blocking or not.

A flow decides and does no I/O: it yields effects, receives what they came to (a failure is raised at the `yield`),
and returns its result. `run` and `arun` perform the effects.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

Effect = TypeVar("Effect")
Outcome = TypeVar("Outcome")
Result = TypeVar("Result")


def run(flow: Generator[Effect, Outcome, Result], perform: Callable[[Effect], Outcome]) -> Result:
    """Run a flow to its result, performing one effect after the other."""
    try:
        effect = next(flow)
        while True:
            try:
                outcome = perform(effect)
            except Exception as error:  # noqa: BLE001 - the flow decides what becomes of it
                effect = flow.throw(error)
            else:
                effect = flow.send(outcome)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the flow returned
    finally:
        flow.close()  # whatever ended it, so that what it has opened is closed now


async def arun(
    flow: Generator[Effect, Outcome, Result], perform: Callable[[Effect], Awaitable[Outcome]]
) -> Result:
    """Run a flow without blocking; otherwise as `run`."""
    try:
        effect = next(flow)
        while True:
            try:
                outcome = await perform(effect)
            except Exception as error:  # noqa: BLE001 - the flow decides what becomes of it
                effect = flow.throw(error)
            else:
                effect = flow.send(outcome)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # what the flow returned
    finally:
        flow.close()  # as above
