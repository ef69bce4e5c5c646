"""The application: the routes beside the judged ones, and which path is served by what."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from time import perf_counter
from typing import Any, NoReturn
from urllib.parse import unquote

import aiohttp
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from graphs import Outcome
from graphs.drivers import arun
from graphs.errors import Unanswered
from graphs.generators import Draft
from graphs.redaction import withhold
from graphs.step import DeadlinePassed, acall_within
from judges.entry import Explanation
from judges.errors import BadSample, ConfigurationError
from judges.sample import Sample, canonical_field
from judges.verdict import Verdict
from refine.server.access import Caller, Incoming, ServedGuard, request_headers, request_id
from refine.server.dialects import DIALECTS, chat, form_for
from refine.server.dialects.protocol import (
    ApiDialect,
    GuardReply,
    Json,
    JudgedRequest,
    RawHeaders,
    failure,
    objects,
    string,
)
from refine.server.errors import ApiError, openai_error
from refine.server.observers import CONTENT_TYPE, Metrics
from refine.server.service import (
    PREFIX,
    Client,
    ClientGone,
    Exchange,
    GuardApp,
    JudgedRoute,
    PostRoute,
    Service,
    race,
    read_body,
    refuse_at_end,
    report_unexpected,
    respond,
)
from refine.server.upstream import UpstreamGenerator, to_client

_JUDGE_PATH = "/v1/judge"
_TEXTS = {"rationale", "feedback", "detail", "raw", "subject"}


async def _judge_row(guard: ServedGuard, row: Json) -> GuardReply:
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
    fields = _verdict_fields(verdict, sample, guard)
    return GuardReply(
        200, {"guard": guard.name, "accepted": accepted, **fields}, [(b"x-refine-guard", guard.name.encode())]
    )


async def _verdict_on(sample: Sample, guard: ServedGuard) -> Verdict:
    """Ask the judge, for no longer than the policy lets an answer take."""
    try:
        return await acall_within(guard.loop.policy.deadline_s, guard.judge.acall(sample))
    except DeadlinePassed:
        return Verdict.without_score("deadline", "the judge took too long")


def _verdict_fields(verdict: Verdict, sample: Sample, guard: ServedGuard) -> Json:
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


_GUARDRAIL_PATH = "/beta/litellm_basic_guardrail_api"
_MOST_TEXTS = 100
"""Texts of one request, which are judged at once; a response of LiteLLM has one for each choice."""


_UNKNOWN_QUESTION = (
    "The question is not known. Keep what the answer says, in its language, and mend only its faults."
)


def _read_guard_name(body: Json) -> str | None:
    """Return the guard that LiteLLM's configuration names, in `additional_provider_specific_params`."""
    settings = body.get("additional_provider_specific_params")
    return (string(settings.get("guard")) or None) if isinstance(settings, dict) else None


async def _check_texts(guard: ServedGuard, body: Json, headers: Mapping[str, str]) -> GuardReply:
    """Judge the texts of a response; a request, which holds no answer yet, is let through.

    Args:
        guard: The guard.
        body: What LiteLLM sends.
        headers: Headers for the upstream, with the operator's key.

    Raises:
        ApiError: If the body cannot be read, or the judge needs a conversation.
    """
    texts = body.get("texts") or []
    if body.get("input_type") not in ("request", "response"):
        raise ApiError(400, "input_type is 'request' or 'response'", code="invalid", param="input_type")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ApiError(400, "texts is a list of texts", code="invalid", param="texts")
    if len(texts) > _MOST_TEXTS:
        raise ApiError(
            400, f"texts has {len(texts)} texts; send {_MOST_TEXTS} at most", code="invalid", param="texts"
        )
    if body["input_type"] == "request" or not any(text.strip() for text in texts):
        return GuardReply(200, {"action": "NONE"})
    messages = objects(body.get("structured_messages"))
    if not messages:
        _check_needs(guard)
    checked = [_CheckedText(guard, text, messages, string(body.get("model")), headers) for text in texts]
    return GuardReply(200, _action(guard, texts, await asyncio.gather(*(one.outcome() for one in checked))))


def _check_needs(guard: ServedGuard) -> None:
    judges = _judges_without_question(guard.judge.explain())
    if judges:
        raise ApiError(
            422,
            f"the judge {judges[0]!r} needs the conversation, which LiteLLM's response hook does not send; choose "
            f"a judge that needs none, or put the guard behind LiteLLM as a model",
            code="conversation_needed",
        )


def _judges_without_question(explanation: Explanation) -> list[str]:
    """Return the names of the judges, among it and those inside it, that need the question."""
    if explanation.parts:
        return [name for part in explanation.parts for name in _judges_without_question(part)]
    needs = any(canonical_field(need) == "user_input" for need in explanation.needs)
    return [explanation.judge] if needs else []


def _action(guard: ServedGuard, texts: Sequence[str], outcomes: Sequence[Outcome]) -> Json:
    released = ["" if one.answer is None else str(one.answer.text) for one in outcomes]
    for outcome in outcomes:
        if outcome.answer is None or not (outcome.passed or _let_through(outcome, guard)):
            return {"action": "BLOCKED", "blocked_reason": _reason(outcome, guard)}
    if list(released) != list(texts):
        return {"action": "GUARDRAIL_INTERVENED", "texts": released}
    return {"action": "NONE"}


def _let_through(outcome: Outcome, guard: ServedGuard) -> bool:
    """Whether an answer without a verdict goes out, since the guard fails open."""
    policy = guard.loop.policy
    unjudged = outcome.stop_reason == "judge_failed" and policy.on_judge_error == "accept"
    return unjudged or outcome.stop_reason == "skipped" or policy.shadow


def _reason(outcome: Outcome, guard: ServedGuard) -> str:
    """Say why, without judged text."""
    best = outcome.best
    if best is None:
        return f"refine: no verdict ({outcome.stop_reason})"
    success_rating = guard.loop.policy.success_rating
    return f"refine: the answer was rated {best.rating} of 4, and is accepted from {success_rating}"


@dataclass(frozen=True, slots=True)
class _CheckedText:
    """One text to judge, and to have mended where there is an upstream."""

    guard: ServedGuard
    text: str
    messages: Sequence[Json] = field(repr=False)
    model: str
    headers: Mapping[str, str] = field(repr=False)

    async def outcome(self) -> Outcome:
        messages = list(self.messages) or [{"role": "user", "content": _UNKNOWN_QUESTION}]
        conversation = chat.conversation({"messages": messages})
        loop = self.guard.loop.with_generator(_FirstDraft(self.text, self._make_mender(messages, conversation)))
        try:
            return await arun(loop, {"messages": conversation}, {})
        except Unanswered as error:
            return error.outcome

    def _make_mender(self, messages: list[Json], conversation: Sequence[AnyMessage]) -> UpstreamGenerator | None:
        if self.guard.upstream is None:
            return None
        payload: Json = {"model": self.model, "messages": messages} if self.model else {"messages": messages}
        request = JudgedRequest(payload=payload, model=self.model, streamed=False, refine={})
        return UpstreamGenerator(
            self.guard.upstream,
            chat,
            request,
            length=len(conversation),
            headers=self.headers,
            models=self.guard.attempt_models,
        )


class _FirstDraft:
    """Gives a text as the first draft; the upstream writes the others."""

    may_interrupt = False

    def __init__(self, text: str, then: UpstreamGenerator | None) -> None:
        self._text: str | None = text
        self._then = then

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> NoReturn:
        """Refuse: the server never blocks."""
        del prompt, config, temperature
        raise ConfigurationError("the guard's generator has no blocking form; use adraft")

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return the text, or have it written again."""
        text, self._text = self._text, None
        if text is not None:
            return Draft(answer=AIMessage(text))
        if self._then is None:
            raise ApiError(404, "there is no upstream to mend the answer", code="no_upstream")
        return await self._then.adraft(prompt, config, temperature)


class _JudgeRoute(PostRoute):
    """`POST /v1/judge`: a verdict on a given exchange."""

    def __init__(self, service: Service) -> None:
        super().__init__(service, chat)

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> GuardReply | None:
        """Judge one row; see the base class."""
        guard = exchange.choose_guard("", caller)
        return await _respond(_judge_row(guard, body), client, self._service)


class _LiteLLMRoute(PostRoute):
    """LiteLLM's generic guardrail."""

    def __init__(self, service: Service) -> None:
        super().__init__(service, chat)

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> GuardReply | None:
        """Check the texts of a response; see the base class."""
        guard = exchange.choose_guard("", caller, _read_guard_name(body))
        work = _check_texts(guard, body, self._headers(exchange, guard, caller))
        return await _respond(work, client, self._service)

    def _headers(self, exchange: Exchange, guard: ServedGuard, caller: Caller) -> dict[str, str]:
        return {} if guard.upstream is None else exchange.upstream_headers(guard.upstream, caller, chat.KEY_HEADER)


async def _respond(work: Coroutine[Any, Any, GuardReply], client: Client, service: Service) -> GuardReply | None:
    return await respond(work, client, chat, keep_alive_s=None, catch=report_unexpected, running=service.running)


def _operations(service: Service, metrics: Metrics | None) -> list[Route]:
    """Return the routes; without metrics there is none for them."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        status = "draining" if service.draining else "ready"
        headers = {"retry-after": "5"} if service.draining else None
        return JSONResponse({"status": status}, status_code=503 if service.draining else 200, headers=headers)

    async def read_metrics(_: Request) -> Response:
        assert metrics is not None  # noqa: S101 - the route exists with metrics only
        metrics.in_flight.set(service.admission.in_flight)
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE.decode()})

    routes = [Route("/healthz", healthz), Route("/readyz", readyz)]
    return routes if metrics is None else [*routes, Route("/metrics", read_metrics)]


_UNJUDGED: RawHeaders = [
    (b"x-refine-passed", b"false"),
    (b"x-refine-attempts", b"0"),
    (b"x-refine-stop-reason", b"skipped"),
]


_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_JUDGED = frozenset({"chat/completions", "responses", "messages", "judge"})
"""Paths that some server may take for a judged one, however they are written."""


_FORBIDDEN = ("\\", "//", "/../", "/./", "%")
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""Methods that pass; TRACE, for one, would send the operator's key back."""


_PARAMETERS = re.compile(r";[^/]*")


class _PassThroughRoute:
    """Passes requests below `/v1` on to the upstream of a guard: an ASGI application.

    Args:
        service: What the routes share.
        allowed: Patterns of the paths below `/v1`, for instance `embeddings` or `audio/*`; the list of
            models passes always.
    """

    def __init__(self, service: Service, allowed: Sequence[str]) -> None:
        self._service = service
        self._allowed = tuple(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        incoming, started = Incoming.of(scope), perf_counter()
        client = Client(receive, send, incoming.id_headers)
        exchange = Exchange(self._service, incoming)
        form = form_for(scope["path"], incoming.headers)
        status: int | None = None
        try:
            caller = self._service.keys.caller(incoming)
            exchange.caller = caller.name
            with self._service.admission.place(caller.name):
                status = await self._pass(scope, exchange, client, caller, form)
        except ClientGone:
            """Nobody is left to be told."""
        except ApiError as error:
            status = error.status
            await client.whole(failure(error, form))
        exchange.done(status, perf_counter() - started)

    async def _pass(
        self, scope: Scope, exchange: Exchange, client: Client, caller: Caller, form: ApiDialect
    ) -> int | None:
        incoming = exchange.incoming
        path = self._path(scope)
        guard = exchange.choose_guard("", caller)
        body = b""
        if scope["method"] not in _BODILESS or "content-length" in incoming.headers:
            body = await read_body(client.receive, incoming.headers, self._service.limits)
        upstream = guard.required_upstream
        headers = upstream.headers(incoming.headers, incoming.id, caller.credentials, form.KEY_HEADER)
        passing = _PassedRequest(guard, client, headers, form)
        query = scope.get("query_string", b"").decode("latin-1")
        work = passing.run(scope["method"], path, query, body)
        if not await race(work, client, self._service.running) and passing.status is None:
            raise refuse_at_end()
        return passing.status

    def _path(self, scope: Scope) -> str:
        """Return the path below the base URL as it came, if it is allowed."""
        raw: str = scope.get("raw_path", b"").decode("latin-1").partition("?")[0].removeprefix(PREFIX)
        if scope["method"] not in _METHODS:
            raise ApiError(
                405, "this method does not pass", code="method_not_allowed", allow=", ".join(sorted(_METHODS))
            )
        plain = _PARAMETERS.sub("", unquote(unquote(raw)))
        if re.split(r"[?#]", plain)[0].strip("/ ").casefold() in _JUDGED:
            raise ApiError(404, "there is no such path", code="unknown_path")
        if any(part in f"{plain}/" for part in _FORBIDDEN) or not raw.startswith("/") or not plain.isprintable():
            raise ApiError(404, "there is no such path", code="unknown_path")
        if scope["method"] == "GET" and plain.strip("/").partition("/")[0] == "models":
            return raw
        if not any(fnmatchcase(plain.strip("/"), pattern.strip("/")) for pattern in self._allowed):
            raise ApiError(404, "this path is not served here", code="unknown_path")
        return raw


class _PassedRequest:
    """One request on its way through."""

    def __init__(self, guard: ServedGuard, client: Client, headers: dict[str, str], form: ApiDialect) -> None:
        self._guard = guard
        self._client = client
        self._headers = headers
        self._form = form
        self.status: int | None = None

    async def run(self, method: str, path: str, query: str, body: bytes) -> None:
        """Send it on, and the response back as it comes."""
        upstream = self._guard.required_upstream
        async with AsyncExitStack() as stack:
            try:
                opened = upstream.open(method, path, query, self._headers, body or None)
                response = await stack.enter_async_context(opened)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
                failed = error if isinstance(error, ApiError) else report_unexpected(error)
                self.status = failed.status
                await self._client.whole(failure(failed, self._form))
                return
            self.status = response.status
            await self._copy(response)

    async def _copy(self, response: aiohttp.ClientResponse) -> None:
        headers = to_client(response.headers.items())
        for name in ("content-type", "content-encoding", "content-length"):
            if name in response.headers:
                headers.append((name.encode(), response.headers[name].encode("latin-1", "replace")))
        named = (b"x-refine-guard", self._guard.name.encode())
        await self._client.start(response.status, [*headers, *_UNJUDGED, named])
        with suppress(aiohttp.ClientError, TimeoutError):  # the server then breaks off, as the upstream did
            async for part in response.content.iter_any():
                await self._client.some(part)
            await self._client.some(b"", last=True)


_MESSAGES = {
    404: ("unknown_path", "there is no such path; a client's base URL ends in /v1"),
    405: ("method_not_allowed", "this path does not take this method"),
}


async def _answer_refusal(request: Request, error: Exception) -> Response:
    """Return what a path that is none of the API's answers to a request that it does not take."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for these alone
    code, message = _MESSAGES.get(error.status_code, ("refused", error.detail))
    body = openai_error(ApiError(error.status_code, message, code=code))
    identifier = request_id(request_headers(request.scope["headers"]))
    return JSONResponse(body, error.status_code, {**(error.headers or {}), "x-request-id": identifier})


def make_guard_app(
    service: Service,
    *,
    metrics: Metrics | None = None,
    pass_through: Sequence[str] = ("*",),
    routes: Sequence[BaseRoute] = (),
    on_close: Callable[[], None] = lambda: None,
) -> GuardApp:
    """Return the application.

    Args:
        service: What the routes share.
        metrics: What `/metrics` shows; None leaves it out.
        pass_through: Patterns of the paths below `/v1` that pass through unjudged; see `_PassThroughRoute`.
        routes: Further routes of Starlette, for instance those of the page.
        on_close: Called in a thread when everything is answered.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        """Close the connections to the upstreams, and whatever else is open, once everything is answered."""
        try:
            yield
        finally:
            for upstream in {guard.upstream for guard in service.guards if guard.upstream is not None}:
                await upstream.aclose()
            await asyncio.to_thread(on_close)

    return GuardApp(
        service,
        exact={
            **{f"{PREFIX}{dialect.PATH}": JudgedRoute(dialect, service) for dialect in DIALECTS},
            _JUDGE_PATH: _JudgeRoute(service),
            _GUARDRAIL_PATH: _LiteLLMRoute(service),
        },
        below_prefix=_PassThroughRoute(service, pass_through),
        others=Starlette(
            routes=[*_operations(service, metrics), *routes],
            lifespan=lifespan,
            exception_handlers={HTTPException: _answer_refusal},
        ),
        has_page=bool(routes),
    )
