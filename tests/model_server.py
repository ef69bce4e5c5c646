"""A model server for tests: real HTTP on loopback, OpenAI's chat completions, replies made by a function."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """What the server sends.

    Args:
        text: Text of the reply.
        calls: Tool calls, each a name and its arguments.
        status: HTTP status; other than 200 an error is sent, with `text` as its message.
        finish_reason: Why the reply ended; None takes what fits.
    """

    text: str | None = None
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    status: int = 200
    finish_reason: str | None = None
    usage: tuple[int, int] = field(default=(100, 10))

    def body(self, model: str) -> dict[str, Any]:
        """Write the reply as a chat completion."""
        if self.status != 200:
            return {"error": {"message": self.text or "error", "type": "invalid_request_error"}}
        asked, written = self.usage
        calls = [
            {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for number, (name, arguments) in enumerate(self.calls, 1)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        return {
            "id": "r1",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": self.finish_reason or ("tool_calls" if calls else "stop"),
                    "message": {**message, "tool_calls": calls} if calls else message,
                }
            ],
            "usage": {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written},
        }


class ModelServer(ThreadingHTTPServer):
    """Serves chat completions on loopback, and remembers what was asked.

    Args:
        reply: Makes the reply to a request (the JSON body, with `path` and `authorization` added).
    """

    daemon_threads = True

    def __init__(self, reply: Callable[[dict[str, Any]], Reply]) -> None:
        super().__init__(("127.0.0.1", 0), _ChatCompletions)
        self.reply = reply
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class _ChatCompletions(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        assert isinstance(self.server, ModelServer)
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked |= {"path": self.path, "authorization": self.headers["authorization"]}
        self.server.requests.append(asked)
        reply = self.server.reply(asked)
        body = json.dumps(reply.body(asked["model"])).encode()
        self.send_response(reply.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Keep quiet."""


@contextmanager
def serving(reply: Callable[[dict[str, Any]], Reply]) -> Iterator[ModelServer]:
    """Run a model server while the block runs."""
    with ModelServer(reply) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def tools_of(asked: dict[str, Any]) -> set[str]:
    """Name the tools a request offers."""
    return {tool["function"]["name"] for tool in asked.get("tools", ())}
