"""A review by a human: what a reviewer is shown, what may be decided, and how one decision of several counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import interrupt
from pydantic import BaseModel, Field, JsonValue, RootModel, ValidationError

from graphs import langgraph_private
from graphs.answers import Attempt
from graphs.outcome import InputError
from graphs.redaction import withhold
from graphs.refinement import Decision, Refinement, evolve
from graphs.turns import CarriedDecision

_FINAL_FORMS = "'accept', 'reject' or {'answer': 'the text to send'}"
_ALL_FORMS = f"{_FINAL_FORMS}, or {{'feedback': 'what to change'}} for another attempt"


class WrittenAnswer(BaseModel, strict=True, extra="forbid"):
    """A text that a reviewer wrote instead of the draft."""

    answer: str = Field(pattern=r"\S")


class SentBack(BaseModel, strict=True, extra="forbid"):
    """What a reviewer asks to change, in one more attempt."""

    feedback: str = Field(pattern=r"\S")


class _FinalReview(RootModel[Literal["accept", "reject"] | WrittenAnswer]):
    """What a reviewer may decide where no further attempt is allowed."""


class Review(RootModel[Literal["accept", "reject"] | WrittenAnswer | SentBack]):
    """What a reviewer may decide; LangGraph checks it before it is stored, so a mistyped one can be given anew."""


Decided = Review | _FinalReview


class _ReviewCall(NamedTuple):
    """The call that waits for a reviewer, blocking or not."""

    run: Callable[[], Decided]
    arun: Callable[[], Awaitable[Decided]]


def review_of(refinement: Refinement, attempt: Attempt, config: RunnableConfig) -> _ReviewCall:
    """Return the call that puts an attempt to a human, who resumes the graph with a decision."""
    question = {
        "stop_reason": refinement.stop_reason,
        "attempts": len(refinement.attempts),
        "answer": attempt.text,
        "rating": attempt.rating,
        "feedback": withhold(attempt.feedback, refinement.evidence),
    }
    schema: type[Decided] = Review if _may_be_revised(refinement) else _FinalReview

    def decide(claimed: JsonValue) -> Decided:
        if claimed is not None:
            return Review.model_validate(claimed)
        try:
            return interrupt(question, response_schema=schema)
        except ValidationError as error:
            raise InputError(_refusal(error, refinement)) from error

    def run() -> Decided:
        review = decide(_read_claim(config))
        _claim_decision(config, review.model_dump())
        return review

    async def arun() -> Decided:
        review = decide(await _aread_claim(config))
        await _aclaim_decision(config, review.model_dump())
        return review

    return _ReviewCall(run, arun)


def apply_review(refinement: Refinement, attempt: Attempt, review: Decided) -> Refinement:
    """Return the record with what a reviewer decided about an attempt."""
    match review.root:
        case WrittenAnswer():
            return _decide(refinement, "rewritten", None, "written by a reviewer")
        case SentBack(feedback=feedback):
            return _revise(refinement, attempt.number, feedback)
        case "accept":
            return _decide(refinement, "accepted", attempt.number, "released by a reviewer")
        case _:
            return _decide(refinement, "rejected", None, "refused by a reviewer")


def _decide(refinement: Refinement, decision: Decision, released: int | None, detail: str) -> Refinement:
    """Record how a reviewer ended the turn, with a new `detail`; the stop reason stays."""
    return evolve(refinement.release(released, detail=detail), decision=decision)


def _revise(refinement: Refinement, number: int, feedback: str) -> Refinement:
    """Record that a reviewer sent an attempt back, for one more attempt; it is then not released any more."""
    if not _may_be_revised(refinement):
        raise ValueError("the refinement awaits no review, or no further attempt is allowed")
    attempts = tuple(
        attempt.model_copy(update={"review": feedback}) if attempt.number == number else attempt
        for attempt in refinement.attempts
    )
    revisions = (*refinement.revisions, len(attempts))
    return evolve(
        refinement,
        attempts=attempts,
        revisions=revisions,
        stop_reason=None,
        detail="",
        ended_at=None,
        updated_at=refinement.ended_at if refinement.updated_at is None else refinement.updated_at,
    )


def _may_be_revised(refinement: Refinement) -> bool:
    """Return whether a reviewer who is asked may send the answer back: revisions, budgets and time leave room."""
    ended_at = refinement.started_at if refinement.ended_at is None else refinement.ended_at
    return (
        refinement.ending == "interrupt"
        and len(refinement.revisions) < refinement.policy.max_revisions
        and not refinement.awaits_verdict
        and refinement.limit_reached(ended_at) is None
    )


def visible_to_generator(refinement: Refinement, *, after: int) -> Refinement:
    """Return the record as the generator is to see it: with the attempt that was sent back as the last."""
    others = (attempt for attempt in refinement.attempts if attempt.number != after)
    last = (attempt for attempt in refinement.attempts if attempt.number == after)
    return evolve(refinement, attempts=(*others, *last))


def _refusal(error: ValidationError, refinement: Refinement) -> str:
    """Return why a decision is refused, without its text."""
    if _may_be_revised(refinement):
        return f"the review cannot be read; a review is {_ALL_FORMS}"
    if _is_sent_back(error.errors(include_url=False)[0]["input"]):
        limit = refinement.limit_reached(refinement.ended_at or refinement.started_at)
        reason = f"it was sent back {len(refinement.revisions)} times" if limit is None else limit[1]
        return f"no further attempt is allowed: {reason}; the review is then {_FINAL_FORMS}"
    return f"the review cannot be read; a review is {_FINAL_FORMS}"


def _is_sent_back(decision: Any) -> bool:
    try:
        SentBack.model_validate(decision)
    except ValidationError:
        return False
    return True


_CLAIM = "refine_decision"
"""Task and channel under which the claim of a review is stored."""


def _read_claim(config: RunnableConfig) -> JsonValue:
    """Return the decision that another run claimed the open review for, and did not live to carry out; or None.

    A run that carries a decision of its own gets None: whose decision counts is seen when it claims the review.
    """
    position = _unclaimed(config)
    return None if position is None else _claim_in(position.checkpointer.get_tuple(position.own)).get("decision")


async def _aread_claim(config: RunnableConfig) -> JsonValue:
    """Return the claimed decision without blocking; otherwise as `_read_claim`."""
    position = _unclaimed(config)
    if position is None:
        return None
    return _claim_in(await position.checkpointer.aget_tuple(position.own)).get("decision")


def _claim_decision(config: RunnableConfig, content: JsonValue) -> None:
    """Claim the open review for the decision that this run carries: of all processes, the first one gets it.

    The claim is stored with the checkpoint that waits, as a task's write, of which a checkpointer keeps the first.
    It holds the decision, so that another run can carry it out where this one is killed in the midst of it.

    Raises:
        InputError: If another decision was first.
    """
    position, decision = langgraph_private.checkpoint_of(config), CarriedDecision.of(config)
    if position is not None and decision is not None:
        position.checkpointer.put_writes(position.own, _claim(decision, content), _CLAIM)
        _refuse_second(position.checkpointer.get_tuple(position.own), decision.id)


async def _aclaim_decision(config: RunnableConfig, content: JsonValue) -> None:
    """Claim the open review without blocking; otherwise as `_claim_decision`."""
    position, decision = langgraph_private.checkpoint_of(config), CarriedDecision.of(config)
    if position is not None and decision is not None:
        await position.checkpointer.aput_writes(position.own, _claim(decision, content), _CLAIM)
        _refuse_second(await position.checkpointer.aget_tuple(position.own), decision.id)


def _unclaimed(config: RunnableConfig) -> langgraph_private.Position | None:
    return None if CarriedDecision.of(config) is not None else langgraph_private.checkpoint_of(config)


def _claim(decision: CarriedDecision, content: JsonValue) -> list[tuple[str, JsonValue]]:
    return [(_CLAIM, {"id": decision.id, "decision": content})]


def _claim_in(waiting: CheckpointTuple | None) -> dict[str, JsonValue]:
    """Return the claim that is stored with a checkpoint; empty where there is none."""
    writes = (waiting.pending_writes or []) if waiting is not None else []
    return next((value for task, _, value in writes if task == _CLAIM and isinstance(value, dict)), {})


def _refuse_second(waiting: CheckpointTuple | None, claim: str) -> None:
    if _claim_in(waiting).get("id", claim) != claim:
        raise InputError(
            "no decision is awaited on this thread: another one was first; if its process was ended before it was "
            "carried out, resume with None to do so"
        )
