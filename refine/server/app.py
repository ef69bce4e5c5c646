"""The application: which path is served by what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from refine.server import judge_route, litellm
from refine.server.forms import DIALECTS, refused
from refine.server.metrics import Metrics
from refine.server.operations import operations
from refine.server.passing import PREFIX, PassThrough
from refine.server.routes import JudgeRoute, LiteLLMRoute
from refine.server.service import JudgedRoute, Service


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
            judge_route.PATH: JudgeRoute(service),
            litellm.PATH: LiteLLMRoute(service),
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
