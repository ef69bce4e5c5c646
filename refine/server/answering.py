"""One judged answer: the loop around the upstream, and the upstream's own reply with what the loop found."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from graphs import (
    SUMMARY,
    Bounds,
    Draft,
    GeneratorFailed,
    InputError,
    JudgeFailed,
    Loop,
    NotAccepted,
    Outcome,
    Overrides,
    Policy,
    RefineError,
    Refinement,
    Unanswered,
    arun,
    withhold,
)
from judges.errors import BadSample
from judges.verdict import Usage
from refine.server import requests
from refine.server.dialects.protocol import Dialect, Json, JudgedRequest
from refine.server.errors import ApiError, UpstreamFailed
from refine.server.guards import Guard
from refine.server.requests import RawHeaders
from refine.server.responder import Reply, failure
from refine.server.upstream import Upstream, UpstreamReply

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31
_MOST_BYTES = 50_000_000


def _uncompressed(reply: UpstreamReply) -> UpstreamReply:
    """Return a reply whose body is not compressed by gzip; JSON and HTML never begin as such a body does.

    Raises:
        UpstreamFailed: If the body is broken, or too large.
    """
    if not reply.body.startswith(_GZIP):
        return reply
    reader = zlib.decompressobj(_GZIP_WINDOW)
    try:
        body = reader.decompress(reply.body, _MOST_BYTES)
    except zlib.error:
        raise UpstreamFailed(502, "the upstream's reply is no whole gzip", code="upstream_reply") from None
    if not reader.eof:
        raise UpstreamFailed(
            502, f"the upstream's reply is cut, or larger than {_MOST_BYTES:,} bytes", code="upstream_reply"
        )
    return replace(reply, body=body)


_OK = range(200, 300)
_IDEMPOTENCY = "idempotency-key"


class UpstreamRefused(RefineError):  # noqa: N818 - what the upstream did
    """The upstream answered with an error; `reply` is to be passed on as it is."""

    def __init__(self, reply: UpstreamReply) -> None:
        super().__init__(f"the upstream answered with status {reply.status}")
        self.status_code = reply.status
        self.reply = reply


@dataclass(slots=True)
class _RawAnswer:
    """An upstream's reply: its JSON, and the headers to pass on."""

    document: Json = field(repr=False)
    headers: RawHeaders = field(repr=False)


class UpstreamGenerator:
    """Generates the drafts of one request, and keeps each reply as it came.

    Args:
        upstream: Where to send it.
        dialect: The protocol of client and upstream.
        request: The request.
        length: How many messages the conversation has; those after it in a prompt were added by the loop.
        headers: Headers of every attempt.
        models: Another model's name from an attempt number on.
    """

    may_interrupt = False

    def __init__(
        self,
        upstream: Upstream,
        dialect: Dialect,
        request: JudgedRequest,
        *,
        length: int,
        headers: Mapping[str, str],
        models: Mapping[int, str],
    ) -> None:
        self._upstream = upstream
        self._dialect = dialect
        self._request = request
        self._length = length
        self._headers = headers
        self._models = models
        self._numbers = count(1)
        self.answers: dict[str, _RawAnswer] = {}

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return the upstream's answer; its raw reply is in `answers` by the id of the message.

        Raises:
            UpstreamRefused: If the upstream answers with an error.
            UpstreamFailed: If it gives no reply that can be used.
        """
        del config
        number = next(self._numbers)
        payload = self._payload(prompt, number, temperature)
        reply = await self._upstream.post(self._dialect.PATH, requests.write(payload), self._headers_of(number))
        reply = _uncompressed(reply)
        document = _document(reply)
        answer, usage = self._read(document)
        answer.id = f"attempt-{number}"
        self.answers[answer.id] = _RawAnswer(document, reply.headers)
        name = answer.response_metadata.get("model_name") or self._request.model or None
        return Draft(answer=answer, calls=((name, usage),))

    def _read(self, document: Json) -> tuple[AIMessage, Usage]:
        try:
            return self._dialect.read_answer(document), self._dialect.usage(document)
        except (AttributeError, KeyError, TypeError, ValueError):
            text = "the upstream's reply has fields of no known form"
            raise UpstreamFailed(502, text, code="upstream_reply") from None

    def _payload(self, prompt: list[BaseMessage], number: int, temperature: float | None) -> Json:
        payload, added = self._request.payload, prompt[self._length :]
        if added:
            payload = self._dialect.with_feedback(payload, added)  # type: ignore[arg-type]  # made by the loop
        if temperature is not None:
            payload = {**payload, "temperature": temperature}
        in_force = [first for first in self._models if first <= number]
        return {**payload, "model": self._models[max(in_force)]} if in_force else payload

    def _headers_of(self, number: int) -> Mapping[str, str]:
        """Return the headers of an attempt: a further one is not a repetition of the first."""
        key = self._headers.get(_IDEMPOTENCY)
        if number == 1 or key is None:
            return self._headers
        return {**self._headers, _IDEMPOTENCY: f"{key}-{number}"}


def _document(reply: UpstreamReply) -> Json:
    if reply.status not in _OK:
        raise UpstreamRefused(reply)
    try:
        document = requests.read(reply.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise UpstreamFailed(502, "the upstream's reply is not a JSON object", code="upstream_reply")
    if isinstance(document.get("error"), dict) and not document.get("choices") and not document.get("output"):
        raise UpstreamRefused(UpstreamReply(_status_in(document["error"]), reply.kind, reply.headers, reply.body))
    return document


def _status_in(error: Json) -> int:
    """Return the status that an error names which came with status 200, as some gateways send it."""
    code = error.get("code")
    return code if type(code) is int and 400 <= code < 600 else 502  # noqa: PLR2004 - HTTP's errors


@dataclass(slots=True)
class Question:
    """What is to be answered.

    Args:
        guard: The guard that answers.
        dialect: The protocol spoken.
        request: The request.
        headers: Headers for the upstream, with the key.
    """

    guard: Guard
    dialect: Dialect
    request: JudgedRequest
    headers: Mapping[str, str] = field(repr=False)


@dataclass(slots=True)
class Answered:
    """What became of a question.

    Args:
        reply: The reply to send.
        outcome: The loop's record, where it ran to its end.
        policy: The policy in force: the guard's, with the settings of the request.
    """

    reply: Reply
    outcome: Outcome | None
    policy: Policy


async def answer(question: Question) -> Answered:
    """Answer a question.

    Raises:
        ApiError: If the request cannot be read, or goes beyond the bounds.
    """
    guard, dialect, request = question.guard, question.dialect, question.request
    conversation = dialect.conversation(request.payload)
    generator = UpstreamGenerator(
        guard.required_upstream,
        dialect,
        request,
        length=len(conversation),
        headers=question.headers,
        models=guard.attempt_models,
    )
    loop = guard.loop.with_generator(generator)
    try:
        refinement = _begun(loop, guard.bounds, conversation, request)
    except (InputError, BadSample) as error:
        raise ApiError(400, str(error), code="invalid", param="refine") from error
    try:
        outcome, summary = await _run(loop, refinement, conversation, request)
    except Unanswered as error:
        return Answered(_unanswered(error, question), error.outcome, refinement.policy)
    return Answered(_released(outcome, summary, generator.answers, question), outcome, refinement.policy)


async def _run(
    loop: Loop, refinement: Refinement, conversation: Sequence[AnyMessage], request: JudgedRequest
) -> tuple[Outcome, Json]:
    """Answer, and return the outcome with its summary."""
    outcome = await arun(loop, {"messages": conversation}, begun=refinement)
    assert outcome.answer is not None  # noqa: S101 - nobody reviews here, so that a loop without one raises
    if not request.unjudged:
        return outcome, outcome.answer.response_metadata[SUMMARY]
    outcome = outcome.model_copy(update={"detail": request.unjudged})
    return outcome, outcome.summary()


def _begun(loop: Loop, bounds: Bounds, conversation: Sequence[AnyMessage], request: JudgedRequest) -> Refinement:
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
    return replace(begun, is_judged=False) if request.unjudged else begun


def _released(outcome: Outcome, summary: Json, answers: Mapping[str, _RawAnswer], question: Question) -> Reply:
    """Return the upstream's own reply of the released attempt; of a fallback text, one of the guard's own."""
    released = next((attempt for attempt in outcome.attempts if attempt.number == outcome.released), None)
    raw = None if released is None else answers.get(released.answer.id or "")
    if raw is None:
        text = "" if outcome.answer is None else str(outcome.answer.text)
        raw = _RawAnswer(question.dialect.written(text, question.request.model), [])
    document = raw.document
    if released is not None and released.number > 1 and not question.guard.loop.policy.keep_reasoning:
        document = question.dialect.without_reasoning(document)
    figures = _refine_object(outcome, summary, question.guard)
    return Reply(200, {**document, "refine": figures}, [*raw.headers, *_refine_headers(figures)])


def _refine_object(outcome: Outcome, summary: Json, guard: Guard) -> Json:
    """Return what a client is told of the loop: figures, and texts only as far as the guard reveals them."""
    figures: Json = {"id": outcome.id, "guard": guard.name, **summary}
    del figures["outcome_id"]
    if "rationale" not in guard.reveal:
        del figures["rationale"]
    if "feedback" in guard.reveal:
        figures["attempts"] = [
            {**row, "feedback": withhold(attempt.feedback, outcome.evidence)}
            for row, attempt in zip(summary["attempts"], outcome.attempts, strict=True)
        ]
    return figures


def _refine_headers(figures: Json) -> RawHeaders:
    """Return what a client is told of the loop, as headers."""
    rating = figures["rating"]
    return [
        (b"x-refine-passed", b"true" if figures["passed"] else b"false"),
        *(() if rating is None else ((b"x-refine-rating", b"%d" % rating),)),
        (b"x-refine-attempts", b"%d" % len(figures["attempts"])),
        (b"x-refine-stop-reason", figures["stop_reason"].encode()),
        (b"x-refine-id", figures["id"].encode()),
        (b"x-refine-guard", figures["guard"].encode()),
    ]


def _unanswered(error: Unanswered, question: Question) -> Reply:
    """Return the reply for a loop that may release nothing: the upstream's error, or one of ours."""
    cause = error.__cause__ if isinstance(error, GeneratorFailed) else None
    if isinstance(cause, UpstreamRefused):
        return _refused(cause.reply, question.dialect)
    if isinstance(cause, ApiError):
        return failure(cause, question.dialect)
    if isinstance(error, GeneratorFailed):
        raise error
    return failure(_own_error(error, question.guard), question.dialect)


def _refused(reply: UpstreamReply, dialect: Dialect) -> Reply:
    document = _error_in(reply.body) or dialect.error_body(
        ApiError(reply.status, f"the upstream answered with status {reply.status}", code="upstream_error")
    )
    return Reply(reply.status, document, reply.headers, reply.body, reply.kind.encode("latin-1", "replace"))


def _error_in(body: bytes) -> Json | None:
    """Return an upstream's error as JSON, or None where it is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "error" in document else None


def _own_error(error: Unanswered, guard: Guard) -> ApiError:
    if isinstance(error, NotAccepted):
        return ApiError(422, str(error), code="answer_not_accepted")
    if isinstance(error, JudgeFailed):
        message = f"the judge of the guard {guard.name!r} gave no verdict, and unjudged answers are not released"
        return ApiError(503, message, code="judge_failed", retry_after_s=5)
    if error.outcome.stop_reason == "deadline":
        return ApiError(504, str(error), code="deadline")
    return ApiError(503, str(error), code="unanswered", retry_after_s=5)
