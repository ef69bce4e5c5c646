"""The application: which path is served by what."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from time import perf_counter
from typing import Any
from urllib.parse import unquote

import aiohttp
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from graphs import DeadlinePassed, Draft, Outcome, Unanswered, acall_within, arun, withhold
from judges.entry import Explanation
from judges.errors import BadSample
from judges.sample import Sample, canonical_field
from judges.verdict import Verdict
from refine.server.answering import UpstreamGenerator
from refine.server.dialects import chat
from refine.server.dialects.protocol import Dialect, Json, JudgedRequest, objects, string
from refine.server.errors import ApiError
from refine.server.forms import DIALECTS, form_for, refused
from refine.server.guards import Guard
from refine.server.metrics import CONTENT_TYPE, Metrics
from refine.server.requests import Caller, Incoming, RawHeaders, to_client, to_upstream
from refine.server.responder import Client, ClientGone, Reply, failure, racing, read_body, respond, shutting_down
from refine.server.service import Exchange, JudgedRoute, PostRoute, Service, unexpected

JUDGE_PATH = "/v1/judge"
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


GUARDRAIL_PATH = "/beta/litellm_basic_guardrail_api"
_MOST_TEXTS = 100
"""Texts of one request, which are judged at once; a response of LiteLLM has one for each choice."""
_UNKNOWN_QUESTION = (
    "The question is not known. Keep what the answer says, in its language, and mend only its faults."
)


def guard_named(body: Json) -> str | None:
    """Return the guard that LiteLLM's configuration names, in `additional_provider_specific_params`."""
    settings = body.get("additional_provider_specific_params")
    return (string(settings.get("guard")) or None) if isinstance(settings, dict) else None


async def check(guard: Guard, body: Json, headers: Mapping[str, str]) -> Reply:
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
        return Reply(200, {"action": "NONE"})
    messages = objects(body.get("structured_messages"))
    if not messages:
        _check_needs(guard)
    checked = [_Checked(guard, text, messages, string(body.get("model")), headers) for text in texts]
    return Reply(200, _action(guard, texts, await asyncio.gather(*(one.outcome() for one in checked))))


def _check_needs(guard: Guard) -> None:
    judges = needing_question(guard.judge.explain())
    if judges:
        raise ApiError(
            422,
            f"the judge {judges[0]!r} needs the conversation, which LiteLLM's response hook does not send; choose "
            f"a judge that needs none, or put the guard behind LiteLLM as a model",
            code="conversation_needed",
        )


def needing_question(explanation: Explanation) -> list[str]:
    """Return the names of the judges, among it and those inside it, that need the question."""
    if explanation.parts:
        return [name for part in explanation.parts for name in needing_question(part)]
    needs = any(canonical_field(need) == "user_input" for need in explanation.needs)
    return [explanation.judge] if needs else []


def _action(guard: Guard, texts: Sequence[str], outcomes: Sequence[Outcome]) -> Json:
    released = ["" if one.answer is None else str(one.answer.text) for one in outcomes]
    for outcome in outcomes:
        if outcome.answer is None or not (outcome.passed or _let_through(outcome, guard)):
            return {"action": "BLOCKED", "blocked_reason": _reason(outcome, guard)}
    if list(released) != list(texts):
        return {"action": "GUARDRAIL_INTERVENED", "texts": released}
    return {"action": "NONE"}


def _let_through(outcome: Outcome, guard: Guard) -> bool:
    """Whether an answer without a verdict goes out, since the guard fails open."""
    policy = guard.loop.policy
    unjudged = outcome.stop_reason == "judge_failed" and policy.on_judge_error == "accept"
    return unjudged or outcome.stop_reason == "skipped" or policy.shadow


def _reason(outcome: Outcome, guard: Guard) -> str:
    """Say why, without judged text."""
    best = outcome.best
    if best is None:
        return f"refine: no verdict ({outcome.stop_reason})"
    success_rating = guard.loop.policy.success_rating
    return f"refine: the answer was rated {best.rating} of 4, and is accepted from {success_rating}"


@dataclass(frozen=True, slots=True)
class _Checked:
    """One text to judge, and to have mended where there is an upstream."""

    guard: Guard
    text: str
    messages: Sequence[Json] = field(repr=False)
    model: str
    headers: Mapping[str, str] = field(repr=False)

    async def outcome(self) -> Outcome:
        messages = list(self.messages) or [{"role": "user", "content": _UNKNOWN_QUESTION}]
        conversation = chat.conversation({"messages": messages})
        loop = self.guard.loop.with_generator(_GivenFirst(self.text, self._mending(messages, conversation)))
        try:
            return await arun(loop, {"messages": conversation})
        except Unanswered as error:
            return error.outcome

    def _mending(self, messages: list[Json], conversation: Sequence[AnyMessage]) -> UpstreamGenerator | None:
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


class _GivenFirst:
    """Gives a text as the first draft; the upstream writes the others."""

    may_interrupt = False

    def __init__(self, text: str, then: UpstreamGenerator | None) -> None:
        self._text: str | None = text
        self._then = then

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return the text, or have it written again."""
        text, self._text = self._text, None
        if text is not None:
            return Draft(answer=AIMessage(text))
        if self._then is None:
            raise ApiError(404, "there is no upstream to mend the answer", code="no_upstream")
        return await self._then.adraft(prompt, config, temperature)


class JudgeRoute(PostRoute):
    """`POST /v1/judge`: a verdict on a given exchange."""

    def __init__(self, service: Service) -> None:
        super().__init__(service, chat)

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> Reply | None:
        """Judge one row; see the base class."""
        guard = exchange.choose_guard("", caller)
        return await _respond(judge(guard, body), client, self._service)


class LiteLLMRoute(PostRoute):
    """LiteLLM's generic guardrail."""

    def __init__(self, service: Service) -> None:
        super().__init__(service, chat)

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> Reply | None:
        """Check the texts of a response; see the base class."""
        guard = exchange.choose_guard("", caller, guard_named(body))
        work = check(guard, body, self._headers(exchange, guard, caller))
        return await _respond(work, client, self._service)

    def _headers(self, exchange: Exchange, guard: Guard, caller: Caller) -> dict[str, str]:
        return {} if guard.upstream is None else exchange.upstream_headers(guard, caller, chat.KEY_HEADER)


async def _respond(work: Coroutine[Any, Any, Reply], client: Client, service: Service) -> Reply | None:
    return await respond(work, client, chat, keep_alive_s=None, catch=unexpected, running=service.running)


def operations(service: Service, metrics: Metrics | None) -> list[Route]:
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


PREFIX = "/v1"
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


class PassThrough:
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
        self, scope: Scope, exchange: Exchange, client: Client, caller: Caller, form: Dialect
    ) -> int | None:
        incoming = exchange.incoming
        path = self._path(scope)
        guard = exchange.choose_guard("", caller)
        body = b""
        if scope["method"] not in _BODILESS or "content-length" in incoming.headers:
            body = await read_body(client.receive, incoming.headers, self._service.limits)
        headers = {
            **to_upstream(incoming.headers, incoming.id),
            **guard.required_upstream.credentials(caller.credentials, form.KEY_HEADER),
        }
        passing = _Passing(guard, client, headers, form)
        query = scope.get("query_string", b"").decode("latin-1")
        work = passing.run(scope["method"], path, query, body)
        if not await racing(work, client, self._service.running) and passing.status is None:
            raise shutting_down()
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


class _Passing:
    """One request on its way through."""

    def __init__(self, guard: Guard, client: Client, headers: dict[str, str], form: Dialect) -> None:
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
                opened = upstream.opened(method, path, query, self._headers, body or None)
                response = await stack.enter_async_context(opened)
            except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
                failed = error if isinstance(error, ApiError) else unexpected(error)
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


class GuardApp:
    """The ASGI application of the guard: judged paths first, then what passes through, then everything else.

    Args:
        service: What the routes share.
        metrics: What `/metrics` shows; None leaves it out.
        pass_through: Patterns of the paths below `/v1` that pass through unjudged; see `PassThrough`.
        routes: Further routes of Starlette, for instance those of the page.
        on_close: Called in a thread when everything is answered.
    """

    def __init__(
        self,
        service: Service,
        *,
        metrics: Metrics | None = None,
        pass_through: Sequence[str] = ("*",),
        routes: Sequence[BaseRoute] = (),
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.service = service
        self.has_page = bool(routes)
        self._on_close = on_close
        self._exact: dict[str, ASGIApp] = {
            **{f"{PREFIX}{dialect.PATH}": JudgedRoute(dialect, service) for dialect in DIALECTS},
            JUDGE_PATH: JudgeRoute(service),
            GUARDRAIL_PATH: LiteLLMRoute(service),
        }
        self._pass = PassThrough(service, pass_through)
        self._others = Starlette(
            routes=[*operations(service, metrics), *routes],
            lifespan=self._lifespan,
            exception_handlers={HTTPException: refused},
        )

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Close the connections to the upstreams, and whatever else is open, once everything is answered."""
        try:
            yield
        finally:
            for upstream in {guard.upstream for guard in self.service.guards if guard.upstream is not None}:
                await upstream.aclose()
            await asyncio.to_thread(self._on_close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "http":
            path: str = scope["path"]
            judged = self._exact.get(path) or self._exact.get(path.rstrip("/"))
            if judged is not None:
                await judged(scope, receive, send)
                return
            if path.startswith(f"{PREFIX}/"):
                await self._pass(scope, receive, send)
                return
        await self._others(scope, receive, send)
