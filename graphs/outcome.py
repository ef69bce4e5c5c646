"""The complete record of one question, `Outcome`, and the errors that carry one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage
from pydantic import Field, JsonValue, SkipValidation

from graphs.answers import AnswerKind, Attempt, Piece, reply_without_reasoning
from graphs.policy import Policy
from graphs.redaction import withhold
from graphs.refinement import LATE_REFUSAL, Refinement, StopReason
from judges.certificate import IssuedCertificate
from judges.errors import rebuild
from judges.messages import Conversation, Message, plain_message
from judges.models.retry import kind_of
from judges.sample import Sample, cut_text, level
from judges.verdict import Frozen, Usage, Verdict


class RefineError(Exception):
    """Base class of every error of this package.

    Attributes:
        outcome: The record of the turn that the error ended; None where nothing was attempted.
    """

    outcome: Outcome | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy or a pickle is made of: type, message and attributes."""
        return rebuild, (type(self), self.args), vars(self)


class InputError(RefineError, ValueError):
    """There is nothing to answer, or the input cannot be read; the message says what to pass."""


class DraftError(RefineError, TypeError):
    """A generator returned a value that is not an answer; the message says what to return."""


class ConcurrentTurn(RefineError):  # noqa: N818 - names what got in the way
    """Another turn runs on the same thread of a checkpointer; this one is not part of the conversation.

    It was refused before anything was spent, or, where another process had continued the thread meanwhile, at the
    end of one of its steps. It can be given again.
    """


class ReviewPending(ConcurrentTurn):
    """The turn before this one waits for a human's decision; nothing was spent, and nothing was changed."""


class Unanswered(RefineError):  # noqa: N818 - the adjective describes the question
    """The loop ended without an answer that may be released.

    Args:
        message: Description of the failure, without any judged text.
        outcome: The complete record.
    """

    outcome: Outcome

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


class NotAccepted(Unanswered):
    """No attempt passed, and `on_exhausted` is `"raise"`; or, as `Rejected`, a reviewer rejected the answer."""


class Rejected(NotAccepted):
    """A reviewer rejected the answer; the decision is stored, and the turn is done."""


class QuestionRefused(Unanswered):
    """The input judge refused the question, and there is no fallback text."""


class JudgeFailed(Unanswered):
    """The judge gave no verdict, and `on_judge_error` is `"raise"`."""


class GeneratorFailed(Unanswered):
    """The generator raised before there was anything to return; `__cause__` is its error."""


_NAMES = ("model_name", "model")


def is_calibrated(certificate: IssuedCertificate, refinement: Refinement) -> bool:
    """Check whether a model answered that a certificate is about.

    Providers change what stands behind a name, and a request to a guard chooses its model. Where the released
    answer does not name its model, nothing is compared.
    """
    model = answering_model(refinement)
    return model is None or model in (certificate.answer_models or (model,))


def answering_model(refinement: Refinement) -> str | None:
    """Return the model that the released answer names, if it does."""
    released = next((attempt for attempt in refinement.attempts if attempt.number == refinement.released), None)
    if released is None:
        return None
    metadata = released.answer.response_metadata
    name = next((value for key in _NAMES if (value := metadata.get(key))), None)
    return name if isinstance(name, str) else None


class Outcome(Frozen, extra="forbid"):
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
        certificate: Id of the certificate whose promise covers this answer; None without one, where no attempt was
            accepted, where the request changed what it is about, and where a model answered that was not
            calibrated.
        held_back: Why the answer was released whole although the policy releases pieces: `"candidates"`,
            `"tool_call"`, ...; `"late_refusal"`: it takes the place of one whose pieces are out; empty where it
            was not.
        question_verdict: What the input judge said of the question; None where there is none.
    """

    _guesses_at: ClassVar[str] = "an outcome"

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
    held_back: str = ""
    question_verdict: Verdict | None = None

    @property
    def text(self) -> str:
        """Text of the answer; empty where there is none, as after a deadline."""
        return "" if self.answer is None else str(self.answer.text)

    @property
    def covered(self) -> bool:
        """True if the promise of a certificate is about this answer."""
        return self.certificate is not None

    @property
    def missing(self) -> dict[str, str]:
        """Why the judge, or members of it, gave no verdict on the answer, or else the last draft, by name."""
        if not self.attempts:
            return {}
        verdict = self.attempts[(self.released or len(self.attempts)) - 1].verdict
        return {} if verdict is None else verdict.missing

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
        number, passed = refinement.released, refinement.passed
        certificate = refinement.policy.certificate if passed and number is not None else None
        raw = None if answer is None or number is None else refinement.attempts[number - 1].raw
        return cls.of_checked(
            answer=answer,
            passed=passed,
            stop_reason=refinement.stop_reason or "interrupted",
            detail=refinement.detail,
            best=refinement.best,
            released=number,
            attempts=refinement.attempts,
            usage=refinement.usage,
            latency_s=max(0.0, (refinement.ended_at or now) - refinement.started_at),
            conversation=tuple(conversation),
            evidence=dict(refinement.evidence),
            id=refinement.id,
            raw=None if raw is None else _released_reply(raw, number or 1, refinement.policy),
            certificate=certificate.id if certificate and is_calibrated(certificate, refinement) else None,
            held_back="" if refinement.policy.release == "answer" else _held_back(refinement),
            question_verdict=refinement.question_verdict,
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
        verdict = None if self.released is None else self.attempts[self.released - 1].verdict
        rationale = "" if verdict is None else verdict.rationale
        summary = {
            "outcome_id": self.id,
            "passed": self.passed,
            "stop_reason": self.stop_reason,
            "detail": self.detail,
            "rating": None if verdict is None else verdict.rating,
            "rationale": withhold(rationale, self.evidence) if self.evidence else rationale,
            "attempts": _figures(self.attempts),
            "usage": {**vars(self.usage)},
            "latency_s": self.latency_s,
        }
        on_question = self.question_verdict
        if on_question is not None:
            summary["question"] = {
                "judge": on_question.judge,
                "passed": on_question.passed,
                "unscored": on_question.unscored,
            }
        for name in ("certificate", "covered", "missing", "held_back"):
            value = getattr(self, name)
            if value:
                summary[name] = value
        if self.held_back == LATE_REFUSAL and self.answer is not None:
            summary["replaces"] = (self.answer.id or "").removesuffix(REPLACEMENT)
        return summary

    def samples(self) -> list[Sample]:
        """Return every draft as a sample, so that the judges used online can judge them again offline.

        Each sample's metadata contains the number of the attempt, rating, stop reason, and the kind of an answer
        that is no text; of an attempt with several candidates also the candidate, and whether it was chosen.
        """
        if not self.attempts:
            return []
        conversation = _read_conversation(self.conversation)
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


REPLACEMENT = "-replacement"
"""How the id of a message ends that takes the place of the one whose id stands before it."""


def _held_back(refinement: Refinement) -> str:
    """Return why an answer was released whole although it was to be released in pieces."""
    reason = refinement.policy.held_back or refinement.held_back
    if reason or refinement.released_pieces or not refinement.attempts:
        return reason
    kind = refinement.attempts[-1].kind
    return kind if refinement.stop_reason == "skipped" else ""


def outcome_of(error: BaseException) -> Outcome | None:
    """Return the record of the turn that an error ended; None where nothing was attempted."""
    outcome = getattr(error, "outcome", None)
    return outcome if isinstance(outcome, Outcome) else None


def add_outcome(
    error: BaseException, refinement: Refinement, messages: Sequence[AnyMessage], *, now: float
) -> None:
    """Give what ends a turn, an error or a cancellation, the record of it: no attempt that was paid for is lost.

    One that a step added already, knowing more of what was going on, stays.
    """
    outcome_before = outcome_of(error)
    if outcome_before is not None and outcome_before.id == refinement.id:
        return
    if not refinement.done:
        detail = f"{kind_of(error)} ended the turn on attempt {max(1, len(refinement.attempts))}"
        refinement = refinement.stop("broken_off", detail, now=now)
    vars(error)["outcome"] = Outcome.of(refinement, messages, None, now=now)


def _read_conversation(messages: Sequence[AnyMessage]) -> str | Conversation:
    """Return a conversation as a sample has it; one of one plain question becomes a string.

    Raises:
        judges.BadSample: If a message cannot be read.
    """
    first = messages[0]
    if len(messages) == 1 and first.type == "human" and isinstance(first.content, str):
        return first.content
    plain = [plain_message(message) for message in messages]
    if None not in plain:
        return tuple(message for message in plain if message is not None)
    return Sample.read(user_input=list(messages)).user_input or ()


def question_of(conversation: str | Sequence[AnyMessage | Message], evidence: Mapping[str, JsonValue]) -> Sample:
    """Return the part of the sample for a judge that all attempts share: the conversation, and its evidence."""
    if isinstance(conversation, str) and not evidence:
        return _PLAIN.model_copy(update={"user_input": conversation})
    return Sample.read(
        {**evidence, "user_input": conversation if isinstance(conversation, str) else tuple(conversation)}
    )


_PLAIN = Sample(user_input="")


def sample_of(
    conversation: str | Sequence[AnyMessage | Message], attempt: Attempt, evidence: Mapping[str, JsonValue]
) -> Sample:
    """Return the sample for a judge: the original conversation, read or not, this draft, and the evidence.

    What the question brought goes before what the generator returned under the same name.
    """
    return Sample.read(
        {
            **attempt.evidence,
            **evidence,
            "user_input": conversation if isinstance(conversation, str) else tuple(conversation),
            "response": attempt.text,
            "trajectory": (*attempt.steps, AIMessage(attempt.kept)) if attempt.kept else attempt.steps,
        }
    )


def _released_reply(raw: dict[str, JsonValue], number: int, policy: Policy) -> dict[str, JsonValue]:
    return raw if number == 1 or policy.keep_reasoning else reply_without_reasoning(raw)


def _figures(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return the figures of attempts: of each those of the chosen draft, with those of the others beside it."""
    kinds = [attempt.kind for attempt in attempts]
    return [_figures_of(attempt, kind) for attempt, kind in zip(attempts, kinds, strict=True)]


def _figures_of(attempt: Attempt, kind: AnswerKind) -> dict[str, Any]:
    verdict = attempt.verdict
    figures: dict[str, Any] = {
        "number": attempt.number,
        "kind": kind,
        "rating": None if verdict is None else verdict.rating,
        "score": None if verdict is None else verdict.score,
        "unscored": None if verdict is None else verdict.unscored,
        "latency_s": attempt.latency_s,
    }
    if attempt.pieces:
        figures["pieces"] = [{"released": piece.released, "rating": _rating(piece)} for piece in attempt.pieces]
        figures["usage_estimated"] = attempt.is_estimated
    if verdict is not None and verdict.p_pass is not None:
        figures["p_pass"] = verdict.p_pass
    missing = verdict.missing if verdict is not None and (verdict.items or verdict.unscored) else {}
    if missing:
        figures["missing"] = missing
    if attempt.mended:
        figures["masked"] = [span.kind for span in attempt.mended]
    if attempt.candidate is not None:
        figures["candidate"] = attempt.candidate
    if attempt.unchosen:
        figures["unchosen"] = _figures(attempt.unchosen)
    return figures


def _rating(piece: Piece) -> int | None:
    return None if piece.verdict is None else piece.verdict.rating


_FRAME = 40
"""Characters that each message and each tool call costs beside its texts: names of fields, punctuation."""
_SHORTEST = 500
"""A tool's result is not cut below this: rather, whole steps are left out."""


def judged_sample(messages: Sequence[AnyMessage], refinement: Refinement) -> Sample:
    """Return the sample for a judge: conversation and steps within the policy's bound, the draft, the evidence.

    The conversation is read once for all attempts.
    """
    limit, memo = refinement.policy.max_conversation_chars, refinement.memo
    attempt = refinement.attempts[-1]

    def read() -> str | Conversation:
        return _read_conversation(_conversation_within(messages, limit))

    if attempt.steps or attempt.evidence or attempt.kept:
        conversation = memo.recall("conversation", messages, read)
        steps = tuple(_steps_within(attempt.steps, limit))
        return sample_of(conversation, attempt.model_copy(update={"steps": steps}), refinement.evidence)
    return _question(messages, refinement).model_copy(update={"response": attempt.text, "trajectory": ()})


def piece_sample(
    messages: Sequence[AnyMessage],
    refinement: Refinement,
    released: str,
    piece: str,
    steps: Sequence[AnyMessage] = (),
) -> Sample:
    """Return the sample for a judge of pieces: what was released so far stands between question and piece.

    The steps that led to the answer, calls of tools and their results, stand before what was released.
    """

    def read() -> Sample:
        return Sample.read(trajectory=tuple(_steps_within(steps, refinement.policy.max_conversation_chars)))

    trajectory = refinement.memo.recall("steps", steps, read).trajectory if steps else ()
    before = (Message(role="assistant", content=released),) if released else ()
    piece_fields = {"response": piece.strip(), "trajectory": (*trajectory, *before)}
    return _question(messages, refinement).model_copy(update=piece_fields)


def _question(messages: Sequence[AnyMessage], refinement: Refinement) -> Sample:
    """Return what all samples of a question share; the conversation is read once."""
    limit, key = refinement.policy.max_conversation_chars, (*messages, refinement.evidence)

    def read() -> Sample:
        return question_of(_read_conversation(_conversation_within(messages, limit)), refinement.evidence)

    return refinement.memo.recall("question", key, read)


def _conversation_within(messages: Sequence[AnyMessage], limit: int) -> Sequence[AnyMessage]:
    """Return a conversation without its middle if it is longer than `limit` characters; a note tells of the gap.

    The last question and the last message stay, each shortened in its middle where it is very long.
    """
    if sum(map(_length, messages)) <= limit:
        return messages
    longest = limit if len(messages) == 1 else limit // 4
    questions = [index for index, message in enumerate(messages) if message.type == "human"]
    return _without_middle([_cut(message, longest) for message in messages], limit, questions[-1:])


def _steps_within(steps: Sequence[AnyMessage], limit: int) -> Sequence[AnyMessage]:
    """Return an attempt's steps with long arguments and results shortened, to `limit` characters altogether."""
    lengths = [_length(step) for step in steps]
    if sum(lengths) <= limit:
        return steps
    longest = max(_SHORTEST, level(lengths, limit) - 2 * _FRAME)
    return _without_middle([_cut(step, longest) for step in steps], limit, [])


def _without_middle(messages: Sequence[AnyMessage], limit: int, chosen: Sequence[int]) -> Sequence[AnyMessage]:
    lengths = [_length(message) for message in messages]
    if sum(lengths) <= limit:
        return messages
    last = len(messages) - 1
    selected = {last, *chosen}
    characters_left = limit - 2 * _length(_gap(last)) - sum(lengths[index] for index in selected)
    selected |= _fitting(range(last - 1, -1, -1), lengths, characters_left * 2 // 3, selected)
    selected |= _fitting(range(last), lengths, characters_left - characters_left * 2 // 3, selected)
    return _with_gaps(messages, sorted(selected))


def _fitting(indexes: Sequence[int], lengths: Sequence[int], room: int, selected: Collection[int]) -> set[int]:
    """Return the first of `indexes` whose lengths fit into `room`; what is selected already takes none."""
    fitting: set[int] = set()
    for index in indexes:
        room -= 0 if index in selected else lengths[index]
        if room < 0:
            break
        fitting.add(index)
    return fitting


def _with_gaps(messages: Sequence[AnyMessage], selected: Sequence[int]) -> list[AnyMessage]:
    excerpt: list[AnyMessage] = []
    for before, index in zip([-1, *selected], selected, strict=False):
        if index > before + 1:
            excerpt.append(_gap(index - before - 1))
        excerpt.append(messages[index])
    return excerpt


def _gap(count: int) -> AnyMessage:
    return SystemMessage(f"[{count} messages are left out here, because the conversation is long]")


def _length(message: AnyMessage) -> int:
    content = message.content
    length = _FRAME + len(content if isinstance(content, str) else str(message.text))
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            length += _FRAME + len(call["name"]) + len(str(call["args"]))
    return length


def _cut(message: AnyMessage, longest: int) -> AnyMessage:
    if _length(message) <= longest + _FRAME:
        return message
    changes: dict[str, Any] = {"content": cut_text(str(message.text), longest)}
    if isinstance(message, AIMessage) and message.tool_calls:
        calls = [{**call, "args": _cut_values(call["args"], longest)} for call in message.tool_calls]
        changes["tool_calls"] = calls
    return message.model_copy(update=changes)


def _cut_values(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return cut_text(value, longest)
    if isinstance(value, dict):
        return {name: _cut_values(item, longest) for name, item in value.items()}
    return [_cut_values(item, longest) for item in value] if isinstance(value, list) else value
