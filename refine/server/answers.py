"""One judged answer: the loop around the upstream, and the upstream's own reply with what the loop made of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import AnyMessage

from graphs import (
    SUMMARY,
    Attempt,
    GeneratorFailed,
    InputError,
    JudgeFailed,
    Loop,
    NotAccepted,
    Outcome,
    Overrides,
    Policy,
    QuestionRefused,
    Refinement,
    Unanswered,
    arun,
    langgraph_private,
    outcome_of,
    withhold,
)
from graphs.answers import CALL_AS_TEXT, media_in
from graphs.langgraph_private import OUTLET
from graphs.piece_loop import Outlet
from judges.errors import BadSample
from judges.verdict import Usage
from refine.server.dialects import CHAT
from refine.server.dialects.protocol import (
    ApiDialect,
    GuardReply,
    Json,
    JudgedRequest,
    RawHeaders,
    ReadTexts,
    failure,
    is_word,
    string,
)
from refine.server.errors import ApiError
from refine.server.guards import ServedGuard
from refine.server.upstream import (
    IDEMPOTENCY,
    RawAnswer,
    Upstream,
    UpstreamGenerator,
    UpstreamRefused,
    UpstreamReply,
)
from refine.telemetry import trace_question

_OK = 200
_LIMITS = frozenset({"max_calls", "max_tokens", "max_cost", "max_retries", "deadline_s"})
_TOKEN_LIMITS = ("max_completion_tokens", "max_new_tokens", "max_output_tokens", "max_tokens", "n_predict")
"""Fields that some server takes for the most tokens of an answer, whatever else a request says of it."""
_OPERATORS = ("sample_rate", "skip")
"""Why an answer is not judged, where the policy says so."""
_OWN_HEADERS = b"x-refine-"
_WORDED = (
    b"access-control-",
    b"anthropic-ratelimit-",
    b"cache-control",
    b"link",
    b"ratelimit",
    b"server-timing",
    b"vary",
    b"via",
    b"x-ms-region",
    b"x-ratelimit-",
)
"""How headers begin whose values have blanks and are no text of a model."""
_DATE = re.compile(rb"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT")


@dataclass(frozen=True, slots=True)
class OutcomeRecord:
    """What the loop made of one answer.

    Args:
        outcome: Its record.
        policy: The policy in force: the guard's, with the settings of the request.
    """

    outcome: Outcome
    policy: Policy


@dataclass(slots=True)
class GuardedRequest:
    """What is to be answered.

    Args:
        guard: The guard that answers.
        upstream: The model that is guarded.
        dialect: The protocol spoken.
        request: The request.
        headers: Headers for the upstream, with the key.
        outlet: Takes the pieces of the answer, where the client reads a stream.
        records: What came of it so far, also where it is broken off.
    """

    guard: ServedGuard
    upstream: Upstream
    dialect: ApiDialect
    request: JudgedRequest
    headers: Mapping[str, str] = field(repr=False)
    outlet: Outlet | None = field(default=None, repr=False)
    records: list[OutcomeRecord] = field(default_factory=list, repr=False)


def answer(question: GuardedRequest) -> Awaitable[GuardReply]:
    """Answer a question; where several answers are wanted, each is asked for and judged by itself.

    Raises:
        ApiError: If the request cannot be read, goes beyond the bounds, or its answer cannot be judged.
    """
    request, guard = question.request, question.guard
    if request.skip_reason and guard.unjudged == "refuse":
        raise _unjudgeable(400, request.skip_reason)
    most = guard.max_answer_tokens
    asked = [request.payload[name] for name in _TOKEN_LIMITS if request.payload.get(name) is not None]
    if most is not None and any(type(one) is not int or one > most for one in asked):
        raise ApiError(400, f"an answer has {most:,} tokens at most here; ask for no more", code="invalid")
    if request.choices == 1 or request.skip_reason:
        return _answer(question)
    if request.choices > guard.max_choices:
        text = f"n is {guard.max_choices} at most here, not {request.choices}"
        raise ApiError(400, text, code="invalid", param="n")
    return _answer_each(question)


async def _answer_each(question: GuardedRequest) -> GuardReply:
    answers = (_answer(_ask_for_choice(question, at)) for at in range(question.request.choices))
    replies = await asyncio.gather(*answers, return_exceptions=True)  # so that none goes on behind another's error
    for one in replies:
        if isinstance(one, BaseException):
            raise one
    return _join([one for one in replies if isinstance(one, GuardReply)])


def _unjudgeable(status: int, reason: str) -> ApiError:
    message = f'{reason}; this guard lets no unjudged answer through (its operator may: unjudged = "pass")'
    return ApiError(status, message, code="unjudgeable")


def _ask_for_choice(question: GuardedRequest, at: int) -> GuardedRequest:
    """Return the request for one of several answers, which is no repetition of the others."""
    payload, headers = question.request.payload, question.headers
    if type(payload.get("seed")) is int:
        payload = {**payload, "seed": payload["seed"] + at}
    if at and IDEMPOTENCY in headers:
        headers = {**headers, IDEMPOTENCY: f"{headers[IDEMPOTENCY]}-choice-{at}"}
    return replace(question, request=replace(question.request, payload=payload), headers=headers)


def _join(replies: Sequence[GuardReply]) -> GuardReply:
    """Return several answers as one; where one of them is an error, that is the reply."""
    failed = next((reply for reply in replies if reply.status != _OK), None)
    if failed is not None:
        return failed
    documents = [reply.document for reply in replies]
    metrics = _join_metrics([document["refine"] for document in documents])
    upstream = [header for header in replies[0].headers if not header[0].startswith(_OWN_HEADERS)]
    document = {**CHAT.join_choices(documents), "refine": metrics}
    return GuardReply(_OK, document, [*upstream, *_refine_headers(metrics)])


def _join_metrics(each: Sequence[Json]) -> Json:
    """Return the figures of several answers as one: passed where all are, with the rating of the worst."""
    worst = min(each, key=lambda one: (one["passed"], one["rating"] or 0))
    return {
        **worst,
        "attempts": [attempt for one in each for attempt in one["attempts"]],
        "usage": Usage.total([Usage.model_validate(one["usage"]) for one in each]).model_dump(mode="json"),
        "latency_s": max(one["latency_s"] for one in each),
        "choices": list(each),
    }


async def _answer(question: GuardedRequest) -> GuardReply:
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
        refinement = _begin(loop, guard, conversation, request)
        if refinement.policy.release == "pieces":
            refinement = replace(refinement, held_back=_reason_to_hold(question))
    except (InputError, BadSample) as error:
        raise ApiError(400, str(error), code="invalid", param="refine") from error
    with trace_question(guard.name, texts=loop.policy.log_texts) as on_outcome:
        try:
            config = None if question.outlet is None else langgraph_private.carry(None, OUTLET, question.outlet)
            outcome = await arun(loop, {"messages": conversation}, config, begun=refinement)
            if request.skip_reason:
                outcome = outcome.model_copy(update={"detail": request.skip_reason})
        except BaseException as error:
            ended = outcome_of(error)
            if ended is not None:
                question.records.append(OutcomeRecord(ended, refinement.policy))
                on_outcome(ended)
            if isinstance(error, Unanswered):
                return _reply_unanswered(error, question)
            raise
        question.records.append(OutcomeRecord(outcome, refinement.policy))
        on_outcome(outcome)
    try:
        return _release_answer(outcome, generator.answers, question)
    except ApiError as error:
        return failure(error, dialect)


def _reason_to_hold(question: GuardedRequest) -> str:
    """Return why an answer is released whole; empty where it may go out in pieces."""
    request = question.request
    if request.skip_reason:
        return "unjudged"
    if request.choices > 1:
        return "choices"
    is_structured = request.forces_call or question.dialect.asks_for_form(request.payload)
    return "structured" if is_structured else ""


def _begin(
    loop: Loop, guard: ServedGuard, conversation: Sequence[AnyMessage], request: JudgedRequest
) -> Refinement:
    """Begin a refinement with the evidence and the settings that the client sent.

    Limits of the client's own do not make an unjudged answer of it: where they leave no room for the judge, there
    is no answer.

    Raises:
        InputError: If one of them is unknown, or goes beyond the bounds.
        BadSample: If the evidence cannot be read.
    """
    evidence, bounds = request.refine.get("evidence"), guard.bounds
    if evidence:
        bounds.check_evidence(evidence)
    settings = {name: value for name, value in request.refine.items() if name != "evidence"}
    if not settings:
        begun = loop.begin({"messages": conversation, "evidence": evidence})
    else:
        overrides = Overrides.read(settings)
        bounds.check(overrides, loop.policy)
        begun = loop.begin({"messages": conversation, "evidence": overrides.added_to(evidence or {})})
        policy = overrides.applied_to(loop.policy)
        if guard.unjudged == "refuse" and not policy.shadow and _LIMITS.intersection(settings):
            policy = policy.model_copy(update={"on_judge_error": "raise"})
        begun = replace(begun, policy=policy)
    can_take_back = not request.streamed or request.refine.get("on_late_refusal") == "replace"
    if begun.policy.on_late_refusal == "replace" and not can_take_back:
        begun = replace(begun, policy=begun.policy.model_copy(update={"on_late_refusal": "flag"}))
    return replace(begun, is_judged=False) if request.skip_reason else begun


def _release_answer(outcome: Outcome, answers: Mapping[str, RawAnswer], question: GuardedRequest) -> GuardReply:
    """Return the upstream's own reply of the released attempt; of a fallback text, one of the guard's own.

    Raises:
        ApiError: If it holds what cannot be judged, and that is refused.
    """
    assert outcome.answer is not None  # noqa: S101 - nobody reviews here, so that a loop without one raises
    summary = outcome.summary() if question.request.skip_reason else outcome.answer.response_metadata[SUMMARY]
    released = None if outcome.released is None else outcome.attempts[outcome.released - 1]
    raw = None if released is None else answers.get(released.answer.id or "")
    pieces = () if released is None else released.pieces
    is_quoted = bool(pieces) and not all(piece.released for piece in pieces)
    if raw is None or is_quoted:  # the upstream's reply may quote a refused piece in any field, `usage` included
        own = question.dialect.write_reply(str(outcome.answer.text), question.request.model)
        own = own if released is None else question.dialect.with_usage(own, released.usage)
        raw = RawAnswer(own, [] if raw is None else raw.headers)
    document = raw.document
    if question.guard.loop.releases_pieces and any(attempt.pieces for attempt in outcome.attempts):
        is_filtered = outcome.answer.response_metadata.get("finish_reason") == "content_filter"
        if outcome.answer.response_metadata.get(CALL_AS_TEXT):  # the call is part of the text, and out
            document = question.dialect.with_text(document, "")
        document = question.dialect.with_released_text(document, str(outcome.answer.text), is_filtered=is_filtered)
    if released is not None and released.mended:
        document = question.dialect.with_text(document, released.text)
    if released is not None and _hides_reasoning(released, question.guard):
        document = question.dialect.without_reasoning(document)
    if released is not None and question.guard.unjudged == "refuse" and not question.guard.loop.policy.shadow:
        document, note = _without_unjudged(released, outcome, document, question)
        summary = {**summary, "detail": f"{summary['detail']}{note}"}
    metrics = _refine_object(outcome, summary, question.guard)
    if "replaces" in metrics and question.outlet is not None and outcome.answer is not None:
        metrics["replacement"] = str(outcome.answer.text)
        document = question.dialect.with_released_text(document, _shown(outcome), is_filtered=False)
    if question.guard.counts_all:
        document = question.dialect.with_usage(document, outcome.usage)
    headers = _headers_to_client(raw.headers, question.guard)
    return GuardReply(200, {**document, "refine": metrics}, [*headers, *_refine_headers(metrics)])


def _headers_to_client(headers: RawHeaders, guard: ServedGuard) -> RawHeaders:
    """Return an upstream's headers, without those that hold words which nobody judged."""
    if guard.unjudged == "pass":
        return headers
    return [
        (name, value)
        for name, value in headers
        if value.isascii() and (len(value.split()) <= 1 or name.startswith(_WORDED) or _DATE.fullmatch(value))
    ]


def _shown(outcome: Outcome) -> str:
    """Return the text that went out in pieces."""
    return "".join(piece.text for attempt in outcome.attempts for piece in attempt.pieces if piece.released)


def _hides_reasoning(released: Attempt, guard: ServedGuard) -> bool:
    """Check whether what a model thought stays here: after a rejected draft, or since no judge has read it.

    Beside a call it goes out all the same: providers want it back together with the call.
    """
    if guard.loop.policy.keep_reasoning:
        return False
    return released.number > 1 or (guard.is_strict and not released.answer.tool_calls)


def _without_unjudged(
    released: Attempt, outcome: Outcome, document: Json, question: GuardedRequest
) -> tuple[Json, str]:
    """Return a reply without the text in it that no judge has read, and a note where there was any.

    Raises:
        ApiError: If it holds more than text, which a judge of texts cannot read.
    """
    guard, dialect = question.guard, question.dialect
    if outcome.stop_reason == "skipped" and outcome.detail.partition(":")[0] in _OPERATORS:
        return document, ""
    medium = media_in(released.answer)
    if medium is not None:
        raise _unjudgeable(422, f"an answer with {medium} in it is not judged")
    text, most = str(released.answer.text), guard.loop.policy.max_conversation_chars
    is_in_pieces = text == _shown(outcome)
    is_judged = not released.misfit and (outcome.stop_reason != "skipped" or is_in_pieces)
    if is_judged and not (released.pieces or is_in_pieces) and len(text) > most and guard.judge.models:
        raise _unjudgeable(422, "an answer so long that the judge is shown a part of it is not judged")
    assert outcome.answer is not None  # noqa: S101 - as in `_release_answer`
    shown = str(outcome.answer.text) if released.pieces else text
    is_left_out = not is_judged and bool(text.strip())
    document = dialect.without_text(document) if is_left_out else document
    read = ReadTexts(shown if is_judged else "", question.request.payload, is_strict=guard.is_strict)
    note = "; the text in it, which is not judged, was left out" if is_left_out else ""
    return dialect.read_part(document, read), note


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
        return _pass_refusal_on(cause.reply, question)
    if isinstance(cause, ApiError):
        return failure(cause, question.dialect)
    if isinstance(error, GeneratorFailed):
        raise error
    return failure(_own_error(error, question.guard), question.dialect)


def _pass_refusal_on(reply: UpstreamReply, question: GuardedRequest) -> GuardReply:
    """Return an upstream's error, as it is or without what may quote what a model wrote."""
    document, headers = _error_in(reply.body), _headers_to_client(reply.headers, question.guard)
    if document is not None and question.guard.unjudged == "pass":
        kind = reply.kind.encode("latin-1", "replace")
        return GuardReply(reply.status, document, headers, reply.body, kind)
    text = f"the upstream answered with status {reply.status}"
    if document is None:
        own = question.dialect.error_body(ApiError(reply.status, text, code="upstream_error"))
        return GuardReply(reply.status, own, headers)
    return GuardReply(reply.status, _bare_error(document, text, is_strict=question.guard.is_strict), headers)


_ERROR_FIELDS = ("type", "code", "param", "status")
_LONGEST_ERROR = 300
"""Characters of an error's text: enough to say what is wrong with a request, too few to quote an answer."""


def _bare_error(document: Json, text: str, *, is_strict: bool) -> Json:
    """Return an upstream's error with the fields that errors have in its API: some add what the model wrote.

    Some quote it in the message, such as arguments of a call that they cannot read: a strict guard says `text`.
    """
    error = document["error"]
    fields = error if isinstance(error, dict) else {"message": error}
    message = "" if is_strict else string(fields.get("message"))[:_LONGEST_ERROR]
    words = message or text
    plain = {name: fields[name] for name in _ERROR_FIELDS if name in fields and _is_plain(fields[name])}
    around = {name: document[name] for name in ("type", "request_id") if is_word(document.get(name))}
    return {**around, "error": {"message": words, **plain} if isinstance(error, dict) else words}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, int | float) or is_word(value)


def _error_in(body: bytes) -> Json | None:
    """Return an upstream's error as JSON, or None where it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "error" in document else None


def _own_error(error: Unanswered, guard: ServedGuard) -> ApiError:
    if isinstance(error, QuestionRefused):
        return ApiError(400, f"the guard {guard.name!r} refuses this question", code="question_refused")
    if isinstance(error, NotAccepted):
        return ApiError(422, str(error), code="answer_not_accepted")
    if isinstance(error, JudgeFailed):
        message = f"the judge of the guard {guard.name!r} gave no verdict, and unjudged answers are not released"
        return ApiError(503, message, code="judge_failed", retry_after_s=5)
    if error.outcome.stop_reason == "deadline":
        return ApiError(504, str(error), code="deadline")
    return ApiError(503, str(error), code="unanswered", retry_after_s=5)
