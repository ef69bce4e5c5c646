"""POSTs on connections: begun at once, over at the timeout whatever a server does, logged without paths."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from inspect import signature
from typing import Any

import aiohttp
import pytest
import urllib3
from aiohttp import ClientRequest
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import RawResponseMessage
from yarl import URL

from judges import Helpfulness, OpenAICompatible
from judges.models.providers.direct_post import DirectPost
from judges.models.providers.http_errors import (
    EndpointConnectionError,
    EndpointReplyError,
    EndpointResponse,
    EndpointTimeoutError,
)
from judges.runtime.budget import Allowance, Refused
from judges.runtime.observation import within
from judges.testing import no_waiting
from tests.kit import Hang, Way, ask, both_ways
from tests.model_server import Asked, Reply, Wire, answered, in_turn, serving

BODY = b'{"messages": []}'
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@asynccontextmanager
async def session(**settings: object) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session with a header of its own."""
    async with aiohttp.ClientSession(headers={"X-Own": "own", "X-Both": "session"}, **settings) as opened:  # type: ignore[arg-type]  # settings of a session
        yield opened


async def posted(
    opened: aiohttp.ClientSession, url: str, *, headers: dict[str, str] | None = None, seconds: float | None = 20
) -> EndpointResponse:
    """Post a body to a server that may send 100 bytes."""
    post = DirectPost(URL(f"{url}/chat/completions"), most_bytes=100)
    return await post(opened, BODY, headers, seconds=seconds)


async def test_interim_and_chunked_and_endless_responses_are_read_to_their_end() -> None:
    """Interim responses are passed over; a body has its length, comes in chunks, or ends with the connection."""
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
    replies = in_turn(
        Wire((b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n", OK)),
        Wire((chunked,)),
        Wire((b"HTTP/1.1 200 OK\r\n\r\no", b"k"), then="close"),
        Wire((b"HTTP/1.1 204 No Content\r\n\r\n",)),
    )
    with serving(replies) as server:
        async with session() as opened:
            received = [await posted(opened, server.url) for _ in range(4)]
    assert [(reply.status, reply.body) for reply in received] == [(200, b"ok")] * 3 + [(204, b"")]
    assert server.connections == 2, "connections that can be used again were not"


async def test_a_request_has_its_own_headers_before_those_of_the_session() -> None:
    """A header of a request stands in the place of the session's; no header can begin another one."""
    with serving(lambda _: Wire((OK,))) as server:
        async with session() as opened:
            await posted(opened, server.url, headers={"x-both": "request"})
            for broken in ("a\r\nx-forged: 1", "a\nb", "a\rb", "a\0"):
                with pytest.raises(ValueError, match="a line break or a null byte"):
                    await posted(opened, server.url, headers={"x-both": broken})
    assert len(server.requests) == 1, "a request with a forged header was sent"
    headers = server.requests[0]["headers"]
    assert (headers["x-own"], headers["x-both"], headers["content-length"]) == ("own", "request", str(len(BODY)))


async def test_what_is_no_response_is_an_error_and_closes_the_connection() -> None:
    """A reply that is too large, none in time, no HTTP, and a connection that breaks are distinguished."""
    large = b"HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n" + b"x" * 101
    swelling = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"64\r\n" + b"x" * 100 + b"\r\n"
    cases: list[tuple[Wire, type[Exception]]] = [
        (Wire((large,)), EndpointReplyError),
        (Wire((swelling, b"1\r\nx\r\n0\r\n\r\n")), EndpointReplyError),
        (Wire((), then="hang"), TimeoutError),
        (Wire((b"SMTP ready\r\n\r\n",)), aiohttp.ClientResponseError),
        (Wire((b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",), then="close"), aiohttp.ClientPayloadError),
        (Wire((), then="close"), aiohttp.ServerDisconnectedError),
    ]
    with serving(in_turn(*(wire for wire, _ in cases))) as server:
        async with session() as opened:
            for wire, error in cases:
                with pytest.raises(error):
                    await posted(opened, server.url, seconds=0.3 if wire.then == "hang" else 20)
            assert server.connections == len(cases)


async def test_whoever_listens_to_a_session_hears_of_its_posts() -> None:
    """A session with trace configs, as instrumentation makes it, tells them of each request."""
    heard: list[str] = []

    async def started(_: object, __: object, params: aiohttp.TraceRequestStartParams) -> None:
        heard.append(params.method)

    tracing = aiohttp.TraceConfig()
    tracing.on_request_start.append(started)

    with serving(lambda _: Wire((OK,))) as server:
        async with session(trace_configs=[tracing]) as opened:
            assert (await posted(opened, server.url)).body == b"ok"
    assert heard == ["POST"]


def test_what_is_not_public_of_aiohttp_is_as_it_is_used() -> None:
    """A new version of aiohttp that calls its parts otherwise fails here, and not first in a post."""
    used: dict[Callable[..., object], set[str]] = {
        ResponseHandler.set_response_params: {
            "read_until_eof",
            "auto_decompress",
            "max_line_size",
            "max_field_size",
        },
        ClientRequest.__init__: {"method", "url", "headers", "skip_auto_headers", "loop", "session"},
        aiohttp.BaseConnector.connect: {"req", "traces", "timeout"},
    }
    for part, names in used.items():
        assert names <= signature(part).parameters.keys(), part
    assert list(signature(ResponseHandler.read).parameters) == ["self"]
    assert "connection_key" in dir(ClientRequest)
    assert {"code", "headers"} <= set(dir(RawResponseMessage))
    assert {"protocol", "transport", "release", "close"} <= set(dir(Connection))


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


WRITTEN = json.dumps({"rationale": "r", "rating": 4, "feedback": ""})
BROKEN_HEADERS = Wire((b"HTTP/1.1 500 Bad\r\ncontent-length: 2\r\nno colon here\r\nx: y\r\n\r\n{}",), then="close")


@pytest.mark.parametrize(
    "reply",
    [Reply(WRITTEN), answered({"error": "bad"}, status=500), Wire(then="reset"), BROKEN_HEADERS],
    ids=["good", "error", "reset", "headers"],
)
@both_ways
async def test_path_and_query_are_in_no_log(
    reply: Reply | Wire, way: Way, caplog: pytest.LogCaptureFixture
) -> None:
    """A key may stand in either; at level DEBUG the log has host and status, and no more of the address."""
    caplog.set_level(logging.DEBUG)
    with serving(lambda _: reply) as server, no_waiting():
        address = f"{server.url}/deploy-xyzzy?code=key-plugh&api-version=1"
        async with OpenAICompatible(address, model="m", api_key="sk-quux") as model:
            judge = Helpfulness(model)
            _ = await ask(judge, way, response="a")
        assert "xyzzy" in server.requests[0]["path"] or not server.requests
    assert not [word for word in ("xyzzy", "plugh", "quux") if word in caplog.text]
    if way == "sync" and isinstance(reply, Reply):
        assert '"POST /... HTTP/1.1" 200' in caplog.text


def test_requests_of_others_are_logged_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    """Only our own requests are hidden."""
    caplog.set_level(logging.DEBUG)
    with serving(lambda _: Reply(WRITTEN)) as server, OpenAICompatible(server.url, model="m", api_key="") as model:
        Helpfulness(model)(response="a")
        with urllib3.PoolManager() as pool:
            pool.request("POST", f"{server.url}/chat/completions?theirs", body=b'{"model": "m", "messages": []}')
    assert "?theirs" in caplog.text


Script = Callable[[], Iterable[bytes]]

HEAD = b"HTTP/1.1 200 HEAD\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def drips(before: bytes, drop: bytes) -> Script:
    """Send something at once, and then a drop again and again."""
    return lambda: itertools.chain([before], itertools.repeat(drop))


SCRIPTS: dict[str, Script] = {
    "status line": drips(b"HTTP/1.1 200 ", b"O"),
    "header": drips(HEAD, b"x"),
    "headers": drips(HEAD, b"a: b\r\n"),
    "body": drips(HEAD + b"Content-Length: 5000\r\n\r\n", b"x"),
    "body to the end": drips(HEAD + b"Connection: close\r\n\r\n", b"x"),
    "size of a chunk": drips(CHUNKED, b"0"),
    "extension of a chunk": drips(CHUNKED + b"5;", b"x"),
    "chunks": drips(CHUNKED, b"1\r\nx\r\n"),
    "trailer": drips(CHUNKED + b"0\r\n", b"x"),
    "trailers": drips(CHUNKED + b"0\r\n", b"x: y\r\n"),
    "100 Continue": drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "nothing": drips(b"", b""),
    "flood": drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
}
MOST_DROPS = 400
"""How many drops there are: they take twenty seconds, at the least."""

MOST_AT_ONCE = 1_000_000
"""How many there are without a pause: more than a connection holds, and than is read in seconds."""


@contextmanager
def dripping(script: Script, pause_s: float = 0.05) -> Iterator[str]:
    """Serve a script to each connection, and yield the address."""
    over = threading.Event()

    def reply(connection: socket.socket) -> None:
        with connection:
            connection.recv(65_536)
            try:
                for part in script():
                    connection.sendall(part)
                    if over.wait(pause_s):
                        return
            except OSError:
                return

    def accept() -> None:
        with listener:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                threading.Thread(target=reply, args=[connection], daemon=True).start()

    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    port = listener.getsockname()[1]
    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        over.set()
        accepting.join()


def breach_of(where: str, *, timeout_s: float = 0.3, deadline_s: float | None = None) -> str | None:
    """Ask once, and return what was said if it was no timeout, or came only when the script was over."""
    over: list[str] = []
    most, pause_s = (MOST_AT_ONCE, 0.0) if where == "flood" else (MOST_DROPS, 0.05)

    def script() -> Iterator[bytes]:
        yield from itertools.islice(SCRIPTS[where](), most)
        over.append(where)

    with (
        dripping(script, pause_s) as url,
        OpenAICompatible(url, model="m", timeout_s=timeout_s, retries=0) as model,
        within(None if deadline_s is None else Allowance(seconds=deadline_s)),
    ):
        verdict = Helpfulness(model)(question="q", answer="an answer that is long enough")
        in_time = verdict.unscored == "deadline" or (
            verdict.unscored == "judge_failed" and "Timeout" in verdict.detail
        )
        return None if in_time and not over else f"{where}: {verdict.unscored} {verdict.detail} {over}"


def test_a_dripping_reply_ends_with_the_timeout() -> None:
    """Wherever it drips, and without a pause too, the exchange takes no longer; a nearer deadline counts."""
    with ThreadPoolExecutor(len(SCRIPTS)) as threads:
        assert [breach for breach in threads.map(breach_of, SCRIPTS) if breach] == []
    assert breach_of("header", timeout_s=60, deadline_s=0.3) is None


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
import asyncio, socket, time

def slow(*details, **settings):
    time.sleep(20)
    print("waited out", flush=True)

socket.getaddrinfo = slow
from judges import OpenAICompatible

model = OpenAICompatible("http://slow.test/v1", model="m", timeout_s=0.2, retries=0)
request = {"messages": [{"role": "user", "content": "Hello"}]}
for ask in (lambda: model.chat(request), lambda: asyncio.run(model.achat(request))):
    try:
        ask()
    except Exception as error:
        print(type(error).__name__)
"""


def test_a_slow_lookup_does_not_hold_up_the_end_of_the_process() -> None:
    """The threads that wait for it, of a call that blocks and of one that does not, are left behind."""
    done = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, check=True)
    assert done.stdout == "EndpointTimeoutError\n" * 2
