"""A model server for tests: real HTTP on loopback, OpenAI's chat completions, faults and all, by script."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

Asked = dict[str, Any]
"""A request as a script sees it: its JSON body, with `method`, `path`, `authorization`, `headers`, `raw` added."""


@dataclass(frozen=True)
class Wire:
    """What goes over the connection, byte for byte.

    Args:
        parts: Bytes, sent one piece after another.
        pause_s: Seconds to wait before each piece.
        then: What becomes of the connection: it is kept for the next request, closed, reset, or left open without
            another byte.
    """

    parts: tuple[bytes, ...] = ()
    pause_s: float = 0.0
    then: Literal["keep", "close", "reset", "hang"] = "keep"

    @property
    def sent(self) -> bytes:
        """All the bytes."""
        return b"".join(self.parts)


def answered(
    body: object, *, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = "application/json"
) -> Wire:
    """Answer with a body: bytes as they are, anything else as JSON."""
    written = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = _head(status, {"content-type": kind, "content-length": len(written), **(headers or {})})
    return Wire((head + written,))


@dataclass(frozen=True)
class Reply:
    """A chat completion, sent in one piece, or as events where the client asked for a stream.

    Args:
        text: Text of the reply.
        calls: Tool calls, each a name and its arguments; arguments that are a text are sent as they are.
        status: HTTP status; other than 200 an error is sent, with `text` as its message.
        finish_reason: Why the reply ended; None takes what fits.
        usage: Tokens read and written.
        refusal: What a model says that refuses.
        headers: Headers besides the usual ones.
        delay_s: Seconds before the first byte.
    """

    text: str | None = None
    calls: tuple[tuple[str, dict[str, Any] | str], ...] = ()
    status: int = 200
    finish_reason: str | None = None
    usage: tuple[int, int] = field(default=(100, 10))
    refusal: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0

    def wire(self, asked: Asked) -> Wire:
        """Write the reply as the request wants it."""
        if self.status != HTTPStatus.OK:
            error = {"error": {"message": self.text or "error", "type": "invalid_request_error"}}
            return answered(error, status=self.status, headers=self.headers)
        if asked.get("stream"):
            return self._streamed(asked)
        choice = {"index": 0, "finish_reason": self._ended, "message": self._message()}
        return answered(self._completion(asked, [choice], usage=self._usage), headers=self.headers)

    def _streamed(self, asked: Asked) -> Wire:
        """Write one event for each word, one for the rest, one for the usage if it is wanted."""
        calls = [{"index": number, **call} for number, call in enumerate(self._calls())]
        last = {name: value for name, value in (("tool_calls", calls), ("refusal", self.refusal)) if value}
        deltas = [{"role": "assistant", "content": word} for word in re.findall(r"\S*\s*", self.text or "")]
        choices: list[dict[str, Any]] = [{"index": 0, "finish_reason": None, "delta": delta} for delta in deltas]
        choices.append({"index": 0, "finish_reason": self._ended, "delta": last})
        events = [self._completion(asked, [one]) for one in choices]
        if (asked.get("stream_options") or {}).get("include_usage"):
            events.append(self._completion(asked, [], usage=self._usage))
        head = _head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked", **self.headers})
        lines = [f"data: {json.dumps(one)}\n\n" for one in events]
        return Wire((head, *(_chunk(line.encode()) for line in [*lines, "data: [DONE]\n\n"]), _chunk(b"")))

    def _completion(self, asked: Asked, choices: list[dict[str, Any]], **more: object) -> dict[str, Any]:
        kind = "chat.completion.chunk" if asked.get("stream") else "chat.completion"
        return {"id": "r1", "object": kind, "created": 0, "model": asked["model"], "choices": choices, **more}

    def _message(self) -> dict[str, Any]:
        message = {"role": "assistant", "content": self.text, "refusal": self.refusal}
        return {**message, "tool_calls": self._calls()} if self.calls else message

    def _calls(self) -> list[dict[str, Any]]:
        written = [(name, one if isinstance(one, str) else json.dumps(one)) for name, one in self.calls]
        return [
            {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(written, 1)
        ]

    @property
    def _ended(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")

    @property
    def _usage(self) -> dict[str, int]:
        read, written = self.usage
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


Script = Callable[[Asked], Reply | Wire]
"""Makes the reply to a request; must not block."""


def in_turn(*replies: Reply | Wire) -> Script:
    """Make a script that gives replies in order, and the last one from then on."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


class ModelServer:
    """Serves chat completions on loopback, and remembers what was asked.

    Args:
        reply: Makes the reply to a request.

    Attributes:
        requests: What was asked, in order.
        connections: How many connections were opened.
        failures: What the script itself raised; `serving` raises the first.
    """

    def __init__(self, reply: Script) -> None:
        self.reply = reply
        self.requests: list[Asked] = []
        self.connections = 0
        self.failures: list[Exception] = []
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._port: int = self._socket.getsockname()[1]
        self._open: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        return len(self._open)

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def serve(self, closing: asyncio.Event) -> None:
        """Serve until closed, then drop every connection that is still open."""
        async with await asyncio.start_server(self._converse, sock=self._socket) as server:
            await closing.wait()
            server.close()
            left = dict(self._open)
            for task, writer in left.items():
                writer.transport.abort()
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        self.connections += 1
        try:
            kept = True
            while kept:
                kept = await self._answer(await _request(reader), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            """The client has gone, or the server is closing."""
        finally:
            del self._open[task]
            writer.close()

    async def _answer(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self.requests.append(asked)
        try:
            reply = self.reply(asked)
            wire = reply if isinstance(reply, Wire) else reply.wire(asked)
            delay_s = 0.0 if isinstance(reply, Wire) else reply.delay_s
        except Exception as error:  # noqa: BLE001 - raised again by `serving`
            self.failures.append(error)
            return False
        await asyncio.sleep(delay_s)
        for part in wire.parts:
            if wire.pause_s:
                await asyncio.sleep(wire.pause_s)
            writer.write(part)
            await writer.drain()
        if wire.then == "hang":
            await reader.read()
        if wire.then == "reset":
            _reset(writer)
        return wire.then == "keep"


@contextmanager
def serving(reply: Script) -> Iterator[ModelServer]:
    """Run a model server while the block runs; what its script raised is raised at the end."""
    server = ModelServer(reply)
    closing, loops = asyncio.Event(), [asyncio.new_event_loop()]

    def run() -> None:
        with asyncio.Runner(loop_factory=loops.pop) as runner:
            runner.run(server.serve(closing))

    loop = loops[0]
    thread = threading.Thread(target=run, name="model-server", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(closing.set)
        thread.join()
    if server.failures:
        raise server.failures[0]


def tools_of(asked: Asked) -> set[str]:
    """Name the tools a request offers."""
    return {tool["function"]["name"] for tool in asked.get("tools", ())}


async def _request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    is_json = headers.get("content-type", "application/json").startswith("application/json")
    body: Asked = json.loads(raw) if raw and is_json else {}
    method, path, _ = first.split(" ")
    asked = {"method": method, "path": path, "authorization": headers.get("authorization"), "headers": headers}
    return {**body, **asked, "raw": raw}


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close without a goodbye: the client reads a reset, not an end."""
    at_once = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    writer.transport.abort()


def _head(status: int, headers: Mapping[str, object]) -> bytes:
    lines = (f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{''.join(lines)}\r\n".encode("latin-1")


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
