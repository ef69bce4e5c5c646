"""Showing a run: live on a screen while it goes on, or as one JSON object when it has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, ToolMessage

from demos.terminal import Screen, counted, pips, tone_of
from judges import Verdict
from refine import Attempt, Outcome


class Live(BaseCallbackHandler):
    """Writes each attempt while it is made: tool calls, the draft, the verdict.

    Drafts and verdicts arrive as the loop's progress events (`show_drafts=True`). Tool calls, and the words of
    the verdict, arrive as runs of the tools and of the judge, as they would in a trace.

    Args:
        screen: Where to write.
        judge: Name of the judge, whose run tells the verdict.
    """

    run_inline = True

    def __init__(self, screen: Screen, *, judge: str) -> None:
        self._screen = screen
        self._judge = judge
        self._begun = 0
        self._attempt = 1
        self._calls: dict[UUID, str] = {}
        self._judging: UUID | None = None
        self._said = Verdict.without_score("judge_failed")

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **told: Any) -> None:
        """Remember what a tool was called with."""
        del input_str
        self._calls[run_id] = _call(serialized.get("name", "tool"), told.get("inputs") or {})

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Write a tool call and its result."""
        self._begin()
        self._screen.entry("tool", f"{self._calls.pop(run_id, 'tool')} → {getattr(output, 'text', output)}")

    def on_chain_start(
        self, serialized: dict[str, Any], inputs: dict[str, Any], *, run_id: UUID, **told: Any
    ) -> None:
        """Notice the judge."""
        del serialized, inputs
        if told.get("name") == self._judge:
            self._judging = run_id

    def on_chain_end(self, outputs: dict[str, Any], *, run_id: UUID, **_: Any) -> None:
        """Keep what the judge said until the loop has decided upon it."""
        if run_id == self._judging:
            self._said = Verdict.model_validate(outputs)

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Write a draft, or the verdict on it."""
        if name == "refine.draft":
            self._begin()
            self._screen.entry("draft", data["text"])
        elif name == "refine.verdict":
            self._verdict(data)

    def _begin(self) -> None:
        if self._begun < self._attempt:
            self._begun = self._attempt
            self._screen.rule(f"attempt {self._attempt}")

    def _verdict(self, figures: Mapping[str, Any]) -> None:
        rating = figures["rating"]
        decided = "accepted" if figures["accepted"] else "refused"
        shown = f"{pips(rating)}  {rating} of 4, {decided}"
        self._screen.entry("rating", shown if rating else f"none ({figures['unscored']})", tone_of(rating))
        for label, text in (("why", self._said.rationale), ("feedback", self._said.feedback)):
            if text and rating:
                self._screen.entry(label, text)
        self._attempt += 1


def _call(name: str, args: Mapping[str, Any]) -> str:
    """Write a tool call as Python would."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})"


def show_result(screen: Screen, outcome: Outcome) -> None:
    """Write the answer, and what it took."""
    rating = None if outcome.best is None else outcome.best.rating
    answer = "" if outcome.answer is None else str(outcome.answer.text)
    title = "accepted answer" if outcome.passed else f"not accepted ({outcome.stop_reason}): the best there is"
    screen.line()
    screen.panel(title, answer or "There is none.", "good" if outcome.passed else tone_of(rating))
    screen.line(_totals(outcome), "dim")


def _totals(outcome: Outcome) -> str:
    """Say what a run took: attempts, time, calls and tokens."""
    end = "accepted after" if outcome.passed else "gave up after"
    usage = outcome.usage
    return (
        f"{end} {counted(len(outcome.attempts), 'attempt')} in {outcome.latency_s:.2f} s, "
        f"{usage.calls} model calls, {usage.tokens} tokens ({usage.input_tokens} in, {usage.output_tokens} out)"
    )


def as_json(outcome: Outcome, **settings: str | int | None) -> str:
    """Write a run, and the settings it was made with, as one JSON object."""
    record = {
        **settings,
        "passed": outcome.passed,
        "stop_reason": outcome.stop_reason,
        "detail": outcome.detail,
        "answer": None if outcome.answer is None else outcome.answer.text,
        "attempts": [_attempt(one) for one in outcome.attempts],
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
        "tools": _tools(attempt),
        "usage": attempt.usage.model_dump(mode="json"),
        "latency_s": round(attempt.latency_s, 6),
        "judge_usage": None if verdict is None else verdict.usage.model_dump(mode="json"),
        "judge_latency_s": None if verdict is None else round(verdict.latency_s, 6),
    }


def _tools(attempt: Attempt) -> list[dict[str, Any]]:
    """List an attempt's tool calls, each with its result."""
    results = {one.tool_call_id: one.text for one in attempt.steps if isinstance(one, ToolMessage)}
    return [
        {"name": call["name"], "args": call["args"], "result": results.get(call["id"] or "")}
        for message in attempt.steps
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    ]
