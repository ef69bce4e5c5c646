"""What `refine serve` does: read the settings, make everything, say where it is, serve until a signal comes."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import ipaddress
import json
import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any, Self

from judges.errors import ConfigurationError
from refine.logs import log_json_lines
from refine.page.access import OneTimeLink
from refine.promise_watch import watch_promise
from refine.record import DatabaseRecord, Recorder
from refine.server.app import make_guard_app
from refine.server.assembly import make_service
from refine.server.config import ServerSettings, load_settings, unknown_variables
from refine.server.dialects import CHAT, MESSAGES
from refine.server.dialects.protocol import ApiDialect
from refine.server.errors import ApiError
from refine.server.guards import ServedGuard
from refine.server.metrics import ACCESS_LOG, Metrics, Recording, log_request
from refine.server.notices import describe_webhooks, make_notices, open_webhooks
from refine.server.record import LabelRoute, choose_record, make_page, open_guard_record
from refine.server.service import GuardApp, Service
from refine.server.uvicorn_private import GuardServer
from refine.webhooks import Webhook

_MODES = ("caller", "callers", "client", "env", "environment", "none", "null", "false")
_VARIABLE = re.compile(r"(?:env)?\$?\{?[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\}?")
_SHORTEST_KEY = 12
_MANY_ATTEMPTS = 20


def _doubts_about(settings: ServerSettings, guards: list[ServedGuard]) -> Iterator[str]:
    """Yield a line for whatever can be used but is hardly meant."""
    tables = {"": settings, **{f"guards.{name}.": guard for name, guard in settings.guards.items()}}
    for place, table in tables.items():
        if "upstream_key" in table.model_fields_set:
            reason = _doubt_about_key(table.upstream_key.get_secret_value())
            if reason:
                yield f'{place}upstream_key {reason}; write "caller", or "env:NAME" for the variable with the key'
    for guard in guards:
        policy = guard.loop.policy
        if policy.max_attempts > _MANY_ATTEMPTS:
            yield (
                f"guard {guard.name}: max_attempts = {policy.max_attempts:,} may cost that many calls an answer; "
                f"more than {_MANY_ATTEMPTS} hardly ever help"
            )
        if policy.deadline_s is not None and policy.deadline_s > settings.drain_s and _is_drain_chosen(settings):
            yield (
                f"guard {guard.name}: an answer has {policy.deadline_s:g} s (deadline_s), but only "
                f"{settings.drain_s:g} s when the server stops (drain_s); raise drain_s, or answers are cut off"
            )
    yield from _shared_models(guards)


def _doubt_about_key(key: str) -> str:
    """Say what a key looks like that is none; nothing of it is quoted."""
    word = key.strip().lower()
    if key in {"", "caller"} or key.startswith("env:"):
        return ""
    if _VARIABLE.fullmatch(key.strip()):
        return "looks like the name of an environment variable"
    if word.startswith("bearer "):
        return "begins with 'Bearer', which is put before it anyway"
    near = get_close_matches(re.split(r"[:=.$ ]", word)[0], _MODES, n=1, cutoff=0.7)
    if (near and len(word) < 2 * _SHORTEST_KEY) or word.startswith(("env:", "env.", "env ", "env=")):
        return f"looks like {near[0] if near else 'env'!r} misspelt"
    return "is very short for a key" if len(key) < _SHORTEST_KEY else ""


def _is_drain_chosen(settings: ServerSettings) -> bool:
    """Check whether somebody chose one of the two times; the defaults are for answers that take seconds."""
    policies = [settings.policy, *(guard.policy for guard in settings.guards.values())]
    return "drain_s" in settings.model_fields_set or any("deadline_s" in policy for policy in policies)


def _shared_models(guards: list[ServedGuard]) -> Iterator[str]:
    for first, later in combinations(guards, 2):
        for pattern in later.models:
            other = next((own for own in first.models if fnmatchcase(pattern, own)), None)
            if other is not None:
                yield (
                    f"guards {first.name} and {later.name} are both for the model {pattern!r} "
                    f"({first.name} has {other!r}): {first.name} answers, {later.name} only by x-refine-guard"
                )


def _doubt_about_record(record: Recorder | None) -> str:
    """Say why a record's database cannot be used now; empty where it can."""
    if not isinstance(record, DatabaseRecord) or record.file is not None:
        return ""
    try:
        record.check()
    except ConfigurationError as error:
        return f"{error}; answers go out all the same, and what does not fit into the queue is lost"
    finally:
        record.close()
    return ""


_FILE = """\
# A guard in front of {upstream}: start it by `refine serve --config {name}`,
# look at what it means by `refine serve --config {name} --check`. All settings: docs/guard.md.

# The API that answers, as clients have it for their base URL.
upstream = {upstream_text}

# "caller" hands on the key that comes with each request; "env:OPENAI_API_KEY" uses one of yours.
upstream_key = "caller"

# What judges every answer: `refine judges` lists all; "module:object" is one of your own.
judge = {judge}
{model}
# Accepted from this rating (1 to 4) on; else it is asked for again, so many times in all.
success_rating = 3
max_attempts = 3

# "closed": no verdict is an error, and nothing goes out unjudged; "open" releases the answer and marks it.
fail = "open"

# Where it listens. Beyond this machine it wants keys: `refine key NAME` prints the lines of one.
host = "127.0.0.1"
port = 8000

# Outcomes, for the page at http://127.0.0.1:8000/; with texts only if you say so.
record = "refine-record.db"
record_texts = false
record_keep_days = 30
"""
_WITH_MODEL = """
# The model that the judge asks; its key is read from the environment.
judge_model = {model}
"""
_WITHOUT_MODEL = """
# This judge asks no model. One that does: judge = "helpfulness", and for instance
# judge_model = "openai:gpt-5-mini"       # with OPENAI_API_KEY set
"""
_QUESTIONS = (
    "Address of the model's API",
    "Judge (`refine judges` lists them)",
    "Model of the judge, PROVIDER:NAME (- for none)",
)
_MODELS = {"OPENAI_API_KEY": "openai:gpt-5-mini", "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5"}
_NONE = "-"


def _write_configuration(file: Path, ask: Callable[[str, str], str]) -> None:
    """Write a configuration with comments that starts.

    Args:
        file: The new file.
        ask: Asks a person, with what is taken where nothing is said.

    Raises:
        ConfigurationError: If the file is there already, or cannot be written.
    """
    if file.exists():
        raise ConfigurationError(f"{str(file)!r} is there already; name another by --config, or delete it first")
    known = next((model for variable, model in _MODELS.items() if os.environ.get(variable)), _NONE)
    upstream = ask(_QUESTIONS[0], "https://api.openai.com/v1").strip()
    judge = ask(_QUESTIONS[1], "length:at_least=1" if known == _NONE else "helpfulness").strip()
    model = ask(_QUESTIONS[2], known).strip()
    of_model = _WITHOUT_MODEL if model in {"", _NONE} else _WITH_MODEL.format(model=json.dumps(model))
    text = _FILE.format(
        name=file.name,
        upstream=upstream.splitlines()[0] if upstream else "",
        upstream_text=json.dumps(upstream),
        judge=json.dumps(judge),
        model=of_model,
    )
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{str(file)!r} cannot be written: {error.strerror}") from None


_ROW = {
    "question": "What is the capital of France?",
    "answer": "The capital of France is Paris.",
    "reference": "Paris.",
    "retrieved_contexts": ["Paris is the capital of France."],
}
_REFUSED = (401, 403)
_NOT_FOUND = 404
_FAILING = 500
_LIVE_S = 60.0
"""Seconds that each of those asked has to answer; a judge without a deadline could hang for ever."""


async def _ask_once(
    guards: Iterable[ServedGuard], record: Recorder | None, webhooks: Iterable[Webhook] = ()
) -> tuple[list[str], list[str]]:
    """Ask all judges, upstreams, databases and webhooks once; return what answers, what does not, a line each."""
    fine: list[str] = []
    faults: list[str] = []
    for guard in guards:
        for name, ask in (("judge", _ask_judge), ("upstream", _ask_upstream)):
            try:
                async with asyncio.timeout(_LIVE_S):
                    fine.append(f"guard {guard.name}: the {name} {await ask(guard)}")
            except TimeoutError:
                faults.append(f"guard {guard.name}: the {name} does not answer within {_LIVE_S:g} s")
            except (ApiError, ConfigurationError) as error:
                faults.append(f"guard {guard.name}: the {name} does not answer: {error}")
    if isinstance(record, DatabaseRecord):
        try:
            await asyncio.to_thread(record.check)
            fine.append("the record's database answers")
        except ConfigurationError as error:
            faults.append(f"record: {error}")
    for webhook in webhooks:
        try:
            await asyncio.to_thread(webhook.post, "test", {"text": "refine serve --check --live"})
            fine.append(f"the webhook to {webhook.host} answers")
        except ConfigurationError as error:
            faults.append(f"webhook: {error}")
    return fine, faults


async def _ask_judge(guard: ServedGuard) -> str:
    verdict = await guard.judge.acall(guard.judge.read(_ROW))
    if verdict.unscored is not None:
        raise ConfigurationError(f"{verdict.unscored}: {verdict.detail}")
    return f"{guard.judge.name} answers in {verdict.latency_s:.1f} s"


async def _ask_upstream(guard: ServedGuard) -> str:
    upstream = guard.upstream
    if upstream is None:
        return "is not set"
    dialect: ApiDialect = MESSAGES if guard.api == MESSAGES.API else CHAT
    version = {"anthropic-version": "2023-06-01"} if dialect is MESSAGES else {}
    headers = upstream.headers(version, "check", {}, dialect.KEY_HEADER)
    try:
        async with upstream.open("GET", "/models", "", headers, None) as response:
            status = response.status
    finally:
        await upstream.aclose()
    is_refused = status in _REFUSED and not upstream.takes_callers_key
    if status >= _FAILING or is_refused:
        raise ConfigurationError(f"{upstream.origin} answers with status {status}")
    doubt = ", but knows no /models: see whether its path is right" if status == _NOT_FOUND else ""
    return f"{upstream.origin} answers{doubt}"


_WANTED = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_NEEDS = {
    "otlp": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "console": ("opentelemetry.sdk",),
}
_SERVICE = "refine-guard"


def _trace_as_the_environment_says(environment: Mapping[str, str] = os.environ) -> Callable[[], None]:
    """Set up tracing where `OTEL_TRACES_EXPORTER` or an address of OTLP is set, and return what ends it.

    Everything else, `OTEL_SERVICE_NAME`, `OTEL_TRACES_SAMPLER`, `OTEL_EXPORTER_OTLP_HEADERS` and so on, means what
    it does everywhere. Without those variables nothing is loaded.

    Raises:
        ConfigurationError: If the exporter is unknown, or the extra `otel` is not installed.
    """
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_off or not any(environment.get(name) for name in _WANTED):
        return lambda: None
    kind = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() or "otlp"
    if kind == "none":
        return lambda: None
    if kind not in _NEEDS:
        raise ConfigurationError(f"OTEL_TRACES_EXPORTER = {kind!r} is not known here; set otlp, console or none")
    protocol = environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or environment.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL"
    )
    if kind == "otlp" and protocol not in {None, "", "http/protobuf"}:
        raise ConfigurationError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL = {protocol!r} is not spoken here; set http/protobuf"
        )
    if not all(map(_is_there, _NEEDS[kind])):
        raise ConfigurationError("OTEL_* in the environment wants traces; install the extra: selfrefine[otel]")
    return _begin(kind)


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _begin(kind: str) -> Callable[[], None]:
    from opentelemetry import trace  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - likewise
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - likewise
    from opentelemetry.sdk.trace.export import (  # noqa: PLC0415 - likewise
        BatchSpanProcessor,
        ConsoleSpanExporter,
        SpanExporter,
    )

    exporter: SpanExporter = ConsoleSpanExporter()
    if kind == "otlp":
        exporter = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
    of_resource = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    is_named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in of_resource
    provider = TracerProvider(resource=Resource.create({} if is_named else {"service.name": _SERVICE}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.shutdown


_BACKLOG = 2_048


_log = logging.getLogger("refine.server")


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; made for TCP by name, or asyncio would leave Nagle's delay on.

    Raises:
        ConfigurationError: If the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise ConfigurationError(
            f"cannot listen at {host}:{port} ({error.strerror or error}); choose another --port or --host"
        ) from None
    return sock


def serve(file: Path | None, flags: Mapping[str, Any], *, check: bool, live: bool = False) -> None:
    """Serve until a signal comes, or only check the settings and say what they mean.

    Args:
        file: The TOML file, if any.
        flags: Settings given as flags.
        check: Whether to check alone.
        live: Whether the check asks judges, upstreams and the database, each once.

    Raises:
        ConfigurationError: If a setting cannot be used; the message names key, value and remedy.
    """
    if live and not check:
        raise ConfigurationError("--live asks judges, upstreams and the database for --check; give both")
    settings = load_settings(file, flags)
    _say(*unknown_variables())
    service = make_service(settings)
    _require_upstream(service)
    settings, of_record = choose_record(settings)
    app = _make_app(settings, service, on_close=(lambda: None) if check else _trace_as_the_environment_says())
    doubts = [doubt for guard in service.guards for doubt in guard.doubts]
    _say(*map(_describe, service.guards), *doubts, of_record, *describe_webhooks(settings.webhooks))
    _say(_exposure(settings, service))
    _say(*(f"warning: {doubt}" for doubt in _doubts_about(settings, list(service.guards))))
    if check:
        _check_address(settings.host)
        if doubt := _doubt_about_record(open_guard_record(settings)):
            _say(f"warning: {doubt}")
        if live:
            _check_live(settings, service)
        _say("the configuration can be used")
        return
    sock = listening_socket(settings.host, settings.port)
    _begin_log(settings.log_level)
    _keep_for_good()
    _say(f"listening at {_url_of(sock)}{'' if service.keys else ', without keys'}")
    if app.page is not None:
        _say(f"the page is at {_url_of(sock).removesuffix('v1')}{app.page}")
    server = GuardServer(app, settings)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve([sock]))


def _check_address(host: str) -> None:
    """Refuse an address that the start could not listen at."""
    try:
        listening_socket(host, 0).close()
    except (ConfigurationError, OSError):
        raise ConfigurationError(
            f"host = {host!r} is no address of this machine; 127.0.0.1 is, 0.0.0.0 means all of them"
        ) from None


def begin(file: Path, *, is_asked: bool, ask: Callable[[str, str], str]) -> None:
    """Write a configuration to start from, and say what it means.

    Args:
        file: The new file.
        is_asked: Whether a person is asked; else what would be taken without an answer is.
        ask: Asks a question, with what is taken without an answer.

    Raises:
        ConfigurationError: If the file is there already, or cannot be written.
    """
    _write_configuration(file, ask if is_asked else lambda _, default: default)
    _say(f"wrote {file}; start it by `refine serve --config {file}`")
    try:
        _say(*map(_describe, make_service(load_settings(file, {})).guards))
    except ConfigurationError as error:
        _say(f"warning: it does not start yet: {error}")


def _keep_for_good() -> None:
    """Keep for the life of the process what was made until now: a server that has not begun to serve.

    The modules' objects are many: a full collection, of which there are some in a thousand requests, would look at
    each of them every time.
    """
    gc.collect()
    gc.freeze()
    with suppress(OSError):  # no such list: another system
        _use_large_pages()


_LARGE_PAGE, _COLLAPSE = 2 << 20, 25
"""Its bytes, and Linux's advice, from 6.1 on, to put what a stretch of memory holds into such pages."""


def _use_large_pages() -> None:
    """Have Linux hold in large pages what was made until now, where it can.

    A request touches thousands of places all over it; looking them up in small pages is a tenth of its CPU.
    """
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    advise = ctypes.CDLL(None).madvise
    for line in maps.splitlines():
        span, rights, *_, name = f"{line} -".split(maxsplit=5)
        first, end = (int(place, 16) // _LARGE_PAGE for place in span.split("-"))
        size = (end - first - 1) * _LARGE_PAGE
        if rights == "rw-p" and name.split()[0] in ("-", "[heap]") and size > 0:
            advise(ctypes.c_void_p((first + 1) * _LARGE_PAGE), ctypes.c_size_t(size), _COLLAPSE)


def _begin_log(name: str) -> None:
    """Write the log; at `info` one line a request, and not the steps of each, which `debug` shows."""
    level = getattr(logging, name.upper())
    log_json_lines(level=level)
    if level == logging.INFO:
        logging.getLogger("refine").setLevel(logging.WARNING)
        for own in (_log, ACCESS_LOG):
            own.setLevel(logging.INFO)


def _check_live(settings: ServerSettings, service: Service) -> None:
    fine, faults = asyncio.run(
        _ask_once(service.guards, open_guard_record(settings), open_webhooks(settings.webhooks))
    )
    _say(*fine, *faults)
    if faults:
        raise ConfigurationError(f"{len(faults)} of {len(fine) + len(faults)} do not answer; see above")


def _make_app(
    settings: ServerSettings, service: Service, *, on_close: Callable[[], None] = lambda: None
) -> GuardApp:
    """Return the application that settings describe; `on_close` is called after it has ended.

    Raises:
        ConfigurationError: If the record or the page cannot be used.
    """
    record, link = open_guard_record(settings), OneTimeLink()
    recording = None if record is None else Recording(record, {guard.name: guard for guard in service.guards})
    if isinstance(record, DatabaseRecord):
        is_closed = any(guard.loop.policy.on_judge_error == "raise" for guard in service.guards)
        service.budgets.share(record, is_closed=is_closed)
    watches = {guard.name: watch_promise(record, guard.loop) for guard in service.guards}
    promises = {name: watch for name, watch in watches.items() if watch is not None}
    counts = (lambda: (0, 0)) if recording is None else recording.counts
    metrics = Metrics(counts, promises) if settings.metrics else None
    notices = make_notices(settings, service.guards, counts, promises, metrics)
    service.observers = (
        *service.observers,
        log_request,
        *(one for one in (metrics, recording) if one is not None),
        *notices,
    )
    passed = settings.pass_through

    def close() -> None:
        for watch in promises.values():
            watch.close()
        service.budgets.close()
        if recording is not None:
            recording.close()
        for notice in notices:
            notice.webhook.close()
        on_close()

    return make_guard_app(
        service,
        metrics=metrics,
        pass_through=passed if isinstance(passed, list) else ["*"] if passed else [],
        routes=make_page(settings, service, record, link, promises),
        page_link=f"#link={link.token}" if settings.record_texts and settings.page_key is None else "",
        on_close=close,
        label_route=LabelRoute(service, record if isinstance(record, DatabaseRecord) else None, promises),
    )


def _url_of(sock: Any) -> str:
    """Return the base URL of a listening socket."""
    host, port, *_ = sock.getsockname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def _describe(guard: ServedGuard) -> str:
    """Return a line that says what a guard does."""
    policy = guard.loop.policy
    models = ", ".join(model.name for model in guard.judge.models)
    of_models = f" ({models})" if models else ""
    upstream = "no upstream, /v1/judge only" if guard.upstream is None else f"upstream {guard.upstream.origin}"
    unjudged = {"accept": "open", "reject": "best judged answer", "raise": "closed"}[policy.on_judge_error]
    served = f", models {', '.join(guard.models)}" if guard.models else ""
    certificate = "" if policy.certificate is None else f" by certificate {policy.certificate.id[:8]}"
    return (
        f"guard {guard.name}: judge {guard.judge.name}{of_models}, {upstream}, "
        f"accepted at {policy.acceptance}{certificate}, "
        f"at most {policy.max_attempts} attempts, without a verdict: {unjudged}{served}"
    )


def _exposure(settings: ServerSettings, service: Service) -> str:
    """Return a warning that others than this machine's users are let in without a key, if they are."""
    if service.keys or is_loopback(settings.host):
        return ""
    own_key = any(guard.upstream and guard.upstream.credentials({}, "authorization") for guard in service.guards)
    price = ", at this server's expense" if own_key else ""
    return (
        f"warning: there are no keys, so whoever reaches {settings.host} is answered{price}; "
        f"`refine key NAME` makes a key, `--host 127.0.0.1` lets in this machine alone"
    )


def is_loopback(host: str) -> bool:
    """Check whether a host to listen at lets in this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _require_upstream(service: Service) -> None:
    if all(guard.upstream is None for guard in service.guards):
        raise ConfigurationError(
            "upstream is not set: give the address of the model's API, for instance "
            "--upstream https://api.openai.com/v1"
        )


def _say(*lines: str) -> None:
    sys.stderr.writelines(f"refine: {line}\n" for line in lines if line)
    sys.stderr.flush()


_STARTING_S = 10.0


class RunningGuard:
    """A guard that runs while a `with` block does.

    Args:
        settings: Settings as the configuration has them: `{"upstream": "http://...", "judge": "length", ...}`;
            without `port` a free one is taken.

    Raises:
        ConfigurationError: If a setting cannot be used.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = load_settings(None, {"port": 0, **settings})
        self.service = make_service(self._settings)
        self._app = _make_app(self._settings, self.service)
        self._socket = listening_socket(self._settings.host, self._settings.port)
        self._server = GuardServer(self._app, self._settings)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return self._url

    @property
    def page_url(self) -> str | None:
        """Where the page is, with the link that is followed once if there is one; None where there is no page."""
        return None if self._app.page is None else f"{self._url.removesuffix('v1')}{self._app.page}"

    def __enter__(self) -> Self:
        self._url = _url_of(self._socket)
        self._thread.start()
        if not self._started.wait(_STARTING_S):
            raise RuntimeError("the guard did not start; its log says why")
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        serving = asyncio.ensure_future(self._server.serve([self._socket]))
        while not self._server.started and not serving.done():  # noqa: ASYNC110 - uvicorn only sets a flag
            await asyncio.sleep(0.005)
        self._started.set()
        await serving
