"""The application: the routes beside the judged ones, and which path is served by what."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from time import perf_counter
from typing import Any
from urllib.parse import unquote

import aiohttp
from langchain_core.messages import AIMessage
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from graphs import (
    Draft,
    DraftRequest,
    Outcome,
    Unanswered,
    arun,
    outcome_of,
    withhold,
)
from judges.entry import Explanation
from judges.errors import BadSample
from judges.judge import ajudge_within
from judges.models.providers.llama import ended_servers, restart_ended
from judges.sample import Sample, canonical_field
from judges.verdict import Verdict
from refine.server.access import GUARD_HEADER, Caller, Incoming, request_headers, request_id
from refine.server.answers import OutcomeRecord
from refine.server.dialects import CHAT, DIALECTS, form_for
from refine.server.dialects.protocol import (
    ApiDialect,
    GuardReply,
    Json,
    JudgedRequest,
    RawHeaders,
    failure,
    objects,
    read_json,
    string,
)
from refine.server.errors import ApiError, ClientGone, PassedBody, openai_error, read_body
from refine.server.guards import Guards, ServedGuard
from refine.server.metrics import CONTENT_TYPE, Metrics
from refine.server.record import LABELS_PATH, LabelRoute
from refine.server.service import (
    PREFIX,
    Client,
    Exchange,
    GuardApp,
    JudgedRoute,
    PostRoute,
    Service,
    race,
    refuse_at_end,
    report_unexpected,
    respond,
)
from refine.server.upstream import UpstreamGenerator, to_client
from refine.telemetry import trace_request

_UNJUDGED: RawHeaders = [
    (b"x-refine-passed", b"false"),
    (b"x-refine-attempts", b"0"),
    (b"x-refine-stop-reason", b"skipped"),
]


_OK = 200
_MOST_BYTES = 10_000_000
_JUDGED = (*(tuple(dialect.PATH.strip("/").split("/")) for dialect in DIALECTS), ("judge",))
"""Ends of paths that some server may take for a judged one, whatever stands before them."""


_FORBIDDEN = re.compile(r"[\\%\ufffd]|//|/[.\s]+/")
"""What no path has, and what some server may take for a way up: dots in bad UTF-8 or beside blanks included."""
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
"""Methods that pass; TRACE, for one, would send the operator's key back."""


_PARAMETERS = re.compile(r";[^/]*")
_WORD = re.compile(r"\w+(?:-\w+)*")


_WRITES = re.compile(
    r"(?:\b(?:raw|stream))?(?:complet|convers|generat|messag|respon)|\bchat|chat\b|"
    r"\b(?:raw|stream)?(?:answer|assist|infer|invo[ck]|predict|realtime|threads?\b|runs?\b)"
)
"""What stands in the paths of routes that write text, as in `audio/completions`."""


def _plain_form(path: str) -> str:
    return unicodedata.normalize("NFKC", re.split(r"[?#]", path)[0]).casefold().strip("/")


def _ends_as_judged(path: str) -> bool:
    """Check whether a path ends like that of a judged route, in any case, dots or a format at its parts or not."""
    known = _plain_form(path)
    parts = tuple(word[0] for part in known.split("/") if (word := _WORD.search(part)))
    return any(parts[-len(judged) :] == judged for judged in _JUDGED)


def _is_named(path: str, pattern: str) -> bool:
    """Check whether a pattern names a path; a `*` for a part of it names nothing that writes text."""
    plain = _plain_form(path).replace("_", "-")
    is_whole = pattern.strip("/") == "*" or _WRITES.search(pattern) is not None
    return fnmatchcase(path.strip("/"), pattern.strip("/")) and (is_whole or _WRITES.search(plain) is None)


def _is_model(path: str) -> bool:
    """Check for the list of models or the name of one; what follows a name, as in `x:predict`, may write text."""
    first, *parts = re.split(r"[/:]", _plain_form(path))
    return first == "models" and (len(parts) < 2 or _WRITES.match(parts[-1]) is None)  # noqa: PLR2004 - a name, a verb


class _PassThroughRoute:
    """Passes requests below `/v1` on to the upstream of a guard: an ASGI application.

    Args:
        service: What the routes share.
        allowed: Patterns of the paths below `/v1`, for instance `embeddings` or `audio/*`, which is not
            `audio/completions`: what writes text is named itself, or by `*` alone. Models are listed always.
    """

    def __init__(self, service: Service, allowed: Sequence[str]) -> None:
        self._service = service
        self._allowed = tuple(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        incoming, started = Incoming.of(scope), perf_counter()
        client = Client(receive, send, incoming.id_headers)
        exchange, code = Exchange(self._service, incoming, scope), ""
        form = form_for(scope["path"], incoming.headers)
        status: int | None = None
        route = f"{PREFIX}/*"  # paths have ids in them
        with trace_request(scope["method"], scope["path"], incoming.headers, route=route) as exchange.span:
            try:
                caller = self._service.keys.caller(incoming)
                exchange.caller = caller.name
                await self._service.budgets.make_room(caller.name)
                with self._service.admission.place(caller.name):
                    status = await self._pass(scope, exchange, client, caller, form)
            except ClientGone:
                """Nobody is left to be told."""
            except ApiError as error:
                status, code = error.status, error.code or ""
                await client.whole(failure(error, form))
            exchange.span.answer(status)
        exchange.done(status, perf_counter() - started, code=code)

    async def _pass(
        self, scope: Scope, exchange: Exchange, client: Client, caller: Caller, form: ApiDialect
    ) -> int | None:
        method, headers = scope["method"], exchange.incoming.headers
        path, query = self._path(scope), scope.get("query_string", b"").decode("latin-1")
        is_choice = len(self._service.guards.upstreams) > 1 and GUARD_HEADER not in headers
        if is_choice and method == "GET" and path.rstrip("/") == "/models":
            listing = _list_models(self._service.guards, exchange, caller, form, query)
            reply = await respond(listing, client, form, keep_alive_s=None, running=self._service.running)
            return None if reply is None else reply.status
        with self._service.bytes_held.request() as hold:
            body: bytes | PassedBody | None = None
            has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
            if has_body and method == "GET":
                raise ApiError(400, "a GET that passes has no body; send none", code="invalid")
            if has_body:
                body = client.body = PassedBody(client.receive, headers, self._service.limits)
            model = path.removeprefix("/models/") if path.startswith("/models/") else ""
            if is_choice and isinstance(body, PassedBody) and _is_json(headers):
                body = client.body = None
                body = await read_body(client.receive, headers, self._service.limits, hold)
                model = _model_in(body)
            elif is_choice and isinstance(body, PassedBody):
                model = _model_in_form(await body.peek(_BEGINNING))
            guard = exchange.choose_guard(model, caller, api=form.API)
            sent = exchange.upstream_headers(guard, caller, form)
            if isinstance(body, PassedBody) and "content-length" in headers:
                sent["content-length"] = headers["content-length"]
            passing = _PassedRequest(guard, client, sent, form)
            work = passing.run(method, path, query, body)
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
        if _ends_as_judged(plain):
            raise ApiError(404, "there is no such path", code="unknown_path")
        is_odd = _FORBIDDEN.search(unicodedata.normalize("NFKC", f"{plain}/")) or not plain.isprintable()
        if is_odd or not raw.startswith("/"):
            raise ApiError(404, "there is no such path", code="unknown_path")
        if scope["method"] == "GET" and _is_model(plain):
            return raw
        if not any(_is_named(plain, pattern) for pattern in self._allowed):
            raise ApiError(404, "this path is not served here", code="unknown_path")
        return raw


_BEGINNING = 65_536
"""Bytes of a form in which the name of its model is looked for."""

_FORM_MODEL = re.compile(rb'name="model"\r\n(?:[^\r\n]+\r\n)*\r\n([^\r\n]{1,200})\r\n')


def _is_json(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "application/json").partition(";")[0].strip().endswith("json")


def _model_in(body: bytes) -> str:
    """Return the model that a body asks for; empty where it names none."""
    try:
        document = read_json(body)
    except (ValueError, RecursionError):
        return ""
    return string(document.get("model")) if isinstance(document, dict) else ""


def _model_in_form(beginning: bytes) -> str:
    match = _FORM_MODEL.search(beginning)
    return "" if match is None else match[1].decode("utf-8", "replace")


async def _list_models(
    guards: Guards, exchange: Exchange, caller: Caller, form: ApiDialect, query: str
) -> GuardReply:
    """Return the models of all upstreams that the caller may ask, as the first of them lists its own.

    Raises:
        ApiError: If none of them lists any.
    """
    allowed = [one for one in guards.upstreams if caller.guards is None or one.name in caller.guards]
    listings = (_models_of(guard, exchange, caller, form, query) for guard in allowed)
    lists = await asyncio.gather(*listings, return_exceptions=True)
    failures = [one for one in lists if isinstance(one, BaseException)]
    known = [one for one in lists if not isinstance(one, BaseException)]
    if not known:
        raise failures[0] if failures else ApiError(403, "this key is for no upstream", code="guard_not_allowed")
    by_id = {string(model.get("id")): model for one in reversed(known) for model in objects(one.get("data"))}
    missing = [guard.name for guard, one in zip(allowed, lists, strict=True) if isinstance(one, BaseException)]
    headers = [(b"x-refine-unlisted", ", ".join(missing).encode())] if missing else []
    return GuardReply(200, {**known[0], "data": list(by_id.values())}, [*headers, *_UNJUDGED])


async def _models_of(
    guard: ServedGuard, exchange: Exchange, caller: Caller, form: ApiDialect, query: str
) -> dict[str, Any]:
    headers = exchange.upstream_headers(guard, caller, form)
    async with guard.required_upstream.open("GET", "/models", query, headers, None) as response:
        body = bytearray()
        async for part in response.content.iter_any():
            body += part
            if len(body) > _MOST_BYTES:
                break
        document = read_json(bytes(body)) if response.status == _OK else None
    if not isinstance(document, dict) or not isinstance(document.get("data"), list):
        raise ApiError(502, f"the upstream of the guard {guard.name!r} lists no models", code="upstream_reply")
    return document


class _PassedRequest:
    """One request on its way through."""

    def __init__(self, guard: ServedGuard, client: Client, headers: dict[str, str], form: ApiDialect) -> None:
        self._guard = guard
        self._client = client
        self._headers = headers
        self._form = form
        self.status: int | None = None

    async def run(self, method: str, path: str, query: str, body: bytes | PassedBody | None) -> None:
        """Send it on, and the response back as it comes."""
        upstream = self._guard.required_upstream
        async with AsyncExitStack() as stack:
            try:
                data = body.parts() if isinstance(body, PassedBody) else body
                opened = upstream.open(method, path, query, self._headers, data)
                response = await stack.enter_async_context(opened)
            except Exception as raised:  # noqa: BLE001 - whatever it is, the client gets an answer
                error = (body.error if isinstance(body, PassedBody) else None) or raised
                if isinstance(error, ClientGone):
                    raise error from None
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


_JUDGE_PATH = "/v1/judge"
_TEXTS = {"rationale", "feedback", "detail", "raw", "subject"}


async def _judge_row(guard: ServedGuard, row: Json, verdicts: list[Verdict]) -> GuardReply:
    """Judge a row as a dataset holds it, `{"question": ..., "answer": ...}`, and return the verdict.

    Args:
        guard: The guard.
        row: The row.
        verdicts: Where the verdict is kept, too.

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
    verdict = await ajudge_within(guard.loop.policy.deadline_s, guard.judge, sample)
    verdicts.append(verdict)
    accepted = guard.loop.policy.accepts(verdict)
    fields = _verdict_fields(verdict, sample, guard)
    return GuardReply(
        200, {"guard": guard.name, "accepted": accepted, **fields}, [(b"x-refine-guard", guard.name.encode())]
    )


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
_UNKNOWN_QUESTION = (
    "The question is not known. Keep what the answer says, in its language, and mend only its faults."
)


def _read_guard_name(body: Json) -> str | None:
    """Return the guard that LiteLLM's configuration names, in `additional_provider_specific_params`."""
    settings = body.get("additional_provider_specific_params")
    return (string(settings.get("guard")) or None) if isinstance(settings, dict) else None


async def _check_texts(
    guard: ServedGuard, body: Json, headers: Mapping[str, str], records: list[OutcomeRecord], *, most: int
) -> GuardReply:
    """Judge the texts of a response; a request, which holds no answer yet, is let through.

    Args:
        guard: The guard.
        body: What LiteLLM sends.
        headers: Headers for the upstream, with the operator's key.
        records: Where what came of each text is kept.
        most: Most texts.

    Raises:
        ApiError: If the body cannot be read, or the judge needs a conversation.
    """
    texts = body.get("texts") or []
    if body.get("input_type") not in ("request", "response"):
        raise ApiError(400, "input_type is 'request' or 'response'", code="invalid", param="input_type")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ApiError(400, "texts is a list of texts", code="invalid", param="texts")
    if len(texts) > most:
        raise ApiError(400, f"texts has {len(texts)} texts; send {most} at most", code="invalid", param="texts")
    if body["input_type"] == "request" or not any(text.strip() for text in texts):
        return GuardReply(200, {"action": "NONE"})
    if not objects(body.get("structured_messages")):
        _check_needs(guard)
    outcomes = await asyncio.gather(*(_check_text(guard, text, body, headers, records) for text in texts))
    return GuardReply(200, _action(guard, texts, outcomes))


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
    """Return whether an answer without a verdict goes out, since the guard fails open."""
    policy = guard.loop.policy
    unjudged = outcome.stop_reason == "judge_failed" and policy.on_judge_error == "accept"
    return unjudged or outcome.stop_reason == "skipped" or policy.shadow


def _reason(outcome: Outcome, guard: ServedGuard) -> str:
    """Say why, without judged text."""
    best = outcome.best
    if best is None:
        return f"refine: no verdict ({outcome.stop_reason})"
    policy, marks = guard.loop.policy, f"rated {best.rating} of 4"
    if policy.success_score is not None and best.score is not None:
        marks = f"{marks} and scored {best.score:.2f}"
    return f"refine: the answer was {marks}, and is accepted at {policy.acceptance}"


async def _check_text(
    guard: ServedGuard, text: str, body: Json, headers: Mapping[str, str], records: list[OutcomeRecord]
) -> Outcome:
    """Judge a text, and have it written again where there is an upstream; what comes of it is kept in a list."""
    given = objects(body.get("structured_messages"))
    messages = given or [{"role": "user", "content": _UNKNOWN_QUESTION}]
    conversation, model = CHAT.conversation({"messages": messages}), string(body.get("model"))
    mender = None
    if guard.upstream is not None:
        payload: Json = {"model": model, "messages": messages} if model else {"messages": messages}
        request, length = JudgedRequest(payload=payload, model=model, streamed=False, refine={}), len(conversation)
        models = guard.attempt_models
        mender = UpstreamGenerator(guard.upstream, CHAT, request, length=length, headers=headers, models=models)
    loop = guard.loop.with_generator(_FirstDraft(text, mender))
    begun = loop.begin({"messages": conversation})
    if not given and loop.policy.augment in ("restated", "fresh"):  # the text is all that there is
        begun = replace(begun, policy=loop.policy.model_copy(update={"augment": "last_draft"}))
    try:
        outcome = await arun(loop, {"messages": conversation}, begun=begun)
    except BaseException as error:
        ended = outcome_of(error)
        if ended is not None:
            records.append(OutcomeRecord(ended, loop.policy))
        if isinstance(error, Unanswered):
            return error.outcome
        raise
    records.append(OutcomeRecord(outcome, loop.policy))
    return outcome


class _FirstDraft:
    """Gives a text as the first draft; the upstream writes the others."""

    may_interrupt = False

    def __init__(self, text: str, then: UpstreamGenerator | None) -> None:
        self._text: str | None = text
        self._then = then

    async def adraft(self, request: DraftRequest) -> Draft:
        """Return the text, or have it written again."""
        text, self._text = self._text, None
        if text is not None:
            return Draft(answer=AIMessage(text))
        if self._then is None:
            raise ApiError(404, "there is no upstream to mend the answer", code="no_upstream")
        return await self._then.adraft(request)


def _check_spending(guard: ServedGuard, incoming: Incoming, service: Service) -> None:
    """Check that a request without any key spends none of the operator's from afar.

    Raises:
        ApiError: If it would.
    """
    if guard.judge.models and not service.keys and not incoming.is_local:
        raise ApiError(
            403,
            "this server has no keys, so it judges given answers for this machine alone, as that asks the judge's "
            "model; give it keys",
            code="key_wanted",
        )


class _JudgeRoute(PostRoute):
    """`POST /v1/judge`: a verdict on a given exchange."""

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> GuardReply | None:
        """Judge one row; see the base class."""
        guard = exchange.choose_guard("", caller)
        _check_spending(guard, exchange.incoming, self._service)
        return await _respond(_judge_row(guard, body, exchange.verdicts), client, self._service)


class _LiteLLMRoute(PostRoute):
    """LiteLLM's generic guardrail."""

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> GuardReply | None:
        """Check the texts of a response; see the base class."""
        guard = exchange.choose_guard("", caller, _read_guard_name(body))
        _check_spending(guard, exchange.incoming, self._service)
        headers = {} if guard.upstream is None else exchange.upstream_headers(guard, caller, CHAT)
        headers = {**headers, "content-type": "application/json"}
        most = self._service.limits.max_texts
        work = _check_texts(guard, body, headers, exchange.records, most=most)
        return await _respond(work, client, self._service)


async def _respond(work: Coroutine[Any, Any, GuardReply], client: Client, service: Service) -> GuardReply | None:
    return await respond(work, client, CHAT, keep_alive_s=None, running=service.running)


def _operations(service: Service, metrics: Metrics | None) -> list[Route]:
    """Return the routes; without metrics there is none for them."""

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        judges = {guard.name: "not answering" for guard in service.guards if not guard.has_judge}
        closed = (guard.loop.policy.on_judge_error == "raise" for guard in service.guards)
        lost = len(judges) == len(tuple(service.guards)) and all(closed)
        models = " ".join(name for guard in service.guards for name in guard.asks)
        ended = [name for name in ended_servers() if name in models]
        if ended:  # nobody may come to ask it while this says no
            asyncio.get_running_loop().run_in_executor(None, restart_ended)
        why_not = {"draining": service.draining, "no judge answers": lost, "a local model is started again": ended}
        status = next((reason for reason, holds in why_not.items() if holds), "ready")
        is_ready = status == "ready"
        body = {"status": status, **({"judges": judges} if judges else {}), **({"ended": ended} if ended else {})}
        headers = None if is_ready else {"retry-after": "5"}
        return JSONResponse(body, status_code=200 if is_ready else 503, headers=headers)

    async def read_metrics(_: Request) -> Response:
        assert metrics is not None  # noqa: S101 - the route exists with metrics only
        metrics.in_flight.set(service.admission.in_flight)
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE.decode()})

    routes = [Route("/healthz", healthz), Route("/readyz", readyz)]
    return routes if metrics is None else [*routes, Route("/metrics", read_metrics)]


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
    metrics: Metrics | None,
    pass_through: Sequence[str],
    routes: Sequence[BaseRoute],
    page_link: str,
    on_close: Callable[[], None],
    label_route: LabelRoute,
) -> GuardApp:
    """Return the application.

    Args:
        service: What the routes share.
        metrics: What `/metrics` shows; None leaves it out.
        pass_through: Patterns of the paths below `/v1` that pass through unjudged; see `_PassThroughRoute`.
        routes: Further routes of Starlette: those of the page.
        page_link: What follows the page's address, so that it may be seen.
        on_close: Called in a thread when everything is answered.
        label_route: What takes labels.
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
            LABELS_PATH: label_route,
        },
        below_prefix=_PassThroughRoute(service, pass_through),
        others=Starlette(
            routes=[*_operations(service, metrics), *routes],
            lifespan=lifespan,
            exception_handlers={HTTPException: _answer_refusal},
        ),
        page=page_link if routes else None,
    )
