"""Showing a run: live on a screen, or as one JSON object when it has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

from demos.screen import Screen, pips, quantity, tone_of
from refine import Attempt, Outcome


class Live(BaseCallbackHandler):
    """Writes each attempt as it happens: tool calls, the draft, the verdict, from the loop's progress events.

    Args:
        screen: Where to write.
    """

    run_inline = True

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Write a draft, or the verdict on it."""
        if name == "refine.draft":
            self._screen.rule(f"attempt {data['attempt']}")
            for tool in data["tools"]:
                self._screen.entry("tool", f"{_call(tool['name'], tool['args'])} → {tool['result']}")
            self._screen.entry("draft", data["text"])
        elif name == "refine.verdict":
            self._write_verdict(data)

    def _write_verdict(self, data: Mapping[str, Any]) -> None:
        rating = data["rating"]
        decision = "accepted" if data["accepted"] else "refused"
        line = f"{pips(rating)}  {rating} of 4, {decision}"
        self._screen.entry("rating", line if rating else f"none ({data['unscored']})", tone_of(rating))
        for label, text in (("why", data["rationale"]), ("feedback", data["feedback"])):
            if text and rating:
                self._screen.entry(label, text)


def _call(name: str, args: Mapping[str, Any]) -> str:
    """Return a tool call as Python would write it."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})"


def show_result(screen: Screen, outcome: Outcome) -> None:
    """Write the answer, and the totals of the run."""
    rating = None if outcome.best is None else outcome.best.rating
    answer = "" if outcome.answer is None else str(outcome.answer.text)
    title = "accepted answer" if outcome.passed else f"not accepted ({outcome.stop_reason}): the best there is"
    screen.line()
    screen.panel(title, answer or "There is none.", "good" if outcome.passed else tone_of(rating))
    screen.line(_totals(outcome), "dim")


def _totals(outcome: Outcome) -> str:
    """Return the totals of a run: attempts, time, calls and tokens."""
    end = "accepted after" if outcome.passed else "gave up after"
    usage = outcome.usage
    return (
        f"{end} {quantity(len(outcome.attempts), 'attempt')} in {outcome.latency_s:.2f} s, "
        f"{usage.calls} model calls, {usage.tokens} tokens ({usage.input_tokens} in, {usage.output_tokens} out)"
    )


def as_json(outcome: Outcome, **settings: str | int | None) -> str:
    """Return a run and its settings as one JSON object."""
    record = {
        **settings,
        "passed": outcome.passed,
        "stop_reason": outcome.stop_reason,
        "detail": outcome.detail,
        "answer": None if outcome.answer is None else outcome.answer.text,
        "attempts": [_attempt(attempt) for attempt in outcome.attempts],
        "usage": outcome.usage.model_dump(mode="json"),
        "latency_s": round(outcome.latency_s, 6),
    }
    return json.dumps(record, ensure_ascii=False, indent=2)


def _attempt(attempt: Attempt) -> dict[str, Any]:
    verdict = attempt.verdict
    return {
        "number": attempt.number,
        "answer": attempt.text,
        "rating": attempt.rating,
        "feedback": attempt.feedback,
        "rationale": "" if verdict is None else verdict.rationale,
        "unscored": None if verdict is None else verdict.unscored,
        "tools": attempt.tools,
        "usage": attempt.usage.model_dump(mode="json"),
        "latency_s": round(attempt.latency_s, 6),
        "judge_usage": None if verdict is None else verdict.usage.model_dump(mode="json"),
        "judge_latency_s": None if verdict is None else round(verdict.latency_s, 6),
    }
