"""Clients that leave: the call of the upstream ends with them, and nothing goes on in the background."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2

from tests.guarding import QUESTION, Guarded, guarding, wait_until
from tests.model_server import Asked, ModelServer, Reply, Wire, serving

HANG = Wire((), then="hang")
PATHS = ["/v1/chat/completions", "/v1/embeddings"]


def hanging(asked: Asked) -> Reply | Wire:
    """Answer nothing."""
    return HANG


async def leave(guard: Guarded, path: str, *, streamed: bool, after: ModelServer, calls: int) -> None:
    """Ask a question, and go once the upstream was asked."""
    host, port = guard.root.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps({"model": "m", "messages": QUESTION, "stream": streamed, "input": "x"}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    async with asyncio.timeout(10):
        while len(after.requests) < calls:  # noqa: ASYNC110 - the upstream runs in another thread
            await asyncio.sleep(0.002)
    writer.close()
    await writer.wait_closed()


async def test_nothing_outlives_the_client() -> None:
    """Of 12 times 20 clients that leave, no call of the upstream is left after a second, and no task."""
    with serving(hanging) as upstream, guarding(upstream.url, keep_alive_s=0.02) as guard:
        for path, streamed in [(PATHS[0], False), (PATHS[0], True), (PATHS[1], False)] * 4:
            calls = len(upstream.requests) + 20
            leaving = (leave(guard, path, streamed=streamed, after=upstream, calls=calls) for _ in range(20))
            await asyncio.gather(*leaving)
            await asyncio.to_thread(wait_until, lambda: upstream.open_connections == 0, seconds=1.0)
        assert guard.service.admission.in_flight == 0
        assert not guard.service.running
        left = guard.get("/metrics").text
        assert 'refine_requests_total{guard="default",outcome="left"} 240.0' in left


async def test_what_was_judged_before_the_client_left_is_on_record(tmp_path: Path) -> None:
    """The attempts are paid for: they are rows of the record, and counted, though nobody reads an answer."""
    file = tmp_path / "attempts.jsonl"

    def answer(asked: Asked) -> Reply | Wire:
        return Reply("bad") if asked["messages"] == QUESTION else HANG

    with serving(answer) as upstream, guarding(upstream.url, record=str(file), success_rating=4) as guard:
        await leave(guard, PATHS[0], streamed=False, after=upstream, calls=2)
        await asyncio.to_thread(wait_until, file.exists)
        await asyncio.to_thread(wait_until, lambda: file.read_text().endswith("\n"))
        metrics = guard.get("/metrics").text
    (row,) = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    assert (row["response"], row["metadata"]["stop_reason"]) == ("bad", "broken_off")
    assert 'refine_requests_total{guard="default",outcome="left"} 1.0' in metrics


async def test_a_client_that_leaves_while_it_sends() -> None:
    """A client that goes in the midst of its body costs nothing and asks nobody."""
    with serving(hanging) as upstream, guarding(upstream.url) as guard:
        host, port = guard.root.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        await writer.drain()
        await asyncio.to_thread(wait_until, lambda: guard.service.admission.in_flight == 1)
        writer.close()
        await asyncio.to_thread(wait_until, lambda: guard.service.admission.in_flight == 0)
        assert upstream.requests == []


def test_what_outlives_the_drain_ends_with_an_error() -> None:
    """Judged or not, a request that the upstream leaves without an answer is a 503 of the API's form."""
    body = {"model": "m", "messages": QUESTION}
    with serving(hanging) as upstream, ThreadPoolExecutor(len(PATHS)) as pool:
        with guarding(upstream.url, drain_s=0.1) as guard:
            waiting = [pool.submit(httpx2.post, f"{guard.root}{path}", json=body) for path in PATHS]
            wait_until(lambda: len(upstream.requests) == len(PATHS))
        for response in (one.result() for one in waiting):
            assert (response.status_code, response.json()["error"]["code"]) == (503, "shutting_down")
