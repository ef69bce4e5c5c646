"""Carrying out the loop's steps: one at a time, for a node of the graph, or all of them without a graph.

A graph is needed where a checkpoint, an interrupt or a picture is wanted. Where none is, running the same steps
in a plain loop saves what LangGraph costs per node.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

from graphs import langgraph_private
from graphs.deadline import acall_within, call_within
from graphs.loop import Effect, Loop, Messages, Step, Transition
from graphs.progress import apublish, publish
from graphs.refinement import Refinement


def run_step(step: Step, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Transition:
    """Take one step, blocking."""
    transition = step(refinement, messages, config)
    if isinstance(transition, Effect):
        started = time.perf_counter()
        with langgraph_private.use_config(transition.config):
            try:
                result = call_within(transition.seconds, transition.run)
            except Exception as error:  # noqa: BLE001 - handled by the step
                result = error
        transition = transition.on_result(result, time.perf_counter() - started)
    publish(transition.events, config, log_texts=refinement.policy.log_texts)
    if transition.error is not None:
        raise transition.error
    return transition


async def arun_step(step: Step, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Transition:
    """Take one step without blocking the event loop."""
    transition = step(refinement, messages, config)
    if isinstance(transition, Effect):
        started = time.perf_counter()
        with langgraph_private.use_config(transition.config):
            try:
                result = await acall_within(transition.seconds, transition.arun())
            except Exception as error:  # noqa: BLE001 - handled by the step
                result = error
        transition = transition.on_result(result, time.perf_counter() - started)
    await apublish(transition.events, config, log_texts=refinement.policy.log_texts)
    if transition.error is not None:
        raise transition.error
    return transition


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run of the loop that has ended.

    Args:
        refinement: The record.
        answer: The answer, or None where a human is to decide first.
    """

    refinement: Refinement
    answer: AIMessage | None


def run(loop: Loop, question: Mapping[str, Any], config: RunnableConfig) -> RunResult:
    """Run the whole loop without a graph, blocking."""
    messages = question["messages"]
    refinement = run_attempts(loop, loop.begin(question), messages, config)
    if refinement.ending == "interrupt":
        return RunResult(refinement, None)
    return _run_result(run_step(loop.finish, refinement, messages, config))


async def arun(loop: Loop, question: Mapping[str, Any], config: RunnableConfig) -> RunResult:
    """Run the whole loop without a graph and without blocking the event loop."""
    messages = question["messages"]
    refinement = await arun_attempts(loop, loop.begin(question), messages, config)
    if refinement.ending == "interrupt":
        return RunResult(refinement, None)
    return _run_result(await arun_step(loop.finish, refinement, messages, config))


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


def _run_result(transition: Transition) -> RunResult:
    return RunResult(
        transition.refinement, None if transition.update is None else transition.update["messages"][-1]
    )
