"""`POST /v1/judge`: judge a given exchange, without generating anything."""

from __future__ import annotations

from typing import Any

from graphs.deadline import DeadlinePassed, acall_within
from graphs.secrets import withhold
from judges.errors import BadSample
from judges.sample import Sample
from judges.verdict import Verdict
from refine.server.dialects.protocol import Json
from refine.server.errors import ApiError
from refine.server.guards import Guard
from refine.server.responder import Reply

PATH = "/v1/judge"
_TEXTS = {"rationale", "feedback", "detail", "raw", "subject"}


async def judge(guard: Guard, row: Json) -> Reply:
    """Judge a row as a dataset holds it, `{"question": ..., "answer": ...}`, and return the verdict.

    Raises:
        ApiError: If the row cannot be read.
    """
    try:
        sample = guard.judge.read(row)
    except BadSample as error:
        raise ApiError(400, str(error), code="bad_sample") from error
    if sample.answer is None:
        raise ApiError(
            400, 'there is no answer to judge; give "answer", or messages that end with one', code="bad_sample"
        )
    verdict = await _verdict_on(sample, guard)
    accepted = verdict.reaches(guard.loop.policy.success_rating)
    fields = verdict_object(verdict, sample, guard)
    return Reply(
        200, {"guard": guard.name, "accepted": accepted, **fields}, [(b"x-refine-guard", guard.name.encode())]
    )


async def _verdict_on(sample: Sample, guard: Guard) -> Verdict:
    """Ask the judge, for no longer than the policy lets an answer take."""
    try:
        return await acall_within(guard.loop.policy.deadline_s, guard.judge.acall(sample))
    except DeadlinePassed:
        return Verdict.without_score("deadline", "the judge took too long")


def verdict_object(verdict: Verdict, sample: Sample, guard: Guard) -> Json:
    """Return a verdict as a client may see it: marks, figures, and what texts the guard reveals."""
    fields = _without_texts(verdict.model_dump(mode="json", exclude={"raw"}))
    evidence = sample.model_dump(mode="json", exclude_defaults=True, exclude={"user_input", "response"})
    if "rationale" in guard.reveal:
        fields["rationale"] = withhold(verdict.rationale, evidence)
    if "feedback" in guard.reveal:
        fields["feedback"] = withhold(verdict.feedback, evidence)
    return fields


def _without_texts(verdict: dict[str, Any]) -> Json:
    """Leave out what may quote the evidence, also in the verdicts inside."""
    fields = {name: value for name, value in verdict.items() if name not in _TEXTS}
    return {**fields, "items": [_without_texts(item) for item in fields.get("items", ())]}
