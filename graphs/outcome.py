"""The complete record of one question: `Outcome`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from langchain_core.messages import AIMessage, AnyMessage
from pydantic import ConfigDict, Field, JsonValue, SkipValidation

from graphs.attempt import Attempt
from graphs.certified import certificate_of
from graphs.reasoning import reply_without_reasoning
from graphs.refinement import Refinement
from graphs.secrets import withhold
from graphs.stopping import StopReason
from judges.first_guesses import OF_AN_OUTCOME, HintsAtGuesses
from judges.frozen import Frozen
from judges.messages import Conversation, Message
from judges.sample import Sample
from judges.verdict import Usage


class Outcome(HintsAtGuesses, Frozen):
    """The result of a question: the answer, whether it passed, and every attempt with its draft and verdict.

    Args:
        answer: The message to show, or None where there is none to show.
        passed: Whether the judge accepted the answer. An unjudged answer has not passed.
        stop_reason: Why the loop stopped.
        detail: One line about the stop, without judged text.
        best: The attempt with the highest score; None where none was rated.
        released: Number of the attempt whose answer was released; None for a fallback, or a reviewer's own text.
        attempts: All attempts, in order.
        usage: What generator and judges consumed together.
        latency_s: Seconds from question to answer.
        conversation: The messages up to the question.
        evidence: Fields of a sample, passed with the question.
        id: Identifies the question in the log, in events and in the answer's metadata, as `outcome_id`.
        raw: The endpoint's own reply with the released answer, where the generator is a direct client. As in
            `answer`, reasoning is left out after a refusal, unless the policy keeps it; attempts hold it.
        certificate: Id of the certificate in force, whose promise is about answers that passed; None without one,
            where the request changed what it is about, and where a model answered that was not calibrated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    _guesses: ClassVar[Mapping[str, str]] = OF_AN_OUTCOME

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
    evidence: dict[str, JsonValue] = Field(default_factory=dict)
    id: str = ""
    raw: Annotated[dict[str, JsonValue] | None, SkipValidation] = None
    certificate: str | None = None

    @classmethod
    def of(
        cls,
        refinement: Refinement,
        conversation: Sequence[AnyMessage],
        answer: AIMessage | None,
        *,
        now: float,
    ) -> Outcome:
        """Return the outcome of a finished refinement."""
        return cls.of_checked(
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
            id=refinement.id,
            raw=None if answer is None else _released_reply(refinement),
            certificate=certificate_of(refinement),
        )

    @classmethod
    def waiting(cls, refinement: Refinement, conversation: Sequence[AnyMessage], *, now: float) -> Outcome:
        """Return the outcome of a run that waits for a human; `detail` says why it stopped trying."""
        outcome = cls.of(refinement, conversation, None, now=now)
        return outcome.model_copy(update={"stop_reason": "interrupted", "detail": refinement.stop_reason or ""})

    def summary(self) -> dict[str, Any]:
        """Return the record without any text of unreleased drafts, for the answer's metadata.

        A rationale may quote a draft, so it is included for the released answer only, and withholds what only the
        judge may see.
        """
        released = next((attempt for attempt in self.attempts if attempt.number == self.released), None)
        rationale = "" if released is None or released.verdict is None else released.verdict.rationale
        return {
            "outcome_id": self.id,
            "passed": self.passed,
            "stop_reason": self.stop_reason,
            "detail": self.detail,
            "rating": None if released is None else released.rating,
            "rationale": withhold(rationale, self.evidence),
            "attempts": [_figures(attempt) for attempt in self.attempts],
            "usage": self.usage.model_dump(mode="json"),
            "latency_s": self.latency_s,
            **({} if self.certificate is None else {"certificate": self.certificate}),
        }

    def samples(self) -> list[Sample]:
        """Return every draft as a sample, so that the judges used online can judge them again offline.

        Each sample's metadata contains the number of the attempt, rating, stop reason, and the kind of an answer
        that is no text; of an attempt with several candidates also the candidate, and whether it was chosen.
        """
        if not self.attempts:
            return []
        conversation = read_conversation(self.conversation)
        return [
            self._sample(conversation, draft, attempt) for attempt in self.attempts for draft in attempt.drafts
        ]

    def _sample(self, conversation: str | Conversation, draft: Attempt, attempt: Attempt) -> Sample:
        labels: dict[str, Any] = {
            "attempt": draft.number,
            "candidate": draft.candidate,
            "chosen": None if draft.candidate is None else draft is attempt,
            "rating": draft.rating,
            "kind": None if draft.kind == "text" else draft.kind,
            "stop_reason": self.stop_reason if draft is self.attempts[-1] else None,
            "certificate": self.certificate,
        }
        sample = sample_of(conversation, draft, self.evidence)
        metadata = {name: value for name, value in labels.items() if value is not None}
        return sample.model_copy(update={"metadata": {**sample.metadata, **metadata}})


def read_conversation(messages: Sequence[AnyMessage]) -> str | Conversation:
    """Return a conversation as a sample has it; one of one plain question becomes a string.

    Raises:
        judges.BadSample: If a message cannot be read.
    """
    first = messages[0]
    if len(messages) == 1 and first.type == "human" and isinstance(first.content, str):
        return first.content
    return Sample.read(user_input=list(messages)).user_input or ()


def question_of(conversation: str | Sequence[AnyMessage | Message], evidence: Mapping[str, JsonValue]) -> Sample:
    """Return the part of the sample for a judge that all attempts share: the conversation, and its evidence."""
    return Sample.read(
        {**evidence, "user_input": conversation if isinstance(conversation, str) else tuple(conversation)}
    )


def sample_of(
    conversation: str | Sequence[AnyMessage | Message], attempt: Attempt, evidence: Mapping[str, JsonValue]
) -> Sample:
    """Return the sample for a judge: the original conversation, read or not, this draft, and the evidence."""
    return Sample.read(
        {
            **evidence,
            **attempt.evidence,
            "user_input": conversation if isinstance(conversation, str) else tuple(conversation),
            "response": attempt.text,
            "trajectory": attempt.steps,
        }
    )


def _released_reply(refinement: Refinement) -> dict[str, JsonValue] | None:
    released = next((attempt for attempt in refinement.attempts if attempt.number == refinement.released), None)
    if released is None or released.raw is None:
        return None
    with_its_reasoning = released.number == 1 or refinement.policy.keep_reasoning
    return released.raw if with_its_reasoning else reply_without_reasoning(released.raw)


def _figures(attempt: Attempt) -> dict[str, Any]:
    """Return the figures of an attempt: those of the chosen draft, with those of the others beside it."""
    candidate = {} if attempt.candidate is None else {"candidate": attempt.candidate}
    unchosen = {"unchosen": [_figures(draft) for draft in attempt.unchosen]} if attempt.unchosen else {}
    verdict = attempt.verdict
    return {
        "number": attempt.number,
        "kind": attempt.kind,
        "rating": attempt.rating,
        "score": None if verdict is None else verdict.score,
        "unscored": None if verdict is None else verdict.unscored,
        "latency_s": attempt.latency_s,
        **candidate,
        **unchosen,
    }
