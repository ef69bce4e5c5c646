"""One judged answer: the loop around the upstream, and the upstream's own reply with what the loop made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from langchain_core.runnables import RunnableConfig

from graphs import Bounds, Outcome, Overrides, Policy, Refinement
from graphs.drivers import arun_attempts, arun_step
from graphs.errors import GeneratorFailed, InputError, JudgeFailed, NotAccepted, Unanswered
from graphs.langgraph_private import SUMMARY
from graphs.loop import Loop
from graphs.redaction import withhold
from graphs.step import Messages
from judges.errors import BadSample
from refine.server.access import ServedGuard
from refine.server.dialects.protocol import ApiDialect, GuardReply, Json, JudgedRequest, RawHeaders, failure
from refine.server.errors import ApiError
from refine.server.upstream import RawAnswer, Upstream, UpstreamGenerator, UpstreamRefused, UpstreamReply

_NO_CONFIG: RunnableConfig = {}


@dataclass(slots=True)
class GuardedRequest:
    """What is to be answered.

    Args:
        guard: The guard that answers.
        upstream: The model that is guarded.
        dialect: The protocol spoken.
        request: The request.
        headers: Headers for the upstream, with the key.
    """

    guard: ServedGuard
    upstream: Upstream
    dialect: ApiDialect
    request: JudgedRequest
    headers: Mapping[str, str] = field(repr=False)


@dataclass(slots=True)
class GuardedAnswer:
    """The answer to a request, and how it came about.

    Args:
        reply: The reply to send.
        outcome: The loop's record, where it ran to its end.
        policy: The policy in force: the guard's, with the settings of the request.
    """

    reply: GuardReply
    outcome: Outcome | None
    policy: Policy


async def answer(question: GuardedRequest) -> GuardedAnswer:
    """Answer a question.

    Raises:
        ApiError: If the request cannot be read, or goes beyond the bounds.
    """
    guard, dialect, request = question.guard, question.dialect, question.request
    conversation = dialect.conversation(request.payload)
    generator = UpstreamGenerator(
        question.upstream,
        dialect,
        request,
        length=len(conversation),
        headers=question.headers,
        models=guard.attempt_models,
    )
    loop = guard.loop.with_generator(generator)
    try:
        refinement = _begin(loop, guard.bounds, conversation, request)
    except (InputError, BadSample) as error:
        raise ApiError(400, str(error), code="invalid", param="refine") from error
    try:
        outcome, summary = await _run(loop, refinement, conversation, request)
    except Unanswered as error:
        return GuardedAnswer(_reply_unanswered(error, question), error.outcome, refinement.policy)
    return GuardedAnswer(
        _release_answer(outcome, summary, generator.answers, question), outcome, refinement.policy
    )


async def _run(
    loop: Loop, refinement: Refinement, conversation: Messages, request: JudgedRequest
) -> tuple[Outcome, Json]:
    """Answer, and return the outcome with its summary."""
    refinement = await arun_attempts(loop, refinement, conversation, _NO_CONFIG)
    transition = await arun_step(loop.finish, refinement, conversation, _NO_CONFIG)
    assert transition.outcome is not None  # noqa: S101 - a step that finishes without one raises
    assert transition.update is not None  # noqa: S101 - the last step says how its state changes
    outcome, summary = transition.outcome, transition.update[SUMMARY]
    if not request.skip_reason:
        return outcome, summary
    outcome = outcome.model_copy(update={"detail": request.skip_reason})
    return outcome, outcome.summary()


def _begin(loop: Loop, bounds: Bounds, conversation: Messages, request: JudgedRequest) -> Refinement:
    """Begin a refinement with the evidence and the settings that the client sent.

    Raises:
        InputError: If one of them is unknown, or goes beyond the bounds.
        BadSample: If the evidence cannot be read.
    """
    evidence = request.refine.get("evidence")
    bounds.check_evidence(evidence)
    settings = {name: value for name, value in request.refine.items() if name != "evidence"}
    if not settings:
        begun = loop.begin({"messages": conversation, "evidence": evidence})
    else:
        overrides = Overrides.read(settings)
        bounds.check(overrides, loop.policy)
        begun = loop.begin({"messages": conversation, "evidence": overrides.added_to(evidence or {})})
        begun = replace(begun, policy=overrides.applied_to(loop.policy))
    return replace(begun, sampled=False) if request.skip_reason else begun


def _release_answer(
    outcome: Outcome, summary: Json, answers: Mapping[str, RawAnswer], question: GuardedRequest
) -> GuardReply:
    """Return the upstream's own reply of the released attempt; of a fallback text, one of the guard's own."""
    released = next((attempt for attempt in outcome.attempts if attempt.number == outcome.released), None)
    raw = None if released is None else answers.get(released.answer.id or "")
    if raw is None:
        text = "" if outcome.answer is None else str(outcome.answer.text)
        raw = RawAnswer(question.dialect.write_reply(text, question.request.model), [])
    document = raw.document
    if released is not None and released.number > 1 and not question.guard.loop.policy.keep_reasoning:
        document = question.dialect.without_reasoning(document)
    metrics = _refine_object(outcome, summary, question.guard)
    return GuardReply(200, {**document, "refine": metrics}, [*raw.headers, *_refine_headers(metrics)])


def _refine_object(outcome: Outcome, summary: Json, guard: ServedGuard) -> Json:
    """Return what a client may see of the loop: metrics, and texts only as far as the guard reveals them."""
    metrics: Json = {"id": outcome.id, "guard": guard.name, **summary}
    del metrics["outcome_id"]
    if "rationale" not in guard.reveal:
        del metrics["rationale"]
    if "feedback" in guard.reveal:
        metrics["attempts"] = [
            {**row, "feedback": withhold(attempt.feedback, outcome.evidence)}
            for row, attempt in zip(summary["attempts"], outcome.attempts, strict=True)
        ]
    return metrics


def _refine_headers(metrics: Json) -> RawHeaders:
    """Return what a client may see of the loop, as headers."""
    rating = metrics["rating"]
    return [
        (b"x-refine-passed", b"true" if metrics["passed"] else b"false"),
        *(() if rating is None else ((b"x-refine-rating", b"%d" % rating),)),
        (b"x-refine-attempts", b"%d" % len(metrics["attempts"])),
        (b"x-refine-stop-reason", metrics["stop_reason"].encode()),
        (b"x-refine-id", metrics["id"].encode()),
        (b"x-refine-guard", metrics["guard"].encode()),
    ]


def _reply_unanswered(error: Unanswered, question: GuardedRequest) -> GuardReply:
    """Return the reply for a loop that may release nothing: the upstream's error, or one of ours."""
    cause = error.__cause__ if isinstance(error, GeneratorFailed) else None
    if isinstance(cause, UpstreamRefused):
        return _pass_refusal_on(cause.reply, question.dialect)
    if isinstance(cause, ApiError):
        return failure(cause, question.dialect)
    if isinstance(error, GeneratorFailed):
        raise error
    return failure(_own_error(error, question.guard), question.dialect)


def _pass_refusal_on(reply: UpstreamReply, dialect: ApiDialect) -> GuardReply:
    document = _error_in(reply.body) or dialect.error_body(
        ApiError(reply.status, f"the upstream answered with status {reply.status}", code="upstream_error")
    )
    return GuardReply(reply.status, document, reply.headers, reply.body, reply.kind.encode("latin-1", "replace"))


def _error_in(body: bytes) -> Json | None:
    """Return an upstream's error as JSON, or None where it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "error" in document else None


def _own_error(error: Unanswered, guard: ServedGuard) -> ApiError:
    if isinstance(error, NotAccepted):
        return ApiError(422, str(error), code="answer_not_accepted")
    if isinstance(error, JudgeFailed):
        message = f"the judge of the guard {guard.name!r} gave no verdict, and unjudged answers are not released"
        return ApiError(503, message, code="judge_failed", retry_after_s=5)
    if error.outcome.stop_reason == "deadline":
        return ApiError(504, str(error), code="deadline")
    return ApiError(503, str(error), code="unanswered", retry_after_s=5)
