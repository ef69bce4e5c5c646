"""Looking a host up and connecting to it, however many addresses it has, take no longer than the timeout."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from judges import OpenAICompatible
from judges.models.providers.http_errors import EndpointConnectionError, EndpointTimeoutError
from judges.runtime.budget import Allowance, Refused
from judges.runtime.observation import within
from tests.kit import Hang
from tests.model_server import Reply, serving

REQUEST: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}


def chat(model: OpenAICompatible) -> Any:
    """Ask a model."""
    return model.chat(REQUEST)


def achat(model: OpenAICompatible) -> Any:
    """Ask a model without blocking."""

    async def ask() -> Any:
        async with model:
            return await model.achat(REQUEST)

    return asyncio.run(ask())


both = pytest.mark.parametrize("ask", [chat, achat])


@contextmanager
def full_listeners(count: int) -> Iterator[tuple[list[str], int]]:
    """Listen at several addresses of this machine that let nobody in, and yield them and their port."""
    with ExitStack() as stack:
        addresses = [f"127.0.0.{number}" for number in range(2, 2 + count)]
        port = 0
        for address in addresses:
            listener = stack.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(0)
            port = listener.getsockname()[1]
            for _ in range(3):
                waiting = stack.enter_context(socket.socket())
                waiting.settimeout(0)
                waiting.connect_ex((address, port))
        yield addresses, port


@pytest.fixture
def known_hosts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], list[str]]]:
    """Return a table of host names, each with what looks its addresses up, in place of the system's."""
    hosts: dict[str, Callable[[], list[str]]] = {}
    system = socket.getaddrinfo

    def look_up(host: str, port: Any, *details: Any, **settings: Any) -> Any:
        if host not in hosts:
            return system(host, port, *details, **settings)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in hosts[host]()]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return hosts


@both
def test_a_slow_lookup_ends_with_the_timeout(
    ask: Callable[..., Any], known_hosts: dict[str, Any], hang: Hang
) -> None:
    """Nobody waits for it, and neither does the end of the event loop; a nearer deadline counts."""

    def slow() -> list[str]:
        hang.wait()
        return ["127.0.0.1"]

    known_hosts["localhost"] = slow
    for timeout_s, deadline_s in ((0.2, None), (60.0, 0.2)):
        model = OpenAICompatible("http://localhost:9/v1", model="m", timeout_s=timeout_s, retries=0)
        with (
            pytest.raises((EndpointTimeoutError, Refused)),
            within(None if deadline_s is None else Allowance(seconds=deadline_s)),
        ):
            ask(model)


@both
def test_several_addresses_share_the_timeout(
    ask: Callable[..., Any], known_hosts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them answers: the first few take all the time there is, and the rest are not tried."""
    tried: list[Any] = []
    connect = socket.socket.connect

    def noted(self: socket.socket, address: Any) -> None:
        tried.append(address)
        connect(self, address)

    with full_listeners(40) as (addresses, port):
        monkeypatch.setattr(socket.socket, "connect", noted)
        known_hosts["localhost"] = lambda: addresses
        model = OpenAICompatible(f"http://localhost:{port}/v1", model="m", timeout_s=0.6, retries=0)
        with pytest.raises(EndpointTimeoutError):
            ask(model)
    assert 1 <= len(tried) < 10


@both
def test_the_next_address_is_tried_where_one_refuses(ask: Callable[..., Any], known_hosts: dict[str, Any]) -> None:
    """The host's own name goes out all the same; where there is no address, the error says so."""
    with serving(lambda _: Reply("Hello!")) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        known_hosts["localhost"] = lambda: ["127.0.0.9", "127.0.0.1"]
        model = OpenAICompatible(f"http://localhost:{port}/v1", model="m", retries=0)
        assert ask(model)["choices"][0]["message"]["content"] == "Hello!"
        assert server.requests[0]["headers"]["host"] == f"localhost:{port}"

        def unknown() -> list[str]:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        known_hosts["localhost"] = unknown
        model = OpenAICompatible(f"http://localhost:{port}/v1", model="m", retries=0)
        with pytest.raises(EndpointConnectionError):
            ask(model)


PROCESS = """
import asyncio, socket, sys, time

def slow(*details, **settings):
    time.sleep(20)
    print("waited out", flush=True)

socket.getaddrinfo = slow
from judges import OpenAICompatible

model = OpenAICompatible("http://slow.test/v1", model="m", timeout_s=0.2, retries=0)
request = {"messages": [{"role": "user", "content": "Hello"}]}
try:
    asyncio.run(model.achat(request)) if sys.argv[1] == "achat" else model.chat(request)
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("way", ["chat", "achat"])
def test_a_slow_lookup_does_not_hold_up_the_end_of_the_process(way: str) -> None:
    """The thread that waits for it is left behind."""
    done = subprocess.run([sys.executable, "-c", PROCESS, way], capture_output=True, text=True, check=True)
    assert done.stdout == "EndpointTimeoutError\n"
