"""A scripted chatbot behind an OpenAI-compatible server on loopback, for the demo of the guard."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_HASTY = "Just do it the usual way."
_ANSWERS = {
    "git": "Run `git reset --soft HEAD~1`, because --soft moves the branch back and leaves your files alone.",
    "Kenya": "Nairobi, because the government has had its seat there since 1907.",
    "egg": "Seven minutes, because by then the white is firm and the yolk still soft.",
}


class _Chatbot(BaseHTTPRequestHandler):
    """Answers hastily at first, and well once it is told what is missing."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together, or whoever waits for them is woken twice

    def do_POST(self) -> None:
        """Answer a chat completion."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._send({**_completion(request), "model": request.get("model", "chatbot")})

    def do_GET(self) -> None:
        """List the one model there is."""
        self._send({"object": "list", "data": [{"id": "chatbot", "object": "model"}]})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Keep the screen for the demo."""

    def _send(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _completion(request: dict[str, Any]) -> dict[str, Any]:
    messages = request["messages"]
    question = str(messages[0]["content"])
    good = next((answer for word, answer in _ANSWERS.items() if word in question), _HASTY)
    text = good if len(messages) > 1 else _HASTY
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 20, "completion_tokens": 20, "total_tokens": 40}
    return {"id": "demo", "object": "chat.completion", "created": 0, "choices": [choice], "usage": usage}


@contextmanager
def serving_upstream() -> Iterator[str]:
    """Serve the chatbot while the block runs, and yield its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Chatbot)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="chatbot", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
