"""Routes for whoever operates the server: health, readiness, metrics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from refine.server.metrics import CONTENT_TYPE, Metrics
from refine.server.service import Service


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
