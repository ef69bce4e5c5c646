"""Whether requests at once stay apart: `python -m tests.bench.guard_isolation --requests 10000`.

Each request has a marker of its own, and is answered at the second attempt, after feedback that repeats the
marker; the upstream takes so long that all are in flight together. Printed are the markers that stood in the
prompt, the feedback or the answer of another request, or in the log of `refine serve`: there must be none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import PIPE, Popen
from typing import Any

from tests.bench.guard_memory import guard

MARKER = re.compile(r"marker-[0-9a-f]{16}")
_GENERATING_S = 3.0
_AT_ONCE = 500
"""Connections that are opened side by side."""


def reply_to(body: str) -> tuple[dict[str, Any], float]:
    """Answer a prompt, or judge an answer: the first of a request is refused. Returns how long that takes, too."""
    marker, second = MARKER.findall(body)[-1], "Better" in body
    if '"response_format"' in body:
        feedback = "" if second else f"Say more of {marker}."
        return {"rationale": f"About {marker}.", "rating": 4 if second else 2, "feedback": feedback}, 0.0
    return {"text": f"{'Better' if 'Say more' in body else 'First'} words on {marker}."}, _GENERATING_S


class Upstream(asyncio.Protocol):
    """One connection to the upstream, which is the judge's model, too."""

    mixed = 0
    asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._read = transport, b""

    def data_received(self, data: bytes) -> None:
        """Answer each request."""
        self._read += data
        head, _, rest = self._read.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        if length is None or len(rest) < int(length[1]):
            return
        self._read, body = b"", rest.decode()
        Upstream.asked += 1
        Upstream.mixed += len(set(MARKER.findall(body))) != 1
        reply, seconds = reply_to(body)
        text = reply.get("text") or json.dumps(reply)
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        written = json.dumps({"object": "chat.completion", "model": "m", "choices": [choice]}).encode()
        sent = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
            len(written),
            written,
        )
        asyncio.get_running_loop().call_later(seconds, self._transport.write, sent)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(Upstream.asked, Upstream.mixed, flush=True)


@contextmanager
def upstream() -> Iterator[tuple[str, list[str]]]:
    """Run the upstream in a process of its own; yields its address, and at the end what it counted."""
    counted: list[str] = []
    with Popen(
        [sys.executable, "-m", "tests.bench.guard_isolation", "--serve"], stdin=PIPE, stdout=PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}", counted
        process.stdin.close()
        counted += process.stdout.read().split()


async def ask(port: int, opening: asyncio.Semaphore) -> str:
    """Ask with a marker, and return what came of it."""
    marker = f"marker-{secrets.token_hex(8)}"
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"Tell me of {marker}."}]}).encode()
    async with opening:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    received = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: (\d+)", received)
    assert length is not None
    text = (await reader.readexactly(int(length[1]))).decode()
    writer.close()
    if b" 200 " not in received.split(b"\r\n")[0]:
        return "no answer"
    markers = set(MARKER.findall(text))
    return "its own" if markers == {marker} and "Better" in text else f"mixed: {len(markers)} markers"


async def ask_all(port: int, requests: int) -> Counter[str]:
    """Ask so many questions at once."""
    opening = asyncio.Semaphore(_AT_ONCE)
    return Counter(await asyncio.gather(*(ask(port, opening) for _ in range(requests))))


def main() -> None:
    """Ask and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000, help="requests at once (default 1,000)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(_serve())
        return
    os.environ["REFINE_MAX_IN_FLIGHT"] = os.environ["REFINE_MAX_IN_FLIGHT_PER_KEY"] = str(options.requests)
    log: list[str] = []
    with upstream() as (root, counted), guard(root, "--max-attempts", "2", log=log) as (port, _):
        started = time.perf_counter()
        ends = asyncio.run(ask_all(port, options.requests))
        seconds = time.perf_counter() - started
    print(f"{options.requests:,} requests at once in {seconds:.1f} s")
    print(f"answers: {dict(ends)}")
    print(f"prompts: {counted[0]}, of them with another request's marker: {counted[1]}")
    print(f"lines of the log with a marker: {sum(MARKER.search(line) is not None for line in log)} of {len(log)}")


if __name__ == "__main__":
    main()
