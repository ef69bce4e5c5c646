"""A model server that costs next to nothing: `python -m tests.bench.instant_server` prints its port and serves.

The path says how long a reply takes: `/20/v1/chat/completions` is answered after 20 ms. Text is answered with
the draft that follows the one in the prompt, or its feedback; a request for an object with the assessment of a
draft: 4 for the third one, 2 for any other. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import PIPE, Popen
from typing import Any

DRAFTS = ("Draft 1.", "Draft 2.", "Draft 3.")
_FEEDBACK = ("Say why.", "Say how.", "Say when.")
"""What is said of each draft: a loop may show the generator this alone."""


def _response(message: dict[str, Any], finish_reason: str) -> bytes:
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 700, "completion_tokens": 60, "total_tokens": 760}
    told = {
        "id": "r1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    body = json.dumps(told).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _assessed(rating: int, feedback: str) -> tuple[bytes, bytes]:
    """Write an assessment as text and as a tool call."""
    written = json.dumps({"rationale": "It answers part of it. " * 5, "rating": rating, "feedback": feedback})
    call = {"id": "c1", "type": "function", "function": {"name": "Assessment", "arguments": written}}
    return (
        _response({"content": written}, "stop"),
        _response({"content": None, "tool_calls": [call]}, "tool_calls"),
    )


_ASSESSED = [_assessed(rating, feedback) for rating, feedback in zip((2, 2, 4), _FEEDBACK, strict=True)]
_DRAFTED = [_response({"content": draft}, "stop") for draft in DRAFTS]


def reply_to(body: bytes) -> bytes:
    """Choose the response to a request."""
    seen = _last_of(DRAFTS, body)
    text, call = _ASSESSED[max(seen, 1) - 1]
    if b'"response_format"' in body:
        return text
    if b'"tools"' in body:
        return call
    return _DRAFTED[min(max(seen, _last_of(_FEEDBACK, body)), 2)]


def _last_of(texts: Sequence[str], body: bytes) -> int:
    """Return the number of the last of these texts that a request holds; 0 where it holds none."""
    return max((number for number, text in enumerate(texts, 1) if text.encode() in body), default=0)


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, found, rest = self._read.partition(b"\r\n\r\n")
        if not found:
            return
        lower = head.lower()
        at = lower.index(b"content-length:") + 15
        length = int(lower[at:].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return
        self._read = rest[length:]
        reply = reply_to(rest[:length])
        milliseconds = int(head.split(b"/", 2)[1])
        if milliseconds:
            asyncio.get_running_loop().call_later(milliseconds / 1000, self._transport.write, reply)
        else:
            self._transport.write(reply)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def serving() -> Iterator[str]:
    """Run the server in a process of its own while the block runs, and give its root address."""
    with Popen([sys.executable, "-m", __name__], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()
            process.wait(10)


if __name__ == "__main__":
    asyncio.run(_serve())
