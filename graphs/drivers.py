"""Running the loop's steps: one at a time, for a node of the graph, or all of them without a graph.

A graph is needed where a checkpoint, an interrupt or a picture is wanted. Where none is, running the same steps
in a plain loop saves what LangGraph costs per node.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig

from graphs import langchain_private
from graphs.events import apublish, publish, warn
from graphs.loop import Loop
from graphs.outcome import Outcome
from graphs.refinement import Refinement
from graphs.step import Effect, Messages, Step, Transition, acall_within, call_within, watched
from judges.runtime import flow


def perform(effect: Effect) -> Any:
    """Make the call of an effect, blocking; where it fails, or takes too long, it calls nothing any more."""
    try:
        with langchain_private.use_config(effect.config), watched(effect.attempt) as on_result:
            result = call_within(effect.seconds, effect.run)
            on_result(result)
            return result
    except BaseException:
        effect.abandon()
        raise


async def aperform(effect: Effect) -> Any:
    """Make the call of an effect without blocking the event loop; otherwise as `perform`."""
    try:
        with langchain_private.use_config(effect.config), watched(effect.attempt) as on_result:
            result = await acall_within(effect.seconds, effect.arun())
            on_result(result)
            return result
    except BaseException:
        effect.abandon()
        raise


def run_step(step: Step, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Transition:
    """Run one step, blocking."""

    def publish_and_perform(effect: Effect) -> Any:
        publish(effect.events, config, refinement)
        return perform(effect)

    transition = flow.run(step(refinement, messages, config), publish_and_perform)
    publish(transition.events, config, transition.refinement)
    warn(transition.alarms, config, transition.refinement)
    if transition.error is not None:
        raise transition.error
    return transition


async def arun_step(step: Step, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Transition:
    """Run one step without blocking the event loop."""

    async def publish_and_perform(effect: Effect) -> Any:
        await apublish(effect.events, config, refinement)
        return await aperform(effect)

    transition = await flow.arun(step(refinement, messages, config), publish_and_perform)
    await apublish(transition.events, config, transition.refinement)
    warn(transition.alarms, config, transition.refinement)
    if transition.error is not None:
        raise transition.error
    return transition


def run(loop: Loop, question: Mapping[str, Any], config: RunnableConfig) -> Outcome:
    """Run the whole loop without a graph, blocking."""
    messages = question["messages"]
    refinement = run_attempts(loop, loop.overridden(loop.begin(question), config), messages, config)
    if refinement.ending == "interrupt":
        return Outcome.waiting(refinement, messages, now=time.time())
    return _outcome(run_step(loop.finish, refinement, messages, config))


async def arun(loop: Loop, question: Mapping[str, Any], config: RunnableConfig) -> Outcome:
    """Run the whole loop without a graph and without blocking the event loop."""
    messages = question["messages"]
    refinement = await arun_attempts(loop, loop.overridden(loop.begin(question), config), messages, config)
    if refinement.ending == "interrupt":
        return Outcome.waiting(refinement, messages, now=time.time())
    return _outcome(await arun_step(loop.finish, refinement, messages, config))


def run_attempts(loop: Loop, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Refinement:
    """Generate and judge until there is nothing more to try, blocking."""
    transition = Transition(refinement=refinement, goto="generate")
    while transition.goto is not None and transition.goto != "finish":
        transition = run_step(loop.steps[transition.goto], transition.refinement, messages, config)
    return transition.refinement


async def arun_attempts(
    loop: Loop, refinement: Refinement, messages: Messages, config: RunnableConfig
) -> Refinement:
    """Generate and judge until there is nothing more to try, without blocking the event loop."""
    transition = Transition(refinement=refinement, goto="generate")
    while transition.goto is not None and transition.goto != "finish":
        transition = await arun_step(loop.steps[transition.goto], transition.refinement, messages, config)
    return transition.refinement


def _outcome(transition: Transition) -> Outcome:
    assert transition.outcome is not None  # noqa: S101 - a step that finishes without one raises
    return transition.outcome
