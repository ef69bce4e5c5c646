"""What `refine serve` does: read the settings, make everything, say where it is, serve until a signal comes."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from judges.errors import ConfigurationError
from refine.logs import log_json_lines
from refine.server.app import GuardApp
from refine.server.building import service_of
from refine.server.config import ServerSettings, load_settings, unknown_variables
from refine.server.guards import Guard
from refine.server.metrics import Metrics
from refine.server.recording import Recording, page_of, record_of, with_default_record
from refine.server.service import Service
from refine.server.socket_server import GuardServer, listening_socket


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
    _say(*map(describe, service.guards), *_doubts(service), of_record, exposure(settings, service))
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


def exposure(settings: ServerSettings, service: Service) -> str:
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
