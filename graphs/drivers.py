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
from graphs.loop import Call, Decision, Loop, Messages, Move
from graphs.progress import atell, tell
from graphs.refinement import Refinement


def take(decide: Decision, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Move:
    """Take one step, blocking."""
    move = decide(refinement, messages, config)
    if isinstance(move, Call):
        started = time.perf_counter()
        with langgraph_private.inside(move.config):
            try:
                came_back = call_within(move.seconds, move.run)
            except Exception as error:  # noqa: BLE001 - settled by the step
                came_back = error
        move = move.settle(came_back, time.perf_counter() - started)
    tell(move.events, config, log_texts=refinement.policy.log_texts)
    if move.error is not None:
        raise move.error
    return move


async def atake(decide: Decision, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Move:
    """Take one step without blocking the event loop."""
    move = decide(refinement, messages, config)
    if isinstance(move, Call):
        started = time.perf_counter()
        with langgraph_private.inside(move.config):
            try:
                came_back = await acall_within(move.seconds, move.arun())
            except Exception as error:  # noqa: BLE001 - settled by the step
                came_back = error
        move = move.settle(came_back, time.perf_counter() - started)
    await atell(move.events, config, log_texts=refinement.policy.log_texts)
    if move.error is not None:
        raise move.error
    return move


@dataclass(frozen=True, slots=True)
class Ended:
    """A run of the loop that has ended.

    Args:
        refinement: The record.
        answer: The answer, or None where a human is to decide first.
    """

    refinement: Refinement
    answer: AIMessage | None


def run(loop: Loop, question: Mapping[str, Any], config: RunnableConfig) -> Ended:
    """Run the whole loop without a graph, blocking."""
    messages = question["messages"]
    refinement = try_on(loop, loop.begin(question), messages, config)
    if refinement.ending == "interrupt":
        return Ended(refinement, None)
    return _ended(take(loop.finish, refinement, messages, config))


async def arun(loop: Loop, question: Mapping[str, Any], config: RunnableConfig) -> Ended:
    """Run the whole loop without a graph and without blocking the event loop."""
    messages = question["messages"]
    refinement = await atry_on(loop, loop.begin(question), messages, config)
    if refinement.ending == "interrupt":
        return Ended(refinement, None)
    return _ended(await atake(loop.finish, refinement, messages, config))


def try_on(loop: Loop, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Refinement:
    """Generate and judge until there is nothing more to try, blocking."""
    move = Move(refinement=refinement, goto="generate")
    while move.goto is not None and move.goto != "finish":
        move = take(loop.steps[move.goto], move.refinement, messages, config)
    return move.refinement


async def atry_on(loop: Loop, refinement: Refinement, messages: Messages, config: RunnableConfig) -> Refinement:
    """Generate and judge until there is nothing more to try, without blocking the event loop."""
    move = Move(refinement=refinement, goto="generate")
    while move.goto is not None and move.goto != "finish":
        move = await atake(loop.steps[move.goto], move.refinement, messages, config)
    return move.refinement


def _ended(move: Move) -> Ended:
    return Ended(move.refinement, None if move.update is None else move.update["messages"][-1])
