"""One attempt at an answer: the draft, what it is judged by, its verdict and what both cost."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cached_property
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from pydantic import ConfigDict, Field, JsonValue, SkipValidation

from graphs.answer_kind import AnswerKind, kind_of_answer, text_of_answer
from judges.frozen import Frozen
from judges.verdict import Usage, Verdict


class Attempt(Frozen):
    """One generated answer and its verdict.

    Args:
        number: Number of the attempt, from 1.
        answer: The draft, as returned by the generator.
        steps: Messages between question and answer: tool calls and tool results.
        evidence: Fields of a sample that the generator returned, for instance `retrieved_contexts`.
        raw: The endpoint's own reply, where the generator is a direct client.
        verdict: The judge's verdict; None where the judge was not asked or did not finish.
        fault: What makes the answer unfit to be released; empty where nothing does.
        usage: What generating consumed; the verdict holds what judging consumed.
        latency_s: Seconds the generator took.
        candidate: Number of the draft among those of its attempt, from 1; None where it is the only one.
        unchosen: The other drafts of the attempt, in order; rejected drafts like any other.
        review: What a reviewer asked to change; empty where no reviewer sent the answer back.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = Field(ge=1)
    answer: AIMessage
    steps: tuple[AnyMessage, ...] = ()
    evidence: dict[str, JsonValue] = Field(default_factory=dict)
    raw: Annotated[dict[str, JsonValue] | None, SkipValidation] = None
    verdict: Verdict | None = None
    fault: str = ""
    usage: Usage = Usage()
    latency_s: float = Field(default=0.0, ge=0)
    candidate: int | None = Field(default=None, ge=1)
    unchosen: tuple[Attempt, ...] = ()
    review: str = ""

    @property
    def text(self) -> str:
        """Text of the draft; of a refusal without one, what the refusal says."""
        return text_of_answer(self.answer)

    @cached_property
    def kind(self) -> AnswerKind:
        """The kind of the draft: text, a refusal, cut off, ..."""
        return kind_of_answer(self.answer)

    @property
    def rating(self) -> int | None:
        """Rating from 1 to 4, or None where there is none."""
        return None if self.verdict is None else self.verdict.rating

    @property
    def feedback(self) -> str:
        """The changes that a reviewer requests, or else the judge; empty where there is no feedback."""
        return self.review or ("" if self.verdict is None else self.verdict.feedback)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Tool calls of this attempt in order: `name`, `args`, and `result`, the text returned, or None."""
        results = {step.tool_call_id: str(step.text) for step in self.steps if isinstance(step, ToolMessage)}
        return [
            {"name": call["name"], "args": deepcopy(call["args"]), "result": results.get(call["id"] or "")}
            for message in self.steps
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        ]

    @property
    def drafts(self) -> list[Attempt]:
        """All drafts of the attempt by the number of their candidate, this one included."""
        return sorted((self, *self.unchosen), key=lambda draft: draft.candidate or 0)

    def to_state(self) -> dict[str, Any]:
        """Return the attempt as plain data and LangChain messages, for a checkpoint."""
        candidate = {} if self.candidate is None else {"candidate": self.candidate}
        unchosen = {"unchosen": [draft.to_state() for draft in self.unchosen]} if self.unchosen else {}
        return {
            "number": self.number,
            "answer": self.answer,
            "steps": list(self.steps),
            "evidence": self.evidence,
            "verdict": None if self.verdict is None else self.verdict.model_dump(mode="json"),
            "fault": self.fault,
            "usage": self.usage.model_dump(mode="json"),
            "latency_s": self.latency_s,
            **({} if self.raw is None else {"raw": self.raw}),
            **candidate,
            **unchosen,
            "review": self.review,
        }


def usages_of(attempt: Attempt) -> Iterator[Usage]:
    """Yield what an attempt consumed: generating, judging, and the drafts that were not chosen."""
    yield attempt.usage
    if attempt.verdict is not None:
        yield attempt.verdict.usage
    for draft in attempt.unchosen:
        yield from usages_of(draft)
