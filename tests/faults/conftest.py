"""The stage of the fault tests: real clients, a model server, an address where nobody listens."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from tests.faults.catalogue import good
from tests.faults.stage import Stage
from tests.model_server import serving


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    """See every thread end that was left to itself at a deadline, once the server has gone."""
    yield
    left = [one for one in threading.enumerate() if one.name in ("refine-call", "model-server")]
    for thread in left:
        thread.join(timeout=2)
    assert [one.name for one in left if one.is_alive()] == []


@pytest.fixture
def nobody() -> Iterator[str]:
    """Give an address that refuses connections: bound, so that nobody else takes it, and not listening."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


@pytest.fixture
async def stage(nobody: str) -> AsyncIterator[Stage]:
    """Set up a model server, without faults at first, and clients for it."""
    async with httpx2.AsyncClient(verify=False) as aclient:
        with httpx2.Client(verify=False) as client, serving(good) as server:
            one = Stage(server, nobody, client, aclient)
            yield one
            await one.close()
