"""OpenTelemetry from the environment: `OTEL_*` sets up what the guard traces, as it does for other services."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec

from judges.errors import ConfigurationError

_WANTED = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_NEEDS = {
    "otlp": ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "console": ("opentelemetry.sdk",),
}
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_SERVICE = "refine-guard"


def trace_as_the_environment_says(environment: Mapping[str, str] = os.environ) -> Callable[[], None]:
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
