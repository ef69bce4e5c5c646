"""A question from the page: the loop's attempts as they happen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config

from graphs import Outcome, Refinement, Unanswered
from graphs.drivers import arun_step
from graphs.loop import Loop
from graphs.step import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class TryQuestion:
    """What the page asks.

    Args:
        question: The question.
        guard: Name of the guard; empty where there is but one.
        model: Name of the model; empty where nobody chose one.
    """

    question: str
    guard: str = ""
    model: str = ""


Event = Mapping[str, Any]
"""What the page is told: `event` is `start`, `draft`, `verdict` or `end`, with figures and texts."""


async def attempts_of(loop: Loop, question: str, *, config: RunnableConfig | None = None) -> AsyncIterator[Event]:
    """Answer a question, and yield what happens: each attempt's start, draft and verdict, and the end.

    Args:
        loop: The loop around the generator to try.
        question: The question.
        config: Config of the run.
    """
    conversation: list[AnyMessage] = [HumanMessage(question)]
    own, refinement = ensure_config(config), loop.begin({"messages": conversation})
    goto: Node | None = "generate"
    try:
        while goto == "generate" or goto == "judge":  # noqa: PLR1714 - narrows the type
            if goto == "generate":
                yield {"event": "start", "attempt": refinement.number}
            done, known = goto, len(refinement.attempts)
            transition = await arun_step(loop.steps[done], refinement, conversation, own)
            refinement, goto = transition.refinement, transition.goto
            if done == "judge" or len(refinement.attempts) > known:
                yield _draft(refinement) if done == "generate" else _verdict(refinement)
        if refinement.ending == "interrupt":
            yield _end(Outcome.of(refinement, conversation, None, now=refinement.ended_at or 0.0))
            return
        transition = await arun_step(loop.finish, refinement, conversation, own)
    except Unanswered as unanswered:
        yield _end(unanswered.outcome)
        return
    if transition.outcome is not None:
        yield _end(transition.outcome)


def _draft(refinement: Refinement) -> Event:
    attempt = refinement.attempts[-1]
    return {"event": "draft", "attempt": attempt.number, "draft": attempt.text, "generate_s": attempt.latency_s}


def _verdict(refinement: Refinement) -> Event:
    attempt = refinement.attempts[-1]
    verdict = attempt.verdict
    if verdict is None:
        return {"event": "verdict", "attempt": attempt.number, "unscored": "deadline"}
    return {
        "event": "verdict",
        "attempt": attempt.number,
        "judge": verdict.judge,
        "rating": verdict.rating,
        "score": verdict.score,
        "unscored": verdict.unscored,
        "verdict_detail": verdict.detail,
        "rationale": verdict.rationale,
        "feedback": verdict.feedback,
        "items": [item.model_dump(mode="json", exclude_defaults=True) for item in verdict.items],
        "judge_s": verdict.latency_s,
    }


def _end(outcome: Outcome) -> Event:
    return {
        "event": "end",
        "passed": outcome.passed,
        "stop_reason": outcome.stop_reason,
        "detail": outcome.detail,
        "released": outcome.released,
        "answer": None if outcome.answer is None else str(outcome.answer.text),
        "latency_s": outcome.latency_s,
        "cost": outcome.usage.cost,
    }
