"""Routes that judge what others generated."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from refine.server import judge_route, litellm
from refine.server.dialects import chat
from refine.server.dialects.protocol import Json
from refine.server.guards import Guard
from refine.server.keys import Caller
from refine.server.responder import Client, Reply, respond
from refine.server.service import Exchange, PostRoute, Service, unexpected


class JudgeRoute(PostRoute):
    """`POST /v1/judge`: a verdict on a given exchange."""

    def __init__(self, service: Service) -> None:
        super().__init__(service, chat)

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> Reply | None:
        """Judge one row; see the base class."""
        guard = exchange.choose_guard("", caller)
        return await _respond(judge_route.judge(guard, body), client, self._service)


class LiteLLMRoute(PostRoute):
    """LiteLLM's generic guardrail."""

    def __init__(self, service: Service) -> None:
        super().__init__(service, chat)

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> Reply | None:
        """Check the texts of a response; see the base class."""
        guard = exchange.choose_guard("", caller, litellm.guard_named(body))
        work = litellm.check(guard, body, self._headers(exchange, guard, caller))
        return await _respond(work, client, self._service)

    def _headers(self, exchange: Exchange, guard: Guard, caller: Caller) -> dict[str, str]:
        return {} if guard.upstream is None else exchange.upstream_headers(guard, caller, chat.KEY_HEADER)


async def _respond(work: Coroutine[Any, Any, Reply], client: Client, service: Service) -> Reply | None:
    return await respond(work, client, chat, keep_alive_s=None, catch=unexpected, running=service.running)
