"""The application: which path is served by what."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from refine.server.dialects import chat
from refine.server.service import JudgedRoute, Service


class GuardApp:
    """The ASGI application of the guard."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._judged: dict[str, ASGIApp] = {f"/v1{dialect.PATH}": JudgedRoute(dialect, service) for dialect in (chat,)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._judged[scope["path"]](scope, receive, send)
