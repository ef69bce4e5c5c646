"""The whole record of one question: `Outcome`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from graphs.redaction import withheld
from graphs.refinement import Attempt, Refinement, StopReason
from judges.sample import Sample
from judges.verdict import Usage


class Outcome(BaseModel):
    """What came of a question: the answer, whether it passed, and every attempt with its draft and verdict.

    Args:
        answer: The message to show, or None where there is none to show.
        passed: Whether the judge accepted the answer. An answer that was not judged has not passed.
        stop_reason: Why the loop stopped.
        detail: One line about the stop, without judged text.
        best: The attempt with the highest score; None where none was rated.
        released: Number of the attempt whose answer it is; None for a fallback, or a text of a reviewer's.
        attempts: All attempts, in order.
        usage: What generator and judges consumed together.
        latency_s: Seconds from question to answer.
        conversation: The messages up to the question.
        evidence: Fields of a sample that came with the question.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    answer: AIMessage | None
    passed: bool
    stop_reason: StopReason
    detail: str = ""
    best: Attempt | None = None
    released: int | None = None
    attempts: tuple[Attempt, ...] = ()
    usage: Usage = Usage()
    latency_s: float = Field(default=0.0, ge=0)
    conversation: tuple[AnyMessage, ...] = ()
    evidence: dict[str, JsonValue] = {}

    @classmethod
    def of(
        cls,
        refinement: Refinement,
        conversation: Sequence[AnyMessage],
        answer: AIMessage | None,
        *,
        now: float,
    ) -> Outcome:
        """Sum up a refinement that is done."""
        return cls(
            answer=answer,
            passed=refinement.passed,
            stop_reason=refinement.stop_reason or "interrupted",
            detail=refinement.detail,
            best=refinement.best,
            released=refinement.released,
            attempts=refinement.attempts,
            usage=refinement.usage,
            latency_s=max(0.0, (refinement.ended_at or now) - refinement.started_at),
            conversation=tuple(conversation),
            evidence=dict(refinement.evidence),
        )

    def summary(self) -> dict[str, Any]:
        """Give the record without any text of drafts that were not released, for the answer's metadata.

        A rationale may quote a draft, so it is given for the released answer alone, and without the reference.
        """
        given = self.evidence.get("reference")
        reference = given if isinstance(given, str) else None
        shown = next((one for one in self.attempts if one.number == self.released), None)
        rationale = "" if shown is None or shown.verdict is None else shown.verdict.rationale
        return {
            "passed": self.passed,
            "stop_reason": self.stop_reason,
            "detail": self.detail,
            "rating": None if shown is None else shown.rating,
            "rationale": withheld(rationale, reference),
            "attempts": [_figures(one) for one in self.attempts],
            "usage": self.usage.model_dump(mode="json"),
            "latency_s": self.latency_s,
        }

    def samples(self) -> list[Sample]:
        """Give every attempt as a sample, so that the judges that spoke online can judge them again offline.

        The number, rating and stop reason stand in each sample's metadata.
        """
        return [self._sample(one) for one in self.attempts]

    def _sample(self, attempt: Attempt) -> Sample:
        told: dict[str, Any] = {
            "attempt": attempt.number,
            "rating": attempt.rating,
            "stop_reason": self.stop_reason if attempt is self.attempts[-1] else None,
        }
        sample = sample_of(self.conversation, attempt, self.evidence)
        known = {name: value for name, value in told.items() if value is not None}
        return sample.model_copy(update={"metadata": {**sample.metadata, **known}})


def sample_of(conversation: Sequence[AnyMessage], attempt: Attempt, evidence: Mapping[str, JsonValue]) -> Sample:
    """Make the sample a judge sees: the original conversation, this draft, and the evidence.

    A conversation that is one plain question is given as its text.
    """
    first = conversation[0]
    plain = len(conversation) == 1 and first.type == "human" and isinstance(first.content, str)
    return Sample.read(
        {
            **evidence,
            **attempt.evidence,
            "user_input": first.content if plain else list(conversation),
            "response": attempt.text,
            "trajectory": attempt.steps,
        }
    )


def _figures(attempt: Attempt) -> dict[str, Any]:
    verdict = attempt.verdict
    return {
        "number": attempt.number,
        "rating": attempt.rating,
        "score": None if verdict is None else verdict.score,
        "unscored": None if verdict is None else verdict.unscored,
        "latency_s": attempt.latency_s,
    }
