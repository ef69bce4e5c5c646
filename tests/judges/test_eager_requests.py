"""The direct client's requests are on their way before the event loop turns to anything else."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

from judges import OpenAICompatible
from tests.model_server import Asked, Reply, serving

FEW, MANY = 80_000, 700_000


def long(times: int) -> dict[str, Any]:
    """Make a long request."""
    return {"messages": [{"role": "user", "content": "Say hello. " * times}]}


async def test_a_request_is_sent_while_the_loop_is_still_busy() -> None:
    """A request over an open connection arrives before the event loop's next turn."""
    arrived = threading.Event()

    def reply(_: Asked) -> Reply:
        arrived.set()
        return Reply("hello")

    with serving(reply) as server:
        async with OpenAICompatible(server.url, model="m", api_key="k") as client:
            await client.achat(long(1))
            arrived.clear()
            call = asyncio.create_task(client.achat(long(1)))
            await asyncio.sleep(0)  # the call begins, and waits for its reply
            assert arrived.wait(20), "nothing arrived while the loop stood still"
            assert (await call)["choices"][0]["message"]["content"] == "hello"


async def test_what_a_connection_does_not_take_at_once_is_sent_as_it_is_read() -> None:
    """Long requests arrive whole, also several side by side."""
    with serving(lambda asked: Reply(str(len(asked["messages"][0]["content"])))) as server:
        async with OpenAICompatible(server.url, model="m", api_key="k") as client:
            calls = [client.achat(long(times)) for times in (FEW, MANY, FEW, MANY)]
            completions = await asyncio.gather(*calls)
    lengths = [int(completion["choices"][0]["message"]["content"]) for completion in completions]
    assert lengths == [len("Say hello. ") * times for times in (FEW, MANY, FEW, MANY)]


async def test_a_request_that_is_given_up_half_sent_closes_its_connection() -> None:
    """A server that stops reading loses its connection when the call is cancelled."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        async with OpenAICompatible(url, model="m", api_key="k") as client:
            call = asyncio.create_task(client.achat(long(MANY)))
            connection, _ = await asyncio.to_thread(listening.accept)
            await asyncio.sleep(0.05)
            call.cancel()
            assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], asyncio.CancelledError)
            with connection:
                received = await asyncio.to_thread(_everything, connection)
    assert 0 < received < len("Say hello. ") * MANY


def _everything(connection: socket.socket) -> int:
    """Return how many bytes come until the end of a connection."""
    connection.settimeout(20)
    received = 0
    try:
        while part := connection.recv(65_536):
            received += len(part)
    except ConnectionResetError:
        """The other side closed it with bytes unsent."""
    return received
