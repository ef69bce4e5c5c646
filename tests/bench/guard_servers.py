"""The servers that `tests.bench.guard` compares: `python -m tests.bench.guard_servers NAME URL` runs one of them.

`raw_proxy` and `proxy` (a route of Starlette) pass requests on and do nothing else; `two_calls` makes a call of a
judge's size after that, and reads nothing; `judging` passes requests on and asks the judge, without any loop;
`guard` is the guard, `logged_guard` writes its log, too; `chat_openai` is the same loop over LangChain's client.
Each prints its port, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from judges import Helpfulness, OpenAICompatible
from judges.models.structured import response_format
from refine.server.assembly import make_service
from refine.server.config import load_settings
from refine.server.running import _begin_log, _keep_for_good, _make_app, listening_socket

ATTEMPTS = 3


def guard(url: str) -> ASGIApp:
    """Make the guard."""
    flags: dict[str, Any] = {
        "upstream": url,
        "judge": "helpfulness",
        "judge_base_url": url,
        "judge_model": "m",
        "success_rating": 4,
        "max_attempts": ATTEMPTS,
    }
    settings = load_settings(None, flags)
    app = _make_app(settings, make_service(settings))
    _keep_for_good()
    return app


def logged_guard(url: str) -> ASGIApp:
    """Make the guard with the log that it writes by default, an access line for each request."""
    _begin_log("info")
    return guard(url)


class Plain:
    """Takes a body, makes a reply of it, and sends that."""

    async def reply_to(self, body: bytes) -> bytes:
        """Return the reply to a request."""
        raise NotImplementedError

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        reply = await self.reply_to(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(reply)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": reply})


class RawProxy(Plain):
    """Passes requests on, and does nothing else, without any framework."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def reply_to(self, body: bytes) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=4096))
        headers = {"content-type": "application/json"}
        async with self._session.post(f"{self._url}/chat/completions", data=body, headers=headers) as response:
            return await response.read()


class TwoCalls(RawProxy):
    """Passes requests on and makes a judge's call, reading neither: what two calls and a server cost at least."""

    def __init__(self, url: str) -> None:
        from tests.bench.judging import Assessment, asked  # noqa: PLC0415 - slow to load

        super().__init__(url)
        fields = {"model": "m", "temperature": 0.0, "response_format": response_format(Assessment)}
        self._judging = json.dumps({**fields, "messages": asked()}).encode()

    async def reply_to(self, body: bytes) -> bytes:
        reply = await super().reply_to(body)
        await super().reply_to(self._judging)
        return reply


class Judging(RawProxy):
    """Passes requests on and asks the judge about the answer, whatever it says: no loop, nothing is checked."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._judge = Helpfulness(OpenAICompatible(url, model="m", api_key="none"))

    async def reply_to(self, body: bytes) -> bytes:
        reply = await super().reply_to(body)
        question = json.loads(body)["messages"][-1]["content"]
        draft = json.loads(reply)["choices"][0]["message"]["content"]
        await self._judge.acall(user_input=question, response=draft)
        return reply


def proxy(url: str) -> ASGIApp:
    """Make the usual proxy: a route of Starlette that passes requests on, and does nothing else."""
    raw = RawProxy(url)

    async def passed(request: Request) -> Response:
        return Response(await raw.reply_to(await request.body()), media_type="application/json")

    return Starlette(routes=[Route("/v1/chat/completions", passed, methods=["POST"])])


class ChatOpenAILoop(Plain):
    """The loop over LangChain's client, for both generator and judge."""

    def __init__(self, url: str) -> None:
        from langchain_openai import ChatOpenAI  # noqa: PLC0415 - slow to load, and for this server alone

        from refine import SelfRefine  # noqa: PLC0415 - as above

        model: Any = ChatOpenAI(model="m", base_url=url, api_key="none", max_retries=0)  # type: ignore[arg-type]  # a text will do
        self._refiner = SelfRefine(model, Helpfulness(model), success_rating=4, max_attempts=ATTEMPTS)

    async def reply_to(self, body: bytes) -> bytes:
        answer = await self._refiner.ainvoke(json.loads(body)["messages"])
        return json.dumps({"choices": [{"message": {"content": answer.text}}]}).encode()


SERVERS: dict[str, Callable[[str], ASGIApp]] = {
    "raw_proxy": RawProxy,
    "proxy": proxy,
    "two_calls": TwoCalls,
    "judging": Judging,
    "guard": guard,
    "logged_guard": logged_guard,
    "chat_openai": ChatOpenAILoop,
}


async def _serve(app: ASGIApp) -> None:
    sock = listening_socket("127.0.0.1", 0)
    config = uvicorn.Config(
        app, access_log=False, log_level="error", lifespan="off", ws="none", proxy_headers=False
    )
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve([sock]))
    print(sock.getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving
    os._exit(0)  # connections to the upstream need no goodbye


if __name__ == "__main__":
    os.environ["LANGSMITH_TRACING"] = "false"
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(SERVERS[sys.argv[1]](sys.argv[2])))
