"""What `refine serve` does: read the settings, make everything, say where it is, serve until a signal comes."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import signal
import socket
import sys
import threading
import time
from asyncio import TimerHandle, Transport
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from judges.errors import ConfigurationError
from refine.logs import log_json_lines
from refine.server.app import GuardApp
from refine.server.building import service_of
from refine.server.config import ServerSettings, load_settings, unknown_variables
from refine.server.errors import ApiError
from refine.server.forms import form_for
from refine.server.guards import Guard
from refine.server.metrics import Metrics
from refine.server.recording import Recording, page_of, record_of, with_default_record
from refine.server.requests import request_headers
from refine.server.service import Service

_BACKLOG = 2_048
_KEEP_ALIVE_S = 75
"""Seconds that an idle connection is kept: longer than the load balancers in front, which keep theirs 60 s."""
_LINGER_S = 2.0
"""Seconds in which the rest of a body is thrown away after the response, before the connection is closed."""
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


class _Protocol(HttpToolsProtocol):
    """Closes a connection whose headers are too slow or too large, or whose body goes on after the response.

    What is left of a body is thrown away for a while, since closing at once would cost the client the response.
    What is no HTTP, and who asks for a WebSocket, is refused in words; neither makes the log longer. Who offers to
    go on in HTTP/2, as Java's client does, is answered in HTTP/1.1.
    """

    header_s = 10.0
    header_bytes = 32_768

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn itself narrows it
        super().connection_made(transport)
        self._read = 0
        self._headers_due: TimerHandle | None = self._deadline()
        self._lingering: TimerHandle | None = None
        self._is_refused = self._is_upgrade = self._has_cycle = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        self._body_over()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if not self._is_refused:
                self._read_again(data[upgrade.args[0] :])
        except HttpParserError as error:
            _log.debug("a client sent what is no HTTP: %s", type(error).__name__)
            self._refuse(ApiError(400, "this is no HTTP request that can be read", code="invalid_http"))

    def _read_again(self, rest: bytes) -> None:
        """Read a request that asks for another protocol as one that does not; the parser stops before its body.

        Args:
            rest: What came after its headers.
        """
        lines = [self.parser.get_method(), b" ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                lines += [name, b": ", value, b"\r\n"]
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        self.data_received(b"".join([*lines, b"\r\n", rest]))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._read = 0
        if self._headers_due is None:
            self._headers_due = self._deadline()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        self._in_time()
        self._is_upgrade = self.parser.should_upgrade()
        if self._is_upgrade and (self._get_upgrade() == b"websocket" or self.parser.get_method() == b"CONNECT"):
            self._refuse(ApiError(400, "there is nothing but HTTP here; ask without `Upgrade`", code="no_upgrade"))
        if not self._is_refused and not self._is_upgrade:
            super().on_headers_complete()
            self._has_cycle = True

    def on_body(self, body: bytes) -> None:
        if not self._is_refused and not self._is_upgrade:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._body_over()
        if not self._is_refused and not self._is_upgrade:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.more_body:
            self._lingering = self.loop.call_later(_LINGER_S, self.transport.close)

    def _body_over(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

    def _count(self, size: int) -> None:
        before, self._read = self._read, self._read + size
        if before <= self.header_bytes < self._read:
            error = ApiError(
                431, f"the headers are larger than {self.header_bytes:,} bytes", code="headers_too_large"
            )
            self._refuse(error)

    def _deadline(self) -> TimerHandle:
        return self.loop.call_later(self.header_s, self._too_slow)

    def _in_time(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _too_slow(self) -> None:
        error = ApiError(408, f"the headers were not complete within {self.header_s:g} s", code="header_timeout")
        self._refuse(error)

    def _refuse(self, error: ApiError) -> None:
        """Answer and close, outside of any request; what is being answered before it still is."""
        if self._is_refused:
            return
        self._is_refused = True
        if self._has_cycle and not self.cycle.response_complete and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        path, headers = (self.url, self.headers) if self._read else (b"", [])
        form = form_for(path.decode("latin-1").partition("?")[0], request_headers(headers))
        body = json.dumps(form.error_body(error)).encode()
        head = (
            f"HTTP/1.1 {error.status} Error\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        if not self.transport.is_closing():
            self.transport.write(head.encode() + body)
            self.transport.close()


class GuardServer(uvicorn.Server):
    """Stops in two steps: `/readyz` says no for a while, then nothing new is taken and what is in flight finishes.

    Args:
        app: The application.
        settings: Settings of the server.
    """

    def __init__(self, app: GuardApp, settings: ServerSettings) -> None:
        limits: dict[str, Any] = {
            "header_s": settings.header_timeout_s,
            "header_bytes": settings.max_header_bytes,
        }
        super().__init__(
            uvicorn.Config(
                app,
                http=type("_Protocol", (_Protocol,), limits),
                ws="none",
                lifespan="on",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                log_config=None,
                log_level="warning",
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, int(settings.drain_s) + 2),
            )
        )
        self._service = app.service
        self._ready_s = settings.ready_s
        self._drain_s = settings.drain_s
        self._closing_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; the second signal does not wait for load balancers, the third for nothing."""
        if self._closing_at is not None:
            super().handle_exit(sig, frame)
            return
        self._captured_signals.append(sig)
        self._service.draining = True
        wait = 0.0 if sig == signal.SIGINT else self._ready_s
        self._closing_at = time.monotonic() + wait

    async def on_tick(self, counter: int) -> bool:
        """Tell whether to stop taking connections."""
        if self._closing_at is not None and time.monotonic() >= self._closing_at:
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; requests that are not finished after the drain get an error instead of a broken connection."""
        self._service.draining = True
        cutting = asyncio.ensure_future(self._cut())
        try:
            await super().shutdown(sockets)
        finally:
            cutting.cancel()
            with suppress(asyncio.CancelledError):
                await cutting

    async def _cut(self) -> None:
        await asyncio.sleep(self._drain_s)
        for work in list(self._service.running):
            work.cancel()


def serve(file: Path | None, flags: Mapping[str, Any], *, check: bool) -> None:
    """Serve until a signal comes, or only check the settings and say what they mean.

    Raises:
        ConfigurationError: If a setting cannot be used; the message names key, value and remedy.
    """
    settings = load_settings(file, flags)
    _say(*unknown_variables())
    service = service_of(settings)
    _require_upstream(service)
    settings, of_record = with_default_record(settings)
    app = app_of(settings, service)
    _say(*map(describe, service.guards), *_doubts(service), of_record, _exposure(settings, service))
    if check:
        _say("the configuration can be used")
        return
    sock = listening_socket(settings.host, settings.port)
    log_json_lines(level=getattr(logging, settings.log_level.upper()))
    _say(f"listening at {address(sock)}{'' if service.keys else ', without keys'}")
    if app.has_page:
        _say(f"the page is at {address(sock).removesuffix('v1')}")
    server = GuardServer(app, settings)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(server.serve([sock]))


def app_of(settings: ServerSettings, service: Service) -> GuardApp:
    """Return the application that settings describe.

    Raises:
        ConfigurationError: If the record or the page cannot be used.
    """
    record = record_of(settings)
    recording = None if record is None else Recording(record, {guard.name: guard for guard in service.guards})
    metrics = None
    if settings.metrics:
        metrics = Metrics() if recording is None else Metrics(recording.counts)
    service.observers = (*service.observers, *(one for one in (metrics, recording) if one is not None))
    passed = settings.pass_through
    return GuardApp(
        service,
        metrics=metrics,
        pass_through=passed if isinstance(passed, list) else ["*"] if passed else [],
        routes=page_of(settings, service, record),
        on_close=_nothing if recording is None else recording.close,
    )


def _nothing() -> None:
    """Close nothing."""


def address(sock: Any) -> str:
    """Return the base URL of a listening socket."""
    host, port, *_ = sock.getsockname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"


def describe(guard: Guard) -> str:
    """Return a line that says what a guard does."""
    policy = guard.loop.policy
    models = ", ".join(model.name for model in guard.judge.models)
    of_models = f" ({models})" if models else ""
    upstream = "no upstream, /v1/judge only" if guard.upstream is None else f"upstream {guard.upstream.origin}"
    unjudged = {"accept": "open", "reject": "best judged answer", "raise": "closed"}[policy.on_judge_error]
    served = f", models {', '.join(guard.models)}" if guard.models else ""
    certificate = "" if policy.certificate is None else f" by certificate {policy.certificate.id[:8]}"
    return (
        f"guard {guard.name}: judge {guard.judge.name}{of_models}, {upstream}, accepted from "
        f"{policy.success_rating}{certificate}, "
        f"at most {policy.max_attempts} attempts, without a verdict: {unjudged}{served}"
    )


def _exposure(settings: ServerSettings, service: Service) -> str:
    """Return a warning that others than this machine's users are let in without a key, if they are."""
    if service.keys or _is_loopback(settings.host):
        return ""
    own_key = any(guard.upstream and guard.upstream.credentials({}, "authorization") for guard in service.guards)
    price = ", at this server's expense" if own_key else ""
    return (
        f"warning: there are no keys, so whoever reaches {settings.host} is answered{price}; "
        f"`refine key NAME` makes a key, `--host 127.0.0.1` lets in this machine alone"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _doubts(service: Service) -> Iterator[str]:
    """Yield what certificates depend on and nobody can compare."""
    for guard in service.guards:
        yield from guard.doubts


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
        self.service = service_of(self._settings)
        self._socket = listening_socket(self._settings.host, self._settings.port)
        self._server = GuardServer(app_of(self._settings, self.service), self._settings)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="guard", daemon=True)

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return self._url

    def __enter__(self) -> Self:
        self._url = address(self._socket)
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
