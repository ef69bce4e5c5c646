"""A server of the Model Context Protocol: judging, refining and reading runs as tools of a coding agent."""

from __future__ import annotations

import asyncio
import getpass
import logging
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field, ValidationError
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from graphs import GeneratorFailed, Outcome, Unanswered, arun
from graphs.outcome import RefineError
from judges.catalogue.names import JudgeSpec, is_judges_file, is_reference
from judges.catalogue.registry import default_registry, find
from judges.errors import ConfigurationError, JudgesError, one_line, shortened
from judges.judge import Judge, ajudge_within
from judges.models.providers.openai_settings import names_direct_client
from judges.models.resolve import as_model
from judges.offline.trust.label import Label, LabelItem, Labelling, items_of, labels_in
from judges.offline.trust.rows import JudgedAnswer, labels_file, read_judged
from judges.settings import settings_of
from judges.verdict import Usage
from refine.server.access import Caller, Incoming
from refine.server.assembly import DEADLINE_S, judge_model, make_service
from refine.server.config import ServerSettings
from refine.server.dialects import CHAT
from refine.server.dialects.protocol import Json, JudgedRequest
from refine.server.errors import ApiError, openai_error
from refine.server.guards import ServedGuard, connect_models
from refine.server.running import is_loopback, listening_socket
from refine.server.service import Service
from refine.server.upstream import UpstreamGenerator, UpstreamRefused

_log = logging.getLogger("refine.mcp")

_CALLER = "refine.caller"
_PATH = "/mcp"
_MOST_JUDGES = 10
_MOST_ANSWERS = 100
_KEPT_JUDGES = 32
_LONGEST_ERROR = 500
_UNAUTHORIZED = (401, 403)
_GUIDE = (
    "Judges answers of chat applications, refines them until a judge accepts them, and reads evaluation runs. "
    "find_judge tells which judges fit; their names are what judge takes."
)
_READING = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ASKING = ToolAnnotations(read_only_hint=True, open_world_hint=True)

_Context = Context[Any, Any]
# A text that may be left out is a `str` with an empty default: of any other type the SDK reads JSON in it.
_Question = Annotated[str, Field(description="What was asked.")]


class _Spent(BaseModel, from_attributes=True):
    tokens: int = Field(description="Tokens that models read and wrote for it.")
    cost: float | None = Field(description="US dollars, where prices are known.")


class Judgement(BaseModel, from_attributes=True):
    """What a judge says of an answer: a verdict as the tool has it."""

    judge: str
    rating: int | None = Field(description="1 to 4; null where unscored.")
    score: float | None = Field(description="0 to 1, higher is better; null where unscored.")
    passed: bool | None = Field(description="Whether the judge's pass mark was reached; null where unscored.")
    rationale: str
    feedback: str = Field(description="What to change, addressed to the writer of the next answer.")
    unscored: str | None = Field(description="Why there is no verdict; null where there is one.")
    detail: str
    model: str | None
    usage: _Spent


class Refined(BaseModel):
    """What came of a question: the accepted answer, or else what the policy releases."""

    answer: str | None = Field(description="Null where no answer may be released.")
    passed: bool = Field(description="Whether the judge accepted the answer.")
    stop_reason: str
    attempts: int
    rating: int | None
    summary: dict[str, Any] = Field(description="Each attempt's figures, usage and time, without rejected drafts.")

    @classmethod
    def of(cls, outcome: Outcome) -> Refined:
        """Return an outcome as the tool has it."""
        summary = outcome.summary()
        return cls(
            answer=None if outcome.answer is None else outcome.text,
            passed=outcome.passed,
            stop_reason=outcome.stop_reason,
            attempts=len(outcome.attempts),
            rating=summary["rating"],
            summary=summary,
        )


class KnownJudge(BaseModel, from_attributes=True):
    """A judge of the catalogue."""

    name: str
    asks: str
    needs: list[str] = Field(description="Fields that a sample must have.")
    calls: str = Field(description="Model calls for one sample; 0 needs no model.")
    extra: str = Field(description="The extra of selfrefine that it needs; empty where none.")


class KnownJudges(BaseModel):
    """The judges that fit, the best match first."""

    judges: list[KnownJudge]


class AnswerToLabel(BaseModel):
    """An answer that people are to label, without what the judge said of it."""

    question: str
    answer: str
    contexts: list[str]
    reference: str | None
    outcome_id: str | None
    attempt: int | None


class LabelQueue(BaseModel):
    """What `refine label` would show next."""

    by: str
    left: int = Field(description="Answers that this person may still label.")
    answers: list[AnswerToLabel]


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """The tools, and what they share.

    Args:
        settings: Settings of a guard, as `refine serve` reads them: judge, its model, upstream, policy, keys.
        root: The folder below which runs and rows are read.
        model: The upstream's model, where a call names none.
    """

    settings: ServerSettings
    root: Path
    model: str | None = None

    @cached_property
    def service(self) -> Service | None:
        """The guard with its keys, budgets and limits; None where no judge is configured."""
        if self.settings.judge is None and not self.settings.guards:
            return None
        return make_service(self.settings)

    def make_server(self) -> MCPServer[Any]:
        """Return the server; what is configured is made now, so that wrong settings are told before it starts.

        Raises:
            ConfigurationError: If a setting cannot be used.
        """
        if not self.root.is_dir():
            raise ConfigurationError(
                f"--root is a folder below which runs and rows are read, not {str(self.root)!r}"
            )
        _ = self.service, self._default_model
        server = _OneLineErrors(self)
        server.add_tool(self.judge, annotations=_ASKING)
        server.add_tool(self.refine, annotations=_ASKING)
        server.add_tool(self.find_judge, annotations=_READING)
        server.add_tool(self.explain_run, annotations=_READING)
        server.add_tool(self.next_to_label, annotations=_READING)
        return server

    async def judge(  # noqa: PLR0917 - a client passes them by name
        self,
        question: _Question,
        answer: Annotated[str, Field(description="What was answered.")],
        context: _Context,
        contexts: Annotated[list[str] | None, Field(description="What a retriever found for it.")] = None,
        reference: Annotated[str, Field(description="The right answer, where it is known.")] = "",
        judge: Annotated[
            str, Field(description="Name, as in length:at_most=80. Default: the configured judge.")
        ] = "",
        model: Annotated[
            str, Field(description="PROVIDER:NAME that the judge asks. Default: the configured one.")
        ] = "",
    ) -> Judgement:
        """Judge an answer: rating, score, whether it passed, why, and feedback on what to change."""
        caller = _caller_of(context)
        guard = None if judge else self._guard(caller)
        if guard is not None and model:
            raise ConfigurationError("model is for a judge by name; name the judge, or leave out the model")
        has_key = caller is not None and bool(caller.name)
        judging = self._named(judge, model, has_key) if guard is None else guard.judge
        fields = {"question": question, "answer": answer, "contexts": contexts, "reference": reference or None}
        sample = judging.read({name: value for name, value in fields.items() if value is not None})
        seconds = DEADLINE_S if guard is None else guard.loop.policy.deadline_s
        verdict = await ajudge_within(seconds, judging, sample)
        self._spend(caller, verdict.usage)
        return Judgement.model_validate(verdict)

    async def refine(
        self,
        question: _Question,
        context: _Context,
        model: Annotated[
            str | None, Field(description="The upstream's model. Default: the configured one.")
        ] = None,
    ) -> Refined:
        """Answer a question by the configured model, judge the answer, and ask again until one is accepted."""
        caller = _caller_of(context)
        guard = self._guard(caller)
        if guard is None or guard.upstream is None:
            raise ConfigurationError("refine needs an upstream and a judge; start refine mcp with --config FILE")
        outcome = await self._answer(guard, question, model or self.model or "", caller)
        self._spend(caller, outcome.usage)
        return Refined.of(outcome)

    def find_judge(
        self,
        sentence: Annotated[str, Field(description="What goes wrong: my bot invents prices")],
        most: Annotated[int, Field(ge=1, le=_MOST_JUDGES, description="Most judges.")] = 5,
    ) -> KnownJudges:
        """Find judges by a sentence: their names, what they ask and what they need."""
        entries = find(default_registry().entries.values(), text=sentence)[:most]
        return KnownJudges(judges=[KnownJudge.model_validate(one) for one in entries])

    async def explain_run(
        self, run: Annotated[str, Field(description="Folder of a finished run or trial.")]
    ) -> str:
        """Say what a finished run came to, as `refine show`: each judge's figures, and what went wrong."""
        return await asyncio.to_thread(_show, self._within(run))

    async def next_to_label(
        self,
        source: Annotated[str, Field(description="attempts.jsonl, the folder of a run, or a record's database.")],
        by: Annotated[str, Field(description="Who labels. Default: the login.")] = "",
        most: Annotated[int, Field(ge=1, le=_MOST_ANSWERS, description="Most answers.")] = 1,
    ) -> LabelQueue:
        """Say which answers `refine label` would show next, blind to the verdict; nothing is labelled."""
        return await asyncio.to_thread(_queue, self._within(source), by or getpass.getuser(), most)

    async def _answer(self, guard: ServedGuard, question: str, model: str, caller: Caller | None) -> Outcome:
        upstream, own = guard.required_upstream, {} if caller is None else caller.credentials
        payload: Json = {
            "messages": [{"role": "user", "content": question}],
            **({"model": model} if model else {}),
        }
        conversation = CHAT.conversation(payload)
        headers = upstream.headers({"content-type": "application/json"}, uuid.uuid4().hex, own, CHAT.KEY_HEADER)
        generator = UpstreamGenerator(
            upstream,
            CHAT,
            JudgedRequest(payload=payload, model=model, streamed=False, refine={}),
            length=len(conversation),
            headers=headers,
            models=guard.attempt_models,
        )
        try:
            return await arun(guard.loop.with_generator(generator), {"messages": conversation})
        except GeneratorFailed as error:
            self._spend(caller, error.outcome.usage)
            raise ConfigurationError(_describe_failure(error, model, headers)) from None
        except Unanswered as error:
            return error.outcome

    def _guard(self, caller: Caller | None) -> ServedGuard | None:
        if self.service is None:
            return None
        return self.service.guards.choose(None, "", None if caller is None else caller.guards)

    def _spend(self, caller: Caller | None, usage: Usage) -> None:
        if caller is not None and self.service is not None:
            self.service.budgets.add(caller.name, usage)

    @contextmanager
    def admitted(self, caller: Caller | None) -> Iterator[None]:
        """Hold a place for a call of a tool; without a caller, over stdio, there is no limit.

        Raises:
            ApiError: If a budget is spent, or too many calls are in flight.
        """
        if caller is None or self.service is None:
            yield
            return
        with self.service.admission.place(caller.name):
            yield

    @asynccontextmanager
    async def open(self, _: MCPServer[Any]) -> AsyncIterator[None]:
        """Close the connections to the upstreams when the server ends."""
        try:
            yield
        finally:
            guards = () if self.service is None else tuple(self.service.guards)
            for upstream in {guard.upstream for guard in guards if guard.upstream is not None}:
                await upstream.aclose()

    @cached_property
    def _default_model(self) -> object:
        return judge_model(self.settings)

    @cached_property
    def _named(self) -> Any:
        return lru_cache(maxsize=_KEPT_JUDGES)(self._load)

    def _load(self, name: str, model: str, has_key: bool) -> Judge:  # noqa: FBT001 - for the cache
        if not name:
            raise ConfigurationError("name a judge; find_judge tells which fit, such as 'length:at_most=80'")
        if model and (names_direct_client(model) or ":" not in model.strip(":") or "//" in model):
            raise ConfigurationError(
                f"model = {shortened(model)}: a call names a model as PROVIDER:NAME; one at an address is for the "
                f"configuration, judge_model"
            )
        spec = _checked_spec(name, is_shared=has_key)
        judge_model = as_model(model) if model else self._default_model
        judge = spec.load(
            model=judge_model, remedy="add model='PROVIDER:NAME', or start refine mcp with --judge-model"
        )
        connect_models(judge)
        return judge

    def _within(self, text: str) -> Path:
        """Return a path below the root.

        Raises:
            ConfigurationError: If it is not, or there is nothing.
        """
        root, plain = self.root.resolve(), text.removeprefix("sqlite:///")
        try:
            path = (root / plain).resolve()
            is_there = path.exists()
        except (OSError, ValueError):
            path, is_there = root.parent, False
        if "://" in plain or not path.is_relative_to(root):
            raise ConfigurationError(f"{shortened(text)} is not below the folder of the server; see --root")
        if not is_there:
            raise ConfigurationError(f"there is no {shortened(text)} below the folder of the server")
        return path


class _OneLineErrors(MCPServer[Any]):
    """The server, whose errors are one line each, without judged text."""

    def __init__(self, tools: McpServer) -> None:
        super().__init__("selfrefine", instructions=_GUIDE, log_level="ERROR", lifespan=tools.open)
        self._tools = tools

    async def call_tool(self, name: str, arguments: dict[str, Any], context: _Context | None = None) -> Any:
        """Call a tool within the limits of its caller; see the base class."""
        try:
            await self._check_names(name, arguments)
            with self._tools.admitted(None if context is None else _caller_of(context)):
                return await super().call_tool(name, arguments, context)
        except (ApiError, ConfigurationError) as error:
            raise ToolError(one_line(error, longest=_LONGEST_ERROR)) from None
        except ToolError as error:
            raise ToolError(_describe(name, error)) from None

    async def _check_names(self, name: str, arguments: Mapping[str, Any]) -> None:
        tools = {tool.name: tool for tool in await self.list_tools()}
        if name not in tools:
            raise ConfigurationError(f"there is no tool {shortened(name)}; there are {', '.join(tools)}")
        known = tools[name].input_schema["properties"]
        unknown = next((one for one in arguments if one not in known), None)
        if unknown is not None:
            raise ConfigurationError(f"{name} takes no {shortened(unknown)}; it takes {', '.join(known)}")


def _describe(name: str, error: ToolError) -> str:
    """Say what went wrong, in one line; what nobody expected is named in the log, without its text."""
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        fault = cause.errors(include_url=False, include_input=False)[0]
        return f"{name}: {'.'.join(map(str, fault['loc']))}: {one_line(fault['msg'])}"
    if isinstance(cause, OSError):
        return one_line(cause.strerror or type(cause).__name__)
    if isinstance(cause, JudgesError | RefineError):
        return one_line(cause, longest=_LONGEST_ERROR)
    _log.error("the tool %s failed: %s", name, type(cause).__name__)
    return f"{name} failed unexpectedly ({type(cause).__name__}); its server's log has a line"


def _caller_of(context: _Context) -> Caller | None:
    """Return whose key a call came with; None over stdio."""
    request = context.request_context.request
    caller = None if request is None else request.scope.get(_CALLER)
    return caller if isinstance(caller, Caller) else None


def _checked_spec(text: str, *, is_shared: bool) -> JudgeSpec:
    """Return a judge of the catalogue whose settings name no file, model or code.

    Args:
        text: The judge.
        is_shared: Whether others have keys, too: a regular expression that never ends would hold them all up.

    Raises:
        ConfigurationError: If it is another: a caller could read files, import code or send keys elsewhere.
    """
    spec = None if is_judges_file(text) else JudgeSpec.parse(text)
    if spec is None or is_reference(spec.name):
        raise ConfigurationError(
            f"judge = {shortened(text)}: a call names a judge of the catalogue; one of your own is for the "
            f"configuration, judge"
        )
    settable = [
        one.name
        for one in settings_of(default_registry().maker(spec.name))
        if not ("Path" in one.type or "Model" in one.type or (is_shared and one.holds_expressions))
    ]
    for name in spec.settings:
        if name not in settable:
            raise ConfigurationError(
                f"{spec.name}: a call cannot set {shortened(name)}; it can set {', '.join(settable) or 'nothing'}"
            )
    return spec


def _describe_failure(error: GeneratorFailed, model: str, headers: Mapping[str, str]) -> str:
    """Say why an upstream gave no answer, without its own text, and what to do."""
    cause = error.__cause__
    if not isinstance(cause, UpstreamRefused):
        return str(cause if isinstance(cause, ApiError) else error)
    if cause.status_code in _UNAUTHORIZED and not {"authorization", "x-api-key", "api-key"} & headers.keys():
        return f'{cause}; no key was sent: set upstream_key = "env:NAME"'
    return str(cause) if model else f"{cause}; name the upstream's model"


_SHOWING = threading.Lock()
"""Held while standard output is a text: what is shown for one call must not reach another's."""


def _show(run: Path) -> str:
    from refine.cli.options import ShowOptions  # noqa: PLC0415 - loads typer
    from refine.cli.runs import run_show  # noqa: PLC0415 - loads rich
    from refine.cli.trial import show_trial  # noqa: PLC0415 - as above
    from refine.trials.manifest import is_trial  # noqa: PLC0415 - as above

    options, text = ShowOptions(run=run), StringIO()
    with _SHOWING, redirect_stdout(text):
        (show_trial if is_trial(run) else run_show)(options)
    return text.getvalue()


def _queue(source: Path, by: str, most: int) -> LabelQueue:
    rows, labels = _rows_to_label(source)
    labelling = Labelling(items_of(rows, labels), _NoStore(), by=by)
    left = labelling.total - labelling.labelled
    shown = []
    for _ in range(min(most, left)):
        item = labelling.current
        if item is not None:
            shown.append(_to_label(item))
            labelling.skip()
    return LabelQueue(by=labelling.by, left=left, answers=shown)


def _rows_to_label(source: Path) -> tuple[list[JudgedAnswer], list[JudgedAnswer]]:
    from refine.cli.loops import is_database, open_database  # noqa: PLC0415 - loads rich

    if is_database(str(source)):
        with open_database(f"sqlite:///{source}") as record:
            return read_judged(list(record.rows())), []
    return read_judged(source), labels_in(labels_file(source))


class _NoStore:
    """Keeps no labels: the queue is looked at, not worked on."""

    def add(self, item: LabelItem, label: Label) -> None:
        raise NotImplementedError

    def remove(self, item: LabelItem, label: Label) -> None:
        raise NotImplementedError


def _to_label(item: LabelItem) -> AnswerToLabel:
    sample = item.sample
    return AnswerToLabel(
        question=sample.question or "",
        answer=sample.answer or "",
        contexts=list(sample.retrieved_contexts or ()),
        reference=sample.reference,
        outcome_id=item.outcome_id,
        attempt=item.attempt,
    )


@dataclass(frozen=True)
class _Keyed:
    """The application, behind the keys of the guard's configuration."""

    app: ASGIApp
    service: Service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                scope[_CALLER] = self.service.keys.caller(Incoming.of(scope))
            except ApiError as error:
                headers = {"www-authenticate": "Bearer"} if error.status in _UNAUTHORIZED else None
                await JSONResponse(openai_error(error), error.status, headers)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def serve_stdio(tools: McpServer) -> None:
    """Serve over standard input and output until the client closes them.

    Raises:
        ConfigurationError: If a setting cannot be used.
    """
    tools.make_server().run("stdio")


def serve_http(tools: McpServer) -> None:
    """Serve over streamable HTTP until a signal comes.

    Raises:
        ConfigurationError: If a setting cannot be used, or others than this machine would be let in without a key.
    """
    server, settings, service = tools.make_server(), tools.settings, tools.service
    if service is None:
        raise ConfigurationError("--http takes keys and limits from a guard's settings; add --config or --judge")
    if not service.keys and not is_loopback(settings.host):
        raise ConfigurationError(
            f"there are no keys, so host = {settings.host!r} would let in others than this machine; `refine key "
            f"NAME` makes a key"
        )
    app = server.streamable_http_app(
        streamable_http_path=_PATH,
        max_request_body_size=settings.max_body_bytes,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # `Keys` checks
    )
    config = uvicorn.Config(
        _Keyed(app, service),
        ws="none",
        lifespan="on",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_config=None,
        log_level="warning",
        timeout_graceful_shutdown=max(1, int(settings.drain_s)),
    )
    sock = listening_socket(settings.host, settings.port)
    host, port, *_ = sock.getsockname()
    sys.stderr.write(f"refine: listening at http://{f'[{host}]' if ':' in host else host}:{port}{_PATH}\n")
    sys.stderr.flush()
    uvicorn.Server(config).run(sockets=[sock])
